"""C++: operator new and delete, exceptions, thread_local destructors; and the same over the other
allocators, preloaded behind mallow: each `new` is one call, never two."""
import glob

from mallowtest import ALLOCATORS, Case, victim

# 20 rounds of new 100, new[] 101, nothrow 102, nothrow[] 103, aligned 192, aligned[] 384; 3 x 4000.
BLOCKS = 20 * 6 + 3
BYTES = 20 * (100 + 101 + 102 + 103 + 192 + 384) + 3 * 4000
SUPPLIED = ("malloc", "calloc", "realloc", "aligned_alloc", "memalign", "posix_memalign")


class Cxx(Case):
    report_options = ("--start-frames",)

    def test_operators_over_glibc(self):
        p = self.process(self.recorded([victim("cxx"), "operators"]), "cxx")
        base = self.process(self.recorded([victim("cxx")]), "cxx")  # what the runtime itself does
        made = {k: p["calls"].get(k, 0) - base["calls"].get(k, 0) for k in SUPPLIED}
        self.assertEqual(sum(made.values()), BLOCKS, made)
        self.assertEqual(made["malloc"], 20 * 4 + 3)
        self.assertEqual(p["calls"]["free"] - base["calls"].get("free", 0), 120)
        self.assertEqual(p["requested_bytes"] - base["requested_bytes"], BYTES)
        self.assertEqual(p["end_live_bytes"] - base["end_live_bytes"], 12000)
        self.assertEqual(p["unknown_frees"], 0)

    def test_what_constructors_of_libraries_allocate_is_unwound(self):
        """The runtime's allocation comes from the loader, whose first frame has no unwind rules."""
        p = self.process(self.recorded([victim("cxx")]), "cxx")
        self.assertEqual(p["warnings"], [])
        self.assertIn(p["sites"][0]["frames"][-1]["function"], ("_dl_start_user", "_start"))

    def test_operators_agree_with_the_second_counter(self):
        for mode in ("operators", "exceptions", "refused"):
            with self.subTest(mode=mode):
                p = self.process(self.recorded([victim("cxx"), mode], oracle=True), "cxx")
                self.agrees(p, self.oracle().of("cxx")[0])

    def test_exceptions(self):
        p = self.process(self.recorded([victim("cxx"), "exceptions"]), "cxx")
        self.assertEqual(self.last.out, b"caught 100\n")
        mine = [s for s in p["sites"] if s["frames"][0]["function"].startswith(("Owner", "down", "Owner::Owner"))]
        self.assertEqual(sum(s["calls"] for s in mine), 3000)
        self.assertEqual(sum(s["end_live_blocks"] for s in mine), 0)

    def test_tls_destructors(self):
        p = self.process(self.recorded([victim("cxx"), "tls"]), "cxx")
        sizes = {(s["allocated_bytes"], s["calls"]) for s in p["sites"]}
        total = {}
        for s in p["sites"]:
            if s["calls"] and s["allocated_bytes"] == 700 * s["calls"]:
                total[700] = total.get(700, 0) + s["calls"]
            if s["calls"] and s["allocated_bytes"] == 701 * s["calls"]:
                total[701] = total.get(701, 0) + s["calls"]
                self.assertEqual(s["end_live_blocks"], 0)
        self.assertEqual(total, {700: 100, 701: 20}, sizes)
        self.assertEqual(p["threads"], 21)
        self.assertEqual(p["unknown_frees"], 0)

    def test_untouched(self):
        for mode in ("operators", "exceptions", "tls", "refused"):
            with self.subTest(mode=mode):
                self.untouched([victim("cxx"), mode])


class OtherAllocators(Case):
    """Behind mallow: LD_PRELOAD holds the allocator, and mallow puts itself before it."""

    def check(self, name):
        found = glob.glob(f"/usr/lib/*/{ALLOCATORS[name]}")
        if not found:
            self.skipTest(f"SKIPPED, LOUDLY: {name} is not installed")
        env = {"LD_PRELOAD": found[0]}
        p = self.process(self.recorded([victim("cxx"), "operators"], env=env), "cxx")
        base = self.process(self.recorded([victim("cxx")], env=env), "cxx")
        made = {k: p["calls"].get(k, 0) - base["calls"].get(k, 0) for k in SUPPLIED}
        self.assertEqual(sum(made.values()), BLOCKS, f"{name}: {made}")
        freed = sum(p["calls"].get(k, 0) - base["calls"].get(k, 0)
                    for k in ("free", "free_sized", "free_aligned_sized"))
        self.assertEqual(freed, 120, name)
        self.assertEqual(p["requested_bytes"] - base["requested_bytes"], BYTES)
        self.assertEqual(p["end_live_bytes"] - base["end_live_bytes"], 12000)
        self.assertEqual(p["unknown_frees"], 0)
        # C functions over the same allocator (which may have a few calls of its own at the start)
        q = self.process(self.recorded([victim("api"), "peak"], env=env), "api")
        none = self.process(self.recorded([victim("api")], env=env), "api")
        more = {k: q["calls"].get(k, 0) - none["calls"].get(k, 0) for k in ("malloc", "free")}
        self.assertEqual(more, {"malloc": 1100, "free": 750})
        self.assertEqual(q["end_live_bytes"] - none["end_live_bytes"], 300000)
        self.assertEqual(q["peak_live_bytes"] - none["end_live_bytes"], 1000000)
        self.assertEqual(q["unknown_frees"], 0)
        for argv in (["cxx", "exceptions"], ["cxx", "tls"], ["threads", "waves", "3", "20"],
                     ["threads", "cross", "20000"], ["process", "children", "3"]):
            with self.subTest(argv=argv):
                self.untouched([victim(argv[0]), *argv[1:]], env=env)

    def test_jemalloc(self):
        self.check("jemalloc")

    def test_tcmalloc(self):
        self.check("tcmalloc")

    def test_mimalloc(self):
        self.check("mimalloc")
