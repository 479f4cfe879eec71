"""Programs at the edge (tests/victims/strain.c) under libmallow-watch.so: cancelled threads, very many
threads, forks between them, small signal stacks, no more mappings, addresses or lockable memory, extreme
sizes and alignments. Each is compared with the program alone, which may be refused what it asks for here."""
import os

from mallowtest import run, victim
from watchtest import WatchCase

ALL = {"period": 1, "guard": "all", "memory": "16M"}
EACH = {"period": 1, "guard": "off", "memory": "16M"}
USUAL = {}
# glibc would fill every block, also those of 1 GB that an alignment of 1 GB takes for a moment.
os.environ.pop("MALLOC_PERTURB_", None)
NO_GUARD = 8  # trouble of a segment
RETREATED = 64


class Strain(WatchCase):
    def alone(self, *argv):
        r = run([victim("strain"), *argv])
        if r.rc == 77 or (argv[0] == "cut" and r.rc):  # another C library may not survive that one
            self.skipTest(f"SKIPPED, LOUDLY: strain {argv}, alone: {r.rc} {r.out + r.err!r}")
        self.assertEqual((r.rc, r.err, r.out.splitlines()[-1]), (0, b"", b"whole"), argv)
        return r

    def strained(self, settings, *argv, same=True):
        """The run under the library, and the segment of the process that was started."""
        plain = self.alone(*argv)
        r = self.watched([victim("strain"), *argv], settings=settings)
        context = f"{argv} {settings}: {r.err[-1000:]!r}"
        self.assertEqual((r.rc, r.own_err()), (0, b""), context)
        self.assertEqual(r.out.splitlines()[-1], b"whole", context)
        if same:
            self.assertEqual(r.out, plain.out, context)
        for s in self.segments:
            self.assertEqual(s.errors(), [], context)
            self.sound(s, killed=True)  # what was cut is half told
        return int(plain.out.split()[0]) if not same else 0, int(r.out.split()[0]) if not same else 0

    def each(self, *argv, check=None):
        for settings in (ALL, EACH, USUAL):
            with self.subTest(argv=argv, settings=settings):
                self.strained(settings, *argv)
                if check:
                    check(settings, self.segments[0])

    def test_cancelled_anywhere(self):
        """Also within the library, with an unwinder in use: later stacks are still stacks."""
        def check(settings, s):
            if settings is not USUAL:
                self.assertLess(s.counters["no_stack"], s.counters["samples"] / 20, s.counters)
        self.each("cut", "60", check=check)

    def test_cancelled_between_calls(self):
        def check(settings, s):
            if settings is EACH:
                self.assertLess(len(s.samples()), 100, "what the threads held has been freed behind them")
        self.each("computing", "20", check=check)

    def test_no_call_is_a_point_of_cancellation(self):
        self.each("pending", "10")

    def test_ten_thousand_threads(self):
        def check(settings, s):
            if settings is EACH:
                self.assertGreater(s.counters["samples"], 10000 * 7)
                self.assertLess(len(s.samples()), 100)
        self.each("stream", "10000", check=check)

    def test_a_crowd(self):
        def check(settings, s):
            if settings is EACH:
                self.assertGreater(s.counters["samples"], 2500 * 8)
        self.each("crowd", "2500", check=check)

    def test_resized_and_looked_at(self):
        def check(settings, s):
            if settings is not USUAL:
                self.assertGreater(s.counters["reallocs"], 10000)
                self.assertLess(len(s.samples()), 100)
        self.each("resizing", check=check)

    def test_forks_between_threads(self):
        def check(settings, s):
            if settings is not USUAL:  # who looks at nothing has no segment
                self.assertEqual(len(self.segments), 16)
                self.assertEqual({x.forked_from for x in self.segments[1:]}, {s.start_ns})
        self.each("forks", "15", check=check)

    def test_small_signal_stack(self):
        self.each("small-stack", "8192")

    def test_no_more_mappings(self):
        for settings in (ALL, EACH, USUAL):
            with self.subTest(settings=settings):
                # two mappings each; 128 that are guarded at once take two each on older kernels
                alone, under = self.strained(settings, "mappings", same=False)
                if settings is not ALL:
                    self.assertLess(alone - under, 250)

    def test_less_address_space(self):
        """The 512 MB of addresses for all blocks to be guarded are given back; the usual 16 MB are in nobody's way."""
        def check(settings, s):
            self.assertEqual(bool(s.trouble & RETREATED), settings is ALL)
        for how in ("0", "1", "2"):
            self.each("space", how, check=check)

    def test_alignments(self):
        def check(settings, s):
            if settings is not USUAL:  # those of 0 bytes are never sampled, those of 1 now and then
                self.assertGreaterEqual(s.counters["samples"], 8 * 6 * 3)
                self.assertEqual(s.counters["dropped_memory"], 0)
        self.each("aligned", check=check)

    def test_extreme_sizes(self):
        def check(_, s):
            self.assertLess(max(s.counters["drawn_bytes"], s.counters["dropped_weight"]), 1 << 30)
        self.each("extremes", check=check)

    def test_locked_memory(self):
        """An ordinary user who may lock 8 MB: what the library adds to that is 4 MB and less."""
        for how in ("0", "1"):
            for settings in ({"period": 1, "guard": "all"}, {"period": 1, "guard": "off"}, USUAL):
                with self.subTest(how=how, settings=settings):
                    alone, under = self.strained(settings, "locked", "8", how, same=False)
                    self.assertLessEqual(alone - under, 5)
                    self.assertTrue(self.segments[0].trouble & RETREATED)

    def test_locked_memory_of_a_privileged_program(self):
        blocks = int(self.alone("locked", "0", "-1").out.split()[0])
        if blocks < 32:
            self.skipTest(f"SKIPPED, LOUDLY: only {blocks} of 32 MB may be locked here (CAP_IPC_LOCK, ulimit -l)")
        for settings in (ALL, EACH, USUAL):
            with self.subTest(settings=settings):
                self.strained(settings, "locked", "0", "-1", same=False)
                self.assertTrue(self.segments[0].trouble & NO_GUARD)
