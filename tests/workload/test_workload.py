"""Workloads against the recordings that they come from, read by a second reader that was written from
docs/workload.md alone; and damaged files, which must be refused."""
import json
import os
import random
import struct
import subprocess
import sys
import unittest

from mallowtest import MALLOW, REPLAYER, SANITIZED, VICTIMS, mallow, path, program
import read_workload as reader

RING, RESIZE = program("workload/ring"), program("workload/resize")


class Workloads(unittest.TestCase):
    def make(self, name, *program):
        trace, workload = (path(name + end) for end in (".mlw", ".mwl"))
        if not os.path.exists(workload):
            p = subprocess.run([MALLOW, "record", "-q", "-o", trace, "--", *program], capture_output=True,
                               text=True, timeout=600)
            self.assertEqual(p.returncode, 0, p.stderr)
            mallow("workload", "-q", "-o", workload, trace)
        return trace, workload

    def test_packed(self):
        """By the name of the output: from a recording, and from a workload."""
        trace, workload = self.make("ring", RING)
        first, second = (path(name) for name in ("first.mwl.zst", "second.mwl.zst"))
        self.assertIn("packed into", mallow("workload", "-o", first, trace).stdout)
        mallow("workload", "-q", "-o", second, workload)
        with open(first, "rb") as f, open(second, "rb") as g:
            packed = f.read()
            self.assertEqual(packed, g.read())
        self.assertEqual(packed[:4], b"\x28\xb5\x2f\xfd")
        self.assertLess(len(packed), os.path.getsize(workload))
        if not SANITIZED:  # else malloc is the sanitizer's, which is not replayed against
            told = [json.loads(mallow("replay", "--dry-run", "--json", file).stdout) for file in (workload, first)]
            self.assertEqual(told[0]["operations"], told[1]["operations"])
        self.assertEqual([n for n in os.listdir(path()) if n.endswith("~")], [])
        self.assertIn("only mallow's own workloads", mallow("workload", "-o", first, "--format=wl", trace, status=2).stderr)

    def compare(self, trace, workload):
        with open(workload, "rb") as f:
            read = reader.execute(f.read())
        process = json.loads(mallow("report", "--json", trace).stdout)["processes"][0]
        told = {k: v for k, v in process["calls"].items()
                if v and k not in ("mmap", "munmap", "mremap", "brk", "sbrk", "malloc_usable_size")}
        self.assertEqual(read["calls"], told)
        self.assertEqual(read["peak_live_bytes"], process["peak_live_bytes"])
        self.assertEqual(read["end_live_bytes"], process["end_live_bytes"])
        self.assertEqual(read["end_live_blocks"], process["end_live_blocks"])
        self.assertEqual(read["threads"], process["threads"])
        return read, process

    def test_every_function(self):
        trace, workload = self.make("api", os.path.join(VICTIMS, "api"), "counts", "failures", "peak", "reallocs",
                                    "temporary")
        read, process = self.compare(trace, workload)
        self.assertGreater(process["failed_calls"], 0)
        for name in ("malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign", "free"):
            self.assertGreater(read["calls"].get(name, 0), 0, name)

    def test_threads_in_a_ring(self):
        trace, workload = self.make("ring", RING, "3000")
        read, _ = self.compare(trace, workload)
        self.assertEqual(read["threads"], 9)
        self.assertLess(read["slots"], 3 * 1100)  # of about 25,000 blocks, at most 1,024 live

    def test_reallocs_that_fail_leave_their_blocks(self):
        """What a realloc could not grow is grown and released later, or live at the end, in the recording, in its
        workload, in a dry run and in a replay, which makes the failing calls as calls for a block of their own."""
        trace, workload = self.make("resize", RESIZE)
        p = subprocess.run([RESIZE], capture_output=True, text=True, timeout=600, check=True)
        failed, end_bytes, end_blocks = map(int, p.stdout.split())
        read, process = self.compare(trace, workload)
        self.assertEqual(process["failed"]["realloc"] + process["failed"]["reallocarray"], failed)
        self.assertEqual((process["unknown_frees"], process["inferred_frees"]), (0, 0))
        # glibc's own blocks of a started thread may live on, and are small
        self.assertGreaterEqual(read["end_live_blocks"], end_blocks)
        self.assertTrue(end_bytes <= read["end_live_bytes"] < end_bytes + 9000, (end_bytes, read))
        if SANITIZED:
            return
        for options in ["--dry-run"], ["--touch", "bytes"], ["--order", "recorded", "--set", "M_PERTURB=165"]:
            run = json.loads(mallow("replay", "--json", *options, workload).stdout)
            self.assertEqual({k: v["count"] for k, v in run["calls"].items() if v["count"]},
                             {k: v for k, v in process["calls"].items() if v})
            # the two for want of room find room here
            self.assertLessEqual(run["unexpected_results"], 0 if options == ["--dry-run"] else 2)

    def test_a_real_program(self):
        trace, workload = self.make("python", sys.executable, "-c", "import json, argparse, ast")
        self.compare(trace, workload)

    def test_size(self):
        _, workload = self.make("ring", RING, "3000")
        with open(workload, "rb") as f:
            data = f.read()
        facts, _, _ = reader.summary(data)
        # a raw trace has 64; from 3.3 to 5.2 were seen, as more waits for others are in it the more threads take turns
        self.assertLess(len(data) / facts[4], 8)

    def test_refusals(self):
        trace, workload = self.make("ring", RING, "3000")
        self.assertIn("-o", mallow("workload", trace, status=2).stderr)
        mallow("workload", trace, "-o", trace, status=2)
        self.assertIn("999999", mallow("workload", trace, "-o", workload + "x", "--pid", "999999",
                                       status=2).stderr)
        self.assertFalse(os.path.exists(workload + "x"))

    def replayer(self, data):
        """Status of a dry run, with what it said. A signal or a hang is a failure."""
        file = path("damaged.mwl")
        with open(file, "wb") as f:
            f.write(data)
        p = subprocess.run([REPLAYER, file, "dry=1"], capture_output=True, text=True, timeout=600)
        self.assertIn(p.returncode, (0, 1), (p.returncode, p.stderr))
        if p.returncode:
            self.assertTrue(p.stderr.startswith("mallow-replay: "), p.stderr)
        self.said = p.stderr
        return p.returncode

    def test_damage_is_refused(self):
        _, workload = self.make("small", RING, "60")
        with open(workload, "rb") as f:
            data = f.read()
        self.assertEqual(self.replayer(data), 0)
        draw = random.Random(1)
        for _ in range(60):
            at = draw.randrange(len(data))
            bad = bytearray(data)
            bad[at] ^= 1 << draw.randrange(8)
            self.assertEqual(self.replayer(bytes(bad)), 1, at)
        for _ in range(20):
            self.assertEqual(self.replayer(data[:draw.randrange(len(data))]), 1)

    def test_lies_with_right_checksums(self):
        """What passes the check all the same is replayed, and must end."""
        _, workload = self.make("small", RING, "60")
        with open(workload, "rb") as f:
            data = f.read()
        _, _, threads = reader.summary(data)
        offsets = [o for t in threads for o in t["offsets"]]
        offsets.append(struct.unpack_from("<Q", data, len(data) - 16)[0])
        draw = random.Random(7)
        refused = 0
        for _ in range(200):
            bad = bytearray(data)
            offset = draw.choice(offsets)
            fields = reader.HEAD.unpack_from(bad, offset)
            length = sum(fields[5:8])
            for _ in range(draw.randrange(1, 4)):
                bad[offset + reader.HEAD.size + draw.randrange(length)] = draw.randrange(256)
            payload = bytes(bad[offset + reader.HEAD.size:offset + reader.HEAD.size + length])
            head = reader.HEAD.pack(*fields[:2], 0, *fields[3:])
            struct.pack_into("<Q", bad, offset + 8, reader.checksum(reader.checksum(0, head), payload))
            status = self.replayer(bytes(bad))
            refused += status
            try:  # the second reader and the first must agree
                reader.execute(bytes(bad))
                agrees, said = status == 0, "sound"
            except (reader.Unsound, KeyError, struct.error) as problem:
                agrees, said = status == 1, repr(problem)
            self.assertTrue(agrees, (self.said, offset, said))
        self.assertGreater(refused, 60)
