#!/usr/bin/env bash
# iSCSI, by libiscsi and QEMU against a real array on loopback: libiscsi's whole suite, and content compared with what NBD
# reads of the same volume.
#   tests/iscsi.sh            all checks
#   tests/iscsi.sh NAME...    some of them
# WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
checks=${*:-discovery announced copies verified read_back digests replaced extended_copy chap read_only to_the_end long_blocks suite}
T=$(mktemp -d /tmp/weft-iscsi.XXXXXX)
D=$T/array
LIMIT=60                        # seconds that anything may take
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
PORT=$(port)
PORTAL=127.0.0.1:$PORT
NBD="nbd+unix:///vol0?socket=$T/nbd.sock"
passed=0 failed=0
more=()                         # more options

for command in iscsi-ls iscsi-inq qemu-img qemu-io nbdcopy fio; do
    eval "$command() { timeout -k 5 $LIMIT $command \"\$@\"; }"
done
weft() { timeout -k 5 $LIMIT "$WEFT" "$@" --dir "$D"; }
server() { cat "$T/pid" 2>/dev/null || echo none; }
end_cluster() {
    [ -s "$T/cluster.pid" ] || return 0
    kill "$(cat "$T/cluster.pid")" 2>/dev/null
    wait_until dead "$(cat "$T/cluster.pid")"
    rm "$T/cluster.pid"
}
clean() {
    trap - EXIT INT TERM
    cat "$T/pid" 2>/dev/null | xargs -r kill 2>/dev/null
    [ ! -s "$T/pid" ] || wait_until dead "$(server)"
    end_cluster
    jobs -p | xargs -r kill -9 2>/dev/null
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM

# The name of a volume's target, as the status has it.
target() {
    weft status --json | python3 -c '
import json, sys
print(*(v["iscsi_target"] for v in json.load(sys.stdin)["volumes"] if v["name"] == sys.argv[1]))' "$1"
}
start() {
    "$WEFT" up --dir "$D" --nodes 5 --disk-size 64M --volume vol0:96M --volume Vol_B:16M \
        --listen "$T/nbd.sock" --listen "iscsi:$PORTAL" "${more[@]}" >>"$T/log" 2>&1 9>&- &
    echo $! >"$T/pid"
    wait_until weft status
    # Its stripes have 256 blocks, as many as a test of the suite writes atomically.
    weft volume show long >/dev/null 2>&1 ||
        weft volume create long 32M --block 4096 --layout rs:4+1 --stripe-unit 256K >/dev/null
    URI=iscsi://$PORTAL/$(target vol0)/0
}

stopped() {
    kill "$(server)"
    wait_until dead "$(server)"
}

# A discovery session names each volume's target and where it is served; and commands of Weft print what can be used.
discovery() {
    iscsi-ls -s "iscsi://$PORTAL" >"$T/listed" || { cat "$T/listed"; return 1; }
    grep -q "^Target:$(target vol0) Portal:$PORTAL,1$" "$T/listed" || { cat "$T/listed"; return 1; }
    grep -q "^Target:iqn.*:vol-b:1 Portal:$PORTAL,1$" "$T/listed" || { cat "$T/listed"; return 1; }
    [ "$(grep -c 'Type:DIRECT_ACCESS' "$T/listed")" = 3 ] || { cat "$T/listed"; return 1; }
    weft volume show vol0 | grep -xF "$URI" >/dev/null || { weft volume show vol0; return 1; }
    ! iscsi-inq "iscsi://$PORTAL/iqn.2026-11.weft.nowhere:vol0/0" >"$T/refused" 2>&1 || return 1
    grep -qi "target not found" "$T/refused" || { cat "$T/refused"; return 1; }
}

# Hosts are told other addresses than the process listens at, if it is said which.
announced() {
    local portals
    ! weft up --listen "iscsi:$PORTAL" --iscsi-announce 0.0.0.0:3260 2>"$T/refused" && grep -q "cannot be announced to hosts" "$T/refused" || return 1
    ! weft up --listen "$T/x.sock" --iscsi-announce 10.0.0.1:1 2>"$T/refused" && grep -q "nothing to announce" "$T/refused" || return 1
    stopped
    more=(--iscsi-announce san-1.example:3260 --iscsi-announce "[2001:db8::7]:3260")
    start
    iscsi-ls "iscsi://$PORTAL" >"$T/listed" 2>&1
    iscsi-inq "$URI" >/dev/null || return 1
    stopped
    more=()
    start
    portals=$(sed -n "s/^Target:$(target vol0) Portal://p" "$T/listed" | sort | xargs)
    [ "$portals" = "[2001:db8::7]:3260,1 san-1.example:3260,1" ] || { cat "$T/listed"; return 1; }
}

# What is written by the one way is read by the other.
copies() {
    head -c 90000000 /dev/urandom >"$T/a"
    truncate -s 96M "$T/a"
    qemu-img convert -n -f raw -O raw "$T/a" "$URI" || return 1
    nbdcopy "$NBD" "$T/b" && cmp "$T/a" "$T/b" || return 1
    head -c 96M /dev/urandom >"$T/a"
    nbdcopy "$T/a" "$NBD" || return 1
    qemu-img convert -f raw -O raw "$URI" "$T/b" && cmp "$T/a" "$T/b" || return 1
    qemu-img compare -f raw -F raw "$URI" "$NBD"
}

# Random reads and writes of many lengths at once, of which fio knows the content, through QEMU's initiator.
verified() {
    local daemon status
    qemu-storage-daemon --blockdev "driver=iscsi,node-name=v,transport=tcp,portal=$PORTAL,target=$(target vol0),lun=0" \
        --nbd-server "addr.type=unix,addr.path=$T/bridge.sock" \
        --export type=nbd,id=e,node-name=v,writable=on,name=v >"$T/bridge" 2>&1 9>&- &
    daemon=$!
    wait_until test -S "$T/bridge.sock" || { cat "$T/bridge"; return 1; }
    fio --name=v --ioengine=nbd --uri="nbd+unix:///v?socket=$T/bridge.sock" --rw=randwrite --bsrange=512-1m \
        --bs_unaligned=0 --blockalign=512 --iodepth=24 --size=90m --verify=crc32c --verify_fatal=1 \
        --randseed="${SEED:-$RANDOM}" >"$T/fio" 2>&1
    status=$?
    kill $daemon
    wait $daemon 2>/dev/null
    [ $status = 0 ] || { tail -20 "$T/fio"; return 1; }
}

# A model of the volume as a file: the same random writes, zeros and discards to both, then the same content by NBD.
read_back() {
    truncate -s 96M "$T/model"
    nbdcopy "$NBD" "$T/model" || return 1
    python3 - "${SEED:-$RANDOM}" >"$T/commands" <<'PYTHON'
import random, sys
r = random.Random(int(sys.argv[1]))
for n in range(400):
    at = r.randrange(0, 96 << 20, 512)
    most = (96 << 20) - at
    length = min(most, r.choice([512, 4096, 65536, 1 << 20, 6 << 20]) * r.randrange(1, 3))
    flags = r.choice([f"-P {r.randrange(1, 255)}", f"-f -P {r.randrange(1, 255)}", "-z", "-z -u"])
    print(f"write {flags} {at} {length}")
print("flush")
PYTHON
    qemu-io -f raw "$URI" <"$T/commands" >"$T/out" 2>&1 || { tail -5 "$T/out"; return 1; }
    qemu-io -f raw "$T/model" <"$T/commands" >"$T/out2" 2>&1 || { tail -5 "$T/out2"; return 1; }
    ! grep -i "failed\|error" "$T/out" || return 1
    nbdcopy "$NBD" "$T/b" && cmp "$T/model" "$T/b" || return 1
    qemu-img compare -f raw -F raw "$URI" "$T/model"
}

digests() {
    local more
    for more in header_digest=crc32c "header_digest=crc32c&data_digest=crc32c"; do
        iscsi-inq "$URI?$more" >"$T/out" 2>&1 || { cat "$T/out"; return 1; }
        grep -q "^Vendor:WEFT" "$T/out" || { cat "$T/out"; return 1; }
    done
}

# A session takes the place of the one with the same names.
replaced() {
    python3 - "$PORT" "$(target vol0)" <<'PYTHON'
import socket, struct, sys
port, target = int(sys.argv[1]), sys.argv[2]
def login(isid):
    s = socket.create_connection(("127.0.0.1", port), 20)
    text = f"InitiatorName=iqn.1999-01.example:a\0TargetName={target}\0".encode()
    head = bytearray(48)
    head[0], head[1], head[5:8] = 0x43, 0x87, len(text).to_bytes(3, "big")
    head[8:14] = isid
    s.sendall(head + text + b"\0" * (-len(text) % 4))
    answer = s.recv(4096)
    assert answer[0] == 0x23 and answer[36:38] == b"\0\0", answer
    return s
a, other, b = login(b"\x80\0\0\0\0\1"), login(b"\x80\0\0\0\0\2"), login(b"\x80\0\0\0\0\1")
assert a.recv(1) == b"", "the old session has ended"
for s in (other, b):
    ping = bytearray(48)
    ping[0], ping[1], ping[16:20], ping[20:24] = 0x40, 0x80, b"\0\0\0\7", b"\xff" * 4
    s.sendall(ping)
    assert s.recv(48)[0] == 0x20, "the others live"
PYTHON
}

# An initiator that proves who it is, of its own make: logs in with a digest, a host and its secret, and says the status. With
# 'stay' it then waits for the end of the connection.
write_initiator() {
    cat >"$T/initiator.py" <<'PYTHON'
import hashlib, socket, struct, sys
port, target, algorithm, user, secret, *stay = sys.argv[1:]
digests = {"5": hashlib.md5, "7": hashlib.sha256, "8": hashlib.sha3_256}
s = socket.create_connection(("127.0.0.1", int(port)), 50)
def read(n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        assert more, "the connection has ended"
        data += more
    return data
def ask(flags, *keys):
    text = b"".join(key.encode() + b"\0" for key in keys)
    head = bytearray(48)
    head[0], head[1], head[5:8], head[8:14] = 0x43, flags, len(text).to_bytes(3, "big"), b"\x80\0\0\0\0\7"
    s.sendall(head + text + b"\0" * (-len(text) % 4))
    head = read(48)
    length = int.from_bytes(head[5:8], "big")
    text = read(length + -length % 4)[:length].decode()
    if head[36:38] != b"\0\0":
        sys.exit(f"status {head[36:38].hex()}")
    return dict(line.split("=", 1) for line in text.split("\0") if line)
assert ask(0x81, "InitiatorName=iqn.1999-01.example:chap", f"TargetName={target}", "AuthMethod=CHAP,None")["AuthMethod"] == "CHAP"
asked = ask(0, f"CHAP_A={algorithm}")
assert asked["CHAP_A"] == algorithm, asked
challenge = bytes.fromhex(asked["CHAP_C"][2:])
assert len(challenge) >= 16
response = digests[algorithm](bytes([int(asked["CHAP_I"])]) + secret.encode() + challenge).hexdigest()
ask(0x83, f"CHAP_N={user}", f"CHAP_R=0x{response}")
print("logged in", flush=True)
if stay:
    # It is told that it is dropped, and is.
    head = read(48)
    assert (head[0], head[36]) == (0x32, 3) and s.recv(1) == b"", head
PYTHON
}
# Where other machines reach a cluster of processes nobody comes in who does not prove who it is. A secret that is set at one
# process counts at all.
chap() {
    local port secret=a-secret-of-the-host mutual=a-secret-of-the-target name uri n waits
    port=$(port)
    "$WEFT" up --dir "$T/cluster" --processes --nodes 3 --disk-size 64M --volume v:32M \
        --listen "iscsi:0.0.0.0:$port" >>"$T/cluster.log" 2>&1 9>&- &
    echo $! >"$T/cluster.pid"
    wait_until grep -q 'Ctrl-C stops it' "$T/cluster.log" || return 1
    at() { timeout -k 5 $LIMIT "$WEFT" "${@:2}" --dir "$T/cluster/node-$1"; }
    name=$(at 0 status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["volumes"][0]["iscsi_target"])')
    uri=127.0.0.1:$port/$name/0
    unauthorised() {
        ! "$@" >"$T/refused" 2>&1 || { echo "not refused: $*"; return 1; }
        grep -qiE 'authentication failure|status 0201' "$T/refused" || { cat "$T/refused"; return 1; }
    }
    unauthorised iscsi-ls "iscsi://127.0.0.1:$port" && unauthorised iscsi-inq "iscsi://$uri" || return 1
    at 0 host create web && at 0 host create db || return 1
    # Of what cannot be a secret nothing changes, and none is on a command line or shown again.
    printf 'elevenbytes\n' >"$T/secret"
    ! at 1 host secret web --file "$T/secret" >"$T/refused" 2>&1 && grep -q '11 bytes' "$T/refused" || return 1
    printf '%s\n' $secret >"$T/secret"
    printf '%s\n' $mutual >"$T/mutual"
    ! at 1 host secret web --file "$T/secret" --mutual-file "$T/secret" 2>"$T/refused" || return 1
    grep -q 'are equal' "$T/refused" || return 1
    at 1 host secret web --file "$T/secret" --mutual-file "$T/mutual" || return 1
    WEFT_HOST_SECRET=the-secret-of-another at 2 host secret db || return 1
    at 0 host list | grep 'web.*CHAP, mutual' >/dev/null || return 1
    ! grep -rqaE "$secret|$mutual" "$T/cluster" || { grep -rlaE "$secret|$mutual" "$T/cluster"; return 1; }
    for n in 0 1 2; do
        wait_until [ -s "$T/cluster/node-$n/secrets.key" ] || return 1
        [ "$(stat -c %a "$T/cluster/node-$n/secrets.key")" = 600 ] || return 1
        wait_until cmp -s "$T/cluster/node-0/secrets.key" "$T/cluster/node-$n/secrets.key" || return 1
    done
    iscsi-ls -s "iscsi://web%$secret@127.0.0.1:$port" | grep "^Target:$name " >/dev/null || return 1
    iscsi-inq "iscsi://web%$secret@$uri" >"$T/out" || return 1
    export LIBISCSI_CHAP_TARGET_USERNAME=weft LIBISCSI_CHAP_TARGET_PASSWORD=$mutual
    iscsi-inq "iscsi://web%$secret@$uri" >"$T/out" || return 1
    unauthorised iscsi-inq "iscsi://db%the-secret-of-another@$uri" || return 1
    LIBISCSI_CHAP_TARGET_PASSWORD=$secret
    ! iscsi-inq "iscsi://web%$secret@$uri" >"$T/refused" 2>&1 || return 1
    unset LIBISCSI_CHAP_TARGET_USERNAME LIBISCSI_CHAP_TARGET_PASSWORD
    write_initiator
    for n in 5 7 8; do
        python3 "$T/initiator.py" "$port" "$name" $n web $secret || return 1
        unauthorised python3 "$T/initiator.py" "$port" "$name" $n nobody $secret || return 1
    done
    # The name that is proved counts for the lists of volumes.
    at 1 volume allow v db || return 1
    ! iscsi-inq "iscsi://web%$secret@$uri" >"$T/refused" 2>&1 || return 1
    grep -qi 'target not found' "$T/refused" || { cat "$T/refused"; return 1; }
    at 1 volume allow v web || return 1
    # A wrong secret is refused, and after three each waits.
    waits=$SECONDS
    for n in 1 2 3 4 5; do
        unauthorised python3 "$T/initiator.py" "$port" "$name" 8 db $secret || return 1
    done
    [ $((SECONDS - waits)) -ge 2 ] || { echo "nothing was slowed down"; return 1; }
    grep -q "host 'db', and its answer does not match the secret" "$T"/cluster/node-*/node.log || return 1
    # Without its secret a host is no more.
    python3 "$T/initiator.py" "$port" "$name" 8 web $secret stay >"$T/stays" 2>&1 &
    waits=$!
    wait_until grep -q 'logged in' "$T/stays" || { cat "$T/stays"; return 1; }
    at 2 host secret web --remove || return 1
    wait $waits || { cat "$T/stays"; return 1; }
    unauthorised iscsi-inq "iscsi://web%$secret@$uri" || return 1
    end_cluster
}

# EXTENDED COPY within a volume and to another one: where a host may not write, it cannot copy to either.
extended_copy() {
    timeout -k 5 $LIMIT python3 - "$PORT" "$(target vol0)" "$(target Vol_B)" "$WEFT" "$D" <<'PY'
import os, subprocess, sys
sys.path.insert(0, "tests/python")
from initiator import Initiator

port, one, two, weft, directory = int(sys.argv[1]), *sys.argv[2:]
a, b = Initiator(port, one), Initiator(port, two, name="iqn.1999-01.example:b")
units, data = [a.naa(), b.naa()], os.urandom(3 << 20)
assert units[0] != units[1]
for at in range(0, len(data), 8192):
    assert a.answer(a.write(at // 512, data[at:at + 8192]))[0] == 0
blocks = len(data) // 512
copied = lambda: b"".join(b.read(9 + n, 64)[1] for n in range(0, blocks, 64))
assert a.copy(units, [(0, 1, blocks, 0, 9), (0, 0, 100, 5, 20000)]) == (0, None)
assert copied() == data and a.read(20000, 100)[1] == data[5 * 512:105 * 512]
# Past the end of the other unit, and of one that is not there.
assert a.copy(units, [(0, 1, 8, 0, (16 << 20) // 512 - 4)])[1] == (10, 0, 0)
assert a.copy([units[0], b"\x30" + b"\1" * 7], [(0, 1, 1, 0, 0)])[1] == (10, 13, 2)
# Reserved by another.
assert b.reserve(0, other=5)[0] == 0 and b.reserve(1, kind=1, key=5)[0] == 0
assert a.copy(units, [(0, 1, 1, 0, 0)])[0] == 0x18
assert b.reserve(2, kind=1, key=5)[0] == 0
assert a.copy(units, [(0, 1, 1, 0, 0)])[0] == 0
# Not for this host.
def run(*words):
    subprocess.run([weft, *words, "--dir", directory], check=True, stdout=subprocess.DEVNULL)
run("host", "create", "h")
run("volume", "allow", "Vol_B", "h")
assert a.copy(units, [(0, 1, 1, 0, 0)])[1] == (10, 13, 2)
assert a.copy(units, [(1, 0, 1, 0, 0)])[1] == (10, 13, 2)
run("volume", "allow", "Vol_B", "--all")
assert a.copy(units, [(0, 1, 1, 0, 0)])[0] == 0
PY
}

# A snapshot is read-only: the suite's test of that is skipped elsewhere.
read_only() {
    local uri
    weft volume snapshot vol0 picture >/dev/null || return 1
    uri=$(weft volume show vol0@picture | grep -o "iscsi://$PORTAL/[^ ]*" | head -1)
    [ -n "$uri" ] || { weft volume show vol0@picture; return 1; }
    timeout -k 2 60 iscsi-test-cu -d -n --test=SCSI.ReadOnly.ReadOnlySBC "$uri" >"$T/out" 2>&1
    [ "$(result)" = PASS ] || { cat "$T/out"; return 1; }
    weft volume delete vol0@picture --yes --now >/dev/null
}
# WRITE SAME of zero blocks writes to the end. The suite skips that where the limit of WRITE SAME is less than the volume.
to_the_end() {
    local name
    for name in WriteSame10 WriteSame16; do
        timeout -k 2 60 iscsi-test-cu -d -n --test=SCSI.$name.ZeroBlocks "iscsi://$PORTAL/$(target Vol_B)/0" >"$T/out" 2>&1
        [ "$(result)" = PASS ] || { cat "$T/out"; return 1; }
    done
}
# Every test of libiscsi's suite in a process of its own, on a volume with blocks of 512 bytes and on one with blocks of 4,096.
# Left out are those of sanitizing, of several paths (reservations.sh has them), and two that no target can pass:
#   LUNResetSimpleAsync       asserts that the reset was answered before it waits for the answer
#   WriteSame10.UnmapUntilEnd wants zeros after a WRITE SAME of other data with UNMAP (SBC-4, WRITE SAME (10): reads behave as
#                             if the block of the Data-Out Buffer had been written; WriteSame16.UnmapUntilEnd sends zeros)
# and one that no target can pass whose physical blocks are larger than its logical ones:
#   UnmapSingle               asks for the status from LBA i+1 on and wants a descriptor that begins elsewhere (SBC-4, 5.7.1:
#                             it begins where the command says)
suite() { suite_on "$URI" .UnmapSingle; }
# And here one that no target with blocks of 4,096 bytes can pass:
#   ProutReserve.Access*      write 512 bytes as one block (SPC-4: INVALID FIELD IN COMMAND INFORMATION UNIT)
long_blocks() {
    local uri=iscsi://$PORTAL/$(target long)/0
    iscsi-readcapacity16 "$uri" >"$T/out" 2>&1
    grep -qE '(LENGTH|size|Size).*4096' "$T/out" || { cat "$T/out"; return 1; }
    suite_on "$uri" ProutReserve.Access
}
# What became of the test whose output is in $T/out. The program looks for reservations before each test, and says that it
# found none.
result() {
    grep -v 'PERSISTENT RESERVE IN is not implemented' "$T/out" | awk '
        /\[SKIPPED\]/ { skip = 1 }
        /^ *asserts / { ran = 1; bad = $5 }
        END { print (!ran || bad + 0) ? "FAIL" : skip ? "SKIP" : "PASS" }'
}
# suite_on URI [NAME...]: without the tests of these names.
suite_on() {
    local uri=$1 left_out name found all=0
    shift
    left_out=$(printf '%s\n' "$@") skipped=0 bad=0
    for name in $(iscsi-test-cu --list | grep -E '^(SCSI|iSCSI)\.[^.]+\.[^.]+$'); do
        case $name in
            *.LUNResetSimpleAsync | *.WriteSame10.UnmapUntilEnd | SCSI.Sanitize.* | SCSI.MultipathIO.*) continue ;;
        esac
        [ -z "$left_out" ] || ! grep -qF "$left_out" <<<"$name" || continue
        timeout -k 2 60 iscsi-test-cu -d -n "--test=$name" "$uri" >"$T/out" 2>&1
        case $? in
            124 | 137) found=TIMEOUT ;;
            *) found=$(result) ;;
        esac
        all=$((all + 1))
        case $found in
            SKIP) skipped=$((skipped + 1)); echo "skipped: $name" >>"$T/skipped" ;;
            FAIL | TIMEOUT)
                bad=$((bad + 1))
                echo "$found: $name"
                grep -vE '^$|\[SKIPPED\]|CUnit' "$T/out" | head -12
                ;;
        esac
    done
    cp "$T/skipped" "${SKIPPED:-/dev/null}"
    echo "$all tests of libiscsi: $((all - skipped - bad)) passed, $skipped skipped for what is not offered"
    [ $bad = 0 ] && [ $all -gt 200 ]
}

for command in iscsi-test-cu qemu-storage-daemon fio nbdcopy; do
    command -v $command >/dev/null || { echo "skipped: $command is not installed"; exit 0; }
done
start || { tail -5 "$T/log"; exit 1; }
for check in $checks; do
    began=$SECONDS
    if $check >"$T/said" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $check ($((SECONDS - began)) s)$(grep '^[0-9]* tests' "$T/said" | sed 's/^/: /')"
    else
        failed=$((failed + 1))
        echo "FAIL $check"
        sed 's/^/     /' "$T/said"
        tail -3 "$T/log" | sed 's/^/     log: /'
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
