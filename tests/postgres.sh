#!/usr/bin/env bash
# PostgreSQL with its data on one volume and its log on another, on loopback. While pgbench writes, both volumes are
# snapshotted together; a second PostgreSQL on clones must recover, with all that was committed before. In a temporary
# directory.
#   tests/postgres.sh [ROUNDS]     10 rounds unless said otherwise
# WEFT chooses the binary. It needs root, FUSE, loop devices, nbdfuse, and PostgreSQL with pgbench. Closing line 'N of N
# recovered'.
set -u
unset COLUMNS
export LC_ALL=C
cd "$(dirname "$0")/.."
. tests/lib.sh
WEFT=$(realpath "${WEFT:-target/release/weft}")
ROUNDS=${1:-10}
LIMIT=120
T=$(mktemp -d /tmp/weft-postgres.XXXXXX)
S=$T/nbd.sock
programs=(/usr/lib/postgresql/*/bin)
PATH=$PATH:${programs[-1]}:/usr/sbin:/sbin
needs nbdfuse losetup mkfs.ext4 runuser initdb postgres pg_ctl pg_isready pgbench psql
[ -e /dev/fuse ] && [ -e /dev/loop-control ] || { echo "skipped: there is no FUSE or no loop device"; exit 0; }

weft() { timeout -k 5 $LIMIT "$WEFT" "$@" --dir "$T/array"; }
as_postgres() { runuser -u postgres -- env PATH="$PATH" "$@"; }
# put VOLUME: its file system is put at $T/VOLUME, through nbdfuse and a loop device
put() {
    mkdir -p "$T/fuse-$1" "$T/$1"
    nbdfuse "$T/fuse-$1/vol" "nbd+unix:///$1?socket=$S" & echo $! >"$T/nbdfuse-$1"
    wait_until test -e "$T/fuse-$1/vol"
    [ -z "${2:-}" ] || mkfs.ext4 -q -F "$T/fuse-$1/vol"
    losetup -f --show "$T/fuse-$1/vol" >"$T/loop-$1"
    mount -t ext4 "$(cat "$T/loop-$1")" "$T/$1"
}
# put_away VOLUME: and taken away again, when nobody uses it
put_away() {
    local ended
    umount "$T/$1" && losetup -d "$(cat "$T/loop-$1")" && fusermount3 -u "$T/fuse-$1"
    ended=$?
    wait_until dead "$(cat "$T/nbdfuse-$1")"
    return $ended
}
clean() {
    trap - EXIT INT TERM
    exec 2>/dev/null
    local name
    for name in "$T"/pid-*; do kill -9 "$(cat "$name")"; done
    for name in data c-data; do [ -f "$T/$name/pg/postmaster.pid" ] && kill -9 "$(head -1 "$T/$name/pg/postmaster.pid")"; done
    sleep 0.5
    for name in data log c-data c-log; do
        umount -l "$T/$name"
        [ -f "$T/loop-$name" ] && losetup -d "$(cat "$T/loop-$name")"
        fusermount3 -qzu "$T/fuse-$name"
    done
    rm -rf "$T"
}
trap clean EXIT
trap 'exit 1' INT TERM
chmod 755 "$T"
mkdir "$T/socket"
chown postgres "$T/socket"

# server NAME: PostgreSQL on the data of one of them, `data` or `c-data`
server() {
    as_postgres pg_ctl -w -t $LIMIT -D "$T/$1/pg" -l "$T/socket/log-$1" -o "-k $T/socket -p $2" start >/dev/null
}
ask() { as_postgres psql -qAtX -h "$T/socket" -p "$1" -c "$2" postgres; }
# What pgbench changes together in a transaction fits together.
sums="select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history)
    and (select sum(tbalance) from pgbench_tellers) = (select coalesce(sum(delta), 0) from pgbench_history)
    and (select sum(bbalance) from pgbench_branches) = (select coalesce(sum(delta), 0) from pgbench_history)"
committed="select count(*) from pgbench_history"

# set_up: the array, and a database that pgbench writes to
set_up() {
    "$WEFT" up --dir "$T/array" --listen "$S" --nodes 5 --disk-size 768M --volume first:4M >"$T/log-array" 2>&1 &
    echo $! >"$T/pid-array"
    wait_until weft status
    weft volume create data 768M --thin
    weft volume create log 512M --thin --layout raid1
    put data new
    put log new
    chown postgres "$T/data" "$T/log"
    as_postgres initdb -k -D "$T/data/pg" -X "$T/log/pg"
    cat >>"$T/data/pg/postgresql.conf" <<END
listen_addresses = ''
shared_buffers = 32MB
max_wal_size = 96MB
checkpoint_timeout = 30s
END
    # The database does not write this file itself.
    sync "$T/data/pg/postgresql.conf"
    server data 5432
    as_postgres pgbench -q -i -s 4 -h "$T/socket" -p 5432 postgres
}
# recovers ROUND: a second PostgreSQL on a snapshot of both volumes
recovers() {
    local before after round=$1
    busier_than() { [ "$(ask 5432 "$committed")" -gt "$1" ]; }
    wait_until busier_than $(($(ask 5432 "$committed") + 200))
    before=$(ask 5432 "$committed")
    weft volume snapshot data,log "r$round"
    weft volume clone "data@r$round" c-data
    weft volume clone "log@r$round" c-log
    put c-data
    put c-log
    ln -sfn "$T/c-log/pg" "$T/c-data/pg/pg_wal"
    rm "$T/c-data/pg/postmaster.pid"
    server c-data 5433
    grep -E 'redo (starts|done)|automatic recovery' "$T/socket/log-c-data"
    # Blocks have checksums, and all are read.
    [ "$(ask 5433 "$sums")" = t ]
    after=$(ask 5433 "$committed")
    echo "round $round: $before transactions were committed before, and $after are there"
    [ "$after" -ge "$before" ]
    ask 5433 'vacuum full'
    ask 5433 checkpoint
    as_postgres pg_ctl -w -m fast -D "$T/c-data/pg" stop
    rm "$T/socket/log-c-data"
    put_away c-data
    put_away c-log
    nobody() { weft volume list --json | python3 -c 'import json, sys; sys.exit(any(v["clients"] for v in json.load(sys.stdin)["volumes"] if v["name"].startswith("c-")))'; }
    wait_until nobody
    weft volume delete c-data --yes --now
    weft volume delete c-log --yes --now
    weft volume delete "data@r$round" --yes
    weft volume delete "log@r$round" --yes
}

(trap - EXIT; set -e; set_up) >"$T/out" 2>&1
[ $? = 0 ] || { echo "FAIL setting up:"; tail -n 20 "$T/out" "$T/log-array"; exit 1; }
as_postgres pgbench -n -c 4 -T 3600 -h "$T/socket" -p 5432 postgres >"$T/pgbench" 2>&1 & echo $! >"$T/pid-pgbench"
recovered=0
for round in $(seq "$ROUNDS"); do
    (trap - EXIT; set -e; recovers "$round") >"$T/out" 2>&1
    if [ $? = 0 ]; then
        grep '^round' "$T/out"
        recovered=$((recovered + 1))
    else
        echo "FAIL round $round:"; tail -n 20 "$T/out" "$T/socket/log-c-data"; break
    fi
done
dead "$(cat "$T/pid-pgbench")" && { echo "FAIL pgbench ended:"; tail -n 5 "$T/pgbench"; recovered=0; }
kill "$(cat "$T/pid-pgbench")"
[ "$(ask 5432 "$sums")" = t ] || { echo "FAIL the database itself"; recovered=0; }
as_postgres pg_ctl -w -m fast -D "$T/data/pg" stop >/dev/null
put_away data && put_away log
for name in data log; do
    weft scrub $name 2>&1 | grep ' 0 wrong, 0 stripes unclear, 0 skipped' >/dev/null || { echo "FAIL scrub of $name"; recovered=0; }
done
echo "$recovered of $ROUNDS recovered"
[ "$recovered" = "$ROUNDS" ]
