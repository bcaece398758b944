# What the scripts of this folder have in common. LIMIT: seconds that anything may take.

# Waits until a command works.
wait_until() {
    local end=$((SECONDS + LIMIT))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "in vain waited for: $*"; return 1; }
        sleep 0.05
    done
}
# Whether a process is there and not a corpse.
alive() { local state; state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) && [ "$state" != Z ]; }
dead() { ! alive "$1"; }
