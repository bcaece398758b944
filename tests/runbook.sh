#!/usr/bin/env bash
# Plays docs/use/runbook.md on loopback: for each case a cluster of five processes with two disks each is broken in that way, and
# the page's commands mend it. In a temporary directory. WEFT chooses the binary. The cases to play may be named, after
# 'setting_up'. Closing line 'N passed, N failed'.
set -u
unset COLUMNS
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
T=$(mktemp -d /tmp/weft-runbook.XXXXXX)
export LIMIT=120 WEFT T
PAGE=docs/use/runbook.md
libraries=(/usr/lib/*/faketime/libfaketime.so.1)
export FAKETIME_LIBRARY=${libraries[0]}
passed=0 failed=0
read -r -a PORTS < <(python3 tests/python/free_ports.py
)

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
clean() {
    trap - EXIT INT TERM
    cat "$T"/pid* 2>/dev/null | xargs -r kill -9 2>/dev/null
    mountpoint -q "$T/full" && umount -l "$T/full"
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM
mkdir -p "$T"/{bin,etc,lib,disks,safe}
# The page's commands, as they are on a machine.
ln -s "$WEFT" "$T/bin/weft"
cat >"$T/bin/systemctl" <<'END'
#!/usr/bin/env bash
# start, stop, restart, or enable --now, of weft-node@NAME
. tests/lib.sh
unit=${!#} name=${!#}
name=${unit#*@}
case $1 in stop | restart)
    kill "$(cat "$T/pid-$name")"
    wait_until dead "$(cat "$T/pid-$name")" ;;
esac
case $1 in start | restart | enable)
    [ ! -e "$T/ahead-$name" ] || export LD_PRELOAD=$FAKETIME_LIBRARY FAKETIME=+30d FAKETIME_DONT_FAKE_MONOTONIC=1
    "$WEFT" node --config "$T/etc/$name.toml" </dev/null >>"$T/log-$name" 2>&1 & echo $! >"$T/pid-$name" ;;
esac
END
printf '%s\n' '#!/usr/bin/env bash' '# set-ntp true: the clock is right again' 'rm -f "$T"/ahead-*' >"$T/bin/timedatectl"
chmod +x "$T/bin/systemctl" "$T/bin/timedatectl"
export PATH=$T/bin:$PATH

# config N DISKS ADDRESS [LINES]: the configuration of box N
config() {
    printf '%s\n' "${@:4}" "name = \"box$1\"" "dir = \"$T/lib/box$1\"" "disks = [\"$T/disks/$2-0.img\", \"$T/disks/$2-1.img\"]" \
        'disk_size = "160M"' "address = \"127.0.0.1:${PORTS[$3]}\"" "nbd = [\"$T/box$1.sock\"]" '[labels]' "box = \"box$1\"" \
        >"$T/etc/box$1.toml"
}
play() {
    python3 tests/python/runbook.py $PAGE "$1" "/etc/weft/=$T/etc/" "/var/lib/weft/=$T/lib/" "/media/safe/=$T/safe/" \
        "10.0.0.11:10811=127.0.0.1:${PORTS[5]}" "10.0.0.12:10811=127.0.0.1:${PORTS[6]}" \
        "/srv/disks/=$T/full/" "/dev/disk/by-id/NEW=$T/disks/new.img --size 160M" || return 1
    echo "$1" >>"$T/played"
}
crash() { kill -9 "$(cat "$T/pid-box$1")" && wait_until dead "$(cat "$T/pid-box$1")"; }
# status N CODE: the status as box N sees it, as Python's s
status() { weft status --json --dir "$T/lib/box$1" | python3 -c "import json, sys; s = json.load(sys.stdin); $2"; }
nodes_are() { status "$1" "sys.exit([n['node'] for n in s['nodes']] != [$2])"; }
healthy() { weft status --check --dir "$T/lib/box$1"; }
# There is the same in the volume as there was, as box N has it.
same() { nbdcopy "nbd+unix:///v?socket=$T/box$1.sock" - | cmp - "$T/image"; }

setting_up() {
    local n
    config 1 box1 0 "admit = \"127.0.0.1:${PORTS[5]}\""
    weft cluster init --config "$T/etc/box1.toml"
    cp "$T/lib/box1/ca-key.pem" "$T/safe"
    systemctl start weft-node@box1
    wait_until healthy 1
    for n in 2 3 4 5; do
        config $n box$n $((n - 1))
        weft cluster join "$(weft cluster token --dir "$T/lib/box1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')" \
            --at "127.0.0.1:${PORTS[5]}" --config "$T/etc/box$n.toml"
        systemctl start weft-node@box$n
    done
    wait_until status 1 "sys.exit(sum(n['state'] == 'up' for n in s['nodes']) != 10)"
    weft volume create v 100M --layout rs:2+1 --dir "$T/lib/box1"
    head -c 100M /dev/urandom >"$T/image"
    nbdcopy "$T/image" "nbd+unix:///v?socket=$T/box1.sock"
}
# The machine is taken away with its disks and its directory, another one comes, and then the old one returns.
machine_died() {
    local said
    crash 5
    mv "$T/lib/box5" "$T/lib/old"
    sed "s|lib/box5|lib/old|; s|box5.sock|old.sock|" "$T/etc/box5.toml" >"$T/etc/old.toml"
    wait_until status 1 "sys.exit(sum(n['state'] == 'down' for n in s['nodes']) != 2)"
    # What cannot be, and what the error advises.
    config 5 new5 7
    said=$(weft disk replace 8 --dir "$T/lib/box1" 2>&1) && return 1
    grep -F 'weft cluster replace box5' <<<"$said"
    play 'A machine died'
    nodes_are 1 '0, 1, 2, 3, 4, 5, 6, 7, 10, 11'
    same 5
    "$WEFT" node --config "$T/etc/old.toml" >"$T/log-old" 2>&1 & echo $! >"$T/pid-old"
    wait_until eval "weft status --dir '$T/lib/old' | grep 'join again'"
    healthy 1
    kill -9 "$(cat "$T/pid-old")"
    weft scrub v --dir "$T/lib/box1"
}
no_machine() {
    crash 4
    play 'No other machine is at hand'
    same 2
    systemctl start weft-node@box4
    wait_until status 1 "sys.exit(sum(n['state'] == 'up' for n in s['nodes']) != 10)"
    wait_until healthy 1
    weft scrub v --dir "$T/lib/box1"
}
disk_died() {
    systemctl stop weft-node@box3
    rm "$T/disks/box3-0.img"
    systemctl start weft-node@box3
    play 'A disk died'
    same 3
}
key_died() {
    crash 1
    rm -r "$T/lib/box1" "$T/disks/"box1-*
    config 1 box1 0
    play "The machine with the authority's key died"
    nodes_are 2 '2, 3, 4, 5, 6, 7, 10, 11, 12, 13'
    same 1
    weft scrub v --dir "$T/lib/box1"
}
power_gone() {
    local n
    for n in 1 2 3 4 5; do crash $n; done
    play 'All power has failed'
    same 4
}
# Where nothing can be mounted nothing can be filled.
file_system_full() {
    if [ "$(id -u)" != 0 ] || ! mount -t tmpfs -o size=8M none "$T/safe" 2>/dev/null; then
        echo 'skipped: it needs root, and to mount'
        echo 'A file system is full' >>"$T/played"
        return
    fi
    umount "$T/safe"
    weft node kill 3 --dir "$T/lib/box1"
    mkdir "$T/full"
    mount -t tmpfs -o size=200M none "$T/full"
    cp --sparse=always "$T/disks/box2-1.img" "$T/full/disk.img"
    ln -sf "$T/full/disk.img" "$T/disks/box2-1.img"
    weft node start 3 --dir "$T/lib/box1"
    wait_until healthy 1
    # So large that all disks have some of it.
    weft volume create w 200M --layout rs:2+1 --dir "$T/lib/box1"
    cat /dev/zero >"$T/full/large" 2>/dev/null || true
    head -c 200M /dev/urandom | nbdcopy - "nbd+unix:///w?socket=$T/box1.sock"
    play 'A file system is full'
    same 2
    weft volume delete w --yes --now --dir "$T/lib/box1"
    weft node kill 3 --dir "$T/lib/box1"
    rm "$T/disks/box2-1.img"
    cp --sparse=always "$T/full/disk.img" "$T/disks/box2-1.img"
    umount "$T/full"
    weft node start 3 --dir "$T/lib/box1"
    wait_until healthy 1
}
clock_wrong() {
    systemctl stop weft-node@box4
    touch "$T/ahead-box4"
    systemctl start weft-node@box4
    play 'A clock is wrong'
    same 4
}
# Each section with commands has been played.
all_played() { diff <(sort -u "$T/played") <(python3 tests/python/runbook.py $PAGE | sort); }

all='setting_up machine_died no_machine disk_died key_died power_gone file_system_full clock_wrong all_played'
for check in ${*:-$all}; do t $check; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
