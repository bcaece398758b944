#!/usr/bin/env bash
# Measures what snapshots and clones cost, with fio. By hand, and only where nothing else runs: it refuses to while the load is
# above 0.5. With the defaults it takes less than ten minutes. TURNS: 3 by default. WEFT chooses the binary, and WEFT_BEFORE an
# earlier one to compare with. As root, if the directory (DIRECTORY) needs that.
#   before    4 KiB random writes and reads of a volume without snapshots: WEFT over WEFT_BEFORE; omitted without that
#   writes    4 KiB random writes while slots are first copied under a snapshot, and after, over those without a snapshot
#   pause     the longest time in which no write of 32 ends, while snapshots are taken and while none is
#   reads     4 KiB random reads of a volume with 100 snapshots over those of one without
#   sparse    the time of `weft volume snapshot` and `clone` for a thin volume of 1 TiB
# The variants take turns. Prints each turn, then medians against the goals.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
needs fio
NOW=$(realpath "${WEFT:-target/dist/weft}")
WEFT=$NOW
BEFORE=${WEFT_BEFORE:+$(realpath "$WEFT_BEFORE")}
T=$(mktemp -d "${DIRECTORY:-/tmp}/weft-snapshot-costs.XXXXXX")
LIMIT=120
TURNS=${TURNS:-3}
SECONDS_OF_EACH=${SECONDS_OF_EACH:-6}
trap clean EXIT
trap 'exit 1' INT TERM

# up DIR [OPTION..]: an array by $WEFT in T/DIR
up() {
    "$WEFT" up --dir "$T/$1" --listen "$T/$1.sock" --disk-size 8G "${@:2}" >"$T/log-$1" 2>&1 &
    echo $! >"$T/$1.pid"
    wait_until weft status --check --dir "$T/$1"
}
down() {
    kill "$(cat "$T/$1.pid")"
    wait_until dead "$(cat "$T/$1.pid")"
    rm -rf "$T/$1.pid" "${T:?}/$1"
}
# work ARRAY VOLUME RW FILE [OPTION..]: fio with 4 KiB at depth 32
work() {
    fio --name=x --ioengine=nbd --uri="nbd+unix:///$2?socket=$T/$1.sock" --rw="$3" --bs=4k --iodepth=32 --size=512m --ramp_time=1 \
        --time_based --runtime="$SECONDS_OF_EACH" --output-format=json --output="$4" "${@:5}"
}
fill() { work "$1" "$2" write "$T/fill" --bs=1m --runtime=0 --time_based=0 --ramp_time=0; }
iops() {
    python3 - "$1" <<'EOF'
import json, sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]
print(round(job["read"]["iops"] + job["write"]["iops"], 1))
EOF
}
# gap LOG: the longest time between two ends of requests, in ms, after the first second
gap() {
    python3 - "$1" <<'EOF'
import sys
ends = sorted(int(line.split(",")[0]) for line in open(sys.argv[1]))
ends = [end for end in ends if end > 1000]
print(max(later - earlier for earlier, later in zip(ends, ends[1:])))
EOF
}
# took COMMAND..: how long it takes, in ms
took() {
    local begun
    begun=$(date +%s%N)
    "$@" >/dev/null
    echo $((($(date +%s%N) - begun) / 1000000))
}
# of_medians FILE COLUMN COLUMN: the first over the second
of_medians() { awk -v a="$(median "$1" "$2")" -v b="$(median "$1" "$3")" 'BEGIN { printf "%.3f\n", a / b }'; }
# No background work of this array is left.
settled() { wait_until weft status --check --dir "$T/$1"; sleep 2; }

before() {
    local turn writes reads which
    [ -n "$BEFORE" ] || { echo "before: omitted, because WEFT_BEFORE is not set"; return; }
    WEFT=$BEFORE; up old --volume v:512M; fill old v
    WEFT=$NOW; up new --volume v:512M; fill new v
    for turn in $(seq "$TURNS"); do
        writes='' reads=''
        for which in new old; do
            work $which v randwrite "$T/w"; writes+="$(iops "$T/w") "
            work $which v randread "$T/r"; reads+="$(iops "$T/r") "
        done
        echo "$writes$reads" | tee -a "$T/before"
    done
    down old; down new
    echo "writes of a volume without snapshots over those before (goal: at least 0.98): $(of_medians "$T/before" 1 2)"
    echo "reads (goal: at least 0.98): $(of_medians "$T/before" 3 4)"
}

