"""`mallow watch -a`: all processes that carry the library, by its static probes. What it says of a
process is what the process's own segment says."""
import glob
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from mallowtest import WATCH_LIBRARY, fakes, main, program, victim, wait_until
from mallowtest.segment import Segment, find
from mallowtest.fakes import Watch, functions

# The kernel tells of calls by the file that they are in: in copies of ours, nothing but what this test runs.
FOLDER = tempfile.TemporaryDirectory(prefix="mallow-test-")
os.mkdir(os.path.join(FOLDER.name, "lib"))
LIBRARY = shutil.copy(WATCH_LIBRARY, os.path.join(FOLDER.name, "lib"))
MALLOW = fakes.MALLOW = shutil.copy(fakes.MALLOW, FOLDER.name)
SERVER = program("watch/server")
LEAK = "forgets_to_free"


def why_not():
    """Why no probe can be listened to here, or None."""
    if os.geteuid() != 0:
        return "not root"
    checks = json.loads(subprocess.run([MALLOW, "doctor", "--json"], capture_output=True, text=True,
                                       check=False).stdout)["checks"]
    return next((c["detail"] for c in checks if c["name"] == "probe-rights" and c["status"] != "ok"), None)


def carrier(*argv, program=SERVER, **settings):
    e = {"MALLOW_WATCH_" + k.upper(): str(v) for k, v in settings.items()}
    return subprocess.Popen([program, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, LD_PRELOAD=LIBRARY, **e))


class Listener(unittest.TestCase):
    OPTIONS, PROGRAM = (), SERVER

    def setUp(self):
        # This test's own processes only: others of this machine may carry the library.
        self.watch = Watch("-a", "--every", "1000h", *self.OPTIONS)
        self.watch.__enter__()
        self.addCleanup(self.watch.__exit__, None, None, None)
        self.lines, self.seen = queue.Queue(), set()
        threading.Thread(target=lambda: [self.lines.put(l) for l in self.watch.process.stdout], daemon=True).start()
        wait_until(self.listens, "the listener")

    def listens(self):
        """The listener waits for events: it is a child of the watch, in epoll_wait."""
        self.assertIsNone(self.watch.process.poll(), "the watch has ended")
        pid = self.watch.process.pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                (child,) = f.read().split()
            with open(f"/proc/{child}/syscall", encoding="ascii") as f:
                return f.read().split()[0] in ("232", "281")
        except (ValueError, OSError):
            return False

    def hold(self, *argv, **settings):
        p = carrier("hold", *argv, program=self.PROGRAM, **settings)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p

    def report_of(self, pid, kind, ask=None):
        """The next report of a process; asked for again and again with that signal, since the watch may not
        know the process yet."""
        end = time.monotonic() + 600
        while time.monotonic() < end:
            if ask:
                self.watch.process.send_signal(ask)
            try:
                r = json.loads(self.lines.get(timeout=1))
            except queue.Empty:
                continue
            self.seen.add(r["pid"])
            if (r["pid"], r["kind"]) == (pid, kind):
                return r
        raise AssertionError(f"no '{kind}' of {pid} came")


