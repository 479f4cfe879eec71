"""Where the free memory of a heap lies, whose blocks keep it, and glibc's mmap threshold: of a program that
fragments its heaps (fragmented.c), worked out again from the addresses that `mallow dump` prints."""
import collections
import json
import os
import pty
import subprocess
import sys
import unittest

from mallowtest import MALLOW, main, path, program
from mallowtest.libcfacts import MAPPED_LACKS

FRAGMENTED = program("report/fragmented")
PAGE = 4096
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))},
               "LC_ALL": "C", "DEBUGINFOD_URLS": ""}


def mallow(*arguments, status=0, **environment):
    done = subprocess.run([MALLOW, *arguments], capture_output=True, text=True, env={**ENVIRONMENT, **environment})
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout


def record(name, *arguments, options=(), **environment):
    file = path(name + ".mlw")
    mallow("record", "-q", *options, "-o", file, "--", FRAGMENTED, *arguments, **environment)
    return file


def process(path, *options):
    return json.loads(mallow("report", "--json", "--heap", *options, path))["processes"][0]


def pages_of(blocks):
    """By page: bytes in use, and the blocks on it."""
    used, on = collections.Counter(), collections.defaultdict(list)
    for b in blocks:
        for page in range((b["at"] - 8) // PAGE, (b["at"] + b["usable"] - 1) // PAGE + 1):
            used[page] += min(b["at"] + b["usable"], (page + 1) * PAGE) - max(b["at"] - 8, page * PAGE)
            on[page].append(b)
    return used, on


class Heap(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for _ in range(10):  # the recorder looks when it gets a processor, which may be too early
            cls.path = record("fragmented")
            cls.process = process(cls.path)
            cls.heap = cls.process["heap_at_peak"]
            if cls.heap is None:
                print("SKIPPED: the kernel was not asked for the split of the resident size: /proc/PID/smaps is not to be read")
                sys.exit(77)
            if cls.looked_at_large_blocks():
                return
        print("SKIPPED: this machine is too busy for the recorder to look at a program near its peak")
        sys.exit(77)

    @classmethod
    def looked_at_large_blocks(cls):
        """Finds the blocks at the moment of the split. Whether the program had come to the large ones."""
        until, live = cls.heap["time_ns"] + cls.process["start_ns"], {}
        for line in mallow("dump", "--json", cls.path).splitlines():
            event = json.loads(line)
            if event["time_ns"] >= until:
                break
            if "slot" not in event:
                continue
            if event["kind"] == "alloc":
                live[event["slot"]] = {"at": int(event["address"], 16), "path": event.get("path", []),
                                       "usable": event.get("usable_bytes", event["size_bytes"]), "stack": event["stack"]}
            else:
                del live[event["slot"]]
        cls.blocks = [b for b in live.values() if "mmapped" not in b["path"]]
        return any(b["usable"] >= 4000000 for b in live.values())

    def of(self, main):
        return [b for b in self.blocks if ("non-main" not in b["path"]) == main]

    def test_pages(self):
        for name, main in (("main", True), ("arenas", False)):
            blocks, figures = self.of(main), self.heap[name]
            used, _ = pages_of(blocks)
            self.assertEqual(figures["live_blocks"], len(blocks), name)
            self.assertEqual(figures["live_bytes"], sum(b["usable"] for b in blocks))
            self.assertEqual(figures["header_bytes"], 8 * len(blocks))
            self.assertEqual(figures["pinned_bytes"], sum(PAGE - v for v in used.values()))
            self.assertEqual(figures["free_bytes"], sum(figures[k] for k in ("header_bytes", "pinned_bytes", "between_bytes", "top_bytes")))

    def test_heaps(self):
        heaps = self.heap["heaps"]
        self.assertEqual(len(heaps), self.heap["heaps_total"])
        self.assertEqual(sum(h["main"] for h in heaps), 1)
        for h in heaps:
            mine = [b for b in self.of(h["main"]) if h["main"] or b["at"] >> 26 == int(h["address"], 16) >> 26]
            used, _ = pages_of(mine)
            self.assertEqual((h["live_blocks"], h["pinned_bytes"]), (len(mine), sum(PAGE - v for v in used.values())))
            self.assertEqual(h["span_bytes"], (max(used) - min(used) + 1) * PAGE)
            self.assertEqual(h["between_bytes"], h["span_bytes"] - len(used) * PAGE)
            if not h["main"]:
                self.assertEqual(int(h["address"], 16) % (64 << 20), 0)

    def test_sites(self):
        """Each page's free bytes are shared equally by the blocks on it; whole free pages go to the block above."""
        used, on = pages_of(self.blocks)
        share, count = collections.Counter(), collections.Counter(b["stack"] for b in self.blocks)
        for page, blocks in on.items():
            for b in blocks:
                share[b["stack"]] += (PAGE - used[page]) / len(blocks)
        sites = self.heap["sites"]
        self.assertEqual(sum(s["pinned_bytes"] for s in sites), sum(h["pinned_bytes"] for h in self.heap["heaps"]))
        self.assertEqual(sum(s["below_bytes"] for s in sites),
                         sum(h["between_bytes"] + h["before_bytes"] for h in self.heap["heaps"]))
        kept = [s["pinned_bytes"] + s["below_bytes"] for s in sites]
        self.assertEqual(kept, sorted(kept, reverse=True))
        have = sorted((s["live_blocks"], s["pinned_bytes"]) for s in sites)
        want = sorted((count[k], v) for k, v in share.items() if v)
        for (blocks, bytes_), (blocks_, bytes_wanted) in zip(have, want):
            self.assertEqual(blocks, blocks_)
            self.assertLess(abs(bytes_ - bytes_wanted), max(64, blocks))
        for top in sites[:2]:
            self.assertEqual(top["frames"][0]["function"], "keep")
            self.assertEqual(top["live_blocks"], 128)
            self.assertGreater(top["pinned_bytes"], 128 * 2048)
            self.assertGreater(top["below_bytes"], 100 * 10 * PAGE)

    def test_what_is_free_was_measured(self):
        """Of the 8 MB that each fragment() used, most is free and resident, between blocks that stay."""
        for name in ("main", "arenas"):
            self.assertGreater(self.heap[name]["free_bytes"], 6 << 20)
            self.assertGreater(self.heap[name]["between_bytes"], 5 << 20)
        free = self.heap["main"]["free_bytes"] + self.heap["arenas"]["free_bytes"]
        self.assertEqual(free, self.process["resident_at_peak"]["heap_and_arenas_free_bytes"])

    def test_not_with_a_filter(self):
        self.assertIsNone(process(self.path, "--size", "1..100")["heap_at_peak"])
        self.assertNotIn("heap_at_peak", json.loads(mallow("report", "--json", self.path))["processes"][0])

    def test_text(self):
        text = mallow("report", self.path)
        self.assertRegex(text, r" 1\d\.\d MB  whole free pages below live blocks")
        self.assertRegex(text, r"B \+ 1\d\.\d MB; .* 256 blocks: keep \(fragmented.c:")

    def test_usage(self):
        mallow("report", "--heap", self.path, status=2)


class Threshold(unittest.TestCase):
    def steps(self, path):
        t = process(path)["mmap_threshold"]
        return t, [s["bytes"] for s in t["steps"]]

    def test_raised_by_frees(self):
        path = record("raised")
        t, bytes_ = self.steps(path)
        # a mapping is of whole pages; the threshold is the chunk in it, a block and 16 bytes
        self.assertEqual(bytes_, [131072] + [n + 16 - MAPPED_LACKS for n in (200704, 1003520, 4001792)])
        self.assertEqual((t["known"], t["fixed"], t["start"]), (True, False, "default"))
        times = [s["time_ns"] for s in t["steps"]]
        self.assertEqual(times, sorted(times))
        self.assertIn("from 3.8 MB on, raised by frees from 128.0 KB in 3 steps", mallow("report", path))
        filtered = process(path, "--size", "1..2000")["mmap_threshold"]
        self.assertEqual([s["bytes"] for s in filtered["steps"]], bytes_)

    def test_environment(self):
        t, bytes_ = self.steps(record("default", options=["--env"]))
        self.assertEqual((t["start"], bytes_[0], len(bytes_)), ("default", 131072, 4))
        for options in ["--env"], []:
            for setting in ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7:glibc.malloc.mmap_threshold=300000"},
                            {"MALLOC_MMAP_THRESHOLD_": "300000"}):
                t, bytes_ = self.steps(record("set", options=options, **setting))
                self.assertEqual((t["start"], t["fixed"], bytes_), ("environment", True, [300000]))
        t, bytes_ = self.steps(record("top", options=["--env"], GLIBC_TUNABLES="glibc.malloc.top_pad=65536"))
        self.assertEqual((t["start"], t["fixed"], bytes_), ("environment", True, [131072]))

    def test_set_by_the_program(self):
        path = record("mallopt", "mallopt")
        t = process(path)["mmap_threshold"]
        self.assertEqual((t["known"], t["why_not"], t["contradiction_bytes"], t["steps"]), (False, "contradicted", 120000, []))
        self.assertIn("that the program set", mallow("report", path))


class Plots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = record("plots")

    def on_a_terminal(self, *options, **environment):
        reader, writer = pty.openpty()
        with subprocess.Popen([MALLOW, "report", *options, self.path], stdout=writer, stderr=subprocess.DEVNULL,
                              env={**ENVIRONMENT, "TERM": "xterm", **environment}) as p:
            os.close(writer)
            out = b""
            while True:
                try:
                    some = os.read(reader, 65536)
                except OSError:
                    break
                if not some:
                    break
                out += some
            os.close(reader)
            self.assertEqual(p.wait(), 0)
        return out.decode()

    def test_where_it_can_be_drawn(self):
        utf8 = {"LC_ALL": "C.UTF-8"}
        self.assertIn("\u2524", self.on_a_terminal(**utf8))
        self.assertNotIn("\u2524", self.on_a_terminal("--plots=never", **utf8))
        self.assertNotIn("\u2588", self.on_a_terminal("--plots=never", **utf8))
        self.assertNotIn("\u2524", self.on_a_terminal(**{**utf8, "TERM": "dumb"}))
        self.assertNotIn("@ live", self.on_a_terminal())  # the locale is C
        self.assertNotIn("\u2524", mallow("report", self.path, **utf8))
        self.assertIn("\u2588", mallow("report", self.path, **utf8))
        self.assertIn("\u2524", mallow("report", "--plots=always", self.path, **utf8))
        self.assertIn("@ live", mallow("report", "--plots=always", self.path))
        mallow("report", "--plots=perhaps", self.path, status=2)
