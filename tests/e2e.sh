#!/usr/bin/env bash
# Real clients against a real array, on loopback, in a temporary directory.
# Closing line: 'N passed, N failed'.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.."
WEFT=${WEFT:-$PWD/target/release/weft}
T=$(mktemp -d /tmp/weft-e2e.XXXXXX)
D=$T/array
URI="nbd+unix:///vol0?socket=$T/s.sock"
pass=0; fail=0; server=; loop=

cleanup() {
    mountpoint -q "$T/mnt" && umount "$T/mnt"
    [ -n "$loop" ] && losetup -d "$loop" 2>/dev/null
    mountpoint -q "$T/fuse" && { fusermount3 -u "$T/fuse" || umount -l "$T/fuse"; }
    [ -n "$server" ] && kill -9 "$server" 2>/dev/null
    rm -rf "$T"
}
trap cleanup EXIT

# Runs a check; what it printed is shown if it failed.
t() {
    local name=$1; shift
    if ( set -e -o pipefail; "$@" ) >"$T/out" 2>&1; then
        pass=$((pass + 1)); echo "ok   $name"
    else
        fail=$((fail + 1)); echo "FAIL $name"; sed 's/^/     | /' "$T/out" | tail -20
    fi
}
# Waits, within a limit, until a command works.
until_works() { local n; for n in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; echo "gave up waiting: $*"; return 1; }
start() {
    "$WEFT" up --dir "$D" --listen "$T/s.sock" "$@" >"$T/up.log" 2>&1 &
    server=$!
    until_works nbdinfo --size "$URI" || { cat "$T/up.log"; return 1; }
}
stop() { kill "$server"; wait "$server"; server=; }
weft() { "$WEFT" "$@" --dir "$D"; }
node_is() { weft status --json | python3 -c 'import json,sys; s=json.load(sys.stdin); sys.exit(not any(n["node"]==int(sys.argv[1]) and n["state"]==sys.argv[2] for n in s["nodes"]))' "$1" "$2"; }
# The command must fail and say something that matches.
refused() { local say=$1; shift; if "$@" >"$T/refused" 2>&1; then echo "was accepted: $*"; return 1; fi; grep -qE "$say" "$T/refused" || { echo "said:"; cat "$T/refused"; return 1; }; }

