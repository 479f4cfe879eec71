"""`mallow heap PID` of a process that libmallow-watch.so samples, preloaded or attached to: sampled blocks have the
call stack that made them, and neither they nor the library's own tables change what is found. See
victim_sampled.c."""
import json
import os
import signal
import subprocess
import unittest

from mallowtest import MALLOW, WATCH_LIBRARY, program

VICTIM = program("heap/victim_sampled")


class Sampled(unittest.TestCase):
    def start(self, **environment):
        p = subprocess.Popen([VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                             env={**os.environ, **environment})
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p

    def go(self, p):
        p.stdin.write("go\n")
        self.assertEqual(p.stdout.readline(), "done\n")

    def heap(self, p, *args):
        done = subprocess.run([MALLOW, "heap", *args, str(p.pid)], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check(self, p):
        found = json.loads(self.heap(p, "--json"))
        self.assertTrue(found["verified"], found)
        self.assertIs(found["sampled"], True)
        # words of the last blocks may be left in registers and on stacks
        self.assertIn(found["unreachable_blocks"], range(990, 1001))
        holder, = [r for r in found["roots"] if r["root"].startswith("kept_list")]
        self.assertEqual(holder["retained_blocks"], 2000)
        sites = {s["frames"][0]["function"]: s for s in found["sites"]}
        for name, bytes_ in (("holds_here", 2000 * 1008), ("leaks_here", 1000 * 3000)):
            s = sites[name]
            # each period of 16 KiB has its sample: more than a hundred, so that a tenth is one deviation
            self.assertGreater(s["blocks"], 60)
            self.assertLessEqual(s["blocks"], s["sampled_blocks"])
            self.assertAlmostEqual(s["estimated_bytes"], bytes_, delta=bytes_ / 2)
            self.assertLess(s["estimated_bytes_low"], s["estimated_bytes"])
            self.assertLess(s["estimated_bytes"], s["estimated_bytes_high"])
            self.assertLessEqual(s["youngest_age_ns"], s["oldest_age_ns"])
        self.assertEqual(sites["holds_here"]["unreachable_blocks"], 0)
        self.assertGreaterEqual(sites["leaks_here"]["unreachable_blocks"], sites["leaks_here"]["blocks"] - 10)
        self.assertEqual(sum(s["blocks"] for s in found["sites"]), found["recorded_blocks"])
        text = self.heap(p, "--by", "site")
        self.assertIn("a library in it samples a byte in 16.0 KB", text)
        self.assertRegex(text, r"estimated +retained +sampled +leaked +blocks +call site, ages\n(.*\n)*.*leaks_here")

    def test_preloaded(self):
        p = self.start(LD_PRELOAD=WATCH_LIBRARY, MALLOW_WATCH_PERIOD="16K", MALLOW_WATCH_SEED="7")
        self.go(p)
        self.check(p)

    def test_attached(self):
        p = self.start()
        watch = subprocess.Popen([MALLOW, "watch", "-p", str(p.pid), "--period", "16K"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(watch.communicate)
        self.addCleanup(watch.kill)
        self.assertIn("attached to process", watch.stderr.readline())
        self.go(p)
        self.check(p)
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=600)
        self.assertEqual(watch.returncode, 0)
        found = json.loads(self.heap(p, "--json"))
        self.assertNotIn("sampled", found)
        self.assertNotIn("sites", found)

    def test_neither(self):
        p = self.start()
        done = subprocess.run([MALLOW, "heap", "--by", "site", str(p.pid)], capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("--by site needs --recording, or a process that is sampled", done.stderr)
