"""`mallow record -p --how inject`: a process that runs is recorded as if the library had been preloaded, and is
left as it was; again and again, at its worst moments, and when mallow is killed. See victim.py, truth.c."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest

from mallowtest import LONG, MALLOW, program, wait_until
from victim import Victim, leave_in_time, mallow, text_of

ROUNDS = 300 if LONG else 3
KILLS = 100 if LONG else 3


class Recorded:
    """`mallow record -p`, from the moment on at which the process is attached to."""

    def __init__(self, victim, *args):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "r.mlw")
        self.process = subprocess.Popen([MALLOW, "record", "-p", str(victim.pid), "--how", "inject", "-o", self.file, *args],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said = self.process.stderr.readline()
        assert "attached to process" in self.said, self.said + self.process.stderr.read()

    def end(self):
        """The report."""
        self.process.send_signal(signal.SIGINT)
        return self.report()

    def report(self):
        _, err = self.process.communicate(timeout=600)
        left, err = leave_in_time(err)
        assert self.process.returncode == left, (self.process.returncode, err)
        assert "recorded " in err and "could not" not in err and "lost" not in err, err
        status, out, err = mallow("report", "--json", self.file)
        assert status == 0, err
        self.folder.cleanup()
        return json.loads(out)


def functions(site):
    return [frame.get("function") for frame in site["frames"]]


def calls_of(process, *names):
    """Successful calls of the sites in whose stack these functions are."""
    return sum(s["calls"] for s in process["sites"] if all(n in functions(s) for n in names))


def process_of(report, pid, index=0):
    return [p for p in report["processes"] if p["pid"] == pid][index]


class Truth(unittest.TestCase):
    def victim(self):
        return Victim(command=[program("attach/attach-truth"), program("attach/libattach-plugin.so")])

    def test_what_it_did(self):
        """Every call since, of every thread, of libraries loaded since; what was there before; twice."""
        with self.victim() as v:
            before, ours = v.settled(), None
            for i in range(3):
                recorded = Recorded(v)
                if not i:
                    v.ask("load")
                v.ask("make")
                v.ask("make")
                if i == 1:
                    v.ask("release")
                report = recorded.end()
                p = process_of(report, v.pid)
                self.assertEqual(report["lost_events"], 0)
                self.assertIs(p["attached"], True)
                self.assertEqual(p["unknown_frees"], 0, p["calls"])
                # the first round's library was loaded in it, its thread stacks made; later rounds find those
                self.assertGreaterEqual(p["before_frees"], 1000 if i == 1 else 0)
                self.assertLess(p["before_frees"], 1020 if i == 1 else 20)
                self.assertGreater(p["before_bytes"], 1000 * 200 if i < 2 else 0)
                self.assertEqual(calls_of(p, "makes_here", "work"), 4000)
                self.assertEqual(p["calls"]["realloc"], 2000)
                self.assertEqual(calls_of(p, "plugin_make", "make", "main"), 200)
                site, = [s for s in p["sites"] if functions(s)[:2] == ["makes_here", "work"]]
                self.assertEqual(site["end_live_blocks"], 0)
                self.assertEqual(site["allocated_bytes"], 8 * sum(40 + n for n in range(500)))
                self.assertEqual(v.settled(), before)
                self.assertEqual(ours or v.ours(), v.ours())
                ours = v.ours()
            v.end()

    def test_children_and_successors(self):
        with self.victim() as v:
            recorded = Recorded(v)
            v.ask("fork")
            v.ask("exec")
            report = recorded.end()
            forked, executing, executed = [p for p in report["processes"] if p["pid"] != v.pid]
            for p in (forked, executing):
                self.assertEqual(calls_of(p, "makes_here", "child"), 7)
                self.assertEqual(p["unknown_frees"], 0)
                self.assertIs(p["attached"], True)
            self.assertEqual(executing["pid"], executed["pid"])
            self.assertEqual(calls_of(executed, "makes_here", "main"), 9)
            self.assertIs(executed["attached"], False)
            v.end()

    def test_mappings_by_syscall(self):
        """Before, they were not recorded."""
        with self.victim() as v:
            recorded = Recorded(v)
            v.ask("map")
            mapped = process_of(recorded.end(), v.pid)["mapped"]
            site, = [s for s in mapped["sites"] if functions(s)[0] == "map_by_syscall"]
            self.assertEqual((site["calls"], site["mapped_bytes"], site["end_bytes"]), (1, 3 << 20, 2 << 20))
            v.end()

    def test_no_follow(self):
        with self.victim() as v:
            recorded = Recorded(v, "--no-follow")
            v.ask("fork")
            v.ask("exec")
            self.assertEqual([p["pid"] for p in recorded.end()["processes"]], [v.pid])
            v.end()

    def test_its_end_and_a_duration(self):
        with self.victim() as v:
            recorded = Recorded(v, "-d", "300ms")
            p = process_of(recorded.report(), v.pid)
            self.assertIs(p["attached"], True)
            recorded = Recorded(v)
            v.ask("make")
            v.end()
            p = process_of(recorded.report(), v.pid)
            self.assertIs(p["complete"], True)
            self.assertEqual(calls_of(p, "makes_here", "work"), 2000)

    def test_killed(self):
        """What was recorded is there; the process goes on, and is put back by `watch --detach`."""
        with self.victim() as v:
            before = v.settled()
            recorded = Recorded(v)
            for _ in range(20):
                v.ask("make")
            recorded.process.kill()
            recorded.process.communicate()
            for _ in range(20):
                v.ask("make")
            status, _, err = mallow("watch", "--detach", str(v.pid))
            self.assertEqual(status, 0, err)
            self.assertIn("detached from process", err)
            self.assertEqual(v.settled(), before)
            status, out, err = mallow("report", "--json", recorded.file)
            self.assertEqual(status, 0, err)
            self.assertGreater(calls_of(process_of(json.loads(out), v.pid), "makes_here"), 0)
            Recorded(v).end()
            self.assertEqual(v.settled(), before)
            v.end()

    def test_killed_in_a_later_round(self):
        """Its end writes what threads still hold, and threads that made no call since hold buffers of the round before, which are
        no longer mapped: it ended with SIGSEGV."""
        with self.victim() as v:
            recorded = Recorded(v)
            v.ask("make")
            recorded.end()
            v.ask("room")  # where the next round's buffers come to be
            recorded = Recorded(v)
            recorded.process.kill()
            recorded.process.communicate()
            v.end()


class Rounds(unittest.TestCase):
    def rounds(self, victim, count=ROUNDS):
        before = victim.settled()
        for i in range(count):
            recorded = Recorded(victim)
            victim.goes_on()
            for p in recorded.end()["processes"]:
                self.assertEqual(p["unknown_frees"], 0)
            victim.goes_on()
            if not i:
                ours = victim.ours()
        self.assertEqual(victim.settled(), before)
        self.assertEqual(victim.ours(), ours)
        victim.end()

    def test_allocation(self):
        with Victim("churn", "threading") as v:
            self.rounds(v)

    def test_modules_and_forks(self):
        with Victim("loading", "forking", "churn") as v:
            self.rounds(v)

    def test_signals_stacks_registers(self):
        with Victim("signaled", "recursing", "jumping", "executing") as v:
            self.rounds(v)

    def test_calls_that_take_long(self):
        """A signal's handler holds a thread up in the middle of a recorded call: what it uses is closed all the same."""
        with Victim("dozing", "sleeping") as v:
            self.rounds(v)

    def test_exceptions(self):
        with Victim(command=[program("attach/attach-throwing")]) as v:
            v.modes = ["throwing"]
            self.rounds(v)

    def test_python(self):
        """Answers are equal, attached, recorded and left."""
        script = ("import sys\nprint('ready', flush=True)\nfor line in sys.stdin:\n"
                  "    if line == 'quit\\n': break\n"
                  "    n = [str(i) * 20 for i in range(20000)]\n"
                  "    print(sum(map(len, n)), len(set(n)), flush=True)\nprint('bye', flush=True)\n")
        with Victim(command=["/usr/bin/python3", "-c", script]) as v:
            answer = v.ask("a")
            for _ in range(3):
                recorded = Recorded(v)
                self.assertEqual([v.ask("a") for _ in range(3)], [answer] * 3)
                p = process_of(recorded.end(), v.pid)
                self.assertGreater(p["calls"]["malloc"] + p["calls"]["realloc"], 0)
                self.assertEqual(p["unknown_frees"], 0)
                self.assertEqual(v.ask("a"), answer)
            v.end()


