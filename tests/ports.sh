#!/usr/bin/env bash
# What passes the ports of a controller. Five targets, a controller and four attached hosts, each in a network namespace
# with one port, and all ports limited alike in both directions (tc tbf at both ends). Hosts read and write with
# `roles=controller` and with `central`, two requests at a time of 1 MiB (full stripes) and of 64 KiB (a unit). Prints a table.
# As root. WEFT chooses the binary, RATE the limit of a port (200mbit), TIME the seconds of each run (6).
# Exit status 0 if reads are at least 3 times and full-stripe writes at least 2.2 times those of central, and the controller's
# port carries at most 2 % of the payload, or 5 % with requests of 64 KiB.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
RATE=${RATE:-200mbit}
TIME=${TIME:-6}
TARGETS=5
HOSTS=4
HEAD=$TARGETS
COUNT=$((TARGETS + 1 + HOSTS))
SPACE=wp$$
SUBNET=10.78.0
LIMIT=60
needs ip tc fio
# In memory: it is ports that are to limit.
T=$(mktemp -d /dev/shm/weft-ports.XXXXXX)
trap clean_spaces EXIT
trap 'exit 1' INT TERM

# limit SPACE DEVICE: so much leaves it, and no more
limit() { tc -n "$1" qdisc add dev "$2" root tbf rate "$RATE" burst 128k latency 100ms; }
# A machine: a namespace with one port at the switch.
machine() {
    space "$1"
    ip -n "$SPACE-$1" link add eth0 type veth peer name "p$1" netns "$SPACE-switch"
    ip -n "$SPACE-$1" address add "$(address "$1")/24" dev eth0
    ip -n "$SPACE-$1" link set eth0 up
    ip -n "$SPACE-switch" link set "p$1" master br0 up
    limit "$SPACE-$1" eth0
    limit "$SPACE-switch" "p$1"
}
# What has passed a machine's port, both ways.
passed() { ip -n "$SPACE-$1" -s -j link show eth0 | python3 tests/python/port_bytes.py; }
controlled_by() { status 0 "sys.exit(s['volumes'][0].get('controller') != $1)"; }

start() {
    local n
    space switch
    ip -n "$SPACE-switch" link add br0 type bridge
    ip -n "$SPACE-switch" link set br0 up
    for n in $(seq 0 $((COUNT - 1))); do machine "$n"; done
    for n in $(seq 0 $HEAD); do
        printf '%s\n' "name = \"n$n\"" "dir = \"state$n\"" "address = \"$(address "$n"):10810\"" >"$T/n$n.toml"
        [ "$n" = $HEAD ] && echo 'controller = true' >>"$T/n$n.toml"
        [ "$n" = $HEAD ] || printf '%s\n' "disk = \"disk$n.img\"" 'disk_size = "256M"' >>"$T/n$n.toml"
        [ "$n" = 0 ] && echo "admit = \"$(address 0):10811\"" >>"$T/n$n.toml"
        printf '%s\n' '[links]' 'local = "tls"' >>"$T/n$n.toml"
        [ "$n" = 0 ] && inside 0 "$WEFT" cluster init --config "$T/n0.toml" >/dev/null
        [ "$n" = 0 ] || WEFT_TOKEN=$(token) inside "$n" "$WEFT" cluster join --at "$(address 0):10811" --config "$T/n$n.toml" >/dev/null
        run_node "$n"
        wait_until up_are 0 $((n + 1))
    done
    weft volume create v 512M --layout raid5 --stripe-unit 64K --roles controller --dir "$T/state0" >/dev/null
    wait_until controlled_by $HEAD
    for n in $(seq $((HEAD + 1)) $((COUNT - 1))); do
        WEFT_TOKEN=$(token) in_background "$n" attach v --dir "$T/host$n" --name "host$n" --address "$(address "$n"):10810" \
            --at "$(address 0):10811"
        wait_until up_are 0 $((n + 1))
    done
}

# run ROLES READ|WRITE SIZE: all hosts at once, each in a quarter of its own; a line of the results
run() {
    local n job before after jobs=()
    before=$(passed $HEAD)
    for n in $(seq 1 $HOSTS); do
        (cd "$T" && fio --name=h --thread --ioengine=nbd --uri="nbd+unix:///v?socket=$T/host$((HEAD + n))/nbd.sock" \
            --rw="rand$2" --randseed="$n" --bs="$3" --iodepth=2 --offset=$(((n - 1) * 128))m --size=128m \
            --time_based --runtime="$TIME" --output-format=json --output="$T/fio$n" >/dev/null) & jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job"; done
    # What is told later belongs to it, too.
    sleep 0.3
    after=$(passed $HEAD)
    echo "$1 $2 $3 $((after - before)) $(python3 tests/python/fio_bytes.py "$T"/fio[0-9]*)" >>"$T/results"
}

start
# Nothing is read that was never written.
for n in $(seq 1 $HOSTS); do
    (cd "$T" && fio --name=f --thread --ioengine=nbd --uri="nbd+unix:///v?socket=$T/host$((HEAD + n))/nbd.sock" --rw=write \
        --bs=1m --iodepth=4 --offset=$(((n - 1) * 128))m --size=128m >/dev/null) & fills[n]=$!
done
for job in "${fills[@]}"; do wait "$job"; done
for roles in controller central controller central; do
    weft volume set v "roles=$roles" --dir "$T/state0" >/dev/null
    wait_until controlled_by $HEAD
    for size in 1m 64k; do
        run $roles read $size
        run $roles write $size
    done
done
python3 tests/python/port_table.py "$RATE" <"$T/results"
