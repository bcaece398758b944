#!/usr/bin/env bash
# weft-client's examples against real arrays: order over crashes, hosts that go on at another node,
# and volumes that are set while they are in use.
#   tests/client.sh            all checks
#   tests/client.sh NAME...    some of them
# WEFT chooses the binary, EXAMPLES the directory of the examples. In a temporary directory; closing
# line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
EXAMPLES=$(realpath "${EXAMPLES:-$(dirname "$WEFT")/examples}")
checks=${*:-wal checkpoint copies goes_on set}
T=$(mktemp -d /tmp/weft-client.XXXXXX)
D=$T/array
C=$T/cluster
S=$D/weft.sock
LIMIT=60                        # seconds that anything may take
KILLS=${KILLS:-3}               # of the server, in each check of order
passed=0 failed=0

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
wal() { timeout -k 5 $LIMIT "$EXAMPLES/wal" "$@"; }
checkpoint() { timeout -k 5 $LIMIT "$EXAMPLES/checkpoint" "$@"; }
copy() { timeout -k 5 $LIMIT "$EXAMPLES/copy" "$@"; }

server() { cat "$T/pid" 2>/dev/null || echo none; }
clean() {
    trap - EXIT INT TERM
    cat "$T/pid" "$T/cluster.pid" 2>/dev/null | xargs -r kill 2>/dev/null
    [ ! -s "$T/pid" ] || wait_until dead "$(server)"
    [ ! -s "$T/cluster.pid" ] || wait_until dead "$(cat "$T/cluster.pid")"
    jobs -p | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

start() {
    local new=()
    [ -e "$D/weft.toml" ] || new=(--nodes 5 --disk-size 64M --volume vol0:128M --volume vol1:64M)
    "$WEFT" up --dir "$D" --listen "native:$S" --listen "$T/nbd.sock" "${new[@]}" >>"$T/log" 2>&1 9>&- &
    echo $! >"$T/pid"
    wait_until weft status --dir "$D"
}
# Runs an example's writer, kills the server under it, and looks at what is there.
ordered() {
    local name=$1 n writer
    for n in $(seq "$KILLS"); do
        "$EXAMPLES/$name" write "$S" vol0 30 >"$T/out" 2>&1 &
        writer=$!
        sleep "1.$((RANDOM % 10))"
        alive $writer || { cat "$T/out"; return 1; }
        kill -9 "$(server)"
        # It would go on with the next server, and mend what is to be looked at.
        kill -9 $writer
        wait $writer 2>/dev/null
        wait_until dead "$(server)"
        start || return 1
        "$name" check "$S" vol0 || return 1
    done
    # A host goes on by itself when the server is there again.
    "$EXAMPLES/$name" write "$S" vol0 4 >"$T/out" 2>&1 &
    writer=$!
    sleep 1
    kill -9 "$(server)"
    wait_until dead "$(server)"
    start || return 1
    wait $writer || { cat "$T/out"; return 1; }
    cat "$T/out"
    "$name" check "$S" vol0
}
copies() {
    head -c 60000000 /dev/urandom >"$T/a"
    truncate -s 64M "$T/a"
    copy "$T/a" "weft+unix:///vol1?socket=$S" || return 1
    copy "weft+unix:///vol1?socket=$S" "weft+unix:///vol0?socket=$S" || return 1
    copy "weft+unix:///vol0?socket=$S" "$T/b" || return 1
    cmp -n $((64 << 20)) "$T/a" "$T/b"
}

start_cluster() {
    [ -s "$T/cluster.pid" ] && return 0
    "$WEFT" up --processes --dir "$C" --nodes 5 --disk-size 64M --layout rs:3+1 --volume v:64M \
        --listen "$T/first.sock" >>"$T/log" 2>&1 9>&- &
    echo $! >"$T/cluster.pid"
    wait_until eval "weft volume show v --json --dir $C/node-4 | grep fault-free"
}
# The process of a node: it is one of those that were started here.
process() {
    local pid
    for pid in $(pgrep -P "$(cat "$T/cluster.pid")"); do
        tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -x "$C/node-$1/node.toml" >/dev/null && echo "$pid" && return
    done
    return 1
}
# A host whose node is killed goes on at another, and what it was told is there.
goes_on() {
    start_cluster || return 1
    "$EXAMPLES/wal" write "$C/node-1/weft.sock,$C/node-2/weft.sock,$C/node-3/weft.sock" v 6 >"$T/out" 2>&1 &
    local host=$!
    sleep 2
    alive $host || { cat "$T/out"; return 1; }
    kill -9 "$(process 1)"
    wait $host || { cat "$T/out"; return 1; }
    cat "$T/out"
    wal check "$C/node-4/weft.sock" v
}
# From any node; and what cannot be is refused before anything changes.
set_it() { weft volume set v "$@" --dir "$C/node-${NODE:-3}" --json; }
shows() { weft volume show v --json --dir "$C/node-4" | grep "\"$1\": *\"$2\"" >/dev/null; }
sets() {
    start_cluster || return 1
    set_it ordering=device-locks strategy=small dispatch=commanded >/dev/null || return 1
    wait_until shows ordering device-locks || return 1
    shows strategy small && shows dispatch commanded || return 1
    ! set_it ordering=sequencer commit=never >"$T/refused" 2>&1 || return 1
    grep -q "late or limited" "$T/refused" && shows ordering device-locks || return 1
    NODE=2 set_it ordering=timestamps strategy=auto dispatch=collaborative >/dev/null || return 1
    wait_until shows ordering timestamps || return 1
    weft volume set v ordering=none --dir "$C/node-2" >"$T/said" 2>&1 || return 1
    grep -q '^warning: ordering=none' "$T/said" || return 1
    NODE=4 set_it ordering=timestamps >/dev/null
}

for check in $checks; do
    begun=$SECONDS
    case $check in
        wal | checkpoint | copies) alive "$(server)" || start ;;
    esac >"$T/what" 2>&1
    case $check in
        wal) ordered wal ;;
        checkpoint) ordered checkpoint ;;
        copies) copies ;;
        goes_on) goes_on ;;
        set) sets ;;
        *) echo "there is no check '$check'"; false ;;
    esac >>"$T/what" 2>&1
    if [ $? = 0 ]; then
        passed=$((passed + 1))
        echo "ok   $check ($((SECONDS - begun)) s): $(tail -1 "$T/what")"
    else
        failed=$((failed + 1))
        echo "FAIL $check"
        tail -20 "$T/what" "$T/log"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
