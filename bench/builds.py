#!/usr/bin/env python3
"""Two builds of mallow in one run: what became faster, and by how much.

usage: builds.py THEN NOW [--rounds N] [--only WORD] [--walks CALLS | --walked FILE]

THEN and NOW are build directories; THEN may be of any commit. Each round runs both builds, in an order that changes, so
what the machine does meanwhile falls on both. Figures are medians over the rounds, and the last column is a ratio: bars in
nanoseconds or seconds hold for one machine only. Both builds read the same recordings, which THEN made: two recordings of
one program may have their moments elsewhere, and take three times as long to report. The programs are those of NOW.

The last rows need a recording of a Python program with many call stacks. --walks makes one (47000: 59 million calls);
--walked names one that THEN made before. Commands on one processor run under taskset. Exits 0 whatever
the figures are, 1 when something could not be run."""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys

from bench import CHURN, PAIRS, Bench, Failed, progress
from short import ShortBench

HERE = os.path.dirname(os.path.abspath(__file__))
LONG, RETURNS = 20000000, 100  # operations of two events; million events
ONE = ["taskset", "-c", "0"]


class Build:
    """A build, and its files."""

    def __init__(self, directory, bench, name):
        self.directory, self.bench, self.name = os.path.abspath(directory), bench, name
        self.mallow = os.path.join(self.directory, "mallow")
        told = subprocess.run([self.mallow, "report", "--help"], capture_output=True, text=True, check=True).stdout
        self.report = ["report", *(["--index=never"] if "--index" in told else [])]  # anew

    def path(self, name):
        return self.bench.path(f"{self.name}.{name}")


class Two(ShortBench):
    def __init__(self, options):
        self.walks = options.walks
        super().__init__(options.now, options)
        self.builds = [Build(options.then, self, "then"), Build(options.now, self, "now")]
        self.files = {"walks": os.path.abspath(options.walked)} if options.walked else {}

    def find_workloads(self):
        self.short = super().find_workloads()
        w = Bench.find_workloads(self)
        w["long"] = [w["churn"][0], str(LONG), "2000"]
        script = os.path.join(HERE, "workload", "walks.py")
        w["walks"] = ["/usr/bin/python3", script, str(self.walks or 0)]
        self.env["walks"] = ["PYTHONMALLOC=malloc"]
        return {**w, **self.short}

    def run_variant(self, name, variant):
        return super().run_variant(name, variant) if name in self.short else Bench.run_variant(self, name, variant)

    def recording(self, name, raw=False):
        """Of `name`, sealed; raw: a copy that is not."""
        then = self.builds[0]
        if name not in self.files:
            kept = then.path(name + ".raw")
            self.timed(self.workloads[name], self.env.get(name, []),
                       [then.mallow, "record", "-q", "--keep-raw", "-o", kept, "--"])
            self.files[name] = then.path(name + ".mlw")
            shutil.copyfile(kept, self.files[name])
            subprocess.run([then.mallow, "report", self.files[name]], stdout=subprocess.DEVNULL, check=True)
        return then.path(name + ".raw") if raw else self.files[name]

    # What one build takes, in seconds, or in ns.

    def both(self, build, name, variant):
        """What the program takes by itself, and in that variant of the build."""
        self.mallow = build.mallow
        return self.run_variant(name, "plain"), self.run_variant(name, variant)

    def added(self, build, name, variant, per):
        """Processor time above what it takes by itself."""
        plain, it = self.both(build, name, variant)
        return (it["cpu"] - plain["cpu"]) / per

    def slower(self, build, name):
        """The program's wall time as a multiple of what it takes by itself."""
        plain, it = self.both(build, name, "full")
        return it["wall"] / plain["wall"]

    def reading(self, build, name, *command, before=()):
        return self.timed([*before, build.mallow, *command, self.recording(name)])["wall"] / 1e9

    def sealing(self, build, before=()):
        """Seconds of a first report less those of a second."""
        file = build.path("seal.mlw")
        self.recording("long")
        shutil.copyfile(self.recording("long", raw=True), file)
        command = [*before, build.mallow, *build.report, file]
        both = self.timed(command)["wall"]
        alone = self.timed(command)["wall"]
        os.unlink(file)
        return (both - alone) / 1e9

    def returning(self, build):
        """Seconds from the end of a program of 100 million calls until `mallow record` returns."""
        out = subprocess.run([sys.executable, os.path.join(HERE, "returns.py"), build.directory, str(RETURNS),
                              os.path.join(self.build, "bench", "churn")], capture_output=True, text=True, check=False,
                             cwd=self.work)
        if out.returncode:
            raise Failed(f"returns.py: {out.stderr[-300:]}")
        return float(next(line for line in out.stdout.splitlines() if "returned" in line).split()[2])

    def again(self, build, *command):
        """Seconds of the second of two equal commands, with whatever the build keeps from the first."""
        file = build.path("again.mlw")
        if not os.path.exists(file):
            shutil.copyfile(self.recording("walks"), file)
        for _ in range(2):
            last = self.timed([build.mallow, *command, file])["wall"] / 1e9
        return last


