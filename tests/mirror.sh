#!/usr/bin/env bash
# Snapshots that are exported, imported and mirrored between two arrays: one in a process, one of several processes.
#   tests/mirror.sh            all checks
#   tests/mirror.sh NAME...    some of them
# WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
checks=${*:-streams damaged hidden interrupted resumed grown mirrored returned renamed deleted rolled_back cut_off}
T=$(mktemp -d /tmp/weft-mirror.XXXXXX)
LIMIT=60                        # seconds that anything may take
passed=0 failed=0
trap clean EXIT
trap 'exit 1' INT TERM

# up NAME ARGUMENTS..: an array in the background
up() {
    "$WEFT" up --dir "$T/$1" "${@:2}" >>"$T/log-$1" 2>&1 &
    echo $! >"$T/$1.pid"
    wait_until grep -q 'Ctrl-C stops it' "$T/log-$1"
}
# here and there: commands for the two arrays
here() { timeout -k 5 $LIMIT "$WEFT" "$@" --dir "$T/here"; }
there() { timeout -k 5 $LIMIT "$WEFT" "$@" --dir "$T/there"; }
at_here() { echo "nbd+unix:///$1?socket=$T/here.sock"; }
at_there() { echo "nbd+unix:///$1?socket=$T/there/node-0/nbd.sock"; }
# refused TEXT COMMAND..: it fails, and says this
refused() {
    "${@:2}" >"$T/said" 2>&1 && { echo "not refused: ${*:2}"; return 1; }
    grep -qF -- "$1" "$T/said" || { echo "another reason than '$1':"; cat "$T/said"; return 1; }
}
# same NAME NAME: a volume or snapshot here has the content of one there
same() {
    timeout -k 5 $LIMIT nbdcopy "$(at_here "$1")" "$T/from-here" || return 1
    timeout -k 5 $LIMIT nbdcopy "$(at_there "$2")" "$T/from-there" || return 1
    cmp "$T/from-here" "$T/from-there"
}
# changed N: something is written, discarded and written over, each time elsewhere
changed() {
    qemu-io -f raw -c "write -P $1 $((2 + 3 * $1))M 100k" -c "write -P $1 4k 4k" \
        -c "discard $((1 + 3 * $1))M 300k" -c "write -z $((40 + $1))M 64k" "$(at_here data)" >/dev/null
}
# A volume here with some content.
fill() {
    here volume create data 64M >/dev/null
    head -c 48M /dev/urandom >"$T/random"
    timeout -k 5 $LIMIT nbdcopy "$T/random" "$(at_here data)"
}
# Both are as they were.
empty() {
    local command name
    for command in here there; do
        for _ in 1 2; do
            for name in $($command volume list --snapshots --json | names) $($command volume list --json | names); do
                [ "$name" = vol0 ] || $command volume delete "$name" --yes --now >/dev/null 2>&1 || true
            done
        done
        [ "$($command volume list --json | names)" = vol0 ] || return 1
    done
    rm -f "$T"/*.weft
}
names() { python3 -c 'import json, sys; print(*(v["name"] for v in json.load(sys.stdin)["volumes"] if v.get("deleted_seconds_left") is None))'; }
has() { [[ " $($1 volume list --json | names) " == *" $2 "* ]]; }

# A full stream, and changes on top; each snapshot has the same content at both ends.
streams() {
    fill
    here volume snapshot data one >/dev/null
    here volume export data@one "$T/one.weft"
    refused 'exists; give another file' here volume export data@one "$T/one.weft"
    there volume import data "$T/one.weft" --layout rs:2+1 | grep -F 'data@one is imported: 48.00 MiB'
    same data@one data@one
    same data@one data
    changed 1
    here volume snapshot data two >/dev/null
    changed 2
    here volume snapshot data three >/dev/null
    here volume export data@three --since two "$T/three.weft" --json >"$T/said"
    python3 -c 'import json, sys; d = json.load(sys.stdin); assert (d["snapshot"], d["since"], d["bytes"]) == ("data@three", "data@two", 106496), d' <"$T/said"
    refused 'leave out --json' here volume export data@three --json
    # The base is not there yet.
    refused "since 'data@two'" there volume import data "$T/three.weft"
    refused 'already a volume' there volume import data "$T/one.weft"
    here volume export data@two --since one | there volume import data
    [ "$(stat -c %s "$T/three.weft")" -lt 600000 ]
    there volume import data "$T/three.weft"
    same data@one data@one && same data@two data@two && same data@three data@three && same data@three data
    # The same once more: its snapshot is there.
    refused "there is already a volume or snapshot 'data@three'" there volume import data "$T/three.weft"
    there volume show data --json | grep 'rs:2+1' >/dev/null
    refused 'is not a snapshot' here volume export data "$T/x.weft"
    refused 'has no snapshot' here volume export data@nine "$T/x.weft"
    refused 'not later than' here volume export data@one --since two "$T/x.weft"
    [ ! -e "$T/x.weft" ] && [ ! -e "$T/x.weft.part" ]
    # Back to where it came from, beside the original.
    there volume export data@one "$T/back.weft"
    here volume import copy "$T/back.weft"
    timeout -k 5 $LIMIT nbdcopy "$(at_here copy)" "$T/from-here"
    timeout -k 5 $LIMIT nbdcopy "$(at_here data@one)" "$T/from-there"
    cmp "$T/from-here" "$T/from-there"
    empty
}

# A stream that is cut off, damaged or something else changes nothing.
damaged() {
    fill
    here volume snapshot data one >/dev/null
    here volume export data@one "$T/one.weft"
    head -c 20000000 "$T/one.weft" >"$T/short.weft"
    refused 'ends early' there volume import data "$T/short.weft"
    cp "$T/one.weft" "$T/wrong.weft"
    printf 'x' | dd of="$T/wrong.weft" bs=1 seek=30000000 conv=notrunc status=none
    refused 'damaged' there volume import data "$T/wrong.weft"
    refused 'not an exported snapshot' there volume import data "$T/random"
    refused 'cannot read' there volume import data "$T/nothing"
    [ "$(there volume list --json | names)" = vol0 ]
    # Changes that are damaged leave the volume as it was.
    there volume import data "$T/one.weft"
    changed 1
    here volume snapshot data two >/dev/null
    here volume export data@two --since one "$T/two.weft"
    head -c -1 "$T/two.weft" >"$T/short.weft"
    refused 'ends early' there volume import data "$T/short.weft"
    same data@one data
    # What was written there would be lost.
    qemu-io -f raw -c 'write -P 9 50M 4k' "$(at_there data)" >/dev/null
    refused 'has been written since' there volume import data "$T/two.weft"
    [ "$(qemu-io -r -f raw -c 'read -P 9 50M 4k' "$(at_there data)" | grep -c 'read 4096')" = 1 ]
    there volume rollback data one --yes >/dev/null
    there volume import data "$T/two.weft"
    same data@two data
    empty
}

# While content comes, no host sees it, and a host that uses the volume prevents the end.
hidden() {
    local import host
    fill
    here volume snapshot data one >/dev/null
    here volume export data@one "$T/one.weft"
    mkfifo "$T/stream"
    there volume import data <"$T/stream" >"$T/import" 2>&1 &
    import=$!
    exec 8>"$T/stream"
    head -c 5000000 "$T/one.weft" >&8
    wait_until has there data%import
    refused 'data%import' nbdinfo --size "$(at_there data%import)"
    [ "$(nbdinfo --list "nbd+unix://?socket=$T/there/node-0/nbd.sock" | grep -c 'export=')" = 1 ]
    refused 'in progress' there volume import data "$T/one.weft"
    refused 'is being imported' there volume rename data%import other
    refused 'wait until that is done' there volume snapshot data%import one
    tail -c +5000001 "$T/one.weft" >&8
    exec 8>&-
    wait $import
    same data@one data
    changed 1
    here volume snapshot data two >/dev/null
    here volume export data@two --since one "$T/two.weft"
    mkfifo "$T/io"
    timeout -k 5 $LIMIT qemu-io -f raw "$(at_there data)" <"$T/io" >"$T/host" 2>&1 &
    host=$!
    exec 8>"$T/io"
    echo 'read 0 4k' >&8
    wait_until grep -q 'read 4096/4096' "$T/host"
    refused 'uses volume' there volume import data "$T/two.weft"
    exec 8>&-
    wait $host
    there volume import data "$T/two.weft"
    same data@two data
    rm -f "$T/stream" "$T/io"
    empty
}

# An import that is killed leaves what the next one removes; one that gets a signal leaves nothing.
interrupted() {
    local import
    fill
    here volume snapshot data one >/dev/null
    here volume export data@one "$T/one.weft"
    mkfifo "$T/stream"
    for signal in TERM KILL; do
        "$WEFT" volume import data --dir "$T/there" <"$T/stream" >"$T/import" 2>&1 &
        import=$!
        exec 8>"$T/stream"
        head -c 5000000 "$T/one.weft" >&8
        wait_until has there data%import
        kill -$signal $import
        [ $signal = TERM ] && head -c 5000000 /dev/zero >&8 2>/dev/null || true
        exec 8>&-
        wait $import || true
        if [ $signal = TERM ]; then
            [ "$(there volume list --json | names)" = vol0 ]
        else
            has there data%import
        fi
    done
    there volume import data "$T/one.weft"
    same data@one data
    rm -f "$T/stream"
    empty
}

# A long import that is killed goes on where it was, by the same stream or by a mirror.
resumed() {
    local import how
    here volume create data 220M >/dev/null
    head -c 200M /dev/urandom >"$T/random"
    timeout -k 5 $LIMIT nbdcopy "$T/random" "$(at_here data)"
    here volume snapshot data one >/dev/null
    here volume export data@one "$T/one.weft"
    mkfifo "$T/stream"
    for how in import mirror; do
        timeout -k 5 $LIMIT "$WEFT" volume import data --dir "$T/there" <"$T/stream" >"$T/import" 2>&1 &
        import=$!
        exec 8>"$T/stream"
        head -c 170000000 "$T/one.weft" >&8
        wait_until eval 'there volume list --json | grep "\"done\": *134217728"'
        pkill -KILL -P $import
        exec 8>&-
        wait $import || true
        wait_until eval 'there volume list --json | python3 -c "import json, sys; sys.exit(any(v[\"clients\"] for v in json.load(sys.stdin)[\"volumes\"]))"'
        if [ $how = import ]; then
            there volume import data "$T/one.weft" | grep -F 'data@one is imported: 72.00 MiB'
        else
            here mirror data --to "$T/there" | grep -F 'data@one is in the other array as data@one: 72.00 MiB'
        fi
        same data@one data
        there volume delete data@one --yes >/dev/null
        there volume delete data --yes --now >/dev/null
    done
    rm -f "$T/stream"
    empty
}

# A volume that has grown grows there, too.
grown() {
    fill
    here volume snapshot data one >/dev/null
    here volume export data@one | there volume import data
    here volume resize data 80M >/dev/null
    qemu-io -f raw -c 'write -P 5 70M 1M' "$(at_here data)" >/dev/null
    here volume snapshot data two >/dev/null
    here volume export data@two --since one | there volume import data
    [ "$(nbdinfo --size "$(at_there data)")" = $((80 << 20)) ]
    same data@two data
    same data@one data@one
    empty
}

# Rounds of a mirror under load: each snapshot is the same at both ends, and one pair stays.
mirrored() {
    local n load mirror
    mirror() { here mirror data --to "$T/there" --as copy "$@"; }
    refused 'no volume' mirror
    fill
    refused 'cannot be mirrored to itself' here mirror data --to "$T/here"
    timeout -k 5 $LIMIT fio --name=load --thread --ioengine=nbd --uri="$(at_here data)" --rw=randwrite --bs=4k --iodepth=8 \
        --size=60M --time_based --runtime=15 >"$T/fio" 2>&1 &
    load=$!
    for n in 1 2 3; do
        mirror | grep -F 'is in the other array'
        name=$(there volume list --snapshots --json | names)
        [ "$(wc -w <<<"$name")" = 1 ]
        same "data@${name#copy@}" "$name"
    done
    # One that goes on ends with a signal.
    "$WEFT" mirror data --to "$T/there" --as copy --every 1s --dir "$T/here" >"$T/mirror" 2>&1 &
    mirror=$!
    wait_until eval '[ "$(grep -c "is in the other array" "$T/mirror")" -ge 2 ]'
    kill $mirror
    wait $mirror
    wait $load
    mirror
    name=$(there volume list --snapshots --json | names)
    same data copy
    # Another volume of that name has nothing in common.
    there volume create other 64M >/dev/null
    refused 'no snapshot in common' here mirror data --to "$T/there" --as other
    # What was written there meanwhile is not lost without a word.
    qemu-io -f raw -c 'write -P 9 50M 4k' "$(at_there copy)" >/dev/null
    changed 1
    refused 'has been written since' mirror
    there volume rollback copy "${name#copy@}" --yes >/dev/null
    mirror
    same data copy
    empty
}

# When the source of the newest imported snapshot was taken, as the metrics have it.
imported() {
    python3 - "http://$METRICS/metrics" <<'PYTHON'
import re, sys, urllib.request
page = urllib.request.urlopen(sys.argv[1]).read().decode()
found = re.search(r'weft_volume_imported_snapshot_timestamp_seconds\{volume="data"[^}]*\} (\S+)', page)
print(int(float(found.group(1))))
PYTHON
}

# The copy is used after the original was lost, and then mirrored back: only changes go.
returned() {
    fill
    here mirror data --to "$T/there" >/dev/null
    qemu-io -f raw -c 'write -P 9 50M 4k' "$(at_there data)" >/dev/null
    there mirror data --to "$T/here" | grep -F '4.00 KiB since mirror-'
    same data data
    [ "$(here volume list --snapshots --json | names | wc -w)" = 1 ]
    lag=$(($(date +%s) - $(imported)))
    [ $lag -ge 0 ] && [ $lag -lt $LIMIT ]
    changed 1
    here mirror data --to "$T/there" --json >"$T/said"
    python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["copy"] == d["snapshot"] and "@mirror-" in d["since"], d' <"$T/said"
    same data data
    empty
}

# snapshots_of ARRAY: the names of data's snapshots there, without the volume's
snapshots_of() { $1 volume list --snapshots --json | names | tr ' ' '\n' | sed -n 's/^data@//p' | xargs; }

# A copy that has another name for a while: the last pair stays here until a full copy is there.
renamed() {
    local pair import
    fill
    here mirror data --to "$T/there"
    pair=$(snapshots_of here)
    there volume rename data elsewhere >/dev/null
    here volume export data@"$pair" "$T/pair.weft"
    mkfifo "$T/stream"
    timeout -k 5 $LIMIT "$WEFT" volume import data --dir "$T/there" <"$T/stream" >"$T/import" 2>&1 &
    import=$!
    exec 8>"$T/stream"
    head -c 5000000 "$T/pair.weft" >&8
    wait_until has there data%import
    # A full copy begins, and fails.
    refused 'in progress' here mirror data --to "$T/there"
    [ "$(snapshots_of here)" = "$pair" ]
    exec 8>&-
    wait $import || true
    there volume rename elsewhere data >/dev/null
    changed 1
    here mirror data --to "$T/there" | grep -F " since $pair"
    same data data
    rm -f "$T/stream"
    empty
}

# A copy that was deleted by mistake is not replaced while it can be restored.
deleted() {
    local pair
    fill
    here mirror data --to "$T/there"
    pair=$(snapshots_of here)
    there volume delete "data@$pair" --yes >/dev/null
    there volume delete data --yes >/dev/null
    refused 'weft volume undelete data' here mirror data --to "$T/there"
    [ "$(snapshots_of here)" = "$pair" ]
    there volume undelete data >/dev/null
    refused 'no snapshot in common' here mirror data --to "$T/there"
    [ "$(snapshots_of here)" = "$pair" ]
    there volume delete data --yes --now >/dev/null
    changed 1
    here mirror data --to "$T/there"
    same data data
    [ "$(snapshots_of here | wc -w)" = 1 ]
    empty
}

# A volume that was rolled back to a smaller size, and grows again: nothing of the larger one comes back.
rolled_back() {
    local first
    mirror() { here mirror data --to "$T/there"; }
    fill
    here volume snapshot data small >/dev/null
    mirror
    first=$(snapshots_of here)
    first=${first#small }
    # A pair that has clones stays.
    here volume clone "data@$first" kept >/dev/null
    there volume clone "data@$first" kept >/dev/null
    here volume resize data 80M >/dev/null
    qemu-io -f raw -c 'write -P 5 70M 1M' "$(at_here data)" >/dev/null
    mirror
    here volume rollback data small --yes >/dev/null
    changed 1
    # The larger pair is of no use, and the copy has its content.
    refused 'has been written since' mirror
    there volume rollback data "$first" --yes >/dev/null
    mirror | grep -F " since $first"
    same data data
    here volume resize data 80M >/dev/null
    mirror
    same data data
    # Without a smaller pair only a full copy helps.
    here volume delete kept --yes --now >/dev/null
    there volume delete kept --yes --now >/dev/null
    here volume snapshot data middle >/dev/null
    here volume resize data 96M >/dev/null
    mirror
    here volume rollback data middle --yes >/dev/null
    first=$(snapshots_of here)
    refused 'larger than it is now' mirror
    [ "$(snapshots_of here)" = "$first" ]
    for first in $(snapshots_of there); do there volume delete "data@$first" --yes >/dev/null; done
    there volume delete data --yes --now >/dev/null
    mirror
    same data data
    empty
}

# What a process lists that is cut off from the others may be old.
cut_off() {
    local pair others
    fill
    here mirror data --to "$T/there"
    pair=$(snapshots_of here)
    others=$(pgrep -P "$(cat "$T/there.pid")" | tail -n +2)
    kill -STOP $others
    wait_until eval 'there volume list --json | grep cut_off'
    refused 'cut off' here mirror data --to "$T/there" || { kill -CONT $others; false; }
    [ "$(snapshots_of here)" = "$pair" ] || { kill -CONT $others; false; }
    kill -CONT $others
    wait_until here mirror data --to "$T/there"
    same data data
    empty
}

METRICS=127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
up here --nodes 4 --disk-size 256M --volume vol0:1M --listen "$T/here.sock" --metrics "$METRICS"
up there --processes --nodes 4 --disk-size 256M --volume vol0:1M --listen "$T/there.sock"
for check in $checks; do t "$check"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
