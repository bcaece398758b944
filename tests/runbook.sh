#!/usr/bin/env bash
# Plays docs/use/runbook.md: a cluster of five machines with two disks each is broken as each case has it, and the page's
# commands mend it. A machine is a network namespace with an address of its own at a switch, and a directory of its own. One
# that loses power falls silent: nothing ends its connections. The commands run on the machines that the page names.
# As root. WEFT chooses the binary. The cases to play may be named, after 'setting_up'. Closing line 'N passed, N failed'.
set -u
unset COLUMNS
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
T=$(mktemp -d /tmp/weft-runbook.XXXXXX)
SPACE=wr$$
# As on the page: machine 10 is 10.0.0.11.
SUBNET=10.0.0
export LIMIT=120 WEFT T SPACE ON=$T/bin/on
PAGE=docs/use/runbook.md
libraries=(/usr/lib/*/faketime/libfaketime.so.1)
export FAKETIME_LIBRARY=${libraries[0]}
passed=0 failed=0

clean() {
    mountpoint -q "$T/full" && umount -l "$T/full"
    clean_spaces
}
trap clean EXIT
trap 'exit 1' INT TERM
needs ip nsenter faketime nbdcopy
space switch 2>"$T/out" || { echo "skipped: network namespaces cannot be made here: $(cat "$T/out")"; exit 0; }
mkdir -p "$T"/{bin,safe}
# The page's commands, as they are on a machine.
ln -s "$WEFT" "$T/bin/weft"
cat >"$T/bin/on" <<'END'
#!/usr/bin/env bash
# on boxN COMMAND..: on the machine that has this name now
exec nsenter --net="/run/netns/$SPACE-$(readlink "$T/$1")" "${@:2}"
END
cat >"$T/bin/systemctl" <<'END'
#!/usr/bin/env bash
# start, stop, restart, or enable --now, of weft-node@NAME
. tests/lib.sh
name=${!#}
name=${name#*@}
machine=$(readlink "$T/$name")
case $1 in stop | restart)
    kill "$(cat "$T/pid$machine")"
    wait_until dead "$(cat "$T/pid$machine")" ;;
esac
case $1 in start | restart | enable)
    [ ! -e "$T/$name/ahead" ] || export LD_PRELOAD=$FAKETIME_LIBRARY FAKETIME=+30d FAKETIME_DONT_FAKE_MONOTONIC=1
    "$ON" "$name" "$WEFT" node --config "$T/$name/etc/$name.toml" </dev/null >>"$T/log$machine" 2>&1 & echo $! >"$T/pid$machine" ;;
esac
END
printf '%s\n' '#!/usr/bin/env bash' '# -o weft -g weft ..: there is no such user here' 'exec /usr/bin/install "${@:5}"' >"$T/bin/install"
printf '%s\n' '#!/usr/bin/env bash' '# set-ntp true: the clocks are right again' 'rm -f "$T"/*/ahead' >"$T/bin/timedatectl"
chmod +x "$T"/bin/{on,systemctl,timedatectl,install}
export PATH=$T/bin:$PATH

# machine M N [LINES]: a new machine with an address of its own and empty disks, called boxN from now on
machine() {
    local here=$T/$1
    space "$1"
    ip -n "$SPACE-switch" link add "p$1" type veth peer name eth0 netns "$SPACE-$1"
    ip -n "$SPACE-switch" link set "p$1" master br0 up
    ip -n "$SPACE-$1" address add "$(address "$1")/24" dev eth0
    ip -n "$SPACE-$1" link set eth0 up
    mkdir -p "$here"/{etc,lib,disks}
    printf '%s\n' "${@:3}" "name = \"box$2\"" "dir = \"$here/lib/box$2\"" "disks = [\"$here/disks/0.img\", \"$here/disks/1.img\"]" \
        'disk_size = "160M"' "address = \"$(address "$1"):10810\"" "nbd = [\"$here/nbd.sock\"]" '[labels]' "box = \"box$2\"" \
        >"$here/etc/box$2.toml"
    ln -sfn "$1" "$T/box$2"
}
# crash N: boxN has no power. The others hear nothing from it, not even that its connections end.
crash() {
    local machine
    machine=$(readlink "$T/box$1")
    ip -n "$SPACE-switch" link set "p$machine" down
    kill -9 "$(cat "$T/pid$machine")"
    wait_until dead "$(cat "$T/pid$machine")"
}
# powered N: it has power again; its process is not started yet
powered() { ip -n "$SPACE-switch" link set "p$(readlink "$T/box$1")" up; }
# on_box N ARGUMENTS..: weft on that box, with its process's directory
on_box() { "$ON" "box$1" timeout -k 5 $LIMIT "$WEFT" "${@:2}" --dir "$T/box$1/lib/box$1"; }
play() {
    python3 tests/python/runbook.py $PAGE "$1" "/etc/weft/=$T/BOX/etc/" "/var/lib/weft/=$T/BOX/lib/" "/media/safe/=$T/safe/" \
        "/srv/disks/=$T/full/" "/dev/disk/by-id/NEW=$T/BOX/disks/new.img --size 160M" || return 1
    echo "$1" >>"$T/played"
}
# status N CODE: the status as box N sees it, as Python's s
status() { on_box "$1" status --json | python3 -c "import json, sys; s = json.load(sys.stdin); $2"; }
nodes_are() { status "$1" "sys.exit([n['node'] for n in s['nodes']] != [$2])"; }
healthy() { on_box "$1" status --check; }
# There is the same in the volume as there was, as box N has it.
same() { nbdcopy "nbd+unix:///v?socket=$T/box$1/nbd.sock" - | cmp - "$T/image"; }
token() { on_box 1 cluster token --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])'; }

