"""Files, servers and clients that claim more than they have: each command in a control group that would kill it for
more than docs/security.md says, with a bound on the processor's time."""
import os
import sys
import tempfile
import unittest

import attack
import figures
import hostile_cores
import hostile_files
from attack import MALLOW

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "heap", "corpus")


class Files(attack.Attack):
    where, symlinks = attack.on_disk(), "1"

    def setUp(self):
        super().setUp()
        self.path = self.nb + "/hostile"

    def write(self, data):
        with open(self.path, "wb") as f:
            f.write(data)

    def test_cores(self):
        for kind in hostile_cores.KINDS:
            hostile_cores.make(kind, CORPUS + "/leaks.core.xz", self.path)
            done = figures.run(self, "heap CORE", kind, MALLOW, "heap", "--json", self.path)
            self.assertEqual(done.returncode, kind == "files", (kind, done.stderr))
            if kind == "notes":
                self.assertIn("more than 256 MiB: the rest was not read", done.stdout)
                self.assertIn("more threads than the 65536 that are looked at", done.stdout)

    def test_core_whose_segments_share_bytes(self):
        core = hostile_cores.Core(CORPUS + "/leaks.core.xz")
        hostile_cores.one_hole_many_times(core)
        core.write(self.path)
        done = figures.run(self, "heap CORE", "one hole many times", MALLOW, "heap", self.path)
        self.assertIn("several of them claim the same bytes", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_saved_heap(self):
        self.write(hostile_files.saved_heap(60 << 30))
        done = figures.run(self, "heap FILE.mlh", "facts without end", MALLOW, "heap", self.path)
        self.assertIn("at most 268435456 are read", done.stderr)


if __name__ == "__main__":
    ran = unittest.main(exit=False).result
    figures.show()
    sys.exit(not ran.wasSuccessful())
