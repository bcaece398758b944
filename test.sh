#!/usr/bin/env bash
# Tests everything. Stages can be chosen: ./test.sh fmt clippy e2e
#   setup     installs what the end-to-end tests use, from Debian's packages (as root)
#   fmt clippy doc rules licences
#             what can be seen in the code
#   test      unit, property, table and simulation tests
#   check     the simulation check over many seeds (WEFT_SEEDS=A..B to choose)
#   e2e       real clients against a real array, a cluster of processes, hosts that outlive a node,
#             and the native client's examples
#   real      real processes that are killed, paused, cut off and so on (WEFT_ROUNDS=N;
#             WEFT_SLACK=SECONDS beyond which a wait fails)
set -eu -o pipefail
cd "$(dirname "$0")"
all="setup fmt clippy doc rules licences test check e2e real"
seeds=${WEFT_SEEDS:-0..1000}

setup() {
    local need=()
    has() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
    has nbdinfo && has nbdcopy && has nbdfuse || need+=(libnbd-bin)
    has nbdsh || need+=(python3-libnbd)
    has qemu-img && has qemu-io || need+=(qemu-utils)
    has qemu-storage-daemon || need+=(qemu-system-common)
    has fio || need+=(fio)
    has mkfs.ext4 || need+=(e2fsprogs)
    has mkfs.xfs || need+=(xfsprogs)
    has fusermount3 || need+=(fuse3)
    has losetup || need+=(mount)
    has python3 || need+=(python3)
    has ip || need+=(iproute2)
    has nft || need+=(nftables)
    has faketime || need+=(faketime)
    [ ${#need[@]} = 0 ] && { echo "everything is there"; return 0; }
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing: ${need[*]}; install them, or run as root on Debian" >&2
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${need[@]}"
}

fmt() { cargo fmt --all --check; }

clippy() { cargo clippy --workspace --all-targets --locked -- -D warnings; }

doc() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked; }

# Pure crates do no I/O, read no clock, start no thread and draw no random number that they were not
# given; nothing is left undone. Comments and tests are not looked at.
rules() {
    python3 - <<'P'
import pathlib, re, sys

OUTSIDE = re.compile(r"std::(net|fs|thread)\b|\bInstant::now|\bSystemTime\b|\btokio\b|\bHashMap\b|\bHashSet\b|\b(fast)?rand\b")
UNDONE = re.compile(r"\b(todo|unimplemented)!\s*\(")
PURE = ("core", "model", "load", "report", "member")
# What a simulation draws from: a generator that was handed in, or made of a seed.
SEEDED = re.compile(r"\bfastrand::Rng\b(?!::new)")

def lines(path):
    """Lines without comments and literals; blocks under #[cfg(test)] are marked."""
    skip, depth, begun = False, 0, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        code = re.sub(r"//.*", "", code)
        if not skip and "#[cfg(test)]" in code:
            skip, depth, begun = True, 0, False
        yield number, line, code, skip
        if skip:
            depth += code.count("{") - code.count("}")
            begun = begun or "{" in code
            # The item ends with its block, or with a semicolon if it has none.
            if (begun and depth <= 0) or (not begun and code.rstrip().endswith(";")):
                skip = False

bad = []
for crate in ("code", "core", "model", "load", "report", "net", "front", "client", "client-c", "member", "sim", "host", "cli"):
    for path in sorted(pathlib.Path(crate).rglob("*.rs")):
        a_test = re.search(r"(^|[/_])(tests?|reference)(/|\.rs$)", str(path))
        for number, line, code, skip in lines(path):
            if UNDONE.search(code):
                bad.append(f"{path}:{number}: unfinished: {line.strip()}")
            if crate in ("model", "load"):
                code = SEEDED.sub("", code)
            if crate in PURE and f"{crate}/src" in str(path) and not skip and not a_test and OUTSIDE.search(code):
                bad.append(f"{path}:{number}: brings the outside world into a pure crate: {line.strip()}")
print("\n".join(bad) or "the pure crates are free of the outside world, and nothing is left undone")
sys.exit(bool(bad))
P
}

licences() {
    local metadata
    metadata=$(cargo metadata --format-version 1 --locked)
    python3 -c '
import json, re, sys
GOOD = {"MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "Zlib",
        "Unicode-3.0", "Unlicense", "CC0-1.0"}

def allows(text):
    """Whether an SPDX expression can be met with permissive licences alone."""
    tokens = re.findall(r"[()]|[\w.+-]+", text.replace("/", " OR "))
    at = 0
    def term():
        nonlocal at
        token = tokens[at]; at += 1
        if token == "(":
            good = either(); at += 1
            return good
        good = token in GOOD
        if at < len(tokens) and tokens[at] == "WITH":
            at += 2
        return good
    def both():
        nonlocal at
        good = term()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1; good = term() and good
        return good
    def either():
        nonlocal at
        good = both()
        while at < len(tokens) and tokens[at] == "OR":
            at += 1; good = both() or good
        return good
    return bool(tokens) and either()

packages = json.load(sys.stdin)["packages"]
bad = ["%s %s: %s" % (p["name"], p["version"], p["license"]) for p in packages if not allows(p["license"] or "")]
print(len(packages), "packages, all with permissive licences" if not bad else "packages; not permissive: " + "; ".join(bad))
sys.exit(bool(bad))' <<<"$metadata"
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

check() { cargo run --profile tested --locked -- check --seeds "$seeds"; }

e2e() {
    cargo build --profile tested --locked
    cargo build --profile tested --locked -p weft-client --examples
    WEFT=${WEFT:-${CARGO_TARGET_DIR:-$PWD/target}/tested/weft} tests/e2e.sh
    WEFT=${WEFT:-${CARGO_TARGET_DIR:-$PWD/target}/tested/weft} tests/cluster.sh
    WEFT=${WEFT:-${CARGO_TARGET_DIR:-$PWD/target}/tested/weft} tests/reconnect.sh
    WEFT=${WEFT:-${CARGO_TARGET_DIR:-$PWD/target}/tested/weft} tests/client.sh
}

real() {
    # How long hosts wait is measured where nothing else runs: here only what is beyond all bounds fails.
    cargo run --profile tested --locked -- check --real --rounds "${WEFT_ROUNDS:-16}" --slack "${WEFT_SLACK:-30}"
}

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
