#!/usr/bin/env bash
# Hosts that outlive the node that serves them: the node's process is killed in the middle of
# writes, and the host goes on at another node without its user seeing an error.
#   tests/reconnect.sh            all checks
#   tests/reconnect.sh NAME...    some of them
# WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
checks=${*:-filesystem libnbd}
T=$(mktemp -d /tmp/weft-reconnect.XXXXXX)
C=$T/cluster
NODES=5
LIMIT=60                        # seconds that anything may take
passed=0 failed=0

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
uri() { echo "nbd+unix:///v?socket=$C/node-$1/nbd.sock"; }
whole() {
    weft status --json --dir "$C/node-$1" | python3 -c 'import json, sys
s = json.load(sys.stdin)
sys.exit(not all(n["state"] == "up" for n in s["nodes"]) or s["volumes"][0]["mode"] != "fault-free")'
}
# The process of a node: it is one of those that were started here.
process() {
    local pid
    for pid in $(cat "$T/nodes" 2>/dev/null) $(pgrep -P "$(cat "$T/cluster.pid")"); do
        alive "$pid" && tr '\0' '\n' <"/proc/$pid/cmdline" | grep -x "$C/node-$1/node.toml" >/dev/null && echo "$pid" && return
    done
    return 1
}
kill_node() { kill -9 "$(process "$1")"; echo "note: the process of node $1 was killed"; }
start_node() { "$WEFT" node --config "$C/node-$1/node.toml" >>"$T/log" 2>&1 9>&- & echo $! >>"$T/nodes"; }

