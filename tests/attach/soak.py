"""An hour of coming and going: rounds of `mallow watch -p`, its kill and `--detach`, and `record -p`, into two
programs that hammer malloc, dlopen, fork, exec, threads, signals and exceptions, and then kills of the attacher at
random moments. Nothing hangs, crashes or is left: neither descriptors, threads, mappings nor files, and no memory
that grows. Usage: soak.py [ROUNDS] [KILLS]; PYTHONPATH names tests/."""
import collections
import os
import random
import re
import sys
import tempfile
import time

from mallowtest import program
from victim import Attached, Victim, killed_at_any_moment, mallow

# Where nothing was changed: a thread waits in the dynamic linker for another that has not been given a processor.
LATER = "try again later"
MODES = ["churn", "loading", "forking", "executing", "threading", "signaled", "printing", "recursing", "jumping", "computing",
         "sleeping", "polling", "epolling", "waiting", "failing", "reading", "writing", "dozing", "counting"]


class Soaked:
    """A program, and what it must be again after each round."""

    def __init__(self, victim):
        self.victim = victim
        self.before = victim.settled()
        self.ours = None

    def resident_kb(self):
        """Of the library: its file, and the memory that it made."""
        text, total, counts = self.victim.text("smaps"), 0, False
        for line in text.splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                counts = "libmallow" in line
            elif counts and line.startswith("Rss:"):
                total += int(line.split()[1])
        return total

    def check(self):
        v = self.victim
        v.goes_on()
        now = v.settled()
        assert now == self.before, f"not as it was:\n{self.before}\n{now}"
        ours = v.ours()
        assert self.ours is None or ours <= self.ours, f"{ours} mappings of the library, {self.ours} before"

    def round(self, kind):
        v = self.victim
        if kind == "record":
            with tempfile.TemporaryDirectory() as directory:
                status, out, err = mallow("record", "-p", str(v.pid), "--how", "inject", "--stacks", "none", "-d", "20ms", "-o",
                                          os.path.join(directory, "r.mlw"))
                if LATER in err:
                    return False
                assert status == 0 and "attached to process" in err, f"{err}\n{v.last_words()}"
        else:
            try:
                watch = Attached(v, "--period", random.choice(["4K", "64K", "512K"]))
            except AssertionError as refused:
                if LATER in str(refused):
                    return False
                raise
            if kind == "watch":
                watch.end()
            else:
                watch.kill()
                status, out, err = mallow("watch", "--detach", str(v.pid))
                assert status == 0 and "detached" in err, f"{err}\n{v.last_words()}"
        self.check()
        return True


def soak(rounds, kills):
    happened, began = collections.Counter(), time.monotonic()
    with Victim(*MODES) as hostile, Victim(command=[program("attach/attach-throwing")]) as throwing:
        throwing.modes = ["throwing"]
        programs = [Soaked(hostile), Soaked(hostile), Soaked(throwing)]
        settled = None
        for i in range(rounds):
            watched = programs[i % len(programs)]
            kind = ("watch", "watch", "record", "watch", "detach")[i % 5]
            happened[kind if watched.round(kind) else "refused for the moment"] += 1
            if i + 1 == 15 * len(programs):  # both libraries are in both programs, and every kind was there
                settled = [p.resident_kb() for p in programs]
                for p in programs:
                    p.ours = p.victim.ours()
            if (i + 1) % 50 == 0:
                print(f"{i + 1} rounds, {time.monotonic() - began:.0f} s, {dict(happened)}; the library's resident KB: "
                      f"{[p.resident_kb() for p in programs[1:]]}", flush=True)
        if settled:
            for p, kb in zip(programs, settled):
                assert p.resident_kb() < kb + 4096, f"the library's memory grew from {kb} to {p.resident_kb()} KB"
        killed_at_any_moment(hostile, kills)
        print(f"{kills} kills, {time.monotonic() - began:.0f} s", flush=True)
        mallow("watch", "--detach", str(hostile.pid))  # what a kill may have left
        for p in programs[1:]:
            p.check()
            p.victim.end()
    return happened


if __name__ == "__main__":
    soak(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
