#!/usr/bin/env bash
# A cluster of processes on loopback, as the user guide has it: founding, joining, commands from
# any node, other sizes, draining, removing, adding; boxes with several disks each; and what is
# refused. In a temporary directory.
# WEFT chooses the binary, and WEFT_OLD the one from which 'upgrading' upgrades (the same, if there is none). The checks
# to run may be named; 'upgrading', 'patience' and 'controlled' need no others before them. Closing line 'N passed, N failed'.
set -u
unset COLUMNS
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
OLD=$(realpath "${WEFT_OLD:-$WEFT}")
T=$(mktemp -d /tmp/weft-cluster.XXXXXX)
COPY=${EXAMPLES:-$(dirname "$WEFT")/examples}/copy
LIMIT=60
passed=0 failed=0
read -r -a PORTS < <(python3 tests/python/free_ports.py
)
ADMIT=127.0.0.1:${PORTS[7]}

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
clean() {
    trap - EXIT INT TERM
    cat "$T"/pid* "$T"/forgetting/pid* "$T"/by-itself/pid* "$T"/upgrading/pid* "$T"/patience/pid* "$T"/controlled/pid* 2>/dev/null | xargs -r kill -9 2>/dev/null
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
# Whether the status says such a line as node N sees it: others may hear of a change a little later than who was asked for it.
says() { weft status --dir "$T/state$1" | grep "$2"; }
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
    config 0 "admit = \"$ADMIT\"" 'limits = { slow = "200ms" }'
    refused 'init join' weft node --config "$T/n0.toml"
    printf '[links]\nonly = ["n1"]\n' | cat "$T/n0.toml" - >"$T/wrong.toml"
    refused "'n1' no others" weft cluster init --config "$T/wrong.toml"
    [ ! -e "$T/state0" ]
    weft cluster init --config "$T/n0.toml"
    refused 'already' weft cluster init --config "$T/n0.toml"
    run_node 0
    wait_until has 0 up 1
    refused 'in use by process' weft node --config "$T/n0.toml"
    refused "a cluster's process" "$WEFT" up --dir "$T/state0"
    # Nobody is left to agree that the last node is down.
    weft node kill 0 --dir "$T/state0"
    weft node start 0 --dir "$T/state0"
}
certified() {
    config 1
    config 2
    refused 'a certificate needs the directory of its request' \
        weft cluster join --certificate <(echo '{"ca":"","certificate":"","node":1,"peers":[]}') --config "$T/n1.toml"
    printf '[links]\nonly = ["n0", "n7"]\n' | cat "$T/n1.toml" - >"$T/wrong.toml"
    weft cluster request --config "$T/wrong.toml" --out "$T/wrong.request"
    refused "'n7' choose from n0." weft cluster certify "$T/wrong.request" --out "$T/wrong.cert" --dir "$T/state0"
    [ ! -e "$T/wrong.cert" ]
    weft cluster request --config "$T/n1.toml" --out "$T/n1.request"
    weft cluster request --config "$T/n2.toml" --out "$T/n2.request"
    refused 'ca-key.pem' weft cluster certify "$T/n1.request" --out "$T/n1.cert" --dir "$T/state1"
    weft cluster certify "$T/n1.request" --out "$T/n1.cert" --dir "$T/state0"
    refused 'certificate is for n1' weft cluster join --certificate "$T/n1.cert" --config "$T/n2.toml"
    rm "$T/state2/joining-key.pem"
    weft cluster join --certificate "$T/n1.cert" --config "$T/n1.toml"
    refused 'already' weft cluster join --certificate "$T/n1.cert" --config "$T/n1.toml"
    run_node 1
    wait_until has 0 up 2
    refused 'give the disk --path' weft disk add --dir "$T/state0"
}
# A token, as `weft cluster token` issues it.
token() { weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])'; }
# deaf PORT: passes one connection on to where nodes are let in, and what the other side says only until
# the first has said its second thing: the answer is lost.
deaf() {
    python3 tests/python/deaf_proxy.py "$1" "${ADMIT#*:}"
}
joining() {
    local token drips
    config 2
    config 3
    weft cluster token --dir "$T/state0" | grep -c '^WEFT_TOKEN=weft1-.* weft cluster join --at'
    refused 'WEFT_TOKEN --token-file' weft cluster join --at "$ADMIT" --config "$T/n2.toml"
    echo nonsense >"$T/token"
    refused 'does not hold a join token five parts' weft cluster join --token-file "$T/token" --at "$ADMIT" --config "$T/n2.toml"
    token >"$T/token"
    printf '[links]\nonly = ["n9"]\n' | cat "$T/n2.toml" - >"$T/wrong.toml"
    refused "'n9' choose from n0, n1." weft cluster join --token-file "$T/token" --at "$ADMIT" --config "$T/wrong.toml"
    [ ! -e "$T/disk2.img" ]
    weft cluster join --token-file "$T/token" --at "$ADMIT" --config "$T/n2.toml"
    run_node 2
    # The answer is lost. The node has kept its key, and asks again; nobody else can.
    token=$(token)
    deaf "${PORTS[5]}" >"$T/deaf" & echo $! >"$T/pid-deaf"
    wait_until grep -q listens "$T/deaf"
    refused 'may not have admitted same token' env WEFT_TOKEN="$token" "$WEFT" cluster join --at "127.0.0.1:${PORTS[5]}" --config "$T/n3.toml"
    [ "$(ls "$T/state3")" = joining-key.pem ]
    [ ! -e "$T/disk3.img" ]
    config 4
    sed 's/"n4"/"n3"/' "$T/n4.toml" >"$T/replay.toml"
    replayed() { refused 'used already n3 another key' weft cluster join --token-file - --at "$ADMIT" --config "$T/replay.toml" <<<"$token"; }
    replayed
    WEFT_TOKEN=$token weft cluster join --at "$ADMIT" --config "$T/n3.toml"
    [ ! -e "$T/state3/joining-key.pem" ]
    run_node 3
    wait_until has 0 up 4
    replayed
    grep -c 'calls itself n3, tried to join and was refused: this join token' "$T/log0"
    crash 0
    run_node 0
    wait_until has 0 up 4
    replayed
    [ ! -e "$T/state4" ]
    refused 'used already n3' weft cluster join "$token" --at "$ADMIT" --config "$T/n4.toml"
    refused 'typing error' weft cluster join "${token}0" --at "$ADMIT" --config "$T/n4.toml"
    refused 'printed by weft cluster token with this token' weft cluster join "$token" --at "127.0.0.1:${PORTS[0]}" --config "$T/n4.toml"
    token=$(weft cluster token --valid 1s --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    sleep 2
    refused 'expired' weft cluster join "$token" --at "$ADMIT" --config "$T/n4.toml"
    token=$(token)
    sed 's/"n4"/"n2"/' "$T/n4.toml" >"$T/twice.toml"
    cp "$T/twice.toml" "$T/twice-n2.toml"
    refused 'called n2 another name' weft cluster join "$token" --at "$ADMIT" --config "$T/twice.toml"
    # The token is still good.
    refused 'called n2 another name' weft cluster join "$token" --at "$ADMIT" --config "$T/twice.toml"
    sed "s/:${PORTS[4]}/:${PORTS[1]}/" "$T/n4.toml" >"$T/twice.toml"
    refused 'address: cannot listen at another address' weft cluster join "$token" --at "$ADMIT" --config "$T/twice.toml"
    refused 'does not admit nodes; use n0' weft cluster token --dir "$T/state1"
    # Many drip into the door, and shut nobody out.
    python3 tests/python/drip_connections.py "${ADMIT#*:}" >"$T/drips" & drips=$!
    wait_until grep -q all "$T/drips"
    token=$(token)
    refused 'called n2 another name' weft cluster join "$token" --at "$ADMIT" --config "$T/twice-n2.toml"
    kill $drips
    # One line for each that had to go would be twenty-four more.
    [ "$(grep -c 'tried to join and was refused' "$T/log0")" -le 30 ]
}
# A certificate that is due is renewed when its process is connected, and on goes everything else.
renewing() {
    refused 'ca-key.pem' weft cluster renew "$T/state2/node.pem" --out "$T/short.pem" --dir "$T/state1"
    refused '365 days at most' weft cluster renew "$T/state2/node.pem" --out "$T/short.pem" --valid 366d --dir "$T/state0"
    refused 'no certificate' weft cluster renew "$T/n2.toml" --out "$T/short.pem" --dir "$T/state0"
    weft cluster renew "$T/state2/node.pem" --out "$T/short.pem" --valid 20d --dir "$T/state0"
    kill "$(cat "$T/pid2")"
    wait_until dead "$(cat "$T/pid2")"
    cp "$T/short.pem" "$T/state2/node.pem"
    run_node 2
    wait_until has 0 up 4
    wait_until grep -q 'certificate is renewed, and valid until' "$T/log2"
    grep -c 'has renewed the certificate of n2' "$T/log0"
    cmp -s "$T/short.pem" "$T/state2/node.pem" && return 1
    # Who has the authority's key does that for itself, before it is connected.
    weft cluster renew "$T/state0/node.pem" --out "$T/short.pem" --valid 20d --dir "$T/state0"
    kill "$(cat "$T/pid0")"
    wait_until dead "$(cat "$T/pid0")"
    cp "$T/short.pem" "$T/state0/node.pem"
    run_node 0
    wait_until grep -q 'certificate is renewed, and valid until' "$T/log0"
    wait_until has 0 up 4
    weft status --dir "$T/state2" | { ! grep 'warning: the certificate'; }
}
configurations() {
    sed 's/^disk =/dsik =/' "$T/n4.toml" >"$T/bad.toml"
    refused 'unknown dsik' weft cluster init --config "$T/bad.toml"
    sed 's/"b4"/"B 4"/' "$T/n4.toml" >"$T/bad.toml"
    refused 'not a label' weft cluster init --config "$T/bad.toml"
    truncate -s 160M "$T/used.img"
    mkfs.ext4 -q -F "$T/used.img"
    sed 's/disk4.img/used.img/' "$T/n4.toml" >"$T/bad.toml"
    refused 'ext file system --force' weft cluster init --config "$T/bad.toml"
    sed "s/disk4.img/disk0.img/" "$T/n4.toml" >"$T/bad.toml"
    refused 'disk0.img in use' weft cluster init --config "$T/bad.toml"
    sed "s/:${PORTS[4]}/:${PORTS[0]}/" "$T/n4.toml" >"$T/bad.toml"
    refused 'address: cannot listen another address' weft cluster init --config "$T/bad.toml"
    sed "s/127.0.0.1:${PORTS[4]}/192.0.2.1:${PORTS[4]}/" "$T/n4.toml" >"$T/bad.toml"
    refused 'address: cannot listen at 192.0.2.1' weft cluster init --config "$T/bad.toml"
    [ ! -e "$T/state4" ] && [ ! -e "$T/disk4.img" ]
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
# Where the time of a slow request went is in the log: here for nodes that do not answer for a while.
slow() {
    local n
    for n in 1 2 3; do
        kill -STOP "$(cat "$T/pid$n")"
        { sleep 0.45; kill -CONT "$(cat "$T/pid$n")"; } &
        nbdcopy "$T/image" "$(uri 0)"
        wait $!
    done
    wait_until mode_is 0 fault-free
    grep -m 1 -E 'slow: a write of .* at node 0 \(.* waiting for other nodes, at most (0\.[2-9]|[1-9]).* s for node' "$T/log0"
}
# Others on the machine may read nothing of a node, but what is no secret.
modes() {
    find "$T/state0" "$T/state1" "$T/disk0.img" "$T/disk1.img" ! -type s ! -name ca.pem ! -name node.pem -perm /077 | tee "$T/open"
    [ ! -s "$T/open" ] && [ -e "$T/state1/member.log" ]
}
# What was asked by one who has given up is not done later: nor by another process, which was held up.
given_up() {
    kill -STOP "$(cat "$T/pid2")"
    timeout 1 "$WEFT" node kill 2 --dir "$T/state0" && return 1
    kill -CONT "$(cat "$T/pid2")"
    wait_until mode_is 2 fault-free
    wait_until has 2 up 4
    [ "$(grep -c 'it was killed' "$T/log2")" = 0 ]
}
# Nothing is moved while a node is down, and that is said.
held_up() {
    weft node kill 1 --dir "$T/state0"
    refused 'node 1 (down) --cancel' weft cluster rebalance --dir "$T/state2"
    weft cluster rebalance --cancel --dir "$T/state2"
    weft node start 1 --dir "$T/state0"
    wait_until mode_is 2 fault-free
}
# A process is killed; the next node has the same bytes; it returns and catches up.
killed() {
    local token
    kill -9 "$(cat "$T/pid1")"
    nbdcopy "$(uri 2)" - | cmp - "$T/image"
    wait_until has 0 down 1
    wait_until says 0 'down .*(there is no connection to its process)'
    wait_until says 3 'stripes .* are degraded, .* tolerate no more losses'
    head -c 60M /dev/urandom >"$T/image"
    nbdcopy "$T/image" "$(uri 2)"
    # Where it was nobody else may come, and it cannot be where nobody looks for it.
    token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    sed "s/:${PORTS[4]}/:${PORTS[1]}/" "$T/n4.toml" >"$T/twice.toml"
    refused 'is reached at another address' weft cluster join "$token" --at "$ADMIT" --config "$T/twice.toml"
    [ ! -e "$T/state4" ] && [ ! -e "$T/disk4.img" ]
    sed "s/:${PORTS[1]}/:${PORTS[6]}/" "$T/n1.toml" >"$T/bad.toml"
    refused "address 127.0.0.1:${PORTS[6]} know 127.0.0.1:${PORTS[1]} restore" weft node --config "$T/bad.toml"
    sed -i 's/"b1"/"b7"/' "$T/n1.toml"
    run_node 1
    wait_until has 3 up 4
    wait_until mode_is 2 fault-free
    scrubbed v "$T/state1"
    # Labels are as the process joined with them; that the configuration has others is said.
    weft status --dir "$T/state1" | grep -c 'warning: the labels in the configuration (box=b7)'
    grep -c 'labels in the configuration' "$T/log1"
    weft status --dir "$T/state2" | grep warning: && return 1
    weft node list --dir "$T/state1" | grep -c 'box=b1'
}
# A host without a disk is its own controller; it is paused past its lease, killed, and comes back.
attached() {
    local token host="$T/host" at
    at="nbd+unix:///v?socket=$T/host/nbd.sock"
    refused 'not yet host' weft attach v --dir "$host"
    token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    weft volume set v roles=host --dir "$T/state2"
    # What cannot be leaves the token good, and nothing behind.
    refused 'cannot listen another address' weft attach v --dir "$host" --token "$token" --at "$ADMIT" --nbd "$ADMIT"
    refused 'cannot listen another address' weft attach v --dir "$host" --token "$token" --at "$ADMIT" --address "$ADMIT"
    refused "no volume 'w'" weft attach w --dir "$host" --token "$token" --at "$ADMIT"
    [ ! -e "$host" ]
    weft node list --dir "$T/state1" | { ! grep -q host-; }
    refused 'WEFT_TOKEN --token-file' weft attach v --dir "$host" --at "$ADMIT"
    WEFT_TOKEN=$token "$WEFT" attach v --dir "$host" --at "$ADMIT" --name h1 >"$T/logh" 2>&1 & echo $! >"$T/pidh"
    wait_until grep -q 'reads and writes the disks itself' "$T/logh"
    weft node list --dir "$T/state1" | grep -c h1
    weft disk list --dir "$T/state1" | { ! grep h1; }
    weft volume show v --dir "$T/state1" | grep -c 'roles=host'
    # It serves what was named, and nothing else.
    weft volume create other 5M --dir "$T/state1"
    wait_until nbdinfo --size "nbd+unix:///other?socket=$T/nbd1.sock"
    refused 'other' nbdinfo "nbd+unix:///other?socket=$T/host/nbd.sock"
    nbdinfo --list "nbd+unix:///?socket=$T/host/nbd.sock" | { ! grep other; }
    wait_until weft volume delete other --yes --now --dir "$T/state1"
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
    # Paused in the middle of writing until the others go on without it: it goes on when it wakes.
    head -c 60M /dev/urandom >"$T/image"
    nbdcopy "$T/image" "$at" & copy=$!
    sleep 0.1
    kill -STOP "$(cat "$T/pidh")"
    wait_until status 2 "sys.exit(any(n.get('name') == 'h1' and n['state'] == 'up' for n in s['nodes']))"
    kill -CONT "$(cat "$T/pidh")"
    wait $copy
    nbdcopy "$(uri 3)" - | cmp - "$T/image"
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
    scrubbed v "$T/state1"
    "$WEFT" attach w --dir "$host" >"$T/logh" 2>&1 && return 1
    grep -q "no volume 'w'" "$T/logh"
    refused 'already --token' weft attach v --dir "$host" --token "$token" --at "$ADMIT"
    refused 'cannot listen' weft attach v --dir "$host" --nbd "$ADMIT"
    "$WEFT" attach v --dir "$host" --nbd "$T/other.sock" --nbd "native:$T/native.sock" >"$T/logh" 2>&1 & echo $! >"$T/pidh"
    wait_until grep -q 'reads and writes the disks itself' "$T/logh"
    at="nbd+unix:///v?socket=$T/other.sock"
    nbdcopy "$at" - | cmp - "$T/image"
    [ ! -e "$host/nbd.sock" ]
    [ ! -x "$COPY" ] || "$COPY" "weft+unix:///v?socket=$T/native.sock" "$T/back"
    [ ! -x "$COPY" ] || cmp -n $((60 << 20)) "$T/back" "$T/image"
    kill "$(cat "$T/pidh")"
    wait_until grep -q stopped "$T/logh"
    number=$(status 2 "print(*[n['node'] for n in s['nodes'] if n.get('name') == 'h1'])")
    wait_until weft node remove "$number" --dir "$T/state2"
    refused 'has been removed --token' weft attach v --dir "$host"
    weft volume set v roles=node --dir "$T/state2"
}
ahead() { weft status --dir "$1" | grep "warning: the clock of node [0-9]*'s machine is 2592... s ahead" >/dev/null; }
# The clock of a host's machine is a month ahead: it goes by the cluster's time, and says so; the others notice nothing.
wrong_clock() {
    local token host="$T/ahead" at number libraries=(/usr/lib/*/faketime/libfaketime.so.1)
    at="nbd+unix:///v?socket=$T/ahead/nbd.sock"
    token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    LD_PRELOAD=${libraries[0]} FAKETIME=+30d FAKETIME_DONT_FAKE_MONOTONIC=1 WEFT_TOKEN=$token \
        "$WEFT" attach v --dir "$host" --at "$ADMIT" --name h2 >"$T/logw" 2>&1 & echo $! >"$T/pidw"
    wait_until grep -q 'reads and writes the disks itself' "$T/logw"
    wait_until grep -qE "259[12]... s ahead of the cluster's time" "$T/logw"
    wait_until ahead "$host"
    wait_until ahead "$T/state1"
    head -c 20M /dev/urandom >"$T/part"
    dd if="$T/part" of="$T/image" conv=notrunc status=none
    nbdcopy "$T/part" "$at"
    nbdcopy "$(uri 2)" - | cmp - "$T/image"
    head -c 20M /dev/urandom >"$T/part"
    dd if="$T/part" of="$T/image" conv=notrunc status=none
    nbdcopy "$T/part" "$(uri 1)"
    nbdcopy "$at" - | cmp - "$T/image"
    kill "$(cat "$T/pidw")"
    wait_until grep -q stopped "$T/logw"
    number=$(status 2 "print(*[n['node'] for n in s['nodes'] if n.get('name') == 'h2'])")
    wait_until weft node remove "$number" --dir "$T/state2"
}
# A volume that nobody orders the requests of lets in one host, whoever comes at the same moment.
alone() {
    local round
    wait_until status 1 "sys.exit(s['volumes'][0]['clients'] != 0)" # the last of them may just have gone
    weft volume set v ordering=none --dir "$T/state1"
    for round in 1 2 3; do
        wait_until python3 tests/python/several_hosts.py "$T/several" "$T"/nbd{0,1,2,3}.sock "$T"/nbd{0,1,2,3}.sock
        [ ! -e "$T/several" ]
    done
    grep -q 'is refused.*ordering=none' "$T"/log?
    weft volume set v ordering=timestamps --dir "$T/state1"
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
        scrubbed v "$T/state1"
        weft volume create other 30M --layout raid1 --dir "$T/state1"
        nbdcopy "$T/image.30" "nbd+unix:///other?socket=$T/nbd2.sock"
        weft volume delete other --yes --now --dir "$T/state0"
    done
    refused 'cannot grow that far' weft volume resize v 10G --dir "$T/state0"
    cp "$T/back" "$T/image"
}
# What holds nothing is cut off at once, what is in use only if that is forced; what grows again is
# zeros. Nothing is cut off a host that is connected, or while a node is down.
shrinking() {
    local kept begun
    weft volume resize v 65M --dir "$T/state1"
    [ "$(nbdinfo --size "$(uri 2)")" = $((65 << 20)) ]
    refused 'in use --force' weft volume resize v 30M --dir "$T/state2"
    refused 'nearest' weft volume resize v 1000 --dir "$T/state2"
    [ "$(nbdinfo --size "$(uri 0)")" = $((65 << 20)) ]
    mkfifo "$T/held"
    qemu-io -f raw -r "$(uri 3)" <"$T/held" >/dev/null & kept=$!
    exec 7>"$T/held"
    wait_until status 1 "sys.exit(s['volumes'][0]['clients'] != 1)"
    refused 'connection uses disconnect' weft volume resize v 30M --force --dir "$T/state2"
    refused 'connection uses disconnect' weft volume delete v --yes --now --dir "$T/state2"
    exec 7>&-
    wait $kept || true
    wait_until status 1 "sys.exit(s['volumes'][0]['clients'] != 0)"
    # A disk of a thin volume that is away might show again what it had before.
    weft volume create thin 40M --thin --dir "$T/state1"
    weft volume resize thin 20M --dir "$T/state1"
    weft node stop 3 --dir "$T/state0"
    refused 'node 3 is down' weft volume resize v 30M --force --dir "$T/state2"
    refused 'node 3 is down' weft volume resize thin 60M --dir "$T/state2"
    weft node start 3 --dir "$T/state0"
    wait_until mode_is 2 fault-free
    wait_until weft volume resize thin 60M --dir "$T/state2"
    weft volume delete thin --yes --now --dir "$T/state1"
    weft volume resize v $((30 * 1024 + 100))K --force --dir "$T/state2"
    nbdcopy "$(uri 1)" - | cmp - <(head -c $(((30 * 1024 + 100) << 10)) "$T/image")
    scrubbed v "$T/state1"
    weft volume resize v 80M --dir "$T/state0"
    truncate -s $(((30 * 1024 + 100) << 10)) "$T/image"
    truncate -s 80M "$T/image"
    nbdcopy "$(uri 3)" - | cmp - "$T/image"
    nbdcopy "$T/image.30" "$(uri 0)"
    dd if="$T/image.30" of="$T/image" conv=notrunc status=none
    # A scrub keeps to its rate, says how far it is, and goes on where it is told to.
    begun=$SECONDS
    weft scrub v --rate 2M --dir "$T/state1" & kept=$!
    wait_until status 1 "sys.exit(not any(s['volume'] == 'v' and 0 < s['verified'] < s['stripes'] for s in s['scrubs']))"
    wait $kept
    [ $((SECONDS - begun)) -ge 3 ]
    weft scrub v --rate max --from 600 --dir "$T/state1" | grep -c '640 stripes from 600 on, .* 40 verified'
    refused 'has 640 stripes' weft scrub v --from 640 --dir "$T/state1"
    refused 'rate cannot be 0' weft scrub v --rate 0 --dir "$T/state1"
}
# While another volume is in use and scrubbed, and right after a host has left. Who ends a scrub ends it.
deleting() {
    local kept
    refused 'bxo there are: box, node' weft volume create w 10M --apart bxo --dir "$T/state1"
    "$WEFT" scrub v --rate 64K --dir "$T/state1" >/dev/null 2>&1 & kept=$!
    wait_until eval "weft status --dir '$T/state2' | grep 'a scrub of volume v by node 1'"
    weft volume create w 10M --layout rs:2+1 --dir "$T/state3" | grep -c 'apart: box'
    weft volume resize w all --dir "$T/state3"
    head -c 10M "$T/image.30" | nbdcopy - "nbd+unix:///w?socket=$T/nbd2.sock"
    weft volume resize w 5M --force --dir "$T/state0"
    weft volume delete w --yes --now --dir "$T/state3"
    kill $kept
    wait_until status 1 "sys.exit(len(s['scrubs']) != 0)"
    # A scrub of the volume itself ends with it.
    weft volume create w 10M --dir "$T/state0"
    "$WEFT" scrub w --rate 1K --dir "$T/state1" >"$T/scrubbed" 2>&1 & kept=$!
    wait_until status 1 "sys.exit(len(s['scrubs']) != 1)"
    weft volume delete w --yes --now --dir "$T/state2"
    wait $kept && return 1
    grep -c 'volume does not exist' "$T/scrubbed"
}
# A snapshot of two volumes, which are written through two processes, is of one instant: one host writes a number to one and
# then to the other, while fio writes and verifies the rest of both.
snapshotted() {
    local writers=() kept n first second last
    at() { echo "nbd+unix:///$2?socket=$T/nbd$1.sock"; }
    weft volume create first 20M --layout rs:2+1 --dir "$T/state1"
    weft volume create second 20M --dir "$T/state2"
    mkfifo "$T/alternate"
    python3 tests/python/alternately.py "$(at 0 first)" "$(at 2 second)" <"$T/alternate" >"$T/last" & kept=$!
    exec 6>"$T/alternate"
    for n in '0 first' '2 second'; do
        (cd "$T" && timeout -k 5 $LIMIT fio --name=s --thread --ioengine=nbd --uri="$(at $n)" --rw=randwrite --bsrange=4k-64k --offset=64k \
            --size=16m --io_size=24m --rate=,6m --iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 >"$T/fio${n% *}" 6>&-) &
        writers+=($!)
    done
    for n in 1 2 3; do
        sleep 0.7
        weft volume snapshot first,second "at$n" --dir "$T/state$n"
        # Every process serves them at once.
        nbdcopy "$(at 3 "first@at$n")" "$T/first"
        nbdcopy "$(at 1 "second@at$n")" "$T/second"
        first=$(od -An -tu1 -N1 "$T/first")
        second=$(od -An -tu1 -N1 "$T/second")
        echo "$n: first $first, second $second"
        [ "$first" -gt 0 ]
        [ $((first % 251)) = $((second % 251)) ] || [ $((first % 251)) = $(((second + 1) % 251)) ]
    done
    exec 6>&-
    wait $kept
    wait "${writers[@]}"
    cat "$T/last"
    # It is no other at another process, or later.
    for n in 0 1 2 3; do
        for last in first second; do nbdcopy "$(at $n "$last@at1")" - | sha256sum >>"$T/sums-$last"; done
    done
    for last in first second; do [ "$(sort -u "$T/sums-$last" | wc -l)" = 1 ]; scrubbed $last "$T/state1"; scrubbed $last@at2 "$T/state2"; done
    refused 'connection uses' env "T=$T" bash -c 'sleep 3 | qemu-io -f raw -r "nbd+unix:///first?socket=$T/nbd3.sock" >/dev/null & sleep 0.5; "$0" volume rollback first at1 --yes --dir "$T/state1"' "$WEFT"
    wait_until weft volume rollback first at1 --yes --dir "$T/state1"
    [ "$(nbdcopy "$(at 0 first)" - | sha256sum)" = "$(sort -u "$T/sums-first")" ]
    for n in 1 2 3; do for last in first second; do weft volume delete "$last@at$n" --yes --dir "$T/state0"; done; done
    for last in first second; do weft volume delete $last --yes --now --dir "$T/state3"; done
    wait_until status 2 "sys.exit(len(s['volumes']) != 1)"
}
# Who rolls a volume back dies between: the next to lead shows it again, and nothing of it is lost.
rolled_half() {
    local tries leader other slow rolling left=
    hidden() { status "$1" "sys.exit(not any(v['name'] == 'w' and v['mode'] == 'unfinished' for v in s['volumes']))"; }
    shown() { status "$1" "sys.exit(not any(v['name'] == 'w' and v['mode'] == 'fault-free' for v in s['volumes']))"; }
    weft volume create w 10M --dir "$T/state1"
    head -c 10M "$T/image.30" | nbdcopy - "nbd+unix:///w?socket=$T/nbd2.sock"
    weft volume snapshot w s --dir "$T/state1"
    tail -c 10M "$T/image.30" | nbdcopy - "nbd+unix:///w?socket=$T/nbd2.sock"
    for tries in {1..20}; do
        wait_until status 2 "sys.exit(s['cluster']['leader'] is None)"
        leader=$(status 2 "print(s['cluster']['leader'])")
        other=$(((leader + 1) % 4)) slow=$(((leader + 2) % 4))
        # Before it is rolled back all must say that no host uses it, and one takes its time.
        kill -STOP "$(cat "$T/pid$slow")"
        weft volume rollback w s --yes --dir "$T/state$other" & rolling=$!
        until hidden "$other" && kill -9 "$(cat "$T/pid$leader")" && wait_until dead "$(cat "$T/pid$leader")" ||
            dead $rolling; do :; done
        kill -CONT "$(cat "$T/pid$slow")"
        # Unless it was over too soon, or it is shown again already.
        wait $rolling || ! hidden "$other" || { left=yes; break; }
        alive "$(cat "$T/pid$leader")" || run_node "$leader"
        wait_until has 2 up 4
        wait_until shown "$other"
        tail -c 10M "$T/image.30" | nbdcopy - "nbd+unix:///w?socket=$T/nbd$other.sock"
    done
    echo "$tries tries"
    [ "$left" = yes ]
    run_node "$leader"
    wait_until has "$other" up 4
    wait_until shown "$other"
    grep -c "volume 'w' is unchanged: its rollback" "$T"/log? | grep -v ':0'
    nbdcopy "nbd+unix:///w?socket=$T/nbd$other.sock" - | cmp - <(tail -c 10M "$T/image.30")
    weft volume rollback w s --yes --dir "$T/state$other"
    nbdcopy "nbd+unix:///w?socket=$T/nbd$leader.sock" - | cmp - <(head -c 10M "$T/image.30")
    weft volume delete w@s --yes --dir "$T/state$other"
    weft volume delete w --yes --now --dir "$T/state$other"
    wait_until mode_is 2 fault-free
}
# Who deletes a volume dies between: the next to lead deletes it.
left_over() {
    local tries leader other slow deleting left=
    hidden() { status "$1" "sys.exit(not any(v['name'] == 'w' and v['mode'] == 'unfinished' for v in s['volumes']))"; }
    for tries in {1..20}; do
        wait_until status 2 "sys.exit(s['cluster']['leader'] is None)"
        leader=$(status 2 "print(s['cluster']['leader'])")
        other=$(((leader + 1) % 4)) slow=$(((leader + 2) % 4))
        weft volume create w 10M --dir "$T/state$other"
        # Before it can be deleted all must say that no host uses it, and one takes its time.
        kill -STOP "$(cat "$T/pid$slow")"
        weft volume delete w --yes --now --dir "$T/state$other" & deleting=$!
        until hidden "$other" && kill -9 "$(cat "$T/pid$leader")" && wait_until dead "$(cat "$T/pid$leader")" ||
            dead $deleting; do :; done
        kill -CONT "$(cat "$T/pid$slow")"
        # Unless it was over too soon, or another leads by now.
        # The next to lead may delete it at once, so it is looked at no more.
        wait $deleting || ! hidden "$other" || { left=yes; break; }
        alive "$(cat "$T/pid$leader")" || run_node "$leader"
        wait_until has 2 up 4
        wait_until eval "weft volume delete w --yes --now --dir '$T/state$other'; ! weft volume show w --dir '$T/state$other'"
    done
    echo "$tries tries"
    [ "$left" = yes ]
    run_node "$leader"
    wait_until status "$other" "sys.exit(any(v['name'] == 'w' for v in s['volumes']))"
    grep -c "volume 'w' is removed: its" "$T"/log? | grep -v ':0'
    wait_until has "$other" up 4
    wait_until mode_is 2 fault-free
}
# Who deletes a volume that can be restored for a day dies between: it can be restored.
left_restorable() {
    local tries leader other slow deleting left=
    gone() { status "$1" "sys.exit(any(v['name'] == 'w' and v['mode'] == 'fault-free' for v in s['volumes']))"; }
    shown() { status "$1" "sys.exit(not any(v['name'] == 'w' and v['mode'] == 'fault-free' and v['clients'] == 0 for v in s['volumes']))"; }
    head -c 10M /dev/urandom >"$T/image.w"
    for tries in {1..20}; do
        wait_until status 2 "sys.exit(s['cluster']['leader'] is None)"
        leader=$(status 2 "print(s['cluster']['leader'])")
        other=$(((leader + 1) % 4)) slow=$(((leader + 2) % 4))
        weft volume create w 10M --dir "$T/state$other"
        nbdcopy "$T/image.w" "nbd+unix:///w?socket=$T/nbd$other.sock"
        wait_until shown "$other"
        kill -STOP "$(cat "$T/pid$slow")"
        weft volume delete w --yes --dir "$T/state$other" & deleting=$!
        until gone "$other" && kill -9 "$(cat "$T/pid$leader")" && wait_until dead "$(cat "$T/pid$leader")" ||
            dead $deleting; do :; done
        kill -CONT "$(cat "$T/pid$slow")"
        # Unless it was over too soon.
        wait $deleting || { left=yes; break; }
        alive "$(cat "$T/pid$leader")" || run_node "$leader"
        wait_until has 2 up 4
        wait_until weft volume delete w --yes --now --dir "$T/state$other"
    done
    echo "$tries tries"
    [ "$left" = yes ]
    run_node "$leader"
    wait_until has "$other" up 4
    # Longer than a volume is left that nobody finishes.
    sleep 8
    weft volume undelete w --dir "$T/state$other"
    wait_until shown "$other"
    nbdcopy "nbd+unix:///w?socket=$T/nbd$other.sock" - | cmp - "$T/image.w"
    wait_until weft volume delete w --yes --now --dir "$T/state$other"
    wait_until mode_is 2 fault-free
}
# Nodes that a volume cannot do without, and a majority that is gone: what is said, and that a command is
# not carried out later which was ended while it waited.
outvoted() {
    local n
    for n in 1 2; do weft node kill $n --dir "$T/state0"; done
    wait_until says 3 'failed; missing: .*node 1 (n1, down; .*node 2 (n2, down; '
    for n in 1 2; do weft node start $n --dir "$T/state0"; done
    wait_until mode_is 3 fault-free
    for n in 1 2; do kill -9 "$(cat "$T/pid$n")"; done
    wait_until eval "weft status --dir '$T/state0' | grep 'NOT SERVED'"
    weft volume list --dir "$T/state0" | grep -c 'not served'
    weft node list --dir "$T/state0" | grep -c 'NOT SERVED'
    status 0 "sys.exit(s['volumes'][0]['survives'] is not None)"
    # One of the two may have led.
    for n in 0 3; do
        timeout 8 "$WEFT" volume create late 5M --dir "$T/state$n" >"$T/said" 2>&1 && return 1
        grep -c 'waiting for a leader' "$T/said"
    done
    for n in 1 2; do run_node $n; done
    # What is asked before all have come back waits until it can be done, if that is soon.
    wait_until weft volume create soon 5M --dir "$T/state0"
    weft volume resize soon 6M --dir "$T/state3"
    weft volume delete soon --yes --now --dir "$T/state0"
    wait_until has 0 up 4
    wait_until mode_is 0 fault-free
    refused "no volume 'late'" weft volume show late --dir "$T/state0"
}
leaving() {
    refused 'is up stop' weft node remove 1 --dir "$T/state2"
    weft disk drain 1 --dir "$T/state2"
    nbdcopy "$(uri 1)" - | cmp - "$T/image"
    refused "'v' not enough free space 'box'" weft disk drain 2 --dir "$T/state0"
    weft node stop 1 --dir "$T/state3"
    # It is answered also where it was asked for, and the process knows that it has nothing to do.
    weft node remove 1 --dir "$T/state1"
    weft status --dir "$T/state1" | grep -c 'warning: the last node of this process has left'
    grep -c 'has left the cluster' "$T/log1"
    wait_until has 0 up 3
    nbdcopy "$(uri 0)" - | cmp - "$T/image"
    kill "$(cat "$T/pid1")"
    wait_until dead "$(cat "$T/pid1")"
    refused 'has left join again' weft node --config "$T/n1.toml"
}
# A node is added and gets its share while a host reads and writes; then it is drained again.
adding() {
    local token number share
    # Every extent has a column in each of the three boxes.
    weft cluster what-if --lose n2 --dir "$T/state0" | grep -c 'no place for all lost columns of v'
    weft cluster what-if --lose n2 --add 1G --dir "$T/state0" >"$T/predicted"
    grep -c 'would be rebuilt' "$T/predicted"
    grep -c 'no place' "$T/predicted" && return 1
    weft cluster what-if --layout v=raid1 --dir "$T/state0" --json >"$T/predicted"
    python3 -c 'import json, sys
p = json.load(sys.stdin)["layouts"][0]
sys.exit(not (p["then"]["layout"] == "raid1" and p["then"]["bytes_on_disks"] > p["now"]["bytes_on_disks"]))' <"$T/predicted"
    refused "no volume 'nowhere'" weft cluster what-if --layout nowhere=raid1 --dir "$T/state0"
    refused "process 'n9' n2" weft cluster what-if --lose n9 --dir "$T/state0"
    weft cluster rebalance --dry-run --dir "$T/state2" | grep -c 'no moves are needed'
    token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    sed 's/^box = /bx = /' "$T/n4.toml" >"$T/bad.toml"
    refused "label 'box' its labels: bx" weft cluster join "$token" --at "$ADMIT" --config "$T/bad.toml"
    weft cluster join "$token" --at "$ADMIT" --config "$T/n4.toml"
    run_node 4
    wait_until has 0 up 4
    # Each knows the key that every other one was admitted with.
    [ "$(grep -c '^key = "[0-9a-f]\{32\}"$' "$T/state0/cluster.toml")" = 3 ]
    wait_until says 3 'cluster rebalance'
    weft cluster rebalance --dry-run --dir "$T/state2" | grep -c 'would be moved'
    nbdcopy "$T/image" "$(uri 0)" & copy=$!
    weft cluster rebalance --dir "$T/state3" | grep -c 'as equally full'
    wait $copy
    nbdcopy "$(uri 4)" - | cmp - "$T/image"
    share=$(weft cluster rebalance --dry-run --json --dir "$T/state2" |
        python3 -c 'import json, sys; d = json.load(sys.stdin)["disks"]; print(min(x["used_bytes"] for x in d) * 100 // max(x["used_bytes"] for x in d))')
    [ "$share" -ge 50 ]
    scrubbed v "$T/state0"
    number=$(status 2 "print(*[n['node'] for n in s['nodes'] if n.get('name') == 'n4'])")
    weft disk drain "$number" --dir "$T/state2"
    weft node stop "$number" --dir "$T/state3"
    kill -9 "$(cat "$T/pid4")"
    weft node remove "$number" --dir "$T/state3"
    nbdcopy "$(uri 0)" - | cmp - "$T/image"
    # One that was away when it was removed hears of it from the others.
    run_node 4
    wait_until eval "weft status --dir '$T/state4' | grep -c 'warning: .*not a node of this cluster.*join again'"
    kill "$(cat "$T/pid4")"
    wait_until dead "$(cat "$T/pid4")"
}
# All stop, and all come back.
stopping() {
    local n
    for n in 0 2 3; do kill "$(cat "$T/pid$n")"; done
    for n in 0 2 3; do wait_until dead "$(cat "$T/pid$n")"; done
    for n in 0 2 3; do run_node $n; done
    wait_until has 2 up 3
    # They knew node 1 when they joined, and have forgotten it since: nobody dials it for ever.
    [ "$(grep -c 'the process of n1 has left the cluster' "$T/log3")" = 1 ]
    refused '' grep -F '"n1"' "$T/state3/cluster.toml"
    nbdcopy "$(uri 3)" - | cmp - "$T/image"
    wait_until weft volume delete v --yes --now --dir "$T/state3"
}

# Three boxes with three disks each, in a process each: a process is killed, a disk is lost, one is
# added, one is exchanged, the disk that a process had first leaves; all stop and come back.
boxed() { # boxed N [LINES]: the configuration of box N
    printf '%s\n' "name = \"b$1\"" "dir = \"b$1\"" "disks = [\"b$1-0.img\", \"b$1-1.img\", \"b$1-2.img\"]" \
        'disk_size = "96M"' "address = \"127.0.0.1:${PORTS[8 + $1]}\"" "nbd = [\"nbdb$1.sock\"]" "${@:2}" \
        '[labels]' "box = \"b$1\"" >"$T/b$1.toml"
}
run_box() { "$WEFT" node --config "$T/b$1.toml" >>"$T/logb$1" 2>&1 & echo $! >"$T/pidb$1"; }
# Of the status as box N sees it, Python's s.
box_says() { weft status --json --dir "$T/b$1" | python3 -c "import json, sys; s = json.load(sys.stdin); $2"; }
box_has() { box_says "$1" "sys.exit(sum(n['state'] == '$2' for n in s['nodes']) != $3)"; }
box_mode() { box_says "$1" "sys.exit(any(v['mode'] != '$2' for v in s['volumes']))"; }
whole() { scrubbed v "$T/b$1"; }
boxes() {
    local n token leader other admit=127.0.0.1:${PORTS[11]}
    boxed 0 "admit = \"$admit\""
    sed 's/b0-1.img/b0-0.img/' "$T/b0.toml" >"$T/bad.toml"
    refused 'given twice' weft cluster init --config "$T/bad.toml"
    sed 's/^disks = .*/disks = []/' "$T/b0.toml" >"$T/bad.toml"
    refused 'at least one' weft cluster init --config "$T/bad.toml"
    ln -s "$T/used.img" "$T/b0-2.img"
    refused 'ext file system --force' weft cluster init --config "$T/b0.toml"
    rm "$T/b0-2.img"
    # What is refused has changed nothing: what is right the next time is done.
    sed 's/b0-2.img/nowhere\/b0-2.img/' "$T/b0.toml" >"$T/bad.toml"
    refused 'nowhere No such file' weft cluster init --config "$T/bad.toml"
    sed 's/96M/900P/' "$T/b0.toml" >"$T/bad.toml"
    refused 'b0-0.img' weft cluster init --config "$T/bad.toml"
    [ ! -e "$T/b0" ] && [ -z "$(find "$T" -maxdepth 1 -name '*b0-?.img*')" ]
    weft cluster init --config "$T/b0.toml" | grep -c 'nodes 0, 1, 2'
    run_box 0
    wait_until box_has 0 up 3
    for n in 1 2; do
        boxed $n
        token=$(weft cluster token --dir "$T/b0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
        sed "s/b$n-1.img/b0-1.img/" "$T/b$n.toml" >"$T/bad.toml"
        refused 'b0-1.img in use' weft cluster join "$token" --at "$admit" --config "$T/bad.toml" --force
        [ ! -e "$T/b$n" ] && box_says 0 "sys.exit(len(s['nodes']) != 3 * $n)"
        weft cluster join "$token" --at "$admit" --config "$T/b$n.toml"
        run_box $n
    done
    wait_until box_has 2 up 9
    weft volume create v 60M --layout rs:2+1 --dir "$T/b1" | grep -c 'or 1 box'
    refused "'box' --apart" weft volume create w 10M --layout rs:4+2 --dir "$T/b1" || refused 'at least 6' weft volume create w 10M --layout rs:4+2 --dir "$T/b1"
    weft volume create w 10M --layout rs:4+2 --apart node --dir "$T/b1" | grep -c '2 more nodes lost, or 1 box'
    head -c 10M "$T/image.30" >"$T/image.10"
    nbdcopy "$T/image.10" "nbd+unix:///w?socket=$T/nbdb1.sock"
    truncate -s 60M "$T/image"
    nbdcopy "$T/image" "$(uri b0)"
    # One box goes with all its disks, be it the leader's or not, and comes back.
    for n in 1 2 3; do
        wait_until box_says 2 "sys.exit(s['cluster']['leader'] is None)"
        leader=$(box_says 2 "print({0: 0, 3: 1, 6: 2}[s['cluster']['leader']])")
        other=$(((leader + n) % 3))
        kill -9 "$(cat "$T/pidb$other")"
        nbdcopy "$(uri b$(((other + 1) % 3)))" - | cmp - "$T/image"
        wait_until box_has $(((other + 1) % 3)) down 3
        head -c 60M /dev/urandom >"$T/image"
        nbdcopy "$T/image" "$(uri b$(((other + 2) % 3)))"
        run_box $other
        wait_until box_has 2 up 9
        wait_until box_mode $other fault-free
        whole $other
    done
    # A disk goes in the middle of writing: the hosts of its process notice nothing.
    nbdcopy "$T/image" "$(uri b1)" & n=$!
    weft disk fail 4 --yes --dir "$T/b0"
    wait $n
    wait_until box_mode 1 fault-free
    box_has 2 up 8
    nbdcopy "$(uri b1)" - | cmp - "$T/image"
    wait_until weft node remove 4 --dir "$T/b2"
    refused 'has left' weft node start 4 --dir "$T/b1"
    # One comes; what cannot be taken is refused.
    refused 'is the disk of node 5' weft disk add --path "$T/b1-2.img" --dir "$T/b1"
    refused 'ext file system --force' weft disk add --path "$T/used.img" --dir "$T/b1"
    refused 'b0-1.img in use' weft disk add --path "$T/b0-1.img" --size 96M --force --dir "$T/b1"
    box_says 1 "sys.exit(len(s['nodes']) != 8)"
    refused 'nearest' weft disk add --path "$T/more.img" --size 100000001 --dir "$T/b1"
    weft disk add --path "$T/more.img" --dir "$T/b1" | grep -c 'node 9 has been added'
    wait_until box_has 0 up 9
    weft cluster rebalance --dir "$T/b2"
    # One is exchanged for a larger one elsewhere.
    refused 'stop it before' weft disk replace 0 --path "$T/larger.img" --size 128M --dir "$T/b2"
    weft node stop 0 --dir "$T/b2"
    refused 'is the disk of node 1' weft disk replace 0 --path "$T/b0-1.img" --dir "$T/b2"
    refused 'use a larger disk' weft disk replace 0 --path "$T/larger.img" --size 17M --dir "$T/b2"
    # Nothing foreign is wiped where the disk was either.
    mv "$T/b0-0.img" "$T/away.img"
    ln "$T/b1-2.img" "$T/b0-0.img"
    refused 'b0-0.img in use' weft disk replace 0 --force --dir "$T/b2"
    rm "$T/b0-0.img"
    cp --sparse=always "$T/used.img" "$T/b0-0.img"
    refused 'ext file system --force' weft disk replace 0 --dir "$T/b2"
    cmp "$T/used.img" "$T/b0-0.img"
    mv "$T/away.img" "$T/b0-0.img"
    weft disk replace 0 --path "$T/larger.img" --size 128M --dir "$T/b2"
    wait_until box_mode 1 fault-free
    # The one that gave the process its number leaves.
    weft disk fail 3 --yes --dir "$T/b1"
    wait_until box_mode 1 fault-free
    wait_until weft node remove 3 --dir "$T/b1"
    nbdcopy "$(uri b1)" - | cmp - "$T/image"
    weft disk drain 5 --dir "$T/b0"
    weft disk drain 5 --cancel --dir "$T/b0"
    refused 'is not being drained' weft disk drain 5 --cancel --dir "$T/b0"
    refused 'node 3 has left' weft disk replace 3 --dir "$T/b1"
    # All stop, one after the other, and all come back, with a disk of the last gone from its place.
    for n in 0 1 2; do
        kill "$(cat "$T/pidb$n")"
        wait_until dead "$(cat "$T/pidb$n")"
    done
    mv "$T/b2-1.img" "$T/away.img"
    for n in 0 1 2; do run_box $n; done
    wait_until box_has 1 up 7
    # Nobody has missed anything, so that each can do without it.
    box_says 1 "sys.exit(any(v['mode'] == 'failed' for v in s['volumes']))"
    nbdcopy "$(uri b2)" - | cmp - "$T/image"
    nbdcopy "$T/image" "$(uri b0)"
    mv "$T/away.img" "$T/b2-1.img"
    weft node start 7 --dir "$T/b0"
    wait_until box_mode 1 fault-free
    box_has 1 up 8
    whole 1
    nbdcopy "nbd+unix:///w?socket=$T/nbdb2.sock" - | cmp - "$T/image.10"
    grep -c 'b0-0.img is in the configuration but not in use' "$T/logb0"
}

# Whole boxes: stopped, drained or given up by their names. A volume that nothing can rebuild stands in the way, by name.
whole_box() {
    local n admit=127.0.0.1:${PORTS[11]}
    refused "called 'b7' there are: b0, b1, b2" weft node stop b7 --dir "$T/b0"
    weft node stop b2 --dir "$T/b0" | grep -c 'nodes .* have stopped'
    wait_until box_has 0 down 3
    refused 'down already' weft node stop b2 --dir "$T/b0"
    for n in $(box_says 0 "print(*[n['node'] for n in s['nodes'] if n['state'] == 'down'])"); do weft node start "$n" --dir "$T/b1"; done
    wait_until box_mode 1 fault-free
    refused "not enough free space" weft node drain b2 --dir "$T/b0"
    wait_until box_has 0 up 8
    # One more box, so that one can be done without.
    boxed 3
    sed -i "s/:${PORTS[11]}/:${PORTS[12]}/" "$T/b3.toml"
    weft cluster join "$(weft cluster token --dir "$T/b0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')" \
        --at "$admit" --config "$T/b3.toml"
    run_box 3
    wait_until box_has 0 up 11
    wait_until weft volume delete w --yes --now --dir "$T/b1"
    weft node drain b2 --dir "$T/b1" | grep -c 'disks of nodes .* are empty'
    wait_until box_has 0 draining 3
    weft node drain b2 --cancel --dir "$T/b1" | grep -c 'are used again'
    wait_until box_has 0 up 11
    weft cluster rebalance --dir "$T/b1"
    weft volume create thin 30M --layout raid0 --dir "$T/b1"
    kill -9 "$(cat "$T/pidb2")"
    wait_until box_has 0 down 3
    n=$(box_says 0 "print([n['node'] for n in s['nodes'] if n['state'] == 'down'][0])")
    refused "'thin' (raid0) has no redundancy weft volume delete thin --accept-loss thin" weft node fail b2 --dir "$T/b0"
    refused "'thin' (raid0) has no redundancy" weft disk fail "$n" --dir "$T/b0"
    refused "no volume 'thick'" weft node fail b2 --accept-loss thick --dir "$T/b0"
    weft node fail b2 --accept-loss thin --dir "$T/b0" | grep -c 'nodes .* have been given up'
    refused 'lost already' weft node fail b2 --dir "$T/b0"
    wait_until eval "weft status --dir '$T/b0' | grep 'weft cluster replace b2'"
    # What was given up with its machine is replaced with it, and the volume that is lost is in nobody's way when it is deleted.
    rm -r "$T/b2" "$T"/b2-*
    weft cluster token --dir "$T/b0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])' >"$T/token"
    refused 'the configuration of b3' weft cluster replace b2 --token-file "$T/token" --at "$admit" --config "$T/b3.toml"
    boxed 2
    weft cluster replace b2 --token-file "$T/token" --at "$admit" --config "$T/b2.toml" --accept-loss thin | grep -c 'b2 is now nodes 13, 14, 15'
    run_box 2
    wait_until box_has 1 up 11
    weft volume delete thin --yes --now --dir "$T/b0"
    wait_until box_says 1 "sys.exit(len(s['nodes']) != 11)"
    wait_until weft status --check --dir "$T/b1"
    nbdcopy "$(uri b2)" - | cmp - "$T/image"
    whole 1
}
# All processes at once: what cannot be is refused before anything is made, and a cluster that does not
# come up is not left behind.
at_once() {
    local free=127.0.0.1:${PORTS[6]} up
    up() { "$WEFT" up --processes --dir "$T/c" --nodes 3 --disk-size 64M --layout rs:2+1 "$@"; }
    refused "127.0.0.1:${PORTS[0]} choose another address" up --listen "127.0.0.1:${PORTS[0]}"
    [ ! -e "$T/c" ]
    mkdir -p "$T/c/node-1"
    refused 'node-1 already exists' up --listen "$free"
    rmdir "$T/c/node-1"
    refused 'node 0 has ended for a socket another path' up --listen "$T/n0.toml/x.sock"
    [ -z "$(find "$T/c" -name 'node*')" ]
    "$WEFT" up --processes --dir "$T/c" --nodes 3 --disk-size 64M --listen "$free" >"$T/logc" 2>&1 & up=$!
    echo $up >"$T/pidc"
    wait_until grep -q "weft serves" "$T/logc"
    # Hosts are sent to the node at the address that was chosen, whichever node was the first to run.
    wait_until grep -q "Ctrl-C" "$T/logc"
    grep -c "nbd://$free/" "$T/logc"
    refused "in use by process $up" "$WEFT" up --processes --dir "$T/c"
    alive $up
    kill $up
    wait $up
}
# A member's log is damaged, of one process of three and then of two: each stops with words and stays out. One
# is admitted again by the other two; where only one remembers nothing goes on, and it founds the cluster anew.
damage() { # damage N HOW
    local log=$T/state$1/member.log
    case $2 in
        emptied) : >"$log" ;;
        zeros) head -c "$(stat -c %s "$log")" /dev/zero >"$log.z" && mv "$log.z" "$log" ;;
        older) cp "$T/older.log" "$log" ;;
        last) python3 -c 'import sys; p = sys.argv[1]; b = bytearray(open(p, "rb").read()); b[-3] ^= 1; open(p, "wb").write(b)' "$log" ;;
    esac
}
# Ends node N as a crash would.
crash() { kill -9 "$(cat "$T/pid$1")" && wait_until dead "$(cat "$T/pid$1")"; }
votes() { status "$1" "sys.exit(sorted(s['cluster']['voters']) != [0, 1, 2])"; }
warned() { weft status --dir "$T/state$1" | grep -F "$2"; }
# set_back N IMAGE: a machine is set back to a snapshot of itself, directory and disk. Its log and its witness are whole, and
# too old: only the leader can tell. What its message advises helps.
set_back() {
    local other=$((($1 + 1) % 3))
    crash "$1"
    cp -a "$T/state$1" "$T/snapshot"
    cp --sparse=always "$T/disk$1.img" "$T/snapshot.img"
    run_node "$1"
    wait_until votes "$1"
    wait_until has "$other" up 3
    wait_until mode_is "$other" fault-free
    weft volume create later 4M --layout raid5 --dir "$T/state$other"
    head -c 60M /dev/urandom >"$2"
    nbdcopy "$2" "$(uri $other)"
    wait_until weft volume show later --dir "$T/state$1"
    crash "$1"
    rm -r "$T/state$1"
    mv "$T/snapshot" "$T/state$1"
    mv "$T/snapshot.img" "$T/disk$1.img"
    run_node "$1"
    wait_until dead "$(cat "$T/pid$1")"
    grep -c 'are older copies of themselves' "$T/log$1"
    refused 'older copies votes lost weft cluster readmit' weft node --config "$T/n$1.toml"
    weft cluster readmit --config "$T/n$1.toml" | grep -c 'has a new member'
    run_node "$1"
    wait_until votes "$1"
    wait_until has "$1" up 3
    wait_until mode_is "$1" fault-free
    nbdcopy "$(uri "$1")" - | cmp - "$2"
    weft scrub v --dir "$T/state$1"
}
forgetting() {
    local n=0 how token image=$T/image
    # The nodes of the checks before have these addresses.
    for n in 0 1 2 3; do [ ! -e "$T/pid$n" ] || dead "$(cat "$T/pid$n")" || crash $n; done
    n=0
    local T=$T/forgetting
    mkdir -p "$T"
    config 0 "admit = \"$ADMIT\""
    weft cluster init --config "$T/n0.toml"
    run_node 0
    wait_until has 0 up 1
    for n in 1 2; do
        config $n
        token=$(weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
        weft cluster join "$token" --at "$ADMIT" --config "$T/n$n.toml"
        run_node $n
    done
    wait_until votes 0
    weft volume create v 60M --layout raid5 --dir "$T/state0"
    nbdcopy "$image" "$(uri 0)"
    refused 'in use by process' weft cluster readmit --config "$T/n2.toml"
    for how in emptied zeros last older; do
        n=$(((n + 1) % 3))
        cp "$T/state$n/member.log" "$T/older.log"
        weft volume create "w$how" 4M --layout raid5 --dir "$T/state0"
        wait_until weft volume show "w$how" --dir "$T/state$n"
        crash $n
        damage $n $how
        refused 'votes lost weft cluster readmit weft recover' weft node --config "$T/n$n.toml"
        wait_until has $(((n + 1) % 3)) down 1
        weft cluster readmit --config "$T/n$n.toml" | grep -c 'has a new member'
        refused 'is intact' weft cluster readmit --config "$T/n$n.toml"
        run_node $n
        wait_until votes $n
        wait_until has $n up 3
        wait_until mode_is $n fault-free
        nbdcopy "$(uri $n)" - | cmp - "$image"
    done
    set_back 2 "$image"
    for n in 0 1 2; do crash $n; done
    damage 1 emptied
    damage 2 zeros
    for n in 1 2; do
        refused 'votes lost weft cluster readmit' weft node --config "$T/n$n.toml"
        weft cluster readmit --config "$T/n$n.toml"
        run_node $n
    done
    run_node 0
    wait_until warned 0 'weft recover --config'
    wait_until warned 1 'have not readmitted this process'
    grep -c '2 of 3 voting members have lost their logs' "$T/log0"
    refused 'in use by process' weft recover --config "$T/n0.toml" --found
    crash 0
    refused 'running, at stop all processes' weft recover --config "$T/n0.toml" --found
    for n in 1 2; do crash $n; done
    weft recover --config "$T/n0.toml" | grep -c "The member's log: whole; it has map"
    weft recover --config "$T/n0.toml" --found | grep -c 'is founded again'
    for n in 0 1 2; do run_node $n; done
    wait_until votes 0
    wait_until has 1 up 3
    wait_until mode_is 2 fault-free
    nbdcopy "$(uri 1)" - | cmp - "$image"
    weft scrub v --dir "$T/state2"
    for n in 0 1 2; do crash $n; done
}
# What is lost is given up without an operator, and comes back.
by_itself() {
    local n image=$T/image
    local T=$T/by-itself
    mkdir -p "$T"
    config 0 "admit = \"$ADMIT\""
    weft cluster init --config "$T/n0.toml"
    run_node 0
    wait_until has 0 up 1
    weft cluster show --dir "$T/state0" | grep -x 'give-up-after=never'
    for n in 1 2 3; do
        config $n
        weft cluster join "$(token)" --at "$ADMIT" --config "$T/n$n.toml"
        run_node $n
    done
    wait_until has 0 up 4
    weft volume create v 60M --layout rs:2+1 --dir "$T/state0"
    nbdcopy "$image" "$(uri 0)"
    for n in 0s 9s; do refused '10s at least' weft cluster set give-up-after=$n --dir "$T/state0"; done
    refused 'no setting give-up-after=10m' weft cluster set give-up=10m --dir "$T/state0"
    refused 'write it like 30s never' weft cluster set give-up-after=soon --dir "$T/state0"
    refused 'KEY=VALUE' weft cluster set give-up-after --dir "$T/state0"
    weft cluster show --dir "$T/state2" | grep -x 'give-up-after=never'
    weft cluster set give-up-after=40s --dir "$T/state1" | grep -x 'give-up-after=40s'
    wait_until sh -c "'$WEFT' cluster show --dir '$T/state3' | grep -x give-up-after=40s"
    crash 3
    wait_until has 0 down 1
    wait_until warned 1 'given up in'
    weft cluster set give-up-after=10s --dir "$T/state1" | grep -x 'give-up-after=10s'
    wait_until has 2 lost 1
    wait_until mode_is 2 fault-free
    status 0 "sys.exit(s['nodes'][3]['columns'] != 0)"
    nbdcopy "$(uri 1)" - | cmp - "$image"
    # Three columns have no room on two: the next one is waited for, and says why.
    crash 2
    wait_until warned 0 'too little free space'
    has 0 lost 1
    run_node 3
    wait_until has 0 lost 1
    wait_until mode_is 0 fault-free
    nbdcopy "$(uri 3)" - | cmp - "$image"
    weft scrub v --dir "$T/state0"
    weft cluster set give-up-after=never --dir "$T/state0"
    run_node 2
    wait_until has 0 up 4
    for n in 0 1 2 3; do crash $n; done
}
# A cluster is upgraded box by box, as docs/use/upgrades.md has it, while a host writes: each process stops in good order, is
# started again, and is waited for.
upgrading() {
    local n image=$T/upgrading/image S=$T/upgrading binary=$OLD
    mkdir -p "$S"
    head -c 30M /dev/urandom >"$image"
    for n in 0 1 2 3; do printf '%s\n' "name = \"u$n\"" "dir = \"state$n\"" "disk = \"disk$n.img\"" 'disk_size = "160M"' \
        "address = \"127.0.0.1:${PORTS[$n]}\"" "nbd = [\"nbd$n.sock\"]" $([ $n = 0 ] && echo "admit=\"$ADMIT\"") \
        '[labels]' "box = \"b$n\"" >"$S/n$n.toml"; done
    start_box() { "$binary" node --config "$S/n$1.toml" >>"$S/log$1" 2>&1 & echo $! >"$S/pid$1"; }
    its() { timeout -k 5 $LIMIT "$binary" "$@"; }
    well() { weft status --check --dir "$S/state$1"; }
    its config check "$S/n0.toml"
    its cluster init --config "$S/n0.toml"
    start_box 0
    wait_until well 0
    for n in 1 2 3; do
        its cluster join "$(its cluster token --dir "$S/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')" \
            --at "$ADMIT" --config "$S/n$n.toml"
        start_box $n
    done
    wait_until sh -c "[ \$('$binary' node list --dir '$S/state0' | grep -c ' up ') = 4 ]"
    its volume create v 60M --layout rs:2+1 --dir "$S/state0"
    # A host of box 3, which is upgraded last. The new package is there from here on.
    binary=$WEFT
    ( while [ ! -e "$S/over" ]; do nbdcopy "$image" "nbd+unix:///v?socket=$S/nbd3.sock" || exit 1; done ) & writer=$!
    for n in 0 1 2; do
        kill "$(cat "$S/pid$n")"
        wait_until dead "$(cat "$S/pid$n")"
        start_box $n
        wait_until well 3
    done
    touch "$S/over"
    wait $writer
    kill "$(cat "$S/pid3")"
    wait_until dead "$(cat "$S/pid3")"
    start_box 3
    wait_until well 0
    nbdcopy "nbd+unix:///v?socket=$S/nbd3.sock" "$S/back"
    cmp -n "$(stat -c %s "$image")" "$S/back" "$image"
    weft scrub v --dir "$S/state0"
    for n in 0 1 2 3; do kill "$(cat "$S/pid$n")"; done
    for n in 0 1 2 3; do wait_until dead "$(cat "$S/pid$n")"; done
}
# A process that does not run for 2.5 s is taken out of the map; where all are patient it stays, and hosts wait for it.
patience() {
    local n how at before S=$T/patience
    mkdir -p "$S"
    process() { printf '%s\n' "name = \"p$1\"" "dir = \"state$1\"" "disk = \"disk$1.img\"" 'disk_size = "64M"' \
        "address = \"127.0.0.1:${PORTS[$1]}\"" "nbd = [\"nbd$1.sock\"]" "${@:2}" >"$S/p$1.toml"; }
    start_it() { "$WEFT" node --config "$S/p$1.toml" >>"$S/log$1" 2>&1 & echo $! >"$S/pid$1"; }
    its() { weft status --json --dir "$S/state$1" | python3 -c "import json, sys; s = json.load(sys.stdin); $2"; }
    all_up() { its "$1" "sys.exit(s['cluster']['leader'] is None or [n['state'] for n in s['nodes']] != ['up'] * 3)"; }
    dead_by() { grep -c 'does not answer and is considered failed' "$1" || true; }
    process 0 "admit = \"$ADMIT\"" 'patience = "endless"'
    refused 'endless short long' weft config check "$S/p0.toml"
    process 0 "admit = \"$ADMIT\""
    weft cluster init --config "$S/p0.toml"
    start_it 0
    wait_until its 0 "sys.exit(s['cluster']['leader'] is None)"
    for n in 1 2; do
        process $n
        weft cluster join "$(weft cluster token --dir "$S/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')" \
            --at "$ADMIT" --config "$S/p$n.toml"
        start_it $n
    done
    wait_until all_up 0
    weft volume create v 16M --layout rs:2+1 --dir "$S/state0"
    for how in short long; do
        for n in 0 1 2; do
            kill "$(cat "$S/pid$n")"
            wait_until dead "$(cat "$S/pid$n")"
            sed -i '/^patience/d' "$S/p$n.toml"
            sed -i "1i patience = \"$how\"" "$S/p$n.toml"
        done
        for n in 0 1 2; do start_it $n; done
        for n in 0 1 2; do wait_until all_up $n; done
        wait_until weft status --check --dir "$S/state0"
        # Not the one that leads, nor the one that the host uses.
        n=$(its 0 "print(next(n for n in (1, 2) if n != s['cluster']['leader']))")
        at="$S/log$(its 0 "print(s['cluster']['leader'])")"
        before=$(dead_by "$at")
        kill -STOP "$(cat "$S/pid$n")"
        { sleep 2.5; kill -CONT "$(cat "$S/pid$n")"; } &
        head -c 16M /dev/urandom >"$S/image"
        nbdcopy "$S/image" "nbd+unix:///v?socket=$S/nbd0.sock"
        wait $!
        case $how in
            short) [ "$(dead_by "$at")" -gt "$before" ] ;;
            long) [ "$(dead_by "$at")" = "$before" ] ;;
        esac
        wait_until all_up 0
        wait_until weft status --check --dir "$S/state0"
        nbdcopy "nbd+unix:///v?socket=$S/nbd$n.sock" - | cmp - "$S/image"
    done
    scrubbed v "$S/state0"
    for n in 0 1 2; do kill "$(cat "$S/pid$n")"; done
    for n in 0 1 2; do wait_until dead "$(cat "$S/pid$n")"; done
}
# One process coordinates and no data passes it. It is killed while hosts write by another, and the next takes over; then
# others compute parity, too; then one comes that is there to be the controller.
controlled() {
    local n S=$T/controlled
    mkdir -p "$S"
    for n in 0 1 2 3; do printf '%s\n' "name = \"c$n\"" "dir = \"state$n\"" "disk = \"disk$n.img\"" 'disk_size = "160M"' \
        "address = \"127.0.0.1:${PORTS[$n]}\"" "nbd = [\"nbd$n.sock\"]" $([ $n = 0 ] && echo "admit=\"$ADMIT\"") \
        '[labels]' "box = \"b$n\"" >"$S/n$n.toml"; done
    start_one() { "$WEFT" node --config "$S/n$1.toml" >>"$S/log$1" 2>&1 & echo $! >"$S/pid$1"; }
    healthy() { weft status --check --dir "$S/state$1"; }
    coordinates() { weft volume show v --dir "$S/state3" | grep "the controller is node $1; its backup is node $2"; }
    # What it wrote it reads back in the end.
    verified() {
        (cd "$S" && fio --name=v --thread --ioengine=nbd --uri="nbd+unix:///v?socket=$S/nbd3.sock" --rw=randwrite --randseed=7 \
            --bsrange=4k-256k --size=48m --iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 "$@") >"$S/fio" 2>&1 ||
            { cat "$S/fio"; return 1; }
    }
    weft cluster init --config "$S/n0.toml"
    start_one 0
    wait_until healthy 0
    for n in 1 2 3; do
        weft cluster join "$(weft cluster token --dir "$S/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')" \
            --at "$ADMIT" --config "$S/n$n.toml"
        start_one $n
    done
    wait_until sh -c "[ \$('$WEFT' node list --dir '$S/state0' | grep -c ' up ') = 4 ]"
    refused 'calculator=originator conflicts with roles=controller balanced' \
        weft volume create w 60M --layout rs:2+1 --roles controller --calculator originator --dir "$S/state0"
    weft volume create v 60M --layout rs:2+1 --roles controller --dir "$S/state0"
    wait_until coordinates 0 1
    verified --rate=,12m & writer=$!
    sleep 1
    alive $writer || { echo 'fio was over before the controller died'; return 1; }
    kill -9 "$(cat "$S/pid0")"
    wait_until coordinates 1 2
    wait $writer
    # Lost data is solved for by a column, and each of them in turn computes.
    weft volume set v calculator=tree --dir "$S/state3"
    verified
    start_one 0
    wait_until healthy 3
    weft volume set v calculator=balanced --dir "$S/state3"
    verified
    # One joins to be it: it is preferred, comes back as it, and leaves for good. It has no disk, and no hosts.
    head_is() { printf '%s\n' 'name = "head"' 'dir = "state4"' "address = \"127.0.0.1:${PORTS[4]}\"" 'controller = true' "$@" >"$S/n4.toml"; }
    token() { weft cluster token --dir "$S/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])'; }
    head_is 'nbd = ["nbd4.sock"]'
    refused 'has no nbd; omit nbd' weft cluster join "$(token)" --at "$ADMIT" --config "$S/n4.toml"
    head_is 'disk = "disk4.img"' 'disk_size = "160M"'
    refused 'has no disks; omit disks' weft cluster join "$(token)" --at "$ADMIT" --config "$S/n4.toml"
    head_is
    weft cluster join "$(token)" --at "$ADMIT" --config "$S/n4.toml" | grep 'head is node 4'
    start_one 4
    wait_until coordinates 4 0
    weft status --dir "$S/state4" | grep 'volume v: the controller is node 4; its backup is node 0'
    [ "$(weft disk list --dir "$S/state3" --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["disks"]))')" = 4 ]
    verified --rate=,12m & writer=$!
    sleep 1
    alive $writer || { echo 'fio was over before the controller died'; return 1; }
    kill -9 "$(cat "$S/pid4")"
    wait_until coordinates 0 1
    wait $writer
    start_one 4
    wait_until coordinates 4 0
    verified
    scrubbed v "$S/state3"
    kill "$(cat "$S/pid4")"
    wait_until coordinates 0 1
    weft node remove 4 --dir "$S/state0"
    for n in 0 1 2 3; do kill "$(cat "$S/pid$n")"; done
    for n in 0 1 2 3; do wait_until dead "$(cat "$S/pid$n")"; done
}
all='founding certified joining renewing configurations anywhere slow modes given_up held_up killed attached wrong_clock alone resizing shrinking deleting snapshotted left_over left_restorable rolled_half outvoted leaving adding at_once stopping boxes whole_box forgetting by_itself upgrading patience controlled'
for check in ${*:-$all}; do t $check; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
