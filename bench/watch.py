#!/usr/bin/env python3
"""The watch half of `make bench`: what libmallow-watch.so adds to a program, beside its bars and peers.

usage: watch.py BUILD [--rounds N] [--seconds S] [--only WORD] [--json FILE]

As bench.py does it: rounds of all variants in changing order; CPU time of the program alone, medians
of the rounds' differences. The floor is a library that forwards malloc and free and does nothing else.
jemalloc with its profiling is compared with jemalloc without it. Poireau's figures are those that were
measured elsewhere on this kind of machine (it is not packaged). Exits 0 whatever the figures are."""
import glob
import os
import statistics
import subprocess
import sys
import time

from bench import Bench, Table, main

PAIRS, CHURN, SAMPLED, BIG = 30000000, 4000000, 400000, 3000000


class WatchBench(Bench):
    def find_workloads(self):
        only, self.options.only = self.options.only, None
        w = super().find_workloads()
        self.options.only = only
        program = os.path.join(self.build, "bench")
        w = {"pairs": [f"{program}/pairs", str(PAIRS)], "churn": [f"{program}/churn", str(CHURN), "2000"],
             "sampled": [f"{program}/pairs", str(SAMPLED)],
             "sampled deep": [f"{program}/churn", str(SAMPLED), "2000"],
             "big": [f"{program}/sized", str(BIG), str(1 << 20)],
             **{n: w[n] for n in ("compiler", "git", "python") if n in w}}
        self.env.pop("python", None)  # as people run it: most of its blocks never reach malloc
        self.library = os.path.join(self.build, "lib", "libmallow-watch.so")
        self.jemalloc = next(iter(glob.glob("/usr/lib/*/libjemalloc.so.2")), None)
        if not self.jemalloc:
            self.notes.append("jemalloc is not installed: its column is missing (apt-get install libjemalloc2)")
        self.notes.append("tcmalloc's sampling is not in libtcmalloc_minimal: not measured")
        return {k: v for k, v in w.items() if not only or only in k}

    def watched(self, **settings):
        return [f"LD_PRELOAD={self.library}",
                *(f"MALLOW_WATCH_{k.upper()}={v}" for k, v in settings.items())]

    def environments(self, name):
        """Variant -> what it has in its environment."""
        v = {"plain": []}
        if name in ("pairs", "churn"):
            v |= {"floor": [f"LD_PRELOAD={os.path.join(self.build, 'bench', 'libforward.so')}"],
                  "on": self.watched(), "off": self.watched(paused=1), "32M": self.watched(period="32M")}
            if self.jemalloc:
                v |= {"jemalloc": [f"LD_PRELOAD={self.jemalloc}"],
                      "jemalloc prof": [f"LD_PRELOAD={self.jemalloc}",
                                        "MALLOC_CONF=prof:true,lg_prof_sample:19,prof_final:false"]}
        elif name.startswith("sampled"):
            v |= {"each": self.watched(period=1, guard="off"), "each, usual guard": self.watched(period=1)}
        elif name == "big":
            v |= {"32M": self.watched(period="32M"), "512K": self.watched()}
        else:
            v |= {"on": self.watched(), "again": []}
        return v

    def variants(self, name):
        return list(self.environments(name))

    def run_variant(self, name, variant):
        return self.timed(self.workloads[name], [*self.env.get(name, []), *self.environments(name)[variant]])

    def own_memory(self, name, variant):
        """The most memory of its own (anonymous and shared, its part of it) that the program was seen with, in
        bytes. Its resident size counts pages of files, too: those of unwind tables, which are in the page
        cache anyway and belong to nobody."""
        env = dict(os.environ, **dict(e.split("=", 1) for e in self.environments(name)[variant]))
        most = 0
        with subprocess.Popen(self.workloads[name], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as p:
            while p.poll() is None:
                try:
                    with open(f"/proc/{p.pid}/smaps_rollup", encoding="ascii") as f:
                        rows = dict(line.split(":", 1) for line in f.read().splitlines()[1:])
                    most = max(most, 1024 * sum(int(rows[k].split()[0]) for k in ("Pss_Anon", "Pss_Shmem")))
                except (OSError, KeyError):
                    pass
                time.sleep(0.003)
        return most

    def above(self, name, variant, base, per):
        a, b = self.samples.get((name, variant)), self.samples.get((name, base))
        return statistics.median((x["cpu"] - y["cpu"]) / per for x, y in zip(a, b)) if a and b else None


def table(b):
    t = Table()

    def beside(name, per):
        parts = []
        if b.samples.get((name, "plain")):
            parts.append(f"plain {b.median(name, 'plain', 'cpu') / per:.1f} ns")
        for what, v, base in (("floor", "floor", "plain"), ("at 32M", "32M", "plain"),
                              ("jemalloc profiling", "jemalloc prof", "jemalloc")):
            x = b.above(name, v, base, per)
            if x is not None:
                parts.append(f"{what} {x:.2f} ns")
        return ", ".join(parts)
    t.row("malloc/free pair of 100 B, 512 KiB, added", b.added("pairs", "on", PAIRS), "{:.2f} ns", 1.5, "<= 1.5 ns",
          beside("pairs", PAIRS) + "; Poireau 4.7, traced 10")
    t.row("the same, loaded and off", b.added("pairs", "off", PAIRS), "{:.2f} ns", 0.8, "<= 0.8 ns", "Poireau 0.9")
    t.row("churn operation, 512 KiB, added", b.added("churn", "on", CHURN), "{:.2f} ns", 4, "<= 4 ns",
          beside("churn", CHURN) + "; Poireau 8.6, traced 19")
    for name, what in (("sampled", "2 frames"), ("sampled deep", "20 frames")):
        t.row(f"one sampled block, {what}, stacks included", b.added(name, "each", SAMPLED), "{:.0f} ns", 1000,
              "<= 1000 ns", "Poireau 16-20 us")
        t.row("  the same, 1 in 32 guarded", b.added(name, "each, usual guard", SAMPLED), "{:.0f} ns", 1000,
              "<= 1000 ns")
    x = b.added("big", "512K", BIG)
    t.row("pair of 1 MB, 32 MB period, added", b.added("big", "32M", BIG), "{:.1f} ns", 60, "<= 60 ns",
          ("" if x is None else f"at 512 KiB {x:.0f} ns; ") + "Poireau 573, traced 985")
    for name in ("compiler", "git", "python"):
        noise = b.ratio(name, "again", "cpu")
        t.row(f"{name}, default settings, guard on, CPU time", b.ratio(name, "on", "cpu"), "{:.4f}x", 1.01,
              "<= 1.0100x", "" if noise is None else f"the same program again {noise:.4f}x; Poireau 1-5%")
        rss, plain = b.median(name, "on", "rss"), b.median(name, "plain", "rss")
        if rss is not None:
            own = b.own_memory(name, "on") - b.own_memory(name, "plain")
            t.row("  its extra memory", own / 2**20, "{:.1f} MB", 4, "<= 4 MB",
                  f"resident, with pages of files: {(rss - plain) / 2**20:.1f} MB")
    return t


if __name__ == "__main__":
    sys.exit(main(__doc__, WatchBench, table, rounds=9, seconds=240))
