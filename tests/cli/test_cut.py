"""A sealed recording that is cut, anywhere: what stands before the cut is read, with its names.

How many calls that is, and that whatever names them stands before them, says the second reader
(tests/mallowtest/read_mallow.py). MALLOW_LONG=1 cuts at 200 places and at every border of a section."""
import json
import os
import random
import subprocess
import sys

from mallowtest import LONG, SANITIZED, VICTIMS, Test, read_mallow
from cli import mallow

READER = read_mallow.__file__
PLACES, BORDERS = (200, None) if LONG else (6, 8) if not SANITIZED else (2, 3)
SEED = 20


def parts(path):
    """The sections: where each ends, and the calls of those that are blocks (else None)."""
    out = subprocess.run([sys.executable, READER, "parts", path], stdout=subprocess.PIPE, check=True)
    found = [[int(n) for n in line.split()] for line in out.stdout.decode().splitlines()]
    return [(end, calls if kind == 2 else None) for end, kind, _, calls in found]


def sites(document):
    """Each site of each process: its frames, by what the report calls them."""
    return {(p["pid"], tuple((f["function"], f["file"], f["line"], f["module"]) for f in site["frames"]))
            for p in document["processes"] for site in p["sites"]}


class Cut(Test):
    def setUp(self):
        self.whole, self.short = (os.path.join(self.folder, n) for n in ("whole.mlw", "short.mlw"))

    def report(self, path):
        out = mallow("report", "--json", path)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def cut_everywhere(self, *program):
        made = mallow("record", "-q", "-o", self.whole, "--", *program)
        self.assertEqual(made.returncode, 0, made.stderr)
        with open(self.whole, "rb") as f:
            data = f.read()
        borders = parts(self.whole)
        blocks = [calls for _, calls in borders if calls is not None]
        whole = self.report(self.whole)
        names = sites(whole)
        self.assertEqual(whole["events"], sum(blocks))
        self.assertGreaterEqual(len(blocks), 3)
        draw = random.Random(SEED)
        places = {draw.randrange(borders[0][0], len(data)) for _ in range(PLACES)}
        ends = [end for end, _ in borders]
        for end in ends if BORDERS is None else draw.sample(ends, min(BORDERS, len(ends))):
            places |= {end - 1, end, end + 1}
        named = 0
        for place in sorted(p for p in places if borders[0][0] <= p < len(data)):
            with self.subTest(place=place):
                with open(self.short, "wb") as f:
                    f.write(data[:place])
                found = self.report(self.short)
                self.assertEqual(found["events"], sum(c or 0 for end, c in borders if end <= place))
                self.assertIn("its end is missing", found["warnings"][0])
                self.assertFalse(any(p["complete"] for p in found["processes"]))
                self.assertLessEqual(sites(found), names)
                named += len(sites(found))
        self.assertGreater(named, 0)
        text = mallow("report", self.short).stdout
        self.assertRegex(text, r"the file is damaged: its end is missing")

    def test_300_calls(self):
        self.cut_everywhere(f"{VICTIMS}/parts", "300")

    def test_processes(self):
        self.cut_everywhere(f"{VICTIMS}/parts", "2000", "4")

    def test_threads(self):
        self.cut_everywhere(f"{VICTIMS}/parts", "1500", "1", "12")

    def test_large(self):
        self.cut_everywhere(f"{VICTIMS}/parts", "1200000" if LONG else "80000", "2", "3")
