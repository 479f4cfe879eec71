#!/usr/bin/env python3
"""Programs that give blocks of malloc's to functions that tcmalloc and mimalloc have besides (mi_free,
tc_free_sized, ...): they run as they would alone, and the blocks end as others do."""
import glob
import subprocess

from mallowtest import WATCH_LIBRARY, run, victim
import mallowtest
from watchtest import WatchCase

ALLOCATORS = {name: glob.glob(f"/usr/lib/*/{mallowtest.ALLOCATORS[name]}") for name in ("tcmalloc", "mimalloc")}
RELEASE = {"tcmalloc": "tc_free", "mimalloc": "mi_free"}


class Others(WatchCase):
    def each(self):
        found = {name: paths[0] for name, paths in ALLOCATORS.items() if paths}
        if not found:
            self.skipTest("SKIPPED, LOUDLY: neither libtcmalloc-minimal4 nor libmimalloc is installed")
        return found.items()

    def test_they_take_sampled_blocks(self):
        for name, path in self.each():
            for way in "dlsym", "bound":
                argv = [victim("others"), "all", way, "60"]
                alone = run(argv, env={"LD_PRELOAD": path})
                self.assertEqual(alone.rc, 0, alone.err)
                if way == "dlsym":
                    self.assertGreater(int(alone.out), 15)
                for settings in ({"period": 1, "guard": "off"}, {"period": 1, "guard": "all"}, {"period": 4096}):
                    with self.subTest(allocator=name, way=way, settings=settings):
                        r = self.watched(argv, settings=settings, library=f"{WATCH_LIBRARY} {path}")
                        self.assertEqual((r.rc, r.out, r.err), (0, alone.out, b""))
                        (segment,) = self.segments
                        self.sound(segment)
                        self.assertEqual(segment.errors(), [])
                        if settings["period"] == 1:  # each was sampled, and ended
                            self.assertGreater(segment.counters["frees"], 50)
                            self.assertLess(len(segment.samples()), 50)

    def test_second_release_is_named(self):
        for name, path in self.each():
            with self.subTest(allocator=name):
                r = self.watched([victim("others"), "twice", RELEASE[name]], settings={"period": 1, "guard": "all"},
                                 library=f"{WATCH_LIBRARY} {path}")
                self.assertEqual([e["kind"] for e in self.segments[0].errors()], ["double-free"])
                self.assertEqual(r.rc, 0, r.err)

    def test_nothing_is_exported(self):
        out = subprocess.run(["nm", "-D", "--defined-only", WATCH_LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertNotRegex(out, r" (mi_|tc_|MallocExtension|entry_)")
