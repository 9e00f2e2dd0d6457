# What an AWK user writes to read NCCL's calls: for each COLL line its operation, count, datatype
# and bytes, the fields that `nccl-comms --format awk` prints. Only a baseline for compare.sh:
# it takes a cut line as it comes and says nothing about it.
#
#   gawk -b -f benches/chain.awk nccl.log

BEGIN {
    names = "int8 uint8 int32 uint32 int64 uint64 fp16 fp32 fp64 bf16 fp8_e4m3 fp8_e5m2"
    sizes = "1 1 4 4 8 8 2 4 8 2 1 1"
    n = split(names, name)
    split(sizes, size)
    for (i = 1; i <= n; i++) {
        type[i - 1] = name[i]
        width[i - 1] = size[i]
    }
}

/: opCount / {
    for (i = 2; i < NF; i++) {
        if ($i == "opCount")
            op = substr($(i - 1), 1, length($(i - 1)) - 1)
        else if ($i == "count")
            count = $(i + 1)
        else if ($i == "datatype") {
            code = $(i + 1)
            break
        }
    }
    printf "%s %s %s %.0f\n", op, count, type[code], count * width[code]
}
