#!/bin/bash
# Two packages of the committed sources, built in two directories of different names, are equal to the byte.
# Usage: reproducible.sh SOURCE_ROOT   (part of `make check-long`)
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in one another-longer-name; do
    git clone -q "$1" "$work/$name"
    (cd "$work/$name" && CCACHE_DISABLE=1 scripts/deb build >"$work/$name.log" 2>&1) || { tail -n 20 "$work/$name.log"; exit 1; }
done
cmp "$work"/*/build-deb/*.deb
echo "reproducible: $(sha256sum "$work"/one/build-deb/*.deb | cut -d' ' -f1)"
