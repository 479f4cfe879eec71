"""`mallow advise`: what each setting saves, by replays, against what the program itself saves with it."""
import json
import subprocess
import unittest

from mallowtest import MALLOW, path
from phases import ENVIRONMENT, PHASES, Program, mallow


class Advise(unittest.TestCase):
    def advise(self, p, *options):
        document = json.loads(mallow("advise", "--json", "--rounds", "2", *options, p.path))
        self.assertEqual((document["schema"], document["pid"], document["rounds"]), (1, p.pid, 2))
        self.assertAlmostEqual(document["replayed_heap_bytes"], document["recorded_heap_bytes"],
                               delta=document["recorded_heap_bytes"] / 10)
        measured = [a for a in document["advice"] if a["measured"]]
        self.assertEqual(measured, sorted(measured, key=lambda a: -a["saves_bytes"]))
        for a in measured:
            self.assertLessEqual(a["saves_low_bytes"], a["saves_bytes"])
            self.assertLessEqual(a["saves_bytes"], a["saves_high_bytes"])
        return document, {a["setting"]: a for a in document["advice"]}

    def agrees(self, advice, saved):
        """Within a tenth of what the program saved, or the interval covers it."""
        low, high = advice["saves_low_bytes"], advice["saves_high_bytes"]
        self.assertTrue(low <= saved <= high or abs(advice["saves_bytes"] - saved) < abs(saved) / 10, (advice, saved))

    def test_arenas(self):
        """Whole free pages in many arenas: malloc_trim gives them back; fewer arenas do not help, all was used at once."""
        # Another run trims: a measurement of the recorded one could else be made while it trims.
        trimmed = Program("arenas-trimmed")
        trimmed.order("threads 6 4000")
        before = trimmed.rss()
        trimmed.order("trim")
        saved = before - trimmed.rss()
        trimmed.end()
        self.assertGreater(saved, 15000000)
        p = Program("arenas")
        p.order("threads 6 4000")
        p.settle("gap", 20000)
        p.end()
        _, advice = self.advise(p, "--set", "glibc.malloc.tcache_count=0")
        self.agrees(advice["malloc_trim"], saved)
        self.assertIsNone(advice["malloc_trim"]["command"])
        for n in (1, 2, 4):
            one = advice[f"glibc.malloc.arena_max={n}"]
            self.assertLess(abs(one["saves_bytes"]), saved / 10)
            self.assertEqual(one["command"], f"GLIBC_TUNABLES=glibc.malloc.arena_max={n}")
        self.assertIn("glibc.malloc.tcache_count=0", advice)
        text = mallow("advise", "--rounds", "3", p.path)
        self.assertRegex(text, r" MB  \(.*B \.\. .* MB\).*: malloc_trim\n")

    def raise_threshold(self, name, environment):
        p = Program(name, environment)
        p.order("large 9000000")
        p.order("drop")  # from here on blocks up to that size come from the heap
        for i in range(8):
            p.order("large 6000000")
            p.order("touch 6000000")
        p.order("small 1 100")
        p.order("drop")
        return p

    def test_mmap_threshold(self):
        """Large blocks in the heap, below a small one that stays: had each its own mapping, it would be gone."""
        p = self.raise_threshold("raised", {})
        p.settle("end")
        rss = p.rss()
        p.end()
        setting = "glibc.malloc.mmap_threshold=131072"
        other = self.raise_threshold("fixed", {"GLIBC_TUNABLES": setting})
        saved = rss - other.rss()
        other.end()
        self.assertGreater(saved, 40000000)
        document, advice = self.advise(p)
        self.agrees(advice[setting], saved)
        self.assertEqual(advice[setting]["command"], "GLIBC_TUNABLES=" + setting)
        self.agrees(advice["malloc_trim"], saved)
        self.assertEqual(document["at"], "gap")

    def test_survivors(self):
        """Fragmentation: no setting of glibc's helps. A pool for the call site that pins does, but what is free then lies in
        fastbins until malloc_trim is called."""
        p = Program("survivors")
        p.order("small 200000 96")
        p.order("thin 37")
        p.settle("end", (200000 // 37 + 1) * 96 + 20000)
        p.end()
        document = json.loads(mallow("advise", "--json", "--rounds", "2", p.path))
        pool = next(a for a in document["advice"] if a["setting"] == "pool")
        self.assertTrue(pool["measured"])
        self.assertEqual(pool["frames"][0]["function"], "survivor")
        self.assertLess(pool["saves_bytes"], 5000000)
        both = next(a for a in document["advice"] if a["setting"] == "pool+malloc_trim")
        self.assertGreater(both["saves_bytes"], 15000000)
        self.assertFalse([a for a in document["advice"] if a["setting"].startswith(("glibc", "malloc_trim"))])

    def test_nothing_saves(self):
        """A table of what saves is not begun when nothing does."""
        p = Program("needed")
        p.order("small 100000 96")
        p.end()
        text = mallow("advise", "--rounds", "3", "--set", "glibc.malloc.mmap_max=7", p.path)
        self.assertIn("glibc.malloc.mmap_max=7", text)
        self.assertNotRegex(text, r"(?m)^Saves ")
        self.assertEqual(text.count("Tried, and"), 1)

    def test_nothing_allocated(self):
        """A recording without allocations is no mistake in the command line."""
        file = path("nothing.mlw")
        subprocess.run([MALLOW, "record", "-q", "--paused", "-o", file, "--", PHASES], stdin=subprocess.DEVNULL, check=True,
                       env=ENVIRONMENT)
        for command in (["advise", file], ["workload", "-o", file + ".mwl", file]):
            self.assertRegex(mallow(*command, status=1), "no process in .* allocated anything")
            self.assertRegex(mallow(command[0], "-p", "1", *command[1:], status=2), "process")

    def test_refusals(self):
        p = Program("refusals")
        p.order("small 1000 96")
        p.end()
        self.assertIn("not a mark", mallow("advise", "--at", "nowhere", p.path, status=2))
        self.assertIn("is not a setting", mallow("advise", "--set", "nonsense=1", p.path, status=2))
        self.assertIn("no process of that id", mallow("advise", "-p", "1", p.path, status=2))
        mallow("advise", path("nothing.mlw"), status=1)
        self.assertTrue(ENVIRONMENT)
