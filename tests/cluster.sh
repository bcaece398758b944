#!/usr/bin/env bash
# A cluster of processes on loopback, as the user guide has it: founding, joining, commands from
# any node, draining, removing; and what is refused. In a temporary directory.
# WEFT chooses the binary. Closing line 'N passed, N failed'.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
T=$(mktemp -d /tmp/weft-cluster.XXXXXX)
LIMIT=60
passed=0 failed=0
read -r -a PORTS < <(python3 - <<'P'
import socket
held = [socket.socket() for _ in range(8)]
for s in held: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
P
)
ADMIT=127.0.0.1:${PORTS[7]}

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
clean() {
    trap - EXIT INT TERM
    cat "$T"/pid* 2>/dev/null | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

# config N [LINES]: the configuration of node N
config() {
    printf '%s\n' "name = \"n$1\"" "dir = \"state$1\"" "disk = \"disk$1.img\"" 'disk_size = "160M"' \
        "address = \"127.0.0.1:${PORTS[$1]}\"" "nbd = [\"nbd$1.sock\"]" "${@:2}" \
        '[labels]' "box = \"b$1\"" >"$T/n$1.toml"
}
run_node() { "$WEFT" node --config "$T/n$1.toml" >>"$T/log$1" 2>&1 & echo $! >"$T/pid$1"; }
# The status as node N sees it, as Python's s.
status() { weft status --json --dir "$T/state$1" | python3 -c "import json, sys; s = json.load(sys.stdin); $2"; }
has() { status "$1" "sys.exit(sum(n['state'] == '$2' for n in s['nodes']) != $3)"; }
mode_is() { status "$1" "sys.exit(s['volumes'][0]['mode'] != '$2')"; }
uri() { echo "nbd+unix:///v?socket=$T/nbd$1.sock"; }
# refused WORDS COMMAND..: it fails and says all the words
refused() {
    local word
    "${@:2}" >"$T/said" 2>&1 && { echo "went well, and should not have: ${*:2}"; return 1; }
    for word in $1; do
        grep -qiF -- "$word" "$T/said" || { echo "'${*:2}' did not say '$word':"; cat "$T/said"; return 1; }
    done
}

founding() {
    config 0 "admit = \"$ADMIT\""
    refused 'init join' weft node --config "$T/n0.toml"
    weft cluster init --config "$T/n0.toml"
    refused 'already' weft cluster init --config "$T/n0.toml"
    run_node 0
    wait_until has 0 up 1
    refused 'in use by process' weft node --config "$T/n0.toml"
}
certified() {
    config 1
    config 2
    refused 'a certificate is for the node that asked' \
        weft cluster join --certificate <(echo '{"ca":"","certificate":"","node":1,"peers":[]}') --config "$T/n1.toml"
    weft cluster request --config "$T/n1.toml" --out "$T/n1.request"
    weft cluster request --config "$T/n2.toml" --out "$T/n2.request"
    refused 'ca-key.pem' weft cluster certify "$T/n1.request" --out "$T/n1.cert" --dir "$T/state1"
    weft cluster certify "$T/n1.request" --out "$T/n1.cert" --dir "$T/state0"
    refused 'certificate is of n1' weft cluster join --certificate "$T/n1.cert" --config "$T/n2.toml"
    rm "$T/state2/joining-key.pem"
    weft cluster join --certificate "$T/n1.cert" --config "$T/n1.toml"
    refused 'already' weft cluster join --certificate "$T/n1.cert" --config "$T/n1.toml"
    run_node 1
    wait_until has 0 up 2
    refused 'run a node for the new one' weft disk add --dir "$T/state0"
}
joining() {
    local n token
    for n in 2 3; do
        config $n
        token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
        weft cluster join "$token" --at "$ADMIT" --config "$T/n$n.toml"
        run_node $n
    done
    wait_until has 0 up 4
    config 4
    refused 'used already n3' weft cluster join "$token" --at "$ADMIT" --config "$T/n4.toml"
    refused 'typing error' weft cluster join "${token}0" --at "$ADMIT" --config "$T/n4.toml"
    token=$(weft cluster token --valid 1s --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    sleep 2
    refused 'expired' weft cluster join "$token" --at "$ADMIT" --config "$T/n4.toml"
    token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    sed 's/"n4"/"n2"/' "$T/n4.toml" >"$T/twice.toml"
    refused 'called n2 another name' weft cluster join "$token" --at "$ADMIT" --config "$T/twice.toml"
    refused 'does not let nodes in' weft cluster token --dir "$T/state1"
}
configurations() {
    sed 's/^disk =/dsik =/' "$T/n4.toml" >"$T/bad.toml"
    refused 'unknown dsik' weft cluster init --config "$T/bad.toml"
    sed 's/"b4"/"B 4"/' "$T/n4.toml" >"$T/bad.toml"
    refused 'no label' weft cluster init --config "$T/bad.toml"
    truncate -s 160M "$T/used.img"
    mkfs.ext4 -q -F "$T/used.img"
    sed 's/disk4.img/used.img/' "$T/n4.toml" >"$T/bad.toml"
    refused 'ext file system --force' weft cluster init --config "$T/bad.toml"
    sed "s/disk4.img/disk0.img/" "$T/n4.toml" >"$T/bad.toml"
    refused 'disk of Weft' weft cluster init --config "$T/bad.toml"
    [ ! -e "$T/state4" ]
    sed "s/:${PORTS[4]}/:${PORTS[0]}/" "$T/n4.toml" >"$T/bad.toml"
    weft cluster init --config "$T/bad.toml"
    refused 'cannot listen another address' weft node --config "$T/bad.toml"
    rm -rf "$T/state4" "$T/disk4.img"
}
# Any node makes, shows and serves a volume.
anywhere() {
    weft volume create v 60M --layout rs:2+1 --dir "$T/state2"
    refused 'already' weft volume create v 10M --dir "$T/state1"
    refused "'box'" weft volume create w 10M --layout rs:4+1 --dir "$T/state1" || refused 'at least 5' weft volume create w 10M --layout rs:4+1 --dir "$T/state1"
    head -c 60M /dev/urandom >"$T/image"
    head -c 30M /dev/urandom >"$T/image.30"
    nbdcopy "$T/image" "$(uri 3)"
    nbdcopy "$(uri 1)" - | cmp - "$T/image"
    weft node list --dir "$T/state3" | grep -c 'box=b1'
}
# A process is killed; the next node has the same bytes; it returns and catches up.
killed() {
    kill -9 "$(cat "$T/pid1")"
    nbdcopy "$(uri 2)" - | cmp - "$T/image"
    wait_until has 0 down 1
    head -c 60M /dev/urandom >"$T/image"
    nbdcopy "$T/image" "$(uri 2)"
    run_node 1
    wait_until has 3 up 4
    wait_until mode_is 2 fault-free
    weft scrub v --dir "$T/state1" | grep -c ' 0 with wrong parity, 0 skipped'
}
# A host without a disk is its own controller; it is paused past its lease, killed, and comes back.
attached() {
    local token host="$T/host" at
    at="nbd+unix:///v?socket=$T/host/nbd.sock"
    refused 'no host' weft attach v --dir "$host"
    token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    weft volume set v roles=host --dir "$T/state2"
    "$WEFT" attach v --dir "$host" --token "$token" --at "$ADMIT" --name h1 >"$T/logh" 2>&1 & echo $! >"$T/pidh"
    wait_until grep -q 'reads and writes the disks itself' "$T/logh"
    weft node list --dir "$T/state1" | grep -c h1
    nbdcopy "$at" - | cmp - "$T/image"
    head -c 60M /dev/urandom >"$T/image"
    nbdcopy "$T/image" "$at"
    nbdcopy "$(uri 3)" - | cmp - "$T/image"
    for ordering in device-locks lock-server callback-locks sequencer timestamps; do
        weft volume set v ordering=$ordering --dir "$host"
        head -c 20M /dev/urandom >"$T/part"
        dd if="$T/part" of="$T/image" conv=notrunc status=none
        nbdcopy "$T/part" "$at" &
        nbdcopy "$(uri 2)" /dev/null
        wait $!
        nbdcopy "$(uri 1)" - | cmp - "$T/image"
    done
    # Paused in the middle of writing: the others go on without it, and nothing of it comes after.
    head -c 60M /dev/zero | tr '\0' x >"$T/late"
    nbdcopy "$T/late" "$at" & copy=$!
    sleep 0.1
    kill -STOP "$(cat "$T/pidh")"
    nbdcopy "$T/image" "$(uri 2)"
    kill -CONT "$(cat "$T/pidh")"
    kill $copy || true
    wait $copy || true
    kill -9 "$(cat "$T/pidh")"
    wait_until status 2 "sys.exit(any(n.get('name') == 'h1' and n['state'] == 'up' for n in s['nodes']))"
    nbdcopy "$T/image" "$(uri 2)"
    nbdcopy "$(uri 3)" - | cmp - "$T/image"
    weft scrub v --dir "$T/state1" | grep -c ' 0 with wrong parity, 0 skipped'
    "$WEFT" attach w --dir "$host" >"$T/logh" 2>&1 && return 1
    grep -q "no volume 'w'" "$T/logh"
    "$WEFT" attach v --dir "$host" >"$T/logh" 2>&1 & echo $! >"$T/pidh"
    wait_until grep -q 'reads and writes the disks itself' "$T/logh"
    nbdcopy "$at" - | cmp - "$T/image"
    kill "$(cat "$T/pidh")"
    wait_until grep -q stopped "$T/logh"
    number=$(status 2 "print(*[n['node'] for n in s['nodes'] if n.get('name') == 'h1'])")
    wait_until weft node remove "$number" --dir "$T/state2"
    weft volume set v roles=node --dir "$T/state2"
}
# In use, and again when there is room that another has had.
resizing() {
    local now
    for now in 70 80; do
        weft volume resize v ${now}M --dir "$T/state3"
        [ "$(nbdinfo --size "$(uri 1)")" = $((now << 20)) ]
        nbdcopy "$(uri 2)" "$T/back"
        cmp -n $((60 << 20)) "$T/back" "$T/image"
        cmp -n $(((now - 60) << 20)) -i $((60 << 20)):0 "$T/back" /dev/zero
        weft scrub v --dir "$T/state1" | grep -c ' 0 with wrong parity, 0 skipped'
        weft volume create other 30M --layout raid1 --dir "$T/state1"
        nbdcopy "$T/image.30" "nbd+unix:///other?socket=$T/nbd2.sock"
        wait_until weft volume delete other --dir "$T/state0"
    done
    refused 'cannot be made smaller' weft volume resize v 10M --dir "$T/state0"
    refused 'cannot grow so far' weft volume resize v 10G --dir "$T/state0"
    cp "$T/back" "$T/image"
}
leaving() {
    refused 'takes part' weft node remove 1 --dir "$T/state2"
    weft disk drain 1 --dir "$T/state2"
    nbdcopy "$(uri 1)" - | cmp - "$T/image"
    refused 'does not fit' weft disk drain 2 --dir "$T/state0"
    weft node stop 1 --dir "$T/state3"
    weft node remove 1 --dir "$T/state3"
    wait_until has 0 up 3
    nbdcopy "$(uri 0)" - | cmp - "$T/image"
    kill -9 "$(cat "$T/pid1")"
}
# All stop, and all come back.
stopping() {
    local n
    for n in 0 2 3; do kill "$(cat "$T/pid$n")"; done
    for n in 0 2 3; do wait_until eval "! kill -0 $(cat "$T/pid$n")"; done
    for n in 0 2 3; do run_node $n; done
    wait_until has 2 up 3
    nbdcopy "$(uri 3)" - | cmp - "$T/image"
    wait_until weft volume delete v --dir "$T/state3"
}

t() {
    local begun=$SECONDS status
    ( trap - EXIT; set -e -o pipefail; "$1" ) >"$T/out" 2>&1
    status=$?
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        echo "ok $1 ($((SECONDS - begun)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL $1 (status $status, $((SECONDS - begun)) s)"
        tail -25 "$T/out" | cut -c 1-300 | sed 's/^/     | /'
        tail -n 3 "$T"/log* | cut -c 1-200 | sed 's/^/     log | /'
    fi
}
for check in founding certified joining configurations anywhere killed attached resizing leaving stopping; do t $check; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
