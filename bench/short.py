#!/usr/bin/env python3
"""The table of `make bench` for short programs: what recording and watching add to one that is over at once.

usage: short.py BUILD [--rounds N] [--seconds S] [--only WORD] [--json FILE]

A round runs each program 200 times, one after the other, as a build or a script does: alone, under one `mallow
record`, and under one `mallow watch`. Costs are processor time, user and system, of everything together (wait4):
of the programs, and of what mallow does beside them, its start and sealing among it. The programs' own part, which
is what they wait for, stands beside it, with the pages that they touched first. Exits 0 whatever the figures are."""
import os
import shutil
import statistics
import subprocess
import sys

from bench import Bench, Failed, Table, main

COUNT = 200


class ShortBench(Bench):
    def find_workloads(self):
        self.env = {}
        w = {"true": [shutil.which("true")]}
        if shutil.which("git"):
            w["git --version"] = [shutil.which("git"), "--version"]
        else:
            self.notes.append("git is not installed: no git row")
        gcc = shutil.which("gcc")
        cc1 = gcc and subprocess.run([gcc, "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
        if cc1 and os.access(cc1, os.X_OK):
            empty = self.path("empty.c")
            with open(empty, "w", encoding="ascii"):
                pass
            w["compiler, empty file"] = [cc1, "-quiet", empty, "-o", "/dev/null"]
        else:
            self.notes.append("gcc is not installed: no compiler row")
        return {k: v for k, v in w.items() if not self.options.only or self.options.only in k}

    def variants(self, name):
        return ["plain", "record", "watch"]

    def run_variant(self, name, variant):
        recording, counts = self.path("short.mlw"), self.path("counts")
        many = [os.path.join(self.build, "bench", "many"), counts, str(COUNT), "--", *self.workloads[name]]
        before = {"plain": [], "record": [self.mallow, "record", "-o", recording, "--"],
                  "watch": [self.mallow, "watch", "--"]}[variant]
        try:
            whole = self.timed([*before, *many])
            with open(counts, encoding="ascii") as f:
                user, system, faults = map(int, f.read().split())
        except (OSError, ValueError) as problem:
            raise Failed(f"{name}, {variant}: {problem}") from problem
        finally:
            for path in (recording, counts):
                if os.path.exists(path):
                    os.unlink(path)
        return {"cpu": whole["cpu"] / COUNT, "own": (user + system) / COUNT, "faults": faults / COUNT}

    def more(self, name, variant, what):
        a, b = self.samples.get((name, variant)), self.samples.get((name, "plain"))
        return statistics.median(x[what] - y[what] for x, y in zip(a, b)) if a and b else None


def table(b):
    t = Table()
    for name in b.workloads:
        for variant, bar in (("record", 1.5), ("watch", 0.7)):
            added = b.more(name, variant, "cpu")
            about = "" if added is None else (f"of it the program's own {b.more(name, variant, 'own') / 1e6:.2f} ms, "
                                              f"{b.more(name, variant, 'faults'):.0f} pages; plain "
                                              f"{b.median(name, 'plain', 'own') / 1e6:.2f} ms")
            t.row(f"{name} under {variant}, added a program", added and added / 1e6, "{:.2f} ms", bar,
                  f"<= {bar} ms", about)
    return t


if __name__ == "__main__":
    sys.exit(main(__doc__, ShortBench, table, rounds=7, seconds=120))
