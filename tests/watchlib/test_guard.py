"""Memory errors (tests/victims/misuse.c): each kind is caught, with the right stacks, sizes, offsets
and threads; what is none of ours goes its own way."""
import ctypes
import math
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile

from mallowtest import LONG, WATCH_LIBRARY, run, victim
from watchtest import WatchCase

ALL = {"period": 1, "guard": "all", "memory": "16M"}
# kind of misuse: (error, written, offset, frame of the access, released)
CAUGHT = {
    "overflow-far": ("heap-buffer-overflow", False, 4096, "broke_read", False),
    "use-after-free-write": ("heap-use-after-free", True, 3, "broke_write", True),
    "use-after-free-read": ("heap-use-after-free", False, 5, "broke_read", True),
    "use-after-thread-free": ("heap-use-after-free", False, 5, "broke_read", True),
    "double-free": ("double-free", False, 0, "broke_free", True),
    "free-inside": ("invalid-free", False, 16, "broke_free", False),
}


class Guard(WatchCase):
    def misuse(self, kind, *arguments, **settings):
        self.last = self.watched([victim("misuse"), kind, *arguments], settings=dict(ALL, **settings))
        (s,) = self.segments
        self.errors = s.errors()
        self.segment = s
        return self.last

    def functions(self, stack):
        """Names of the frames that lie in the victim."""
        path = self.segment.exe
        places = [address for p, address in self.segment.places(stack) if p and os.path.samefile(p, path)]
        out = subprocess.run(["addr2line", "-f", "-e", path, *map(hex, places)], check=True,
                             capture_output=True, text=True).stdout.splitlines()
        return [n.split(".")[0] for n in out[::2]]

    def is_right(self, e, kind, size=100):
        error, written, offset, where, released = CAUGHT[kind]
        self.assertEqual((e["kind"], e["offset"], e["size"]), (error, offset, size))
        self.assertEqual(e["access_address"], e["address"] + offset)
        self.assertEqual(e["write"], written)
        self.assertEqual(self.functions(e["access"])[0], where)
        self.assertEqual(self.functions(e["access"])[1:3], ["misuse", "main"])
        self.assertEqual(self.functions(e["allocation"])[0], "made")
        self.assertEqual(e["allocated_tid"], self.segment.pid)
        self.assertLessEqual(e["allocated_ns"], e["time_ns"])
        if released:
            self.assertEqual(self.functions(e["release"])[0], "gave_back")
            self.assertTrue(e["allocated_ns"] <= e["freed_ns"] <= e["time_ns"])
            self.assertEqual(e["freed_tid"] == self.segment.pid, kind != "use-after-thread-free")
        else:
            self.assertEqual(e["release"]["frames"], [])

    def test_each_kind_is_caught_with_its_stacks(self):
        for kind in CAUGHT:
            with self.subTest(kind=kind):
                r = self.misuse(kind)
                self.assertEqual((r.rc, r.out, r.err), (0, b"survived\n", b""))
                self.assertEqual(len(self.errors), 1)
                self.is_right(self.errors[0], kind)

    def test_beside_the_block(self):
        """On the guarded side at the instruction; on the other, a write in the padding when it is freed."""
        for side, kind, error, write, offset, at_once in (
                ("right", "overflow-write", "heap-buffer-overflow", True, 96, True),
                ("right", "overflow-read", "heap-buffer-overflow", False, 96, True),
                ("right", "underflow-write", "heap-buffer-underflow", True, -1, False),
                ("left", "underflow-write", "heap-buffer-underflow", True, -1, True),
                ("left", "underflow-read", "heap-buffer-underflow", False, -8, True),
                ("left", "overflow-write", "heap-buffer-overflow", True, 96, False)):
            with self.subTest(side=side, kind=kind):
                r = self.misuse(kind, "40", "96", guard_side=side)
                self.assertEqual((r.rc, r.out), (0, b"survived\n"), r.err)
                self.assertEqual(self.segment.counters["errors"], 40)
                for e in self.errors:
                    self.assertEqual((e["kind"], e["offset"], e["write"]), (error, offset, write))
                    self.assertEqual(e["at_free"], not at_once)
                    self.assertEqual(self.functions(e["allocation"])[0], "made")
                self.assertEqual(self.functions(e["access"])[0],
                                 "gave_back" if not at_once else "broke_write" if write else "broke_read")

    def test_the_right_side_is_the_default(self):
        self.misuse("overflow-read", "40", "96")
        self.assertEqual(self.segment.counters["errors"], 40)

    def test_reads_on_the_other_side_are_not_seen(self):
        for side, kind in ("right", "underflow-read"), ("left", "overflow-read"):
            self.misuse(kind, "40", "96", guard_side=side)
            self.assertEqual(self.errors, [])

    def test_both_sides_by_chance(self):
        for kind in "overflow-read", "underflow-read":
            self.misuse(kind, "200", "96", guard_side="both")
            self.assertLess(abs(self.segment.counters["errors"] - 100), 5 * 50 ** 0.5)

    def test_short_overflow_inside_the_padding(self):
        """101 bytes end 11 bytes before an alignment of 16: no page can be there."""
        r = self.misuse("overflow-write", "1", "101")
        self.assertEqual(r.rc, 0)
        (e,) = self.errors
        self.assertEqual((e["kind"], e["at_free"], e["offset"]), ("heap-buffer-overflow", True, 101))

    def test_padding_of_blocks_that_are_never_freed(self):
        """It is looked at when the program ends, by itself or by a signal that the library has."""
        for ending, status, count in (("return", 0, 1), ("exit", 3, 1), ("_exit", 0, 1), ("quick_exit", 0, 1),
                                      ("exec", 0, 1), ("segv", -signal.SIGSEGV, 1), ("fork", 0, 1), ("threads", 0, 1),
                                      ("abort", -signal.SIGABRT, 1), ("assert", -signal.SIGABRT, 1),
                                      ("aborted", -signal.SIGABRT, 1), ("signal", -signal.SIGABRT, 0),
                                      ("kill", -signal.SIGKILL, 0)):
            for size, offset, error in (101, 101, "heap-buffer-overflow"), (96, -1, "heap-buffer-underflow"):
                with self.subTest(ending=ending, size=size):
                    r = self.watched([victim("kept"), str(size), str(offset), ending], settings=ALL)
                    self.assertEqual((r.rc, r.out), (status, b""), r.err)
                    self.segments = self.of("kept")
                    self.assertEqual(sum(s.counters["errors"] for s in self.segments), count)
                    for self.segment in self.segments:
                        for e in self.segment.errors():
                            self.assertEqual((e["kind"], e["offset"], e["size"]), (error, offset, size))
                            self.assertEqual((e["at_end"], e["at_free"], e["write"], e["guarded"]), (True, False, True, True))
                            self.assertEqual(self.functions(e["allocation"])[0], "spoiled")
                            self.assertEqual((e["access"]["frames"], e["release"]["frames"]), ([], []))

    def test_padding_at_the_end_as_text_and_as_a_death(self):
        env = {"LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_PERIOD": "1", "MALLOW_WATCH_GUARD": "all"}
        r = run([victim("kept"), "101", "102", "return"], env=env)
        lines = r.err.decode().splitlines()
        self.assertRegex(lines[0], r"^mallow: heap-buffer-overflow, found when the program ended, at 0x[0-9a-f]+, process \d+$")
        self.assertRegex(lines[1], r"^  1 bytes after a block of 101 bytes at 0x[0-9a-f]+$")
        self.assertRegex(lines[2], r"^  allocated by thread ")
        for ending, status in ("return", -signal.SIGABRT), ("segv", -signal.SIGSEGV):
            r = self.watched([victim("kept"), "101", "101", ending], settings=dict(ALL, on_error="die"))
            self.assertEqual(r.rc, status)

    def test_without_a_guard_errors_are_the_allocators(self):
        """Sampled blocks are where the allocator puts them: what it says of an error is what it says alone."""
        for kind in "double-free", "free-inside":
            alone = run([victim("misuse"), kind])
            r = self.misuse(kind, guard="off")
            self.assertEqual((r.rc, r.out, r.err), (alone.rc, alone.out, alone.err))
            self.assertEqual(self.errors, [])

    def test_realloc_of_a_freed_block(self):
        self.misuse("realloc-freed")
        self.assertEqual(self.errors[0]["kind"], "double-free")

    def test_die(self):
        for kind, status in (("use-after-free-read", -signal.SIGSEGV), ("overflow-far", -signal.SIGSEGV),
                             ("double-free", -signal.SIGABRT), ("free-inside", -signal.SIGABRT)):
            with self.subTest(kind=kind):
                r = self.misuse(kind, on_error="die")
                self.assertEqual((r.rc, r.out), (status, b""))
                self.assertEqual(len(self.errors), 1)
                self.is_right(self.errors[0], kind)

    def test_the_programs_own_handler(self):
        r = self.misuse("handlers")
        self.assertEqual((r.rc, r.out, r.err), (0, b"survived\n", b""))
        self.assertEqual(self.errors, [])
        r = self.misuse("own-fault")
        self.assertEqual(r.rc, -signal.SIGSEGV)
        self.assertEqual(self.errors, [])

    def test_many_errors_are_bounded(self):
        r = self.misuse("use-after-free-write", "500")
        self.assertEqual((r.rc, r.out), (0, b"survived\n"))
        self.assertEqual(self.segment.counters["errors"], 500)
        self.assertEqual([e["number"] for e in self.errors], list(range(468, 500)))

    def test_told_on_stderr_when_nobody_reads(self):
        env = {"LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_PERIOD": "1", "MALLOW_WATCH_GUARD": "all"}
        r = run([victim("misuse"), "use-after-free-write"], env=env)
        self.assertEqual((r.rc, r.out), (0, b"survived\n"))
        lines = r.err.decode().splitlines()
        self.assertRegex(lines[0], r"^mallow: heap-use-after-free, write at 0x[0-9a-f]+, process \d+$")
        self.assertRegex(lines[1], r"^  3 bytes inside a block of 100 bytes at 0x[0-9a-f]+$")
        self.assertEqual(sum("misuse+0x" in l for l in lines), sum(l.startswith("    #") and "misuse" in l
                                                                   for l in lines))
        self.assertTrue(any(l.startswith("  freed by thread ") for l in lines), r.err)

    def test_the_share_caught_is_the_share_guarded(self):
        """Of 8,000 use-after-frees, so many are caught as the rate says, within five deviations."""
        n, share = 4000, 0.25
        caught = 0
        for seed in (1, 2):
            r = self.misuse("use-after-free-read", str(n), guard=share, seed=seed, memory="64M")
            self.assertEqual(r.rc, 0, r.err)
            caught += self.segment.counters["errors"]
            self.assertEqual(self.segment.counters["dropped_full"], 0)
        mean = 2 * n * share
        self.assertLess(abs(caught - mean), 5 * (mean * (1 - share)) ** 0.5)

    def test_the_share_caught_over_many_runs(self):
        """1,000 errors in runs of one each would take minutes; 60 runs of 20 blocks sampled at 1 in 10."""
        caught, runs, size, period = 0, 60, 1000, 20000
        for seed in range(runs):
            self.misuse("use-after-free-read", "20", str(size), period=period, seed=seed)
            caught += self.segment.counters["errors"]
        from math import exp
        p = 1 - exp(-size / period)
        mean = runs * 20 * p
        self.assertLess(abs(caught - mean), 5 * (mean * (1 - p)) ** 0.5, (caught, mean))


