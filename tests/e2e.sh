#!/usr/bin/env bash
# Real clients against a real array, on loopback and a Unix socket, in a temporary directory.
#   tests/e2e.sh            all checks
#   tests/e2e.sh NAME...    some of them
# WEFT chooses the binary. One line a check; closing line 'N passed, N failed'.
set -u
unset COLUMNS
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
only=" $* "
T=$(mktemp -d /tmp/weft-e2e.XXXXXX)
D=$T/array
S=$T/nbd.sock
URI="nbd+unix:///vol0?socket=$S"
MIB=$((1 << 20))
SIZE=$((384 * MIB))
LIMIT=60                        # seconds that anything may take
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
passed=0 failed=0

# ---- the array, and waiting for it

# Clients and commands may be refused, and may not hang.
for command in nbdinfo nbdcopy qemu-img qemu-io fio; do
    eval "$command() { timeout -k 5 $LIMIT $command \"\$@\"; }"
done
weft() { timeout -k 5 $LIMIT "$WEFT" "$@" --dir "$D"; }

server() { cat "$T/pid" 2>/dev/null || echo none; }
serves() { timeout 5 nbdinfo --size "$URI"; }
# Starts the array, made new if there is none.
start() {
    local new=()
    [ -e "$D/weft.toml" ] || new=(--nodes 5 --disk-size 192M --volume "vol0:$SIZE")
    "$WEFT" up --dir "$D" --listen "$S" --listen "127.0.0.1:$PORT" "${new[@]}" "$@" >>"$T/up.log" 2>&1 9>&- &
    echo $! >"$T/pid"
    wait_until eval 'serves || dead "$(server)"'
    serves || { echo "the array did not start:"; tail -5 "$T/up.log"; return 1; }
}
stop() { kill -TERM "$(server)"; wait_until dead "$(server)"; }
# The answer of `status` as Python sees it: s.
status() { weft status --json | python3 -c "import json, sys; s = json.load(sys.stdin); $1" "${@:2}"; }
node_is() { status 'sys.exit(s["nodes"][int(sys.argv[1])]["state"] != sys.argv[2])' "$1" "$2"; }
whole() { status 'sys.exit(not all(n["state"] == "up" for n in s["nodes"]) or not all(v["mode"] == "fault-free" for v in s["volumes"]))'; }
requests() { status 'print(s["totals"]["requests"])'; }
busier_than() { [ "$(requests)" -gt "$1" ]; }
# What a check before left behind shall not hurt the next.
mend() {
    alive "$(server)" || start || return 1
    local node
    for node in $(status 'print(*(n["node"] for n in s["nodes"] if n["state"] in ("down", "lost")))'); do
        weft node start "$node"
    done
    wait_until whole || { status 'print(json.dumps(s))'; kill -9 "$(server)"; return 1; }
}

unmount() {
    mountpoint -q "$T/mnt" && { umount "$T/mnt" || umount -l "$T/mnt"; }
    [ -s "$T/loop" ] && { losetup -d "$(cat "$T/loop")"; rm -f "$T/loop"; }
    mountpoint -q "$T/fuse" && { fusermount3 -u "$T/fuse" || umount -l "$T/fuse"; }
    [ -s "$T/nbdfuse" ] && { wait_until dead "$(cat "$T/nbdfuse")" || kill -9 "$(cat "$T/nbdfuse")"; rm -f "$T/nbdfuse"; }
    return 0
}
clean() {
    trap - EXIT INT TERM
    unmount >/dev/null 2>&1
    alive "$(server)" && kill -9 "$(server)"
    jobs -p | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

# ---- checks: t NAME FUNCTION ARGUMENTS..; what it printed is shown if it failed

t() {
    local name=$1 status begun=$SECONDS
    shift
    [ "$only" = "  " ] || [[ $only == *" $name "* ]] || return 0
    mend >"$T/out" 2>&1
    status=$?
    # Not in an `if`: there, `set -e` would count for nothing.
    if [ $status = 0 ]; then
        ( trap - EXIT; set -e -o pipefail; "$@" ) >"$T/out" 2>&1
        status=$?
    else
        echo "before the check: the array was not whole" >>"$T/out"
    fi
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        echo "ok $name ($((SECONDS - begun)) s)$(sed -n 's/^note: /; /p' "$T/out" | tr -d '\n')"
    else
        failed=$((failed + 1))
        echo "FAIL $name (status $status, $((SECONDS - begun)) s)"
        tail -25 "$T/out" | cut -c 1-300 | sed 's/^/     | /'
    fi
}
# The command must fail, by itself and in time.
fails() {
    local status=0
    "$@" >"$T/said" 2>&1 || status=$?
    case $status in
        0) echo "went well, and should not have: $*"; cat "$T/said"; return 1 ;;
        124 | 137) echo "hung: $*"; cat "$T/said"; return 1 ;;
        10[1-9]|1[1-9][0-9]) echo "died with status $status: $*"; cat "$T/said"; return 1 ;;
    esac
}
# The command must fail and say all of these.
refused() {
    local says=$1 word
    shift
    fails "$@" || return 1
    for word in $says; do
        grep -qiF -- "$word" "$T/said" || { echo "'$*' did not say '$word':"; cat "$T/said"; return 1; }
    done
}
up() { timeout -k 5 20 "$WEFT" up --listen "$T/other.sock" "$@"; }
# qemu-io, and every pattern found.
qio() {
    local commands=() c
    for c in "$@"; do commands+=(-c "$c"); done
    qemu-io -f raw "${commands[@]}" "$URI" >"$T/qio" 2>&1 || { cat "$T/qio"; return 1; }
    ! grep -iE 'verification failed|error|failed' "$T/qio"
}
scrub() { weft scrub "${1:-vol0}"; }

