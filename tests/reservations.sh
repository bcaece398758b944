#!/usr/bin/env bash
# A volume that hosts use over iSCSI at several processes of a cluster: its paths, and persistent reservations as failover
# clusters use them, and COMPARE AND WRITE. No write of a host takes effect once it is excluded.
#   tests/reservations.sh            all checks
#   tests/reservations.sh NAME...    some of them
# WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PYTHONPATH=tests/python PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
T=$(mktemp -d /tmp/weft-reservations.XXXXXX)
LIMIT=60                        # seconds that anything may take
passed=0 failed=0
read -r -a PORTS < <(python3 tests/python/free_ports.py)
NODES=4

weft() { timeout -k 5 $LIMIT "$WEFT" "$@"; }
clean() {
    trap - EXIT INT TERM
    cat "$T"/pid* 2>/dev/null | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

iscsi_port() { echo "${PORTS[$((NODES + $1))]}"; }
run_node() { "$WEFT" node --config "$T/n$1.toml" >>"$T/log$1" 2>&1 & echo $! >"$T/pid$1"; }
up_are() { [ "$(weft node list --dir "$T/state$1" | grep -c " up ")" = "$2" ]; }
# A cluster of processes, each with an address for iSCSI; the last one only for hosts to be killed at.
founded() {
    local n
    for n in $(seq 0 $((NODES - 1))); do
        printf '%s\n' "name = \"n$n\"" "dir = \"state$n\"" "disk = \"disk$n.img\"" 'disk_size = "64M"' \
            "address = \"127.0.0.1:${PORTS[$n]}\"" "nbd = [\"nbd$n.sock\"]" \
            "iscsi = [\"127.0.0.1:$(iscsi_port "$n")\"]" >"$T/n$n.toml"
    done
    sed -i "1a admit = \"127.0.0.1:${PORTS[9]}\"" "$T/n0.toml"
    weft cluster init --config "$T/n0.toml"
    run_node 0
    wait_until up_are 0 1
    for n in $(seq 1 $((NODES - 1))); do
        weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])' >"$T/token"
        weft cluster join --token-file "$T/token" --at "127.0.0.1:${PORTS[9]}" --config "$T/n$n.toml"
        run_node "$n"
    done
    wait_until up_are 0 $NODES
    weft volume create v 24M --layout rs:2+1 --dir "$T/state0"
}
target() {
    weft status --json --dir "$T/state0" |
        python3 -c 'import json, sys; print(*(v["iscsi_target"] for v in json.load(sys.stdin)["volumes"]))'
}
# python CODE: with the target's name and the ports of all processes, and Initiator
python() {
    timeout -k 5 $LIMIT python3 -c "
import sys, time
from initiator import Initiator, Moved
target, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
REGISTER, RESERVE, RELEASE, CLEAR, PREEMPT, IGNORE = 0, 1, 2, 3, 5, 6
CONFLICT = 0x18
a = Initiator(ports[0], target, 'iqn.1999-01.example:a')
b = Initiator(ports[1], target, 'iqn.1999-01.example:b')
$1" "$(target)" "$(iscsi_port 0)" "$(iscsi_port 1)" "$(iscsi_port 2)" "$(iscsi_port 3)"
}

# A discovery at any process names all, and a host sees which of them serve.
paths() {
    wait_until all_are_listed
    python '
assert a.port_groups() == b.port_groups() == {1: True, 2: True, 3: True, 4: True}, a.port_groups()'
}
all_are_listed() {
    local n
    iscsi-ls "iscsi://127.0.0.1:$(iscsi_port 2)" >"$T/listed"
    for n in $(seq 0 $((NODES - 1))); do
        grep -q "Portal:127.0.0.1:$(iscsi_port "$n"),$((n + 1))$" "$T/listed" || return
    done
}

