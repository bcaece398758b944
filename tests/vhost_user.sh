#!/usr/bin/env bash
# vhost-user-blk, by a client that plays a virtual machine (host/examples/vhost_blk): content compared with what NBD reads of
# the same volume, and requests that outlive the process.
#   tests/vhost_user.sh            all checks
#   tests/vhost_user.sh NAME...    some of them
# WEFT chooses the binary, VHOST_BLK the client. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
VHOST_BLK=$(realpath "${VHOST_BLK:-${CARGO_TARGET_DIR:-target}/tested/examples/vhost_blk}")
checks=${*:-offered content ranges snapshot restarts not_allowed grown attached}
T=$(mktemp -d /tmp/weft-vhost.XXXXXX)
D=$T/array
LIMIT=60                        # seconds that anything may take
NBD="nbd+unix:///vol0?socket=$T/nbd.sock"
passed=0 failed=0

for command in nbdcopy nbdinfo; do
    eval "$command() { timeout -k 5 $LIMIT $command \"\$@\"; }"
done
weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
refused() { if "$@"; then echo "not refused: $*"; return 1; fi; }
disk() { timeout -k 5 $LIMIT "$VHOST_BLK" "$@"; }
clean() {
    trap - EXIT INT TERM
    cat "$T"/*pid 2>/dev/null | xargs -r kill 2>/dev/null
    local pid
    for pid in $(cat "$T"/*pid 2>/dev/null); do wait_until dead "$pid"; done
    jobs -p | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

start() {
    "$WEFT" up --dir "$D" --nodes 5 --disk-size 64M --volume vol0:64M --volume other:16M --listen "$T/nbd.sock" \
        --listen "vhost-user:$T/vm.sock" --listen "vhost-user:$T/other.sock=other" \
        --listen "vhost-user:$T/old.sock=vol0@s" >>"$T/log" 2>&1 8>&- 9>&- &
    echo $! >"$T/pid"
    wait_until disk "$T/vm.sock" info
}
# Ends the array, by a signal.
end() {
    kill "-$1" "$(cat "$T/pid")"
    wait_until dead "$(cat "$T/pid")"
}

offered() {
    [ "$(disk "$T/vm.sock" info)" = "67108864 512 vol0 read-write" ]
    [ "$(disk "$T/other.sock" info)" = "16777216 512 other read-write" ]
    weft volume show other --dir "$D" >"$T/shown"
    grep -q "vhost-user+unix:///other?socket=$T/other.sock" "$T/shown"
    refused grep -q "old.sock" "$T/shown"
    grep -q "by vhost-user for volume 'other': read and write" "$T/log"
}

content() {
    head -c 20M /dev/urandom >"$T/some"
    disk "$T/vm.sock" write 4096 <"$T/some"
    disk "$T/vm.sock" read 4096 20971520 | cmp - "$T/some"
    nbdcopy "$NBD" "$T/image"
    cmp -i 4096:0 -n 20971520 "$T/image" "$T/some"
    disk "$T/vm.sock" read 0 67108864 | cmp - "$T/image"
}

ranges() {
    disk "$T/vm.sock" zeroes 1048576 65536
    disk "$T/vm.sock" discard 2097152 65536
    disk "$T/vm.sock" read 1048576 65536 | cmp -n 65536 - /dev/zero
    refused disk "$T/vm.sock" read 67108864 512
    refused disk "$T/vm.sock" read 100 100
}

snapshot() {
    refused disk "$T/old.sock" info
    disk "$T/vm.sock" read 0 1048576 >"$T/before"
    weft volume snapshot vol0 s --dir "$D"
    head -c 1M /dev/urandom | disk "$T/vm.sock" write 0
    disk "$T/old.sock" info | grep "vol0@s read-only" >/dev/null
    disk "$T/old.sock" read 0 1048576 | cmp - "$T/before"
    refused disk "$T/old.sock" write 0 <"$T/before"
    disk "$T/old.sock" read 0 1048576 | cmp - "$T/before"
}

not_allowed() {
    weft host create db --dir "$D"
    weft volume allow other db --dir "$D"
    refused disk "$T/other.sock" info
    grep -q "by vhost-user is refused: volume .other. serves" "$T/log"
}

grown() {
    disk "$T/vm.sock" grown >"$T/grown" &
    local client=$!
    wait_until grep -q "waits at 67108864" "$T/grown"
    weft volume resize vol0 80M --dir "$D"
    wait "$client"
    [ "$(tail -n 1 "$T/grown")" = 83886080 ]
}

# Requests in work when the process is killed or stopped are carried out by the next.
restarts() {
    mkfifo "$T/goes_on"
    timeout -k 5 $LIMIT "$VHOST_BLK" "$T/vm.sock" verify <"$T/goes_on" >"$T/verified" 2>&1 &
    local client=$! signal connections=0
    exec 8>"$T/goes_on"
    for signal in KILL TERM KILL; do
        connections=$((connections + 1))
        wait_until grep -q "over $connections connections" "$T/verified"
        end $signal
        start
    done
    wait_until grep -q "over 4 connections" "$T/verified"
    exec 8>&-
    wait "$client" || { cat "$T/verified"; return 1; }
    cat "$T/verified"
    tail -n 1 "$T/verified" | grep "over 4 connections, the longest took"
    [[ "$(weft scrub vol0 --dir "$D")" == *' 0 wrong, 0 stripes unclear, 0 skipped'* ]]
}

# A process that is no node and uses a cluster.
attached() {
    "$WEFT" up --processes --dir "$T/cluster" --nodes 3 --disk-size 64M --volume vol0:32M --listen "$T/c.sock" \
        >>"$T/log-cluster" 2>&1 8>&- 9>&- &
    echo $! >"$T/cluster.pid"
    wait_until weft volume show vol0 --dir "$T/cluster"
    local token at
    at=$(sed -n 's/^admit = "\(.*\)"/\1/p' "$T/cluster/node-0/node.toml")
    token=$(weft cluster token --dir "$T/cluster" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    WEFT_TOKEN=$token "$WEFT" attach vol0 --dir "$T/host" --at "$at" \
        --vhost-user "$T/a.sock" >>"$T/log-host" 2>&1 8>&- 9>&- &
    echo $! >"$T/host.pid"
    wait_until disk "$T/a.sock" info
    head -c 8M /dev/urandom >"$T/some"
    disk "$T/a.sock" write 65536 <"$T/some"
    disk "$T/a.sock" read 65536 8388608 | cmp - "$T/some"
    nbdcopy "nbd+unix:///vol0?socket=$T/c.sock" "$T/image"
    cmp -i 65536:0 -n 8388608 "$T/image" "$T/some"
    grep -q "vhost-user" "$T/host/host.toml"
}

start
for check in $checks; do t "$check"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
