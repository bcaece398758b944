#!/usr/bin/env bash
# What the packages hold: the tree is made from a binary, and what is named in units, in the packages' lists and in the
# image's description is in it. The packages themselves need tools that are not always there.
set -euo pipefail
cd "$(dirname "$0")/.."
WEFT=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/tested/weft}")
export WEFT
T=$(mktemp -d "${TMPDIR:-/tmp}/weft-packaging.XXXXXX")
trap 'rm -rf "$T"' EXIT
trap 'echo "packaging.sh: line $LINENO failed: $BASH_COMMAND" >&2' ERR
fails() { if "$@" >"$T/said" 2>&1; then echo "went well, and should not have: $*"; exit 1; fi; }

for script in packaging/package.sh packaging/debian/postinst; do bash -n "$script"; done
packaging/package.sh tree "$T/tree"
packaging/package.sh tree "$T/tree" # again, over what is there
for file in usr/bin/weft usr/lib/systemd/system/weft-node@.service usr/lib/systemd/system/weft-attach@.service \
    usr/lib/sysusers.d/weft.conf usr/lib/tmpfiles.d/weft.conf usr/share/man/man1/weft.1.gz \
    usr/share/man/man1/weft-volume-undelete.1.gz usr/share/bash-completion/completions/weft \
    usr/share/doc/weft/use/cluster.md usr/share/doc/weft/LICENSE-MIT \
    usr/share/doc/weft/lab/papers/bst.md usr/share/doc/weft/results/bst-scale.csv \
    usr/share/doc/weft/examples/monitoring/weft.rules.yml usr/share/doc/weft/examples/three-boxes/box1.toml \
    usr/share/doc/weft/examples/scenarios/tickertaip/reads.toml usr/share/doc/weft/examples/scenarios/examples/replay.csv; do
    [ -s "$T/tree/$file" ] || { echo "$file is missing"; exit 1; }
done
[ "$("$T/tree/usr/bin/weft" --version)" = "$("$WEFT" --version)" ]
mkdir "$T/other"
touch "$T/other/precious"
fails packaging/package.sh tree "$T/other"
[ -e "$T/other/precious" ]
fails packaging/package.sh nonsense
grep -q 'package.sh tree' "$T/said"
WEFT=/nowhere fails packaging/package.sh tree "$T/none"
grep -q 'there is no /nowhere' "$T/said"
# The driver's tree, if the driver was built, and the manifests: they are those of the chart.
WEFT_CSI=${WEFT_CSI:-$(dirname "$WEFT")/weft-csi}
export WEFT_CSI
if [ -x "$WEFT_CSI" ]; then
    packaging/package.sh csi-tree "$T/csi"
    packaging/package.sh csi-tree "$T/csi" # again, over what is there
    "$T/csi/usr/bin/weft-csi" --version >/dev/null
    fails packaging/package.sh csi-tree "$T/other"
fi
if python3 -c 'import yaml' 2>/dev/null; then
    PYTHONDONTWRITEBYTECODE=1 python3 packaging/kubernetes/render.py | cmp - packaging/kubernetes/weft-csi.yaml
    PYTHONDONTWRITEBYTECODE=1 python3 tests/python/manifests.py
else
    echo "skipped: the manifests; python3-yaml is not installed"
fi
# Every list of files finds some, and together they have all.
python3 - "$T/tree" <<'PY'
import glob, os, sys, tomllib
tree = sys.argv[1]
there = {os.path.join(d, f) for d, _, files in os.walk(tree) for f in files}
metadata = tomllib.load(open("cli/Cargo.toml", "rb"))["package"]["metadata"]
lists = {
    "deb": [asset[0].removeprefix("../") for asset in metadata["deb"]["assets"]],
    "generate-rpm": [asset["source"] for asset in metadata["generate-rpm"]["assets"]],
}
for name, patterns in lists.items():
    found = set()
    for pattern in patterns:
        some = {f for f in glob.glob(pattern.replace("target/packaged", tree), recursive=True) if os.path.isfile(f)}
        assert some, f"{name}: {pattern} finds nothing"
        found |= some
    assert found == there, f"{name}: {there ^ found}"
PY
# What is packed does not lie where `cargo package` puts its own.
fails grep -n '/target/package["/}]' packaging/package.sh cli/Cargo.toml
# Without dpkg-dev a package would depend on nothing: that is refused before anything is made.
mkdir "$T/bin"
for tool in bash dirname grep sed cat; do ln -s "$(command -v $tool)" "$T/bin/$tool"; done
printf '#!/bin/sh\n' >"$T/bin/cargo-deb" && chmod +x "$T/bin/cargo-deb"
PATH=$T/bin fails packaging/package.sh deb
grep -q 'dpkg-shlibdeps is not there: apt install dpkg-dev' "$T/said"
# Without systemd the script makes the user and the directories, and says so; where the user is, it makes none.
for tool in getent useradd install; do
    printf '#!/bin/sh\necho "%s $*" >>"$LOG"\n[ %s != getent ] || exit "$THERE"\n' $tool $tool >"$T/bin/$tool"
    chmod +x "$T/bin/$tool"
done
ln -s "$(command -v sh)" "$T/bin/sh"
for there in 2 0; do
    : >"$T/log"
    LOG=$T/log THERE=$there PATH=$T/bin sh packaging/debian/postinst configure >"$T/said"
    grep -q '^install .*-o weft -g weft /var/lib/weft$' "$T/log"
    if [ $there = 2 ]; then
        grep -q '^useradd --system .* weft$' "$T/log"
        grep -q 'made the user weft' "$T/said"
    else
        cp "$T/said" "$T/nothing"
        fails grep useradd "$T/log"
        [ ! -s "$T/nothing" ]
    fi
done
# The units run what there is, and the image has a user.
for unit in packaging/*.service; do grep -q '^ExecStart=/usr/bin/weft ' "$unit"; done
grep -q '^USER weft' packaging/Containerfile
# The C library: a program finds it by pkg-config, and is linked to its number.
if command -v cc >/dev/null && command -v pkg-config >/dev/null; then
    client-c/install.sh --prefix "$T/prefix" --profile tested
    export PKG_CONFIG_PATH=$T/prefix/lib/pkgconfig
    # shellcheck disable=SC2046
    cc client-c/examples/log.c $(pkg-config --cflags --libs weft) -o "$T/log"
    LD_LIBRARY_PATH=$T/prefix/lib ldd "$T/log" | grep "libweft.so.0 => $T/prefix/lib/libweft.so.0" >/dev/null
fi
# The client is built from its packages, which find each other by version.
cargo package -p weft-bytes -p weft-front -p weft-client --allow-dirty --offline --quiet 2>"$T/said" || { cat "$T/said"; exit 1; }
echo "packaging is whole"
