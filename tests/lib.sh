# What the scripts of this folder have in common. LIMIT: seconds that anything may take. WEFT: the binary.

# Waits until a command works.
wait_until() {
    local end=$((SECONDS + LIMIT))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "in vain waited for: $*"; return 1; }
        sleep 0.05
    done
}
# Whether a process is there and not a corpse. One whose other threads still end is there: it has its files.
alive() {
    local state threads=("/proc/$1/task/"*)
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) && { [ "$state" != Z ] || [ ${#threads[@]} -gt 1 ]; }
}
dead() { ! alive "$1"; }
weft() { timeout -k 5 "$LIMIT" "$WEFT" "$@"; }
# Stops the processes with numbers in T/*.pid, and removes T. For the end of a script.
clean() {
    trap - EXIT INT TERM
    local pid
    for pid in $(cat "$T"/*.pid 2>/dev/null); do
        kill "$pid" 2>/dev/null
        wait_until dead "$pid"
    done
    rm -rf "$T"
}
# scrubbed VOLUME DIR: all stripes are right. What is skipped, because a node is out for a moment, is looked at again.
scrubbed() {
    local tries said
    for tries in {1..5}; do
        said=$(weft scrub "$1" --dir "$2" || true)
        case $said in
            *' 0 wrong, 0 stripes unclear, 0 skipped'*) echo "$said"; return ;;
            *' 0 wrong, 0 stripes unclear, '*) sleep 1 ;;
            *) break ;;
        esac
    done
    echo "not all is right: $said"
    return 1
}

# t CHECK: runs a check of a script, counts it in passed or failed, and shows what it and the processes' logs said if it
# fails. T: the directory with the logs.
t() {
    local begun=$SECONDS status
    ( trap - EXIT; set -e -o pipefail; "$1" ) >"$T/out" 2>&1
    status=$?
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        echo "ok $1 ($((SECONDS - begun)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL $1 (status $status, $((SECONDS - begun)) s)"
        tail -30 "$T/out" | cut -c 1-300 | sed 's/^/     | /'
        tail -n 5 "$T"/log* | cut -c 1-300 | sed 's/^/     log | /'
    fi
}

# For scripts that measure: whether nothing else runs, and the median of a COLUMN of a FILE.
machine_is_quiet() { awk '{ exit !($1 < 0.5) }' /proc/loadavg; }
median() { cut -d ' ' -f "$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# What follows is for scripts whose processes stand in network namespaces of their own. WEFT: the binary, T: a directory for
# what they leave, SPACE: what the namespaces' names begin with, SUBNET: the first three numbers of their addresses.

# needs COMMAND..: without one of them, or without root, the script ends here.
needs() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || { echo "skipped: $command is not installed"; exit 0; }
    done
    [ "$(id -u)" = 0 ] || { echo "skipped: it needs root"; exit 0; }
}
address() { echo "$SUBNET.$(($1 + 1))"; }
inside() { nsenter --net="/run/netns/$SPACE-$1" "${@:2}"; }
# space NAME: a namespace
space() { ip netns add "$SPACE-$1" && ip -n "$SPACE-$1" link set lo up; }
# cable A B: between two, with a route to the other end and nowhere else
cable() {
    ip -n "$SPACE-$1" link show "to$2" >/dev/null 2>&1 && return
    ip -n "$SPACE-$1" link add "to$2" type veth peer name "to$1" netns "$SPACE-$2"
    ip -n "$SPACE-$1" address add "$(address "$1")" peer "$(address "$2")/32" dev "to$2"
    ip -n "$SPACE-$2" address add "$(address "$2")" peer "$(address "$1")/32" dev "to$1"
    ip -n "$SPACE-$1" link set "to$2" up
    ip -n "$SPACE-$2" link set "to$1" up
}
# cabled N: a namespace without cables as yet, whose processes listen at its address whichever it will have
cabled() { space "$1" && ip -n "$SPACE-$1" address add "$(address "$1")/32" dev lo; }
# in_background N ARGUMENTS..: weft in a namespace; its number is kept, to end it
in_background() {
    nsenter --net="/run/netns/$SPACE-$1" "$WEFT" "${@:2}" >>"$T/log$1" 2>&1 & echo $! >"$T/pid$1"
}
run_node() { in_background "$1" node --config "$T/n$1.toml"; }
# Ends the processes and takes away all namespaces and what they left.
clean_spaces() {
    trap - EXIT INT TERM
    exec 2>/dev/null
    cat "$T"/pid* | xargs -r kill -9 || true
    ip netns list | sed 's/ .*//' | grep "^$SPACE-" | xargs -r -n 1 ip netns delete || true
    rm -rf "$T"
}
# status N CODE: the status as node N sees it, as Python's s
status() { weft status --json --dir "$T/state$1" | python3 -c "import json, sys; s = json.load(sys.stdin); $2"; }
# up_are N COUNT: whether node N sees so many nodes up
up_are() { status "$1" "sys.exit(sum(n['state'] == 'up' for n in s['nodes']) != $2)"; }
token() { weft cluster token --dir "$T/state0" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])'; }
