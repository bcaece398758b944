#!/usr/bin/env bash
# The CSI driver against a cluster of processes with TLS, by csi-sanity (github.com/kubernetes-csi/csi-test): the
# controller's part everywhere, the node's where the kernel has NBD and this is root.
#   tests/csi.sh              all checks
#   tests/csi.sh NAME...      some of them
# WEFT and WEFT_CSI choose the binaries, WEFT_CSI_CALL the example `call`, CSI_SANITY the suite. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin:$HOME/go/bin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
WEFT_CSI=$(realpath "${WEFT_CSI:-$(dirname "$WEFT")/weft-csi}")
CALL=$(realpath "${WEFT_CSI_CALL:-$(dirname "$WEFT")/examples/call}")
VERSION=v5.6.0
checks=${*:-sanity restarted stays_out mounted grown moved fenced regained}
LIMIT=${LIMIT:-60}              # seconds that anything may take
T=$(mktemp -d /tmp/weft-csi.XXXXXX)
passed=0 failed=0

# The suite, if it is there or can be built.
suite() {
    CSI_SANITY=${CSI_SANITY:-$(command -v csi-sanity)}
    [ -z "$CSI_SANITY" ] || return 0
    command -v go >/dev/null || { echo "skipped: neither csi-sanity nor go is there"; return 1; }
    GOBIN=$HOME/.cache/weft-csi go install "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@$VERSION" || {
        echo "skipped: csi-sanity $VERSION cannot be built here"
        return 1
    }
    CSI_SANITY=$HOME/.cache/weft-csi/csi-sanity
}
suite || exit 0