info() { nbdinfo "$URI"; nbdinfo --list "nbd+unix:///?socket=$T/s.sock" | grep -q vol0; nbdinfo --map "$URI"; [ "$(nbdinfo --size "nbd+unix:///?socket=$T/s.sock")" = $((256 << 20)) ]; }
copy() { head -c 64M /dev/urandom >"$T/a"; truncate -s 256M "$T/a"; nbdcopy "$T/a" "$URI"; nbdcopy "$URI" "$T/b"; cmp "$T/a" "$T/b"; }
convert() { qemu-img convert -n -f raw -O raw "$T/a" "$URI"; qemu-img compare -f raw -F raw "$T/a" "$URI"; }
qio() {
    qemu-io -f raw -c 'write -P 0xa5 0 1M' -c 'read -P 0xa5 0 1M' -c 'write -P 0x5a 4096 8192' -c 'read -P 0xa5 0 4096' \
        -c 'read -P 0x5a 4096 8192' -c 'write -P 0x11 512 512' -c 'read -P 0x11 512 512' -c 'write -z 65536 65536' \
        -c 'read -P 0 65536 65536' -c 'discard 262144 1M' -c 'write -f -P 0x77 300000 1000' -c 'read -P 0x77 300000 1000' \
        -c 'aio_write -P 9 1M 3M' -c 'aio_flush' -c 'read -P 9 1M 3M' -c flush "$URI" | tee "$T/q"
    ! grep -Ei 'verification failed|error|failed' "$T/q"
}
past_end() { ! qemu-io -f raw -c "read $((256 << 20)) 4096" "$URI"; nbdinfo --size "$URI"; }
garbage() { python3 - "$T/s.sock" <<'P'
import os, socket, sys
for data in (os.urandom(4096), b"\0" * 64, b"IHAVEOPT"):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(18); s.sendall(data); s.close()
P
nbdinfo --size "$URI"; }
verify() { ( cd "$T" && fio --name=v --thread --ioengine=nbd --uri="$URI" --rw=randwrite --bsrange=4k-128k --size=128m --io_size="$1" --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 ); }
verify_killed() {
    verify 192m & local f=$!
    sleep 0.3; weft node kill 2; until_works node_is 2 down
    wait $f
    weft node start 2; until_works node_is 2 up; weft scrub vol0
}
kill9() {
    head -c 32M /dev/urandom >"$T/k"
    nbdcopy "$T/k" "$URI"
    ( cd "$T" && fio --name=k --thread --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --offset=64m --size=64m --time_based --runtime=20 >/dev/null 2>&1 ) & local f=$!
    sleep 1; kill -9 "$server"; wait $f || true
}
kill9_after() { nbdcopy "$URI" "$T/after"; cmp -n $((32 << 20)) "$T/k" "$T/after"; weft scrub vol0; }
fs() {
    [ -e /dev/fuse ] && [ -e /dev/loop-control ] || { echo "skipped: no fuse or loop devices"; return 0; }
    mkdir -p "$T/fuse" "$T/mnt"
    nbdfuse "$T/fuse/vol" "$URI" & until_works test -e "$T/fuse/vol"
    local l; l=$(losetup -f --show "$T/fuse/vol")
    trap 'mountpoint -q "$T/mnt" && umount "$T/mnt"; losetup -d "$l"; fusermount3 -u "$T/fuse"' EXIT
    if [ "$1" = ext4 ]; then mkfs.ext4 -q -F "$l"; else mkfs.xfs -q -f "$l"; fi
    mount "$l" "$T/mnt"
    cp -r /usr/share/perl* /usr/lib/python3 "$T/mnt/" 2>/dev/null & local c=$!
    sleep 0.5; weft node kill 1
    wait $c || true
    head -c 40M /dev/urandom >"$T/mnt/random"
    ( cd "$T/mnt" && find . -type f -print0 | xargs -0 sha256sum ) >"$T/sums"
    umount "$T/mnt"
    if [ "$1" = ext4 ]; then fsck.ext4 -fn "$l"; else xfs_repair -n "$l"; fi
    weft node start 1; until_works node_is 1 up
    mount -o ro "$l" "$T/mnt"
    ( cd "$T/mnt" && sha256sum --quiet -c "$T/sums" )
    umount "$T/mnt"; weft scrub vol0
}
two_down() {
    head -c 8M /dev/urandom >"$T/two"; nbdcopy "$T/two" "$URI"
    weft node kill 1; weft node kill 3; until_works node_is 3 down
    ! qemu-io -f raw -c 'write -P 1 0 4M' "$URI"
    weft node start 3; until_works node_is 3 up || true
    weft node start 1; until_works node_is 1 up; until_works node_is 3 up
    nbdcopy "$URI" "$T/after"; tail -c +4194305 "$T/two" | cmp -n $((4 << 20)) - <(tail -c +4194305 "$T/after")
    weft scrub vol0
}
bad_input() {
    refused 'raid9' "$WEFT" up --dir "$T/x" --layout raid9 --listen "$T/x.sock"
    refused '3' "$WEFT" up --dir "$T/x" --nodes 2 --layout raid5 --listen "$T/x.sock"
    refused '4096|4KiB|4 KiB' "$WEFT" up --dir "$T/x" --stripe-unit 1000 --listen "$T/x.sock"
    refused 'fit|free' "$WEFT" up --dir "$T/x" --disk-size 64M --volume v:100G --listen "$T/x.sock"
    refused 'use|PID|held' "$WEFT" up --dir "$D" --listen "$T/y.sock"
    refused 'vol0|exists' weft volume create vol0 1M
    refused 'nosuch' weft volume show nosuch
    [ ! -e "$T/x/weft.toml" ]
}
contradict() { refused '5.*7|7.*5' "$WEFT" up --dir "$D" --nodes 7 --listen "$T/s.sock"; refused 'raid5.*raid6|raid6.*raid5' "$WEFT" up --dir "$D" --layout raid6 --listen "$T/s.sock"; }
volumes() { weft volume create extra 8M --layout raid1; weft volume list | grep -q extra; head -c 8M /dev/urandom >"$T/e"; nbdcopy "$T/e" "nbd+unix:///extra?socket=$T/s.sock"; nbdcopy "nbd+unix:///extra?socket=$T/s.sock" - | cmp - "$T/e"; weft volume delete extra; ! weft volume show extra; }

start --disk-size 128M --volume vol0:256M || { echo "0 passed, 1 failed"; exit 1; }
t nbdinfo info
t nbdcopy copy
t qemu-img convert
t qemu-io qio
t past-the-end past_end
t garbage garbage
t volumes volumes
t fio-verify verify 128m
t fio-verify-node-killed verify_killed
t ext4-node-killed fs ext4
t xfs-node-killed fs xfs
t two-nodes-killed two_down
t bad-input bad_input
t kill-9 kill9
wait "$server" 2>/dev/null; server=
if start; then t kill-9-then-up kill9_after; else fail=$((fail + 1)); echo "FAIL up after kill -9"; fi
t clean-stop stop
server=
t contradictions contradict
echo "$pass passed, $fail failed"
[ "$fail" = 0 ]
