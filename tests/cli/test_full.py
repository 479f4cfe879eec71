"""Every output onto a full disk: it is said, with the reason, and the exit status is not 0."""
import os
import stat
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, VICTIMS, path

REASON = "No space left on device"


class Full(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.recording, cls.workload = path() + "/r.mlw", path() + "/r.mwl"
        program = [VICTIMS + "/api", "counts"]
        subprocess.run([MALLOW, "record", "-q", "-o", cls.recording, "--", *program], check=True, capture_output=True)
        subprocess.run([MALLOW, "workload", "-q", "-o", cls.workload, cls.recording], check=True, capture_output=True)

    def fails(self, arguments, statuses=(1,), out=subprocess.DEVNULL):
        done = subprocess.run([MALLOW, *arguments], stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              timeout=100, check=False)
        self.assertIn(done.returncode, statuses, (arguments, done.stderr))
        self.assertIn(REASON, done.stderr, arguments)
        self.assertRegex(done.stderr, r"(?m)^mallow")
        self.assertEqual(done.stderr.count(REASON), 1, (arguments, done.stderr))

    def test_standard_output(self):
        with open("/dev/full", "wb") as full:
            for arguments in (("--version",), ("help",), ("report", "--help"), ("doctor",), ("doctor", "--json"),
                              ("report", self.recording), ("report", "--json", self.recording), ("dump", self.recording),
                              ("dump", "--json", self.recording), ("dump", "--window", "1ms", self.recording),
                              ("diff", self.recording, self.recording), ("diff", "--json", self.recording, self.recording),
                              ("replay", self.workload), ("replay", "--json", self.workload),
                              ("compare", "--alloc=glibc", "--repeat=2", self.workload),
                              ("compare", "--alloc=glibc", "--repeat=2", "--json", self.workload)):
                with self.subTest(arguments):
                    self.fails(arguments, out=full)

    def test_watch_of_a_program_that_ends_well(self):
        """Its own status is as it was: what the program did is not hidden, and 0 would hide the loss."""
        with open("/dev/full", "wb") as full:
            for options, out in ((("-o", "/dev/full"), subprocess.DEVNULL), (("--json", "-o", "/dev/full"), subprocess.DEVNULL),
                                 (("--json",), full)):
                for status, wanted in ((0, 125), (7, 7)):
                    with self.subTest(options, status=status):
                        self.fails(("watch", *options, "--", "/bin/sh", "-c", f"exit {status}"), (wanted,), out)

    def test_probe(self):
        works = subprocess.run([MALLOW, "probe", "sizes", "--", "/bin/true"], capture_output=True, text=True, check=False)
        if works.returncode:
            self.skipTest("no probes here: " + works.stderr)
        self.fails(("probe", "sizes", "-o", "/dev/full", "--", "/bin/true"))

    def test_files_on_a_full_disk(self):
        if os.geteuid():
            self.skipTest("mounts need root")
        at = tempfile.mkdtemp(prefix="mallow-full-")
        self.addCleanup(os.rmdir, at)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", at], check=True)
        self.addCleanup(subprocess.run, ["umount", at], check=True)
        with open(at + "/fills", "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError:
                pass
        out = at + "/out"
        program = ("--", VICTIMS + "/api", "counts")
        for arguments, status in ((("record", "-o", out, *program), 125), (("watch", "-o", out, *program), 125),
                                  (("watch", "--pprof", out, "--period", "1", *program), 125),
                                  (("watch", "--metrics-file", out, *program), 125),
                                  (("workload", "-o", out, self.recording), 1), (("workload", "-o", out + ".wl", self.recording), 1),
                                  (("workload", "-o", out + ".mtrace", self.recording), 1),
                                  (("workload", "-o", out + ".mwl.zst", self.workload), 1),
                                  (("report", "--html", out, self.recording), 1),
                                  (("report", "--fail-above", "peak=100G", "--junit", out, self.recording), 1),
                                  (("diff", "--fail-above", "peak=100G", "--junit", out, self.recording, self.recording), 1),
                                  (("compare", "--alloc=glibc", "--repeat=2", "--save", out, self.workload), 1),
                                  (("compare", "--alloc=glibc", "--repeat=2", "--html", out, self.workload), 1)):
            with self.subTest(arguments):
                self.fails(arguments, (status,))
                left = set(os.listdir(at)) - {"fills"}
                for name in left:  # a file that is appended to is there before it has anything
                    self.assertEqual((name, arguments[0], os.path.getsize(out)), ("out", "watch", 0))
                    os.remove(out)

    def test_a_device_is_not_replaced(self):
        if os.geteuid():
            self.skipTest("devices need root")
        with tempfile.TemporaryDirectory() as folder:
            device = folder + "/full"
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            done = subprocess.run([MALLOW, "watch", "--metrics-file", device, "--", "/bin/true"], capture_output=True, text=True,
                                  timeout=100, check=False)
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn("not a regular file", done.stderr)
            self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode))