info() {
    [ "$(nbdinfo --size "$URI")" = $SIZE ]
    [ "$(nbdinfo --size "nbd+unix:///?socket=$S")" = $SIZE ]
    [ "$(nbdinfo --size "nbd://127.0.0.1:$PORT/vol0")" = $SIZE ]
    nbdinfo "$URI"
    nbdinfo --list "nbd+unix:///?socket=$S" | tee "$T/list"
    grep -q vol0 "$T/list"
    nbdinfo --map "$URI" | tail -20
    nbdinfo --map --totals "$URI"
    for can in write flush fua zero multi-conn; do nbdinfo --can $can "$URI" || { echo "cannot $can"; false; }; done
    fails nbdinfo "nbd+unix:///nosuch?socket=$S"
}
# A file as large as the volume, random at the start.
image() { head -c "$2" /dev/urandom >"$1"; truncate -s $SIZE "$1"; }
copies() {
    image "$T/a" 64M
    nbdcopy "$T/a" "$URI"
    nbdcopy "$URI" "$T/b"
    cmp "$T/a" "$T/b"
    nbdcopy --connections=4 --requests=32 --request-size=65536 "nbd://127.0.0.1:$PORT/vol0" "$T/b"
    cmp "$T/a" "$T/b"
    nbdcopy --synchronous "$URI" - | cmp - "$T/a"
}
converts() {
    image "$T/a" 24M
    dd if=/dev/urandom of="$T/a" bs=1M count=8 seek=200 conv=notrunc status=none
    qemu-img convert -n -f raw -O raw "$T/a" "$URI"
    qemu-img compare -f raw -F raw "$T/a" "$URI"
    qemu-img convert -f raw -O qcow2 "$URI" "$T/a.qcow2"
    qemu-img compare -f raw -F qcow2 "$T/a" "$T/a.qcow2"
    printf x | dd of="$T/a" bs=1 seek=$((300 * MIB + 1)) conv=notrunc status=none
    fails qemu-img compare -f raw -F raw "$T/a" "$URI"
}
patterns() {
    qio 'write -P 0xa5 0 1M' 'read -P 0xa5 0 1M' 'write -P 0x5a 4096 8192' \
        'read -P 0xa5 0 4096' 'read -P 0x5a 4096 8192' 'read -P 0xa5 12288 4096' \
        'aio_write -P 9 1M 3M' aio_flush 'read -P 9 1M 3M' flush \
        "write -P 0xee $((SIZE - 4096)) 4096" "read -P 0xee $((SIZE - 4096)) 4096"
}
zeroes() {
    qio 'write -P 7 0 4M' 'write -z 64k 64k' 'read -P 0 64k 64k' 'read -P 7 0 64k' 'read -P 7 128k 64k' \
        'write -z -u 1M 1M' 'read -P 0 1M 1M' 'write -z 3000001 77777' 'read -P 0 3000001 77777' \
        'read -P 7 3000000 1' 'read -P 7 3077778 1'
}
discards() { qio 'write -P 7 8M 4M' 'discard 9M 1M' 'read -P 7 8M 1M' 'read -P 7 10M 2M' 'discard 100M 64M' 'write -P 8 9M 1M' 'read -P 8 9M 1M'; }
fua() { qio 'write -f -P 0x77 300000 1000' 'read -P 0x77 300000 1000' 'write -f -P 0x78 16M 2M' 'read -P 0x78 16M 2M' 'write -f -z 17M 64k' 'read -P 0 17M 64k'; }
unaligned() {
    qio 'write -P 1 32M 1M' 'write -P 2 33554433 1' 'read -P 1 33554432 1' 'read -P 2 33554433 1' 'read -P 1 33554434 1000' \
        'write -P 3 33619967 2' 'read -P 3 33619967 2' 'read -P 1 33619966 1' 'read -P 1 33619969 100' \
        'write -P 4 33700001 200003' 'read -P 4 33700001 200003' 'read -P 1 33700000 1' 'read -P 1 33900004 1'
}
past_the_end() {
    # qemu-io refuses by itself, so these say it byte by byte.
    python3 tests/python/past_the_end.py "$S" $SIZE
    fails qemu-io -f raw -c "read $SIZE 4096" "$URI"
    qio "read $((SIZE - 4096)) 4096"
}
garbage() {
    # Another host is there before, and must be served after.
    mkfifo "$T/fifo"
    qemu-io -f raw "$URI" <"$T/fifo" >"$T/other" 2>&1 & local other=$!
    exec 9>"$T/fifo"
    echo 'write -P 0x3c 40M 1M' >&9
    wait_until grep -q 'wrote' "$T/other"
    python3 tests/python/garbage.py "$S" "$D/control.sock"
    echo 'read -P 0x3c 40M 1M' >&9
    exec 9>&-
    wait $other
    cat "$T/other"
    grep -q 'read 1048576/1048576' "$T/other"
    fails grep -E 'failed|error' "$T/other"
    nbdinfo --size "$URI"
    weft status
}
# Others on the machine may read nothing of an array.
modes() {
    find "$D" ! -type s -perm /077 | tee "$T/open"
    [ ! -s "$T/open" ]
    [ "$(stat -c %a "$D" "$D/disk-0.img" "$D/weft.toml" | tr '\n' ' ')" = '700 600 600 ' ]
}
# What was asked by one who has given up is not done later.
given_up() {
    kill -STOP "$(server)"
    timeout 1 "$WEFT" node kill 2 --dir "$D" && return 1
    kill -CONT "$(server)"
    weft status >/dev/null
    node_is 2 up
}
# Twice as many connections as there are descriptors: commands are answered all the same, a node comes
# back, and afterwards hosts are served as before.
descriptors() {
    stop
    (ulimit -n 200 && start)
    python3 tests/python/many_connections.py "$PORT" >"$T/many" & local many=$!
    wait_until grep -q all "$T/many"
    weft node kill 3
    weft node start 3
    grep -c 'too few file descriptors' "$T/up.log"
    kill $many
    wait_until serves
    nbdinfo --size "nbd://127.0.0.1:$PORT/vol0"
    qio 'write -P 0x11 0 1M' 'read -P 0x11 0 1M'
    stop
    start
}
# Sixty hosts begin to write 32 MiB each and do not finish: memory stays bounded, and others are served.
partial() {
    local before after
    memory() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(server)/status"; }
    before=$(memory)
    python3 tests/python/partial_writes.py "$S" >"$T/many" & local many=$!
    wait_until grep all "$T/many"
    after=$(memory)
    cat "$T/many"
    echo "note: $(((after - before) / 1024)) MiB more"
    [ $((after - before)) -lt $((600 * 1024)) ]
    qio 'write -P 0x12 100M 200k' 'read -P 0x12 100M 200k'
    kill $many
    qio 'write -P 0x13 0 32M' 'read -P 0x13 0 32M'
}
# As the options say: strangers have so much time, and so many connections.
limits() {
    refused 'incomplete at least 64MiB' up --dir "$T/x" --max-incomplete 1M
    stop
    start --handshake-timeout 5s --request-timeout 2s --max-connections 5 --max-connections-per-address 3
    python3 tests/python/limits.py "$S" "$PORT"
    wait_until serves
    qio 'write -P 0x14 0 1M' 'read -P 0x14 0 1M'
    stop
    start
}
volumes() {
    local layout uri="nbd+unix:///extra?socket=$S" kill
    head -c 16M /dev/urandom >"$T/e"
    for layout in raid0 raid1 raid4 raid5:right-asymmetric raid6 rs:2+1 rs:2+2; do
        echo "layout $layout"
        weft volume create extra 16M --layout $layout --stripe-unit 16K
        weft volume list | grep extra
        nbdinfo --list "nbd+unix:///?socket=$S" | grep extra
        nbdcopy "$T/e" "$uri"
        nbdcopy "$uri" - | cmp - "$T/e"
        case $layout in raid0) kill= ;; raid6 | rs:2+2) kill='0 3' ;; *) kill=3 ;; esac
        for node in $kill; do weft node kill "$node"; done
        # vol0 is RAID 5 and may be lost with two nodes; extra is not.
        nbdcopy "$uri" - | cmp - "$T/e"
        for node in $kill; do weft node start "$node"; done
        wait_until whole
        scrub extra
        weft volume delete extra --yes --now
        fails weft volume show extra
        fails nbdinfo "$uri"
    done
}
# A volume is copied to another of another layout, also with a node down; nothing is overwritten that is not meant.
copied() {
    local from="nbd+unix:///from?socket=$S" to="nbd+unix:///to?socket=$S" said
    head -c 5M /dev/urandom >"$T/e"
    truncate -s 40M "$T/e"
    head -c 300k /dev/urandom | dd of="$T/e" bs=1k seek=30001 conv=notrunc status=none
    weft volume create from 40M --stripe-unit 16K
    refused 'no volume to weft create' weft volume copy from to
    weft volume create to 16M --layout raid1
    refused "'to' 16 less 40 MiB weft resize" weft volume copy from to
    weft volume resize to 40M
    nbdcopy "$T/e" "$from"
    refused 'itself another' weft volume copy from from
    weft volume copy from to
    nbdcopy "$to" - | cmp - "$T/e"
    # Holes stay holes, and content is not replaced by accident.
    [ "$(nbdinfo --map --totals "$to" | awk '/hole/ { print $1 }')" -gt $((32 * MIB)) ]
    refused "'to' content --overwrite" weft volume copy from to
    head -c 40M /dev/urandom >"$T/e"
    nbdcopy "$T/e" "$from"
    weft node kill 1
    said=$(weft volume copy from to --overwrite --json)
    echo "$said" | grep '"copied": 41943040'
    weft node start 1
    wait_until whole
    nbdcopy "$to" - | cmp - "$T/e"
    # While a host uses the destination nothing is written there.
    mkfifo "$T/hold"
    qemu-io -f raw "$to" <"$T/hold" >/dev/null &
    exec 7>"$T/hold"
    used_by_one() { status 'sys.exit(not any(v["name"] == "to" and v["clients"] == 1 for v in s["volumes"]))'; }
    wait_until used_by_one
    refused "'to' overwrite disconnect" weft volume copy from to --overwrite
    exec 7>&-
    wait
    # What is interrupted can be resumed: from there on it is copied again.
    qemu-io -f raw -c 'write -P 5 35M 4k' "$from"
    weft volume copy from to --from 34M
    nbdcopy "$from" "$T/e"
    nbdcopy "$to" - | cmp - "$T/e"
    scrub to
    weft volume delete from --yes --now
    weft volume delete to --yes --now
}
# A volume larger than all disks: it takes space when it is written, and gives it back when that is discarded or it is deleted.
thin() {
    local uri="nbd+unix:///thin?socket=$S" n written=0 before
    used() { status 'print(next(v["used_bytes"] for v in s["volumes"] if v["name"] == "thin"))'; }
    uses_less_than() { [ "$(used)" -lt "$1" ]; }
    taken() { status 'print(sum(n["slots"]["thin"] for n in s["nodes"]))'; }
    nothing_is_taken() { [ "$(taken)" = 0 ]; }
    refused "'thin' reserves size" weft volume create thin all --thin
    refused 'thin commit=limited' weft volume create thin 1T --thin --commit limited
    weft volume create thin 1T --thin
    refused 'thin commit=limited' weft volume set thin commit=limited
    [ "$(nbdinfo --size "$uri")" = $((1 << 40)) ] && [ "$(used)" = 0 ]
    qemu-io -f raw -c 'write -P 5 900G 8M' "$uri"
    [ "$(used)" -ge $((8 * MIB)) ] && uses_less_than $((24 * MIB))
    # Until a disk is full. Then reads, writes of what has its space, and other volumes go on.
    for n in $(seq 40); do
        qemu-io -f raw -c "write -P $n ${n}G 32M" "$uri" >"$T/qio" 2>&1 || break
        written=$n
    done
    grep -i 'no space left' "$T/qio"
    [ "$written" -ge 2 ]
    weft status | grep -E 'disk of node . is [0-9]+ % full'
    qemu-io -f raw -c "read -P $written ${written}G 32M" -c 'read -P 1 1G 32M' -c 'write -P 9 1G 32M' -c 'read -P 9 1G 32M' "$uri" \
        | tee "$T/qio"
    if grep -iE 'failed|error' "$T/qio"; then false; fi
    qio 'write -P 6 0 1M' 'read -P 6 0 1M'
    refused "'big' thin volumes use" weft volume create big 200M
    before=$(used)
    for n in $(seq "$written"); do qemu-io -f raw -c "discard ${n}G 32M" "$uri"; done
    wait_until uses_less_than $((before / 2))
    qemu-io -f raw -c 'write -P 8 500G 16M' -c 'read -P 8 500G 16M' -c 'read -P 0 1G 32M' -c 'read -P 5 900G 8M' "$uri" | tee "$T/qio"
    if grep -iE 'failed|error' "$T/qio"; then false; fi
    scrub thin
    stop && start
    qemu-io -f raw -c 'read -P 8 500G 16M' -c 'read -P 5 900G 8M' "$uri"
    weft volume delete thin --yes --now
    wait_until nothing_is_taken
}
# A file system on a thin volume: what is deleted and trimmed is given back.
trimmed() {
    [ -e /dev/fuse ] && [ -e /dev/loop-control ] && [ "$(id -u)" = 0 ] || { echo "note: skipped, for want of fuse or loop devices"; return 0; }
    local device full
    used() { status 'print(next(v["used_bytes"] for v in s["volumes"] if v["name"] == "files"))'; }
    uses_less_than() { [ "$(used)" -lt "$1" ]; }
    trap unmount EXIT
    mkdir -p "$T/fuse" "$T/mnt"
    weft volume create files 4G --thin
    timeout 600 nbdfuse "$T/fuse/vol" "nbd+unix:///files?socket=$S" & echo $! >"$T/nbdfuse"
    wait_until test -e "$T/fuse/vol"
    if ! losetup -f --show "$T/fuse/vol" >"$T/loop" 2>"$T/losetup"; then
        echo "note: skipped, for want of loop devices: $(cat "$T/losetup")"; return 0
    fi
    device=$(cat "$T/loop")
    mkfs.ext4 -q -F "$device"
    mount -t ext4 "$device" "$T/mnt"
    head -c 60M /dev/urandom >"$T/mnt/a"
    head -c 5M /dev/urandom >"$T/mnt/b"
    sum=$(sha256sum <"$T/mnt/b")
    sync -f "$T/mnt"
    full=$(used)
    rm "$T/mnt/a"
    sync -f "$T/mnt"
    fstrim "$T/mnt"
    wait_until uses_less_than $((full - 40 * MIB))
    # Under a snapshot what is trimmed stays, for the snapshot. With the snapshot it goes.
    head -c 50M /dev/urandom >"$T/mnt/c"
    sync -f "$T/mnt"
    weft volume snapshot files with
    taken() { status 'print(sum(n["slots"]["thin"] * n["slots"]["bytes"] for n in s["nodes"]))'; }
    takes_less_than() { [ "$(taken)" -lt "$1" ]; }
    # What is in journals has yet to be put in its slots.
    takes_more_than() { [ "$(taken)" -gt "$1" ]; }
    wait_until takes_more_than $((62 * MIB))
    full=$(taken)
    rm "$T/mnt/c"
    sync -f "$T/mnt"
    fstrim "$T/mnt"
    if takes_less_than $((full - 20 * MIB)); then false; fi
    weft volume delete files@with --yes --now
    wait_until takes_less_than $((full - 40 * MIB))
    umount "$T/mnt"
    mount -t ext4 "$device" "$T/mnt"
    [ "$sum" = "$(sha256sum <"$T/mnt/b")" ]
    unmount
    scrub files
    weft volume delete files --yes --now
}
# What cannot be undone is asked, or said with --yes; a deleted volume comes back, and goes when its room is needed.
# Two volumes at one instant, a clone, and the way back: each has its own content, and at the end no slot is taken.
snapshots() {
    local n
    uri() { echo "nbd+unix:///$1?socket=$S"; }
    taken() { status 'print(sum(n["slots"]["thin"] for n in s["nodes"]))'; }
    nothing_is_taken() { [ "$(taken)" = 0 ]; }
    holds() { timeout -k 5 $LIMIT nbdcopy "$(uri "$1")" - | cmp - "$2"; }
    for n in 1 2 3 4; do head -c 24M /dev/urandom >"$T/picture$n"; done
    weft volume create first 24M
    weft volume create second 24M --layout rs:2+2
    nbdcopy "$T/picture1" "$(uri first)"
    nbdcopy "$T/picture2" "$(uri second)"
    weft volume snapshot first,second before
    [ "$(weft volume list --snapshots | grep -cE '@before +┆ 20..-..-.. ..:')" = 2 ]
    if weft volume list | grep -F '@before'; then false; fi
    nbdcopy "$T/picture3" "$(uri first)"
    (cd "$T" && fio --name=s --thread --ioengine=nbd --uri="$(uri second)" --rw=randwrite --bsrange=512-64k --size=24m --io_size=8m \
        --verify=crc32c --verify_fatal=1 --do_verify=1)
    holds first@before "$T/picture1"
    holds second@before "$T/picture2"
    nbdinfo "$(uri first@before)" | grep -x '	is_read_only: true'
    refused 'permission' qemu-io -f raw -c 'write 0 4k' "$(uri first@before)"
    weft volume snapshot first later
    weft volume clone first@before other
    holds other "$T/picture1"
    nbdcopy "$T/picture4" "$(uri other)"
    holds other "$T/picture4"
    holds first "$T/picture3"
    holds first@before "$T/picture1"
    weft volume create copied 24M --layout raid1
    weft volume copy second@before copied
    holds copied "$T/picture2"
    weft volume delete copied --yes --now
    for n in second other; do scrub $n; done
    [ "$(weft scrub first --snapshots | grep -c 'all parity is consistent')" = 3 ]
    refused 'clone other' weft volume delete first@before --yes
    refused 'snapshots' weft volume delete first --yes
    weft volume rollback first before --yes
    holds first "$T/picture1"
    holds first@later "$T/picture3"
    holds other "$T/picture4"
    # Discards hide the snapshot below, also after a restart.
    qemu-io -f raw -c 'discard 0 8M' "$(uri first)"
    head -c 8M /dev/zero >"$T/picture2"
    tail -c +$((8 * MIB + 1)) "$T/picture1" >>"$T/picture2"
    holds first "$T/picture2"
    stop && start
    holds first "$T/picture2"
    holds first@later "$T/picture3"
    holds first@before "$T/picture1"
    for n in other first@before first@later second@before; do weft volume delete $n --yes --now; done
    holds first "$T/picture2"
    weft volume list --snapshots | grep 'no snapshots'
    for n in first second; do weft volume delete $n --yes --now; done
    wait_until nothing_is_taken
    wait_until status 'sys.exit(len(s["volumes"]) != 1)'
}
# The clock of the array is moved on by hand. Each period has one snapshot, the oldest go, and what keeps one from being
# taken is said.
schedules() {
    local libraries=(/usr/lib/*/faketime/libfaketime.so.1) name
    [ -e "${libraries[0]}" ] || { echo "note: skipped, for want of libfaketime"; return 0; }
    at() { echo "$1" >"$T/clock.new" && mv "$T/clock.new" "$T/clock"; }
    there() { status 'print(*sorted(v["name"] for v in s["volumes"] if v.get("snapshot_of") and v["mode"] != "deleted"))'; }
    are() { [ "$(there)" = "$*" ]; }
    healthy() { status 'sys.exit(any(k.get("hindrance") for v in s["volumes"] for k in v.get("schedule", [])))'; }
    real=$WEFT
    trap 'WEFT=$real; stop; start' EXIT
    stop
    # A clock that stands still where the file says.
    cat >"$T/faked" <<END
#!/bin/sh
export LD_PRELOAD=${libraries[0]} FAKETIME_TIMESTAMP_FILE=$T/clock FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 TZ=UTC
exec "$real" "\$@"
END
    chmod +x "$T/faked"
    WEFT=$T/faked
    at '2026-11-28 12:10:00'
    start
    refused 'journal=off omit' weft volume create s1 8M --journal off --snapshots hourly:2
    refused 'such as hourly:24,daily:7' weft volume create s1 8M --snapshots yearly:2
    weft volume create s1 8M --snapshots hourly:2,daily:1
    weft volume create s2 8M --thin
    weft volume set s2 snapshots=hourly:2 | grep 'hourly snapshots: 0 of 2, none taken yet'
    wait_until are s1@daily-2026-11-28 s1@hourly-2026-11-28T12 s2@hourly-2026-11-28T12
    refused 'is a snapshot, which cannot be changed' weft volume set s1@daily-2026-11-28 snapshots=daily:1
    refused 'with snapshots redundancy=deferred copy' weft volume set s2 redundancy=deferred
    weft volume snapshot s1 own
    weft volume show s1 | grep 'hourly snapshots: 1 of 2, the newest taken 2026-11-28 12:10:00 UTC; the next is due 2026-11-28 13:00:00 UTC'
    # Hours in which nothing runs are missed, and a start takes none twice.
    at '2026-11-28 12:59:59'
    stop && start
    at '2026-11-28 14:00:00'
    wait_until are s1@daily-2026-11-28 s1@hourly-2026-11-28T12 s1@hourly-2026-11-28T14 s1@own s2@hourly-2026-11-28T12 s2@hourly-2026-11-28T14
    stop && start
    # The clone's snapshot stays for the time being.
    weft volume clone s2@hourly-2026-11-28T12 cloned
    at '2026-11-28 15:00:30'
    wait_until are s1@daily-2026-11-28 s1@hourly-2026-11-28T14 s1@hourly-2026-11-28T15 s1@own \
        s2@hourly-2026-11-28T12 s2@hourly-2026-11-28T14 s2@hourly-2026-11-28T15
    wait_until grep -q "snapshot 's2@hourly-2026-11-28T12' is not deleted yet: .* clone" "$T/up.log"
    [ "$(grep -c "s2@hourly-2026-11-28T12' is not deleted yet" "$T/up.log")" = 1 ]
    weft volume delete cloned --yes --now
    wait_until are s1@daily-2026-11-28 s1@hourly-2026-11-28T14 s1@hourly-2026-11-28T15 s1@own s2@hourly-2026-11-28T14 s2@hourly-2026-11-28T15
    # A clock that is set back, within what is there.
    at '2026-11-28 14:30:00'
    stop && start
    at '2026-11-28 15:30:00'
    # An operator has taken the name of the next. It is tried again, until the period is over.
    weft volume snapshot s1 hourly-2026-11-28T16
    at '2026-11-28 16:00:00'
    wait_until eval '! healthy'
    wait_until grep -q "'s1@hourly-2026-11-28T16' cannot be taken: .* no schedule took it" "$T/up.log"
    weft status | grep 'degraded: .*hourly snapshot of volume s1 cannot be taken'
    at '2026-11-28 17:00:00'
    wait_until are s1@daily-2026-11-28 s1@hourly-2026-11-28T15 s1@hourly-2026-11-28T16 s1@hourly-2026-11-28T17 s1@own \
        s2@hourly-2026-11-28T16 s2@hourly-2026-11-28T17
    healthy
    [ "$(grep -c "'s1@hourly-2026-11-28T16' cannot be taken" "$T/up.log")" = 1 ]
    # The day after, at the same instant.
    at '2026-11-29 00:00:00'
    wait_until are s1@daily-2026-11-29 s1@hourly-2026-11-28T16 s1@hourly-2026-11-28T17 s1@hourly-2026-11-29T00 s1@own \
        s2@hourly-2026-11-28T17 s2@hourly-2026-11-29T00
    status 'print(*{v["taken"] for v in s["volumes"] if "-29" in v["name"]})' | grep -x '2026-11-29T00:00:00.000Z'
    weft volume set s1 snapshots=none && weft volume set s2 snapshots=none
    at '2026-11-30 00:00:00'
    [ "$(there | wc -w)" = 7 ]
    for name in $(there) s1 s2; do weft volume delete "$name" --yes --now; done
    wait_until status 'sys.exit(len(s["volumes"]) != 1)'
}
# What the list says that the deletion of a snapshot frees is what it frees.
exclusive() {
    local uri="nbd+unix:///excl?socket=$S" name said before
    of() { status 'print(next(v["exclusive_bytes"] for v in s["volumes"] if v["name"] == sys.argv[1]))' "$1"; }
    # When changes are in place: nothing is promised or held that is not counted yet.
    still() { status 'sys.exit(not all(n.get("quiet") for n in s["nodes"]) or any(v["mode"] == "deleted" for v in s["volumes"]))'; }
    used() { wait_until still && status 'print(sum(v["used_bytes"] for v in s["volumes"] if "used_bytes" in v))'; }
    write() { qemu-io -f raw "${@/#/-cwrite }" "$uri"; }
    weft volume create excl 16M --thin
    write '-P 1 0 8M'
    weft volume snapshot excl one
    write '-P 2 0 4M' '-P 2 12M 1M'
    weft volume snapshot excl two
    write '-P 3 2M 4M'
    weft volume snapshot excl three
    weft volume snapshot excl four
    used
    weft volume list --snapshots | grep -E 'excl@one .* 4.00 MiB │$'
    [ "$(of excl@one)" = $((4 * MIB)) ] && [ "$(of excl@two)" = $((2 * MIB)) ]
    [ "$(of excl@three)" = 0 ] && [ "$(of excl@four)" = 0 ]
    for name in two one three four; do
        before=$(used) said=$(of excl@$name)
        weft volume delete excl@$name --yes
        echo "$name: $said said, $((before - $(used))) freed"
        [ "$said" = $((before - $(used))) ]
    done
    [ "$before" = $((9 * MIB)) ]
    # With a clone nothing is free. Without one a branch that a rollback has left goes at once.
    weft volume snapshot excl five
    weft volume clone excl@five cloned
    write '-P 4 0 16M'
    used
    [ "$(of excl@five)" = 0 ]
    weft volume delete cloned --yes --now
    used
    [ "$(of excl@five)" = $((9 * MIB)) ]
    weft volume snapshot excl six
    weft volume rollback excl five --yes
    used
    [ "$(of excl@six)" = $((16 * MIB)) ] && [ "$(of excl@five)" = 0 ]
    before=$(used)
    weft volume delete excl@six --yes
    [ "$(used)" = $((before - 16 * MIB)) ]
    weft volume delete excl@five --yes
    weft volume delete excl --yes --now
}
# A backup takes what is allocated in the first snapshot, and of the next ones what changed: block status says it, under
# the name that backup tools know.
changed() {
    local n
    uri() { echo "nbd+unix:///$1?socket=$S"; }
    weft volume create data 64M --thin
    qemu-io -f raw -c 'write -P 1 1M 8M' -c 'write -P 2 40M 1M' "$(uri data)"
    weft volume snapshot data day0
    refused 'no snapshot' weft volume diff data day9
    : >"$T/backup"
    truncate -s 64M "$T/backup"
    backup() { timeout -k 5 $LIMIT /usr/bin/python3 tests/python/backup.py "$1" "$2" "$T/backup"; }
    is_saved() { timeout -k 5 $LIMIT nbdcopy "$(uri "$1")" - | cmp - "$T/backup"; }
    [ "$(backup "$(uri data@day0)" base:allocation)" -le $((10 * MIB)) ]
    is_saved data@day0
    for n in 1 2 3; do
        # Something is written, something discarded, and something written over.
        qemu-io -f raw -c "write -P $n$n 2M 64k" -c "discard $((4 + n))M 256k" -c "write -P $n $((20 + n))M 4k" "$(uri data)"
        weft volume snapshot data day$n
        context=qemu:dirty-bitmap:day$((n - 1))
        [ $n = 2 ] && context=weft:since=day$((n - 1))
        [ "$(backup "$(uri data@day$n)" $context)" -le $((2 * MIB)) ]
        is_saved data@day$n
        weft volume diff data day$((n - 1)) day$n | grep 'may have changed'
    done
    nbdinfo --map=qemu:dirty-bitmap:day0 "$(uri data)" | grep dirty
    # QEMU shows as not allocated what the context calls changed, and the bytes of both are the same.
    changed_bytes() {
        nbdinfo --map=qemu:dirty-bitmap:day0 "$(uri data)" |
            awk '$3 == 1 { sum += $2 } END { print sum + 0 }'
    }
    mapped_bytes() {
        qemu-img map --output=json --image-opts \
            "driver=nbd,server.type=unix,server.path=$S,export=data,x-dirty-bitmap=qemu:dirty-bitmap:day0" |
            python3 -c 'import json, sys; print(sum(r["length"] for r in json.load(sys.stdin) if not r["data"]))'
    }
    [ "$(changed_bytes)" -gt 0 ]
    [ "$(mapped_bytes)" = "$(changed_bytes)" ]
    nbdinfo "$(uri data)" | grep -F 'weft:since=day3'
    weft volume diff data day3 | grep 'nothing has changed'
    # A clone is compared with the snapshots that it lies over.
    weft volume clone data@day1 copy
    qemu-io -f raw -c 'write 50M 4k' "$(uri copy)"
    nbdinfo --map=qemu:dirty-bitmap:data@day0 "$(uri copy)" | grep dirty
    weft volume diff copy data@day1 | grep '52428800'
    weft volume delete copy --yes --now
    # A deleted snapshot between two does not matter.
    weft volume delete data@day2 --yes
    weft volume diff data day1 day3 --json | python3 -c 'import json, sys; r = json.load(sys.stdin)["ranges"]; sys.exit(not r)'
    for n in 0 1 3; do weft volume delete data@day$n --yes --now; done
    weft volume delete data --yes --now
    wait_until status 'sys.exit(len(s["volumes"]) != 1)'
}
# A file system is snapshotted while files are written. The clone has all that were durable before.
snapshots_fs() {
    [ -e /dev/fuse ] && [ -e /dev/loop-control ] && [ "$(id -u)" = 0 ] || { echo "note: skipped, for want of fuse or loop devices"; return 0; }
    local copier file
    trap 'umount -q "$T/cloned" || true; fusermount3 -qu "$T/fuse2" || true; unmount' EXIT
    mkdir -p "$T/fuse" "$T/fuse2" "$T/mnt" "$T/cloned"
    weft volume create fs 128M
    timeout 600 nbdfuse "$T/fuse/vol" "nbd+unix:///fs?socket=$S" & echo $! >"$T/nbdfuse"
    wait_until test -e "$T/fuse/vol"
    mkfs.ext4 -q -F "$T/fuse/vol"
    if ! losetup -f --show "$T/fuse/vol" >"$T/loop" 2>"$T/losetup"; then
        echo "note: skipped, for want of loop devices: $(cat "$T/losetup")"; return 0
    fi
    mount -t ext4 "$(cat "$T/loop")" "$T/mnt"
    rm -f "$T/enough"
    : >"$T/copied"
    (
        set -e
        for file in $(seq 5000); do
            head -c $((RANDOM)) /dev/urandom >"$T/mnt/$file"
            sync "$T/mnt/$file"
            sha256sum <"$T/mnt/$file" | sed "s/-/$file/" >>"$T/copied"
            [ "$file" -lt 50 ] || rm "$T/mnt/$((file - 40))"
            [ ! -e "$T/enough" ] || exit 0
        done
    ) & copier=$!
    copied() { [ "$(wc -l <"$T/copied")" -gt "$1" ]; }
    wait_until copied 60
    cp "$T/copied" "$T/durable"
    weft volume snapshot fs busy
    wait_until copied $(($(wc -l <"$T/copied") + 30))
    touch "$T/enough"
    wait $copier
    weft volume clone fs@busy cloned
    timeout 600 nbdfuse "$T/fuse2/vol" "nbd+unix:///cloned?socket=$S" &
    wait_until test -e "$T/fuse2/vol"
    # The journal of the file system is played back, as after a power cut; then nothing is wrong.
    fsck.ext4 -p "$T/fuse2/vol" || [ $? = 1 ]
    fsck.ext4 -fn "$T/fuse2/vol"
    mount -o loop,ro "$T/fuse2/vol" "$T/cloned"
    # Of these the oldest may have been removed between the list and the snapshot, and none is damaged.
    tail -n 30 "$T/durable" | (cd "$T/cloned" && sha256sum -c) >"$T/sums" || true
    [ "$(grep -c ': OK' "$T/sums")" -ge 10 ]
    if grep 'FAILED$' "$T/sums"; then false; fi
    umount "$T/cloned"
    fusermount3 -u "$T/fuse2"
    unmount
    scrub fs; scrub cloned
    nobody() { status 'sys.exit(any(v["clients"] for v in s["volumes"] if v["name"] in ("fs", "cloned")))'; }
    wait_until nobody
    for file in cloned fs@busy fs; do weft volume delete $file --yes --now; done
}
deliberate() {
    local uri="nbd+unix:///kept?socket=$S"
    head -c 16M /dev/urandom >"$T/e"
    weft volume create keep 16M
    weft volume rename keep kept
    refused "'keep'" weft volume show keep
    nbdcopy "$T/e" "$uri"
    refused 'deleted undelete day --yes' weft volume delete kept </dev/null
    refused 'up redundancy drain --yes' weft disk fail 1 </dev/null
    weft volume delete kept --yes | grep 'weft volume undelete kept'
    fails nbdinfo "$uri"
    weft volume list | grep 'kept.*deleted'
    weft status --check
    # It is kept over a restart, and rebuilt as others are.
    stop
    start
    weft node kill 2
    weft node start 2
    refused 'restored: kept' weft volume undelete nosuch
    weft volume create kept 5M
    refused 'another kept rename' weft volume undelete kept
    weft volume rename kept new
    weft volume undelete kept | grep 'kept.*fault-free\|kept.*reconstructing'
    wait_until whole
    nbdcopy "$uri" - | cmp - "$T/e"
    scrub kept
    # Its room is there for others.
    weft volume delete kept --yes
    weft volume delete new --now --yes | grep 'permanently deleted'
    weft volume create all all
    weft volume list | grep 'kept.*deleted'
    weft volume create one 16M | grep one
    refused 'no deleted volume' weft volume undelete kept
    refused 'does not fit delete' weft volume create two 64M
    weft volume delete one --now --yes
    weft volume delete all --now --yes
}
# What a monitoring system fetches says what the status says; an address that is taken leaves no array behind.
# A host is listed, and its connection ended: then its volume can be deleted.
disconnected() {
    weft volume create held 8M --layout raid1 || return 1
    timeout 60 python3 - "$PORT" >"$T/held" 2>&1 <<'END' &
import socket, struct, sys
host = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
said = host.makefile("rb")
said.read(18)
host.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, 1, 4) + b"held")
said.read(10)
print("connected", flush=True)
print("more" if said.read(1) else "ended", flush=True)
END
    wait_until grep connected "$T/held"
    weft host list | grep '127.0.0.1:.*nbd.*held'
    weft host list --json | python3 -c 'import json, sys; sys.exit([h["volume"] for h in json.load(sys.stdin)["hosts"]].count("held") != 1)'
    weft volume delete held --yes && return 1
    weft host disconnect 127.0.0.2 && return 1
    weft host disconnect --volume vol0 127.0.0.1 && return 1
    weft host disconnect --volume held | grep '1 connection closed'
    wait_until grep ended "$T/held"
    weft volume delete held --yes --now
}
# Where the kernel refuses an io_uring its work or its threads, disks are worked with plain calls, and it is said once.
containers() {
    [ "$(id -u)" = 0 ] || return 0
    local n=0 dir way said
    cp "$WEFT" "$T/weft-for-others"
    chmod 755 "$T" "$T/weft-for-others"
    # `io_uring_enter` (426) is refused with EPERM; everything else is allowed.
    cat >"$T/confined.py" <<'END'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 426), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]
program = Program(len(rules), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program)) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
END
    for way in "python3 $T/confined.py" "setpriv --reuid 64321 --regid 64321 --clear-groups prlimit --nproc=3"; do
        n=$((n + 1)) dir=$T/contained$n
        install -d -m 777 "$dir"
        # shellcheck disable=SC2086 # several words
        $way "$T/weft-for-others" up --dir "$dir/array" --listen "$dir/s" --disk-size 64M --volume v:64M >"$dir/log" 2>&1 9>&- &
        echo $! >"$T/pid-contained"
        wait_until timeout 5 nbdinfo --size "nbd+unix:///v?socket=$dir/s"
        head -c 8M /dev/urandom >"$dir/image"
        truncate -s 64M "$dir/image"
        nbdcopy "$dir/image" "nbd+unix:///v?socket=$dir/s"
        nbdcopy "nbd+unix:///v?socket=$dir/s" - | cmp - "$dir/image"
        "$WEFT" status --dir "$dir/array" | grep -c fault-free
        kill -TERM "$(cat "$T/pid-contained")"
        wait_until dead "$(cat "$T/pid-contained")"
        said=$(grep -c -e 'do not use io_uring' -e 'cannot create threads for disk operations' "$dir/log")
        [ "$said" = 1 ] || { cat "$dir/log"; return 1; }
    done
    # Without any thread there is an error, and no abort.
    said=0
    setpriv --reuid 64321 --regid 64321 --clear-groups prlimit --nproc=1 "$T/weft-for-others" up --dir "$dir/none" \
        --listen "$dir/none.sock" --disk-size 64M >"$dir/log" 2>&1 9>&- || said=$?
    [ "$said" = 1 ] && grep 'number of processes limited' "$dir/log"
}
metrics() {
    local port other
    read -r port other _ < <(python3 tests/python/free_ports.py
)
    refused "cannot listen at 127.0.0.1:$port another" python3 -c '
import socket, subprocess, sys
taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
sys.exit(subprocess.run(sys.argv[2:]).returncode)' "$port" "$WEFT" up --dir "$T/metrics" --metrics "127.0.0.1:$port"
    [ ! -e "$T/metrics" ]
    "$WEFT" up --dir "$T/metrics" --listen "$T/metrics.sock" --disk-size 64M --metrics "127.0.0.1:$port" >"$T/metrics.log" 2>&1 9>&- &
    other=$!
    trap "kill -TERM $other; wait $other" EXIT
    wait_until timeout 5 nbdinfo --size "nbd+unix:///vol0?socket=$T/metrics.sock"
    "$WEFT" node kill 1 --dir "$T/metrics"
    python3 - "$port" <<'PY'
import sys, urllib.request
with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics") as answer:
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), answer.headers
    page = answer.read().decode()
assert page.endswith("# EOF\n")
values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
for name, value in {
    "weft_health": 1, 'weft_node_state{node="1",state="down"}': 1, 'weft_node_state{node="2",state="up"}': 1,
    'weft_volume_mode{volume="vol0",id="0",mode="degraded"}': 1, 'weft_volume_survives_nodes{volume="vol0",id="0"}': 0,
}.items():
    assert float(values[name]) == value, (name, values.get(name))
PY
}
# What rotted on a disk and was mended is said with the disk, until an operator has seen it; and each part of that is named.
rotten() {
    local disk
    image "$T/a" 16M
    nbdcopy "$T/a" "$URI"
    stop
    # Units that hold what was just written get another byte.
    disk=$D/disk-1.img
    python3 - "$T/a" "$disk" <<'PY'
import sys
block = 4096
image = open(sys.argv[1], "rb").read(16 << 20)
known = {image[at : at + block] for at in range(0, len(image), block)}
found = []
with open(sys.argv[2], "r+b") as disk:
    while content := disk.read(block):
        if content in known:
            found.append((disk.tell() - block, content))
    # The first ones may be in the journal, where nobody reads them again.
    assert len(found) > 80, found
    for at, content in found[-40:]:
        disk.seek(at + 100)
        disk.write(bytes([content[100] ^ 1]))
PY
    start
    wait_until whole
    weft scrub vol0 | tee "$T/said"
    grep 'on the disk of node 1: .* units repaired' "$T/said"
    weft status >"$T/said"
    grep "errors of the disk of node 1 ($disk): .* checksum errors.* \`weft disk clear 1\`" "$T/said"
    [ "$(grep -c 'errors of the disk of node' "$T/said")" = 1 ]
    status 'sys.exit(not s["nodes"][1]["errors"]["checksum"] >= 40 or any(n.get("errors", {}).get("checksum") for n in s["nodes"] if n["node"] != 1))'
    wait_until grep 'the disk of node 1 .* checksum errors' "$T/up.log"
    refused 'there is no node 9' weft disk clear 9
    weft disk clear 1
    [ "$(weft status | grep -c 'errors of the disk of node')" = 0 ]
    nbdcopy "$URI" - | cmp - "$T/a"
    scrub
}
# An empty array of 55 TiB is as light as a small one: holes cost nothing to be told of, trimmed or looked through.
vast() {
    local uri="nbd+unix:///vol0?socket=$T/vast.sock" other begun
    "$WEFT" up --dir "$T/vast" --nodes 5 --disk-size 14T --listen "$T/vast.sock" >"$T/vast.log" 2>&1 9>&- &
    other=$!
    trap "kill -TERM $other; wait $other" EXIT
    wait_until timeout 5 nbdinfo --size "$uri"
    [ "$(nbdinfo --size "$uri")" -gt $((50 << 40)) ]
    begun=$SECONDS
    timeout 60 /usr/bin/python3 - "$uri" <<'PY'
import nbd, sys
host = nbd.NBD()
host.connect_uri(sys.argv[1])
for at in range(2 << 10):
    host.trim(1 << 30, at << 30)
PY
    timeout 60 nbdinfo --map --totals "$uri" | grep '100.0% *3 hole,zero'
    timeout 60 "$WEFT" scrub vol0 --dir "$T/vast"
    echo "trims of 2 TiB, a map and a scrub: $((SECONDS - begun)) s"
    # 86 to 101 MB, as the allocator happens to keep pages.
    [ "$(awk '/VmHWM/ { print $2 }' "/proc/$other/status")" -lt 115000 ]
    begun=$SECONDS
    D=$T/vast
    weft node kill 2
    qemu-io -f raw -c "write -P 0x22 0 64k" -c "write -P 0x22 40T 64k" "$uri"
    weft node start 2
    wait_until whole
    echo "a disk of 14 TiB caught up: $((SECONDS - begun)) s"
}
# Groups with parity of their own: nodes are lost that the layout can recover, though not any so many.
local_parity() {
    local uri node pid layout=$1 nodes=$2 bears=$3 kill=$4
    D=$T/groups
    rm -rf "$D"
    "$WEFT" up --dir "$D" --listen "$D.sock" --nodes "$nodes" --layout "$layout" --disk-size 192M \
        --volume v:32M >"$D.log" 2>&1 9>&- &
    pid=$!
    trap "kill -TERM $pid; wait $pid" EXIT
    uri="nbd+unix:///v?socket=$D.sock"
    wait_until timeout 5 nbdinfo --size "$uri"
    weft volume list | grep "$bears"
    head -c 32M /dev/urandom >"$T/e"
    nbdcopy "$T/e" "$uri"
    for node in $kill; do weft node kill "$node"; done
    nbdcopy "$uri" - | cmp - "$T/e"
    head -c 32M /dev/urandom >"$T/e"
    nbdcopy "$T/e" "$uri"
    for node in $kill; do weft node start "$node"; done
    wait_until whole
    scrub v
    nbdcopy "$uri" - | cmp - "$T/e"
}
verifying() {
    (cd "$T" && fio --name=v --thread --ioengine=nbd --uri="$URI" --rw=randwrite --randseed=7 "$@" \
        --verify=crc32c --verify_fatal=1 --do_verify=1)
}
fio_verify() { verifying --bsrange=4k-128k --size=96m --iodepth=16; verifying --bs=4k --size=16m --iodepth=32 --fsync=16 --verify_backlog=256; }
fio_node_killed() {
    local before job
    before=$(requests)
    # Slowed down, so that it is certain to be at work when the node dies.
    verifying --bsrange=4k-128k --size=128m --iodepth=16 --rate=,24m >"$T/fio" 2>&1 & job=$!
    wait_until busier_than $((before + 200))
    weft node kill 2
    node_is 2 down
    before=$(requests)
    # So fio is at work.
    wait_until busier_than $((before + 50))
    weft node start 2
    wait $job || { cat "$T/fio"; return 1; }
    wait_until whole
    scrub
}
# What monitoring sees: the exit status, and the line that says what is wrong.
health_is() {
    local status=0
    weft status --check >"$T/health" || status=$?
    grep -q "^$2" "$T/health" && [ $status = "$1" ] || { echo "status $status:"; cat "$T/health"; return 1; }
}
fio_node_down() {
    health_is 0 'healthy$'
    weft node stop 4
    health_is 1 'degraded: volume vol0 \(is\|has been\) degraded.*, and survives no more losses; 1 more (`weft status` lists them)$'
    weft status | grep '^degraded: node 4 .* down'
    verifying --bsrange=4k-64k --size=32m --iodepth=16
    weft node start 4
    wait_until whole
    scrub
}
mode_is() { status 'sys.exit(not any(v["name"] == sys.argv[1] and v["mode"] == sys.argv[2] for v in s["volumes"]))' "$1" "$2"; }
# An empty disk takes the place of one, while hosts write.
disk_replaced() {
    local before job
    before=$(requests)
    verifying --bsrange=4k-128k --size=128m --iodepth=16 --rate=,24m >"$T/fio" 2>&1 & job=$!
    wait_until busier_than $((before + 200))
    refused 'stop it before' weft disk replace 3
    alive $job || { echo "fio ended too early:"; cat "$T/fio"; return 1; }
    weft node kill 3
    # What the node had begun on its disk must have ended.
    wait_until weft disk replace 3
    wait $job || { cat "$T/fio"; return 1; }
    wait_until whole
    scrub
}
# What was on a disk that is lost is rebuilt on others, where there are others.
disk_lost() {
    weft volume create extra 64M --layout raid1
    local uri="nbd+unix:///extra?socket=$S"
    head -c 64M /dev/urandom >"$T/a"
    nbdcopy "$T/a" "$uri"
    weft disk fail 1 --yes
    wait_until mode_is extra fault-free
    mode_is vol0 degraded
    refused 'does not survive wait until' weft disk fail 2 --yes
    nbdcopy "$uri" - | cmp - "$T/a"
    scrub extra
    weft disk replace 1
    wait_until whole
    nbdcopy "$uri" - | cmp - "$T/a"
    scrub extra
    scrub
    weft volume delete extra --yes --now
}
# Parity that waits. What is exposed is measured over restarts, and computed before a disk leaves on purpose. What is lost
# with a disk that left at once is listed, cannot be read, and can be accepted as zeros.
exposed() { status 'e = next(v for v in s["volumes"] if v["name"] == "soon")["exposed"]; sys.exit(not eval(sys.argv[1]))' "$1"; }
burst() {
    python3 -c 'for n in range(24): print(f"write -P {n + 1} {n * 36}k 4k")' |
        qemu-io -f raw "nbd+unix:///soon?socket=$S" >"$T/qio" 2>&1
    ! grep -iE 'error|failed' "$T/qio"
}
# The blocks of 4 KiB that cannot be read, and those that are listed as lost.
unreadable() {
    python3 -c 'for at in range(0, 16 << 20, 4096): print(f"read {at} 4096")' |
        qemu-io -f raw "nbd+unix:///soon?socket=$S" >"$T/qio" 2>&1 || true
    python3 - "$T/qio" <<'END'
import re, sys
done = re.findall(r"^(?:qemu-io> )*(?:read 4096/4096 bytes at offset (\d+)|(read failed.*))$", open(sys.argv[1]).read(), re.M)
assert len(done) == (16 << 20) // 4096, len(done)
for n, (at, failed) in enumerate(done):
    assert failed or int(at) == n * 4096
    if failed: print(n * 4096)
END
}
lost() {
    # It fails while something is lost.
    (weft volume lost soon --json || true) | python3 -c '
import json, sys
for r in json.load(sys.stdin)["ranges"]:
    for at in range(r["offset"], r["offset"] + r["length"], 4096): print(at)'
}
deferred() {
    local most
    weft volume create soon 16M --redundancy deferred --idle 1h --exposed-for none
    burst
    exposed 'e["bytes"] > 0 and e["stripes"] > 0 and e["unprotected_share"] > 0 and e["mttdl_hours"] > 0'
    weft status | grep 'volume soon: .* are exposed'
    most=$(status 'print(next(v for v in s["volumes"] if v["name"] == "soon")["exposed"]["most_bytes"])')
    weft volume refresh soon
    exposed 'e["bytes"] == 0 and e["most_bytes"] == '"$most"
    # A node, and the array, count on from where they were.
    weft node stop 2
    weft node start 2
    stop
    start
    exposed 'e["bytes"] == 0 and e["most_bytes"] == '"$most"' and e["unprotected_share"] > 0 and e["mean_bytes"] > 0'
    # Nothing waits of what is on a disk that may fail, until it is trusted again.
    burst
    exposed 'e["bytes"] > 0'
    weft disk suspect 2
    node_is 2 suspect
    exposed 'e["bytes"] == 0'
    burst
    exposed 'e["bytes"] == 0'
    stop
    start
    node_is 2 suspect
    weft disk suspect 2 --clear
    refused 'not suspect' weft disk suspect 2 --clear
    burst
    exposed 'e["bytes"] > 0'
    # Who leaves on purpose has parity computed first, or says what that would do.
    weft node stop 3
    exposed 'e["bytes"] == 0'
    weft node start 3
    wait_until whole
    burst
    weft node stop 3 --now | grep "no parity protects up to .* of volume 'soon' yet"
    exposed 'e["bytes"] > 0'
    weft node start 3
    wait_until whole
    weft disk fail 1 --yes
    exposed 'e["bytes"] == 0'
    wait_until weft disk replace 1
    wait_until whole
    weft volume lost soon
    scrub soon
    burst
    weft disk fail 1 --now --yes
    wait_until weft disk replace 1
    wait_until whole
    fails weft volume lost soon
    fails weft volume lost soon --json
    lost >"$T/listed"
    unreadable >"$T/unreadable"
    [ -s "$T/listed" ]
    diff "$T/listed" "$T/unreadable"
    weft volume lost soon --accept
    [ -z "$(unreadable)" ]
    weft volume refresh soon
    scrub soon
    weft volume delete soon --yes --now
}
server_killed() {
    local acked i commands=()
    # Answered before: a copy that was finished.
    head -c 32M /dev/urandom >"$T/k"
    nbdcopy "$T/k" "$URI"
    # In work: one host with FUA, each write at a place of its own and noted when it was answered;
    # and another that only makes noise.
    for i in $(seq 0 19999); do echo "write -f -P $((i % 251 + 1)) $((64 * MIB + i * 8192 + 512)) 5000"; done >"$T/writes"
    (cd "$T" && exec timeout $LIMIT fio --name=noise --thread --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --iodepth=8 \
        --offset=256m --size=64m --time_based --runtime=$LIMIT) >/dev/null 2>&1 & local noise=$!
    stdbuf -oL timeout $LIMIT qemu-io -f raw "$URI" <"$T/writes" >"$T/acks" 2>&1 & local host=$!
    wait_until eval '[ "$(grep -c wrote "$T/acks")" -ge 500 ]'
    kill -9 "$(server)"
    wait_until dead "$(server)"
    wait $host || true
    kill -9 $noise 2>/dev/null || true
    acked=$(grep -c wrote "$T/acks")
    [ "$acked" -ge 500 ] && [ "$acked" -lt 20000 ] || { echo "$acked writes were answered: not killed in the middle"; return 1; }
    start
    echo "note: $acked writes were answered"
    head -n "$acked" "$T/writes" | sed 's/^write -f/read/' >"$T/reads"
    qemu-io -f raw "$URI" <"$T/reads" >"$T/qio" 2>&1
    grep -ciE 'verification failed|error|read failed' "$T/qio" && { grep -iE 'failed|error' "$T/qio" | head; return 1; }
    [ "$(grep -c 'read 5000/5000' "$T/qio")" = "$acked" ]
    nbdcopy "$URI" "$T/b"
    cmp -n $((32 * MIB)) "$T/k" "$T/b"
    wait_until whole
    scrub
}
# A file system, with a node killed in the middle of copying files.
filesystem() {
    [ -e /dev/fuse ] && [ -e /dev/loop-control ] && [ "$(id -u)" = 0 ] || { echo "note: skipped, for want of fuse or loop devices"; return 0; }
    local kind=$1 device copier i
    trap unmount EXIT
    mkdir -p "$T/fuse" "$T/mnt" "$T/files"
    for i in $(seq 40); do head -c $((i * 7919)) /dev/urandom >"$T/files/$i"; done
    timeout 600 nbdfuse "$T/fuse/vol" "$URI" & echo $! >"$T/nbdfuse"
    wait_until test -e "$T/fuse/vol"
    if ! losetup -f --show "$T/fuse/vol" >"$T/loop" 2>"$T/losetup"; then
        echo "note: skipped, for want of loop devices: $(cat "$T/losetup")"; return 0
    fi
    device=$(cat "$T/loop")
    case $kind in ext4) mkfs.ext4 -q -F "$device" ;; xfs) mkfs.xfs -q -f "$device" ;; esac
    mount -t "$kind" "$device" "$T/mnt"
    # Copies and copies until told to end, each file made durable.
    rm -f "$T/enough" "$T/copied"
    (
        set -e
        for pass in $(seq 12); do
            mkdir "$T/mnt/$pass"
            for file in "$T"/files/*; do
                cp "$file" "$T/mnt/$pass/"
                sync "$T/mnt/$pass/${file##*/}"
                echo "$pass/${file##*/}" >>"$T/copied"
                [ ! -e "$T/enough" ] || exit 0
            done
            while [ "$pass" = 11 ] && [ ! -e "$T/enough" ]; do sleep 0.05; done
        done
    ) & copier=$!
    copied() { [ "$(wc -l <"$T/copied")" -gt "$1" ]; }
    wait_until copied 30
    weft node kill 1
    node_is 1 down
    wait_until copied $(($(wc -l <"$T/copied") + 30))
    touch "$T/enough"
    wait $copier
    echo "note: $(wc -l <"$T/copied") files"
    (cd "$T/mnt" && find . -type f -print0 | xargs -0 sha256sum) >"$T/sums"
    umount "$T/mnt"
    case $kind in ext4) fsck.ext4 -fn "$device" ;; xfs) xfs_repair -n "$device" ;; esac
    weft node start 1
    wait_until whole
    scrub
    # With nothing cached: another loop device, and the files that were copied.
    losetup -d "$device"
    wait_until eval '! losetup "$device"'
    losetup -f --show "$T/fuse/vol" >"$T/loop"
    device=$(cat "$T/loop")
    case $kind in ext4) fsck.ext4 -fn "$device" ;; xfs) xfs_repair -n "$device" ;; esac
    mount -t "$kind" -o ro "$device" "$T/mnt"
    (cd "$T/mnt" && sha256sum --quiet -c "$T/sums")
    while read -r file; do cmp "$T/files/${file#*/}" "$T/mnt/$file"; done <"$T/copied"
    [ "$(wc -l <"$T/sums")" -ge "$(wc -l <"$T/copied")" ]
}
two_killed() {
    image "$T/a" 48M
    nbdcopy "$T/a" "$URI"
    weft node kill 1
    qio 'write -P 0x21 16M 4M' 'read -P 0x21 16M 4M'
    weft volume set vol0 lost-wait=0s
    weft node kill 3
    # The volume is lost for now: errors at once, and no silence.
    fails qemu-io -f raw -c 'write -P 0x66 60M 4M' "$URI"
    fails qemu-io -f raw -c 'read 0 4M' "$URI"
    nbdinfo --size "$URI"
    weft status | tee "$T/status"
    grep -q 'failed; .*lost-wait: 0s' "$T/status"
    # Who waits for the nodes does not notice that they were away.
    weft volume set vol0 lost-wait=5m | grep -c 'lost-wait: 5m'
    qemu-io -f raw -c 'write -P 0x68 24M 4M' -c 'read -P 0x68 24M 4M' "$URI" >"$T/waited" & local waits=$!
    wait_until status 'import re; sys.exit(not any(re.search("[1-9][0-9]* for lost nodes", str(n.get("waiting"))) for n in s["nodes"]))'
    weft node start 3
    weft node start 1
    wait $waits || { cat "$T/waited"; return 1; }
    weft volume set vol0 lost-wait=20s
    wait_until whole
    qio 'read -P 0x21 16M 4M' 'write -P 0x67 60M 4M' 'read -P 0x67 60M 4M'
    nbdcopy "$URI" "$T/b"
    cmp -n $((16 * MIB)) "$T/a" "$T/b"
    cmp -i $((20 * MIB)) -n $((4 * MIB)) "$T/a" "$T/b"
    cmp -i $((28 * MIB)) -n $((20 * MIB)) "$T/a" "$T/b"
    scrub
}
bad_input() {
    local x=$T/x
    refused raid9 up --dir "$x" --layout raid9
    refused 'platter' up --dir "$x" --queue satf
    refused "'look'" up --dir "$x" --queue look
    refused '1 256' up --dir "$x" --queue c-look --queue-depth 300
    refused '1 256' up --dir "$x" --queue-depth 300
    refused 'size' up --dir "$x" --disk-size 8000000T
    rm -rf "$x"
    refused 'socket 107 shorter' up --dir "$T/$(printf 'd%.0s' {1..110})" --listen "$T/x.sock"
    [ -z "$(find "$T" -name 'ddd*')" ]
    refused 'raid5 3' up --dir "$x" --nodes 2 --layout raid5
    refused 'raid6 4' up --dir "$x" --nodes 3 --layout raid6
    refused 'rs:4+2 6' up --dir "$x" --nodes 5 --layout rs:4+2
    refused nodes up --dir "$x" --nodes 0
    refused nodes up --dir "$x" --nodes 100000
    refused sectors up --dir "$x" --disk-size 64K
    refused 'multiple 4 KiB' up --dir "$x" --disk-size 1000001
    refused 'stripe 1000' up --dir "$x" --stripe-unit 1000
    refused stripe up --dir "$x" --stripe-unit 0
    refused stripe up --dir "$x" --disk-size 8M --stripe-unit 1G
    refused 'fit free' up --dir "$x" --disk-size 64M --volume v:100G
    refused NAME:SIZE up --dir "$x" --volume v
    refused "'all'" up --dir "$x" --volume v:0
    refused 'size' up --dir "$x" --volume v:many
    refused already up --dir "$x" --volume v:1M --volume v:1M
    refused letters up --dir "$x" --volume 'a/b:1M'
    refused HOST:PORT up --dir "$x" --listen nonsense
    refused 'on off' up --dir "$x" --journal maybe
    refused "$PORT --listen" timeout 20 "$WEFT" up --dir "$T/y" --listen "127.0.0.1:$PORT"
    [ ! -e "$x/weft.toml" ] && [ ! -e "$x/disk-0.img" ] && [ ! -e "$T/y" ] || { echo "what was refused was made all the same"; return 1; }
    # Of the array that runs
    refused "use $(server)" up --dir "$D"
    refused 'vol0 already' weft volume create vol0 1M
    refused 'fit free' weft volume create big 100G
    refused 512 weft volume create odd 1000
    refused letters weft volume create 'a b' 1M
    refused 6 weft volume create six 1M --layout rs:4+2
    refused 'multiple 4 KiB' weft volume create unit 1M --stripe-unit 100
    refused nosuch weft volume show nosuch
    refused nosuch weft volume delete nosuch --yes --now
    refused nosuch weft scrub nosuch
    refused 9 weft node kill 9
    refused "$T/none" timeout 20 "$WEFT" status --dir "$T/none"
    refused "failed $T/none" timeout 20 "$WEFT" status --check --dir "$T/none"
    refused 'tickertaip/reads' timeout 20 "$WEFT" sim tickertaip/reeds
    [ "$(weft volume list --json | grep -c '"name"')" = 1 ]
    nbdinfo --size "$URI"
}
contradictions() {
    qio 'write -P 0x42 0 1M'
    stop
    grep -q 'stopped' "$T/up.log"
    refused '5 7' up --dir "$D" --nodes 7
    refused 'raid5 raid6' up --dir "$D" --layout raid6
    refused '192MiB 1GiB' up --dir "$D" --disk-size 1G
    refused '64KiB 128KiB' up --dir "$D" --stripe-unit 128K
    refused '384MiB 1GiB' up --dir "$D" --volume vol0:1G
    refused 'on off' up --dir "$D" --journal off
    refused 'vol7' up --dir "$D" --volume vol7:1M
    start --nodes 5 --layout raid5
    qio 'read -P 0x42 0 1M'
}
restarts() {
    image "$T/a" 16M
    nbdcopy "$T/a" "$URI"
    stop
    start
    nbdcopy "$URI" - | cmp - "$T/a"
    scrub
}
# The map's file is damaged, missing, or an older copy of itself: the array is refused, with what to do, and made
# whole again from what its disks have. Nothing is changed before that is asked for.
map_lost() {
    local old
    image "$T/a" 16M
    nbdcopy "$T/a" "$URI"
    refused 'in use by process' weft recover
    cp "$D/weft.toml" "$T/old.toml"
    weft node kill 2
    weft node start 2
    wait_until whole
    stop
    refused 'intact nothing to recover' weft recover
    for damage in 's/raid5/raid6/' 's/^epoch = /epoch = 1/' '/^checksum/d' '1,$d'; do
        sed -i "$damage" "$D/weft.toml"
        old=$(cat "$D/weft.toml")
        refused 'cannot use weft.toml 5 of 5 disks have a copy weft recover' up --dir "$D"
        weft recover --dry-run >"$T/said"
        grep -c 'The newest copy has version [0-9]*; 5 disks have it' "$T/said"
        [ "$old" = "$(cat "$D/weft.toml")" ]
        weft recover | grep -c 'weft.toml is rebuilt'
        [ "$old" = "$(cat "$D/weft.toml.damaged")" ]
        start
        nbdcopy --request-size=1048576 "$URI" "$T/back" && cmp -n $((16 * MIB)) "$T/a" "$T/back"
        stop
    done
    rm "$D/weft.toml"
    refused 'weft.toml is missing 5 of 5 disks have a copy weft recover' up --dir "$D"
    [ ! -e "$D/weft.toml" ]
    mv "$D/disk-4.img" "$T/disk-4.img"
    weft recover | grep -c 'disk-4.img: does not exist'
    mv "$T/disk-4.img" "$D/disk-4.img"
    start
    wait_until whole
    stop
    cp "$T/old.toml" "$D/weft.toml"
    refused 'older copy of itself weft recover' up --dir "$D"
    weft recover --json | grep -c '"recovered": *true'
    start
    nbdcopy "$URI" "$T/back" && cmp -n $((16 * MIB)) "$T/a" "$T/back"
    scrub
    rm "$T/back"
}
# Disks are given one operation at a time, in another order than they come in, from now on until
# the array is told otherwise.
queues() {
    stop
    start --queue c-look --queue-depth 1
    fio_verify
    stop
    start
    weft disk list >"$T/list"
    grep -c 'c-look, 1 deep' "$T/list"
    [ "$(grep -c 'c-look, 1 deep' "$T/list")" = 5 ]
    stop
    start --queue fcfs
    weft disk list >"$T/list"
    [ "$(grep -c 'fcfs, 256 deep' "$T/list")" = 5 ]
    scrub
}

