#!/usr/bin/env bash
# How fast the programs are, beside ripgrep, wc and gawk in the same run: one markdown table.
#
#   benches/compare.sh                       1 GB, in a temporary folder that is removed
#   SIZE=100M RUNS=3 benches/compare.sh      a quick look
#   WORK=/scratch/bench benches/compare.sh   keeps the logs there, and takes them from there
#   FULL=1 benches/compare.sh                also 10 GB (needs 11 GB more in $WORK)
#   BIN=/path/to/programs                    programs that are already built
#
# The logs come from nccl-synth, so what is in them is known: every program's answer is held
# against it before anything is timed. Needs about 4 x SIZE in $WORK and reads everything once
# before it times, so that the page cache is warm. Commands that are compared run in turns (A B C,
# A B C, ...): a machine that slows down slows all of them. A time is the median of RUNS (5), a
# ratio is the median over the turns of the ratio within a turn. GB are 10^9 bytes.
#
# What is missing (ripgrep, gawk) is installed with apt-get where that is possible.
set -euo pipefail
export LC_ALL=C

SIZE=${SIZE:-1G}
RUNS=${RUNS:-5}
FULL=${FULL:-0}
root=$(cd "$(dirname "$0")/.." && pwd)

say() { printf 'compare: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 2
}

if [[ -n ${WORK:-} ]]; then
    mkdir -p "$WORK"
else
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
WORK=$(cd "$WORK" && pwd)

# ---- what is needed ------------------------------------------------------------------------

need() { # program, package
    command -v "$1" >/dev/null && return
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        say "installing $2"
        apt-get install -qq -y "$2" >/dev/null 2>&1 ||
            { apt-get update -qq && apt-get install -qq -y "$2"; } >/dev/null 2>&1 || true
    fi
    command -v "$1" >/dev/null || die "$1 is missing: install the package $2"
}
need rg ripgrep
need gawk gawk

if [[ -z ${BIN:-} ]]; then
    say "building the programs"
    (cd "$root" && cargo build --release --locked --bins >&2)
    BIN=${CARGO_TARGET_DIR:-$root/target}/release
fi
PATH=$BIN:$PATH
for program in nccl-{steps,comms,ops,hist,agg,synth}; do
    command -v "$program" >/dev/null || die "$program is not in $BIN"
done

# ---- small things --------------------------------------------------------------------------

calc() { awk "BEGIN { printf \"$1\", $2 }"; }
holds() { awk "BEGIN { exit !($1) }"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
size() { wc -c <"$1"; }
same() { [[ $1 == "$2" ]] || die "$3: found $1, expected $2"; }

declare -A command times

# Times a command once, in microseconds. It runs in this shell: only its own start counts. To empty
# the call table of the turn before takes the kernel as long as a third of a new one: that is not
# the program's time.
once() {
    [[ $1 == comms* ]] && rm -f "$WORK/calls.csv"
    local from=$EPOCHREALTIME to
    eval "${command[$1]}" 2>"$WORK/stderr" || {
        cat "$WORK/stderr" >&2
        die "failed: ${command[$1]}"
    }
    to=$EPOCHREALTIME
    times[$1]+="$((${to/./} - ${from/./})) "
}

# Runs commands in turns: one turn that does not count, then as many as asked for.
turns() { # how many, names
    local n=$1 i name
    shift
    for ((i = 0; i <= n; i++)); do
        for name in "$@"; do
            once "$name"
            ((i > 0)) || times[$name]=
        done
        printf '.' >&2
    done
    printf '\n' >&2
}

seconds() { tr ' ' '\n' <<<"${times[$1]}" | sed '/^$/d' | median | awk '{ printf "%.6f", $1 / 1e6 }'; }

# The median of a's times over b's, turn by turn.
ratio() {
    paste <(tr ' ' '\n' <<<"${times[$1]}") <(tr ' ' '\n' <<<"${times[$2]}") |
        awk 'NF == 2 { print $1 / $2 }' | median
}

# Peak memory in MB of the program that reads the pipe in `cat FILE | program`. Without GNU time
# or python nothing is known.
peak() { # file, program and arguments
    local file=$1
    shift
    if [[ -x /usr/bin/time ]]; then
        cat "$file" | /usr/bin/time -f %M -o "$WORK/peak" "$@" >/dev/null
        awk '{ printf "%.0f", $1 / 1024 }' "$WORK/peak"
    elif command -v python3 >/dev/null; then
        cat "$file" | python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))' "$@"
    else
        printf '?'
    fi
}