# What is registered at one process is known at all, and NBD's hosts count as unregistered.
known_everywhere() {
    python '
assert a.reserve(REGISTER, other=0xA) == (0, None)
assert b.reserve(REGISTER, other=0xB) == (0, None)
assert a.keys() == b.keys() == [0xA, 0xB]
assert a.reserve(RESERVE, 3, 0xB)[0] == CONFLICT, "it is not the key"
assert a.reserve(RESERVE, 3, 0xA) == (0, None)
assert b.reserve(RESERVE, 3, 0xB)[0] == CONFLICT
assert a.answer(a.write(0, b"a" * 512))[0] == 0
assert b.read(0)[0] == CONFLICT and b.answer(b.write(0, b"b" * 512))[0] == CONFLICT
assert a.read(0)[1] == b"a" * 512'
    weft volume show v --dir "$T/state2" | grep 'reservation: exclusive-access by iqn.1999-01.example:a,i,0x800000000001 through'
    ! nbdcopy "nbd+unix:///v?socket=$T/nbd2.sock" /dev/null
    # The session is gone, and what it reserved is not. An operator takes it away.
    weft volume unreserve v --dir "$T/state3"
    nbdcopy "nbd+unix:///v?socket=$T/nbd2.sock" /dev/null
    weft volume show v --dir "$T/state2" | { ! grep -E '^(reservation|registered):'; }
    grep -h 'change: reserve.*"action":"reserve"' "$T"/log* | grep done
    grep -h 'change: volume-unreserve' "$T"/log* | grep done
}

# Hosts at two processes count up the same block, each from what it has read: no count is lost.
counted() {
    python '
def block(n): return n.to_bytes(8, "little") * 64
hosts, known, done, differed = [a, b], [0, 0], 0, 0
assert a.answer(a.write(100, block(0)))[0] == 0
for turn in range(300):
    tags = [host.compare_and_write(100, block(n), block(n + 1)) for host, n in zip(hosts, known)]
    for at, (host, tag) in enumerate(zip(hosts, tags)):
        status, _, sense = host.answer(tag)
        if status == 0:
            done, known[at] = done + 1, known[at] + 1
        else:
            assert sense == (0x0e, 0x1d, 0), (status, sense)
            differed += 1
            known[at] = int.from_bytes(host.read(100)[1][:8], "little")
assert a.read(100)[1] == b.read(100)[1] == block(done), done
assert done >= 300 and differed > 0, (done, differed)
for at, host in enumerate(hosts * 4):
    assert host.or_write(101, bytes([1 << at]) * 512)[0] == 0
assert a.read(101)[1] == bytes([255]) * 512
print(f"{done} counts, {differed} differed")'
}

# What has been answered at one process is so at another at once.
at_once() {
    python '
assert a.reserve(IGNORE, other=0xA)[0] == 0 and b.reserve(IGNORE, other=0xB)[0] == 0
for turn in range(100):
    assert a.reserve(RESERVE, 1, 0xA)[0] == 0
    assert b.answer(b.write(0, b"b" * 512))[0] == CONFLICT, turn
    assert a.reserve(RELEASE, 1, 0xA)[0] == 0
    assert b.answer(b.write(0, b"b" * 512))[0] == 0, turn
assert a.reserve(CLEAR, 0, 0xA)[0] == 0'
}

# A host takes over while another writes through another process as fast as it can: nothing of the loser's lands after
# the answer, and the loser is told.
taken_over() {
    python '
for turn in range(12):
    a.reserve(IGNORE, other=0xA)
    b.reserve(IGNORE, other=0xB)
    # What it was told of the turn before.
    a.ask(b"\0" * 6), b.ask(b"\0" * 6)
    kind = [1, 3, 5, 6][turn % 4]
    assert a.reserve(RESERVE, kind, 0xA)[0] == 0
    blocks = range(0, 48 * 8, 8)
    writes = [a.write(block, b"a" * 4096) for block in blocks]
    begun = time.monotonic()
    assert b.reserve(PREEMPT, kind, 0xB, 0xA) == (0, None)
    took = time.monotonic() - begun
    for tag in [b.write(block, b"b" * 4096) for block in blocks]:
        assert b.answer(tag)[0] == 0
    late = [a.write(block, b"A" * 4096) for block in blocks]
    ends = [a.answer(tag) for tag in writes + late]
    assert all(status in (0, 2, CONFLICT) for status, _, _ in ends), ends
    assert any(sense == (6, 0x2a, 5) for _, _, sense in ends), "it is told, once"
    assert all(status != 0 for status, _, _ in ends[len(writes):])
    for block in blocks:
        assert b.read(block, 8)[1] == b"b" * 4096, (turn, block)
    assert b.reserve(CLEAR, 0, 0xB)[0] == 0
    print(f"took over in {took * 1000:.0f} ms")'
}