start >"$T/first" 2>&1 || { echo "FAIL up"; cat "$T/first" "$T/up.log"; echo "0 passed, 1 failed"; exit 1; }
t nbdinfo info
t nbdcopy copies
t qemu-img converts
t qemu-io-patterns patterns
t qemu-io-zeroes zeroes
t qemu-io-discard discards
t qemu-io-fua fua
t qemu-io-unaligned unaligned
t past-the-end past_the_end
t garbage garbage
t modes modes
t given-up given_up
t descriptors descriptors
t partial-requests partial
t limits limits
t layouts volumes
t volume-copied copied
t thin thin
t thin-trimmed trimmed
t snapshots snapshots
t schedules schedules
t exclusive exclusive
t changed changed
t snapshots-fs snapshots_fs
t deliberate deliberate
t metrics metrics
t disconnected disconnected
t rotten rotten
t vast vast
t containers containers
t local-parity local_parity lrc:4+2+1 7 'any 2 more nodes, 77 % of threes' '0 3 6'
t grid local_parity grid:2x2 9 'any 3 more nodes, 92 % of fours' '0 1 5 8'
t fio-verify fio_verify
t fio-node-killed fio_node_killed
t fio-node-stopped fio_node_down
t disk-replaced disk_replaced
t disk-lost disk_lost
t deferred deferred
t server-killed server_killed
t ext4-node-killed filesystem ext4
t xfs-node-killed filesystem xfs
t two-nodes-killed two_killed
t bad-input bad_input
t contradictions contradictions
t stop-and-start restarts
t map-lost map_lost
t queues queues
echo "$passed passed, $failed failed"
[ $failed = 0 ]
