#!/usr/bin/env python3
"""Recordings and traces that others publish, read by `mallow import` and `mallow report`.

Usage: public.py MALLOW CLONES [--fetch]

CLONES/OWNER/NAME is a clone of github.com/OWNER/NAME, or a bare one; with --fetch those that are missing are made by git. The files
are not kept here. Each must give the verdict of the table: so many calls and so much at the peak, or a refusal with that reason. The
figures of heaptrack's files are those of heaptrack_print 1.4, which is asked as well where it is installed; a realloc is an
allocation there, and so it is here. Prints a line for each file; the exit status is 1 when a verdict differs.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

NO_EVENT = "has no event of a probe on malloc"
NO_TIMES = "nor the output of perf script with the time of each event"
NO_FRAME = r"line \d+: neither an event nor a frame of perf script"
PLACE = "src/test/fixtures/upgrades/"
SAMPLES = "sample/profiles/linux-perf/"
COLLAPSE = "tests/data/collapse-perf/"
# Of a repository, its commit, and the files: allocations and bytes at the peak, or the refusal.
PUBLIC = {
    ("KDE/heaptrack", "3e6cce3d210a6672fe6f92de0bed567c49b7a9c5"): {
        "tests/auto/heaptrack.david.18594.gz": (2896, 996970),
        "tests/auto/heaptrack.embedded_lsan_suppressions.84207.zst": (5, 72714),
        "tests/auto/heaptrack.heaptrack_gui.99454.zst": (278534, 12222213),
        "tests/auto/heaptrack.heaptrack_gui.99529.zst": (315255, 64840134),
        "tests/auto/test_sysroot/heaptrack.test_sysroot.expected": (3, 73760),
        "tests/auto/test_sysroot/heaptrack.test_sysroot.raw": "its names are not looked up yet",
    },
    ("ditto-profiling/heaptrack-parser", "c61ac6a4d1efcfb0c5756c4517f5ceee3e537aac"): {"test/data/data_1.gz": (204653, 77250439)},
    ("EyerNi/makong", "2bd86f892d05d2d244da0034b2417913ce78d260"): {"mtrace.log": (9, 1080)},
    ("wlxiong/perftools", "f06efa704315cddc40134f630b0a5205bb619ecc"): {"mtrace.txt": "neither a file of heaptrack"},  # what mtrace(1) says
    ("brendangregg/FlameGraph", "41fee1f99f9276008b7cd112fca19dc3ea84ac32"): {
        "example-perf-stacks.txt.gz": NO_EVENT,
        **{f"test/perf-{name}-01.txt": NO_EVENT for name in ("cycles-instructions", "dd-stacks", "funcab-cmd", "iperf-stacks-pidtid",
                                                             "java-faults", "java-stacks", "mirageos-stacks", "numa-stacks")},
        "test/perf-rust-Yamakaky-dcpu.txt": NO_EVENT,
        **{f"test/perf-{name}.txt": NO_TIMES for name in ("funcab-pid-01", "java-stacks-02", "js-stacks-01", "vertx-stacks-01")},
    },
    ("jlfwong/speedscope", "3613918de0dd55a263d0d04f85b0c8c2039c7bee"): {
        f"{SAMPLES}{name}.linux-perf.txt": NO_EVENT for name in (
            "forks", "one-sample", "rust-mangled", "simple-with-header", "simple-with-pid", "simple", "system-wide")},
    ("firefox-devtools/profiler", "df31314e16bf32fd3a6dd0d61806a80dbb8a99f5"): {
        **{f"{PLACE}{name}.perf.gz": NO_EVENT for name in ("graphviz", "gzip", "test")},
        PLACE + "simple-perf.txt.gz": NO_TIMES,  # of Android's simpleperf, another program
        **{f"{PLACE}simpleperf-{name}.trace.gz": NO_TIMES for name in ("cpu-clock", "task-clock")},
    },
    ("jonhoo/inferno", "929be68e19a27da062623c6da5255e8b96faebbc"): {
        **{f"{COLLAPSE}{name}.txt": NO_EVENT for name in (
            "cpp-stacks-std-function", "go-stacks", "java-inline", "single-event", "single-line-stacks", "sourcepawn-jitdump",
            "versioned-vmlinux")},
        COLLAPSE + "weird-stack-line.txt": NO_FRAME,
    },
    ("Netflix/flamescope", "be26595f1395c32eef71c88a06cb9c8c87f270c2"): {"examples/perf.test01": NO_EVENT},
}
ALLOCATES = {"malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"}


def repository(clones, name, fetch):
    path = os.path.join(clones, name)
    if not os.path.exists(path) and fetch:
        subprocess.run(["git", "clone", "-q", "--bare", "--filter=blob:none", f"https://github.com/{name}.git", path], check=True)
    return path if os.path.exists(path) else None


def read(mallow, path):
    """(allocations, peak), or what it says."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.mlw")
        done = subprocess.run([mallow, "import", "-o", out, path], capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            return done.stderr.strip()
        report = subprocess.run([mallow, "report", "--json", out], capture_output=True, text=True, check=True, timeout=600)
    processes = json.loads(report.stdout)["processes"]
    return (sum(n for p in processes for name, n in p["calls"].items() if name in ALLOCATES),
            max(p["peak_live_bytes"] for p in processes))


def is_peer_of(path, wanted):
    """heaptrack_print counts the same, rounded to five digits."""
    said = subprocess.run(["heaptrack_print", "-f", path, "-p", "0", "-a", "0", "-T", "0", "-l", "0"], capture_output=True, text=True,
                          check=False).stdout
    calls, peak, unit = re.search(r"calls to allocation functions: (\d+).*?peak heap memory consumption: ([\d.]+)([BKMG])", said, re.S).groups()
    bytes_ = float(peak) * {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9}[unit]
    return int(calls) == wanted[0] and abs(bytes_ - wanted[1]) <= wanted[1] / 1000 + 1


def main():
    fetch = "--fetch" in sys.argv
    args = [a for a in sys.argv[1:] if a != "--fetch"]
    if len(args) != 2:
        raise SystemExit(__doc__)
    mallow, clones = os.path.abspath(args[0]), args[1]
    wrong = missing = 0
    for (name, commit), files in PUBLIC.items():
        clone = repository(clones, name, fetch)
        for path, wanted in files.items():
            data = clone and subprocess.run(["git", "-C", clone, "show", f"{commit or 'HEAD'}:{path}"], capture_output=True, check=False)
            if not data or data.returncode:
                print(f"{name} {path}: not there")
                missing += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, os.path.basename(path))
                with open(file, "wb") as f:
                    f.write(data.stdout)
                got = read(mallow, file)
                good = got == wanted if isinstance(wanted, tuple) else isinstance(got, str) and re.search(wanted, got) is not None
                if good and "heaptrack" in name and isinstance(wanted, tuple) and shutil.which("heaptrack_print"):
                    good = is_peer_of(file, wanted)
            wrong += not good
            print(f"{name} {path}: {len(data.stdout)} bytes: {'as wanted' if good else 'WRONG'}: {got}", flush=True)
    print(f"{wrong} differ, {missing} are not there")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
