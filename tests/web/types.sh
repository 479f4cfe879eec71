#!/bin/sh
# types.sh SOURCE BUILD: TypeScript's opinion of web/src; the packages are in BUILD/node_modules.
set -eu
folder=$2/types
mkdir -p "$folder"
# Packages are looked for beside the sources, so these are put beside the packages.
ln -sfn "$1/src" "$2/src"
cp "$1/tsconfig.json" "$2/tsconfig.json"
node "$2/node_modules/typescript/bin/tsc" -p "$2/tsconfig.json"
# The check can fail: a wrong type is seen.
rm -rf "$folder"
mkdir -p "$folder"
echo 'export const n: number = "text";' >"$folder/wrong.ts"
if node "$2/node_modules/typescript/bin/tsc" --noEmit --strict "$folder/wrong.ts" >/dev/null; then
    echo "types: a wrong type was not seen" >&2
    exit 1
fi
