"""Commands that root runs on a process of another user that becomes a different one meanwhile; and signals that end them
at any moment."""
import os
import random
import shutil
import signal
import stat
import subprocess
import time

from mallowtest import LONG, MALLOW, Test
import attack
from attack import ATTACKERS, OTHER, PATIENCE

MOMENTS = int(os.environ.get("MALLOW_MOMENTS", 200 if LONG else 1))  # for each command and process
MINUTE = 60  # so long a process may be tried to be left when no signal has come
EXECUTING = os.path.join(ATTACKERS, "executing")
COMMANDS = {
    "heap": ["heap", "PID"],
    "watch": ["watch", "-p", "PID", "-o", "/dev/null"],
    "record": ["record", "-p", "PID", "-o", "OUT"],
    "probe": ["probe", "sizes", "-p", "PID"],
}
INJECT = ["record", "-p", "PID", "--how", "inject", "-o", "OUT"]


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


class Targets(Test):
    def setUp(self):
        if os.geteuid():
            attack.loudly("a target of another user, watched by root")
        self.out = self.folder + "/out"

    def target(self, *args, user=OTHER):
        p = subprocess.Popen([EXECUTING, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             user=user, group=user, extra_groups=[], cwd="/")
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), b"here\n")
        return p

    def command(self, name, pid):
        words = INJECT if name == "inject" else COMMANDS[name]
        return subprocess.Popen([MALLOW, *(w.replace("PID", str(pid)).replace("OUT", self.out) for w in words)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def test_it_executes_a_program_of_root(self):
        """The new program never sees a byte that was meant for the one before."""
        program = "/tmp/mallow-executing-setuid"
        shutil.copy(EXECUTING, program)
        self.addCleanup(os.unlink, program)
        os.chmod(program, 0o755 | stat.S_ISUID)
        for command in ("watch", "inject"):
            with self.subTest(command):
                self.executes(command, program)

    def executes(self, command, program):
        executed = 0
        for n in range(100 if LONG else 12):
            p = self.target(("first", "other")[n % 2], program)
            w = self.command(command, p.pid)
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

    def test_it_cannot_be_left(self):
        """The command ends, and says what stays in the process and how it is taken away."""
        for command in ("watch", "record"):
            with self.subTest(command):
                self.cannot_be_left(command)

    def cannot_be_left(self, command):
        p = self.target("later", user=0)  # record -p of another user's is made from the kernel's side
        w = self.command(command, p.pid)
        said = ""
        while "attached to" not in said:
            line = w.stderr.readline()
            self.assertTrue(line, said)
            said += line
        p.stdin.write(b"u")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"unsafe\n")
        begun = time.monotonic()
        w.send_signal(signal.SIGINT)
        said = w.communicate(timeout=MINUTE / 2)[1]
        print(f"{command}: ended after {time.monotonic() - begun:.2f} s")
        self.assertIn(f"until 'mallow watch --detach {p.pid}'", said)
        self.assertEqual(w.returncode, 1, said)
        self.assertIn("TracerPid:\t0", text_of(f"/proc/{p.pid}/status"))
        p.stdin.write(b"s")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"safe\n")
        d = subprocess.run([MALLOW, "watch", "--detach", str(p.pid)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=PATIENCE)
        self.assertEqual(d.returncode, 0, d.stderr)
        self.assertIn("bindings are as they were", d.stderr)
        p.stdin.close()
        self.assertEqual((p.stdout.read(), p.wait(PATIENCE)), (b"whole\n", 0))

    def test_a_signal_at_any_moment(self):
        """Each command ends, on each hostile process; the process goes on, and is not traced."""
        chance = random.Random(1)
        for mode, user in (("busy", OTHER), ("again", OTHER), ("churn", OTHER), ("stuck", OTHER), ("later", OTHER),
                           ("busy", 0), ("later", 0)):
            p = self.target(mode, user=user)
            if mode == "later":
                p.stdin.write(b"u")
                p.stdin.flush()
                self.assertEqual(p.stdout.readline(), b"unsafe\n")
            for command in COMMANDS if user else ("record",):
                slowest = 0.0
                for n in range(MOMENTS):
                    w = self.command(command, p.pid)
                    # the kernel may check a probe's programs for seconds
                    time.sleep(chance.random() * (4 if n % 4 == 3 and command in ("record", "probe") else 0.6))
                    begun = time.monotonic()
                    w.send_signal((signal.SIGINT, signal.SIGTERM)[n % 2])
                    said = w.communicate(timeout=MINUTE / 2)[1]
                    slowest = max(slowest, time.monotonic() - begun)
                    self.assertNotIn("Sanitizer", said)
                    self.assertNotRegex(said, r"\d{7,}\.\d ms")
                    self.assertIsNone(p.poll(), said)
                    self.assertIn("TracerPid:\t0", text_of(f"/proc/{p.pid}/status"), said)
                print(f"{mode} of user {user}, {command}: slowest end {slowest:.2f} s", flush=True)
            p.stdin.close()
            if mode != "again":
                self.assertEqual(p.wait(PATIENCE), 0)
                self.assertIn(b"whole\n", p.stdout.read())
