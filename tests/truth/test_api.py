"""Every function of the allocation API, a known number of times (tests/victims/api.c)."""

from mallowtest import Case, run, victim

COUNTS = dict(malloc=113, calloc=53, realloc=37, reallocarray=31, posix_memalign=29, aligned_alloc=30,
              memalign=19, valloc=17, pvalloc=13, free=261, free_sized=11, free_aligned_sized=7,
              malloc_usable_size=5)
COUNTS_REQUESTED = (6060 + 11 * 64 + 40      # malloc
                    + 53 * 77 + 70300 + 14880  # calloc, realloc, reallocarray
                    + 29 * 200 + 23 * 256 + 7 * 192 + 19 * 333 + 17 * 55 + 13 * 4097)


class Api(Case):
    def test_every_function_is_counted(self):
        p = self.process(self.recorded([victim("api"), "counts"]), "api")
        self.calls(p, **COUNTS)
        self.assertEqual(p["requested_bytes"], COUNTS_REQUESTED)
        self.assertEqual(p["failed_calls"], 0)
        self.assertEqual(p["end_live_bytes"], 0)
        self.assertEqual(p["end_live_blocks"], 0)
        self.assertEqual(p["peak_live_bytes"], 6060)
        self.assertEqual(p["peak_live_blocks"], 101)
        self.assertEqual(p["unknown_frees"], 0)
        self.assertEqual(p["cross_thread_frees"], 0)
        self.assertEqual(p["threads"], 1)
        self.assertTrue(p["complete"])

    def test_events_are_the_calls(self):
        doc = self.recorded([victim("api"), "counts"])
        self.assertEqual(doc["events"], sum(COUNTS.values()))
        self.assertEqual(doc["lost_events"], 0)

    def test_own_mappings_by_call_site(self):
        self.maps(victim("maps"))

    def test_own_mappings_by_syscall(self):
        """Before, none of them was recorded."""
        self.maps(victim("maps"), "syscall")

    def maps(self, *argv):
        p = self.process(self.recorded(list(argv)), "maps")
        self.assertEqual({k: p["calls"].get(k) for k in ("mmap", "munmap", "mremap")}, dict(mmap=2, munmap=4, mremap=1))
        mapped = p["mapped"]
        MB = 1 << 20
        self.assertEqual(mapped["peak_bytes"], 64 * MB + 3 * 4096)
        self.assertEqual(mapped["end_bytes"], 51 * MB + MB)
        sites = {next(f["function"] for f in s["frames"] if f["function"] not in ("map", "remap")):
                 (s["calls"], s["mapped_bytes"], s["peak_bytes"], s["end_bytes"]) for s in mapped["sites"]}
        self.assertEqual(sites, {"make_pool": (1, 64 * MB, 64 * MB, 51 * MB),
                                 "make_buffer": (1, 3 * 4096, 3 * 4096, 0),
                                 "enlarge": (1, 2 * MB, 0, MB)})

    def test_mapping_functions(self):
        p = self.process(self.recorded([victim("api"), "maps"]), "api")
        got = {k: v for k, v in p["calls"].items() if v}
        self.assertEqual({k: got.get(k) for k in ("mmap", "munmap", "mremap")},
                         dict(mmap=7, munmap=4, mremap=4))
        self.assertEqual(got.get("sbrk", 3), 3)
        self.assertEqual(got.get("brk", 1), 1)
        self.assertEqual(p["failed_calls"], 3)
        self.assertEqual(p["end_live_bytes"], 0)

    def test_failed_calls(self):
        p = self.process(self.recorded([victim("api"), "failures"]), "api")
        self.calls(p, malloc=4, calloc=2, realloc=1, reallocarray=2, posix_memalign=3, aligned_alloc=1,
                   memalign=1, valloc=1, pvalloc=1, free=3, malloc_usable_size=1)
        self.assertEqual(p["failed_calls"], 14)
        self.assertEqual(p["requested_bytes"], 1001)
        self.assertEqual(p["peak_live_bytes"], 1000)
        self.assertEqual(p["end_live_bytes"], 0)

    def test_peak_and_end(self):
        p = self.process(self.recorded([victim("api"), "peak"]), "api")
        self.assertEqual(p["peak_live_bytes"], 1000000)
        self.assertEqual(p["peak_live_blocks"], 1000)
        self.assertEqual(p["end_live_bytes"], 300000)
        self.assertEqual(p["end_live_blocks"], 350)
        self.assertEqual(sum(s["peak_bytes"] for s in p["sites"]), 1000000)
        self.assertEqual(sum(s["end_live_bytes"] for s in p["sites"]), 300000)
        self.assertEqual(sum(s["end_live_blocks"] for s in p["sites"]), 350)
        self.assertEqual(sum(s["calls"] for s in p["sites"]), 1100)
        self.assertEqual(sum(s["allocated_bytes"] for s in p["sites"]), 1050000)
        sizes = [h for h in p["size_histogram"] if h["calls"]]
        self.assertEqual(sum(h["calls"] for h in sizes), 1100)
        self.assertEqual(sum(h["bytes"] for h in sizes), 1050000)
        for h in sizes:
            self.assertLessEqual(h["min_bytes"] * h["calls"], h["bytes"])
            self.assertLessEqual(h["bytes"], h["max_bytes"] * h["calls"])

    def test_realloc_in_all_its_roles(self):
        p = self.process(self.recorded([victim("api"), "reallocs"]), "api")
        self.calls(p, malloc=2, realloc=8, free=1)
        self.assertEqual(p["failed_calls"], 0)
        self.assertEqual(p["requested_bytes"], 14300260)
        self.assertEqual(p["peak_live_bytes"], 9000000)
        self.assertEqual(p["end_live_bytes"], 300000)
        self.assertEqual(p["end_live_blocks"], 2)
        self.assertEqual(p["unknown_frees"], 0)

    def test_temporary(self):
        p = self.process(self.recorded([victim("api"), "temporary"]), "api")
        self.assertEqual(p["temporary_allocations"], 12)
        self.assertEqual(sum(s["temporary"] for s in p["sites"]), 12)

    def test_all_modes_agree_with_the_second_counter(self):
        for mode in ("counts", "maps", "failures", "peak", "reallocs", "temporary"):
            with self.subTest(mode=mode):
                p = self.process(self.recorded([victim("api"), mode], oracle=True), "api")
                self.agrees(p, self.oracle().of("api")[0])

    def test_usable_is_at_least_requested(self):
        p = self.process(self.recorded([victim("api"), "peak"]), "api")
        # glibc's chunks: 1000 B requested have 1000 usable, 500 have 504
        self.assertEqual(p["usable_bytes"], 1000 * 1000 + 100 * 504)


class SecondCounter(Case):
    """The counter itself, alone, against the truth by construction: it is a judge, so it is judged."""

    def test_counts(self):
        r, o = self.with_oracle_alone([victim("api"), "counts"])
        self.assertEqual(r.rc, 0, r.out)
        t = o.of("api")[0]
        self.assertEqual({k: v for k, v in t["calls"].items() if v}, COUNTS)
        self.assertEqual(t["requested_bytes"], COUNTS_REQUESTED)
        self.assertEqual((t["peak_live_bytes"], t["peak_live_blocks"]), (6060, 101))

    def test_failures(self):
        r, o = self.with_oracle_alone([victim("api"), "failures"])
        self.assertEqual((r.rc, r.out), (0, b""))
        self.assertEqual(o.of("api")[0]["failed_calls"], 14)

    def test_plain_program_agrees_with_itself(self):
        for mode in ("counts", "maps", "failures", "peak", "reallocs", "temporary"):
            r = run([victim("api"), mode])
            self.assertEqual((r.rc, r.out), (0, b""), mode)