weft() { timeout -k 5 "$LIMIT" "$WEFT" "$@"; }
stop() {
    local pid
    pid=$(cat "$T/$1.pid" 2>/dev/null) || return 0
    kill "$pid" 2>/dev/null
    wait_until dead "$pid"
    rm -f "$T/$1.pid"
}
clean() {
    trap - EXIT INT TERM
    local one
    for one in controller node link cluster; do stop $one; done
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
PORT=$(port)
SECOND=$(port)
driver() {
    "$WEFT_CSI" "$1" --endpoint "unix://$T/$1.sock" "${@:2}" >>"$T/$1.log" 2>&1 &
    echo $! >"$T/$1.pid"
    disown
    wait_until test -S "$T/$1.sock"
}
controller() { driver controller --dir "$T/cluster/node-0"; }
# The second process serves, too: whoever loses one goes to the other.
node() { driver node --machine desk --at "${1:-127.0.0.1:$PORT,127.0.0.1:$SECOND}" --certificates "$T/desk"; }
call() { timeout -k 5 "$LIMIT" "$CALL" "$T/$1.sock" "${@:2}"; }

has_nbd() { [ "$(id -u)" = 0 ] && { [ -e /sys/block/nbd0 ] || modprobe nbd 2>/dev/null; }; }

sanity() {
    local skip=()
    # Nothing can be attached without it; what refuses bad requests is tried all the same.
    has_nbd || skip=(-ginkgo.skip 'Node Service.*should (work|be idempotent)|should remove target path|Node Service.*Expand.*(should work|fail if)|NodeGetVolumeStats.*should fail|NodeGetVolumeHealth.*valid|already mounted at a different')
    echo 'iops: "5000"' >"$T/changes.yaml"
    timeout -k 5 "${SUITE_LIMIT:-600}" "$CSI_SANITY" -ginkgo.no-color -ginkgo.seed 1 "${skip[@]}" \
        -csi.endpoint "unix://$T/node.sock" -csi.controllerendpoint "unix://$T/controller.sock" \
        -csi.testvolumesize 16777216 -csi.testvolumeexpandsize 33554432 \
        -csi.testvolumemutableparameters "$T/changes.yaml" \
        -csi.mountdir "$T/mount" -csi.stagingdir "$T/staging" >"$T/suite.log" 2>&1
    local status=$?
    sed -n 's/.*-- \([0-9]* Passed.*\)/\1/p' "$T/suite.log"
    [ $status = 0 ] || { grep -B2 -A12 '\[FAILED\]' "$T/suite.log" | head -n 150; return 1; }
    # Nothing is left behind.
    weft status --dir "$T/cluster/node-0" --json | python3 -c '
import json, sys
left = [v["name"] for v in json.load(sys.stdin)["volumes"] if v["mode"] != "deleted" and v["name"] != "other"]
sys.exit(f"left behind: {left}" if left else 0)'
}
# A driver that is killed leaves its socket, and the next one listens there.
restarted() {
    kill -9 "$(cat "$T/controller.pid")"
    wait_until dead "$(cat "$T/controller.pid")"
    controller && sanity_of 'Identity Service'
}
sanity_of() {
    timeout -k 5 "$LIMIT" "$CSI_SANITY" -ginkgo.no-color -ginkgo.focus "$1" -csi.endpoint "unix://$T/controller.sock" \
        -csi.mountdir "$T/mount" -csi.stagingdir "$T/staging" >"$T/suite.log" 2>&1 || { tail -n 40 "$T/suite.log"; return 1; }
}
# A second one does not take the socket of one that runs.
stays_out() {
    ! timeout 10 "$WEFT_CSI" controller --endpoint "unix://$T/controller.sock" --dir "$T" >"$T/second" 2>&1 &&
        grep -q 'another driver listens' "$T/second" && sanity_of 'Identity Service'
}

# used VOLUME KIND [BYTES]: makes a volume, and shows it at $SHOWN
used() {
    STAGED=$T/staged-$1 SHOWN=$T/shown-$1
    call controller create "$1" "${3:-67108864}" "$2" >"$T/id" && ID=$(cat "$T/id") &&
        RIGHT=$(call controller publish "$ID" desk "$2") && call node stage "$ID" "$STAGED" "$2" "$RIGHT" &&
        call node show "$ID" "$STAGED" "$SHOWN" "$2"
}
unused() {
    call node hide "$ID" "$SHOWN" && call node unstage "$ID" "$STAGED" && call controller unpublish "$ID" desk &&
        call controller delete "$ID"
}
# A file is there again after the volume was away.
mounted() {
    has_nbd || { echo "skipped, the kernel has no NBD"; return 0; }
    local kind
    for kind in ext4 xfs; do
        [ $kind = ext4 ] || grep -w xfs /proc/filesystems >/dev/null || continue
        # XFS has no smaller ones.
        used "as-$kind" $kind 335544320 || return 1
        cp "$T/file" "$SHOWN/file" || return 1
        call node hide "$ID" "$SHOWN" && call node unstage "$ID" "$STAGED" || return 1
        [ ! -e "$SHOWN" ] || return 1
        call node stage "$ID" "$STAGED" $kind && call node show "$ID" "$STAGED" "$SHOWN" $kind || return 1
        cmp "$T/file" "$SHOWN/file" || return 1
        unused || return 1
    done
}
# A file system grows while a program writes to it.
grown() {
    has_nbd || { echo "skipped, the kernel has no NBD"; return 0; }
    used larger ext4 || return 1
    local before after writer
    before=$(stat -f -c %b "$SHOWN")
    (for n in 1 2 3 4 5 6 7 8; do cp "$T/file" "$SHOWN/file" && sync "$SHOWN/file" || exit 1; done) &
    writer=$!
    call controller expand "$ID" 134217728 && call node grow "$ID" "$SHOWN" 134217728 || return 1
    wait $writer || { echo "the writer has failed"; return 1; }
    after=$(stat -f -c %b "$SHOWN")
    [ "$after" -gt $((before * 3 / 2)) ] || { echo "$before blocks before, $after after"; return 1; }
    cmp "$T/file" "$SHOWN/file" && unused
}
# Neither the end of a connection nor that of the driver is an error for who writes.
moved() {
    has_nbd || { echo "skipped, the kernel has no NBD"; return 0; }
    used moving ext4 || return 1
    rm -f "$T/enough"
    (until [ -e "$T/enough" ]; do cp "$T/file" "$SHOWN/file" && sync "$SHOWN/file" || exit 1; done) &
    local writer=$!
    weft host disconnect --volume "$ID" --dir "$T/cluster/node-0" >/dev/null || return 1
    wait_until connected 1 || return 1
    kill -9 "$(cat "$T/node.pid")"
    wait_until dead "$(cat "$T/node.pid")"
    node && wait_until connected 0 || return 1
    cp "$T/file" "$SHOWN/second" && sync "$SHOWN/second" || return 1
    touch "$T/enough"
    wait $writer || { echo "the writer has failed"; return 1; }
    echo 3 >/proc/sys/vm/drop_caches
    cmp "$T/file" "$SHOWN/file" && cmp "$T/file" "$SHOWN/second" && unused
}
# Whether the volume is used by a connection to the process of this number.
connected() {
    weft host list --json --dir "$T/cluster/node-$1" | grep -c "$ID" >/dev/null
}
# What a node writes that has lost its right does not land.
fenced() {
    has_nbd || { echo "skipped, the kernel has no NBD"; return 0; }
    used fenced block || return 1
    local image=$T/image writer
    head -c 1M /dev/zero | tr '\0' A >"$image"
    dd if="$image" of="$SHOWN" bs=1M oflag=direct conv=notrunc 2>/dev/null || return 1
    call controller unpublish "$ID" desk || return 1
    head -c 1M /dev/zero | tr '\0' B | dd of="$SHOWN" bs=1M iflag=fullblock oflag=direct conv=notrunc 2>/dev/null &
    writer=$!
    call controller publish "$ID" other block >/dev/null || return 1
    nbdcopy "nbds://127.0.0.1:$SECOND/$ID?tls-certificates=$T/other" - | head -c 1M | cmp - "$image" || return 1
    wait $writer && { echo "the write has succeeded"; return 1; }
    call node hide "$ID" "$SHOWN" && call node unstage "$ID" "$STAGED" || return 1
    nbdcopy "nbds://127.0.0.1:$SECOND/$ID?tls-certificates=$T/other" - | head -c 1M | cmp - "$image" || return 1
    call controller unpublish "$ID" other && call controller delete "$ID"
}
# A link to the cluster that can be cut: it passes connections to $CUT on to $PORT.
link() {
    : >"$T/link.log"
    python3 - "$CUT" "$PORT" >>"$T/link.log" 2>&1 <<'PYTHON' &
import asyncio, sys
async def passed(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def taken(reader, writer):
    far = await asyncio.open_connection("127.0.0.1", sys.argv[2])
    await asyncio.gather(passed(reader, far[1]), passed(far[0], writer))
async def main():
    async with await asyncio.start_server(taken, "127.0.0.1", sys.argv[1]) as server:
        print("listening", flush=True)
        await server.serve_forever()
asyncio.run(main())
PYTHON
    echo $! >"$T/link.pid"
    disown
    wait_until grep -q listening "$T/link.log"
}
# A node that loses its right and gets another before it notices: what its old device waits to write does not land.
regained() {
    has_nbd || { echo "skipped, the kernel has no NBD"; return 0; }
    CUT=$(port)
    stop node && link && node "127.0.0.1:$CUT" && used regained block || return 1
    local image=$T/image writer
    stop link
    head -c 1M /dev/zero | tr '\0' A | dd of="$SHOWN" bs=1M iflag=fullblock oflag=direct conv=notrunc >/dev/null 2>&1 &
    writer=$!
    call controller unpublish "$ID" desk && call controller publish "$ID" other block >/dev/null || return 1
    head -c 1M /dev/zero | tr '\0' B >"$image"
    nbdcopy "$image" "nbds://127.0.0.1:$SECOND/$ID?tls-certificates=$T/other" || return 1
    call controller unpublish "$ID" other && RIGHT=$(call controller publish "$ID" desk block) || return 1
    # The old device is left, and there is no new one yet.
    call node stage "$ID" "$STAGED" block "$RIGHT" >/dev/null 2>&1 && { echo "staged without a link"; return 1; }
    wait $writer && { echo "the write has succeeded"; return 1; }
    link
    wait_until call node stage "$ID" "$STAGED" block "$RIGHT" && call node show "$ID" "$STAGED" "$SHOWN" block || return 1
    dd if="$SHOWN" bs=1M count=1 iflag=direct 2>/dev/null | cmp - "$image" || return 1
    unused && stop node && stop link && node
}

up() {
    : >"$T/cluster.log"
    "$WEFT" up --dir "$T/cluster" --processes --listen "127.0.0.1:$PORT" --tls require "$@" >>"$T/cluster.log" 2>&1 &
    echo $! >"$T/cluster.pid"
    wait_until grep -q 'Ctrl-C stops it' "$T/cluster.log" || { cat "$T/cluster.log"; exit 1; }
}
up --nodes 3 --disk-size 512M --volume other:16M
stop cluster
sed -i "s|^nbd = \[|&\"127.0.0.1:$SECOND\", |" "$T/cluster/node-1/node.toml"
up
for name in desk other; do
    weft host create $name --dir "$T/cluster/node-0" >/dev/null
    weft host certify $name --out "$T/$name" --dir "$T/cluster/node-0" >/dev/null || exit 1
done
head -c 8M /dev/urandom >"$T/file"
controller && node || { cat "$T"/*.log; exit 1; }
has_nbd || echo "the kernel has no NBD here, or this is not root: nothing is attached (csi/tests/sanity.rs does that without a kernel)"
for check in $checks; do
    if said=$("$check" 2>&1); then
        echo "ok      $check${said:+: $said}"
        passed=$((passed + 1))
    else
        echo "FAILED  $check"
        echo "$said"
        tail -n 5 "$T"/controller.log "$T"/node.log "$T"/cluster/node-*/node.log
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