rows=()
# what, name of the command, bytes, what it is compared with, the measure as text, goal as text,
# the goal as an awk condition, peak memory
row() {
    local what=$1 name=$2 bytes=$3 against=$4 measure=$5 goal=$6 condition=$7 memory=${8:-}
    local s reached
    s=$(seconds "$name")
    if [[ -z $condition ]]; then
        reached=
    elif holds "$condition"; then
        reached=yes
    else
        reached=no
    fi
    rows+=("| $what | $(calc %.3f "$s") | $(calc %.2f "$bytes / $s / 1e9") | $against | $measure | $goal | $reached | $memory |")
}
times_of() { # what, name, bytes, baseline's name, baseline as text, at most, peak memory
    local r
    r=$(ratio "$2" "$4")
    row "$1" "$2" "$3" "$5" "$(calc %.2f "$r") x" "<= $6 x" "$r <= $6" "${7:-}"
}

# ---- the logs ------------------------------------------------------------------------------

job=(--ranks 16 --nodes 2 --tp 4 --pp 2 --layers 16)
big=$WORK/big-$SIZE.log
make_log() { # size, path
    [[ -s $2 ]] && return
    say "making $2"
    nccl-synth "${job[@]}" --size "$1" --truth "$2.json" -o "$2.part"
    mv "$2.part" "$2"
}
make_log "$SIZE" "$big"
bytes=$(size "$big")

