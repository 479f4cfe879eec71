"""Processes of another user that claim memory which is not there: looking at them as root makes none of it, and costs
what they have. Each command runs in a control group that would kill it for more."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from mallowtest import LONG, MALLOW
import figures
from attack import ATTACKERS, PATIENCE, Attack, loudly, on_disk

# Its row in docs/security.md.
ROWS = {"heap": "heap PID", "watch": "watch -p", "record": "record -p --how probe", "probe": "probe"}
GROWTH = 128 << 20  # of the machine's shared memory, which others use, too
KINDS = ("shared", "reserved", "mapped", "many", "libc", "python")


def shared_bytes():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Shmem:"))


class Claims(Attack):
    where, symlinks = "/dev/shm", "1"

    def in_group(self, *argv):
        group = figures.group_of(self, ROWS[argv[argv.index(MALLOW) + 1]])
        return group, group.command(*argv)

    @staticmethod
    def note(group, kind, command):
        figures.note(ROWS[command.split()[0]], f"{command} {kind}", group)

    def heap(self, kind, *more, before=()):
        p = self.other("claims", kind)
        shared = shared_bytes()
        group, argv = self.in_group(*before, MALLOW, "heap", "--json", *more, str(p.pid))
        with tempfile.TemporaryFile() as out:  # on a disk
            done = subprocess.run(argv, stdout=out, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.note(group, kind, " ".join(("heap", *more)))
        self.assertIn(done.returncode, (0, 1), (kind, done.stderr))
        self.assertLess(shared_bytes() - shared, GROWTH, kind)
        return done.stderr

    def test_heap(self):
        for kind in KINDS:
            self.heap(kind)

    def test_heap_cold(self):
        for kind in KINDS:
            self.heap(kind, "--cold", "10ms")

    def test_heap_of_a_kernel_before_6_7(self):
        """Which cannot skip what is not there: not all of it is asked for, and that is said."""
        for kind in KINDS:
            said = self.heap(kind, before=(os.path.join(ATTACKERS, "unscanned"),))
            self.assertEqual(b"could not be verified" in said, kind not in ("many", "libc"), (kind, said))

    def test_watch(self):
        for kind in KINDS:
            p = self.other("claims", kind)
            before = shared_bytes()
            group, argv = self.in_group(MALLOW, "watch", "-p", str(p.pid))
            watch = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            line = watch.stderr.readline()  # attached, or why not
            self.assertIn("attached to process", line, kind)
            watch.send_signal(signal.SIGINT)
            end = watch.communicate(timeout=PATIENCE)[1]
            self.note(group, kind, "watch -p")
            self.assertEqual(watch.returncode, 0, (kind, line, end))
            self.assertLess(shared_bytes() - before, GROWTH, kind)

    def probe(self, *argv):
        """From the kernel's side, for a moment."""
        tried = subprocess.run([MALLOW, "probe", "faults", "-d", "1ms", "-p", str(os.getpid())], capture_output=True, text=True,
                               timeout=PATIENCE, check=False)
        if tried.returncode:
            loudly(tried.stderr)
        for kind in KINDS:
            p = self.other("claims", kind)
            shared = shared_bytes()
            group, command = self.in_group(MALLOW, *argv, "-d", "100ms", "-p", str(p.pid))
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
            self.note(group, kind, " ".join(argv[:2]))
            self.assertEqual(done.returncode, 0, (kind, done.stderr))
            self.assertLess(shared_bytes() - shared, GROWTH, kind)

    def test_probe(self):
        for what in ("sizes", "faults"):
            self.probe("probe", what)

    def test_record(self):
        with tempfile.TemporaryDirectory(dir=on_disk()) as base:
            self.probe("record", "-q", "--how", "probe", "-o", f"{base}/r.mlw")

    def test_heap_ends(self):
        """INT at any moment of it ends it: within a bound that nothing but a hang reaches."""
        p = self.other("claims", "many")
        longest = 0
        for i in range(200 if LONG else 8):
            heap = subprocess.Popen([MALLOW, "heap", str(p.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep((i * 37 % 200) / 200)  # a moment of it
            heap.send_signal(signal.SIGINT if i & 1 else signal.SIGTERM)
            asked = time.monotonic()
            heap.wait(PATIENCE)
            longest = max(longest, time.monotonic() - asked)
            with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
                self.assertIn("TracerPid:\t0\n", f.read())
        print(f"heap ended {longest * 1000:.0f} ms after INT or TERM at most", flush=True)


if __name__ == "__main__":
    ran = unittest.main(exit=False).result
    figures.show()
    sys.exit(not ran.wasSuccessful())
