#!/bin/sh
# make_golden.sh BUILD_DIR: makes the golden files anew. Only when the format changes, with its
# version; what they must contain is then to be looked at, not to be believed.
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
    /usr/bin/python3 read_mallow.py events "golden/$1.stored" | sort -s -n -k1,1 >"golden/$1.events"
}
one forks test_model 5 900
one threads test_model 9 700
one kernel test_kernel
