"""Targets that change at random while root looks at them: each command ends, with a status that it may have, without a
report of a sanitizer, with output that is JSON where that was asked for and text that a terminal can stand; in bounded
memory; and the target goes on, or ended of its own.

Usage: fuzz_target.py [--seconds N | --count N] [--first SEED] [--bound SECONDS] [--sanitized] [--keep DIRECTORY]
A round is a target and a few commands, and follows from its seed as far as the machine's timing lets it."""
import argparse
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

from mallowtest import MALLOW
import attack
from attack import ATTACKERS, OTHER
from mallowtest.memorygroup import MemoryGroup

STATUSES = (0, 1, 2, 125)
RAW = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
SANITIZERS = (b"AddressSanitizer", b"LeakSanitizer", b"runtime error:", b"ERROR: UndefinedBehavior")
# Root's own program may be attached to by root, if that is what the process was from the beginning of the command on;
# a breakpoint in libc stands in every process.
MAY_TOUCH = {"watch": {b"touched mappings"}, "record": {b"touched mappings", b"touched code"}, "probe": {b"touched code"}}
SETUID = f"/tmp/mallow-steadfast-{os.getpid()}"


class Wrong(Exception):
    pass


def heap(chance, pid, base):
    how = chance.choice(([], ["--json"], ["--json", "--by", "root"], ["--by", "size", "--leaks"], ["--json", "--by", "arena"],
                         ["--json", "--cold", "200ms"], ["--html", f"{base}/heap.html"], ["-o", f"{base}/saved.mlh"]))
    return ["heap", *how, str(pid)], None


def watch(chance, pid, _base):
    how = chance.choice(([], ["--json"], ["--json", "--old", "10ms"], ["--high-water"]))
    return ["watch", "-p", str(pid), "--every", "100ms", "--period", "4K", *how], chance.random() * 1.5


def record(chance, pid, base):
    how = chance.choice(("auto", "inject", "probe"))
    stacks = chance.choice(("full", "caller", "none"))
    return ["record", "-q", "-p", str(pid), "--how", how, "--stacks", stacks, "-o", f"{base}/r.mlw"], chance.random() * 1.5


def probe(chance, pid, _base):
    kind = chance.choice(("sizes", "calls", "arenas", "brk", "faults", "rss", "purge"))
    return ["probe", kind, "--json", "-p", str(pid), "-d", f"{chance.randrange(400)}ms"], None


COMMANDS = ((heap, 5), (watch, 4), (record, 3), (probe, 2))


