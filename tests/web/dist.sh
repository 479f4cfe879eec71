#!/bin/sh
# dist.sh SOURCE BUILD: web/dist/ is what web/src/ bundles into with the packages in BUILD/node_modules.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
node "$1/bundle.mjs" "$1" "$2" "$out/dist"
differs() {
    ! diff -rq "$1/dist" "$out/dist"
}
if differs "$1"; then
    echo "dist: web/dist is not what web/src bundles into; run 'make web' and commit the result" >&2
    exit 1
fi
# The check can fail: a changed source is seen.
mkdir "$out/changed"
cp -R "$1/src" "$1/tsconfig.json" "$1/package.json" "$out/changed/"
printf 'body { --changed: 1 }\n' >>"$out/changed/src/style.css"
node "$1/bundle.mjs" "$out/changed" "$2" "$out/changed/dist"
if ! (out=$out/changed && differs "$1" >/dev/null); then
    echo "dist: a changed source was not seen" >&2
    exit 1
fi
