#!/usr/bin/env bash
# Tests everything. Stages can be chosen: ./test.sh fmt clippy e2e
#   setup     installs what fuzzing and the end-to-end tests use, from Debian's packages (as root)
#   fmt clippy doc rules licences
#             what can be seen in the code
#   test      unit, property, table and simulation tests
#   check     the simulation check over many seeds (WEFT_SEEDS=A..B to choose)
#   e2e       real clients against a real array, a cluster of processes, hosts that outlive a node,
#             and the native client's examples
#   fuzz      bytes from outside, guided by coverage (six targets; WEFT_FUZZ=SECONDS for other inputs)
#   real      real processes that are killed, paused, cut off and so on (WEFT_ROUNDS=N;
#             WEFT_SLACK=SECONDS beyond which a wait fails), processes on a torus without a
#             switch (WEFT_SIDE=N for N times N), and a soak (WEFT_SOAK=SECONDS; 20)
set -eu -o pipefail
cd "$(dirname "$0")"
all="setup fmt clippy doc rules licences test check e2e fuzz real"
seeds=${WEFT_SEEDS:-0..1000}
weft=${CARGO_TARGET_DIR:-$PWD/target}/tested/weft

setup() {
    local need=()
    has() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
    has nbdinfo && has nbdcopy && has nbdfuse || need+=(libnbd-bin)
    has nbdsh || need+=(python3-libnbd)
    has qemu-img && has qemu-io || need+=(qemu-utils)
    has qemu-storage-daemon || need+=(qemu-system-common)
    has iscsi-test-cu && has iscsi-ls || need+=(libiscsi-bin)
    [ -n "$(find /usr/lib -name block-iscsi.so -print -quit 2>/dev/null)" ] || need+=(qemu-block-extra)
    has fio || need+=(fio)
    has mkfs.ext4 || need+=(e2fsprogs)
    has mkfs.xfs || need+=(xfsprogs)
    has fusermount3 || need+=(fuse3)
    has losetup || need+=(mount)
    has c++ || need+=(g++)
    has python3 || need+=(python3)
    python3 -c 'import yaml' 2>/dev/null || need+=(python3-yaml)
    has ip || need+=(iproute2)
    has nft || need+=(nftables)
    has faketime || need+=(faketime)
    has nbdkit || need+=(nbdkit)
    has openssl || need+=(openssl)
    has pgrep || need+=(procps)
    [ ${#need[@]} = 0 ] && { echo "everything is there"; return 0; }
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing: ${need[*]}; install them, or run as root on Debian" >&2
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${need[@]}"
}

fmt() {
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
}

# In the profile of the tests: so macros and what runs while building are built once for all.
clippy() { cargo clippy --workspace --all-targets --profile tested --locked -- -D warnings; }

doc() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --profile tested --locked; }

# Pure crates do no I/O, read no clock, start no thread and draw no random number that they were not
# given; nothing is left undone. Comments and tests are not looked at. The documentation has short sentences and plain words.
rules() {
    python3 tests/rules.py
    python3 tests/prose.py
    python3 tests/sizes.py
}

licences() {
    local metadata
    metadata=$(cargo metadata --format-version 1 --locked)
    python3 tests/licences.py <<<"$metadata"
    if cargo deny --version >/dev/null 2>&1; then
        cargo deny --locked check bans licenses sources
    else
        echo "skipped: cargo deny is not installed"
    fi
    if ! cargo audit --version >/dev/null 2>&1; then
        echo "skipped: advisories; cargo audit is not installed"
    elif ! timeout 30 git ls-remote -q https://github.com/RustSec/advisory-db.git HEAD >/dev/null 2>&1; then
        echo "skipped: advisories; their database cannot be reached"
    else
        cargo audit
    fi
}

tests() { cargo test --workspace --profile tested --locked; }

# The command and the examples, out of the same crates as the tests: with a package chosen, Cargo would choose other
# features of what they share, and build all that anew.
build() { cargo build --workspace --bins --examples --profile tested --locked; }

check() {
    build
    "$weft" check --seeds "$seeds"
}

e2e() {
    build
    export WEFT=${WEFT:-$weft}
    # One after the other: processes that must hear one another in time are not to compete for the processors.
    tests/e2e.sh
    tests/cluster.sh
    tests/runbook.sh
    tests/reconnect.sh
    FULL_SECONDS=${FULL_SECONDS:-10} tests/bad_disks.sh
    tests/client.sh
    tests/iscsi.sh
    tests/reservations.sh
    tests/vhost_user.sh
    tests/doors.sh
    tests/page.sh
    tests/mirror.sh
    tests/csi.sh
    tests/packaging.sh "$WEFT"
}

fuzz() { tests/fuzz.sh; }

real() {
    build
    # How long hosts wait is measured where nothing else runs: here only what is beyond all bounds fails.
    "$weft" check --real --rounds "${WEFT_ROUNDS:-18}" --slack "${WEFT_SLACK:-30}"
    "$weft" check --real --rounds 3 --slack "${WEFT_SLACK:-30}" --roles controller --faults kill,pause,cut
    "$weft" check --real --rounds 1 --slack "${WEFT_SLACK:-30}" --redundancy copied --faults wipe
    local lanes
    for lanes in 2 4; do
        "$weft" check --real --rounds 4 --seed "$lanes" --slack "${WEFT_SLACK:-30}" --lanes "$lanes" --faults kill,pause,cut
    done
    WEFT=${WEFT:-$weft} SIDE=${WEFT_SIDE:-5} tests/torus.sh
    WEFT=${WEFT:-$weft} SECONDS_OF_ALL=${WEFT_SOAK:-20} tests/soak.sh
}

case " $* " in
    *" --help "* | *" -h "*)
        # The head of this file, without its marks.
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$(basename "$0")"
        exit 0
        ;;
esac

for stage in ${*:-$all}; do
    case " $all " in
        *" $stage "*) ;;
        *) echo "there is no stage '$stage'; choose from: $all" >&2; exit 2 ;;
    esac
done
summary=
for stage in ${*:-$all}; do
    echo "== $stage"
    start=$SECONDS
    # 'test' is a command of the shell, so its function is called otherwise.
    if [ "$stage" = test ]; then tests; else $stage; fi
    echo "== $stage: $((SECONDS - start)) s"
    summary+=" $stage $((SECONDS - start)) s,"
done
echo "== all well:${summary%,}"
