#!/usr/bin/env bash
# Measures what a limit and a promise of latency do for a neighbour, with fio. By hand, and only where nothing else runs: it
# refuses to while the load is above 0.5. TURNS: 5 by default. As root. WEFT chooses the binary.
#   limits    one of two volumes is limited: its IOPS, and the p99 of the other, with both at work and alone
#   promise   p99 of 4 KiB reads and writes during a rebuild, with and without p99=5ms
# The variants take turns. Prints each turn, then medians and whether the goal is met.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
needs fio
WEFT=$(realpath "${WEFT:-target/dist/weft}")
T=$(mktemp -d "${DIRECTORY:-/tmp}/weft-neighbours.XXXXXX")
LIMIT=120
TURNS=${TURNS:-5}
IOPS=500
trap clean EXIT
trap 'exit 1' INT TERM

up() {
    "$WEFT" up --dir "$T/array" --listen "$T/nbd.sock" --disk-size 2G "$@" >"$T/log" 2>&1 &
    echo $! >"$T/up.pid"
    wait_until weft status --check --dir "$T/array"
}
down() {
    kill "$(cat "$T/up.pid")"
    wait_until dead "$(cat "$T/up.pid")"
    rm -rf "$T/up.pid" "$T/array"
}
# work VOLUME RW FILE [OPTION..]: fio with 4 KiB at depth 8 for 10 s
work() {
    fio --name=x --ioengine=nbd --uri="nbd+unix:///$1?socket=$T/nbd.sock" --rw="$2" --bs=4k --iodepth=8 --size=256m --ramp_time=2 \
        --time_based --runtime=10 --output-format=json --output="$3" "${@:4}"
}
# of FILE WHAT..: `iops`, or the p99 of `read` or `write` in ms
of() {
    python3 - "$@" <<'EOF'
import json, sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]
for what in sys.argv[2:]:
    if what == "iops":
        print(round(job["read"]["iops"] + job["write"]["iops"], 1))
    else:
        print(round(job[what]["clat_ns"]["percentile"]["99.000000"] / 1e6, 3))
EOF
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / b }'; }

limits() {
    local turn
    up --volume a:512M --volume b:512M
    for v in a b; do work $v write "$T/fill" --bs=1m --runtime=0 --time_based=0 --ramp_time=0; done
    weft volume set a iops=$IOPS --dir "$T/array"
    for turn in $(seq "$TURNS"); do
        work b randrw "$T/alone"
        work a randrw "$T/limited" &
        work b randrw "$T/beside"
        wait $!
        echo "$(of "$T/limited" iops) $(of "$T/alone" read write | xargs) $(of "$T/beside" read write | xargs)" | tee -a "$T/limits"
    done
    echo "IOPS of the limited volume over its limit (goal: 0.97 to 1.03): $(ratio "$(median "$T/limits" 1)" $IOPS)"
    echo "p99 of the other's reads over those alone (goal: at most 1.2): $(ratio "$(median "$T/limits" 4)" "$(median "$T/limits" 2)")"
    echo "p99 of its writes (goal: at most 1.2): $(ratio "$(median "$T/limits" 5)" "$(median "$T/limits" 3)")"
    down
}

# rebuilding CHOICE: p99 of reads and writes while disk 1 is rebuilt
rebuilding() {
    {
        weft volume set v p99="$1" --dir "$T/array"
        weft node kill 1 --dir "$T/array"
        weft disk replace 1 --dir "$T/array"
        work v randrw "$T/during"
        weft status --check --dir "$T/array" && echo "the rebuild ended before the measurement: take a larger volume"
        wait_until weft status --check --dir "$T/array"
    } >&2
    of "$T/during" read write | xargs
}
promise() {
    local turn with without
    up --volume v:6G
    work v write "$T/fill" --bs=1m --size=6g --runtime=0 --time_based=0 --ramp_time=0
    for turn in $(seq "$TURNS"); do
        without=$(rebuilding none) with=$(rebuilding 5ms)
        echo "$without $with" | tee -a "$T/promise"
    done
    echo "p99 of reads with the promise over that without: $(ratio "$(median "$T/promise" 3)" "$(median "$T/promise" 1)")"
    echo "p99 of writes: $(ratio "$(median "$T/promise" 4)" "$(median "$T/promise" 2)")"
    down
}

machine_is_quiet || { echo "the load is $(cut -d ' ' -f 1 /proc/loadavg): nothing can be measured"; exit 1; }
for what in ${*:-limits promise}; do $what; done
