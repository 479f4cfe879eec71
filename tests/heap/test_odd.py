"""Heaps that something unusual was done to (victim_odd.c): every block as the program counted it and no leak but its own, or
"not verified" with what is missing, and no leak at all.
"""
import json
import os
import random
import subprocess

from mallowtest import MALLOW
from heaptest import HeapTest, tool
from test_versions import PF_W, PT_LOAD, Core
from test_walk import Cores

# What cannot be read, and the reason.
MISSING = {"secret": "could not be read", "poisoned": "could not be read", "lazy": r"are elsewhere, .*\(userfaultfd\)"}
CASES = ("nothing", "guard-in-block", "guard-in-mapped", "guard-in-free", "guard-alone", "none-in-block", "none-in-heap",
         "none-in-arena", "none-elsewhere", "read-only", "code", "given-back", "locked", "wiped-in-forks", "not-in-forks", "moved",
         "moved-block", "secret", "shared", "shared-large", "shared-file", "private-file", "lazy", "poisoned", "young", "orphaned", "second-library")
OWN = 3  # of libc: a thread's vector
LOADER = 16  # of the loader, of another library


class Odd(HeapTest):
    def odd(self, name, *how):
        truth = os.path.join(self.folder, "truth")
        p = self.start(tool("victim_odd"), name, truth, *how)
        if p.line.startswith("ready skip"):
            self.skipTest("SKIPPED, LOUDLY: " + p.line[11:])
        with open(truth, encoding="ascii") as f:
            return p, {int(a, 16): int(n) for a, n in map(str.split, f)}, int(p.line.split()[1])

    def test_every_case(self):
        for name in CASES:
            for how, source in ((), "snapshot"), (("stopped",), "stopped"):
                with self.subTest(name, source=source):
                    p, known, leaked = self.odd(name, *how)
                    document = self.heap_json(p.pid)
                    self.assertEqual(document["source"], source)
                    found, _ = self.blocks(p.pid)
                    self.assertEqual({hex(a): (n, found.get(a)) for a, n in known.items() if found.get(a) != n}, {})
                    self.assertLessEqual(len(found) - len(known), LOADER if name == "second-library" else OWN)
                    if name in MISSING:
                        self.assertEqual((document["verified"], document["read_whole"]), (False, False))
                        self.assertRegex(document["reason"], MISSING[name])
                        self.assertNotIn("unreachable_blocks", document)
                    else:
                        self.assertTrue(document["verified"], document.get("reason"))
                        self.assertEqual(document["unreachable_blocks"], leaked)
                    self.stop(p)


class OddCores(Cores):
    """Cores of the same, whole, cut off and with segments of zeros."""

    def claims(self, core, known, leaked):
        """The leaks that are claimed; None: none are. The blocks are all there, or it is not verified."""
        done = subprocess.run([MALLOW, "heap", "--json", core], capture_output=True, text=True, check=False, timeout=600)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if done.returncode:
            self.assertRegex(done.stderr, "^mallow heap: .*")
            return None
        document = json.loads(done.stdout)
        if not document["verified"]:
            self.assertTrue(document["reason"])
            self.assertNotIn("unreachable_blocks", document)
            return None
        self.assertGreaterEqual(document["blocks"], len(known))
        self.assertLessEqual(document["blocks"], len(known) + OWN)
        self.assertLessEqual(document["unreachable_blocks"], leaked)
        return document["unreachable_blocks"]

    def made(self, name):
        truth = os.path.join(self.folder, "truth")
        core = self.kernel_core(tool("victim_odd"), name, truth)
        with open(truth, encoding="ascii") as f:
            return core, {int(line.split()[0], 16) for line in f}

    def test_whole(self):
        for name in ("nothing", "none-in-block", "none-elsewhere", "read-only", "code", "given-back", "wiped-in-forks", "moved", "young"):
            with self.subTest(name):
                core, known = self.made(name)
                self.assertEqual(self.claims(core, known, 5), 5)
                os.unlink(core)

    def test_cut_and_zeroed(self):
        """At twenty places; and each segment of zeros in which there are blocks."""
        core, known = self.made("none-elsewhere")
        with open(core, "rb") as f:
            data = f.read()
        places = random.Random(35)
        for _ in range(20):
            with open(core, "wb") as f:
                f.write(data[:places.randrange(64, len(data))])
            self.claims(core, known, 5)
        tried = 0
        for _, (kind, flags, offset, start, _, size, _, _) in Core(data).headers():
            if kind == PT_LOAD and flags & PF_W and any(start <= a < start + size for a in known):
                changed = bytearray(data)
                changed[offset:offset + size] = bytes(size)
                with open(core, "wb") as f:
                    f.write(changed)
                self.assertIsNone(self.claims(core, known, 5))
                tried += 1
        self.assertGreater(tried, 0)


del Cores  # its tests are of their own file
