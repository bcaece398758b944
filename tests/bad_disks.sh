#!/usr/bin/env bash
# Disks that hang, err or have no free space, in use and at start. The array serves its host meanwhile, names the disk, and
# is healthy again by itself; a scrub finds nothing.
#   tests/bad_disks.sh            all checks
#   tests/bad_disks.sh NAME...    some of them
# Disk 1 of 5 is a file that nbdfuse mounts from nbdkit: a stopped nbdkit is a disk that hangs, and its filters err and delay.
# From process_hangs on it is another array's, so the order matters.
# As root. WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
needs nbdkit nbdfuse nbdsh fio fusermount3 losetup mkfs.ext4 taskset renice
WEFT=$(realpath "${WEFT:-target/release/weft}")
T=$(mktemp -d /tmp/weft-bad-disks.XXXXXX)
LIMIT=60                        # seconds that anything may take
DIR=$T/array
DISK=$DIR/disk-1.img            # what nbdfuse mounts
URI="nbd+unix:///v?socket=$DIR/nbd.sock"
passed=0 failed=0

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
up() { up_again --disk-size 128M --volume v:200M "$@"; }
up_again() {
    "$WEFT" up --dir "$DIR" --listen "$DIR/nbd.sock" --disk-timeout 3s "$@" >>"$T/log" 2>&1 &
    echo $! >"$T/up.pid"
}
down() {
    [ -s "$T/up.pid" ] || return 0
    kill "$(cat "$T/up.pid")" 2>/dev/null
    wait_until dead "$(cat "$T/up.pid")" || kill -9 "$(cat "$T/up.pid")"
    rm "$T/up.pid"
}
# status CODE: the status as Python's s, and n, its node 1
status() {
    weft status --json --dir "$DIR" | python3 -c "import json, sys; s = json.load(sys.stdin); n = s['nodes'][1]; $1"
}
state_is() { status "sys.exit(n['state'] != '$1')"; }
healthy() { weft status --check --dir "$DIR" >/dev/null; }
# host SECONDS ARGUMENTS: tests/python/bad_disk_host.py, none of whose requests may take longer
host() { timeout -k 5 $LIMIT /usr/bin/python3 tests/python/bad_disk_host.py "$URI" "$@"; }
answers() { host 60 read; }
whole() {
    wait_until healthy
    host 60 check
    scrubbed v "$DIR"
}
hang() { kill -STOP "$(cat "$T/kit.pid")"; }
go_on() { kill -CONT "$(cat "$T/kit.pid")"; }

