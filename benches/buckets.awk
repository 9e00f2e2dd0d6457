# The second half of chain.awk: counts its lines by operation and size, as
# `nccl-hist --format awk` prints them.
#
#   gawk -b -f benches/chain.awk nccl.log | gawk -b -f benches/buckets.awk

{
    if ($4 < 65536)
        bucket = "<64KB"
    else if ($4 < 1048576)
        bucket = "64KB-1MB"
    else if ($4 < 16777216)
        bucket = "1MB-16MB"
    else
        bucket = ">16MB"
    calls[$1 ":" bucket]++
}

END {
    for (key in calls)
        print key, calls[key]
}
