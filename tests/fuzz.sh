#!/usr/bin/env bash
# Fuzzes what reads bytes from outside, guided by coverage: each target of fuzz/, from its corpus on. docs/internals/testing.md says
# what the targets are.
#   tests/fuzz.sh [TARGET]            all targets, or one: as many inputs as take about 20 s, the same each time
#                                     (member_log: nearly, since the consensus library draws from the system)
#   WEFT_FUZZ=SECONDS tests/fuzz.sh [TARGET]     for so long, other inputs each time, from what earlier runs learnt
#   tests/fuzz.sh TARGET FILE...      runs these inputs and no others
# libFuzzer is built from its crate, by a C++ compiler; stable Rust does, since the compiler can count what is covered.
set -eu -o pipefail
cd "$(dirname "$0")/.."
targets="nbd native iscsi wire disk_format member_log"
built=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

build() {
    local flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    flags+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
    # With the host named as a target, build scripts and macros are built without these flags.
    RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_TARGET_DIR=$built \
        cargo build --release --locked --bins --target "$host" --manifest-path fuzz/Cargo.toml
}

# So many inputs take a target about 20 s.
runs_of() {
    case $1 in
        nbd) echo 1000000 ;;
        native) echo 400000 ;;
        iscsi) echo 400000 ;;
        wire) echo 3000000 ;;
        disk_format) echo 25000 ;;
        member_log) echo 500000 ;;
    esac
}

# What a run of so many seconds learns is kept beside what is built, and used again; it is not part of the repository.
fuzz() {
    local learnt=$built/learnt/$1 log=$built/$1.log limits
    if [ -n "${WEFT_FUZZ:-}" ]; then
        limits="-max_total_time=$WEFT_FUZZ"
    else
        learnt=$built/fresh/$1
        rm -rf "$learnt"
        limits="-seed=1 -reload=0 -runs=$(runs_of "$1")"
    fi
    mkdir -p "$learnt"
    # Addresses are among what it goes by, so they are the same each time, where that is allowed.
    local alike=""
    if setarch -R true 2>/dev/null; then alike="setarch -R"; fi
    # shellcheck disable=SC2086 # they are several words
    if ! $alike "$built/$host/release/$1" $limits -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
        -artifact_prefix="$built/$1-" "$learnt" fuzz/corpus/"$1" >"$log" 2>&1; then
        tail -40 "$log"
        echo "$1: failed; run it again with: tests/fuzz.sh $1 FILE" >&2
        return 1
    fi
    if ! grep -q "inline 8-bit counters" "$log"; then
        echo "$1: was not built so that coverage is counted; see $log" >&2
        return 1
    fi
    echo "$1: $(grep -o "Done .*" "$log"), $(grep -o " cov: [0-9]*" "$log" | tail -1 | tr -dc 0-9) places covered"
}

build
if [ $# -gt 1 ]; then
    "$built/$host/release/$1" "${@:2}"
else
    # As many at a time as there are processors: each takes one.
    running=()
    failed=0
    for target in ${1:-$targets}; do
        fuzz "$target" &
        running+=($!)
        if [ ${#running[@]} -ge "$(nproc)" ]; then
            wait "${running[0]}" || failed=1
            running=("${running[@]:1}")
        fi
    done
    for pid in "${running[@]}"; do wait "$pid" || failed=1; done
    exit $failed
fi
