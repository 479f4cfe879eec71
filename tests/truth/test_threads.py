"""Threads that come and go by the thousand (tests/victims/threads.c)."""
import os

from mallowtest import Case, victim


class Threads(Case):
    def program(self, *argv, **kw):
        return self.process(self.recorded([victim("threads"), *argv], **kw), "threads")

    def sized(self, process, size):
        """Calls, and blocks live at the end, of the program's own sites whose blocks all have that size: glibc 2.43 has some, too."""
        s = [x for x in process["sites"] if x["calls"] and x["allocated_bytes"] == size * x["calls"]
             and os.path.basename(x["frames"][0].get("module") or "") == "threads"]
        return sum(x["calls"] for x in s), sum(x["end_live_blocks"] for x in s)

    def test_sequential(self):
        p = self.program("waves", "1500", "1")
        self.assertEqual(p["threads"], 1501)
        self.assertEqual(p["calls"]["malloc"], 1500 * 11 + 1)
        self.assertEqual(self.sized(p, 16), (1500, 1500))
        self.assertEqual(self.sized(p, 100), (15000, 0))
        self.assertEqual(p["unknown_frees"], 0)
        self.assertEqual(p["cross_thread_frees"], 0)
        self.assertTrue(p["complete"])

    def test_waves(self):
        p = self.program("waves", "5", "200")
        self.assertEqual(p["threads"], 1001)
        self.assertEqual(p["calls"]["malloc"], 1000 * 11 + 1)
        self.assertEqual(self.sized(p, 16), (1000, 1000))

    def test_more_at_once_than_a_window_of_buffers(self):
        p = self.program("waves", "1", "700")
        self.assertEqual(p["threads"], 701)
        self.assertEqual(p["calls"]["malloc"], 700 * 11 + 1)

    def test_cross_thread_frees(self):
        p = self.program("cross", "30000")
        self.assertEqual(self.sized(p, 64), (30000, 0))
        told = {k: p[k] for k in ("cross_thread_frees", "unknown_frees", "temporary_allocations", "calls")}
        self.assertEqual(p["unknown_frees"], 0, told)
        self.assertEqual(p["cross_thread_frees"], 30000, told)
        self.assertLessEqual(p["peak_live_bytes"], 64 * 259 + 4096)  # the ring's worth, and libc's own

    def test_key_destructors(self):
        p = self.program("keys", "40")
        self.assertEqual(self.sized(p, 77), (40 * 4 * 3, 0))
        self.assertEqual(p["unknown_frees"], 0)

    def test_detached_threads_at_exit(self):
        p = self.program("detached", "3", status=17)
        self.assertEqual(self.last.out, b"main leaves\n")
        self.assertTrue(p["complete"])
        calls, live = self.sized(p, 50)
        self.assertGreater(calls, 1000)
        self.assertLessEqual(live, 3)

    def test_main_leaves_first(self):
        p = self.program("main-first")
        self.assertEqual(self.sized(p, 40), (25, 25))
        self.assertTrue(p["complete"])

    def test_cancelled(self):
        p = self.program("cancel", "20")
        calls, live = self.sized(p, 88)
        self.assertLessEqual(calls, 20)
        self.assertLessEqual(live, 20 - calls + 1)

    def test_hammer_agrees_with_the_second_counter(self):
        p = self.program("hammer", "4", "60000", oracle=True)
        self.agrees(p, self.oracle().of("threads")[0], skip=("peak_live_bytes", "peak_live_blocks"))

    def test_waves_agree_with_the_second_counter(self):
        p = self.program("waves", "20", "20", oracle=True)
        self.agrees(p, self.oracle().of("threads")[0], skip=("peak_live_bytes", "peak_live_blocks"))

    def test_untouched(self):
        for argv in (["waves", "2", "300"], ["cross", "5000"], ["keys", "10"], ["detached", "2"],
                     ["main-first"], ["cancel", "10"], ["hammer", "3", "20000"]):
            with self.subTest(argv=argv):
                self.untouched([victim("threads"), *argv])
