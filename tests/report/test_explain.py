"""Why more is resident than live, at the moments that matter, of a program that does to its heap what it is told
(tests/record/phases.c): against what /proc said at that moment."""
import collections
import json
import os
import subprocess
import time
import unittest

from mallowtest import LONG, MALLOW, main, path, wait_until
from mallowtest.hugepages import huge_pages
from mallowtest.libcfacts import GLIBC
from phases import ENVIRONMENT, PHASES, Program, mallow


def parts(e):
    return collections.Counter({p["name"]: p["bytes"] for p in e["parts"]})  # 0 where there is none


class Explain(unittest.TestCase):
    def adds_up(self, e):
        self.assertEqual(sum(parts(e).values()), e["rss_bytes"])
        self.assertEqual(parts(e)["live"], e["live_bytes"])

    def at(self, process, name):
        """The explanation that stands for it."""
        found = [e for e in process["explained"] if name in (e["at"], *e["also"])]
        self.assertEqual(len(found), 1, (name, process["explained"]))
        self.adds_up(found[0])
        return found[0]

    def test_survivors(self):
        """Many small blocks, and all but one in 37 freed: the gap is explained without asking, by who keeps it."""
        blocks = 2000000 if LONG else 200000
        p = Program("survivors")
        p.order(f"small {blocks} 96")
        full = p.rss()
        p.settle("rss")
        p.order("thin 37")
        rss = p.rss()
        self.assertGreater(rss, full * 0.95)
        p.settle("gap", (blocks // 37 + 1) * 96 + 20000)
        process = p.end()
        e = self.at(process, "gap")
        self.assertLess(abs(e["rss_bytes"] - rss), rss / 50)
        gap = e["rss_bytes"] - e["live_bytes"]
        self.assertGreater(gap, 0.7 * rss)
        self.assertGreater(parts(e)["fragmentation"], 0.7 * gap)
        self.assertGreater(self.at(process, "peak")["live_bytes"], 8 * e["live_bytes"])
        self.assertEqual(self.at(process, "end"), e)
        top = e["pinning"][0]
        self.assertEqual(top["frames"][0]["function"], "survivor")
        self.assertEqual(top["live_blocks"], blocks // 37 + 1)
        self.assertGreater(top["free_on_shared_pages_bytes"], 0.95 * parts(e)["fragmentation"])
        self.assertIn("pool", [a["setting"] for a in e["advice"]])
        text = mallow("report", p.path)
        self.assertIn("at the largest gap", text)
        self.assertRegex(text, r"pool of their own.*: [0-9,]+ blocks of survivor \(phases.c")

    def test_another_state(self):
        """A measurement of when half as much was live is none of the peak, nor of the end."""
        p = Program("another", options=("--sample-interval", "1h"))
        with p.unseen():
            p.order("small 20000 1000")
        before = p.rss()
        wait_until(lambda: self.snapshot(p), "a measurement")
        with p.unseen():
            p.order("small 20000 1000")
            p.leave()
        process = p.end()
        peak = process["explained"][0]
        self.assertEqual((peak["at"], peak["measured_ns"], peak["rss_bytes"]), ("peak", None, None))
        self.assertGreater(peak["live_bytes"], 39000000)
        self.assertIsNotNone(peak["nearest_measured_ns"])
        e = self.at(process, "gap")
        self.assertLess(abs(e["rss_bytes"] - before), before / 20)
        self.assertFalse([x for x in process["explained"] if "end" in (x["at"], *x["also"])])
        self.assertIn("No measurement was made then", mallow("report", "--at", "end", p.path))

    @staticmethod
    def snapshot(p):
        """The first one may ask before the recorder knows the process."""
        mallow("control", str(p.pid), "snapshot")
        return p.explained("--at", "gap")[0]["rss_bytes"]

    def test_arenas(self):
        """Threads that have freed nearly all that they had: their arenas, one by one, and what would help."""
        p = Program("arenas")
        p.order("threads 6 4000")
        e = p.settle("end", 20000)
        self.adds_up(e)
        p.end()
        mine = [a for a in e["arenas"] if not a["main"]]
        self.assertEqual(len(mine), 6)
        for a in mine:
            self.assertEqual((a["heaps"], a["live_blocks"], len(a["threads"])), (1, 1, 1))
            self.assertGreater(a["extent_bytes"], 4000 * 1000)
        self.assertEqual(len({a["threads"][0] for a in mine}), 6)
        free = parts(e)["free_pages"] + parts(e)["tops"]
        self.assertGreater(free, 0.9 * 6 * 4000 * 1000)
        advice = {a["setting"]: a for a in e["advice"]}
        self.assertAlmostEqual(advice["malloc_trim"]["saves_bytes"], free, delta=free / 100)
        # all was in use at once: that one arena would do with less is not known
        self.assertIsNone(advice["glibc.malloc.arena_max=1"]["saves_bytes"])
        self.assertGreater(advice["glibc.malloc.arena_max=1"]["saves_at_most_bytes"], 0.7 * free)
        self.assertEqual(advice["glibc.malloc.arena_max=1"]["command"], "GLIBC_TUNABLES=glibc.malloc.arena_max=1")

    def test_swapped_chunks(self):
        """Threads have chunks of each other's arenas from their caches: glibc says itself which heap is of which arena."""
        p = Program("swapped")
        p.order("swap 8")
        e = p.settle("end")
        self.adds_up(e)
        p.end()
        mine = [a for a in e["arenas"] if not a["main"]]
        self.assertEqual([(a["heaps"], len(a["threads"])) for a in mine], [(1, 1)] * 8)
        self.assertEqual(len({a["address"] for a in mine}), 8)
        self.assertEqual(len({a["threads"][0] for a in mine}), 8)

    def test_huge_heaps(self):
        """Heaps of four huge pages, and a main arena that is mappings alone."""
        p = Program("huge", environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"})
        self.check_huge_heaps(p)

    def test_huge_heaps_of_huge_pages(self):
        """The same in pages of the kernel's pool. More is resident then: pages are of 2 MiB, and free ones of them stay."""
        with huge_pages(100 if GLIBC < (2, 43) else 300):  # whose heaps are of 64 MiB
            p = Program("pool", environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"})
            e = self.check_huge_heaps(p)
        self.assertEqual(e["hugetlb_bytes"] % (2 << 20), 0)
        self.assertGreater(e["hugetlb_bytes"], 20000000 + 4 * 20000 * 1000)

    def check_huge_heaps(self, p):
        p.order("small 20000 1000")
        p.order("threads 4 20000")
        e = p.settle("end", 20000000 + 50000)
        self.adds_up(e)
        p.end()
        # heaps and the main arena's mappings are no "other mappings", and all of them is resident
        self.assertLess(parts(e)["mappings"], 2000000)
        self.assertGreater(parts(e)["not_resident"], -2000000)
        self.assertGreater(parts(e)["free_pages"] + parts(e)["tops"], 0.9 * 4 * 20000 * 1000)
        main, *mine = e["arenas"]
        self.assertTrue(main["main"])
        self.assertGreater(main["live_bytes"], 20000000)
        self.assertLess(main["free_below_bytes"], 1000000)
        self.assertEqual([(a["heaps"] in (1, 3), a["live_blocks"], len(a["threads"])) for a in mine], [(True, 1, 1)] * 4)
        self.assertEqual(len({a["threads"][0] for a in mine}), 4)
        return e

    def test_a_wall(self):
        """The break cannot grow: the main arena goes on in mappings, far away, and what lies between is not its own."""
        p = Program("wall")
        p.order("wall")
        p.order("small 20000 1000")
        e = p.settle("end")
        self.adds_up(e)
        p.end()
        self.assertLess(parts(e)["mappings"], 2000000)
        self.assertGreater(parts(e)["not_resident"], -2000000)
        main, = e["arenas"]
        self.assertGreater(main["heaps"], 1)
        self.assertGreater(main["live_bytes"], 19000000)  # the latest measurement may be of a little before
        self.assertLess(main["free_below_bytes"], 1000000)
        self.assertLess(main["extent_bytes"], 22000000)
        self.assertLess(max(k["free_below_bytes"] for k in e["pinning"]), 1000000)

    def test_own_memory_below_an_arena(self):
        """The recorder's memory lies right below an arena, as chance puts it there: the arena is the program's all the same."""
        p = Program("squeezed")
        p.order("threads 1 4000")
        p.order("squeeze 64")
        e = p.settle("end", 40000)
        self.adds_up(e)
        with open(f"/proc/{p.pid}/maps", encoding="ascii") as f:
            ends = [(int(line.split("-")[0], 16), int(line.split("-")[1].split()[0], 16)) for line in f if " rw-p " in line]
        # what the recorder mapped last ends where an arena begins, or was merged with it
        self.assertTrue([end for start, end in ends if start % (64 << 20) and end >> 26 > start >> 26], ends)
        p.end()
        self.assertGreater(parts(e)["free_pages"] + parts(e)["tops"], 0.9 * 4000 * 1000)

    def test_tcache(self):
        """What threads have freed and keep in their caches: seven chunks of each of 64 sizes."""
        p = Program("tcache")
        p.order("hoard 40")
        # The gap may have been larger while threads still freed: pages of files come and go.
        e = p.settle("end", 60000)
        self.adds_up(e)
        p.end()
        each = 7 * sum(range(32, 1041, 16))
        self.assertAlmostEqual(parts(e)["tcache"], 40 * each, delta=each)
        self.assertEqual(sum(a["tcache_bytes"] for a in e["arenas"]), parts(e)["tcache"])
        self.assertIn("glibc.malloc.tcache_count=0", [a["setting"] for a in e["advice"]])
        self.assertLess(parts(e).get("free_pages", 0) + parts(e).get("tops", 0), parts(e)["tcache"])

    def test_untouched(self):
        p = Program("untouched")
        p.order("large 200000000")
        p.order("touch 30000000")
        p.settle("rss")
        process = p.end()
        e = self.at(process, "rss")
        self.assertAlmostEqual(-parts(e)["untouched"], 170000000, delta=3000000)

    def test_break_of_its_own(self):
        """What the program takes by sbrk(2) for itself is no top of a heap, and malloc_trim(3) gives none of it back."""
        p = Program("own")
        p.order("small 20000 1000")
        p.order("own 60000000")
        p.settle("peak")
        p.order("thin 1000000")
        p.settle("end", 1000000)
        process = p.end()
        for at, tops in (("peak", 0), ("end", 20000000)):
            e = self.at(process, at)
            self.assertAlmostEqual(parts(e)["unrecorded"], 60000000, delta=200000)
            self.assertAlmostEqual(parts(e)["tops"], tops, delta=400000)
            # the top of the heap does not end where the break does: glibc gives none of it back
            self.assertNotIn("malloc_trim", [a["setting"] for a in e["advice"]])
        self.assertIn("no recorded block ever was: the program's own (sbrk)", mallow("report", "--at", "end", p.path))

    def test_before_the_attachment(self):
        """Blocks that were live before: no top of a heap either. Those that are freed since are."""
        file = path("before.mlw")
        with subprocess.Popen([PHASES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as program:
            def order(line):
                program.stdin.write(line.encode() + b"\n")
                program.stdin.flush()
                self.assertEqual(program.stdout.readline(), b"done\n")
            order("small 20000 1000")
            with subprocess.Popen([MALLOW, "record", "-q", "-o", file, "-p", str(program.pid)], env=ENVIRONMENT,
                                  stderr=subprocess.PIPE, text=True) as record:
                wait_until(lambda: record.poll() is not None or os.path.exists(file) and self.attached(program.pid), "the library")
                if record.poll() is not None:
                    program.stdin.close()
                    self.fail(f"no attachment: {record.stderr.read()}")
                order("small 4000 1000")
                wait_until(lambda: self.live(file, program.pid) > 3900000, "a measurement")
                program.stdin.close()
                self.assertEqual((program.wait(), record.wait()), (0, 0))
        process = json.loads(mallow("report", "--json", file))["processes"][0]
        e = self.at(process, "peak")
        self.assertAlmostEqual(parts(e)["unrecorded"], 20000 * 1008, delta=600000)
        self.assertLess(parts(e)["tops"], 300000)
        self.assertNotIn("malloc_trim", [a["setting"] for a in e["advice"]])
        self.assertIn("no recorded block ever was: blocks from before", mallow("report", "--at", "peak", file))

    @staticmethod
    def attached(pid):
        with open(f"/proc/{pid}/maps", encoding="ascii") as f:
            return "libmallow-attach-record" in f.read()

    @staticmethod
    def live(path, pid):
        mallow("control", str(pid), "snapshot")
        explained = json.loads(mallow("report", "--json", "--at", "end", path))["processes"][0]["explained"]
        return max((e["live_bytes"] for e in explained if e["rss_bytes"]), default=0)

    def test_given_back(self):
        """Of a block that is live, and given back by MADV_FREE: neither is it used, nor would releasing it save anything."""
        p = Program("lazy")
        p.order("large 100000000")
        p.order("touch 100000000")
        p.settle("rss")
        p.order("lazy 80000000")
        mallow("control", str(p.pid), "snapshot")
        lazy = p.smaps("LazyFree:")
        self.assertGreater(lazy, 79000000)
        process = p.end()
        e = next(e for e in process["explained"] if parts(e)["given_back"])
        self.adds_up(e)
        self.assertAlmostEqual(parts(e)["given_back"], lazy, delta=lazy / 50)
        self.assertAlmostEqual(-parts(e)["untouched"], lazy, delta=lazy / 50)
        self.assertLess(parts(e)["mappings"], 1000000)
        advice = {a["setting"]: a for a in e["advice"]}
        self.assertEqual(advice["dontneed"]["saves_bytes"], parts(e)["given_back"])
        self.assertNotIn("shrink", advice)  # all of it was touched
        self.assertLess(advice["release"]["saves_at_most_bytes"] if "release" in advice else 0, 21000000)
        self.assertIn("given back lazily (MADV_FREE)", mallow("report", p.path))

    def test_forked(self):
        """A parent with 100 MB, and four children, each of which writes to 20 MB of it: 180 MB are in memory, and not 500."""
        p = Program("forked")
        p.order("large 100000000")
        p.order("touch 100000000")
        p.settle("rss")
        p.order("fork 4 20000000")
        pids = [p.pid, *p.children()]
        self.assertEqual(len(pids), 5)

        def latest(pid):
            for command in ("snapshot", "sync"):
                mallow("control", str(pid), command)
            processes = json.loads(mallow("report", "--json", "--at", "end", p.path))["processes"]
            e = next((e for x in processes if x["pid"] == pid for e in x["explained"]), {})
            share = p.smaps("Pss:", pid)  # an earlier measurement may be of before all children had written
            return e if e.get("rss_bytes") and abs(e["proportional_bytes"] - share) < share / 50 else None
        found = [wait_until(lambda pid=pid: latest(pid), "a measurement") for pid in pids]
        for pid, e in zip(pids, found):
            with self.subTest(pid=pid):
                self.adds_up(e)
                self.assertEqual(e["live_bytes"] // 1000000, 100)
                self.assertAlmostEqual(e["forked_bytes"], 80000000, delta=2000000)
        self.assertGreater(sum(e["rss_bytes"] for e in found), 500000000)
        self.assertAlmostEqual(sum(e["proportional_bytes"] for e in found), 180000000, delta=8000000)
        self.assertIn("of it in pages that other processes have as well", mallow("report", "--at", "end", p.path))
        p.end()

    @staticmethod
    def with_marks(turn):
        """A program and its explanation at the second mark. None: one of its marks has no measurement, because the recorder
        was not given the processor within a second."""
        p = Program(f"marks-{turn}")
        p.order("small 50000 96")
        p.settle("rss")
        p.order("mark full")
        end = time.monotonic() + 5
        while not (full := p.explained("--at", "full")[0]["rss_bytes"]) and time.monotonic() < end:
            time.sleep(0.01)
        p.order("thin 37")
        mallow("control", str(p.pid), "mark", "thin ned")
        outside = p.explained("--at", "thin ned")[0]
        process = p.end()
        return (p, process, outside) if full and outside["rss_bytes"] else None

    def test_marks_and_snapshots(self):
        found = next(filter(None, map(self.with_marks, range(10))), None)
        self.assertTrue(found, "in ten runs no mark was measured")
        p, process, outside = found
        full, = json.loads(mallow("report", "--json", "--at", "full", p.path))["processes"][0]["explained"]
        self.assertEqual(full["at"], "full")
        self.assertGreater(full["live_bytes"], 50000 * 96)
        self.adds_up(full)
        self.adds_up(outside)
        self.assertLess(outside["live_bytes"], full["live_bytes"] / 5)
        self.assertIn("at the mark 'full'", mallow("report", "--at", "mark:full", p.path))
        half = f"{process['duration_ns'] // 2}ns"
        self.assertEqual([e["at"] for e in json.loads(mallow("report", "--json", "--at", half, p.path))["processes"][0]
                          ["explained"]], [half])
        wrong = mallow("report", "--at", "nowhere", p.path, status=2)
        self.assertIn("'full', 'thin ned'", wrong)
        self.assertEqual(process["pid"], p.pid)
        self.assertIn("at the mark 'full'", mallow("report", "--at", "full", "--by", "peak", p.path))
        self.assertIn("exclude each other", mallow("report", "--at", "full", "--html", p.path + ".html", p.path, status=2))

    def test_ranges(self):
        """A range of time shows no measurement of another time; what is known without one, it shows."""
        p = Program("ranges")
        p.order("small 100000 96")
        p.settle("rss")
        p.order("thin 37")
        process = p.end()
        start, length = process["start_ns"], process["duration_ns"]
        measured = without = 0
        for i in range(40):
            first, last = start + length * i // 40, start + length * (i + 1) // 40 - 1
            inside, = json.loads(mallow("report", "--json", "--time", f"{first}ns..{last}ns", p.path))["processes"]
            for e in inside["explained"]:
                if e["measured_ns"] is None:
                    without += 1
                    self.assertIsNone(e["rss_bytes"])
                    self.assertIn("nearest_measured_ns", e)
                    if not any(other["measured_ns"] for other in inside["explained"]):  # else it was of another state
                        self.assertFalse(first <= e["nearest_measured_ns"] + start <= last)
                    self.assertLessEqual({"live"}, set(parts(e)))
                    self.assertLessEqual(set(parts(e)), {"live", "rounding", "headers", "fragmentation", "free_pages", "tcache"})
                else:
                    measured += 1
                    self.assertTrue(first <= e["measured_ns"] + start <= last)
                    self.adds_up(e)
            peak = inside["resident_at_peak"]
            self.assertTrue(peak is None or first <= peak["time_ns"] + start <= last)
        self.assertTrue(measured and without, (measured, without))

    def test_filters(self):
        p = Program("filters")
        p.order("small 1000 96")
        self.assertEqual(p.end()["pid"], p.pid)
        for options in (("--size", "1..100"), ("--function", "main"), ("--thread", "phases")):
            self.assertEqual(json.loads(mallow("report", "--json", *options, p.path))["processes"][0]["explained"], [])