# Waits in poll, of which it says how it ended.
POLLING = """import ctypes
c = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
while True:
    print(c.poll(None, 0, 3000), ctypes.get_errno(), flush=True)
"""


class Killed(unittest.TestCase):
    def test_call_that_had_been_stopped_before(self):
        """The kernel goes on with it by restart_syscall. When mallow is killed in the middle, it begins again."""
        for _ in range(KILLS if LONG else 2):  # each waits for three seconds to pass
            with subprocess.Popen([sys.executable, "-c", POLLING], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as p, \
                    tempfile.TemporaryDirectory() as folder:
                self.assertEqual(p.stdout.readline(), "ready\n")
                wait_until(lambda: text_of(f"/proc/{p.pid}/syscall").startswith("7 "))
                os.kill(p.pid, signal.SIGSTOP)
                wait_until(lambda: text_of(f"/proc/{p.pid}/stat").rpartition(")")[2].split()[0] == "T")
                os.kill(p.pid, signal.SIGCONT)
                wait_until(lambda: text_of(f"/proc/{p.pid}/syscall").startswith("219 "))
                record = subprocess.Popen([MALLOW, "record", "-q", "-p", str(p.pid), "--how", "inject", "-o",
                                           os.path.join(folder, "r.mlw")], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while "libmallow-attach" not in text_of(f"/proc/{p.pid}/maps") and record.poll() is None:
                    pass
                for worker in text_of(f"/proc/{record.pid}/task/{record.pid}/children").split():
                    os.kill(int(worker), signal.SIGKILL)
                record.kill()
                record.wait()
                self.assertEqual(p.stdout.readline(), "0 0\n")
                p.kill()

    def test_at_any_moment(self):
        """mallow and its worker are killed: the program goes on, unblocked, untraced; the next one works."""
        with Victim("churn", "sleeping", "polling", "computing", "epolling") as v, tempfile.TemporaryDirectory() as folder:
            before = v.settled()
            for i in range(KILLS):
                record = subprocess.Popen([MALLOW, "record", "-q", "-p", str(v.pid), "--how", "inject", "-o",
                                           os.path.join(folder, "r.mlw")], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                children = f"/proc/{record.pid}/task/{record.pid}/children"
                wait_until(lambda: text_of(children).strip() or record.poll() is not None or v.ours())
                for _ in range(random.randrange(1000)):
                    text_of(f"/proc/{v.pid}/maps")
                for worker in text_of(children).split():
                    try:
                        os.kill(int(worker), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                record.kill()
                record.wait()
                wait_until(lambda: v.traces()["tracer"] == "0")
                v.goes_on()
                self.assertEqual((d := mallow("watch", "--detach", str(v.pid)))[0], 0, d)
                self.assertEqual(v.settled(), before)
            Recorded(v).end()
            self.assertEqual(v.settled(), before)
            v.end()