class System(Listener):
    def test_it_says_what_the_segment_says(self):
        # The first stacks of a file that was not met before are cut: this one is for meeting it.
        self.report_of(self.hold("1000", "wait", period="4K").pid, "all", ask=signal.SIGHUP)
        a = self.hold("1000", "wait", period="4K", guard="off")
        b = self.hold("500", "wait", period="16K", guard="off")
        for p, period in ((a, 4096), (b, 16384)):
            (path,) = find(p.pid)
            live = []

            def told():
                live[:] = Segment(path).samples()  # the process may still be on its way to wait
                r = self.report_of(p.pid, "all", ask=signal.SIGHUP)
                return r if r["sampled_blocks"] == len(live) else None
            found = []
            wait_until(lambda: found.append(told()) or found[-1], "all samples")
            r = found[-1]
            self.assertEqual(r["sampled_bytes"], sum(s["size"] for s in live))
            self.assertLess(abs(r["estimated_bytes"] - sum(s["weight"] for s in live)), 2 * len(live) + 2)
            self.assertLess(abs(r["period_bytes"] - period), period / 100)
            self.assertEqual((r["dropped"], r["stacks_without_room"]), (0, 0))
            self.assertEqual(r["exe"], os.path.realpath(SERVER))
            self.assertEqual(r["ppid"], os.getpid())
            site = max(r["sites"], key=lambda s: s["estimated_bytes"])
            self.assertEqual(functions(site)[:1], [LEAK])
            self.assertIn("main", functions(site))
        a.kill()
        final = self.report_of(a.pid, "final")
        self.assertEqual((final["process"], final["signal"]), ("ended", 9))
        self.assertGreater(final["sampled_blocks"], 0)
        b.communicate("\n", timeout=600)
        final = self.report_of(b.pid, "final")
        self.assertEqual((final["process"], final["exit_status"]), ("ended", 3))

    def test_build_ids(self):
        """Those of the process's own segment, for the files that both have met."""
        p = self.hold("1000", "wait", period="4K", guard="off")
        self.report_of(p.pid, "all", ask=signal.SIGHUP)
        (own,) = find(p.pid)
        session = f"/dev/shm/mallow-watch-session-{self.watch.process.pid}-"
        (told,) = [n for d in glob.glob(session + "*") for n in glob.glob(os.path.join(d, f"{p.pid}-*"))]
        own, told = ({m["path"]: m["build_id"] for m in Segment(path).modules()} for path in (own, told))
        self.assertIn(os.path.realpath(SERVER), told)
        for path in set(own) & set(told):
            self.assertEqual(told[path], own[path], path)
        self.assertTrue(any(own.values()))

    def test_frees_errors_and_an_exec(self):
        e = carrier("hold", "300", "exec", period="4K", guard="off")
        self.addCleanup(e.stdout.close)
        self.addCleanup(e.stdin.close)
        e.wait(600)
        finals = [self.report_of(e.pid, "final")["process"] for _ in range(2)]
        self.assertEqual(sorted(finals), ["ended", "exec"])  # a reader that comes late finds both at once
        misuse = victim("misuse")
        with subprocess.Popen([misuse, "use-after-free-read"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, LD_PRELOAD=LIBRARY, MALLOW_WATCH_PERIOD="1",
                                       MALLOW_WATCH_GUARD="all")) as p:
            self.assertEqual(p.wait(600), 0)
        error = self.report_of(p.pid, "error")
        self.assertEqual((error["error"], error["size_bytes"], error["offset_bytes"]), ("heap-use-after-free", 100, 5))

    def test_nothing_stays(self):
        p = self.hold("100", "wait", period="4K")
        self.report_of(p.pid, "all", ask=signal.SIGHUP)
        pid = self.watch.process.pid
        self.watch.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.watch.process.wait(600), 0)
        left = [n for n in os.listdir("/dev/shm") if n.startswith(f"mallow-watch-session-{pid}-")]
        self.assertEqual(left, [])
        self.report_of(p.pid, "final")


class Chosen(Listener):
    PROGRAM = shutil.copy(SERVER, os.path.join(FOLDER.name, f"chosen-{os.getpid()}"))
    OPTIONS = ("--comm", os.path.basename(PROGRAM))

    def test_others_are_passed_over(self):
        chosen = self.hold("100", "wait", period="4K")
        other = carrier("hold", "100", "end", period="4K")
        self.addCleanup(other.stdout.close)
        self.addCleanup(other.stdin.close)
        self.assertEqual(other.wait(600), 3)
        for _ in range(3):
            self.report_of(chosen.pid, "all", ask=signal.SIGHUP)
        self.watch.process.send_signal(signal.SIGTERM)
        self.report_of(chosen.pid, "final")
        self.assertEqual(self.watch.process.wait(600), 0)
        left = [n for n in os.listdir("/dev/shm") if n.startswith(f"mallow-watch-session-{self.watch.process.pid}-")]
        self.assertEqual(left, [])
        self.assertEqual(self.seen, {chosen.pid})


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED, LOUDLY: the probes cannot be listened to here: {reason}")
        sys.exit(77)
    main()