# The loser registers again through the same session, and may write again. What it has asked before the takeover stays undone.
registered_again() {
    python '
for turn in range(12):
    # What it was told of the turn before.
    a.ask(b"\0" * 6), b.ask(b"\0" * 6)
    assert a.reserve(IGNORE, other=0xA)[0] == b.reserve(IGNORE, other=0xB)[0] == 0
    assert b.reserve(RESERVE, 5, 0xB)[0] == 0
    blocks = range(0, 48 * 8, 8)
    writes = [a.write(block, b"a" * 4096) for block in blocks]
    assert b.reserve(PREEMPT - turn % 2, 5, 0xB, 0xA) == (0, None)
    while a.reserve(IGNORE, other=0xA)[1] == (6, 0x2a, 5): pass
    for tag in [b.write(block, b"b" * 4096) for block in blocks]:
        assert b.answer(tag)[0] == 0
    ends = [a.answer(tag)[0] for tag in writes]
    assert all(status in (0, 2, CONFLICT) for status in ends), ends
    for block in blocks:
        assert b.read(block, 8)[1] == b"b" * 4096, (turn, block)
    assert a.answer(a.write(0, b"A" * 512))[0] == 0, "it is registered"
    assert b.reserve(CLEAR, 0, 0xB)[0] == 0
    print(f"{ends.count(0)} of {len(ends)} were done before")'
}

# A reservation is given to a host at another process, which was not registered, and back to one that was. What cannot be is
# refused, and says why.
moved() {
    python '
name = "iqn.1999-01.example:"
assert a.reserve(IGNORE, other=0xA)[0] == 0
assert a.move(0xA, 0xB, 2, name + "b") == (2, (5, 0x24, 0)), "there is no reservation"
assert a.reserve(RESERVE, 3, 0xA)[0] == 0
assert b.move(0xA, 0xB, 1, name + "a")[0] == CONFLICT, "it is not registered"
assert a.move(0xB, 0xB, 2, name + "b")[0] == CONFLICT, "it is another key"
for wrong in [(0, 2, "b"), (0xB, 9, "b"), (0xB, 2, "a")]:
    assert a.move(0xA, wrong[0], wrong[1], name + wrong[2]) == (2, (5, 0x26, 0)), wrong
assert a.move(0xA, 0xB, 2, name + "b", length=24) == (2, (5, 0x26, 0))
assert a.answer(a.write(0, b"a" * 512))[0] == 0
late = [a.write(block, b"a" * 4096) for block in range(0, 48 * 8, 8)]
assert a.move(0xA, 0xB, 2, name + "b", unregister=True) == (0, None)
ends = [a.answer(tag)[0] for tag in late]
assert all(status in (0, CONFLICT) for status in ends), ends
assert a.keys() == b.keys() == [0xB] and a.answer(a.write(0, b"a" * 512))[0] == CONFLICT
for tag in [b.write(block, b"b" * 4096) for block in range(0, 48 * 8, 8)]:
    assert b.answer(tag)[0] == 0
assert a.reserve(REGISTER, other=0xA)[0] == 0
assert b.move(0xB, 0xAA, 1, name + "a") == (0, None)
assert b.keys() == [0xB, 0xAA] and b.answer(b.write(0, b"b" * 512))[0] == CONFLICT
assert b.read(0)[0] == CONFLICT and a.read(0)[1] == b"b" * 512
assert a.reserve(CLEAR, 0, 0xAA)[0] == 0'
    weft volume show v --dir "$T/state2" | { ! grep -E '^(reservation|registered):'; }
}