# The file of disk 1 comes from nbdkit, with a filter and parameters of it, if they are given.
serve_disk() {
    up && wait_until answers && down
    mv "$DIR/disk-1.img" "$T/backing" && : >"$DIR/disk-1.img"
    serve_backing
}
serve_backing() {
    nbdkit -U "$T/kit.sock" -P "$T/kit.pid" ${1:+"$1"} --filter=error file "$T/backing" error=EIO \
        error-rate="${ERROR_RATE:-100%}" error-file="$T/err" "${@:2}"
    nbdfuse -P "$T/fuse.pid" "$DISK" "nbd+unix:///?socket=$T/kit.sock" >>"$T/log" 2>&1 &
    wait_until eval "[ -s '$T/fuse.pid' ]"
}
serve_no_more() {
    go_on
    fusermount3 -u "$DISK"
    kill "$(cat "$T/kit.pid")"
    wait_until dead "$(cat "$T/kit.pid")"
    rm -f "$T/fuse.pid" "$T/kit.pid" "$T/kit.sock"
}
serve_again() { serve_no_more && serve_backing "$@"; }
take_disk_back() { serve_no_more && mv "$T/backing" "$DISK"; }
clean() {
    trap - EXIT INT TERM
    { kill "$(cat "$T/busy.pid")"; go_on; down; fusermount3 -u -z "$DISK"; fusermount3 -u -z "$T/hanging/node-1/disk.img" "$T/slow/node-1/disk.img"; kill "$(cat "$T/kit.pid")"; umount "$T/small" "$T/together"; fsfreeze --unfreeze "$T/state"; umount "$T/state"; } >/dev/null 2>&1
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

# The disk hangs under load. A write that it takes part in is answered when the others have gone on without it.
hang_and_heal() {
    host 60 fill
    hang
    host 15 write
    state_is hung
    status "sys.exit('has not finished a write for 1s' not in n['why'])"
    host 10 write
    go_on
    whole
}
hangs() {
    up
    wait_until answers
    hang_and_heal
    grep 'node 1 is down: .*disk-1.img has not finished a write for 1s' "$T/log"
    # The second time within a minute it is given more time.
    hang
    host 15 write
    state_is hung
    go_on
    whole
    grep 'node 1 is down: .*disk-1.img has not responded for 3s' "$T/log"
}

# A disk hangs under many small reads and writes: each may make the thread wait that starts operations.
hangs_under_load() {
    down
    up && wait_until answers
    ( sleep 2; hang; sleep 20; go_on ) &
    local weather=$!
    fio --name=x --ioengine=nbd --uri="$URI" --rw=randrw --bs=4k --iodepth=32 --offset=64m --size=64m --time_based --runtime=24 \
        --max_latency=15s
    wait $weather
    whole
}

# A disk hangs when the array starts: the others serve without it.
hangs_at_start() {
    down
    hang
    up
    wait_until answers
    host 10 write
    wait_until state_is hung
    go_on
    whole
}

# A disk takes 40 ms for each operation. It is named, and most reads do not wait for it.
is_slow() {
    down
    serve_again --filter=delay rdelay=40ms wdelay=0
    up && wait_until answers
    host 60 fill
    host 60 reads
    wait_until status "sys.exit(n.get('slow', {}).get('read_microseconds', 0) < 20000)"
    weft status --dir "$DIR" >"$T/said"
    grep 'node 1 is slow: its median read takes' "$T/said"
    down
    serve_again
    up && whole
}

# 99 of 100 requests are to take 5 ms, and each write waits 40 ms for a disk: background work gives way as far as it can, and it
# is said that this is not enough. What can be kept is kept with all of it.
promises() {
    local load
    down
    serve_again --filter=delay rdelay=40ms wdelay=40ms
    up && wait_until answers
    host 60 fill
    weft volume set v p99=5ms --dir "$DIR"
    fio --name=x --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --iodepth=8 --offset=64m --size=64m --time_based --runtime=600 &
    load=$!
    wait_until status "sys.exit(s['volumes'][0]['promise'].get('missed_seconds', 0) < 10)"
    status "sys.exit(s['volumes'][0]['promise']['background_percent'] != 1)"
    weft status --dir "$DIR" >"$T/said"
    grep 'more than 1 % of the requests to volume v have taken longer than 5ms for' "$T/said"
    weft volume show v --dir "$DIR" >"$T/said"
    grep 'within 5ms; background work on its disks at 1 %; this is exceeded at present' "$T/said"
    weft volume set v p99=10s --dir "$DIR"
    wait_until status "sys.exit(s['volumes'][0]['promise'] != {'background_percent': 100})"
    kill "$load"
    wait "$load" || true
    weft volume set v p99=none --dir "$DIR"
    down
    serve_again
    up && whole
}

# A disk stays slow while a host writes. Its node is taken out, and starts again by itself when another is lost: while the disk
# is slow it goes again, and when the disk is fast it stays. That it starts after a minute is for process_is_slow.
stays_slow() {
    local LIMIT=150 load
    down
    serve_again --filter=delay rdelay=40ms wdelay=40ms
    up --slow-disk-timeout 10s && wait_until answers
    host 60 fill
    fio --name=x --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --iodepth=8 --offset=64m --size=64m --time_based --runtime=600 &
    load=$!
    wait_until state_is slow
    weft status --dir "$DIR" >"$T/said"
    grep -E 'node 1 (has been slow for|is slow) .*its disk is slow: half of its .* take' "$T/said"
    weft node kill 3 --dir "$DIR"
    wait_until eval '! state_is slow'
    weft node start 3 --dir "$DIR"
    wait_until healthy_or_slow
    wait_until state_is slow
    kill "$load"
    wait "$load" || true
    host 20 write
    serve_again
    weft node kill 3 --dir "$DIR"
    wait_until eval '! state_is slow'
    weft node start 3 --dir "$DIR"
    wait_until state_is up
    whole
    grep -c 'node 1 is down: its disk is slow' "$T/log" | grep -x 2
}
# Nothing is wrong but that node 1 is slow.
healthy_or_slow() { status "sys.exit(any(m['state'] != 'up' for m in s['nodes']))"; }

# Every operation of a disk fails: at start, and while it is in use.
errs() {
    down
    : >"$T/err"
    up
    wait_until answers
    wait_until state_is down
    status "sys.exit('Input/output error' not in n['why'])"
    host 10 write
    rm "$T/err"
    weft node start 1 --dir "$DIR"
    whole
    : >"$T/err"
    host 10 write
    wait_until state_is down
    status "sys.exit('Input/output error' not in n['why'] or n['errors']['write'] < 1)"
    sleep 4
    state_is down
    rm "$T/err"
    weft node start 1 --dir "$DIR"
    whole
    # Errors that pass: the node starts by itself.
    : >"$T/err"
    host 10 write
    wait_until state_is down
    rm "$T/err"
    whole
    grep 'node 1 is down: its disk failed: .*; it starts again in 3 s' "$T/log"
}

# One operation in three hundred fails, and succeeds when it is tried again. The node stays, or comes back by itself; what cannot
# be read is decoded and written again.
errs_at_times() {
    local ERROR_RATE=0.33%
    down
    : >"$T/err"
    serve_again
    up && wait_until answers
    host 60 fill
    fio --name=x --ioengine=nbd --uri="$URI" --rw=randrw --bs=4k --iodepth=8 --offset=64m --size=64m --time_based --runtime=20 \
        --max_latency=15s
    host 60 check
    wait_until status "sys.exit(n['errors']['passed'] < 10)"
    weft disk list --dir "$DIR" >"$T/said"
    rm "$T/err"
    whole
}

# A disk that is to be made an empty one hangs. Hosts are served meanwhile, the command ends with an error, and the node starts
# when the disk answers. Another disk is replaced as ever.
replaced_while_it_hangs() {
    local replaces
    down
    serve_again
    up && wait_until answers
    host 60 fill
    weft node kill 1 --dir "$DIR"
    wait_until state_is down
    hang
    weft disk replace 1 --dir "$DIR" 2>"$T/said" &
    replaces=$!
    sleep 1
    host 5 write
    weft node start 1 --dir "$DIR" 2>"$T/said.start" && return 1
    grep 'the disk of node 1 is being replaced; wait until that is done' "$T/said.start"
    host 5 write
    wait $replaces && return 1
    grep 'disk-1.img has not answered for 20 s, and nothing was changed' "$T/said"
    go_on
    wait_until weft node start 1 --dir "$DIR"
    whole
    weft node kill 2 --dir "$DIR"
    weft disk replace 2 --dir "$DIR"
    whole
}

# The file system of a disk is full for a while.
is_full() {
    down
    take_disk_back
    truncate -s 400M "$T/image"
    mkfs.ext4 -q "$T/image"
    mkdir -p "$T/small"
    mount -o loop "$T/image" "$T/small"
    cp --sparse=always "$DIR/disk-1.img" "$T/small/"
    ln -sf "$T/small/disk-1.img" "$DIR/disk-1.img"
    up && wait_until answers
    weft volume create w 100M --dir "$DIR"
    URI=${URI/\/v?/\/w?}
    fallocate -l 1T "$T/small/filler" 2>/dev/null || true
    dd if=/dev/zero of="$T/small/filler" bs=1M status=none 2>/dev/null || true
    sync "$T/small"
    host 20 fill
    state_is hung
    status "sys.exit('is full' not in n['why'])"
    host 10 write
    rm "$T/small/filler"
    wait_until healthy
    host 60 check
    scrubbed w "$DIR"
}

# All disks of an array are on one file system, which is full for a while: for FULL_SECONDS, or 60. Reads go on, what hosts write
# is refused, and no node is taken for failed.
all_are_full() {
    local seconds=${FULL_SECONDS:-60} n reader waiter writer end
    local LIMIT=$((seconds + 120))
    down
    DIR=$T/packed URI="nbd+unix:///v?socket=$T/packed/nbd.sock"
    : >"$T/log"
    up && wait_until answers && down
    truncate -s 400M "$T/packed.img"
    mkfs.ext4 -q "$T/packed.img"
    mkdir -p "$T/together"
    mount -o loop "$T/packed.img" "$T/together"
    for n in {0..4}; do
        cp --sparse=always "$DIR/disk-$n.img" "$T/together/"
        ln -sf "$T/together/disk-$n.img" "$DIR/disk-$n.img"
    done
    up && wait_until answers
    host 60 fill
    weft volume create w 100M --dir "$DIR"
    weft volume create x 60M --dir "$DIR"
    host 10 watch $((seconds + 10)) &
    reader=$!
    # What finds no room first waits for it.
    URI=${URI/\/v?/\/w?} host $((seconds + 60)) press $((seconds + 10)) &
    waiter=$!
    sleep 1
    dd if=/dev/zero of="$T/together/filler" bs=1M status=none 2>/dev/null || true
    dd if=/dev/zero of="$T/together/filler" bs=4k oflag=append conv=notrunc status=none 2>/dev/null || true
    end=$((SECONDS + seconds))
    wait_until full_and_there
    URI=${URI/\/v?/\/x?} host 10 press $((seconds + 10)) >"$T/pressed" &
    writer=$!
    while [ $SECONDS -lt $end ]; do
        full_and_there
        sleep 1
    done
    weft status --dir "$DIR" >"$T/said"
    grep 'node [0-4]: the file system of .* is full' "$T/said"
    rm "$T/together/filler"
    wait $writer
    cat "$T/pressed"
    wait $waiter
    wait $reader
    wait_until healthy
    grep '[1-9][0-9]* were refused' "$T/pressed"
    host 60 check
    for n in w x; do URI=${URI/\/v?/\/$n?} host 60 check; done
    for n in v w x; do scrubbed $n "$DIR"; done
    grep -E 'node [0-4] is down|stays down' "$T/log" && return 1
    down
    umount "$T/together"
}
# A node says that its disk is full, and none is out.
full_and_there() {
    status "
full = [m for m in s['nodes'] if 'is full' in (m.get('trouble') or '')]
sys.exit(not full or any(m['state'] != 'up' for m in s['nodes']))"
}

# What the processes of a cluster promise one another is on a file system that hangs: hosts are served meanwhile, and a
# change of the map is refused.
state_hangs() {
    local n own
    down
    DIR=$T/several URI="nbd+unix:///v?socket=$T/several/nbd.sock"
    up --processes && wait_until answers && down
    truncate -s 100M "$T/state.img"
    mkfs.ext4 -q -F "$T/state.img"
    mkdir -p "$T/state"
    mount -o loop "$T/state.img" "$T/state"
    for n in {0..4}; do
        own=$DIR/node-$n
        mv "$own/disk.img" "$DIR/disk-$n.img"
        mv "$own" "$T/state/"
        ln -s "$T/state/node-$n" "$own"
        ln -s "$DIR/disk-$n.img" "$own/disk.img"
    done
    up_again --processes && wait_until answers
    host 60 fill
    fsfreeze --freeze "$T/state"
    host 10 write
    weft volume create w 20M --dir "$DIR" 2>"$T/said" && return 1
    grep 'cannot write its log: its file system does not answer; nothing was changed' "$T/said"
    host 10 write
    healthy
    fsfreeze --unfreeze "$T/state"
    weft volume create w 20M --dir "$DIR"
    whole
    down
    umount "$T/state"
}

# The disk of one process of a cluster hangs. The others go on without it, and it comes back by itself.
process_hangs() {
    down
    serve_no_more || true
    DIR=$T/hanging URI="nbd+unix:///v?socket=$T/hanging/nbd.sock"
    up --processes && wait_until answers && down
    mv "$DIR/node-1/disk.img" "$T/backing" && : >"$DIR/node-1/disk.img"
    DISK=$DIR/node-1/disk.img
    serve_backing
    up_again --processes
    wait_until answers
    hang_and_heal
    down
    serve_no_more
}

# The disk of one process of a cluster stays slow while a host writes at another. Its node is taken out by what the others
# measure. It is started again when the disk is fast, and stays up.
process_is_slow() {
    local LIMIT=150 load
    down
    serve_no_more || true
    DIR=$T/slow URI="nbd+unix:///v?socket=$T/slow/nbd.sock" DISK=$T/slow/node-1/disk.img
    up --processes --slow-disk-timeout 10s && wait_until answers && host 60 fill && down
    mv "$DISK" "$T/backing" && : >"$DISK"
    serve_backing --filter=delay rdelay=40ms wdelay=40ms
    up_again --processes --slow-disk-timeout 10s
    wait_until answers
    fio --name=x --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --iodepth=8 --offset=64m --size=64m --time_based --runtime=600 &
    load=$!
    wait_until state_is slow
    weft status --dir "$DIR" >"$T/said"
    grep -E 'node 1 (has been slow for|is slow) .*its disk is slow: half of its .* take' "$T/said"
    sleep 5
    kill "$load"
    wait "$load" || true
    state_is slow
    host 20 write
    serve_again
    weft node start 1 --dir "$DIR"
    wait_until state_is up
    whole
    down
    serve_no_more
}

# compete SECONDS: programs that use the processors until they are ended, or for so long; the first one more than the others
compete() {
    local n
    trap 'kill $(jobs -p) 2>/dev/null; exit 0' TERM
    for n in 1 2 3; do timeout "$1" taskset -c 0 sh -c 'while :; do :; done' & done
    timeout "$1" sh -c 'while :; do :; done' &
    wait
}
# starve PROCESS: its second lane shares the first processor with those programs, and comes last
starve() {
    local task
    for task in "/proc/$1/task"/*; do
        grep -qx weft-lane-1 "$task/comm" || continue
        taskset -cp 0 "${task##*/}"
        renice -n 19 -p "${task##*/}"
    done
}
# Scrubs, rebuilds and load on a busy machine, and nothing is wrong with any disk: none is taken out, or said to be slow.
# For 40 s or SOAK_SECONDS. In the end some threads of the array get almost no time of a processor that others compete for.
no_false_alarms() {
    local load busy end n=0
    down
    serve_no_more || true
    DIR=$T/quiet URI="nbd+unix:///v?socket=$T/quiet/nbd.sock"
    : >"$T/log"
    up --slow-disk-timeout 10s && wait_until answers
    host 60 fill
    fio --name=x --ioengine=nbd --uri="$URI" --rw=randrw --bsrange=4k-64k --iodepth=8 --offset=64m --size=64m --time_based \
        --runtime=86400 &
    load=$!
    end=$((SECONDS + ${SOAK_SECONDS:-40}))
    compete $((${SOAK_SECONDS:-40} + 600)) &
    busy=$!
    echo $busy >"$T/busy.pid"
    while [ $SECONDS -lt $end ]; do
        weft scrub v --dir "$DIR" >/dev/null
        weft node kill $((n % 5)) --dir "$DIR"
        weft disk replace $((n % 5)) --dir "$DIR"
        wait_until healthy
        sleep 5
        n=$((n + 1))
    done
    echo "$n disks were rebuilt"
    starve "$(cat "$T/up.pid")"
    sleep 25
    kill "$load"
    wait "$load" || true
    kill $busy
    wait $busy || true
    grep -E "its disk is slow|has not responded|has not finished a write|node [0-9] is slow" "$T/log" && return 1
    whole
    down
}