def rows(b):
    """Name to (what measures it of a build, unit)."""
    table = {
        "churn, full stacks, added an event": (lambda x: b.added(x, "churn", "full", 2 * CHURN), "ns"),
        "churn, no stacks, added an event": (lambda x: b.added(x, "churn", "none", 2 * CHURN), "ns"),
        "pairs, no stacks, added an event": (lambda x: b.added(x, "pairs", "none", 2 * PAIRS), "ns"),
        "compiler, full stacks, wall": (lambda x: b.slower(x, "compiler"), "x"),
        "seal 40 M events, one processor": (lambda x: b.sealing(x, ONE), "s"),
        "seal 40 M events": (b.sealing, "s"),
        "report of 40 M events, one processor": (lambda x: b.reading(x, "long", *x.report, before=ONE), "s"),
        "report of 40 M events": (lambda x: b.reading(x, "long", *x.report), "s"),
        "to a workload, 40 M events, one processor":
            (lambda x: b.reading(x, "long", "workload", "-q", "-o", x.path("mwl"), before=ONE), "s"),
        "dump of 6 M events": (lambda x: b.reading(x, "churn", "dump"), "s"),
        "export of 6 M events, csv": (lambda x: b.reading(x, "churn", "export", "--format=csv", "-o", "/dev/null"), "s"),
        "record returns after 100 M calls": (b.returning, "s"),
    }
    if "compiler" not in b.workloads:
        del table["compiler, full stacks, wall"]
    for name in b.short:
        for what in ("record", "watch"):
            table[f"{name} under {what}, added a program"] = (
                lambda x, name=name, what=what: b.added(x, name, what, 1e6), "ms")
    if b.options.walks or b.options.walked:
        table |= {
            "Python, report": (lambda x: b.reading(x, "walks", *x.report), "s"),
            "Python, report --json": (lambda x: b.reading(x, "walks", *x.report, "--json"), "s"),
            "Python, page": (lambda x: b.reading(x, "walks", *x.report, "--html", x.path("html")), "s"),
            "Python, report again": (lambda x: b.again(x, "report"), "s"),
            "Python, page again": (lambda x: b.again(x, "report", "--html", x.path("html")), "s"),
        }
    return table


def measure(b, rounds, only):
    """Prints each row as soon as it is known."""
    order = random.Random(1)
    print(f"{'what':46} {'then':>9} {'now':>9}      then / now")
    for name, (of, unit) in rows(b).items():
        if only not in name:
            continue
        samples = {build.name: [] for build in b.builds}
        for r in range(rounds):
            builds = list(b.builds)
            order.shuffle(builds)
            for build in builds:
                progress(f"round {r + 1}: {name}, {build.name}")
                samples[build.name].append(of(build))
        progress("")
        then, now = (statistics.median(samples[build.name]) for build in b.builds)
        print(f"{name:46} {then:9.2f} {now:9.2f} {unit:3}  {then / now if now > 0 else float('inf'):9.2f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("then")
    p.add_argument("now")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", dest="rows", default="", metavar="WORD")
    p.add_argument("--walks", type=int, metavar="CALLS")
    p.add_argument("--walked", metavar="FILE")
    options = p.parse_args()
    options.only = None  # of Bench: all workloads
    try:
        b = Two(options)
        measure(b, options.rounds, options.rows)
    except (Failed, subprocess.SubprocessError, OSError) as problem:
        print(f"builds: {problem}", file=sys.stderr)
        return 1
    for note in b.notes:
        print(f"note: {note}")
    print(f"note: load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors at the end")
    shutil.rmtree(b.work, True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
