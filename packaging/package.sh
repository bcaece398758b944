#!/usr/bin/env bash
# Makes packages of Weft from a binary that has been built.
#
#   packaging/package.sh tree [DIR]   what a package holds, below DIR (target/packaged if none is given)
#   packaging/package.sh deb          the same as a Debian package: needs cargo-deb and dpkg-dev
#   packaging/package.sh rpm          the same as an RPM: needs cargo-generate-rpm
#   packaging/package.sh image [TAG]  the same as a container image: needs podman or docker
#   packaging/package.sh csi-tree [DIR], csi-image [TAG]
#                                     what the image of the CSI driver holds (target/packaged-csi), and that image
#
# It is not target/package, where `cargo package` puts its own.
#
# WEFT names the binary; target/dist/weft if it is not set (`cargo build --profile dist`). So does WEFT_CSI that of the
# driver, target/dist/weft-csi (`cargo build --profile dist -p weft-csi`).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
weft=${WEFT:-$root/target/dist/weft}
weft_csi=${WEFT_CSI:-$root/target/dist/weft-csi}

fail() {
    echo "package.sh: $*" >&2
    exit 1
}
# A tool that must be there, or how to get it.
need() { command -v "$1" >/dev/null || fail "$1 is not there: $2"; }

put() { install -D -m "$1" "$2" "$3"; }

tree() {
    local to=$1 file
    [ -x "$weft" ] || fail "there is no $weft: cargo build --profile dist, or name a binary with WEFT"
    case $to in "" | / | "$root") fail "'$to' is no directory to fill" ;; esac
    # What an earlier run has left, and nothing else.
    if [ -e "$to" ] && [ ! -e "$to/usr/bin/weft" ]; then fail "$to holds something else; name another directory"; fi
    rm -rf "$to"
    put 755 "$weft" "$to/usr/bin/weft"
    # Names of functions stay, for backtraces; lines of the source would make it four times as large.
    if command -v objcopy >/dev/null; then
        objcopy --strip-debug "$to/usr/bin/weft" || echo "package.sh: the command keeps the lines of its source" >&2
    fi
    for file in weft-node@ weft-attach@; do
        put 644 "$root/packaging/$file.service" "$to/usr/lib/systemd/system/$file.service"
    done
    put 644 "$root/packaging/weft.sysusers" "$to/usr/lib/sysusers.d/weft.conf"
    put 644 "$root/packaging/weft.tmpfiles" "$to/usr/lib/tmpfiles.d/weft.conf"
    local doc=$to/usr/share/doc/weft
    put 644 "$root/packaging/60-weft.rules" "$doc/examples/60-weft.rules"
    for file in three-boxes five-boxes monitoring; do
        mkdir -p "$doc/examples/$file"
        install -m 644 "$root/packaging/$file"/* "$doc/examples/$file/"
    done
    for file in "$root"/experiments/*/*; do
        put 644 "$file" "$doc/examples/scenarios/$(basename "$(dirname "$file")")/$(basename "$file")"
    done
    for file in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT; do put 644 "$root/$file" "$doc/$file"; done
    for file in "$root"/docs/*.md "$root"/docs/{use,internals,lab,lab/papers,results}/*.*; do
        put 644 "$file" "$doc/${file#"$root"/docs/}"
    done
    "$weft" man "$to/usr/share/man/man1" >/dev/null
    gzip -9n "$to"/usr/share/man/man1/*.1
    put_completions "$to"
    echo "$to"
}

put_completions() {
    local share=$1/usr/share
    mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
    "$weft" completions bash >"$share/bash-completion/completions/weft"
    "$weft" completions zsh >"$share/zsh/site-functions/_weft"
    "$weft" completions fish >"$share/fish/vendor_completions.d/weft.fish"
}

deb() {
    need cargo-deb "cargo install cargo-deb"
    # Without it the package would depend on nothing.
    need dpkg-shlibdeps "apt install dpkg-dev"
    tree "$root/target/packaged"
    (cd "$root" && cargo deb -p weft --no-build --no-strip --locked)
}

rpm() {
    need cargo-generate-rpm "cargo install cargo-generate-rpm"
    tree "$root/target/packaged"
    (cd "$root" && cargo generate-rpm -p cli)
}

# image FILE TAG DIR: the image that a file describes, of a directory
image() {
    local with
    with=$(command -v podman || command -v docker) || fail "neither podman nor docker is there"
    "$with" build -f "$root/packaging/$1" -t "$2" "$3"
}

csi_tree() {
    local to=$1
    [ -x "$weft_csi" ] || fail "there is no $weft_csi: cargo build --profile dist -p weft-csi, or name a binary with WEFT_CSI"
    case $to in "" | / | "$root") fail "'$to' is no directory to fill" ;; esac
    if [ -e "$to" ] && [ ! -e "$to/usr/bin/weft-csi" ]; then fail "$to holds something else; name another directory"; fi
    rm -rf "$to"
    put 755 "$weft_csi" "$to/usr/bin/weft-csi"
    if command -v objcopy >/dev/null; then
        objcopy --strip-debug "$to/usr/bin/weft-csi" || echo "package.sh: the driver keeps the lines of its source" >&2
    fi
    for file in LICENSE-APACHE LICENSE-MIT; do put 644 "$root/$file" "$to/usr/share/doc/weft-csi/$file"; done
    echo "$to"
}

case ${1:-} in
    tree) tree "$(realpath -m "${2:-$root/target/packaged}")" ;;
    deb) deb ;;
    rpm) rpm ;;
    image) tree "$root/target/packaged" && image Containerfile "${2:-weft:latest}" "$root/target/packaged" ;;
    csi-tree) csi_tree "$(realpath -m "${2:-$root/target/packaged-csi}")" ;;
    csi-image)
        csi_tree "$root/target/packaged-csi" && image Containerfile.csi "${2:-weft-csi:latest}" "$root/target/packaged-csi"
        ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
