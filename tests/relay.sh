#!/usr/bin/env bash
# What a relay costs: three processes in network namespaces with a cable between each two. fio reads 4 KiB at depth 1 from one
# that is not the host's, over the cable between them, and through the third while that cable is out. Prints a table.
# As root. WEFT chooses the binary, TURNS how often (3), TIME the seconds of each run (4).
# Exit status 0 if the middle of the ratios is at most 2.5.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
TURNS=${TURNS:-3}
TIME=${TIME:-4}
SPACE=wr$$
SUBNET=10.76.0
LIMIT=60
needs ip fio
# In memory: it is links that are to count.
T=$(mktemp -d /dev/shm/weft-relay.XXXXXX)
trap clean_spaces EXIT
trap 'exit 1' INT TERM

# through A B N: whether A talks to B through so many others
through() { status "$1" "sys.exit([len(d['through']) for d in s['cluster']['detours'] if d['to'] == $2 and d['through']] != [1] * $3)"; }
# The middle of what a read takes, in microseconds.
takes() {
    (cd "$T" && fio --name=r --thread --ioengine=nbd --uri="nbd+unix:///v?socket=$T/nbd$HOST.sock" --rw=randread --bs=4k \
        --iodepth=1 --size=64k --time_based --runtime="$TIME" --output-format=json --output="$T/fio" >/dev/null)
    python3 tests/python/fio_median.py "$T/fio"
}

for n in 0 1 2; do cabled "$n"; done
cable 0 1
cable 0 2
cable 1 2
for n in 0 1 2; do
    printf '%s\n' "name = \"n$n\"" "dir = \"state$n\"" "disk = \"disk$n.img\"" 'disk_size = "160M"' \
        "address = \"$(address "$n"):10810\"" "nbd = [\"nbd$n.sock\"]" >"$T/n$n.toml"
    [ $n = 0 ] && echo "admit = \"$(address 0):10811\"" >>"$T/n0.toml"
    printf '%s\n' '[links]' 'local = "tls"' >>"$T/n$n.toml"
    if [ $n = 0 ]; then
        inside 0 "$WEFT" cluster init --config "$T/n0.toml" >/dev/null
    else
        WEFT_TOKEN=$(token) inside $n "$WEFT" cluster join --at "$(address 0):10811" --config "$T/n$n.toml" >/dev/null
    fi
    run_node "$n"
    wait_until up_are 0 $((n + 1))
done
weft volume create v 64M --layout raid4 --stripe-unit 64K --dir "$T/state0" >/dev/null
HOST=0
(cd "$T" && fio --name=f --thread --ioengine=nbd --uri="nbd+unix:///v?socket=$T/nbd$HOST.sock" --rw=write --bs=64k --size=64m >/dev/null)
# Whose disk has the first unit, and another's node for the host.
reads() { status "$1" "print([n['counters']['disk_reads'] for n in s['nodes'] if n['node'] == $1][0])"; }
before=($(for n in 0 1 2; do reads $n; done))
takes >/dev/null
OTHER=0
for n in 1 2; do
    [ $(($(reads $n) - before[n])) -le $(($(reads $OTHER) - before[OTHER])) ] || OTHER=$n
done
HOST=$(((OTHER + 1) % 3))
for turn in $(seq 1 "$TURNS"); do
    wait_until through "$HOST" "$OTHER" 0
    direct=$(takes)
    ip -n "$SPACE-$HOST" link set "to$OTHER" down
    wait_until through "$HOST" "$OTHER" 1
    relayed=$(takes)
    ip -n "$SPACE-$HOST" link set "to$OTHER" up
    ip -n "$SPACE-$HOST" route replace "$(address "$OTHER")/32" dev "to$OTHER" src "$(address "$HOST")"
    echo "$turn $direct $relayed" >>"$T/turns"
done
python3 tests/python/relay_table.py "$T/turns"
