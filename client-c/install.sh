#!/usr/bin/env bash
# Builds libweft and installs what C programs need: the header, the libraries and what pkg-config says of them.
#
#   client-c/install.sh [--prefix DIR] [--profile NAME]
#
# The prefix is /usr/local if none is given. DESTDIR is put before all paths, for packages. A program that is linked with
# -lweft looks for libweft.so.0 when it is started: another number means that the functions are not the same.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=/usr/local profile=release
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?"--prefix needs a directory"}; shift 2 ;;
        --profile) profile=${2:?"--profile needs a name"}; shift 2 ;;
        *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "client-c/$(basename "$0")"; exit 2 ;;
    esac
done
# What programs that are linked against it rely on. It grows when a function changes or goes.
soversion=0
version=$(sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
to=${DESTDIR:-}$prefix

# Apart from other builds: there the library has no such name, and tests link against it.
target=${CARGO_TARGET_DIR:-target}/libweft
cargo rustc --target-dir "$target" -p weft-client-c --profile "$profile" --locked --lib --crate-type cdylib -- \
    -C link-arg=-Wl,-soname,libweft.so.$soversion
cargo rustc --target-dir "$target" -p weft-client-c --profile "$profile" --locked --lib --crate-type staticlib


install -D -m 644 client-c/include/weft.h "$to/include/weft.h"
install -D -m 755 "$target/$profile/libweft.so" "$to/lib/libweft.so.$version"
install -D -m 644 "$target/$profile/libweft.a" "$to/lib/libweft.a"
ln -sf "libweft.so.$version" "$to/lib/libweft.so.$soversion"
ln -sf "libweft.so.$soversion" "$to/lib/libweft.so"
mkdir -p "$to/lib/pkgconfig"
cat >"$to/lib/pkgconfig/weft.pc" <<PC
prefix=$prefix
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: weft
Description: Reads and writes of Weft's volumes that say what must come first
Version: $version
Libs: -L\${libdir} -lweft
Libs.private: -lpthread -ldl -lm
Cflags: -I\${includedir}
PC
echo "libweft $version is in $to/lib; \`pkg-config --cflags --libs weft\` says how to use it"
