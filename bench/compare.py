#!/usr/bin/env python3
"""What `mallow compare` can tell apart, and what `mallow tune` finds. Tables for docs; nothing here is a test.

TRIES comparisons of an allocator with itself (two names of one library), and TRIES with the same library made 3 %
slower: one call in 256 burns a chain of multiplications, as many as make 3 % of the workload's CPU time (a few in
each call would cost nothing: the processor does them beside the rest). Then tune on a
workload made to fragment (tests/tune/fragment.c).
Usage: compare.py BUILD [TRIES [WORKLOAD]]; 20 tries, of the corpus's git, by default."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
tries = int(sys.argv[2]) if len(sys.argv) > 2 else 20
MALLOW = os.path.join(build, "mallow")
WORKLOAD = sys.argv[3] if len(sys.argv) > 3 else os.path.join(build, "corpus", "git.mwl.zst")
FRAGMENT = os.path.join(build, "tests", "tune", "fragment")

# glibc's allocator behind functions of its own, of which one call in 256 first burns TURNS dependent multiplications.
SHIM = """#include <errno.h>
#include <stddef.h>
#include <stdint.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static inline void burn(void)
{
    static __thread uint8_t calls __attribute__((tls_model("initial-exec")));
    uint64_t x = 3;
    if (++calls)
        return;
    for (int i = 0; i < TURNS; i++)
        __asm__ volatile("imul %0, %0" : "+r"(x));
}
void *malloc(size_t n) { burn(); return __libc_malloc(n); }
void *calloc(size_t n, size_t k) { burn(); return __libc_calloc(n, k); }
void *realloc(void *p, size_t n) { burn(); return __libc_realloc(p, n); }
void free(void *p) { burn(); __libc_free(p); }
void *memalign(size_t a, size_t n) { burn(); return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { burn(); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n)
{
    burn();
    *p = __libc_memalign(a, n);
    return *p ? 0 : ENOMEM;
}
"""


def mallow(*arguments):
    p = subprocess.run([MALLOW, *arguments], capture_output=True, text=True, check=False)
    if p.returncode:
        sys.exit(f"mallow {' '.join(arguments)}: {p.stderr}")
    return p.stdout


def library(folder, name, turns):
    source, out = os.path.join(folder, "shim.c"), os.path.join(folder, f"lib{name}.so")
    with open(source, "w", encoding="utf-8") as f:
        f.write(SHIM)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-DTURNS={turns}", source, "-o", out], check=True)
    return out


def cpu_ns(alloc, rounds=15):
    runs = json.loads(mallow("replay", "--json", "--touch", "pages", "--repeat", str(rounds), "--alloc", alloc,
                             WORKLOAD))["runs"]
    return sorted(r["user_ns"] + r["system_ns"] for r in runs)[rounds // 2], runs[0]


def turns_for(base, share):
    """Multiplications in 256 calls that cost this share of the CPU time; one takes 3 cycles on x86-64 of today."""
    time, run = cpu_ns(base)
    calls = sum(c["count"] for c in run["calls"].values())
    return max(1, round(share * time * run["cycles_per_ns"] / calls / 3 * 256)), calls, time


def compare_many(first, second):
    """How often each metric differed, the CPU ratios, and the rounds."""
    differs, ratios, rounds = {"cpu_ns": [0, 0], "peak_rss_bytes": [0, 0]}, [], []
    for _ in range(tries):
        out = json.loads(mallow("compare", "--json", "--alloc", f"{first},{second}", WORKLOAD))
        candidate = out["candidates"][1]
        for key, count in differs.items():
            if candidate[key]["differs"]:
                count[candidate[key]["ratio"] > 1] += 1
        ratios.append(candidate["cpu_ns"]["ratio"])
        rounds.append(out["rounds"])
    return differs, sorted(ratios), sorted(rounds)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def show(what, found, bar):
    differs, ratios, rounds = found
    middle = tries // 2
    row(what, f"{differs['cpu_ns'][1]} of {tries}", f"{differs['cpu_ns'][0]}", f"{sum(differs['peak_rss_bytes'])}",
        f"{ratios[middle]:.3f} ({ratios[0]:.3f}..{ratios[-1]:.3f})", rounds[middle], bar)


def main():
    with tempfile.TemporaryDirectory() as folder:
        base = library(folder, "base", 0)
        same = os.path.join(folder, "libsame.so")
        shutil.copy(base, same)
        turns, calls, time = turns_for(base, 0.03)
        slow = library(folder, "slow", turns)
        print(f"{os.path.basename(WORKLOAD)}: {calls:,} calls, {time / 1e6:.1f} ms; {turns} multiplications in 256\n")
        row("compared with", "CPU: slower", "CPU: faster", "peak RSS: differs", "CPU ratio: median (least..most)",
            "rounds", "bar")
        row(*["---"] * 7)
        show("itself", compare_many(base, same), "no difference")
        show("3 % slower", compare_many(base, slow), "slower")
        print()
        trace, workload = os.path.join(folder, "f.mlw"), os.path.join(folder, "f.mwl")
        mallow("record", "-q", "--stacks=none", "-o", trace, "--", FRAGMENT)
        mallow("workload", "-q", "-o", workload, trace)
        row("tune on a workload made to fragment", "peak RSS against the default", "confirmed", "setting", "bar")
        row(*["---"] * 5)
        for seed in 1, 2, 3:
            out = json.loads(mallow("tune", "--json", "--objective", "peak", "--runs", "60", "--seed", str(seed),
                                    workload))["winners"][0]
            row(f"seed {seed}, 60 runs", f"{out['ratio'] - 1:+.1%}", out["confirmed"], out["environment"], "-20%")


main()