# A reset at one process reaches the hosts at all, and nothing that was asked for before it begins after its answer. What a
# process receives of a host after telling it of the reset is later than the reset, although it was sent before.
reset_everywhere() {
    python '
TOLD = (6, 0x29, 3)
c = Initiator(ports[2], target, "iqn.1999-01.example:c")
for turn in range(10):
    blocks = range(0, 48 * 8, 8)
    writes = [[(host, host.write(block, letter * 4096)) for block in blocks] for host, letter in ((a, b"a"), (c, b"c"))]
    assert b.reset() == 0
    assert b.ask(b"\0" * 6)[2] == TOLD and b.ask(b"\0" * 6)[0] == 0
    for tag in [b.write(block, b"b" * 4096) for block in blocks]:
        assert b.answer(tag)[0] == 0
    shown = [{b"b"} for _ in blocks]
    for letter, of_host in zip((b"a", b"c"), writes):
        ends = [host.answer(tag)[::2] for host, tag in of_host]
        # Done before the reset, cut off by it, or told of it.
        assert all(status == 0 or sense in ((0x0b, 0, 0), TOLD) for status, sense in ends), ends
        senses = [sense for _, sense in ends]
        for later in range(senses.index(TOLD) + 1 if TOLD in senses else len(ends), len(ends)):
            shown[later].add(letter)
    for host in (a, c):
        host.ask(b"\0" * 6)
        assert host.ask(b"\0" * 6)[0] == 0
    for block, letters in zip(blocks, shown):
        content = b.read(block, 8)[1]
        assert content[:1] in letters and content == content[:1] * 4096, (turn, block, content[:1], letters)'
}

# RESERVE(6): one session has the unit to itself at all processes, until it releases it, leaves, is lost, or a reset comes.
held_by_session() {
    python '
TUR = b"\0" * 6
def others_conflict():
    assert b.answer(b.write(0, b"b" * 512))[0] == CONFLICT and b.read(0)[0] == CONFLICT
    assert b.ask(TUR)[0] == CONFLICT and b.ask(b"\x12\0\0\0\x24\0", expected=36)[0] == 0
    assert b.hold()[0] == CONFLICT and b.release() == (0, None), "it is not its own"
def is_free():
    for n in range(200):
        if b.answer(b.write(0, b"b" * 512))[0] == 0: break
        time.sleep(0.05)
    assert b.ask(TUR)[0] == 0 and b.hold() == b.release() == (0, None)
for turn in range(50):
    assert a.hold() == (0, None) and a.hold() == (0, None)
    assert b.answer(b.write(0, b"b" * 512))[0] == CONFLICT, turn
    assert a.answer(a.write(0, b"a" * 512))[0] == 0
    assert a.release() == (0, None)
    assert b.answer(b.write(0, b"b" * 512))[0] == 0, turn
assert a.hold() == (0, None)
others_conflict()
assert a.reserve(IGNORE, other=0xA)[0] == CONFLICT and b.reserve(IGNORE, other=0xB)[0] == CONFLICT
assert a.ask(bytes([0x5e, 0, 0, 0, 0, 0, 0, 4, 0, 0]), expected=1024)[0] == CONFLICT
assert b.reset() == 0
assert b.ask(TUR)[2] == (6, 0x29, 3)
is_free()
a.ask(TUR), a.ask(TUR)
# A session leaves, and another is lost.
assert a.hold() == (0, None)
others_conflict()
a.logout()
is_free()
a = Initiator(ports[0], target, "iqn.1999-01.example:a")
assert a.hold() == (0, None)
others_conflict()
a.socket.close()
is_free()
# One that takes the place of another begins without.
a = Initiator(ports[0], target, "iqn.1999-01.example:a")
assert a.hold() == (0, None)
again = Initiator(ports[0], target, "iqn.1999-01.example:a")
is_free()
# Registrants exclude it, but for those that may write.
assert again.reserve(REGISTER, other=0xA)[0] == 0 and again.hold()[0] == CONFLICT and b.hold()[0] == CONFLICT
assert again.reserve(RESERVE, 5, 0xA)[0] == 0 and again.hold() == again.release() == (0, None)
assert b.hold()[0] == b.release()[0] == CONFLICT
assert again.reserve(CLEAR, 0, 0xA)[0] == 0
# With its process.
import os, signal
c = Initiator(ports[3], target, "iqn.1999-01.example:c")
assert c.hold() == (0, None)
others_conflict()
os.kill(int(open("'"$T"'/pid3").read()), signal.SIGKILL)
is_free()
assert again.hold() == (0, None)'
    run_node 3
    wait_until up_are 0 $NODES
    # The process that comes back, and one that holds it when an operator ends it.
    python '
c = Initiator(ports[3], target, "iqn.1999-01.example:c")
assert c.hold() == (0, None) and c.answer(c.write(0, b"c" * 512))[0] == 0
import subprocess
def weft(*words): return subprocess.run(["'"$WEFT"'", *words, "--dir", "'"$T"'/state2"], check=True, stdout=subprocess.PIPE, text=True).stdout
assert "reservation: by a session of iqn.1999-01.example:c" in weft("volume", "show", "v")
weft("volume", "unreserve", "v")
assert b.answer(b.write(0, b"b" * 512))[0] == 0
told = next(sense for sense in iter(lambda: c.ask(b"\0" * 6)[2], 0) if sense)
assert told == (6, 0x2a, 4) and c.ask(b"\0" * 6)[0] == 0, told'
    ! weft volume show v --dir "$T/state2" | grep '^reservation' || return 1
    nbdcopy "nbd+unix:///v?socket=$T/nbd2.sock" /dev/null
}

