"""`record --paths`: a victim takes each path inside glibc's allocator a known number of times. What it does is
in tests/victims/routes.c; how many blocks a version's cache takes, and which lists it has, is here."""
import collections
import csv
import glob
import io
import json
import os
import re

from mallowtest import LIBRARY, ROOT, Case, main, mallow, run, victim
from mallowtest.libcfacts import FASTBINS, GLIBC

CACHE = 7 if GLIBC < (2, 43) else 16
SMALL_AT_ONCE = GLIBC >= (2, 41)  # a small chunk is freed into its bin, past the unsorted list
N, ALL = 50, 66
JEMALLOC = glob.glob("/usr/lib/*/libjemalloc.so.2")


def table():
    """The names and groups of routes, by number."""
    with open(os.path.join(ROOT, "src/format/route.h"), encoding="utf-8") as f:
        return {name: group for name, group in re.findall(r'X\(\w+, +\d+, +"([\w-]+)", +(\w+),', f.read())}


class Paths(Case):
    def counts(self, file=None):
        """Calls by (made or freed, size of the block, route), of victims with one process."""
        live, found = {}, collections.Counter()
        for line in mallow("dump", "--json", file or self.file).stdout.splitlines():
            e = json.loads(line)
            route = e.get("route", "unknown")
            if e["kind"] == "alloc":
                live[e["slot"]] = e["size_bytes"]
                found["made", e["size_bytes"], route] += 1
            elif "free" in e["kind"] or e.get("call") == "free" or e.get("half") == "old":
                found["freed", live.pop(e.get("slot"), None), route] += 1
        return found

    def take(self, found, what, size):
        return {route: n for (w, s, route), n in found.items() if (w, s) == (what, size)}

    def expect(self, found, what, size, **routes):
        self.assertEqual(self.take(found, what, size), {k.replace("_", "-"): n for k, n in routes.items()}, (what, size))

    def fixed(self, found):
        """What does not depend on the arena."""
        self.expect(found, "freed", 200, into_tcache=10)
        self.expect(found, "freed", 5000, into_bin=N)
        self.assertEqual(self.take(found, "made", 5000)["large-bin"], N)
        self.expect(found, "made", 300000, mmap=N)
        self.expect(found, "freed", 300000, munmap=N)
        self.assertEqual(self.take(found, "made", 104)["tcache"], ALL - 8 if FASTBINS else CACHE)
        self.assertEqual(self.take(found, "freed", 104)["into-tcache"], 2 * CACHE)
        if FASTBINS:
            self.expect(found, "freed", 104, into_tcache=2 * CACHE, into_fast_bin=2 * (ALL - CACHE))
            self.assertEqual(self.take(found, "made", 104)["fast-bin"], 8)
        self.assertEqual(self.take(found, "freed", None)["nothing"], self.nulls)
        self.assertFalse([k for k in found if k[1] and k[2] == "unknown"])

    def test_main_arena(self):
        r = self.record([victim("routes")], options=["--paths"])
        rose, fell = map(int, r.out.split())
        found = self.counts()
        self.nulls = 1
        self.fixed(found)
        self.expect(found, "made", 200, tcache=5, top=4, top_brk=1)
        self.expect(found, "made", 56, top=N)
        self.expect(found, "made", 1700, top=1)
        # realloc to 1800 stays, its old half too; to 30000 it moves, and a malloc of 1800 gets what it left
        self.expect(found, "freed", 1700, in_place=1)
        self.expect(found, "made", 1800, in_place=1, unsorted=1)
        self.expect(found, "freed", 1800, into_bin=1)
        self.expect(found, "made", 30000, top=1)
        self.expect(found, "freed", 30000, into_top=1)
        if FASTBINS:
            self.expect(found, "made", 104, top=ALL, fast_bin=8, tcache=ALL - 8)
        else:  # what the cache does not take is merged into the top
            self.expect(found, "made", 104, top=2 * ALL - CACHE, tcache=CACHE)
        # the cache is filled with what lies in the list, and the block after those comes from the arena
        came = -(-(ALL - CACHE) // (CACHE + 1))
        self.expect(found, "made", 408, top=ALL, tcache=ALL - came, **{"small_bin" if SMALL_AT_ONCE else "unsorted": came})
        self.expect(found, "freed", 408, into_tcache=2 * CACHE, into_bin=2 * (ALL - CACHE))
        # what the kernel says of the break
        mine = (56, 72, 104, 200, 408, 1700, 1800, 5000, 30000, 60000, 70000, 40)
        self.assertGreater(rose, 20)
        self.assertEqual(sum(self.take(found, "made", s).get("top-brk", 0) for s in mine), rose)
        self.assertEqual(sum(self.take(found, "freed", s).get("trimmed", 0) for s in mine), fell)
        self.assertEqual(sum(self.take(found, "made", 70000).values()), 30)
        self.assertEqual(set(self.take(found, "made", 70000)), {"top", "top-brk"})

    def test_another_arena(self):
        self.record([victim("routes"), "arena"], options=["--paths"])
        found = self.counts()
        self.nulls = self.take(found, "freed", None)["nothing"]  # a thread's end has some of its own
        self.fixed(found)
        self.expect(found, "made", 200, tcache=5, top=4, new_arena=1)
        for size in (60000, 70000):
            self.assertEqual(set(self.take(found, "made", size)), {"top", "top-heap"})
            self.assertGreater(self.take(found, "made", size)["top-heap"], 10)
        self.assertEqual(set(self.take(found, "freed", 70000)), {"into-top", "trimmed"})
        self.assertEqual(sum(self.take(found, "made", s).get("top-brk", 0) for s in (5000, 60000, 70000)), 0)

    def test_fewer_in_the_cache(self):
        """Another bound than the default is found out by the first block that did not fit: one is not known."""
        self.record([victim("routes")], options=["--paths"], env={"GLIBC_TUNABLES": "glibc.malloc.tcache_count=3"})
        found = self.counts()
        self.assertEqual(self.take(found, "freed", 104)["into-tcache"], 6)
        self.assertLessEqual(sum(n for k, n in found.items() if k[1] and k[2] == "unknown"), 1)

    def test_every_reader(self):
        """Report, dump, CSV and SQLite have the same counts."""
        self.record([victim("routes")], options=["--paths"])
        found, groups = self.counts(), table()
        want = collections.Counter()
        for (what, _, route), n in found.items():
            if not (what == "freed" and route == "in-place"):  # the old half of a realloc that stays is no end
                want["made" if what == "made" else "freed", route] += n
        p = self.process(self.report(), "routes")
        taken = {(t["of"], t["path"]): t["calls"] for t in p["paths"]["taken"] if t["calls"]}
        self.assertEqual(taken, dict(want))
        self.assertEqual({t["path"] for t in p["paths"]["taken"]} | {"unknown"}, set(groups))
        missed = sum(n for (of, route), n in want.items() if of == "made" and route not in ("tcache", "in-place", "unknown"))
        self.assertEqual(sum(s["missed_calls"] for s in p["paths"]["sites"]), missed)
        text = mallow("report", self.file).stdout
        for (of, route), n in want.items():
            self.assertRegex(text, r"(?m)^ +%s .* %%  %s\b" % (format(n, ","), route), of)
        self.assertIn("not taken: ", text)
        self.assertNotIn("Paths inside", mallow("report", "--time", "0..1s", self.file).stdout)
        rows = list(csv.DictReader(io.StringIO(mallow("export", "--format", "csv", self.file).stdout)))
        self.assertEqual(sum(r["route"] == "mmap" for r in rows), N)
        import sqlite3
        base = os.path.join(self.folder, "base")
        mallow("export", "--format", "sqlite", "-o", base, self.file)
        with sqlite3.connect(base) as db:
            got = db.execute("SELECT route, freed_route, count(*) FROM block WHERE size_bytes=300000 GROUP BY 1, 2").fetchall()
        self.assertEqual(got, [("mmap", "munmap", N)])

    def test_without(self):
        """Without the option there is none, by the variable there is; another allocator has a note."""
        self.recorded([victim("routes")])
        self.assertNotIn("paths", self.process(self.report(), "routes"))
        self.assertEqual({k[2] for k in self.counts()}, {"unknown"})
        file = os.path.join(self.folder, "by-hand")
        run([victim("routes")], env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": file, "MALLOW_PATHS": "1"})
        self.assertEqual(self.take(self.counts(file), "made", 300000), {"mmap": N})
        if not JEMALLOC:
            self.skipTest("SKIPPED, LOUDLY: libjemalloc2 is not installed")
        doc = self.recorded([victim("hello")], options=["--paths"], status=33, env={"LD_PRELOAD": JEMALLOC[0]})
        self.assertIn("paths: not recorded", " ".join(self.process(doc, "hello")["warnings"]))

    def test_threads(self):
        """Many threads in two arenas: each call has a path, the sums are those of the calls, and nothing breaks."""
        for arenas in ("2", "8"):
            p = self.process(self.recorded([victim("routes"), "mix"], options=["--paths"],
                                           env={"GLIBC_TUNABLES": "glibc.malloc.arena_max=" + arenas}), "routes")
            taken = {(t["of"], t["path"]): t["calls"] for t in p["paths"]["taken"]}
            self.assertEqual(sum(n for (of, _), n in taken.items() if of == "made"), p["calls"]["malloc"] + p["calls"]["calloc"])
            self.assertEqual(sum(n for (of, _), n in taken.items() if of == "freed"), p["calls"]["free"])
            self.assertGreater(taken["made", "tcache"], 8 * 4000)
            self.assertEqual(taken.get(("made", "unknown"), 0) + taken.get(("freed", "unknown"), 0), 0)
            os.unlink(self.file)


if __name__ == "__main__":
    main()
