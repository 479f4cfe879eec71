"""jemalloc's own API beside malloc's: every call is recorded with its operation, size and stack, however
the program finds the functions, and a program sees no jemalloc that is not there."""
import glob
import json
import os
import subprocess

from mallowtest import LIBRARY, MALLOW, Case, function_names, run, victim

FOUND = glob.glob("/usr/lib/*/libjemalloc.so.2")


class Jemalloc(Case):
    def setUp(self):
        super().setUp()
        if not FOUND:
            self.skipTest("SKIPPED, LOUDLY: libjemalloc2 is not installed")
        self.behind = {"LD_PRELOAD": FOUND[0]}

    def test_every_call_is_recorded(self):
        for way in "weak", "dlsym", "plugin":
            with self.subTest(way=way):
                file = os.path.join(self.folder, way + ".mlw")
                p = self.process(self.recorded([victim("jemalloc"), "truth", way], env=self.behind, file=file),
                                 "jemalloc")
                calls = {k: v for k, v in p["calls"].items() if k.endswith("x")}
                self.assertEqual(calls, {"mallocx": 101, "rallocx": 50, "xallocx": 2, "sallocx": 0,
                                         "dallocx": 20, "sdallocx": 31})
                self.assertEqual((p["failed"], p["unknown_frees"], p["inferred_frees"]), ({"xallocx": 1}, 0, 0))
                by = {f: [s for s in p["sites"] if f in function_names(s)] for f in ("by_mallocx", "by_rallocx")}
                self.assertEqual([(s["calls"], s["allocated_bytes"], s["end_live_blocks"], s["end_live_bytes"])
                                  for s in by["by_mallocx"]], [(100, 100000, 10, 10000)])
                self.assertEqual([(s["calls"], s["allocated_bytes"], s["end_live_blocks"]) for s in by["by_rallocx"]],
                                 [(50, 150000, 0)])
                resized = [s for s in p["sites"] if s["allocated_bytes"] == 4500]
                self.assertEqual([(s["calls"], s["end_live_bytes"]) for s in resized], [(1, 4500)])

    def test_blocks_cross_between_the_apis(self):
        for way in "weak", "dlsym", "plugin":
            with self.subTest(way=way):
                file = os.path.join(self.folder, way + ".mlw")
                p = self.process(self.recorded([victim("jemalloc"), "mixed", way, "500"], env=self.behind, file=file),
                                 "jemalloc")
                self.assertEqual((p["unknown_frees"], p["inferred_frees"], p["warnings"]), (0, 0, []))
                self.assertEqual([p["calls"][f] for f in ("mallocx", "rallocx", "sallocx", "sdallocx")],
                                 [1000, 500, 1000, 1250])

    def test_replay(self):
        self.recorded([victim("jemalloc"), "truth", "weak"], env=self.behind)
        workload = os.path.join(self.folder, "run.mwl")
        r = run([MALLOW, "workload", self.file, "-o", workload])
        self.assertEqual(r.rc, 0, r.err)
        r = run([MALLOW, "replay", "--json", workload])
        self.assertEqual(r.rc, 0, r.err)
        found = json.dumps(json.loads(r.out))
        # 100 aligned ones, one of zeros; 50 + 1 resizes and one that fails; 31 frees of a size
        for name, count in (("memalign", 100), ("calloc", 1), ("realloc", 52), ("free_aligned_sized", 0)):
            self.assertEqual(f'"{name}": {{"count": {count},' in found, bool(count), (name, found))

    def test_a_program_sees_what_it_would_see_alone(self):
        argv = [victim("jemalloc"), "present"]
        for env in {}, self.behind:
            plain, _ = self.untouched(argv, env=env)
        self.assertIn(b"weak 111111 dlsym 1", plain.out)

    def test_nothing_is_exported(self):
        out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("allocx", out)
