"""mallow tune on a workload made to fragment (fragment.c): that it finds what is known to help, confirms it, and
prints lines that work. Of the three objectives only memory is looked at, so nothing depends on how fast the
machine is."""
import json
import os
import signal
import subprocess
import sys
import unittest

from mallowtest import MALLOW, REPLAYER, mallow, path, program

FRAGMENT = program("tune/fragment")


class Tunes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        trace = path("fragment.mlw")
        cls.workload = path("fragment.mwl")
        mallow("record", "-q", "--stacks=none", "-o", trace, "--", FRAGMENT)
        mallow("workload", "-q", "-o", cls.workload, trace)
        cls.found = json.loads(mallow("tune", "--json", "--objective", "peak", "--runs", "60", "--seed", "1",
                                      cls.workload).stdout)

    def test_finds_and_confirms(self):
        winner = self.found["winners"][0]
        self.assertEqual(winner["objective"], "peak")
        self.assertTrue(winner["confirmed"])
        self.assertLess(winner["ratio"], 0.8)
        self.assertLess(winner["ratio_high"], 0.8)
        self.assertEqual(winner["fresh"]["peak_rss_bytes"]["ratio"], winner["ratio"])
        self.assertTrue(any("arena_max" in name or "mmap_threshold" in name for name in winner["settings"]))

    def test_budget(self):
        self.assertLessEqual(self.found["runs"], 60 + 4)
        self.assertGreaterEqual(self.found["confirmation_rounds"], 3)

    def test_time(self):
        """With little time there are fewer runs, and fewer rounds; a run without any is ended."""
        found = json.loads(mallow("tune", "--json", "--budget", "1s", self.workload).stdout)
        self.assertLess(found["runs"], 120)
        self.assertLessEqual(len(found["winners"]), 4)
        replayer = REPLAYER
        self.assertEqual(subprocess.run([replayer, self.workload, "limit_ns=1000"], capture_output=True).returncode,
                         -signal.SIGALRM)

    def test_front(self):
        front, keys = self.found["front"], ("peak_rss_bytes", "average_rss_bytes", "cpu_ns")
        self.assertTrue(front)
        values = [[p[k]["to_default"] for k in keys] for p in front]
        for a in values:
            for b in values:
                self.assertFalse(all(x < y * 0.98 for x, y in zip(a, b)), (a, b))
        self.assertEqual(self.found["default_on_front"], any(not p["settings"] for p in front))
        self.assertEqual(self.found["default"]["settings"], {})

    def test_what_was_searched(self):
        lines = [p["environment"] for p in self.found["searched"]]
        self.assertEqual(len(set(lines)), len(lines))
        self.assertLessEqual(len(lines), self.found["points"])
        for p in [self.found["default"]] + self.found["front"]:
            self.assertIn(p["environment"], lines)
        confirmation = self.found["confirmation"]
        names = [c["candidate"] for c in confirmation["candidates"]]
        self.assertEqual(names[1:], [w["candidate"] for w in self.found["winners"]])
        self.assertEqual(len(confirmation["runs"]), len(names) * self.found["confirmation_rounds"])
        for w, c in zip(self.found["winners"], confirmation["candidates"][1:]):
            self.assertEqual(w["fresh"]["peak_rss_bytes"]["median"], c["peak_rss_bytes"]["median"])

    def test_the_line_works(self):
        """A real run of the program with the printed environment has the smaller peak, too."""
        def peak(line):
            variables = dict(word.split("=", 1) for word in line.split())
            code = ("import os, resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            env = {**{k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}}
            words = [f"{k}={v}" for k, v in variables.items()]
            return int(subprocess.run([sys.executable, "-c", code, "env", *words, FRAGMENT], check=True,
                                      capture_output=True, text=True, env=env).stdout)
        line = self.found["winners"][0]["environment"]
        self.assertTrue(line.startswith("GLIBC_TUNABLES="), line)
        self.assertLess(peak(line), 0.8 * peak("A=B"))

    def test_text(self):
        out = mallow("tune", "--runs", "12", "--confirm", "3", self.workload).stdout
        self.assertIn("The Pareto front", out)
        self.assertIn("the default", out)
        self.assertTrue("confirmed" in out or "Nothing to confirm" in out)
        self.assertNotIn("\033", out)

    def test_fixed_settings_stay(self):
        out = json.loads(mallow("tune", "--json", "--runs", "12", "--set", "glibc.malloc.arena_max=1",
                                self.workload).stdout)
        self.assertEqual(out["default"]["settings"], {"glibc.malloc.arena_max": "1"})
        for point in out["front"] + out["winners"]:
            self.assertEqual(point["settings"]["glibc.malloc.arena_max"], "1")
            self.assertEqual(point["environment"].count("arena_max"), 1)

    def test_other_allocators(self):
        """From the table of settings to a confirmed answer, of each that is installed."""
        for name in ("jemalloc", "mimalloc", "tcmalloc"):
            with self.subTest(name):
                p = subprocess.run([MALLOW, "tune", "--alloc", name, "--runs", "24", "--confirm", "3", "--json",
                                    self.workload], capture_output=True, text=True, timeout=600)
                if p.returncode == 1 and "install" in p.stderr:
                    print(f"SKIPPED: {p.stderr.strip()}", file=sys.stderr)
                    continue
                self.assertEqual(p.returncode, 0, p.stderr)
                found = json.loads(p.stdout)
                self.assertEqual(found["allocator"], name)
                self.assertEqual(found["failed_runs"], 0)
                self.assertGreaterEqual(len(found["searched"]), 4)
                self.assertTrue(all("LD_PRELOAD=" in point["environment"] for point in found["searched"]))
                variable = {"jemalloc": "MALLOC_CONF=", "mimalloc": "MIMALLOC_", "tcmalloc": "TCMALLOC_"}[name]
                set_ = [point for point in found["searched"] if point["settings"]]
                self.assertTrue(set_ and all(variable in point["environment"] for point in set_))
                line = set_[0]["environment"]
                done = subprocess.run(["env", *line.split(), FRAGMENT], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), line)

    def test_messages(self):
        self.assertIn("unknown allocator", mallow("tune", "--alloc", "a", self.workload, status=2).stderr)
        self.assertIn("cannot be fixed", mallow("tune", "--set", "M_TOP_PAD=1", self.workload, status=2).stderr)
        self.assertIn("not a workload", mallow("tune", FRAGMENT, status=2).stderr)
