"""The writer of pprof's format, read back by Go's pprof."""
import os
import re
import subprocess
import tempfile
import unittest

from mallowtest import program
from readers import need, pprof

WRITER = program("export/write_pprof")
need("go", "golang-go")


class Writer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mallow-pprof-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "p.pb.gz")

    def raw(self, *more):
        subprocess.run([WRITER, self.path, *more], check=True)
        return pprof("-raw", self.path)

    def test_everything_arrives(self):
        text = self.raw()
        for part in ("PeriodType: space bytes", "Period: 524288", "Duration: 1.5", "inuse_objects/count",
                     "inuse_space/bytes[dflt]", "a comment"):
            self.assertIn(part, text)
        samples = text.split("Samples:\n")[1].split("Locations\n")[0]
        self.assertRegex(samples, r"2\s+1048576: 1 2 3\s+\n\s+thread:\[worker\]\n\s+size:\[4096 bytes\]")
        self.assertRegex(samples, r"1\s+5: 2\s*\n")
        locations = text.split("Locations\n")[1].split("Mappings\n")[0]
        self.assertRegex(locations, r"1: 0x400123 M=1 inner a\.c:7\S* s=0\n\s+outer\(int\) b\.c:300\S* s=0")
        self.assertIn("_Z5outeri", locations)
        self.assertRegex(locations, r"2: 0x7f0000000456 M=2")
        self.assertRegex(locations, r"3: 0xffffffffff600000 b\?d")
        mappings = text.split("Mappings\n")[1]
        self.assertRegex(mappings, r"1: 0x400000/0x500000/0x1000 /bin/program deadbeef01 \[FN\]\[FL\]\[LN\]\[IN\]")
        self.assertRegex(mappings, r"2: 0x7f0000000000/0x7f0000010000/0x0 lib")

    def test_many(self):
        samples = self.raw("20000").split("Samples:\n")[1].split("Locations\n")[0]
        sums = [int(v) for v in re.findall(r"^\s+1\s+(16):", samples, re.M)]
        self.assertEqual((len(sums), sum(sums)), (20000, 320000))

    def test_what_allocates_for_its_caller(self):
        """Readers show the caller, which drop_frames is there for."""
        subprocess.run([WRITER, self.path], check=True)
        top = pprof("-top", "-unit=MB", "-nodefraction=0", self.path)
        self.assertRegex(top, r"80MB\s+\S+%\s+\S+%\s+80MB\s+\S+%\s+wants_memory")
        for name in ("operator new", "a+b\n", "pool::get", "xmalloc", "Heap"):
            self.assertNotIn(name, top)

    def test_a_full_disk_is_an_error(self):
        done = subprocess.run([WRITER, "/dev/full"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertNotEqual(done.stderr, "")
