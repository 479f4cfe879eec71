#!/usr/bin/env python3
"""Workloads and replays against their bars. Records a Python run (PYTHONMALLOC=malloc) and a ring of threads;
prints a table. CPU times, medians of ROUNDS, and ratios within one run; the last rows want a quiet machine.
Usage: replay.py BUILD [ROUNDS]"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
MALLOW = os.path.join(build, "mallow")
REPLAYER = os.path.join(build, "mallow-replay")
RING = os.path.join(build, "tests", "workload", "ring")

WORK = """import ast, os
folder = os.path.dirname(os.__file__)
for name in sorted(os.listdir(folder))[:120]:
    if name.endswith(".py"):
        ast.parse(open(os.path.join(folder, name), encoding="utf-8").read())
"""

# A malloc of its own in front of glibc's, with `SPIN` turns of a loop that does nothing.
SLOW = """#include <stddef.h>
extern void *__libc_malloc(size_t);
void *malloc(size_t n) { for (volatile int i = 0; i < SPIN; i++); return __libc_malloc(n); }
"""


def run(*command, **environment):
    """Output and CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode:
        sys.exit(f"{' '.join(command)}: {p.stderr}")
    return p.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def replay(workload, *options):
    return [json.loads(run(MALLOW, "replay", "--json", *options, workload)[0]) for _ in range(rounds)]


def middle(runs, key):
    return statistics.median(key(r) for r in runs)


def cpu(r):
    return r["user_ns"] + r["system_ns"]


def row(what, value, bar):
    print(f"| {what} | {value} | {bar} |", flush=True)


def measure(name, trace, workload):
    events = sum(sum(p["calls"].values()) for p in json.loads(run(MALLOW, "report", "--json", trace)[0])["processes"])
    run(MALLOW, "workload", "-q", trace, "-o", workload)  # warm
    took = statistics.median(run(MALLOW, "workload", "-q", trace, "-o", workload)[1] for _ in range(rounds))
    first = replay(workload, "--order", "recorded")[0]
    row(f"{name}: conversion, M events/s of CPU time", f"{events / took / 1e6:.0f}", ">= 25")
    row(f"{name}: bytes an operation, order and times included",
        f"{os.path.getsize(workload) / first['operations']:.2f}", "<= 5")
    row(f"{name}: peak ideal RSS, recorded order", first["peak_ideal_rss_bytes"],
        f"= {first['recorded']['peak_live_bytes']}")
    dependent = replay(workload)
    row(f"{name}: peak ideal RSS, dependent order",
        f"{middle(dependent, lambda r: r['peak_ideal_rss_bytes']) / first['recorded']['peak_live_bytes'] - 1:+.2%}",
        "within 2%")
    row(f"{name}: allocator's share of all cycles", f"{middle(dependent, lambda r: r['allocator_share']):.0%}", ">= 50%")
    dry = replay(workload, "--dry-run")
    row(f"{name}: the replayer's own cost, ns an operation (dry run, sampled)",
        f"{middle(dry, cpu) / first['operations']:.1f}", "<= 10 (one thread)")
    row(f"{name}: the replayer's own memory, MB", f"{first['own_bytes'] / 2**20:.1f}", "<= 64 + 16 B a block")


def number(n):
    """As dj/malloc's workloads write it."""
    out = [n & 127]
    while n := n >> 7:
        out.insert(0, n & 127 | 128)
    return bytes(out)


