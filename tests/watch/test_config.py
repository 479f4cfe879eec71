"""`mallow watch --config FILE`: a strict file, mistakes by line, and SIGHUP."""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, WATCH_LIBRARY, program
from mallowtest.fakes import Watch

SERVER = program("watch/server")


class Case(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="mallow-test-")
        self.addCleanup(place.cleanup)
        self.place, self.file = place.name, os.path.join(place.name, "watch.conf")

    def write(self, text, mode=0o644):
        with open(self.file, "w", encoding="latin-1") as f:
            f.write(text)
        os.chmod(self.file, mode)

    def watch(self, *args, **more):
        watch = Watch("--config", self.file, *args, stdin=subprocess.PIPE, **more)
        self.addCleanup(watch.__exit__)
        self.addCleanup(watch.process.stdin.close)
        return watch

    def said(self, watch, text):
        while True:
            line = watch.process.stderr.readline()
            self.assertTrue(line, f"never said: {text}")
            if text in line:
                return line


class File(Case):
    def test_options_of_the_file_and_of_the_command_line(self):
        self.write("# a comment\n\n  period = 8K\t\r\nold=1ms\nevery = 500ms\n\nhigh-water = no\nguard = off\n")
        program = ("--", SERVER, "hold", "1000", "wait")
        watch = self.watch(*program)
        self.assertEqual((watch.process.stdout.readline(), watch.next("old")["period_bytes"]), ("ready\n", 8192))
        watch = self.watch("--period", "16K", "--by", "bytes", *program)
        self.assertEqual((watch.process.stdout.readline(), watch.next("old")["period_bytes"]), ("ready\n", 16384))

    def test_lists(self):
        """-a itself, and names, from the file; all of those that it has, or those of the command line."""
        programs = [shutil.copy(SERVER, os.path.join(self.place, f"{n}-{os.getpid()}")) for n in ("cfa", "cfb")]
        names = [os.path.basename(p) for p in programs]
        held = {}
        for p in programs:
            held[p] = subprocess.Popen([p, "hold", "100", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_PERIOD": "4K"})
            for clean in held[p].stdout.close, held[p].stdin.close, held[p].wait, held[p].kill:
                self.addCleanup(clean)
            self.assertEqual(held[p].stdout.readline(), "ready\n")
        self.write(f"all = yes\nhow = preloaded\nold = 1ms\nevery = 500ms\ncomm = {names[0]}\ncomm = {names[1]}\n")
        watch, seen = self.watch(), set()
        while seen != {p.pid for p in held.values()}:
            seen.add(watch.next("old")["pid"])
        self.assertEqual(watch.end()[2], 0)
        watch = self.watch("--comm", names[1])
        self.assertEqual({watch.next("old")["pid"] for _ in range(3)}, {held[programs[1]].pid})
        self.assertEqual(watch.end()[2], 0)

    def test_mistakes(self):
        for text, line, why in (("period 8K\n", 1, "not 'key = value'"), ("\n\nperiod = x\n", 3, "not a size"),
                                ("every = 1ms\n", 1, "out of range"), ("period = 8K\nperiod = 9K\n", 2, "is set twice"),
                                ("perriod = 8K\n", 1, "unknown key 'perriod'"), ("json = true\n", 1, "neither yes nor no"),
                                ("on-error = explode\n", 1, "not one of continue|die"), ("period =\n", 1, "the value is missing"),
                                ("= 8K\n", 1, "unknown key ''"), ("pid = 1\n", 1, "belongs on the command line"),
                                ("config = x\n", 1, "belongs on the command line"), ("n = 3\n", 1, "unknown key 'n'"),
                                ("period = \"8K\"\n", 1, "not a size"), ("# ok\r\nperiod = 8K # big\r\n", 2, "not a size"),
                                ("\x1b[31m = 1\n", 1, "unknown key '")):
            self.write(text)
            out = subprocess.run([MALLOW, "watch", "--config", self.file, "--", "/bin/echo", "ran"], capture_output=True,
                                 text=True, check=False, timeout=300)
            self.assertEqual((out.returncode, out.stdout), (2, ""), text)
            self.assertIn(f"{self.file}:{line}: ", out.stderr)
            self.assertIn(why, out.stderr)
            self.assertEqual(len(out.stderr.splitlines()), 1)
            self.assertNotIn("\x1b", out.stderr)

    def test_files_that_are_not_believed(self):
        def refused(why):
            for args, status in ((("--", "/bin/echo", "ran"), 125), (("-a",), 1)):
                out = subprocess.run([MALLOW, "watch", "--config", self.file, *args], capture_output=True, text=True,
                                     check=False, timeout=300)
                self.assertEqual((out.returncode, out.stdout), (status, ""), why)
                self.assertIn(why, out.stderr)
        refused("--config")  # there is none
        self.write("period = 8K\n", 0o666)
        refused("can be changed by other users")
        self.write("period = 8K\n\0every = 1s\n")
        refused("contains a NUL byte")
        self.write("# " + "x" * (70 << 10) + "\n")
        refused("--config")
        os.unlink(self.file)
        os.mkfifo(self.file)
        refused("--config")


class Again(Case):
    def test_read_again(self):
        self.write("period = 8K\nold = 1ms\nevery = 500ms\n")
        watch = self.watch("--", SERVER, "hold", "1000", "wait")
        self.assertEqual(watch.process.stdout.readline(), "ready\n")
        self.assertEqual(watch.next("old")["period_bytes"], 8192)
        self.write("period = 32K\nold = 1ms\nevery = 500ms\nperoid = 3\n")
        watch.signal(signal.SIGHUP)
        self.assertIn(f"{self.file}:4: ", self.said(watch, "unknown key"))
        self.said(watch, "nothing was changed")
        self.assertEqual(watch.next("old")["period_bytes"], 8192)
        self.write(f"period = 32K\nold = 2ms\nevery = 600ms\npprof = {self.place}/profile\n")
        watch.signal(signal.SIGHUP)
        self.said(watch, "'pprof' cannot change while the watch runs")
        self.said(watch, "was read again")
        while (r := watch.next("old"))["period_bytes"] != 32768:
            pass
        self.assertEqual((r["older_than_ns"], r["older_than_from"]), (2000000, "given"))
        os.unlink(self.file)
        watch.signal(signal.SIGHUP)
        self.said(watch, "nothing was changed")
        self.assertFalse(os.path.exists(self.place + "/profile"))
        watch.process.communicate("\n", timeout=300)
        self.assertEqual(watch.process.returncode, 3)
