"""Signal handlers that allocate, map and jump; deep recursion (tests/victims/signals.c)."""
import re

from mallowtest import Case, victim


class Signals(Case):
    def program(self, *argv):
        return self.process(self.recorded([victim("signals"), *argv]), "signals")

    def said(self):
        return tuple(map(int, re.fullmatch(rb"mains (\d+) handled (\d+)\n", self.last.out).groups()))

    def test_only_the_handler_allocates(self):
        for mode in ("idle", "altstack"):
            with self.subTest(mode=mode):
                p = self.program(mode, "2000")
                self.calls(p, malloc=2 * 2000 + 200, free=2 * 2000)
                self.assertEqual(p["end_live_bytes"], 8 * 200)
                self.assertEqual(p["unknown_frees"], 0)

    def test_handler_stacks_pass_the_signal_frame(self):
        p = self.program("idle", "50")
        for s in p["sites"]:
            names = [f["function"] for f in s["frames"]]
            self.assertEqual(names[0], "allocates")
            self.assertIn("idle", names)
            self.assertIn("main", names)

    def test_handler_and_main_under_the_programs_lock(self):
        p = self.program("locked", "2000")
        mains, handled = self.said()
        self.assertEqual(p["calls"]["malloc"], mains + 2 * handled + -(-handled // 10))
        self.assertEqual(p["calls"]["free"], mains + 2 * handled)
        self.assertEqual(p["unknown_frees"], 0)

    def test_handler_that_interrupts_the_recorder(self):
        p = self.program("mapping", "3000")
        mains, handled = self.said()
        doc_lost = self.report()["lost_events"]
        self.assertEqual(p["calls"]["malloc"], mains)
        self.assertEqual(p["calls"]["free"], mains)
        self.assertEqual(doc_lost, 0)
        self.assertEqual(p["calls"]["mmap"], handled)
        self.assertEqual(p["calls"]["munmap"], handled)

    def test_marks_from_a_handler(self):
        self.program("marking", "500")
        self.untouched([victim("signals"), "marking", "500"])

    def test_siglongjmp_out_of_the_recorder(self):
        p = self.program("jumping", "2000")
        mine = [s for s in p["sites"] if s["calls"] and s["allocated_bytes"] == 99 * s["calls"]]
        self.assertEqual(sum(s["calls"] for s in mine), 500)

    def test_longjmp_and_coroutines(self):
        p = self.program("longjmp")
        self.assertEqual(p["calls"]["malloc"], 20 * 10 + 20 * 6)
        for size, calls in ((45, 200), (46, 100), (47, 20)):
            mine = [s for s in p["sites"] if s["calls"] and s["allocated_bytes"] == size * s["calls"]]
            self.assertEqual(sum(s["calls"] for s in mine), calls, size)
        for s in p["sites"]:
            if s["allocated_bytes"] == 45 * s["calls"]:
                names = [f["function"] for f in s["frames"]]
                self.assertIn("main", names)
                self.assertIn(names.count("deep"), range(1, 11))

    def test_recursion_10000_deep(self):
        p = self.program("recursion", "10000")
        self.calls(p, malloc=10000, free=10000)
        self.assertEqual(p["peak_live_bytes"], 320000)
        self.assertEqual(p["end_live_bytes"], 0)
        self.assertEqual(len(p["sites"]), min(10000, len(p["sites"])))
        deepest = max(p["sites"], key=lambda s: len(s["frames"]))
        names = [f["function"] for f in deepest["frames"]]
        self.assertEqual(names.count("recurse"), 10000)
        self.assertIn("main", names)

    def test_untouched(self):
        for argv in (["idle", "300"], ["altstack", "300"], ["jumping", "300"], ["longjmp"],
                     ["recursion", "10000"]):
            with self.subTest(argv=argv):
                self.untouched([victim("signals"), *argv])
