"""dj/malloc's formats: hand-made raw traces with races whose right order is known, and round trips of its
workloads."""
import json
import os
import struct
import subprocess
import sys

from mallowtest import MALLOW, REPLAYER, VICTIMS, Test, mallow, program
import read_workload as reader

RING = program("workload/ring")
MALLOC, CALLOC, FREE, REALLOC, MEMALIGN, VALLOC, PVALLOC, POSIX = range(1, 9)
PARTS = 1 << 14
A, B, C = 0x7F0000001000, 0x7F0000002000, 0x7F0000003000


def record(thread, kind, ptr1=0, ptr2=0, size=0, size2=0):
    return struct.pack("<iI7Q", thread, kind, ptr1, ptr2, size, size2, 0, 0, 0)


MAGIC = record(1, 255, 0x1234, 0, 8)


class Formats(Test):
    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return reader.execute(f.read())

    def convert(self, *records, status=0):
        with open(self.path("t"), "wb") as f:
            f.write(MAGIC + b"".join(records))
        p = mallow("workload", self.path("t"), "-o", self.path("t.mwl"), status=status)
        return (self.read("t.mwl") if not status else None), p.stderr

    def test_several_files_and_standard_input(self):
        """A trace that was written in pieces, each with the record that says whose it is."""
        pieces = [record(1, MALLOC, 0, A, 10) + record(1, MALLOC, 0, B, 20), record(1, FREE, A),
                  record(1, MALLOC, 0, A, 30)]
        names = [self.path(f"trace.{i}") for i in range(3)]
        for name, piece in zip(names, pieces):
            with open(name, "wb") as f:
                f.write(MAGIC + piece)
        mallow("workload", *names, "-o", self.path("t.mwl"))
        got = self.read("t.mwl")
        self.assertEqual((got["calls"], got["unknown_frees"]), ({"malloc": 3, "free": 1}, 0))
        with open(names[0], "rb") as f:
            p = subprocess.run([MALLOW, "workload", "-", "-o", self.path("u.mwl")], stdin=f, capture_output=True,
                               text=True, timeout=600)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(self.read("u.mwl")["calls"], {"malloc": 2})
        self.assertEqual(sorted(os.listdir(self.folder)), ["t.mwl", "trace.0", "trace.1", "trace.2", "u.mwl"])
        said = mallow("workload", names[0], self.path("t.mwl"), "-o", self.path("v.mwl"), status=2).stderr
        self.assertIn("not a raw trace", said)

    def test_every_type(self):
        got, said = self.convert(
            record(1, MALLOC, 0, A, 10), record(1, CALLOC, 0, B, 20), record(1, REALLOC, A, C, 30),
            record(1, MEMALIGN, 0, A, 40, 64), record(1, FREE, B), record(1, VALLOC, 0, B, 50),
            record(1, PVALLOC, 0, 0x7F0000004000, 60), record(1, POSIX, 0, 0x7F0000005000, 70, 32),
            record(1, POSIX, 22, 0, 80, 3), record(1, MALLOC, 0, 0, 1 << 60), record(1, FREE, 0),
            record(1, REALLOC, C, 0, 0), record(1, REALLOC, 0, C, 5), record(0, 0))
        self.assertEqual(got["calls"], {"malloc": 2, "calloc": 1, "realloc": 3, "memalign": 1, "free": 2, "valloc": 1,
                                        "pvalloc": 1, "posix_memalign": 2})
        self.assertEqual(got["end_live_bytes"], 40 + 50 + 60 + 70 + 5)
        self.assertEqual(got["peak_live_bytes"], 30 + 40 + 50 + 60 + 70)
        self.assertEqual(said, "")

    def test_posix_memalign_in_a_workload_is_memalign(self):
        """As trace2wl of dj/malloc writes it: trace_run ends at an operation 15."""
        self.convert(record(1, POSIX, 0, A, 70, 32), record(1, FREE, A))
        said = mallow("workload", self.path("t.mwl"), "-o", self.path("t.wl")).stderr
        self.assertIn("posix_memalign", said)
        mallow("workload", "-q", self.path("t.wl"), "-o", self.path("u.mwl"))
        self.assertEqual(self.read("u.mwl")["calls"], {"memalign": 1, "free": 1})

    def test_allocation_before_the_free_that_made_room(self):
        got, said = self.convert(record(1, MALLOC, 0, A, 10), record(2, MALLOC, 0, A, 20), record(2, MALLOC, 0, B, 5),
                                 record(1, FREE, A), record(2, FREE, A), record(2, FREE, B))
        self.assertEqual((got["end_live_blocks"], got["peak_live_bytes"], got["unknown_frees"]), (0, 25, 0))
        self.assertIn("1 records", said)

    def test_free_before_its_allocation(self):
        got, said = self.convert(record(1, MALLOC, 0, C, 1), record(2, FREE, A), record(1, MALLOC, 0, A, 10))
        self.assertEqual((got["end_live_blocks"], got["unknown_frees"], got["calls"]["free"]), (1, 0, 1))
        self.assertIn("1 records", said)

    def test_several_levels(self):
        """Three threads pass one address round, all written the wrong way."""
        got, _ = self.convert(record(1, MALLOC, 0, A, 1), record(3, MALLOC, 0, A, 4), record(2, MALLOC, 0, A, 2),
                              record(2, FREE, A), record(3, FREE, A), record(1, FREE, A))
        self.assertEqual((got["end_live_blocks"], got["calls"], got["peak_live_bytes"]),
                         (0, {"malloc": 3, "free": 3}, 4))

    def test_a_realloc_that_moves_onto_a_block_not_yet_freed(self):
        got, _ = self.convert(record(1, MALLOC, 0, A, 1), record(2, MALLOC, 0, B, 2), record(1, REALLOC, A, B, 9),
                              record(2, FREE, B), record(1, FREE, B))
        self.assertEqual((got["end_live_blocks"], got["calls"]["realloc"], got["unknown_frees"]), (0, 1, 0))

    def test_a_realloc_made_of_parts_counts_once(self):
        got, _ = self.convert(record(1, MALLOC, 0, A, 1), record(1, REALLOC | PARTS, A, B, 100),
                              record(1, MALLOC, 0, B, 100), record(1, FREE, A), record(1, FREE, B))
        self.assertEqual(got["calls"], {"malloc": 1, "realloc": 1, "free": 1})

    def test_what_never_comes_is_said(self):
        got, said = self.convert(record(1, MALLOC, 0, A, 1), record(2, MALLOC, 0, A, 2), record(1, FREE, B))
        self.assertEqual((got["calls"], got["unknown_frees"]), ({"malloc": 2}, 1))
        self.assertIn("allocated again", said)
        self.assertIn("was not recorded", said)

    def test_damage(self):
        self.assertIn("does not exist", self.convert(record(1, 77), status=1)[1])
        for data in b"\x08\x01\x09\x01\x0a\x01\x0b\x07\x01\x02", b"\x08\x01\x09\x01\x0a\x01\x0b\x7f\x01\x01\x01", \
                b"\x08\xff\xff\xff\xff\xff\x7f\x0a\x01\x0b\x01\x01\x01", \
                b"\x08\x01\x09\x01\x0a\x01\x0b\x09\x01\x07\x01\x01":
            with open(self.path("bad.wl"), "wb") as f:
                f.write(data)
            mallow("workload", self.path("bad.wl"), "-o", self.path("bad.mwl"), status=1)
            self.assertFalse(os.path.exists(self.path("bad.mwl")))

    def replay(self, name, *arguments):
        p = subprocess.run([REPLAYER, self.path(name), *arguments], capture_output=True, text=True, timeout=600)
        self.assertEqual(p.returncode, 0, p.stderr)
        return json.loads(p.stdout)

    # What the formats have no word for, and what it becomes.
    NEAREST = {"aligned_alloc": "memalign", "posix_memalign": "memalign", "reallocarray": "realloc", "free_sized": "free",
               "free_aligned_sized": "free", "valloc": "memalign", "pvalloc": "memalign"}

    def trail(self, name):
        out = []
        with open(self.path(name), "rb") as f:
            reader.execute(f.read(), out)
        return [(thread, self.NEAREST.get(function, function),
                 (size + 4095) & ~4095 if function == "pvalloc" and size < 1 << 63 else size, block)
                for thread, function, size, block in out]

    @staticmethod
    def by_thread(trail):
        lines = {}
        for call in trail:
            lines.setdefault(call[0], []).append(call[1:])
        return lines

    @staticmethod
    def renumbered(trail):
        """Threads by their first call."""
        numbers = {}
        for thread, *_ in trail:
            numbers.setdefault(thread, len(numbers))
        return [(numbers[thread], function, size, block and (numbers[block[0]], block[1]))
                for thread, function, size, block in trail]

    def round_trip(self, *program):
        """Through both formats, twice: every call, size and block again, in each thread's order, and through
        the raw trace in the order of all."""
        recording = self.path("recording.mlw")
        subprocess.run([MALLOW, "record", "-q", "-o", recording, "--", *program], check=True, capture_output=True,
                       timeout=600)
        mallow("workload", "-q", recording, "-o", self.path("a.mwl"))
        said = mallow("workload", self.path("a.mwl"), "-o", self.path("a.wl")).stderr
        mallow("workload", "-q", self.path("a.wl"), "-o", self.path("b.mwl"))
        mallow("workload", self.path("b.mwl"), "-o", self.path("b.mtrace"))
        mallow("workload", "-q", self.path("b.mtrace"), "-o", self.path("c.mwl"))
        mallow("workload", "--format=mtrace", self.path("a.mwl"), "-o", self.path("a.t"))
        mallow("workload", "-q", self.path("a.t"), "-o", self.path("d.mwl"))
        a, b, c, d = (self.trail(name + ".mwl") for name in "abcd")
        self.assertEqual(self.by_thread(a), self.by_thread(b))
        self.assertEqual(self.renumbered(b), self.renumbered(c))
        self.assertEqual(self.renumbered(a), self.renumbered(d))
        # straight from the recording, and from one foreign format into the other
        mallow("workload", "-q", recording, "-o", self.path("e.wl"))
        mallow("workload", "-q", self.path("a.t"), "--format=wl", "-o", self.path("f.wl"))
        with open(self.path("a.wl"), "rb") as x, open(self.path("e.wl"), "rb") as y:
            self.assertEqual(x.read(), y.read())
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith("~")])
        return self.read("a.mwl"), said

    def test_round_trip_with_threads(self):
        a, said = self.round_trip(RING, "1500")
        self.assertEqual((a["threads"], said), (9, ""))
        self.assertEqual(self.replay("c.mwl", "order=recorded")["threads"], 9)

    def test_round_trip_of_every_function(self):
        _, said = self.round_trip(os.path.join(VICTIMS, "api"), "counts", "failures", "reallocs")
        self.assertIn("aligned_alloc", said)

    def test_round_trip_of_a_real_program(self):
        self.round_trip(sys.executable, "-c", "import json")

    def test_a_block_resized_more_often_than_a_slot_has_lives(self):
        times = (1 << 20) + 10
        with open(self.path("t"), "wb") as f:
            f.write(MAGIC + record(1, MALLOC, 0, A, 1) + record(1, REALLOC, A, A, 7) * times + record(1, FREE, A))
        mallow("workload", "-q", self.path("t"), "-o", self.path("t.mwl"))
        mallow("workload", self.path("t.mwl"), "-o", self.path("t.wl"))
        mallow("workload", "-q", self.path("t.wl"), "-o", self.path("u.mwl"))
        mallow("workload", self.path("u.mwl"), "-o", self.path("u.mtrace"))
        mallow("workload", "-q", self.path("u.mtrace"), "-o", self.path("v.mwl"))
        for name in "u.mwl", "v.mwl":
            self.assertEqual({k: v["count"] for k, v in self.replay(name)["calls"].items()},
                             {"malloc": 1, "realloc": times, "free": 1})

    def test_a_workload_is_not_made_twice(self):
        self.convert(record(1, MALLOC, 0, A, 1))
        self.assertIn("already", mallow("workload", self.path("t.mwl"), "-o", self.path("u.mwl"), status=2).stderr)
