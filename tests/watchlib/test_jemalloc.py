#!/usr/bin/env python3
"""Programs that use jemalloc's own API (mallocx, sdallocx, ...) beside malloc's: they run as they would
alone, whichever way they find those functions, and their blocks are sampled as others are."""
import glob
import os
import struct
import subprocess

from mallowtest import WATCH_LIBRARY, program, run, victim
from watchtest import WatchCase

FOUND = glob.glob("/usr/lib/*/libjemalloc.so.2")
FAULTS = program("watchlib/libmallow-watch-faults.so")
NAMES = ("mallocx", "rallocx", "xallocx", "sallocx", "dallocx", "sdallocx")


class Jemalloc(WatchCase):
    def setUp(self):
        super().setUp()
        if not FOUND:
            self.skipTest("SKIPPED, LOUDLY: libjemalloc2 is not installed")
        self.behind = f"{WATCH_LIBRARY} {FOUND[0]}"

    def test_blocks_cross_between_the_apis(self):
        for way in "weak", "dlsym", "plugin":
            for settings in ({"period": 1, "guard": "off"}, {"period": 1, "guard": "all"}, {"period": 4096}, {}):
                with self.subTest(way=way, settings=settings):
                    r = self.watched([victim("jemalloc"), "mixed", way, "400"], settings=settings, library=self.behind)
                    self.assertEqual((r.rc, r.out, r.err), (0, b"done\n", b""))
                    (segment,) = self.segments
                    self.sound(segment)
                    self.assertEqual(segment.errors(), [])

    def test_what_is_live(self):
        for way in "weak", "dlsym", "plugin":
            with self.subTest(way=way):
                r = self.watched([victim("jemalloc"), "truth", way], settings={"period": 1, "guard": "off"},
                                 library=self.behind)
                self.assertEqual((r.rc, r.out, r.err), (0, b"done\n", b""))
                sizes = [s["size"] for s in self.segments[0].samples()]
                # all 150 blocks were sampled but for a few of the smallest; what was released is gone
                self.assertEqual({n: sizes.count(n) for n in (777, 1000, 3000, 5000)},
                                 {777: 0, 1000: 10, 3000: 0, 5000: 1})

    def test_a_program_sees_what_it_would_see_alone(self):
        argv = [victim("jemalloc"), "present"]
        for library in "", FOUND[0]:
            alone = run(argv, env={"LD_PRELOAD": library} if library else {})
            watched = self.watched(argv, library=f"{WATCH_LIBRARY} {library}".strip())
            self.assertEqual((watched.rc, watched.out, watched.err), (alone.rc, alone.out, alone.err))
        self.assertIn(b"weak 111111 dlsym 1", alone.out)

    def test_a_system_call_fails(self):
        """Where the symbol table cannot be changed, nothing is guarded: jemalloc would be given our blocks."""
        argv, refused, n = [victim("jemalloc"), "mixed", "weak", "50"], 0, 0
        hit = True
        while hit and n < 200:
            n += 1
            log = os.path.join(self.folder, "faults")
            with open(log, "wb") as f:
                f.write(bytes(4096))
            r = self.watched(argv, settings={"period": 1, "guard": "all"}, library=f"{FAULTS} {FOUND[0]}", broken=True,
                             env={"MALLOW_FAULT": str(n), "MALLOW_FAULT_LOG": log})
            self.assertEqual((r.rc, r.out), (0, b"done\n"), (n, r.err))
            said = [s for s in self.segments if s.unguarded]
            refused += len(said)
            self.assertEqual(sum(s.counters["guarded"] for s in said), 0)
            with open(log, "rb") as f:
                words = struct.unpack("<1024I", f.read())
            for pid in words[2:2 + min(words[1], 1022)]:  # where even unlink was made to fail
                for name in glob.glob(f"/dev/shm/mallow-watch-{pid}-*"):
                    os.unlink(name)
            hit = words[0] != 0
        self.assertGreaterEqual(refused, 2, "opening the pages of its symbols failed, and closing them")

    def test_nothing_is_exported(self):
        out = subprocess.run(["nm", "-D", "--defined-only", WATCH_LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertEqual([n for n in NAMES if f" {n}\n" in out], [])