class Fuzz:
    def __init__(self, arguments):
        self.arguments = arguments
        self.limit = (1 << 30) if arguments.sanitized else (256 << 20)
        self.statuses = collections.Counter()
        self.largest = collections.defaultdict(int)
        self.slowest = collections.defaultdict(float)
        self.faults = []
        self.setuid = collections.Counter()
        try:
            MemoryGroup(self.limit).remove()
            self.groups = True
        except OSError as why:
            print(f"NOT TESTED: memory in a control group: {why}", file=sys.stderr)
            self.groups = False

    # ---- one command ----

    def run(self, argv, after, base):
        """Its output; what it printed is checked. after: seconds, then it is interrupted."""
        group = MemoryGroup(self.limit) if self.groups else None
        name = " ".join(argv[:2]) if argv[0] in ("probe",) else argv[0]
        out, err = open(f"{base}/stdout", "w+b"), open(f"{base}/stderr", "w+b")
        begun = time.monotonic()
        try:
            p = subprocess.Popen(group.command(MALLOW, *argv) if group else [MALLOW, *argv], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=err, cwd=base, env=os.environ | {"TMPDIR": base})
            number = None
            if after is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    p.wait(after)
                if p.poll() is None:
                    number = random.choice((signal.SIGINT, signal.SIGTERM))
                    p.send_signal(number)
            asked = time.monotonic()
            hangs = False
            try:
                p.wait(self.arguments.bound)
            except subprocess.TimeoutExpired:
                hangs = True
                where = self.where(p.pid)
                p.kill()
                p.wait()
            took = time.monotonic() - asked
            out.seek(0)
            err.seek(0)
            out, err = out.read(), err.read()
            if hangs:
                raise Wrong(f"it did not end within {self.arguments.bound} s{' of ' + number.name if number else ''}: {where}", out, err)
            self.slowest[name] = max(self.slowest[name], took)
            if group:
                self.largest[name] = max(self.largest[name], self.most(group))
        finally:
            if group:
                group.remove()
        self.statuses[name, p.returncode] += 1
        if self.arguments.verbose:
            print(" ".join(argv), "->", p.returncode, err[-400:])
        for sanitizer in SANITIZERS:
            if sanitizer in err:
                raise Wrong(sanitizer.decode(), out, err)
        if p.returncode not in STATUSES and not (number and p.returncode == -number):
            raise Wrong(f"status {p.returncode}", out, err)
        for text in (out, err):
            try:
                text.decode()
            except UnicodeDecodeError as why:
                raise Wrong(str(why), out, err) from None
            raw = RAW.search(text)
            if raw:
                raise Wrong(f"a raw byte at {raw.start()}: {text[max(raw.start() - 60, 0):raw.end() + 20]}", out, err)
        if "--json" in argv:
            try:
                for document in (out.splitlines() if argv[0] == "watch" else [out] if out else []):
                    json.loads(document)
            except ValueError as why:
                raise Wrong(f"no JSON: {why}", out, err) from None
            if argv[0] == "heap" and p.returncode == 0 and not out:
                raise Wrong("no JSON", out, err)
        return p.returncode, out, err

    @staticmethod
    def where(pid):
        """What the command and its children do."""
        said = []
        for task in [pid] + [int(c) for c in open(f"/proc/{pid}/task/{pid}/children", encoding="ascii").read().split()]:
            with contextlib.suppress(OSError):
                said.append(" ".join(open(f"/proc/{task}/{name}", encoding="utf-8").read().replace("\n", " < ")
                                     for name in ("comm", "wchan", "syscall", "stack")))
        if shutil.which("gdb"):
            said.append(subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "bt"], stdin=subprocess.DEVNULL, capture_output=True,
                                       text=True, check=False).stdout[-2000:])
        return "; ".join(said)

    @staticmethod
    def most(group):
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(FileNotFoundError), open(f"{group.path}/{name}", encoding="ascii") as f:
                return int(f.read())
        return 0

    # ---- one target ----

    def round(self, seed):
        chance = random.Random(seed)
        kind = self.arguments.kind or ("sound", "wild")[seed % 2]
        base = tempfile.mkdtemp(prefix="test-shifty-", dir=(attack.on_disk(), "/dev/shm")[seed // 2 % 2])
        os.chmod(base, 0o755)
        nb = base + "/nb"
        os.mkdir(nb)
        os.chown(nb, OTHER, OTHER)
        shutil.copy(os.path.join(ATTACKERS, "shifty"), nb)  # the other user's own file
        os.chown(nb + "/shifty", OTHER, OTHER)
        target = None
        argv, allowed, out, err = None, set(), b"", b""
        try:
            said = open(f"{base}/said", "w+b")
            target = subprocess.Popen([nb + "/shifty", str(seed), kind, SETUID], stdin=subprocess.DEVNULL, stdout=said,
                                      stderr=subprocess.DEVNULL, cwd=nb, user=OTHER, group=OTHER, extra_groups=[],
                                      start_new_session=True)
            while not os.fstat(said.fileno()).st_size and target.poll() is None:
                time.sleep(0.002)
            for _ in range(chance.randrange(1, 4)):
                commands = [c for c in COMMANDS if self.arguments.only in (None, c[0].__name__)]
                command = chance.choices([c for c, _ in commands], [w for _, w in commands])[0]
                argv, after = command(chance, target.pid, base)
                time.sleep(chance.random() * 0.2)
                status, out, err = self.run(argv, after, base)
                # one that was ended in between may not have said it
                said_so = argv[0] == "probe" or b"attached to" in err or status <= 0 or b"interrupted while attaching" in err
                allowed |= MAY_TOUCH.get(argv[0], set()) if said_so else set()
                self.look_again(argv, status, base)
            self.goes_on(target.pid, kind, self.arguments.bound)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(target.pid, signal.SIGKILL)
            target.wait()
            said.seek(0)
            said_all = said.read()
            lines = said_all.split(b"\n")
            self.setuid.update(line.decode(errors="replace") for line in lines
                               if line.startswith((b"steadfast", b"whole", b"touched", b"hit", b"crash")))
            if any(line.startswith(b"hit") or (line.startswith(b"touched") and line not in allowed) for line in lines):
                raise Wrong(f"the setuid program was {lines}", out, err)
            if kind == "sound" and target.returncode not in (0, -signal.SIGKILL):
                raise Wrong(f"the target ended with {target.returncode}", said_all, err)
        except Wrong as wrong:
            self.fault(seed, argv, wrong)
        finally:
            if target and target.poll() is None:
                os.killpg(target.pid, signal.SIGKILL)
                target.wait()
            if target:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"/tmp/perf-{target.pid}.map")
            shutil.rmtree(base, ignore_errors=True)

    def look_again(self, argv, status, base):
        """What it wrote is read."""
        if argv[0] == "record" and os.path.exists(f"{base}/r.mlw"):
            self.run(["report", "--json", f"{base}/r.mlw"], None, base)
            os.unlink(f"{base}/r.mlw")
        if "-o" in argv and argv[0] == "heap" and status == 0:
            self.run(["heap", "--json", f"{base}/saved.mlh"], None, base)

    @staticmethod
    def goes_on(pid, kind, bound):
        """Not traced, and not stopped by us."""
        def status():
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
                return f.read()
        if "TracerPid:\t0\n" not in status():
            raise Wrong("the target is traced still", b"", status().encode())
        before = re.findall(r"ctxt_switches:\t(\d+)", status())
        end = time.monotonic() + bound
        while kind == "sound" and before == re.findall(r"ctxt_switches:\t(\d+)", status()):
            if "State:\tZ" in status():
                return
            if time.monotonic() > end:
                raise Wrong("the target does not go on", b"", status().encode())
            time.sleep(0.002)
            os.kill(pid, signal.SIGCONT)

    def fault(self, seed, argv, wrong):
        what, out, err = wrong.args
        self.faults.append(seed)
        print(f"seed {seed}: mallow {' '.join(argv or ())}: {what}", flush=True)
        print("    " + err[-3000:].decode(errors="backslashreplace").replace("\n", "\n    "), flush=True)
        if self.arguments.keep:
            os.makedirs(self.arguments.keep, exist_ok=True)
            for name, text in (("stdout", out), ("stderr", err)):
                with open(f"{self.arguments.keep}/{seed}.{name}", "wb") as f:
                    f.write(text)

    def all(self):
        shutil.copy(os.path.join(ATTACKERS, "steadfast"), SETUID)
        os.chmod(SETUID, 0o755 | stat.S_ISUID)
        seed, end = self.arguments.first, time.monotonic() + (self.arguments.seconds or 0)
        try:
            while time.monotonic() < end if self.arguments.seconds else seed < self.arguments.first + self.arguments.count:
                self.round(seed)
                seed += 1
        finally:
            os.unlink(SETUID)
        print(f"{seed - self.arguments.first} targets; statuses:",
              ", ".join(f"{name} {status}: {n}" for (name, status), n in sorted(self.statuses.items())))
        print("slowest, s:", {name: round(t, 1) for name, t in sorted(self.slowest.items())})
        print("most memory and page cache, MiB:", {name: n >> 20 for name, n in sorted(self.largest.items())})
        print("of the setuid program:", dict(self.setuid))
        print(f"{len(self.faults)} faults", self.faults)
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--bound", type=int, default=30, help="seconds after which a command does not end")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--only", choices=[c.__name__ for c, _ in COMMANDS])
    parser.add_argument("--kind", choices=("sound", "wild"))
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    if os.geteuid():
        print("NOT TESTED: targets of another user, looked at by root", file=sys.stderr)
        return 77
    return Fuzz(arguments).all()


if __name__ == "__main__":
    sys.exit(main())
