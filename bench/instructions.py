#!/usr/bin/env python3
"""Counts the instructions that each stage needs for an event, by valgrind.

usage: instructions.py BUILD [--check | --update] [--only WORD] [--json FILE]

Each stage runs twice, on a small and on a large input; the difference divided by the difference in events is
the cost of an event, without what starting costs. Counts do not depend on what else the machine does. The
stages that read take recordings that tests/trace/make_raw makes up, the same bytes every time.

--check compares with bench/instructions.json and fails when a stage differs by more than 3 %. What the
compiler, libc and compression library contribute is not judged: when any of them, valgrind, the processor's
vector instructions or the build's options differ from the baseline's, it says SKIP and exits 77.
--update writes the baseline (with --only, these stages of it). Do so when a change is meant, and say in the commit what
it buys."""
import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BASELINE = os.path.join(HERE, "instructions.json")
TOLERANCE = 0.03
SKIP = 77
LINKER = "/lib64/ld-linux-x86-64.so.2"
SMALL, LARGE = 8192, 40960  # events of the smaller and the larger recording, two chunks at least
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # MALLOC_PERTURB_, say, makes malloc write every block


class Failed(Exception):
    pass


class Stages:
    def __init__(self, build, work):
        self.build, self.work = build, work
        self.mallow = os.path.join(build, "mallow")
        self.recorder = os.path.join(build, "lib", "libmallow-record.so")
        self.watcher = os.path.join(build, "lib", "libmallow-watch.so")
        self.inputs = {}
        # A libc of our own: probes of the kernel that others set in libc's code are breakpoints, which end a
        # program under valgrind.
        shutil.copy(libc_path(), self.path("libc.so.6"))

    def path(self, name):
        return os.path.join(self.work, name)

    def program(self, *name):
        return os.path.join(self.build, *name)

    def run(self, *command, **environment):
        r = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           stdin=subprocess.DEVNULL, env={**ENVIRONMENT, **environment})
        if r.returncode:
            raise Failed(f"{' '.join(command)}: status {r.returncode}: {r.stderr[-800:]}")

    def count(self, *command, preload=None, **environment):
        """Instructions of a program that starts no other."""
        out = self.path("callgrind")
        if os.path.exists(out):
            os.unlink(out)
        # By the dynamic linker, so that what is preloaded into the program is not preloaded into valgrind.
        self.run("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--read-inline-info=no", "--quiet",
                 LINKER, "--library-path", self.work, *(["--preload", preload] if preload else []), *command,
                 **environment)
        with open(out, encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith(("summary:", "totals:")):
                    return int(line.split()[1])
        raise Failed(f"{' '.join(command)}: valgrind counted nothing")

    def recording(self, kind, events, stage):
        """A made-up recording as a `raw`, `sealed` or `mwl` file, made when it is first asked for."""
        key = (kind, events, stage)
        if key not in self.inputs:
            file = self.path(f"{kind}.{events}.{stage}")
            if stage == "raw":
                self.run(self.program("tests", "trace", "make_raw"), kind, str(events), file)
            elif stage == "sealed":
                shutil.copy(self.recording(kind, events, "raw"), file)
                self.run(self.mallow, "report", file)  # seals it
            else:
                self.run(self.mallow, "workload", "-q", self.recording(kind, events, "sealed"), "-o", file)
            self.inputs[key] = file
        return self.inputs[key]

    def recorded(self, stacks, program, *arguments):
        """What recording adds to the program."""
        command = [self.program("bench", program), *arguments]
        file = self.path("live.mlw")
        with_it = self.count(*command, preload=self.recorder, MALLOW_OUTPUT=file, MALLOW_STACKS=stacks)
        os.unlink(file)
        return with_it - self.count(*command)

    def watched(self, program):
        """What sampling adds to a program that allocates too little to be sampled."""
        with_it = self.count(program, preload=self.watcher, MALLOW_WATCH_SESSION=self.work)
        return with_it - self.count(program)

    def reading(self, kind, *command, of="sealed", to=()):
        def stage(events):
            n = self.count(*command, self.recording(kind, events, of), *to)
            for option, name in zip(to, to[1:]):
                if option == "-o":
                    os.unlink(name)
            return n
        return stage

    def sealing(self, kind):
        def stage(events):
            out = self.path("out")
            n = self.count(self.program("bench", "seal_read"), self.recording(kind, events, "raw"), out, "seal")
            os.unlink(out)
            return n
        return stage

    def table(self):
        """Name to (stage, unit). A stage of a program is no matter of events."""
        m = self.mallow
        one = ("--threads", "1")  # how often several wait for each other is chance
        return {
            "record a pair, full stacks": (lambda n: self.recorded("full", "pairs", str(n)), "pair"),
            "record a pair, no stacks": (lambda n: self.recorded("none", "pairs", str(n)), "pair"),
            "record churn, full stacks": (lambda n: self.recorded("full", "churn", str(n // 2), "2000"), "event"),
            "record a first stack": (lambda n: self.recorded("full", "first", "stacks", str(n)), "pair"),
            "record a first address": (lambda n: 16 * self.recorded("full", "first", "addresses", str(n // 16)),
                                       "pair"),
            "start to record": (lambda: self.recorded("full", "first", "stacks", "0"), "program"),
            "start to watch": (lambda: self.watched(shutil.which("true")), "program"),
            "seal": (self.sealing("same"), "event"),
            "seal, many stacks": (self.sealing("stacks"), "event"),
            "report": (self.reading("same", m, "report", *one), "event"),
            "report, many stacks": (self.reading("stacks", m, "report", *one), "event"),
            "report --json": (self.reading("same", m, "report", "--json", *one), "event"),
            "convert to a workload": (self.reading("same", m, "workload", "-q", *one,
                                                   to=("-o", self.path("out.mwl"))), "event"),
            "dump": (self.reading("same", m, "dump", *one), "event"),
            "replay, without allocating": (self.reading("same", self.program("bench", "replay_once"), of="mwl"),
                                           "operation"),
        }

    def measure(self, only):
        result = {}
        for name, (stage, unit) in self.table().items():
            if only not in name:
                continue
            per = stage() if unit == "program" else (stage(LARGE) - stage(SMALL)) / (LARGE - SMALL)
            result[name] = {"instructions": round(per, 1), "per": unit}
            print(f"{name:32} {per:9.1f} instructions a{'n' if unit[0] in 'eo' else ''} {unit}", flush=True)
        return result


def libc_path():
    with open("/proc/self/maps", encoding="utf-8") as f:
        return next(line.split()[-1] for line in f if line.rstrip().endswith("/libc.so.6"))


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "none"


def surroundings(build):
    """What a count depends on beside this project."""
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as f:
        compiler = next(source["compiler"] for target in json.load(f) for source in target["target_sources"]
                        if source.get("language") == "c")
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        options = {o["name"]: o["value"] for o in json.load(f)}
    zstd = ctypes.CDLL("libzstd.so.1").ZSTD_versionString
    zstd.restype = ctypes.c_char_p
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        flags = set(next((line for line in f if line.startswith("flags")), "").split())
    # gcc says the name by which it was called, and a cache may stand before it
    return {"compiler": re.sub(r"^\S*(?:gcc\S*|cc) ", "cc ", first_line(*compiler, "--version")),
            "libc": first_line("ldd", "--version"),
            "zstd": zstd().decode(),
            "valgrind": first_line("valgrind", "--version"),
            # libraries choose their functions by these, as far as valgrind passes them on
            "vector instructions": " ".join(sorted(flags & {"avx", "avx2", "bmi1", "bmi2", "sse4_2", "erms", "rtm"})),
            "build": " ".join(str(options[k]) for k in ("buildtype", "optimization", "debug", "b_sanitize",
                                                        "b_coverage", "b_lto", "c_args", "c_link_args"))}


def compare(measured, baseline):
    """Prints what differs; returns how many stages do."""
    bad = 0
    for name, now in measured.items():
        then = baseline["stages"].get(name)
        if then is None:
            print(f"instructions: '{name}' has no baseline")
            bad += 1
            continue
        change = now["instructions"] / then["instructions"] - 1
        if abs(change) > TOLERANCE:
            print(f"instructions: '{name}' takes {now['instructions']} instructions, {then['instructions']} in the "
                  f"baseline: {change:+.1%}")
            bad += 1
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    if not shutil.which("valgrind"):
        print("SKIP: valgrind is not installed, no instruction was counted")
        return SKIP
    here = surroundings(build)
    baseline = None
    if options.check:
        with open(BASELINE, encoding="utf-8") as f:
            baseline = json.load(f)
        different = [k for k in here if here[k] != baseline["surroundings"].get(k)]
        if different:
            print("SKIP: the counts of the baseline are not comparable here, NOTHING WAS COMPARED:")
            for k in different:
                print(f"  {k}: {here[k]!r}, in the baseline {baseline['surroundings'].get(k)!r}")
            return SKIP
    with tempfile.TemporaryDirectory(prefix="mallow-instructions.") as work:
        measured = Stages(build, work).measure(options.only)
    result = {"surroundings": here, "stages": measured}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
    if options.update:
        if options.only:
            with open(BASELINE, encoding="utf-8") as f:
                result["stages"] = {**json.load(f)["stages"], **measured}
        with open(BASELINE, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    if baseline and compare(measured, baseline):
        print(f"instructions: a stage differs by more than {TOLERANCE:.0%}. If that is meant:\n"
              f"  bench/instructions.py {options.build} --update")
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as problem:
        sys.exit(f"instructions: {problem}")
