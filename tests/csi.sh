#!/usr/bin/env bash
# The CSI driver against a cluster of processes with TLS, by csi-sanity (github.com/kubernetes-csi/csi-test): the
# controller's part everywhere, the node's where the kernel has NBD and this is root.
#   tests/csi.sh              all checks
#   tests/csi.sh NAME...      some of them
# WEFT and WEFT_CSI choose the binaries, CSI_SANITY the suite. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin:$HOME/go/bin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
WEFT_CSI=$(realpath "${WEFT_CSI:-$(dirname "$WEFT")/weft-csi}")
VERSION=v5.6.0
checks=${*:-sanity restarted stays_out}
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
    for one in controller node cluster; do stop $one; done
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
PORT=${PORT:-$(port)}
driver() {
    "$WEFT_CSI" "$1" --endpoint "unix://$T/$1.sock" "${@:2}" >>"$T/$1.log" 2>&1 &
    echo $! >"$T/$1.pid"
    wait_until test -S "$T/$1.sock"
}
controller() { driver controller --dir "$T/cluster/node-0"; }
node() { driver node --machine desk --at "127.0.0.1:$PORT" --certificates "$T/desk"; }

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
    sed -n '/Summarizing/,$p; /^Ran /p' "$T/suite.log"
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

"$WEFT" up --dir "$T/cluster" --processes --nodes 3 --disk-size 512M --volume other:16M \
    --listen "127.0.0.1:$PORT" --tls require >>"$T/cluster.log" 2>&1 &
echo $! >"$T/cluster.pid"
wait_until grep -q 'Ctrl-C stops it' "$T/cluster.log" || { cat "$T/cluster.log"; exit 1; }
weft host create desk --dir "$T/cluster/node-0" >/dev/null
weft host certify desk --out "$T/desk" --dir "$T/cluster/node-0" >/dev/null || exit 1
controller && node || { cat "$T"/*.log; exit 1; }
has_nbd || echo "the kernel has no NBD here, or this is not root: nothing is attached (csi/tests/sanity.rs does that without a kernel)"
for check in $checks; do
    if said=$("$check" 2>&1); then
        echo "ok      $check"
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
