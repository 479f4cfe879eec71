"""A recording of a program that does to its heap what it is told (tests/record/phases.c)."""
import contextlib
import json
import os
import signal
import subprocess

from mallowtest import MALLOW, path, program, wait_until

PHASES = program("record/phases")
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))},
               "LC_ALL": "C", "DEBUGINFOD_URLS": ""}


def mallow(*arguments, status=0):
    done = subprocess.run([MALLOW, *arguments], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout if not status else done.stderr


class Program:
    """A recording of phases."""

    def __init__(self, name, environment=None, options=()):
        self.path = path(name + ".mlw")
        self.process = subprocess.Popen([MALLOW, "record", "-q", *options, "-o", self.path, "--", PHASES], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env={**ENVIRONMENT, **(environment or {})})
        self.order("large 0")  # it runs
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            self.pid = int(f.read().split()[0])

    def order(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    def children(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as f:
            return [int(pid) for pid in f.read().split()]

    def smaps(self, key, pid=None):
        with open(f"/proc/{pid or self.pid}/smaps_rollup", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith(key))

    def rss(self):
        """Pages of the kernel's pool are not in its Rss."""
        return self.smaps("Rss:") + self.smaps("Private_Hugetlb:")

    def explained(self, *options):
        mallow("control", str(self.pid), "sync")
        return json.loads(mallow("report", "--json", *options, self.path))["processes"][0]["explained"]

    def settle(self, at, live_below=1 << 62):
        """Waits until the report explains that moment by a measurement of what is resident now, with no more live."""
        def found():
            rss = self.rss()  # pages of files may go while it sleeps
            for e in self.explained("--at", at):
                if e["rss_bytes"] and abs(e["rss_bytes"] - rss) < rss / 50 and e["live_bytes"] < live_below:
                    return e
            return None
        return wait_until(found, f"a measurement for {at}")

    @contextlib.contextmanager
    def unseen(self):
        """The recorder stands still: it measures at peaks while a slow machine reaches them."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def leave(self):
        """The program ends; its recorder may learn of it later."""
        self.process.stdin.close()
        wait_until(lambda: not os.path.exists(f"/proc/{self.pid}/exe"), "the end of the program")

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()
        return json.loads(mallow("report", "--json", self.path))["processes"][0]