ranks=$WORK/ranks-$SIZE
if [[ ! -d $ranks ]]; then
    say "making files of 100 kB, each of one rank, and the same bytes as one file"
    rm -rf "$ranks.part" "$WORK/whole"
    nccl-synth "${job[@]}" --size "$SIZE" --layout per-rank -o "$WORK/whole"
    mkdir "$ranks.part"
    for file in "$WORK"/whole/*; do
        split -C 100k -a 5 -d --additional-suffix=.log "$file" "$ranks.part/$(basename "$file" .log)."
        rm "$file"
    done
    rm -rf "$WORK/whole"
    find "$ranks.part" -name '*.log' | sort | xargs cat >"$WORK/ranks-$SIZE.log"
    mv "$ranks.part" "$ranks"
fi
one=$WORK/ranks-$SIZE.log
files=$(find "$ranks" -type f | wc -l)

say "reading everything once"
cat "$big" "$one" >/dev/null
find "$ranks" -type f -print0 | xargs -0 cat >/dev/null

# ---- the answers ---------------------------------------------------------------------------

say "holding the answers against the truth"
calls=$(sed -n 's/^  "calls": \([0-9]*\),$/\1/p' "$big.json")
lines=$(wc -l <"$big")
total() { awk -F, -v want="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == want) at = i; next } { n += $at } END { printf "%.0f", n }'; }
same "$(rg -c ': opCount ' "$big")" "$calls" "ripgrep's count"
for program in nccl-hist nccl-ops nccl-agg; do
    same "$($program "$big" | total calls)" "$calls" "$program"
    same "$($program -j1 "$big" | total calls)" "$calls" "$program -j1"
done
same "$(nccl-comms "$big" | wc -l)" "$((calls + 1))" nccl-comms
same "$(nccl-hist "$ranks" | cksum)" "$(nccl-hist "$one" | cksum)" "many files"

sample=$WORK/sample.log
# The chain is some 100 times slower: it gets 1/20 of the log (40 MB of a small one), and so does
# nccl-hist beside it.
part=$((bytes / 20 > 40000000 ? bytes / 20 : 40000000))
((part < bytes)) || part=$bytes
head -c "$part" "$big" | sed '$d' >"$sample"
[[ -s $sample ]] || die "SIZE=$SIZE is too small"
gawk -b -f "$root/benches/chain.awk" "$sample" | gawk -b -f "$root/benches/buckets.awk" | sort >"$WORK/chain.out"
nccl-hist -q --format awk "$sample" | sort >"$WORK/hist.out"
cmp -s "$WORK/chain.out" "$WORK/hist.out" || die "gawk and nccl-hist differ: see $WORK"

# A window of a tenth of the steps, from the middle.
nccl-steps -q --list --format csv "$big" >"$WORK/steps.csv"
window=$(awk -F, 'NR > 1 && $2 ~ /^[0-9]+$/ { step[n++] = $2 } END { from = int(n * 0.45); print step[from] ".." step[from + int(n / 10)] }' "$WORK/steps.csv")

# ---- the times -----------------------------------------------------------------------------

cores=$(nproc)
command=(
    [rg]='rg -c opCount "$big" >/dev/null'
    [wc]='wc -l "$big" >/dev/null'
    [hist]='nccl-hist "$big" >/dev/null'
    [ops]='nccl-ops "$big" >/dev/null'
    [agg]='nccl-agg "$big" >/dev/null'
    [hist1]='nccl-hist -j1 "$big" >/dev/null'
    [ops1]='nccl-ops -j1 "$big" >/dev/null'
    [agg1]='nccl-agg -j1 "$big" >/dev/null'
    [window]='nccl-hist -q "$big" --steps "$window" >/dev/null'
    [by]='nccl-hist -q "$big" --by step,comm >/dev/null'
    [part]='nccl-steps -q "$big" --steps "$window" >"$WORK/part.log"'
    [unique]='nccl-comms --unique "$big" | nccl-hist >/dev/null'
    [catwc]='cat "$big" | wc -l >/dev/null'
    [cathist]='cat "$big" | nccl-hist >/dev/null'
    [comms1]='nccl-comms -j1 "$big" >"$WORK/calls.csv"'
    [comms]='nccl-comms "$big" >"$WORK/calls.csv"'
    [csv1]='nccl-hist -j1 "$WORK/calls.csv" >/dev/null'
    [many]='nccl-hist "$ranks" >/dev/null'
    [one]='nccl-hist "$one" >/dev/null'
    [awk]='gawk -b -f "$root/benches/chain.awk" "$sample" >/dev/null'
    [chain]='gawk -b -f "$root/benches/chain.awk" "$sample" | gawk -b -f "$root/benches/buckets.awk" >/dev/null'
    [histsample]='nccl-hist -q "$sample" >/dev/null'
    [start]='nccl-hist -q "$WORK/tiny.log" >/dev/null'
    [startwc]='wc -l "$WORK/tiny.log" >/dev/null'
)
rg -m 5 ': opCount ' "$sample" >"$WORK/tiny.log"

say "the log of $bytes bytes, $RUNS turns"
turns "$RUNS" rg hist wc ops agg hist1 ops1 agg1 window by part unique catwc cathist
say "the call table"
turns "$RUNS" comms1 comms
csv=$(size "$WORK/calls.csv")
turns "$RUNS" csv1
say "many files"
turns "$RUNS" one many
say "gawk"
turns "$RUNS" chain awk histsample
say "start-up"
turns 50 start startwc

rate() { calc %.6f "$2 / $(seconds "$1") / 1e9"; }
row '`rg -c opCount big.log`' rg "$bytes" '' '' '' ''
row '`wc -l big.log`' wc "$bytes" '' '' '' ''
for program in hist ops agg; do
    times_of "\`nccl-$program big.log\`" $program "$bytes" rg '`rg -c opCount`' 1
done
for program in hist ops agg; do
    r=$(rate ${program}1 "$bytes")
    share=$(calc %.3f "1 / $(ratio ${program}1 wc)")
    row "\`nccl-$program -j1 big.log\`" ${program}1 "$bytes" '`wc -l`' "$(calc %.2f "$share") of its speed" \
        '2.5 GB/s or 0.35' "$r >= 2.5 || $share >= 0.35"
done
times_of "\`nccl-hist big.log --steps $window\`" window "$bytes" hist '`nccl-hist big.log`' 1.3
times_of '`nccl-hist big.log --by step,comm`' by "$bytes" hist '`nccl-hist big.log`' 1.3
times_of "\`nccl-steps big.log --steps $window > part.log\`" part "$bytes" rg '`rg -c opCount`' 1.2
r=$(rate comms1 "$bytes")
row '`nccl-comms -j1 big.log > calls.csv`' comms1 "$bytes" '' '' '0.5 GB/s' "$r >= 0.5"
scale=$(ratio comms1 comms)
row '`nccl-comms big.log > calls.csv`' comms "$bytes" 'the same with `-j1`' \
    "$(calc %.2f "$scale") x as fast" '1.8 x on 2 cores' "$scale >= 1.8"
times_of '`nccl-comms --unique big.log \| nccl-hist`' unique "$bytes" hist '`nccl-hist big.log`' 1.1
r=$(rate csv1 "$csv")
row '`nccl-hist -j1 calls.csv`' csv1 "$csv" '' '' '0.4 GB/s of CSV' "$r >= 0.4"
memory=$(peak "$big" nccl-hist)
row '`cat big.log \| wc -l`' catwc "$bytes" '' '' '' ''
times_of '`cat big.log \| nccl-hist`' cathist "$bytes" catwc '`cat big.log \| wc -l`' 1.5 "$memory MB (< 64)"
times_of "\`nccl-hist\` over $files files of 100 kB" many "$(size "$one")" one 'the same bytes in one file' 1.3
s=$(seconds start)
rows+=("| \`nccl-hist\` on a log of 1 kB | $(calc %.4f "$s") | | \`wc -l\` | $(calc %.1f "$(ratio start startwc)") x | < 0.005 s | $(holds "$s < 0.005" && echo yes || echo no) | |")
row "\`gawk -f chain.awk\` on $((part / 1000000)) MB" awk "$(size "$sample")" '' '' '' ''
speedup=$(ratio chain histsample)
row "\`gawk -f chain.awk \\| gawk -f buckets.awk\` on $((part / 1000000)) MB" chain "$(size "$sample")" '`nccl-hist`, same bytes' \
    "$(calc %.0f "$speedup") x its time" '>= 100 x' "$speedup >= 100"

say "time against size"
sizes=(10M 100M 1G)
[[ $FULL == 1 ]] && sizes+=(10G)
last=
for size in "${sizes[@]}"; do
    if [[ $size == "$SIZE" ]]; then
        log=$big
    else
        log=$WORK/big-$size.log
        # Above SIZE only on demand: a quick look stays quick.
        if [[ ! -s $log ]] && holds "$(numfmt --from=si "${size}") > $(numfmt --from=si "${SIZE}") && $FULL != 1"; then
            continue
        fi
        make_log "$size" "$log"
        cat "$log" >/dev/null
    fi
    command[size$size]="nccl-hist '$log' >/dev/null"
    turns "$RUNS" "size$size"
    r=$(rate "size$size" "$(size "$log")")
    memory=$(peak "$log" nccl-hist)
    if [[ -z $last ]]; then
        row "\`nccl-hist\` on $size" "size$size" "$(size "$log")" '' '' '' '' "$memory MB from a pipe"
    else
        row "\`nccl-hist\` on $size" "size$size" "$(size "$log")" 'the size before' \
            "$(calc %.2f "$last / $r") x a byte" '<= 1.2 x' "$last / $r <= 1.2" "$memory MB from a pipe"
    fi
    last=$r
done

# ---- the table -----------------------------------------------------------------------------

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
cat <<TABLE
$(date +%F), $cores cores, ${cpu:-unknown CPU}. \`SIZE=$SIZE RUNS=$RUNS benches/compare.sh\`: $bytes bytes,
$lines lines, $calls calls. $(rg --version | head -n 1), $(gawk --version | head -n 1 | cut -d, -f1-2). Warm page cache,
medians of $RUNS turns.

| what | seconds | GB/s | compared with | measured | goal | reached | peak memory |
|---|---|---|---|---|---|---|---|
TABLE
printf '%s\n' "${rows[@]}"
