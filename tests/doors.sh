#!/usr/bin/env bash
# Who may come in: NBD's real clients with certificates, without, and with wrong ones, against a cluster of processes and
# against an array in one process.
#   tests/doors.sh            all checks
#   tests/doors.sh NAME...    some of them
# WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
checks=${*:-clients strangers rights revoked pipelined attached refuses}
T=$(mktemp -d /tmp/weft-doors.XXXXXX)
LIMIT=60                        # seconds that anything may take
passed=0 failed=0
trap clean EXIT
trap 'exit 1' INT TERM

# up NAME ARGUMENTS..: an array or a cluster in the background
up() {
    local name=$1
    "$WEFT" up --dir "$T/$name" "${@:2}" >>"$T/$name.log" 2>&1 &
    echo $! >"$T/$name.pid"
    wait_until grep -q 'Ctrl-C stops it' "$T/$name.log"
}
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# nbds DIR VOLUME: the URI with the certificates of a directory, at the cluster's first process
nbds() { echo "nbds://127.0.0.1:$PORT/$2?tls-certificates=$T/$1"; }
info() { timeout -k 5 $LIMIT nbdinfo --size "$(nbds "$1" "$2")"; }
# refused COMMAND..: it fails by itself
refused() {
    timeout -k 5 $LIMIT "$@" >"$T/out" 2>&1
    local status=$?
    sed -i 'H; 1h; $!d; x; s/\n */ /g' "$T/out"
    [ $status -ne 0 ] && [ $status -ne 124 ] || { echo "not refused: $*"; cat "$T/out"; return 1; }
}
host() { weft host "$1" --dir "$T/cluster/node-0" "${@:2}" >/dev/null; }
# ends DIR VOLUME COMMAND..: a connection that stands ends within a second of a command
ends() {
    local creds="tls-creds-x509,id=tls,endpoint=client,dir=$T/$1" io
    mkfifo "$T/pipe"
    timeout -k 5 $LIMIT qemu-io -r --object "$creds" --image-opts \
        "driver=nbd,host=127.0.0.1,port=$PORT,export=$2,tls-creds=tls" <"$T/pipe" >"$T/io" 2>&1 &
    io=$!
    exec 8>"$T/pipe"
    rm "$T/pipe"
    echo 'read 0 4096' >&8
    wait_until grep -q 'read 4096/4096' "$T/io" || return 1
    "${@:3}" || return 1
    sleep 1
    echo 'read 0 4096' >&8
    exec 8>&-
    wait $io
    [ "$(grep -c 'read 4096/4096' "$T/io")" = 1 ] || { echo "its connection goes on"; cat "$T/io"; return 1; }
}
volume() { weft volume "$1" --dir "$T/cluster/node-0" "${@:2}" >/dev/null; }

