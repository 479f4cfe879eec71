"""`mallow watch -p`, run by root, on a process of another user that becomes a different one meanwhile; and signals
that end the command at any moment."""
import os
import random
import shutil
import signal
import stat
import subprocess
import time
import unittest

import attack
from attack import ATTACKERS, MALLOW, OTHER, PATIENCE

LONG = bool(os.environ.get("MALLOW_LONG"))
EXECUTING = os.path.join(ATTACKERS, "executing")


def text_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def program_of(pid):
    """"": it is just becoming another."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


class Targets(unittest.TestCase):
    def setUp(self):
        if os.geteuid():
            attack.loudly("a target of another user, watched by root")

    def target(self, *args):
        p = subprocess.Popen([EXECUTING, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             user=OTHER, group=OTHER, extra_groups=[], cwd="/")
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), b"here\n")
        return p

    @staticmethod
    def watch(pid):
        return subprocess.Popen([MALLOW, "watch", "-p", str(pid), "-o", "/dev/null"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def test_it_executes_a_program_of_root(self):
        """The new program never sees a byte that was meant for the one before."""
        program = "/tmp/mallow-executing-setuid"
        shutil.copy(EXECUTING, program)
        self.addCleanup(os.unlink, program)
        os.chmod(program, 0o755 | stat.S_ISUID)
        executed = 0
        for n in range(100 if LONG else 12):
            p = self.target(("first", "other")[n % 2], program)
            w = self.watch(p.pid)
            said = w.stderr.readline()
            if "attached to" in said:  # before it was seen
                w.send_signal(signal.SIGINT)
                said += w.communicate(timeout=PATIENCE)[1]
                p.kill()
                continue
            executed += 1
            self.assertEqual(p.stdout.readline(), b"here\n", said)
            said += w.communicate(timeout=PATIENCE)[1]
            self.assertIn(f"process {p.pid}", said)
            self.assertNotEqual(w.returncode, 0)
            p.stdin.close()
            self.assertEqual((p.stdout.read(), p.wait(PATIENCE)), (b"whole\n", 0), said)
        self.assertGreater(executed, 0, "the attack never succeeded")

    def test_it_executes_a_program_of_root_while_its_heap_is_read(self):
        """All threads are stopped: one that dies meanwhile is waited for, and the command ends."""
        program = "/tmp/mallow-stopped-setuid"
        shutil.copy(EXECUTING, program)
        self.addCleanup(os.unlink, program)
        os.chmod(program, 0o755 | stat.S_ISUID)
        executed = 0
        for _ in range(100 if LONG else 30):
            p = self.target("other", program)
            h = subprocess.run([MALLOW, "heap", str(p.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertIn(h.returncode, (0, 1), h.stderr)
            if program_of(p.pid) == EXECUTING:
                p.kill()
                continue
            executed += 1
            self.assertEqual(p.stdout.readline(), b"here\n", h.stderr)
            self.assertIn("TracerPid:\t0", text_of(f"/proc/{p.pid}/status"))
            p.stdin.close()
            self.assertEqual((p.stdout.read(), p.wait(PATIENCE)), (b"whole\n", 0), h.stderr)
        self.assertGreater(executed, 0, "the attack never succeeded")

    def test_it_executes_a_program_of_root_while_its_copy_is_read(self):
        """The process is stopped a second time, to reap the copy: that is another program by then."""
        program = "/tmp/mallow-copied-setuid"
        shutil.copy(EXECUTING, program)
        self.addCleanup(os.unlink, program)
        os.chmod(program, 0o755 | stat.S_ISUID)
        executed = 0
        for _ in range(100 if LONG else 3):
            p = self.target("copied", program)
            h = subprocess.run([MALLOW, "heap", str(p.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            if p.poll() is None and os.readlink(f"/proc/{p.pid}/exe") == EXECUTING:
                p.kill()
                continue
            executed += 1
            self.assertEqual(p.stdout.readline(), b"here\n", h.stderr)
            p.stdin.close()
            self.assertEqual((p.stdout.read(), p.wait(PATIENCE)), (b"whole\n", 0), h.stderr)
        self.assertGreater(executed, 0, "the attack never succeeded")

    def test_a_signal_at_any_moment(self):
        """The command ends; the target goes on, and is not traced."""
        chance, slowest = random.Random(1), 0.0
        p = self.target("busy")
        for n in range(200 if LONG else 15):
            w = self.watch(p.pid)
            time.sleep(chance.random() * 0.4)
            begun = time.monotonic()
            w.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[n % 2])
            w.communicate(timeout=PATIENCE)
            slowest = max(slowest, time.monotonic() - begun)
            self.assertIsNone(p.poll())
            self.assertIn("TracerPid:\t0", text_of(f"/proc/{p.pid}/status"))
        print(f"slowest end: {slowest:.2f} s")
        p.stdin.close()
        self.assertEqual((p.stdout.read(), p.wait(PATIENCE)), (b"whole\n", 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
