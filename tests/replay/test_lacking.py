"""Allocators that lack functions, or crash: what a replay calls instead, and whose figures are shown."""
import json
import struct

from mallowtest import Test, mallow, program

FEW = program("replay/libfew.so")
MALLOC, CALLOC, FREE, REALLOC, MEMALIGN, VALLOC, PVALLOC, POSIX = range(1, 9)  # of a raw trace of dj/malloc
MEMALIGN_WL, VALLOC_WL, PVALLOC_WL, POSIX_WL = range(12, 16)  # of its workloads


def record(kind, ptr1=0, ptr2=0, size=0, size2=0):
    return struct.pack("<iI7Q", 1, kind, ptr1, ptr2, size, size2, 0, 0, 0)


def at(n):
    return 0x7F0000000000 + (n << 20)


class Lacking(Test):
    def workload(self, *records, name="w.mwl"):
        trace, out = self.folder + "/trace", f"{self.folder}/{name}"
        with open(trace, "wb") as f:
            f.write(record(255, 0x1234, 0, 8) + b"".join(records))
        mallow("workload", "-q", trace, "-o", out)
        return out

    def aligned(self):
        return self.workload(*(record(kind, 0, at(kind), 5000, 64 if kind in (MEMALIGN, POSIX) else 0)
                               for kind in (MALLOC, CALLOC, MEMALIGN, VALLOC, PVALLOC, POSIX)),
                             *(record(FREE, at(kind)) for kind in (MALLOC, CALLOC, MEMALIGN, VALLOC, PVALLOC, POSIX)),
                             record(REALLOC, 0, at(20), 70), record(REALLOC, at(20), at(21), 7000), record(FREE, at(21)))

    def test_the_nearest_function_stands_in(self):
        workload = self.aligned()
        out = mallow("replay", "--alloc", FEW, "--touch", "bytes", "--json", workload)
        calls = json.loads(out.stdout)["calls"]
        self.assertEqual({k: v.get("replaced_by") for k, v in calls.items()},
                         {"malloc": None, "calloc": None, "realloc": None, "free": None, "memalign": None,
                          "valloc": "memalign", "pvalloc": "memalign", "posix_memalign": "memalign"})
        self.assertEqual({v["failed"] for v in calls.values()}, {0})
        for name in ("valloc", "pvalloc", "posix_memalign"):
            self.assertIn(f"{FEW} has no {name}: 1 call became memalign\n", out.stderr)
        text = mallow("replay", "--alloc", FEW, workload)
        self.assertEqual(text.stderr.count("became memalign"), 3)
        whole = mallow("replay", "--json", workload)
        self.assertFalse([v for v in json.loads(whole.stdout)["calls"].values() if "replaced_by" in v])
        self.assertEqual(whole.stderr, "")

    def test_installed_allocators(self):
        """jemalloc before 5.3.1 has no pvalloc."""
        out = mallow("compare", "--json", "--repeat", "2", self.aligned())
        document = json.loads(out.stdout)
        for c in document["candidates"]:
            self.assertNotIn("failed", c)
        for run in document["runs"]:
            self.assertEqual((run["unexpected_results"], run["calls"]["pvalloc"]["failed"]), (0, 0))

    def test_sizes_that_cannot_be(self):
        huge = (1 << 63, (1 << 64) - 1, (1 << 64) - 5000)
        kinds = (MALLOC, CALLOC, MEMALIGN, VALLOC, PVALLOC, POSIX)
        workload = self.workload(*(record(kind, 0, at(16 * i + kind), size, 64 if kind in (MEMALIGN, POSIX) else 0)
                                   for i, size in enumerate(huge) for kind in kinds),
                                 *(record(FREE, at(16 * i + kind)) for i in range(3) for kind in kinds))
        run = json.loads(mallow("replay", "--alloc", FEW, "--touch", "bytes", "--json", workload).stdout)
        self.assertEqual(run["unexpected_results"], 18)

    def test_which_call_it_was(self):
        fine = [record(MALLOC, 0, at(i), 10 + i) for i in range(40)]
        tail = [record(FREE, at(i)) for i in range(41)]
        for crash, said in (
                (record(MEMALIGN, 0, at(40), 4242, 64),
                 "killed by signal 11 in record 41 of thread 1, memalign of 4242 bytes aligned to 64\n"),
                (record(CALLOC, 0, at(40), 4243),
                 "killed by signal 6 in record 41 of thread 1, calloc of 4243 bytes: few: of all sizes, this one\n"),
                (record(REALLOC, at(39), at(40), 4242),
                 "killed by signal 11 in record 41 of thread 1, realloc of 4242 bytes\n")):
            workload = self.workload(*fine, crash, *tail)
            for order in "dependent", "recorded":
                out = mallow("replay", "--alloc", FEW, "--order", order, workload, status=1)
                self.assertEqual(out.stderr, "mallow replay: the replay was " + said)

    def test_one_that_fails_hides_no_other(self):
        workload = self.workload(record(MALLOC, 0, at(1), 100), record(MALLOC, 0, at(2), 4242), record(FREE, at(2)),
                                 record(FREE, at(1)))
        why = "the replay was killed by signal 11 in record 2 of thread 1, malloc of 4242 bytes"
        for order in (("glibc", FEW, "glibc+M_ARENA_MAX=1"), (FEW, "glibc", "glibc+M_ARENA_MAX=1")):
            options = ["--repeat", "3", *(f"--alloc={name}" for name in order)]
            out = mallow("compare", "--json", *options, workload, status=1)
            self.assertIn(f"mallow compare: {FEW}: {why}\n", out.stderr)
            document = json.loads(out.stdout)
            self.assertEqual([c["candidate"] for c in document["candidates"]], list(order))
            self.assertEqual([c.get("failed") for c in document["candidates"]], [why if name == FEW else None for name in order])
            self.assertEqual([r["candidate"] for r in document["runs"]], [name for name in order if name != FEW] * 3)
            for c in document["candidates"]:
                self.assertEqual("cpu_ns" in c, c["candidate"] != FEW)
                self.assertEqual("ratio" in c.get("peak_rss_bytes", {}), c["candidate"] == order[2] and order[0] != FEW)
            text = mallow("compare", *options, workload, status=1).stdout
            self.assertRegex(text, rf"(?m)^{FEW} +failed$")
            self.assertRegex(text, r"(?m)^glibc .*[0-9] .B")
            self.assertEqual("No differences" in text, order[0] == FEW)
        # all fail: as before
        out = mallow("compare", "--repeat", "2", "--alloc", FEW, workload, status=1)
        self.assertEqual((out.stdout, out.stderr), ("", f"mallow compare: {FEW}: {why}\n"))

    def test_shards_of_one_that_failed(self):
        def document(k, failed):
            runs = [{"candidate": name, "round": r, "user_ns": 10, "peak_rss_bytes": 4096 + r, "threads": 1}
                    for r in range(2) for name in ("a", "b") if name != failed]
            one = {"workload": f"w{k}", "ratio_to": "first", "runs": runs,
                   "candidates": [{"candidate": c, **({"failed": "crashed"} if c == failed else {})} for c in ("a", "b")]}
            path = f"{self.folder}/{k}.json"
            with open(path, "w", encoding="ascii") as f:
                json.dump({"schema": 1, "shard": f"{k}/2", "corpus": [one]}, f)
            return path
        out = mallow("compare", "--merge", "--json", document(1, None), document(2, "b"), status=1)
        self.assertEqual(out.stderr, "mallow compare: w2: b: crashed\n")
        merged = json.loads(out.stdout)
        self.assertEqual([len(w["runs"]) for w in merged["corpus"]], [4, 2])
        self.assertNotIn("ratio", merged["geometric_means"][0]["cpu_ns"])
        text = mallow("compare", "--merge", document(1, None), document(2, "b"), status=1).stdout
        self.assertEqual(text.count("failed"), 2)

    def test_nothing_in_a_workload_ends_trace_run(self):
        """dj/malloc's own replayer aborts at valloc, pvalloc and posix_memalign."""
        said = mallow("workload", self.aligned(), "-o", self.folder + "/w.wl").stderr
        self.assertIn("3 operations cannot be expressed", said)
        with open(self.folder + "/w.wl", "rb") as f:
            data, place, codes = f.read(), 0, []

        def number():
            nonlocal place
            n = 0
            while True:
                place += 1
                n = n << 7 | (data[place - 1] & 127)
                if data[place - 1] < 128:
                    return n
        operands = {0: 0, 1: 0, 2: 2, 3: 2, 4: 3, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1, 11: 1, MEMALIGN_WL: 3,
                    VALLOC_WL: 2, PVALLOC_WL: 2, POSIX_WL: 3}
        while place < len(data):
            code = data[place]
            place += 1
            codes.append((code, *(number() for _ in range(operands[code]))))
        self.assertFalse({VALLOC_WL, PVALLOC_WL, POSIX_WL} & {c[0] for c in codes})
        self.assertEqual(sorted(c[2:] for c in codes if c[0] == MEMALIGN_WL),
                         [(64, 5000), (64, 5000), (4096, 5000), (4096, 8192)])
