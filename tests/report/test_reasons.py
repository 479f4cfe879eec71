"""Programs that hold more memory than they use, each for a reason that is known (reasons.c): the report's largest part is
that reason, the parts add up to what /proc said, the advice names the remedy, and what it is to save is what the program
saves when it takes the advice."""
import json
import os
import subprocess
import unittest

from mallowtest import LONG, MALLOW, path, program, wait_until
from mallowtest.libcfacts import FASTBINS
from phases import ENVIRONMENT, mallow

REASONS = program("report/reasons")
TUNABLES = "GLIBC_TUNABLES"


def figure(pid, file, key):
    with open(f"/proc/{pid}/{file}", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(key + ":"))


def rss(pid):
    return figure(pid, "smaps_rollup", "Rss")


class Process:
    """The program, in the state in which it has more than it uses."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=path(),
                                        env={**ENVIRONMENT, **(environment or {})})
        assert self.process.stdout.readline() == b"ready\n"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


def real(reason, *remedies, environment=None, figure_of=rss):
    """What the program has without mallow. remedies: "remedy", and then "trim"."""
    p = Process([REASONS, reason, *remedies], environment)
    value = figure_of(p.process.pid)
    p.end()
    return value


class Reasons(unittest.TestCase):
    def record(self, reason):
        """Path, explanation of the end, what /proc said. The last measurement may be another one than what /proc was
        compared with, and pages of files gone meanwhile: then once more."""
        for _ in range(5):
            path, e, said = self.record_once(reason)
            if abs(e["rss_bytes"] - said) < said / 100:
                break
        return path, e, said

    @staticmethod
    def record_once(reason):
        file = path(reason + ".mlw")
        if os.path.exists(file):
            os.unlink(file)
        p = Process([MALLOW, "record", "-q", "-o", file, "--", REASONS, reason])
        with open(f"/proc/{p.process.pid}/task/{p.process.pid}/children", encoding="ascii") as f:
            pid = int(f.read().split()[0])

        def measured():  # pages of files come and go
            before = rss(pid)
            mallow("control", str(pid), "snapshot")
            return before if abs(rss(pid) - before) < before / 500 else None
        said = wait_until(measured, "two equal readings of /proc")
        p.end()
        process, = json.loads(mallow("report", "--json", "--at", "end", file))["processes"]
        e, = process["explained"]
        return file, e, said

    def explains(self, reason, *parts):
        """The parts by size, but for what is live, are at first these."""
        path, e, said = self.record(reason)
        self.assertEqual(sum(p["bytes"] for p in e["parts"]), e["rss_bytes"])
        self.assertAlmostEqual(e["rss_bytes"], said, delta=said / 100)
        ranked = sorted((p for p in e["parts"] if p["name"] != "live"), key=lambda p: -abs(p["bytes"]))
        self.assertEqual([p["name"] for p in ranked[:len(parts)]], list(parts), e["parts"])
        self.assertGreater(abs(ranked[len(parts) - 1]["bytes"]), 2 * abs(ranked[len(parts)]["bytes"]))
        return path, e

    def advises(self, path, e, setting):
        """The advice of `advise`, which the report names as well."""
        self.assertIn(setting, [a["setting"] for a in e["advice"]])
        listed = self.measures(path, e)
        return next(a for a in listed if a["setting"] == setting)

    def measures(self, path, e):
        """What `advise` measured; what the report says a remedy saves agrees with it."""
        document = json.loads(mallow("advise", "--json", "--at", "end", "--rounds", "5" if LONG else "2", path))
        listed = document["advice"]
        saved = [a["saves_bytes"] for a in listed]
        self.assertEqual(saved, sorted(saved, reverse=True))
        self.document = document
        measured = {self.remedy_of(a): a["saves_bytes"] for a in listed if a["measured"]}
        for a in [a for a in e["advice"] if a["saves_bytes"] and self.remedy_of(a) in measured]:
            self.assertLessEqual(a["saves_bytes"] / 2, measured[self.remedy_of(a)], a)
            self.assertGreaterEqual(a["saves_bytes"] * 2, measured[self.remedy_of(a)], a)
        for a in e["advice"]:
            self.assertLessEqual(a["saves_bytes"] or 0, a["saves_at_most_bytes"] or 0)
        self.estimates = {self.remedy_of(a): a["saves_bytes"] for a in e["advice"]}
        return listed

    @staticmethod
    def remedy_of(a):
        return a["setting"], a["frames"][0]["function"] if "frames" in a else a.get("call_sites")

    def agrees(self, advice, saved, helps=True):
        low, high = (advice.get(f"saves_{k}_bytes", advice["saves_bytes"]) for k in ("low", "high"))
        if helps:
            self.assertGreater(saved, 8e6)
        self.assertTrue(low <= saved <= high or abs(advice["saves_bytes"] - saved) < max(saved / 10, 1e6), (advice, saved))

    def pools(self, reason):
        """A pool alone, and malloc_trim after it: each saves what it saves in the program, and the one or the other much. The
        report knows when the first is not enough: a thread's cache of glibc 2.43 may lie above all that is free."""
        pool = next(a for a in self.document["advice"] if a["setting"] == "pool" and a.get("frames", [{}])[0].get("function") == "parse")
        trimmed = next(a for a in self.document["advice"] if a["setting"] == "pool+malloc_trim")
        held = real(reason)
        self.agrees(pool, held - real(reason, "remedy"), helps=False)
        if trimmed.get("call_sites", 1) == 1:
            self.agrees(trimmed, held - real(reason, "remedy", "trim"))
        self.assertGreater(max(pool["saves_bytes"], trimmed["saves_bytes"]), 8e6)
        self.assertEqual(self.estimates["pool", "parse"] is not None, pool["saves_bytes"] > 8e6)
        return pool, trimmed

    def by_environment(self, reason, part, setting):
        path, e = self.explains(reason, part)
        advice = self.advises(path, e, setting)
        name, value = advice["command"].split("=", 1)
        self.assertEqual((name, value), (TUNABLES, setting))
        self.assertTrue(self.estimates[setting, None] or setting.startswith("glibc.malloc.tcache"))
        self.agrees(advice, real(reason) - real(reason, environment={name: value}))

    def by_change(self, reason, part, setting, function=None):
        path, e = self.explains(reason, part)
        advice = self.advises(path, e, setting)
        self.agrees(advice, real(reason) - real(reason, "remedy"))
        if function:
            self.assertEqual(advice["frames"][0]["function"], function)
            self.assertIsNone(advice["command"])
        return advice

    def test_survivors(self):
        file, e = self.explains("survivors", "fragmentation")
        self.advises(file, e, "pool")
        for advice in self.pools("survivors"):
            self.assertEqual((advice["measured"], advice["blocks"], advice["command"]), (True, 10000, None))
        text = mallow("advise", "--at", "end", "--rounds", "2", path("survivors.mlw"))
        self.assertRegex(" ".join(text.split()), r"MB .*: these 10,000 blocks of parse \(reasons.c:\d+\) in a pool of their own")
        for other in [a for a in self.document["advice"] if (a["command"] or "").startswith("LD_PRELOAD=")]:
            if LONG:
                saved = real("survivors") - real("survivors", environment={"LD_PRELOAD": other["command"].split("=")[1]})
                self.assertLess(abs(other["saves_bytes"] - saved), 3e6, other)

    def test_arenas(self):
        self.by_environment("arenas", "free_pages", "glibc.malloc.arena_max=1")

    def test_top(self):
        self.by_change("top", "free_pages", "malloc_trim")

    def test_threshold(self):
        self.by_environment("threshold", "free_pages", "glibc.malloc.mmap_threshold=131072")

    def test_hoards(self):
        self.by_environment("hoards", "tcache", "glibc.malloc.tcache_count=0")

    def test_untouched(self):
        path, e = self.explains("untouched", "untouched")
        advice = self.advises(path, e, "shrink")
        self.assertEqual((advice["saves_bytes"], advice["frames"][0]["function"]), (0, "frame_buffer"))

        def size(pid):
            return figure(pid, "status", "VmSize")
        saved = real("untouched", figure_of=size) - real("untouched", "remedy", figure_of=size)
        self.assertAlmostEqual(advice["saves_address_bytes"], saved, delta=saved / 10)
        self.assertLess(abs(real("untouched") - real("untouched", "remedy")), 3e6)

    def test_stacks(self):
        self.by_change("stacks", "stacks", "stacks")

    def test_leak(self):
        """Live bytes are no gap: they are the largest part of all."""
        path, e, said = self.record("leak")
        self.assertAlmostEqual(sum(p["bytes"] for p in e["parts"]), said, delta=said / 100)
        self.assertEqual(max(e["parts"], key=lambda p: abs(p["bytes"]))["name"], "live")
        advice = self.advises(path, e, "release")
        self.assertEqual((advice["frames"][0]["function"], advice["blocks"]), ("cache_entry", 160000))
        self.agrees(advice, real("leak") - real("leak", "remedy"))

    def test_growth(self):
        self.by_environment("growth", "free_pages", "glibc.malloc.mmap_threshold=131072")

    def test_late(self):
        self.by_environment("late", "tops", "glibc.malloc.trim_threshold=131072")

    def test_file(self):
        self.by_change("file", "mapped_files", "files")

    def test_two(self):
        path, e = self.explains("two", "fragmentation", "free_pages")
        self.advises(path, e, "pool")
        arenas = next(a for a in self.document["advice"] if a["setting"] == "glibc.malloc.arena_max=1")
        both = next(a for a in self.document["advice"] if a["setting"].startswith("pool"))
        self.assertEqual(both["call_sites"], 2)  # a pool for each of them saves most
        self.pools("two")
        self.agrees(arenas, real("two") - real("two", environment={TUNABLES: arenas["setting"]}))

    def test_own(self):
        """A pool of the call site would be as fragmented as the heap is: it is not advised."""
        path, e = self.explains("own", "fragmentation")
        self.assertEqual([a["setting"] for a in e["advice"]], ["allocator"])
        self.measures(path, e)

    def test_half(self):
        """What the call site freed itself is free in the pool as well: half as much is saved as its blocks keep."""
        path, e = self.explains("half", "fragmentation")
        self.advises(path, e, "pool")
        kept = next(p["bytes"] for p in e["parts"] if p["name"] == "fragmentation")
        pool, trimmed = (next(a for a in self.document["advice"] if a["setting"] == s) for s in ("pool", "pool+malloc_trim"))
        estimate = self.estimates["pool", "parse"]
        self.assertEqual(estimate is not None, pool["saves_bytes"] > 4e6)  # else a thread's cache lies above it
        for saves in filter(None, (estimate, trimmed["saves_bytes"], estimate and pool["saves_bytes"])):
            self.assertAlmostEqual(saves / kept, 0.5, delta=0.1)

    def test_together(self):
        """Arenas that were all full at once: one would hold as much."""
        path, e = self.explains("together", "free_pages")
        listed = self.measures(path, e)
        one = next(a for a in listed if a["setting"] == "glibc.malloc.arena_max=1")
        self.assertLess(one["saves_bytes"], 4e6)
        self.assertIsNone(self.estimates[one["setting"], None])
        self.assertEqual(e["advice"][-1]["setting"], one["setting"])
        text = mallow("advise", "--at", "end", "--rounds", "2", path)
        self.assertRegex(text, r"(?s)Saves +.no intervals.*: malloc_trim\n.*\nTried, and saves less.*arena_max=1")
        self.assertNotIn("..", text)

    def test_small(self):
        """The threshold was raised, but no large block was ever in the heap: it is not the reason."""
        path, e = self.explains("small", "free_pages")
        self.assertNotIn("glibc.malloc.mmap_threshold=131072", [a["setting"] for a in e["advice"]])
        self.advises(path, e, "malloc_trim")

    def test_fastbins(self):
        if FASTBINS:
            self.by_environment("fastbins", "tops", "glibc.malloc.mxfast=0")
        else:
            path, e = self.explains("fastbins", "tops")
            self.assertEqual([a["setting"] for a in e["advice"]], ["malloc_trim"])
            self.measures(path, e)
