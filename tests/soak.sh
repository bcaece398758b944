#!/usr/bin/env bash
# A soak: fio writes, verifies and trims for SECONDS_OF_ALL (1800 s), over all sizes, while nodes are killed and return. After each
# round, when all is quiet, every slot of every disk is free or placed and none is held; no more are placed than have been
# written to; and at the end, when all is trimmed, the disks' files hold next to nothing. Beside it a smaller volume gets snapshots
# while it is written: each reads the same when it is taken and when it is deleted, and at the end nothing is left of them.
# WEFT chooses the binary. Closing line 'N passed, N failed'.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
SECONDS_OF_ALL=${SECONDS_OF_ALL:-1800}
T=$(mktemp -d "${SOAK_DIR:-/tmp}/weft-soak.XXXXXX")
LIMIT=120
SIZE=320 SNAPPED=32              # MiB of both volumes
MOST=3                           # snapshots at a time
passed=0 failed=0
command -v fio >/dev/null || { echo "skipped: fio is not installed"; exit 0; }
clean() {
    trap - EXIT INT TERM
    if [ -f "$T/pid" ]; then
        kill "$(cat "$T/pid")" 2>/dev/null
        wait 2>/dev/null
    fi
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

weft() { timeout -k 5 "$LIMIT" "$WEFT" "$@"; }
status() { weft status --json --dir "$T/d" | python3 -c "import json, sys; s = json.load(sys.stdin); $1"; }
quiet() { status "sys.exit(not all(n['state'] == 'up' and n.get('quiet') for n in s['nodes']) or any(v['mode'] not in ('fault-free', 'deleted') for v in s['volumes']))"; }
# Slots add up, and no more are placed than the volume can have written: a disk's share of it, and a slot at each end. None is
# held once a node has put in place what it still had, and discards nothing.
add_up() {
    status "
for n in s['nodes']:
    k = n['slots']
    slot = 2**16 if n['disk_bytes'] // k['all'] < 2**17 else 2**18
    most = ($SIZE + $SNAPPED * ($MOST + 2)) * 2**20 // 4 // slot + 2 * ($MOST + 3)
    assert k['free'] + k['placed'] + k['held'] == k['all'], k
    assert k['held'] == 0 and k['reserved'] <= k['free'], k
    assert k['placed'] <= most, (k, most)
"
}
URI="nbd+unix:///v?socket=$T/v.sock"
io() {
    fio --name=soak --ioengine=nbd --uri="$URI" --size=${SIZE}m --randrepeat=0 --output="$T/fio" "$@" >/dev/null 2>>"$T/errors" ||
        { cat "$T/fio" "$T/errors"; return 1; }
}
# content SNAPSHOT: a checksum of all that it shows
content() { timeout -k 5 $LIMIT nbdcopy "nbd+unix:///$1?socket=$T/v.sock" - | sha256sum; }
# The oldest snapshot shows what it did, and is deleted.
delete_oldest() {
    local oldest
    oldest=$(head -1 "$T/snapshots")
    [ "$(content "$oldest")" = "$(cat "$T/$oldest")" ] || { echo "$oldest has changed"; return 1; }
    weft volume delete "$oldest" --yes --dir "$T/d" >/dev/null && sed -i 1d "$T/snapshots"
}
# snapped SEED: snapshots of the smaller volume, each while it is written and trimmed
snapped() {
    local n writer rw
    for n in 1 2 3; do
        rw=$([ $n = 3 ] && echo randtrim || echo randwrite)
        fio --name=snapped --ioengine=nbd --uri="nbd+unix:///s?socket=$T/v.sock" --size=${SNAPPED}m --rw="$rw" --bs=64k \
            --iodepth=8 --io_size=${SNAPPED}m --randseed="$1$n" --output="$T/fio-snapped" >/dev/null 2>&1 & writer=$!
        weft volume snapshot s "r$1-$n" --dir "$T/d" >/dev/null || return 1
        content "s@r$1-$n" >"$T/s@r$1-$n"
        echo "s@r$1-$n" >>"$T/snapshots"
        wait $writer || { cat "$T/fio-snapped"; return 1; }
        [ "$(wc -l <"$T/snapshots")" -lt $MOST ] || delete_oldest || return 1
    done
}
# gone: the smaller volume is trimmed under its snapshots, and those are deleted and merged: nothing has any space
merged() { status "sys.exit(any(v['mode'] == 'deleted' for v in s['volumes']))"; }
empty() { status "sys.exit(any(v['name'] == 's' and v['used_bytes'] for v in s['volumes']))"; }
gone() {
    fio --name=snapped --ioengine=nbd --uri="nbd+unix:///s?socket=$T/v.sock" --size=${SNAPPED}m --rw=trim --bs=4m \
        --output="$T/fio-snapped" >/dev/null 2>&1 || { cat "$T/fio-snapped"; return 1; }
    while [ -s "$T/snapshots" ]; do
        delete_oldest || return 1
    done
    wait_until merged && wait_until empty
}
# One round of everything; what is written is verified.
round() {
    local seed=$1 victim=$(($1 % 5)) snapped
    snapped "$seed" & snapped=$!
    io --rw=randwrite --bsrange=4k-256k --blockalign=4k --iodepth=16 --io_size=160m --verify=crc32c --randseed="$seed" || return 1
    io --rw=write --bs=1m --iodepth=4 --io_size=320m --verify=crc32c --randseed="$seed" || return 1
    weft node kill "$victim" --dir "$T/d" >/dev/null || return 1
    io --rw=randwrite --bs=4k --iodepth=32 --io_size=32m --verify=crc32c --randseed="$seed" || return 1
    weft node start "$victim" --dir "$T/d" >/dev/null || return 1
    io --rw=randtrim --bs=64k --iodepth=4 --io_size=64m --randseed="$seed" || return 1
    wait $snapped || return 1
    wait_until quiet && { wait_until add_up || add_up; }
}
# trimmed: everything is a hole, and the disks' files have given up their blocks, those of free slots after a while. Journals stay
# (8 MiB each).
trimmed() {
    io --rw=trim --bs=4m --iodepth=1 || return 1
    wait_until quiet && { wait_until add_up || add_up; } && wait_until small && return
    echo "the disks' files have $(cut -f1 "$T/du") MiB"
    return 1
}
small() { du -cm "$T"/d/disk-*.img | tail -1 >"$T/du"; [ "$(cut -f1 "$T/du")" -lt 60 ]; }
check() {
    if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}

"$WEFT" up --dir "$T/d" --disk-size 160M --volume v:${SIZE}M --volume s:${SNAPPED}M --listen "$T/v.sock" >"$T/log" 2>&1 & echo $! >"$T/pid"
wait_until quiet || exit 1
end=$((SECONDS + SECONDS_OF_ALL)) rounds=0
while [ $SECONDS -lt $end ] && [ $failed = 0 ]; do
    rounds=$((rounds + 1))
    check "round $rounds" round $rounds
done
check "nothing is left of snapshots" gone
check "nothing is left of what is trimmed" trimmed
echo "$rounds rounds of the soak"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