# The process of the host that holds the reservation dies: another takes over, and what was in work does not come back.
killed() {
    python '
import os, signal
pid = int(open("'"$T"'/pid3").read())
c = Initiator(ports[3], target, "iqn.1999-01.example:c")
assert c.reserve(REGISTER, other=0xC)[0] == 0 and b.reserve(IGNORE, other=0xB)[0] == 0
assert c.reserve(RESERVE, 1, 0xC)[0] == 0
writes = [c.write(block, b"c" * 4096) for block in range(0, 48 * 8, 8)]
os.kill(pid, signal.SIGKILL)
assert b.answer(b.write(0, b"b" * 4096))[0] == CONFLICT, "the reservation stays"
assert b.reserve(PREEMPT, 1, 0xB, 0xC) == (0, None)
assert b.port_groups() == {1: True, 2: True, 3: True, 4: False}, b.port_groups()
ends = [b.answer(tag) for tag in [b.write(block, b"b" * 4096) for block in range(0, 48 * 8, 8)]]
assert all(status == 0 for status, _, _ in ends), ends'
    run_node 3
    wait_until up_are 0 $NODES
    python '
for block in range(0, 48 * 8, 8):
    assert b.read(block, 8)[1] == b"b" * 4096, block
assert a.reserve(IGNORE, other=0xA)[0] == 0 and a.reserve(CLEAR, 0, 0xA)[0] == 0'
    scrubbed v "$T/state0"
}

# A process that stops asks its hosts to log out, and carries out their commands until they do. A host that comes meanwhile
# is sent to another process. One that stays is told that it is dropped.
asked_to_leave() {
    python '
import os, signal
c = Initiator(ports[3], target, "iqn.1999-01.example:c")
d = Initiator(ports[3], target, "iqn.1999-01.example:d")
e = Initiator(ports[3], target, "iqn.1999-01.example:e", isid=2)
os.kill(int(open("'"$T"'/pid3").read()), signal.SIGTERM)
assert c.event() == (1, 0, 2) and d.event() == (1, 0, 2) and e.event() == (1, 0, 2)
assert c.answer(c.write(8, b"c" * 512))[0] == 0 and e.read(8)[1] == b"c" * 512
c.logout(), e.logout()
for n in range(3):
    try:
        Initiator(ports[3], target, f"iqn.1999-01.example:{n}")
        assert False, "it is let in"
    except Moved as to:
        host, port = str(to).rsplit(":", 1)
        assert host == "127.0.0.1" and int(port) in ports[:3], to
        assert Initiator(int(port), target, f"iqn.1999-01.example:{n}").read(8)[1] == b"c" * 512
assert d.read(8)[1] == b"c" * 512
assert d.event() == (3, 2, 0)
assert d.socket.recv(1) == b""'
    wait_until dead "$(cat "$T/pid3")"
    run_node 3
    wait_until up_are 0 $NODES
    # Where only its node stops, its hosts are dropped; so are those that an operator disconnects.
    python '
import subprocess
def weft(*words): subprocess.run(["'"$WEFT"'", *words, "--dir", "'"$T"'/state3"], check=True, stdout=subprocess.DEVNULL)
c = Initiator(ports[3], target, "iqn.1999-01.example:c")
weft("host", "disconnect", "127.0.0.1")
assert c.event() == (3, 2, 0) and c.socket.recv(1) == b""
c = Initiator(ports[3], target, "iqn.1999-01.example:c")
weft("node", "stop", "3")
assert c.event() == (3, 2, 0) and c.socket.recv(1) == b""
weft("node", "start", "3")'
    wait_until up_are 0 $NODES
}