writes() {
    local turn without first after
    for turn in $(seq "$TURNS"); do
        up array --volume v:512M
        fill array v
        settled array
        work array v randwrite "$T/w"; without=$(iops "$T/w")
        settled array
        weft volume snapshot v s --dir "$T/array" >/dev/null
        # Each block once at most, so that slots are first copied to the end.
        work array v randwrite "$T/w" --ramp_time=0 --time_based=0; first=$(iops "$T/w")
        fill array v
        settled array
        work array v randwrite "$T/w"; after=$(iops "$T/w")
        down array
        echo "$without $first $after" | tee -a "$T/writes"
    done
    echo "writes while slots are first copied over those without a snapshot (goal: at least 0.6): $(of_medians "$T/writes" 2 1)"
    echo "writes after that (goal: at least 0.95): $(of_medians "$T/writes" 3 1)"
}

pause() {
    local turn taken none n
    up array --volume v:512M
    fill array v
    for turn in $(seq "$TURNS"); do
        work array v randwrite "$T/w" --write_lat_log="$T/none" --ramp_time=0
        work array v randwrite "$T/w" --write_lat_log="$T/taken" --ramp_time=0 & n=$!
        sleep 2
        for name in 1 2 3; do
            weft volume snapshot v "s$turn-$name" --dir "$T/array" >/dev/null
            sleep 1
        done
        wait $n
        none=$(gap "$T"/none_lat.*log) taken=$(gap "$T"/taken_lat.*log)
        rm -f "$T"/none_* "$T"/taken_*
        echo "$none $taken" | tee -a "$T/pause"
    done
    down array
    echo "longest pause of writes at depth 32 without snapshots: $(median "$T/pause" 1) ms"
    echo "longest pause while snapshots are taken (goal: below 20 ms): $(median "$T/pause" 2) ms"
}

reads() {
    local turn n with without
    up array --volume plain:512M --volume pictured:512M
    fill array plain
    fill array pictured
    for n in $(seq 100); do
        weft volume snapshot pictured "s$n" --dir "$T/array" >/dev/null
        work array pictured randwrite "$T/w" --ramp_time=0 --time_based=0 --runtime=0 --number_ios=300 --randrepeat=0 --randseed="$n"
    done
    settled array
    for turn in $(seq "$TURNS"); do
        work array plain randread "$T/r"; without=$(iops "$T/r")
        work array pictured randread "$T/r"; with=$(iops "$T/r")
        echo "$without $with" | tee -a "$T/reads"
    done
    down array
    echo "reads with 100 snapshots over those without (goal: at least 0.97): $(of_medians "$T/reads" 2 1)"
}

sparse() {
    local turn
    up array --volume v:16M
    weft volume create big 1T --thin --dir "$T/array" >/dev/null
    work array big randwrite "$T/w" --size=1t --ramp_time=0 --time_based=0 --runtime=0 --number_ios=2000
    settled array
    for turn in $(seq "$TURNS"); do
        echo "$(took weft volume snapshot big "s$turn" --dir "$T/array")" \
            "$(took weft volume clone "big@s$turn" "c$turn" --dir "$T/array")" | tee -a "$T/sparse"
    done
    down array
    echo "a snapshot of a thin volume of 1 TiB (goal: below 100 ms): $(median "$T/sparse" 1) ms"
    echo "a clone of it (goal: below 100 ms): $(median "$T/sparse" 2) ms"
}

machine_is_quiet || [ -n "${ANYWAY:-}" ] || { echo "the load is $(cut -d ' ' -f 1 /proc/loadavg): nothing can be measured"; exit 1; }
for what in ${*:-before writes pause reads sparse}; do $what; done