clients() {
    head -c 8M /dev/urandom >"$T/image"
    [ "$(info web open)" = 67108864 ] || return 1
    nbdcopy "$T/image" "$(nbds web open)" || return 1
    nbdcopy "$(nbds web open)" "$T/back" || return 1
    cmp -n 8388608 "$T/image" "$T/back" || return 1
    local creds="tls-creds-x509,id=tls,endpoint=client,dir=$T/web"
    local options="driver=nbd,host=127.0.0.1,port=$PORT,export=open,tls-creds=tls"
    qemu-img convert -n --object "$creds" --image-opts --target-image-opts \
        "driver=raw,file.driver=file,file.filename=$T/image" "driver=raw,file.$(sed 's/,/,file./g' <<<"$options")" || return 1
    qemu-img info --object "$creds" --image-opts "$options" | grep '64 MiB' >/dev/null || return 1
    # The socket of a machine's own hosts needs nothing, and takes certificates too.
    nbdinfo --size "nbd+unix:///open?socket=$T/cluster/node-1/nbd.sock" >/dev/null || return 1
    nbdinfo --size "nbds+unix:///open?socket=$T/cluster/node-1/nbd.sock&tls-certificates=$T/web" >/dev/null
}
strangers() {
    refused nbdinfo "nbd://127.0.0.1:$PORT/open" || return 1
    refused nbdinfo --list "nbd://127.0.0.1:$PORT/" || return 1
    mkdir -p "$T/nothing" "$T/process" "$T/strange"
    cp "$T/web/ca-cert.pem" "$T/nothing"
    refused nbdinfo "$(nbds nothing open)" || return 1
    # A process's certificate is none of a host, nor a host's one of a process.
    cp "$T/cluster/node-1/node.pem" "$T/process/client-cert.pem"
    cp "$T/cluster/node-1/node-key.pem" "$T/process/client-key.pem"
    cp "$T/web/ca-cert.pem" "$T/process"
    refused nbdinfo "$(nbds process open)" || return 1
    grep -hq "is for the process of node node-1" "$T"/cluster/node-*/node.log || return 1
    local peer
    peer=$(sed -n 's/^address = "\(.*\)"/\1/p' "$T/cluster/node-1/node.toml")
    timeout 10 openssl s_client -connect "$peer" -CAfile "$T/web/ca-cert.pem" -cert "$T/web/client-cert.pem" \
        -key "$T/web/client-key.pem" </dev/null >/dev/null 2>&1
    wait_until grep -q "is for the host web" "$T/cluster/node-1/node.log" || return 1
    # Of another cluster's authority.
    up other --disk-size 64M --volume open:64M --listen "127.0.0.1:$(port)" --tls require
    weft status --dir "$T/other" | grep 'nbds://127.0.0.1' >/dev/null || return 1
    weft host create web --dir "$T/other" >/dev/null
    weft host certify web --out "$T/strange" --dir "$T/other" >/dev/null
    refused nbdinfo "$(nbds strange open)" || return 1
    cp "$T/web/ca-cert.pem" "$T/strange"
    refused nbdinfo "$(nbds strange open)"
}
rights() {
    volume allow listed web || return 1
    [ "$(info web listed)" = 67108864 ] || return 1
    refused nbdinfo "$(nbds other listed)" || return 1
    refused nbdinfo "nbd+unix:///listed?socket=$T/cluster/node-1/nbd.sock" || return 1
    nbdinfo --list "$(nbds web '')" | grep 'export="listed"' >/dev/null || return 1
    ! nbdinfo --list "$(nbds other '')" | grep 'export="listed"' >/dev/null || return 1
    nbdinfo --is readonly "$(nbds web listed)" && return 1
    # Rights that change end connections that were told otherwise.
    ends web listed volume allow listed web --read-only || return 1
    nbdinfo --is readonly "$(nbds web listed)" || return 1
    refused nbdcopy "$T/image" "$(nbds web listed)" || return 1
    volume deny listed web || return 1
    refused nbdinfo "$(nbds web listed)" || return 1
    volume allow listed --all || return 1
    info other listed >/dev/null
}
revoked() {
    # A host is renewed while it runs: both its certificates are valid until the others are revoked.
    cp -r "$T/web" "$T/old"
    host certify web --out "$T/web" || return 1
    info old open >/dev/null && info web open >/dev/null || return 1
    weft host list --dir "$T/cluster/node-2" | grep -E 'web .*\(36[45] days left\), and 1 earlier' >/dev/null || return 1
    ends old open host certify web --out "$T/web" --revoke-others || return 1
    refused nbdinfo "$(nbds old open)" || return 1
    info web open >/dev/null || return 1
    host create gone && host certify gone --out "$T/gone" || return 1
    info gone open >/dev/null || return 1
    ends gone open host delete gone || return 1
    refused nbdinfo "$(nbds gone open)" || return 1
    # Also after a start.
    kill "$(cat "$T/cluster.pid")" && wait_until dead "$(cat "$T/cluster.pid")"
    : >"$T/cluster.log"
    up cluster --processes --listen "127.0.0.1:$PORT"
    refused nbdinfo "$(nbds gone open)" || return 1
    refused nbdinfo "$(nbds old open)" || return 1
    info web open >/dev/null
}
# What somebody between puts behind STARTTLS, in plain, is not obeyed.
pipelined() {
    python3 - "$PORT" "$T/web" <<'PYTHON'
import socket, struct, sys
def option(number, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data
go = option(7, struct.pack(">I", 4) + b"open" + struct.pack(">H", 0))
for behind in (go, option(3), b"\x00"):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
    s.recv(18)
    s.sendall(struct.pack(">I", 3) + option(5) + behind)
    s.settimeout(10)
    answer = b""
    try:
        while more := s.recv(4096):
            answer += more
    except ConnectionError:
        pass
    assert len(answer) in (0, 20), answer
PYTHON
    grep -hq 'sent bytes after STARTTLS' "$T"/cluster/node-*/node.log
}
# A process that attaches is the host of its name.
attached() {
    local token at
    at=$(sed -n 's/^admit = "\(.*\)"/\1/p' "$T/cluster/node-0/node.toml")
    token=$(weft cluster token --dir "$T/cluster/node-0" --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])') || return 1
    WEFT_TOKEN=$token "$WEFT" attach listed open --dir "$T/desk" --at "$at" --name desk >>"$T/desk.log" 2>&1 &
    echo $! >"$T/desk.pid"
    wait_until grep -q 'Ctrl-C detaches it' "$T/desk.log" || return 1
    local uri="nbd+unix:///listed?socket=$T/desk/nbd.sock"
    wait_until nbdinfo --size "$uri" || return 1
    volume allow listed web || return 1
    refused nbdinfo "$uri" || return 1
    nbdinfo --size "nbd+unix:///open?socket=$T/desk/nbd.sock" >/dev/null || return 1
    host create desk && volume allow listed desk || return 1
    wait_until nbdinfo --size "$uri" || return 1
    host delete desk || return 1
    refused nbdinfo "$uri"
}
# Nothing is served to strangers of other machines by mistake.
refuses() {
    refused "$WEFT" up --dir "$T/wide" --disk-size 64M --listen 0.0.0.0:0 || return 1
    grep -q -- '--tls require.*--no-auth' "$T/out" || return 1
    [ ! -e "$T/wide" ] || return 1
    sed 's/^nbd = .*/nbd = ["0.0.0.0:0"]/; s/^tls = .*//' "$T/cluster/node-2/node.toml" >"$T/wide.toml"
    refused "$WEFT" node --config "$T/wide.toml" || return 1
    grep -q 'tls = "require".*no_auth = true' "$T/out" || return 1
    [ "$(stat -c %a "$T/cluster/node-1/nbd.sock")" = 660 ]
}

PORT=$(port)
up cluster --processes --nodes 3 --disk-size 128M --volume open:64M --volume listed:64M \
    --listen "127.0.0.1:$PORT" --tls require
for name in web other; do
    host create $name && host certify $name --out "$T/$name" || exit 1
done
[ "$(stat -c %a "$T/web/client-key.pem")" = 600 ] || exit 1
for check in $checks; do
    if said=$("$check" 2>&1); then
        echo "ok      $check"
        passed=$((passed + 1))
    else
        echo "FAILED  $check"
        echo "$said"
        tail -n 5 "$T"/*.log "$T"/cluster/node-*/node.log
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