# libiscsi through QEMU goes on at another process without an error when its own stops.
moves_on() {
    local daemon status
    command -v qemu-storage-daemon fio >/dev/null || return 0
    qemu-storage-daemon --blockdev "driver=iscsi,node-name=v,transport=tcp,portal=127.0.0.1:$(iscsi_port 3),target=$(target),lun=0" \
        --nbd-server "addr.type=unix,addr.path=$T/bridge.sock" \
        --export type=nbd,id=e,node-name=v,writable=on,name=v >"$T/bridge" 2>&1 &
    daemon=$!
    wait_until test -S "$T/bridge.sock"
    timeout -k 5 $LIMIT fio --name=v --ioengine=nbd --uri="nbd+unix:///v?socket=$T/bridge.sock" --rw=randwrite --bs=4k \
        --iodepth=8 --size=16m --time_based --runtime=6 --verify=crc32c --verify_fatal=1 >"$T/fio" 2>&1 &
    status=$!
    sleep 2
    kill "$(cat "$T/pid3")"
    wait_until dead "$(cat "$T/pid3")"
    wait $status && status=0 || status=1
    kill $daemon
    wait $daemon 2>/dev/null || true
    run_node 3
    wait_until up_are 0 $NODES
    [ $status = 0 ] || { tail -20 "$T/fio" "$T/bridge"; return 1; }
    scrubbed v "$T/state0"
}

# libiscsi's tests of a unit with two paths, each through a process of its own. They know the unit by its page of
# identification. A reset is told with the next map that a process handles, which on a busy machine may be after the answer
# at another: that test may be repeated. The test of COMPARE AND WRITE zeroes blocks 0 to 255, and goes by zeros in block 256.
multipath() {
    local name at try
    command -v iscsi-test-cu >/dev/null || return 0
    for name in Simple Reset CompareAndWrite CompareAndWriteAsync; do
        for at in "0 1" "2 0"; do
            python 'assert a.ask(b"\0" * 6)[0] in (0, 2) and a.answer(a.write(256, b"\0" * 512))[0] == 0'
            for try in 1 2 3; do
                ! two_paths "$name" $at || break
                [ $name = Reset ] && [ $try -lt 3 ] || { echo "$name, processes $at"; grep -v '^$' "$T/multipath" | head -30; return 1; }
            done
        done
    done
}
# two_paths NAME PROCESS PROCESS: neither skipped nor failed.
two_paths() {
    timeout -k 2 $LIMIT iscsi-test-cu -d -n "--test=SCSI.MultipathIO.$1" \
        "iscsi://127.0.0.1:$(iscsi_port "$2")/$(target)/0" "iscsi://127.0.0.1:$(iscsi_port "$3")/$(target)/0" >"$T/multipath" 2>&1 || true
    ! grep -q '\[SKIPPED\]' "$T/multipath" &&
        awk '/^ *asserts / { ran = $3; bad = $5 } END { exit !(ran > 0 && bad == 0) }' "$T/multipath"
}

# A reservation outlives the processes.
restarted() {
    local n
    python 'assert a.reserve(REGISTER, other=0xA)[0] == 0 and a.reserve(RESERVE, 1, 0xA)[0] == 0'
    for n in $(seq 0 $((NODES - 1))); do kill "$(cat "$T/pid$n")"; done
    for n in $(seq 0 $((NODES - 1))); do wait_until dead "$(cat "$T/pid$n")"; done
    for n in $(seq 0 $((NODES - 1))); do run_node "$n"; done
    wait_until up_are 0 $NODES
    wait_until weft volume show v --dir "$T/state1"
    python '
assert b.answer(b.write(0, b"b" * 512))[0] == CONFLICT
assert a.keys() == [0xA] and a.answer(a.write(0, b"a" * 512))[0] == 0
assert a.reserve(RELEASE, 1, 0xA)[0] == 0
assert b.answer(b.write(0, b"b" * 512))[0] == 0'
}

for command in nbdcopy iscsi-ls; do
    command -v $command >/dev/null || { echo "skipped: $command is not installed"; exit 0; }
done
founded >"$T/out" 2>&1 || { cat "$T/out"; tail -5 "$T"/log*; exit 1; }
# The log omits reservations when there are many: known_everywhere, which looks at the log, is the first to reserve.
for check in ${*:-paths known_everywhere multipath counted at_once taken_over registered_again moved reset_everywhere held_by_session killed asked_to_leave moves_on restarted}; do t "$check"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
