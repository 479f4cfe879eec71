#!/bin/sh
# packages.sh PACKAGE_JSON LOCK STAMP: puts the locked packages into the directory of STAMP.
# One line when it cannot, with the first of npm's reasons.
set -u
folder=$(dirname "$3")
mkdir -p "$folder"
cp "$1" "$2" "$folder/" || exit 1
log=$folder/npm.log
if ! (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier \
    --prefer-offline --loglevel=error) >"$log" 2>&1; then
    why=$(grep -m 1 -E 'npm (ERR!|error) [^A]' "$log" | sed 's/^npm [^ ]* //')
    echo "web: npm could not fetch the packages of the page (${why:-see $log}); is the network there?" >&2
    exit 1
fi
touch "$3"
