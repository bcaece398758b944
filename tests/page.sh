#!/usr/bin/env bash
# The page for operators: who sees what, what can be done, and that nobody holds it up.
#   tests/page.sh            all checks
#   tests/page.sh NAME...    some of them
# WEFT chooses the binary. In a temporary directory; closing line 'N passed, N failed'.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
checks=${*:-strangers passwords roles csrf actions escaping slow health many cluster tls refuses}
T=$(mktemp -d /tmp/weft-page.XXXXXX)
LIMIT=60                        # seconds that anything may take
passed=0 failed=0
trap clean EXIT
trap 'exit 1' INT TERM

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# up NAME DIR ARGUMENTS..: an array in the background
up() {
    local name=$1
    "$WEFT" up --dir "$2" --listen "$T/$name.sock" "${@:3}" >>"$T/log-$name" 2>&1 &
    echo $! >"$T/$name.pid"
    wait_until grep -q 'Ctrl-C stops it' "$T/log-$name"
}
# py: a program for the array's page; it finds what tests/python/page.py has
py() { PYTHONPATH=tests/python timeout -k 5 $LIMIT python3 -c "from page import *
$1"; }

PORT=$(port)
export PORT
echo 'correct horse' >"$T/password"
# A directory's name is shown on the page: this one would be more than text if it were not escaped.
DIR="$T/<b>'x"
up array "$DIR" --nodes 5 --disk-size 64M --volume v:32M --volume w:32M --page 127.0.0.1:$PORT
weft user add ann --role act --file "$T/password" --dir "$DIR" >/dev/null
weft user add ben --file "$T/password" --dir "$DIR" >/dev/null

strangers() {
    py '
for path in ["/", "/volumes", "/volume?name=v", "/disks", "/hosts", "/slow", "/do", "/../../etc/passwd", "/%00"]:
    answer = get(path)
    assert (answer.status, answer.text, answer.headers["Location"]) == (303, "", "/login"), (path, answer.status)
    assert get(path, "weft-%s=%s" % (PORT, "0" * 64)).status == 303
form = get("/login")
assert form.status == 200 and "password" in form.text and "v" not in re.findall("value=\"(.*?)\"", form.text)
assert "default-src" in form.headers["Content-Security-Policy"] and form.headers["Cache-Control"] == "no-store"
assert get("/style.css").status == 200
for method in ["PUT", "DELETE", "TRACE"]:
    assert ask(method, "/").status == 405
assert raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
assert raw(b"\x16\x03\x01\x02\r\n\r\n").startswith(b"HTTP/1.1 400")
assert raw(b"GET / HTTP/1.1\r\nX: " + b"x" * 9000).startswith(b"HTTP/1.1 413")
assert raw(b"POST /login HTTP/1.1\r\nContent-Length: 999999\r\n\r\n").startswith(b"HTTP/1.1 413")
assert raw(b"POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").startswith(b"HTTP/1.1 400")
'
    alive "$(cat "$T/array.pid")"
}
passwords() {
    py '
for n in range(3):
    assert post("/login", "", name="ann", password="wrong %d" % n).status == 401
slowed = post("/login", "", name="ann", password="correct horse")
assert slowed.status == 429 and int(slowed.headers["Retry-After"]) <= 2, slowed.status
'
    grep -q "user 'ann' at 127.0.0.1 at the page is refused" "$T/log-array"
    wait_until py 'log_in("ann")'
    py 'assert "<dt>Wrong passwords at this page</dt><dd>3</dd>" in get("/", log_in("ann")).text'
}
roles() {
    py '
cookie = log_in("ben")
assert all(get(path, cookie).status == 200 for path in PAGES)
assert "<button" not in get("/volume?name=v", cookie).text.replace(LOGOUT, "")
refused = act(cookie, action="snapshot", volume="v", name="no")
assert refused.status == 403 and "may only look" in refused.text
'
    weft volume list --snapshots --dir "$DIR" | grep -c 'v@no' >/dev/null && return 1
    py 'open("'"$T"'/cookie", "w").write(log_in("ben"))'
    weft user role ben act --dir "$DIR" >/dev/null
    py 'assert "<button" in get("/volume?name=v", open("'"$T"'/cookie").read()).text.replace(LOGOUT, "")'
    weft user remove ben --dir "$DIR" >/dev/null
    py 'assert get("/", open("'"$T"'/cookie").read()).status == 303'
    py 'assert post("/login", "", name="ben", password="correct horse").status == 401'
}
csrf() {
    py '
cookie = log_in("ann")
for wrong in ["", "0" * 64, csrf(log_in("ann"))]:
    assert post("/do", cookie, csrf=wrong, action="rebalance").status == 403
for line in [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]:
    assert post("/do", cookie, line, csrf=csrf(cookie), action="rebalance").status == 403
assert get("/do?action=rebalance&csrf=" + csrf(cookie), cookie).status == 404
assert "SameSite=Strict" in SET[-1] and "HttpOnly" in SET[-1]
'
}
actions() {
    py '
cookie = log_in("ann")
told = act(cookie, action="snapshot", volume="v", name="first")
assert told.status == 303
page = get(told.headers["Location"], cookie).text
assert "weft volume snapshot v first --dir" in page and "v@first" in page
bad = get(act(cookie, action="snapshot", volume="v", name="a b").headers["Location"], cookie).text
assert "cannot be a snapshot&#39;s name" in bad or "cannot be a snapshot'"'"'s name" in bad, bad
assert act(cookie, action="delete-snapshot", volume="v").status == 400
act(cookie, action="scrub", volume="v")
'
    weft volume list --snapshots --dir "$DIR" | grep -c 'v@first' >/dev/null
    wait_until grep -q 'scrub v.*from user ann at 127.0.0.1 through the page: done: ' "$T/log-array"
    py '
cookie = log_in("ann")
assert act(cookie, action="delete-snapshot", volume="v@first").status == 400
act(cookie, action="delete-snapshot", volume="v@first", sure="yes")
get("/volume?name=v", cookie)
assert "v@first" not in get("/volume?name=v", cookie).text, "the notice has been told"
'
    weft volume list --snapshots --dir "$DIR" | grep -c 'v@first' >/dev/null && return 1
    weft volume delete w --yes --dir "$DIR" >/dev/null
    wait_until py 'assert "Bring back" in get("/volumes", log_in("ann")).text'
    py '
cookie = log_in("ann")
act(cookie, action="undelete", volume="w")
assert "Bring back" not in get("/volumes", cookie).text
'
    weft volume show w --dir "$DIR" >/dev/null
    grep -q 'change: `weft volume snapshot v first --dir .*`, from user ann at 127.0.0.1 through the page: done' "$T/log-array"
}
escaping() {
    py '
cookie = log_in("ann")
for path in PAGES:
    text = get(path, cookie).text
    assert "<b>" not in text and "&lt;b&gt;" in text, path
assert "<i>" not in get("/volume?name=<i>", cookie).text
assert "<i>" not in post("/login", "", name="<i>", password="<i>").text
assert "&lt;i&gt;" in get("/", cookie).text, "the events have it"
'
}
# Those who say nothing, and those who drip, do not keep others waiting.
slow() {
    py '
import threading
cookie = log_in("ann")
silent = [connect() for _ in range(40)]
dripping = [connect() for _ in range(10)]
for line in dripping: line.sendall(b"GET / HT")
begun = time.monotonic()
assert get("/", cookie).status == 200
took = time.monotonic() - begun
assert took < 5, "one after the other they take longer than %.1f s" % took
'
    wait_until py 'assert get("/", log_in("ann")).status == 200'
}
health() {
    py 'assert word(get("/", log_in("ann")).text) == "healthy"'
    weft node kill 1 --dir "$DIR" >/dev/null
    wait_until py '
text = get("/", log_in("ann")).text
assert word(text) == "degraded" and "volume v" in text and "no further loss" in text'
    py 'assert "down" in get("/disks", log_in("ann")).text'
    weft node kill 2 --dir "$DIR" >/dev/null
    wait_until py 'assert word(get("/", log_in("ann")).text) == "failed"'
    weft node start 1 --dir "$DIR" >/dev/null
    weft node start 2 --dir "$DIR" >/dev/null
    wait_until py 'assert word(get("/", log_in("ann")).text) == "healthy"'
}
many() {
    local n
    export PORT=$(port)
    up many "$T/many" --nodes 3 --disk-size 1G --volume v:1M --page 127.0.0.1:$PORT
    weft user add ann --file "$T/password" --dir "$T/many" >/dev/null
    for n in {1..199}; do weft volume create "volume-$n" 1M --thin --dir "$T/many" >/dev/null; done
    py '
cookie = log_in("ann")
text = get("/volumes", cookie).text
assert len(re.findall("/volume\\?name=volume-", text)) == 199
for path in ["/", "/volumes"]:
    size = len(get(path, cookie).text) + len(get("/style.css").text)
    assert size < 100 << 10, (path, size)
'
}
# A page of all nodes, and one of a process of its own by its configuration, which also has the process's certificate.
cluster() {
    export PORT=$(port)
    up cluster "$T/cluster" --processes --nodes 3 --disk-size 64M --volume vol0:32M --page 127.0.0.1:$PORT
    weft user add ann --role act --file "$T/password" --dir "$T/cluster" >/dev/null
    py '
cookie = log_in("ann")
assert "vol0" in get("/volumes", cookie).text
told = act(cookie, action="snapshot", volume="vol0", name="first")
assert "vol0@first" in get(told.headers["Location"], cookie).text
'
    kill "$(cat "$T/cluster.pid")"
    wait_until dead "$(cat "$T/cluster.pid")"
    export PORT=$(port)
    sed -i "1i page = \"127.0.0.1:$PORT\"" "$T/cluster/node-0/node.toml"
    weft user add ann --file "$T/password" --dir "$T/cluster/node-0" >/dev/null
    : >"$T/log-cluster"
    up cluster "$T/cluster" --processes
    wait_until py '
cookie = log_in("ann")
text = get("/", cookie).text
assert word(text) == "healthy" and re.search(r"this process, node-0: \d+ days left", text)
assert "Leader" in get("/disks", cookie).text and "vol0@first" in get("/volume?name=vol0", cookie).text
'
}
tls() {
    export PORT=$(port)
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=weft -addext subjectAltName=IP:127.0.0.1 -days 2 \
        -keyout "$T/key.pem" -out "$T/cert.pem" 2>/dev/null
    up tls "$T/tls" --page 127.0.0.1:$PORT --page-certificate "$T/cert.pem" --page-key "$T/key.pem" --disk-size 64M
    weft user add ann --file "$T/password" --dir "$T/tls" >/dev/null
    export CA=$T/cert.pem
    wait_until py '
cookie = log_in("ann")
assert "; Secure" in SET[-1] and word(get("/", cookie).text) == "healthy"
'
    (unset CA; py '
try: answer = raw(b"GET / HTTP/1.1\r\n\r\n")
except OSError: answer = b""
assert b"HTTP" not in answer')
}
# refused WORDS COMMAND..: it fails and says so
refused() {
    local said
    said=$(weft "${@:2}" 2>&1) && { echo "not refused: ${*:2}"; return 1; }
    [[ $said == *"$1"* ]] || { echo "it said: $said"; return 1; }
}
refuses() {
    refused '--page-certificate and --page-key, two PEM files' up --dir "$T/none" --page 0.0.0.0:10800
    refused 'cannot listen at' up --dir "$T/none" --page 127.0.0.1:$PORT
    refused 'no-such.pem' up --dir "$T/none" --page 127.0.0.1:1 --page-certificate no-such.pem --page-key no-such.pem
    [ ! -e "$T/none" ]
    refused 'there is no directory' user add eve --file "$T/password" --dir "$T/none"
    refused "cannot be a user's name" user add Eve --file "$T/password" --dir "$DIR"
    refused "there is already a user 'ann'" user add ann --file "$T/password" --dir "$DIR"
    echo short >"$T/short"
    refused '12 to 256 bytes' user add eve --file "$T/short" --dir "$DIR"
    refused 'there is no password' user add eve --dir "$DIR" </dev/null
    printf 'name = "b"\ndir = "state"\naddress = "127.0.0.1:39471"\npage = "10.0.0.1:10800"\n' >"$T/n.toml"
    refused 'give page_certificate and page_key' config check "$T/n.toml"
}

for check in $checks; do t "$check"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
