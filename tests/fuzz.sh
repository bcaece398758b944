#!/usr/bin/env bash
# Fuzzes what reads bytes from outside, guided by coverage: each target of fuzz/, from its corpus on, for WEFT_FUZZ
# seconds (20). docs/testing.md says what the targets are.
#   tests/fuzz.sh [TARGET]            all targets, or one
#   tests/fuzz.sh TARGET FILE...      runs these inputs and no others
# libFuzzer is built from its crate, by a C++ compiler; stable Rust does, since the compiler can count what is covered.
set -eu -o pipefail
cd "$(dirname "$0")/.."
targets="nbd native wire disk_format member_log"
seconds=${WEFT_FUZZ:-20}
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

# What it learns is kept beside what is built, and used again; it is not part of the repository.
fuzz() {
    local learnt=$built/learnt/$1 log=$built/$1.log
    mkdir -p "$learnt"
    if ! "$built/$host/release/$1" -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
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