def no_markers():
    """Why this kernel has no guard markers (Linux 6.13); None: it has."""
    with mmap.mmap(-1, 4096) as m:
        place = ctypes.c_char.from_buffer(m)
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.madvise(ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(4096), 102)
        error = os.strerror(ctypes.get_errno())
        del place
    return f"SKIPPED, LOUDLY: MADV_GUARD_INSTALL: {error} (Linux 6.13 has it)" if failed else None


def limit_data(case):
    """Guard pages by mappings, as on an older kernel: a limit of the data, however high, asks for that."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = 1 << 40 if before[1] == resource.RLIM_INFINITY else before[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    case.addCleanup(resource.setrlimit, resource.RLIMIT_DATA, before)


class GuardByMappings(Guard):
    def setUp(self):
        super().setUp()
        limit_data(self)


class Mappings(WatchCase):
    """What a program may have of mappings is its own."""

    def added(self):
        """Mappings that 300 guarded blocks add."""
        script = ("import ctypes; l = ctypes.CDLL(None); n = lambda: len(open('/proc/self/maps').readlines())\n"
                  "before = n(); kept = [l.malloc(200) for _ in range(300)]; print(n() - before)")
        r = self.watched([sys.executable, "-c", script], settings=ALL)
        self.assertEqual(r.rc, 0, r.err)
        (s,) = self.segments
        self.assertGreater(s.counters["guarded"], 300)
        return int(r.out)

    def test_markers_add_none(self):
        if no_markers():
            self.skipTest(no_markers())
        if resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY:
            self.skipTest("SKIPPED, LOUDLY: the data of processes is limited here (ulimit -d)")
        self.assertLess(self.added(), 30)

    def test_without_markers(self):
        limit_data(self)
        self.assertGreater(self.added(), 300)


class Share(WatchCase):
    """How often an error is caught is what the sampling says: a block of 100 bytes is sampled with
    1 - exp(-100 / period), and the share of those that is guarded is a setting."""

    def caught(self, kind, **settings):
        with tempfile.TemporaryFile() as out:
            # glibc ends a program that frees twice, where that was not caught before
            status = subprocess.run([victim("misuse"), kind], stdout=out, stderr=subprocess.DEVNULL, check=False,
                                    env=dict(os.environ, **self.env(**settings))).returncode
        (s,) = self.take()
        self.assertIn(status, (0,) if s.errors() or kind != "double-free" else (0, -signal.SIGABRT))
        return len(s.errors())

    def share(self, kind, sampled, guarded, runs, **settings):
        n = sum(self.caught(kind, **settings) for _ in range(runs))
        p = sampled * guarded
        print(f"{kind}: caught in {n} of {runs} runs, {p * runs:.0f} expected")
        # Five standard errors, and the tail of so few runs: a test is no place for bad luck.
        self.assertLess(abs(n - p * runs), 5 * math.sqrt(runs * p * (1 - p)) + 1)

    def test_share_caught(self):
        runs = 1000 if LONG else 40
        p = 1 - math.exp(-100 / 144)
        self.share("use-after-free-read", p, 1, runs, period=144, guard="all")
        self.share("use-after-free-write", p, 0.5, runs, period=144, guard="50%")
        self.share("double-free", p, 1, runs, period=144, guard="all")
