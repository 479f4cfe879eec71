#!/bin/bash
# A recording of a billion events, made, sealed and reported in bounded memory.
# usage: bench/billion.sh [BUILD [MILLIONS_OF_EVENTS [FOLDER]]]
# FOLDER (default: the build folder) needs about 7 bytes an event while recording, and 2 more for the
# sealed file: 9 GB for a billion.
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
millions=${2:-1000}
folder=$(realpath "${3:-$build}")
file=$folder/billion.mlw
timing=$(mktemp)
trap 'rm -f "$file" "$file.json" "$timing"' EXIT

free=$(df --output=avail -B1 "$folder" | tail -1)
need=$((millions * 9500000))
if [ "$free" -lt "$need" ]; then
    echo "billion: $folder has $((free >> 30)) GB free, $((need >> 30)) GB are needed" >&2
    exit 1
fi

# stage NAME COMMAND...: prints wall time, CPU time and the largest resident size of COMMAND
stage() {
    local name=$1
    shift
    "$build/bench/timer" "$timing" -- "$@" || { echo "billion: $name failed" >&2; exit 1; }
    read -r wall user system rss status <"$timing"
    [ "$status" = 0 ] || { echo "billion: $name ended with status $status" >&2; exit 1; }
    printf '%-34s wall %7.1f s   cpu %7.1f s   largest resident size %6.0f MB\n' "$name" \
        "$(echo "$wall / 1000000000" | bc -l)" "$(echo "($user + $system) / 1000000000" | bc -l)" \
        "$(echo "$rss / 1024" | bc -l)"
}

stage 'the program alone' "$build/tests/victims/loop" "$millions"
stage 'recorded (mallow record --keep-raw)' "$build/mallow" record -q --keep-raw -o "$file" -- \
    "$build/tests/victims/loop" "$millions"
raw=$(stat -c %s "$file")
stage 'sealed and reported, first time' "$build/mallow" report --json -n 5 "$file"
sealed=$(stat -c %s "$file")
stage 'reported from the sealed file' "$build/mallow" report --json -n 5 "$file"
"$build/mallow" report --json -n 5 "$file" >"$file.json"
python3 - "$file.json" "$raw" "$sealed" "$millions" <<'PYTHON'
import json, sys
doc = json.load(open(sys.argv[1]))
raw, sealed, millions = map(int, sys.argv[2:5])
p = doc["processes"][0]
print(f"{doc['events']} events, {doc['lost_events']} lost, complete: {p['complete']}; malloc "
      f"{p['calls']['malloc']}, free {p['calls']['free']}; peak {p['peak_live_bytes']} bytes in "
      f"{p['peak_live_blocks']} blocks, {p['end_live_bytes']} bytes live at the end")
print(f"raw {raw / doc['events']:.2f} bytes an event, sealed {sealed / doc['events']:.2f}")
pairs = millions * 500000
# every malloc, every free (of which the first of each place is of NULL), 1,000 frees at the end, and
# one buffer of printf
wrong = (p["calls"]["malloc"], p["calls"]["free"]) != (pairs + 1, pairs + 1000) or doc["lost_events"]
if wrong:
    print("WRONG: not the events that the program made")
sys.exit(bool(wrong))
PYTHON
