#!/bin/sh
# make_golden.sh BUILD_DIR: makes the golden files of this minor version. When the format changes, and
# its version with it, add others: those of earlier versions stay, and are still to be read. What they
# must contain is to be looked at, not to be believed. forks, threads and kernel are of minor version 0.
set -e
cd "$(dirname "$0")"
b=$1/tests/trace
mkdir -p golden
one() {
    name=$1
    maker=$2
    shift 2
    "$b/$maker" "$@" "golden/$name.raw"
    set -- "$name"
    "$b/dump_events" --stored "golden/$1.raw" "golden/$1.stored"
    cp "golden/$1.raw" "golden/$1.sealed"
    "$b/dump_events" --seal "golden/$1.sealed"
    /usr/bin/python3 ../mallowtest/read_mallow.py events "golden/$1.stored" | sort -s -n -k1,1 >"golden/$1.events"
}
one early test_model 21 2600
