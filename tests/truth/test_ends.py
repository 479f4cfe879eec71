"""Every way to end (tests/victims/ends.c), and what is in the report afterwards."""
import signal

from mallowtest import Case, victim
from mallowtest.memorygroup import MemoryGroup

# mode: (status under mallow record, mallocs, live bytes, complete)
ENDS = {
    "return": (11, 1007, 10280, True),      # the destructor's 7 x 40
    "exit": (12, 1012, 10380, True),        # and atexit's 5 x 20
    "_exit": (13, 1000, 10000, True),
    "_Exit": (14, 1000, 10000, True),
    "quick_exit": (15, 1005, 10100, True),
    "abort": (128 + signal.SIGABRT, 1000, 10000, False),
    "segv": (128 + signal.SIGSEGV, 1000, 10000, False),
    "kill": (128 + signal.SIGKILL, 1000, 10000, False),
    "term": (128 + signal.SIGTERM, 1000, 10000, False),
}


class Ends(Case):
    def sized(self, p, size):
        return sum(s["calls"] for s in p["sites"] if s["calls"] and s["allocated_bytes"] == size * s["calls"])

    def stdout_buffer(self, p):
        """printf allocates its buffer once: 1024 B into a pipe, 4096 elsewhere."""
        return [s for s in p["sites"] if any("_IO_file_doallocate" in f["function"] or
                                             "printf" in f["function"] for f in s["frames"])]

    def test_every_end(self):
        for mode, (status, mallocs, live, complete) in ENDS.items():
            with self.subTest(mode=mode):
                p = self.process(self.recorded([victim("ends"), mode], status=status), "ends")
                self.assertEqual(self.last.out, b"before")
                libc = self.stdout_buffer(p)
                self.assertEqual(p["calls"]["malloc"], mallocs + sum(s["calls"] for s in libc))
                self.assertEqual(p["end_live_bytes"], live + sum(s["end_live_bytes"] for s in libc))
                self.assertIs(p["complete"], complete)

    def test_exit_by_system_call(self):
        """No wrapper sees it; every event is there nevertheless."""
        p = self.process(self.recorded([victim("ends"), "syscall"], status=16), "ends")
        self.assertEqual(self.sized(p, 10), 1000)

    def test_exit_from_a_thread(self):
        p = self.process(self.recorded([victim("ends"), "thread"], status=21), "ends")
        self.assertEqual(self.sized(p, 10), 1000)
        self.assertEqual(self.sized(p, 30), 3)
        self.assertEqual(self.sized(p, 40), 7)
        self.assertTrue(p["complete"])

    def test_exit_with_threads_running(self):
        p = self.process(self.recorded([victim("ends"), "with-threads"], status=22), "ends")
        self.assertEqual(self.sized(p, 30), 12)
        self.assertTrue(p["complete"])

    def test_the_second_counter_agrees_even_after_a_kill(self):
        for mode in ("kill", "abort", "_exit", "quick_exit", "exit"):
            with self.subTest(mode=mode):
                p = self.process(self.recorded([victim("ends"), mode], oracle=True, status=ENDS[mode][0]),
                                 "ends")
                self.agrees(p, self.oracle().of("ends")[0])

    def test_out_of_memory_kill(self):
        """In a control group of 64 MB when that can be had (root), else under a limit of address space."""
        argv, status = [victim("ends"), "memory"], 128 + signal.SIGKILL
        try:
            group = MemoryGroup(64 << 20)
            self.addCleanup(group.remove)
            argv = group.command(*argv)
        except OSError:
            argv, status = ["/bin/sh", "-c", "ulimit -v 400000 && exec \"$@\"", "sh", *argv], 23
        doc = self.recorded(argv, status=status)
        p = self.process(doc, "ends")
        self.assertEqual(self.sized(p, 10), 1000)
        big = sum(s["calls"] for s in p["sites"] if s["allocated_bytes"] == (1 << 20) * s["calls"])
        self.assertGreater(big, 30)
        if status == 23:
            self.assertEqual(p["failed_calls"], 1)
        else:
            self.assertFalse(p["complete"])
