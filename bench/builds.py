#!/usr/bin/env python3
"""Two builds of mallow in one run: what became faster, and by how much.

usage: builds.py THEN NOW [--rounds N] [--only WORD] [--walks CALLS | --walked THEN.mlw NOW.mlw]

THEN and NOW are build directories; THEN may be of any commit. Each round runs both builds, in an order that changes, so
what the machine does meanwhile falls on both. Figures are medians over the rounds, and the last column is a ratio: bars in
nanoseconds or seconds hold for one machine only. Each build reads recordings of its own. The programs are those of NOW.

The last rows need a recording of a Python program with many call stacks. --walks makes one with each build (47000: 59
million calls); --walked names those that were made before. Commands on one processor run under taskset. Exits 0 whatever
the figures are, 1 when something could not be run."""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys

from bench import Bench, Failed, progress

HERE = os.path.dirname(os.path.abspath(__file__))
CHURN, PAIRS, LONG, RETURNS = 3000000, 6000000, 20000000, 100  # operations of two events; the last: million events
ONE = ["taskset", "-c", "0"]
SHORT = 200


class Build:
    """A build, and the recordings that it made."""

    def __init__(self, directory, bench, name):
        self.directory, self.bench, self.name = os.path.abspath(directory), bench, name
        self.mallow = os.path.join(self.directory, "mallow")
        told = subprocess.run([self.mallow, "report", "--help"], capture_output=True, text=True, check=True).stdout
        self.no_index = ["--index=never"] if "--index" in told else []
        self.files = {}

    def path(self, name):
        return self.bench.path(f"{self.name}.{name}")

    def recording(self, name, raw=False):
        """Of `name`, sealed; raw: a copy that is not."""
        if name not in self.files:
            kept = self.path(name + ".raw")
            command, env = self.bench.workloads[name], self.bench.env.get(name, [])
            self.bench.timed(command, env, [self.mallow, "record", "-q", "--keep-raw", "-o", kept, "--"])
            file = self.path(name + ".mlw")
            shutil.copyfile(kept, file)
            subprocess.run([self.mallow, "report", file], stdout=subprocess.DEVNULL, check=True)
            self.files[name] = file
        return self.path(name + ".raw") if raw else self.files[name]


class Two(Bench):
    def __init__(self, options):
        self.walks = options.walks
        super().__init__(options.now, options)
        self.builds = [Build(options.then, self, "then"), Build(options.now, self, "now")]
        for build, file in zip(self.builds, options.walked or ()):
            build.files["walks"] = os.path.abspath(file)

    def find_workloads(self):
        w = super().find_workloads()
        w["long"] = [w["churn"][0], str(LONG), "2000"]
        script = os.path.join(HERE, "workload", "walks.py")
        w["walks"] = ["/usr/bin/python3", script, str(self.walks or 0)]
        self.env["walks"] = ["PYTHONMALLOC=malloc"]
        return w

    # What one build takes, in seconds, or in ns for an event.

    def added(self, build, name, events, *options):
        """ns of the program's processor time for an event, above what it takes alone."""
        file = build.path("timing.mlw")
        plain = self.timed(self.workloads[name], self.env.get(name, []))
        try:
            it = self.timed(self.workloads[name], self.env.get(name, []),
                            [build.mallow, "record", "-q", "--keep-raw", *options, "-o", file, "--"])
        finally:
            if os.path.exists(file):
                os.unlink(file)
        return (it["cpu"] - plain["cpu"]) / events

    def slower(self, build, name):
        """The program's wall time as a multiple of what it takes alone."""
        file = build.path("timing.mlw")
        plain = self.timed(self.workloads[name], self.env.get(name, []))
        it = self.timed(self.workloads[name], self.env.get(name, []),
                        [build.mallow, "record", "-q", "--keep-raw", "-o", file, "--"])
        os.unlink(file)
        return it["wall"] / plain["wall"]

    def reading(self, build, name, *command, before=()):
        return self.timed([*before, build.mallow, *command, build.recording(name)])["wall"] / 1e9

    def sealing(self, build, before=()):
        """Seconds of a first report less those of a second."""
        file = build.path("seal.mlw")
        build.recording("long")
        shutil.copyfile(build.recording("long", raw=True), file)
        command = [*before, build.mallow, "report", *build.no_index, file]
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
        self.reading(build, "walks", *command)
        return self.reading(build, "walks", *command)

    def short(self, build, what, *program):
        """ms of processor time, of everything, for one of many short programs, above what it takes alone."""
        file, counts = build.path("short.mlw"), self.path("counts")
        many = [os.path.join(self.build, "bench", "many"), counts, str(SHORT), "--", *program]
        how = {"record": [build.mallow, "record", "-q", "-o", file, "--"], "watch": [build.mallow, "watch", "--"]}[what]
        plain = self.timed(many)
        it = self.timed([*how, *many])
        for path in (file, counts):
            if os.path.exists(path):
                os.unlink(path)
        return (it["cpu"] - plain["cpu"]) / SHORT / 1e6


def rows(b):
    """Name to (what measures it of a build, unit)."""
    def never(build, *command):
        return (*command, *build.no_index)
    table = {
        "churn, full stacks, added an event": (lambda x: b.added(x, "churn", 2 * CHURN), "ns"),
        "churn, no stacks, added an event": (lambda x: b.added(x, "churn", 2 * CHURN, "--stacks=none"), "ns"),
        "pairs, no stacks, added an event": (lambda x: b.added(x, "pairs", 2 * PAIRS, "--stacks=none"), "ns"),
        "compiler, full stacks, wall": (lambda x: b.slower(x, "compiler"), "x"),
        "seal 40 M events, one processor": (lambda x: b.sealing(x, ONE), "s"),
        "seal 40 M events": (b.sealing, "s"),
        "report of 40 M events, one processor": (lambda x: b.reading(x, "long", *never(x, "report"), before=ONE), "s"),
        "report of 40 M events": (lambda x: b.reading(x, "long", *never(x, "report")), "s"),
        "to a workload, 40 M events, one processor":
            (lambda x: b.reading(x, "long", "workload", "-q", "-o", x.path("mwl"), before=ONE), "s"),
        "dump of 6 M events": (lambda x: b.reading(x, "churn", "dump"), "s"),
        "export of 6 M events, csv": (lambda x: b.reading(x, "churn", "export", "--format=csv", "-o", "/dev/null"), "s"),
        "record returns after 100 M calls": (b.returning, "s"),
    }
    cc1 = b.workloads.get("compiler", [None])[0]
    empty = b.path("empty.c")
    with open(empty, "w", encoding="ascii"):
        pass
    for name, program in (("true", ["true"]), ("git --version", ["git", "--version"]),
                          ("compiler, empty file", cc1 and [cc1, "-quiet", empty, "-o", "/dev/null"])):
        found = program and shutil.which(program[0])
        if found:
            for what in ("record", "watch"):
                table[f"{name} under {what}, added a program"] = (
                    lambda x, what=what, program=(found, *program[1:]): b.short(x, what, *program), "ms")
    if b.options.walks or b.options.walked:
        table |= {
            "Python, report": (lambda x: b.reading(x, "walks", *never(x, "report")), "s"),
            "Python, report --json": (lambda x: b.reading(x, "walks", *never(x, "report", "--json")), "s"),
            "Python, page": (lambda x: b.reading(x, "walks", *never(x, "report", "--html", x.path("html"))), "s"),
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
    p.add_argument("--walked", nargs=2, metavar=("THEN.mlw", "NOW.mlw"))
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