def handovers(folder, turns):
    """Two threads resize one block in turn: nothing but hand-overs. Ns for each in a dry run, against what the
    two threads need to pass a cache line on. Under the first-in first-out scheduler where that is allowed, so
    that a busy machine does not take the processors away."""
    bodies = [bytearray(b"\x02\x01" + number(100)), bytearray()]
    for i in range(turns):
        if i:
            bodies[1 - i % 2] += b"\x06" + number(i)
            bodies[i % 2] += b"\x07" + number(i)
        bodies[i % 2] += b"\x04\x01\x01" + number(100)

    def head(at):
        return (b"\x08\x02\x09" + number(turns) + b"\x0a\x02\x0b" + number(at) + b"\x0b" +
                number(at + len(bodies[0]) + 1) + b"\x01")
    size = 0
    while len(head(size)) != size:
        size = len(head(size))
    source, workload = os.path.join(folder, "hand.wl"), os.path.join(folder, "hand.mwl")
    with open(source, "wb") as f:
        f.write(head(size) + bytes(bodies[0]) + b"\x01" + bytes(bodies[1]) + b"\x01")
    run(MALLOW, "workload", "-q", source, "-o", workload)
    first = ["chrt", "-f", "20"]
    if subprocess.run([*first, "true"], capture_output=True).returncode:
        first = []
    ratios = []
    for _ in range(rounds):
        line = float(run(*first, os.path.join(build, "bench", "handover"), str(turns), "5")[0])
        hand = min(json.loads(run(*first, REPLAYER, workload, "dry=1", "timing=none")[0])["wall_ns"]
                   for _ in range(5)) / turns
        ratios.append(hand / line)
    row("a hand-over, in transfers of a cache line between the two threads", f"{statistics.median(ratios):.2f}", "<= 2")


PERL = """my %h; for my $i (1..150000) { push @{$h{"key".($i%40000)}}, "v"x($i%50).$i; } my @k = sort keys %h;"""
SQL = """create table t(a integer primary key, b text);
with recursive c(i) as (select 1 union all select i+1 from c where i<200000)
insert into t select i,hex(randomblob(i%60)) from c;
create index x on t(b); delete from t where a%3=0; select count(*) from t;"""


def resident(folder, name, *program):
    """The replay with every byte touched, against the heap part of the recorded program's resident size: what is
    neither the recorder's nor of files, stacks and mappings that are not malloc's, at the largest size seen."""
    trace, workload = (os.path.join(folder, "resident" + end) for end in (".mlw", ".mwl"))
    run(MALLOW, "record", "-q", "--stacks=none", "-o", trace, "--", *program, PYTHONMALLOC="malloc")
    process = max(json.loads(run(MALLOW, "report", "--json", trace)[0])["processes"],
                  key=lambda p: p["peak_live_bytes"])
    split = process["resident_at_peak"]
    heap = split["live_bytes"] + split["rounding_bytes"] + split["heap_and_arenas_free_bytes"]
    heap += process["peak_rss_bytes"] - split["resident_bytes"]
    run(MALLOW, "workload", "-q", "--pid", str(process["pid"]), trace, "-o", workload)
    told = middle(replay(workload, "--touch", "bytes"), lambda r: r["workload_peak_rss_bytes"])
    row(f"{name}: peak RSS with every byte touched, to the program's heap part ({heap / 1e6:.1f} MB)",
        f"{told / heap - 1:+.1%}", "within 5%")


def main():
    print("| what | measured | bar |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "work.py")
        with open(script, "w", encoding="utf-8") as f:
            f.write(WORK)
        programs = {"python": ["/usr/bin/python3", script], "ring": [RING, "50000"]}
        for name, program in programs.items():
            trace, workload = (os.path.join(folder, name + end) for end in (".mlw", ".mwl"))
            run(MALLOW, "record", "-q", "--stacks=none", "-o", trace, "--", *program, PYTHONMALLOC="malloc")
            measure(name, trace, workload)
        handovers(folder, 100000)
        resident(folder, "python3", "/usr/bin/python3", script)
        resident(folder, "perl", "perl", "-e", PERL)
        resident(folder, "sqlite3", "sqlite3", ":memory:", SQL)
        workload = os.path.join(folder, "python.mwl")
        libraries = []
        for spin in 0, 6:
            source, library = os.path.join(folder, "s.c"), os.path.join(folder, f"libspin{spin}.so")
            with open(source, "w", encoding="utf-8") as f:
                f.write(SLOW)
            run("cc", "-O2", "-shared", "-fPIC", f"-DSPIN={spin}", source, "-o", library)
            libraries.append(library)
        for name, other in ("itself", libraries[0]), ("a malloc that is a little slower", libraries[1]):
            out = json.loads(run(MALLOW, "compare", "--json", "--repeat", "15", "--alloc", f"{libraries[0]},{other}",
                                 workload)[0])["candidates"][1]["cpu_ns"]
            row(f"compare with {name}: CPU ratio", f"{out['ratio']:.3f} [{out['ratio_low']:.3f} {out['ratio_high']:.3f}]",
                "no difference" if name == "itself" else "a difference")


main()
