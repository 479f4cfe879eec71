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
import hostile_recordings
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

    def test_foreign_traces(self):
        out = self.root + "/out"
        for kind, data, options, status, said in (
                ("threads of perf", hostile_files.perf_threads(60000), ["--format=perf"], 0, ""),
                ("more threads of perf", hostile_files.perf_threads(70000), ["--format=perf"], 1, "more than 65536 threads"),
                ("60 million strings in gzip", hostile_files.heaptrack_tables(60000000), [], 0, ""),
                ("80 GiB of blank lines in zstd", hostile_files.heaptrack_blank(80 << 30), [], 1, "more than 128 times its size"),
                ("threads of dj/malloc that wait", hostile_files.dj_trace(30000, 60000), [], 0, ""),
                ("more of them", hostile_files.dj_trace(70000, 0), [], 1, "more than 65536 threads")):
            self.write(data)
            done = figures.run(self, "import", kind, MALLOW, "import", *options, "-o", out, self.path)
            self.assertEqual((done.returncode, said in done.stderr), (status, True), (kind, done.stderr))
        for data, status in ((hostile_files.dj_trace(30000, 60000), 0), (hostile_files.dj_trace(70000, 0), 1)):
            self.write(data)
            done = figures.run(self, "workload", "threads of dj/malloc that wait", MALLOW, "workload", "-o", out, self.path)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_recordings(self):
        lines = {"report": ("report",), "report --json": ("report", "--json"), "report --html": ("report", "--html", self.root + "/o.html"),
                 "export": ("export", "--format=massif", "-o", self.root + "/o"), "workload": ("workload", "-o", self.root + "/w"),
                 "diff": ("diff", self.path), "dump": ("dump",)}
        for kind, make in hostile_recordings.KINDS.items():
            data = make(10000)
            for row, line in lines.items():
                self.write(data)
                done = figures.run(self, row, f"10000 {kind}", MALLOW, *line, self.path)
                self.assertIn(done.returncode, (0,) if row.startswith("report") else (0, 1, 2), (kind, row, done.stderr))
                if row == "report":
                    self.assertEqual("forked through more than 4,096" in done.stdout, kind == "generations", kind)


if __name__ == "__main__":
    ran = unittest.main(exit=False).result
    figures.show()
    sys.exit(not ran.wasSuccessful())