setting_up() {
    local n
    ip -n "$SPACE-switch" link add br0 type bridge
    ip -n "$SPACE-switch" link set br0 up
    machine 10 1 "admit = \"$(address 10):10811\""
    "$ON" box1 weft cluster init --config "$T/box1/etc/box1.toml"
    cp "$T/box1/lib/box1/ca-key.pem" "$T/safe"
    systemctl start weft-node@box1
    wait_until healthy 1
    for n in 2 3 4 5; do
        machine $((9 + n)) $n
        "$ON" box$n weft cluster join "$(token)" --at "$(address 10):10811" --config "$T/box$n/etc/box$n.toml"
        systemctl start weft-node@box$n
    done
    wait_until up_are 1 10
    on_box 1 volume create v 100M --layout rs:2+1
    head -c 100M /dev/urandom >"$T/image"
    nbdcopy "$T/image" "nbd+unix:///v?socket=$T/box1/nbd.sock"
}
# The machine is taken away with all that it has, one with another address comes, and then the old one returns.
machine_died() {
    local said
    crash 5
    wait_until status 1 "sys.exit(sum(n['state'] == 'down' for n in s['nodes']) != 2)"
    # What cannot be, and what the error advises.
    machine 15 5
    said=$(on_box 1 disk replace 8 2>&1) && return 1
    grep -F 'weft cluster replace box5' <<<"$said"
    play 'A machine died'
    nodes_are 1 '0, 1, 2, 3, 4, 5, 6, 7, 10, 11'
    same 5
    ip -n "$SPACE-switch" link set p14 up
    # Not by a function: then this number would be that of a shell.
    nsenter --net="/run/netns/$SPACE-14" "$WEFT" node --config "$T/14/etc/box5.toml" >"$T/log-old" 2>&1 & echo $! >"$T/pid14"
    wait_until eval "inside 14 '$WEFT' status --dir '$T/14/lib/box5' | grep 'join again'"
    healthy 1
    kill -9 "$(cat "$T/pid14")"
    on_box 1 scrub v
}
no_machine() {
    crash 4
    play 'No other machine is at hand'
    same 2
    powered 4
    systemctl start weft-node@box4
    wait_until up_are 1 10
    wait_until healthy 1
    on_box 1 scrub v
}
disk_died() {
    systemctl stop weft-node@box3
    rm "$T/box3/disks/0.img"
    systemctl start weft-node@box3
    play 'A disk died'
    same 3
}
directory_lost() {
    local said
    systemctl stop weft-node@box3
    rm "$T/box3/lib/box3/node.pem"
    said=$("$ON" box3 timeout -k 5 $LIMIT "$WEFT" node --config "$T/box3/etc/box3.toml" 2>&1) && return 1
    grep -F 'lacks node.pem' <<<"$said"
    grep -F 'weft cluster replace box3 --force' <<<"$said"
    play 'The directory of a process is lost or damaged'
    same 3
    on_box 1 scrub v
}
# Another machine comes in its place, with the same address.
key_died() {
    crash 1
    ip netns delete "$SPACE-10"
    wait_until eval "! ip -n $SPACE-switch link show p10"
    mv "$T/10" "$T/gone"
    machine 10 1
    play "The machine with the authority's key died"
    nodes_are 2 '2, 3, 6, 7, 10, 11, 12, 13, 14, 15'
    same 1
    on_box 1 scrub v
}
# The machines have power, and none starts a process by itself.
power_gone() {
    local n
    for n in 1 2 3 4 5; do crash $n; done
    for n in 1 2 3 4 5; do powered $n; done
    play 'All power has failed'
    same 4
}
# Where nothing can be mounted nothing can be filled.
file_system_full() {
    if ! mount -t tmpfs -o size=8M none "$T/safe" 2>/dev/null; then
        echo 'skipped: it needs to mount'
        echo 'A file system is full' >>"$T/played"
        return
    fi
    umount "$T/safe"
    on_box 1 node kill 3
    mkdir "$T/full"
    mount -t tmpfs -o size=200M none "$T/full"
    cp --sparse=always "$T/box2/disks/1.img" "$T/full/disk.img"
    ln -sf "$T/full/disk.img" "$T/box2/disks/1.img"
    on_box 1 node start 3
    wait_until healthy 1
    # So large that all disks have some of it.
    on_box 1 volume create w 200M --layout rs:2+1
    cat /dev/zero >"$T/full/large" 2>/dev/null || true
    head -c 200M /dev/urandom | nbdcopy - "nbd+unix:///w?socket=$T/box1/nbd.sock"
    play 'A file system is full'
    same 2
    on_box 1 volume delete w --yes --now
    on_box 1 node kill 3
    rm "$T/box2/disks/1.img"
    cp --sparse=always "$T/full/disk.img" "$T/box2/disks/1.img"
    umount "$T/full"
    on_box 1 node start 3
    wait_until healthy 1
}
clock_wrong() {
    systemctl stop weft-node@box4
    touch "$T/box4/ahead"
    systemctl start weft-node@box4
    play 'A clock is wrong'
    same 4
}
# Each section with commands has been played.
all_played() { diff <(sort -u "$T/played") <(python3 tests/python/runbook.py $PAGE | sort); }

all='setting_up machine_died no_machine disk_died directory_lost key_died power_gone file_system_full clock_wrong all_played'
for check in ${*:-$all}; do t $check; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
