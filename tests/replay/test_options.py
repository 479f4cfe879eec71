"""Every option of mallow replay does what it says, on hand-made workloads whose right answer is known. No test
depends on how fast the machine is: times are only ever compared with what cannot be shorter."""
import json
import os
import random
import subprocess
import sys
import unittest

from mallowtest import MALLOW, mallow, path

MIB = 1 << 20


def number(n):
    """As dj/malloc's workloads write it: most significant group first."""
    out = [n & 127]
    while n := n >> 7:
        out.insert(0, n & 127 | 128)
    return bytes(out)


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # four blocks of 16 MiB, the second resized, the first freed; 100 small ones
        operations = [b"\x02" + number(i) + number(16 * MIB) for i in (1, 2, 3, 4)]
        operations += [b"\x04\x02\x02" + number(20 * MIB), b"\x05\x01"]
        operations += [b"\x02" + number(5 + i) + number(100) for i in range(100)]
        cls.big = cls.make("big", b"".join(operations), 110)
        cls.sleeper = path("sleeper.mwl")
        trace = path("sleeper.mlw")
        subprocess.run([MALLOW, "record", "-q", "-o", trace, "--", sys.executable, "-c",
                        "import time\nfor i in range(5):\n time.sleep(0.02); x = bytearray(10000)"],
                       check=True, capture_output=True, timeout=600)
        mallow("workload", "-q", "-o", cls.sleeper, trace)

    @classmethod
    def make(cls, name, operations, pointers):
        return cls.make_threads(name, [operations + b"\x01"], pointers)

    @classmethod
    def make_threads(cls, name, bodies, pointers):
        """A workload of threads that share nothing."""
        def head(at):
            out = b"\x08" + number(pointers) + b"\x09\x01\x0a" + number(len(bodies))
            for body in bodies:
                out += b"\x0b" + number(at)
                at += len(body)
            return out + b"\x01"
        size = 0
        while len(head(size)) != size:
            size = len(head(size))
        source, workload = (path(name + end) for end in (".wl", ".mwl"))
        with open(source, "wb") as f:
            f.write(head(size) + b"".join(bodies))
        mallow("workload", "-q", source, "-o", workload)
        return workload

    def replay(self, *options, workload=None, **more):
        return json.loads(mallow("replay", "--json", *options, workload or self.big, **more).stdout)

    def test_counts(self):
        run = self.replay()
        self.assertEqual({k: v["count"] for k, v in run["calls"].items()}, {"malloc": 104, "realloc": 1, "free": 1})
        self.assertEqual(run["peak_ideal_rss_bytes"], 68 * MIB)
        self.assertEqual(run["recorded"]["end_live_bytes"], 52 * MIB + 10000)
        self.assertEqual((run["order"], run["touch"], run["timing"], run["pace"], run["dry_run"], run["trims"]),
                         ("dependent", "none", "sample", "asap", False, 0))

    def test_touch(self):
        none, pages, every = (self.replay("--touch", touch) for touch in ("none", "pages", "bytes"))
        self.assertLess(none["workload_peak_rss_bytes"], 2 * MIB)
        for run in pages, every:
            self.assertTrue(67 * MIB < run["workload_peak_rss_bytes"] < 69 * MIB, run["workload_peak_rss_bytes"])
            self.assertGreater(run["page_faults_minor"] * 4096, 16 * MIB)
            self.assertGreater(run["peak_vmsize_bytes"], 68 * MIB)

    def test_dry_run(self):
        run = self.replay("--dry-run", "--touch", "bytes")
        self.assertTrue(run["dry_run"])
        self.assertLess(run["workload_peak_rss_bytes"], MIB)
        self.assertEqual(run["peak_ideal_rss_bytes"], 68 * MIB)
        self.assertEqual(run["operations"], 106)
        self.assertEqual(run["mallinfo"]["arena_bytes"] + run["mallinfo"]["mmapped_bytes"], 0)

    def test_timing(self):
        every, sample, none = (self.replay("--timing", timing) for timing in ("all", "sample", "none"))
        malloc = every["calls"]["malloc"]
        self.assertEqual(malloc["timed"] + malloc["preempted"], 104)
        self.assertTrue(0 < malloc["p50_ns"] <= malloc["p99_ns"] <= malloc["p999_ns"] <= malloc["max_ns"])
        self.assertGreater(every["allocator_cycles"], 0)
        # a sample of so few calls would say nothing: all are timed
        self.assertGreater(sample["calls"]["malloc"]["timed"] + sample["calls"]["malloc"]["preempted"], 90)
        self.assertNotIn("timed", none["calls"]["malloc"])
        self.assertNotIn("allocator_cycles", none)
        self.assertEqual(none["slowest"], [])

    def test_pace(self):
        recorded = self.replay("--pace", "recorded", workload=self.sleeper)
        duration = recorded["recorded"]["duration_ns"]
        self.assertGreater(duration, 100e6)
        self.assertGreaterEqual(recorded["wall_ns"], duration * 0.98)
        self.assertEqual(recorded["pace"], 1)
        slower = self.replay("--pace", "0.5", workload=self.sleeper)
        self.assertGreaterEqual(slower["wall_ns"], 2 * duration * 0.98)

    def test_trim(self):
        run = self.slowly(lambda r: r["trims"], "--trim-every", "5ms")
        self.assertGreater(run["trims"], 0)
        self.assertIn("is for glibc", mallow("replay", "--trim-every", "5ms", "--alloc", self.small_library(),
                                             self.big, status=1).stderr)

    def small_library(self):
        """A malloc that is not glibc's: it never gives anything back, and has settings."""
        source, library = (path("small." + end) for end in ("c", "so"))
        with open(source, "w", encoding="utf-8") as f:
            f.write("""
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char *at; static size_t left;
static void *take(size_t n)
{
    const char *conf = getenv("MALLOC_CONF"), *mi = getenv("MIMALLOC_THING"), *no = getenv("MIMALLOC_OTHER");
    if (no || (conf && strcmp(conf, "right:1")) || (mi && strcmp(mi, "7")))
        abort();
    n = (n + 31) & ~15ul;
    if (n > left) {
        left = n > 1 << 24 ? n : 1 << 24;
        at = mmap(0, left, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    *(size_t *)at = n - 16;
    at += n; left -= n;
    return at - n + 16;
}
void *malloc(size_t n) { return take(n); }
void *calloc(size_t n, size_t m) { return take(n * m); }
void free(void *p) { (void)p; }
void *realloc(void *p, size_t n)
{
    void *q = take(n);
    return p ? memcpy(q, p, n < ((size_t *)p)[-2] ? n : ((size_t *)p)[-2]) : q;
}
""")
        subprocess.run(["cc", "-O1", "-fno-builtin", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
        return library

    def test_a_library_and_its_environment(self):
        library = self.small_library()
        run = self.replay("--alloc", library, "--set", "MALLOC_CONF=right:1", "--set", "MIMALLOC_THING=7",
                          env={"MIMALLOC_OTHER": "the caller's own stay out"})
        self.assertEqual(os.path.realpath(run["allocator_file"]), os.path.realpath(library))
        self.assertEqual(run["settings"], {"MALLOC_CONF": "right:1", "MIMALLOC_THING": "7"})
        self.assertNotIn("mallinfo", run)
        self.assertEqual({k["free_bytes"] for k in run["timeline"]}, {None})
        for wrong in "MALLOC_CONF=wrong", "MIMALLOC_THING=8":
            self.assertIn("signal 6", mallow("replay", "--alloc", library, "--set", wrong, self.big, status=1).stderr)

    def test_settings_of_glibc(self):
        self.assertGreater(self.replay()["mallinfo"]["mmapped_bytes"], 52 * MIB)
        for setting in "M_MMAP_THRESHOLD=32M", "M_MMAP_MAX=0", "glibc.malloc.mmap_threshold=33554432", \
                "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432":
            info = self.replay("--set", setting)["mallinfo"]
            self.assertEqual(info["mmapped_bytes"], 0, setting)
            self.assertGreater(info["arena_bytes"], 52 * MIB, setting)
        info = self.replay("--set", "M_MMAP_THRESHOLD=32M", "--set", "M_TOP_PAD=8M")["mallinfo"]
        self.assertGreater(info["free_bytes"], 7 * MIB)

    def test_settings_that_glibc_would_pass_over(self):
        for setting, says in (("glibc.malloc.arenas_max=1", "unknown tunable 'glibc.malloc.arenas_max'"),
                              ("glibc.malloc.mmap_threshold=64K", "'glibc.malloc.mmap_threshold=65536'"),
                              ("glibc.malloc.arena_max=", "not a number"), ("glibc.malloc.arena_max=two", "not a number")):
            for command in "replay", "compare", "tune":
                said = mallow(command, "--set", setting, self.big, status=2).stderr
                self.assertIn(says, said)
                self.assertEqual(said.count("\n"), 1, said)

    def test_repeat(self):
        out = self.replay("--repeat", "3")
        self.assertEqual(len(out["runs"]), 3)
        walls = sorted(run["wall_ns"] for run in out["runs"])
        self.assertEqual(out["wall_ns"], walls[1])
        self.assertEqual(len({run["operations"] for run in out["runs"]}), 1)

    def slowly(self, enough, *options):
        """A replay of the sleeper that takes long enough for who measures beside it to have its turns, which on a
        busy machine may be late."""
        for pace in "0.5", "0.1", "0.02":
            run = self.replay("--pace", pace, *options, workload=self.sleeper)
            if enough(run):
                break
        return run

    def test_timeline(self):
        def known(run):
            return [k["free_bytes"] for k in run["timeline"] if k["free_bytes"] is not None]
        run = self.slowly(lambda r: len(r["timeline"]) > 5 and len(known(r)) > 2, "--touch", "bytes")
        line = run["timeline"]
        self.assertGreater(len(line), 5)
        self.assertEqual([k["time_ns"] for k in line], sorted(k["time_ns"] for k in line))
        self.assertLessEqual(max(k["ideal_bytes"] for k in line), run["peak_ideal_rss_bytes"])
        self.assertLessEqual(max(k["rss_bytes"] for k in line), run["peak_rss_bytes"])
        self.assertLessEqual(max(k["vmsize_bytes"] for k in line), run["peak_vmsize_bytes"])
        self.assertEqual(line[-1]["ideal_bytes"], run["recorded"]["end_live_bytes"])
        self.assertEqual(line[-1]["free_bytes"], run["mallinfo"]["free_bytes"])
        self.assertGreater(len(known(run)), 2)

    def test_free_in_other_allocators(self):
        for name, says in ("jemalloc", True), ("tcmalloc", True), ("mimalloc", False):
            p = subprocess.run([MALLOW, "replay", "--json", "--alloc", name, self.big], capture_output=True, text=True,
                               timeout=600)
            if p.returncode:
                self.assertIn("apt-get install lib", p.stderr)
                continue
            last = json.loads(p.stdout)["timeline"][-1]["free_bytes"]
            self.assertEqual(last is not None, says, name)

    def test_no_sleep_with_independent_work(self):
        """Four threads with blocks of their own: none ever waits for a block, and all meet only where a stage
        ends."""
        draw, bodies, pointers = random.Random(1), [], 0
        for _ in range(4):
            body, live = bytearray(), []
            for i in range(20000):
                if not live or draw.random() < (0.6 if i // 5000 % 2 == 0 else 0.4):
                    pointers += 1
                    live.append(pointers)
                    body += b"\x02" + number(pointers) + number(draw.randrange(1, 900))
                else:
                    body += b"\x05" + number(live.pop(draw.randrange(len(live))))
            bodies.append(bytes(body) + b"\x01")
        run = self.replay(workload=self.make_threads("independent", bodies, pointers + 1))
        self.assertEqual((run["threads"], run["operations"]), (4, 80000))
        self.assertEqual((run["sleeps"]["block"], run["sleeps"]["turn"], run["sleeps"]["thread"]), (0, 0, 0))
        self.assertLess(run["stages"], 20)
        self.assertLessEqual(run["sleeps"]["stage"], 4 * run["stages"])

    def test_the_lines_of_the_text(self):
        out = mallow("replay", self.big).stdout
        for line in ("cycles", "usec wall time", "usec across 1 thread (", "bytes Max RSS (", " -> ", "Kb Max Ideal RSS",
                     "bytes Max VmSize", "minor page faults", "Avg malloc", "Avg calloc", "Avg realloc", "Avg free",
                     "Total call time: ", "cycles in 104 calls", "Slowest:", "glibc at the end: "):
            self.assertIn(line, out)