# The file system of an array's directory is full. Changes of the map go on in the room that is kept ahead, until there is not
# enough of it: then they are refused, and hosts are served, also while nodes go and come.
state_is_full() {
    local n
    down
    DIR=$T/alone URI="nbd+unix:///v?socket=$T/alone/nbd.sock"
    up && wait_until answers && down
    mkdir -p "$T/state" "$T/disks"
    mount -t tmpfs -o size=4m none "$T/state"
    mv "$DIR"/disk-*.img "$T/disks/"
    cp -a "$DIR"/. "$T/state/"
    DIR=$T/state URI="nbd+unix:///v?socket=$T/own.sock"
    for n in {0..4}; do ln -s "$T/disks/disk-$n.img" "$DIR/disk-$n.img"; done
    up_again --listen "$T/own.sock" && wait_until answers
    dd if=/dev/zero of="$DIR/filler" bs=4k status=none 2>/dev/null || true
    host 10 write
    n=0
    while [ $n -lt 60 ] && weft volume create "a-volume-with-a-long-name-$n" 1M --dir "$DIR" 2>"$T/said"; do n=$((n + 1)); done
    [ $n -gt 0 ]
    grep 'the map cannot be stored: .*No space left on device.*; nothing was changed' "$T/said"
    host 10 write
    weft node kill 2 --dir "$DIR"
    host 10 write
    weft node start 2 --dir "$DIR"
    wait_until healthy
    host 10 write
    rm "$DIR/filler"
    weft volume create last 1M --dir "$DIR"
    wait_until healthy
    host 60 check
    scrubbed v "$DIR"
    down
    umount "$T/state"
}

serve_disk || { echo "the disk cannot be served:"; tail -5 "$T/log"; exit 1; }
for check in ${*:-hangs hangs_under_load hangs_at_start is_slow promises stays_slow errs errs_at_times replaced_while_it_hangs is_full all_are_full process_hangs process_is_slow no_false_alarms state_hangs state_is_full}; do t "$check"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