unmount() {
    mountpoint -q "$T/mnt" && { umount "$T/mnt" || umount -l "$T/mnt"; }
    [ -s "$T/loop" ] && { losetup -d "$(cat "$T/loop")"; rm -f "$T/loop"; }
    local name
    for name in daemon follower; do
        [ -s "$T/$name" ] && { kill "$(cat "$T/$name")"; wait_until dead "$(cat "$T/$name")" || kill -9 "$(cat "$T/$name")"; rm -f "$T/$name"; }
    done
    mountpoint -q "$T/volume" && umount -l "$T/volume"
    return 0
}
clean() {
    trap - EXIT INT TERM
    unmount >/dev/null 2>&1
    cat "$T/nodes" "$T/cluster.pid" 2>/dev/null | xargs -r kill 2>/dev/null
    [ ! -s "$T/cluster.pid" ] || wait_until dead "$(cat "$T/cluster.pid")"
    jobs -p | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

start_all() {
    "$WEFT" up --processes --dir "$C" --nodes $NODES --disk-size 64M --layout rs:3+1 --volume v:96M \
        --listen "$T/first.sock" >>"$T/log" 2>&1 9>&- &
    echo $! >"$T/cluster.pid"
    wait_until whole 1
}

# Keeps the link $T/now at the socket of a node that answers.
follow() {
    local n=0
    while :; do
        if timeout 2 nbdinfo --size "nbd+unix:///v?socket=$T/now" >/dev/null 2>&1; then
            sleep 0.1
        else
            n=$(((n + 1) % NODES))
            ln -sfn "$C/node-$n/nbd.sock" "$T/now.new"
            mv -T "$T/now.new" "$T/now"
        fi
    done
}
serving() { readlink "$T/now" | sed 's/.*node-\([0-9]*\).*/\1/'; }

# A journalled file system on QEMU's client, which waits for a node to answer again.
filesystem() {
    if [ ! -e /dev/fuse ] || [ ! -e /dev/loop-control ] || [ "$(id -u)" != 0 ]; then
        echo "note: skipped, for want of fuse or loop devices"; return 0
    fi
    command -v qemu-storage-daemon >/dev/null || { echo "note: skipped, for want of qemu-storage-daemon"; return 0; }
    local device writer victim next
    trap unmount EXIT
    mkdir -p "$T/mnt"
    ln -sfn "$C/node-2/nbd.sock" "$T/now"
    : >"$T/volume"
    follow & echo $! >"$T/follower"
    qemu-storage-daemon \
        --blockdev "driver=nbd,node-name=v,export=v,server.type=unix,server.path=$T/now,reconnect-delay=$LIMIT" \
        --export "type=fuse,id=e,node-name=v,mountpoint=$T/volume,writable=on" >"$T/qemu" 2>&1 &
    echo $! >"$T/daemon"
    wait_until eval "[ -s '$T/volume' ] || dead $!"
    [ -s "$T/volume" ] || { echo "note: skipped, for want of a FUSE export: $(cat "$T/qemu")"; return 0; }
    if ! losetup -f --show "$T/volume" >"$T/loop" 2>"$T/losetup"; then
        echo "note: skipped, for want of loop devices: $(cat "$T/losetup")"; return 0
    fi
    device=$(cat "$T/loop")
    mkfs.ext4 -q -F "$device"
    mount -t ext4 -o errors=remount-ro "$device" "$T/mnt"
    # Files one after the other, each made durable and only then noted.
    : >"$T/noted"
    python3 tests/python/durable_files.py "$T" &
    writer=$!
    noted() { [ "$(wc -l <"$T/noted")" -gt "$1" ] || dead $writer; }
    for _ in 1 2; do
        wait_until noted $(($(wc -l <"$T/noted") + 25))
        victim=$(serving)
        kill_node "$victim"
        wait_until noted $(($(wc -l <"$T/noted") + 25))
        next=$(serving)
        [ "$next" != "$victim" ]
        start_node "$victim"
        wait_until whole "$next"
    done
    touch "$T/enough"
    wait $writer
    umount "$T/mnt"
    fsck.ext4 -fn "$device"
    dumpe2fs -h "$device" 2>/dev/null | grep '^FS Error count' && { echo "the file system met errors"; return 1; }
    losetup -d "$device"
    rm -f "$T/loop"
    unmount
    scrubbed v "$C/node-1"
    # With nothing cached, from a node that has not served it: of each name, the file noted last.
    nbdcopy "$(uri 0)" "$T/copy"
    losetup -f --show "$T/copy" >"$T/loop"
    fsck.ext4 -fn "$(cat "$T/loop")"
    mount -t ext4 -o ro "$(cat "$T/loop")" "$T/mnt"
    tac "$T/noted" | sort -s -u -k 2,2 | sed 's/ /  /' >"$T/sums"
    (cd "$T/mnt" && sha256sum --quiet -c "$T/sums")
    [ "$(wc -l <"$T/sums")" -gt 50 ]
    echo "note: $(wc -l <"$T/sums") files as they were written"
}

# A program of one's own with libnbd: the addresses one after the other, and what was not answered again.
libnbd() {
    local python
    for python in /usr/bin/python3 python3 ''; do
        [ -z "$python" ] || ! $python -c 'import nbd' 2>/dev/null || break
    done
    [ -n "$python" ] || { echo "note: skipped, for want of libnbd for Python"; return 0; }
    rm -f "$T/half"
    # shellcheck disable=SC2046
    timeout $LIMIT $python tests/python/libnbd_host.py "$T/half" $(for n in 3 4 0 1 2; do uri $n; done) &
    local writer=$!
    wait_until eval "[ -e '$T/half' ] || dead $writer"
    kill_node 3
    wait $writer
    start_node 3
    wait_until whole 4
}

t() {
    local begun=$SECONDS status
    ( trap - EXIT; set -e -o pipefail; "$1" ) >"$T/out" 2>&1
    status=$?
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        echo "ok $1 ($((SECONDS - begun)) s)"
        grep '^note: ' "$T/out" | sed 's/^note: /     /'
    else
        failed=$((failed + 1))
        echo "FAIL $1 (status $status, $((SECONDS - begun)) s)"
        tail -25 "$T/out" | cut -c 1-300 | sed 's/^/     | /'
        tail -n 3 "$T/log" "$C"/node-*/node.log | cut -c 1-200 | sed 's/^/     log | /'
    fi
}
start_all || { echo "the cluster did not start:"; tail -5 "$T/log"; exit 1; }
for check in $checks; do t "$check"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
