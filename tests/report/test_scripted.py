"""What scripts ask a recording for: a JSON report of bounded length, with figures of what it leaves out.

test_scripted.py MALLOW SCRIPTED"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
MALLOW, SCRIPTED = sys.argv[1:3]
ENVIRONMENT = dict(os.environ, LC_ALL="C", DEBUGINFOD_URLS="")
sys.path.insert(0, HERE)
from checks import disagreements  # noqa: E402

FOLDER = tempfile.TemporaryDirectory(prefix="mallow-scripted-")
RECORDING = os.path.join(FOLDER.name, "scripted.mlw")
STACKS, BLOCK, SHORT, TOUCHED = 1 << 11, 48, 500, 24 << 20  # as in scripted.c
FIGURES = ("calls", "allocated_bytes", "peak_bytes", "peak_blocks", "end_live_bytes", "end_live_blocks", "temporary")


def mallow(*arguments, status=0, **more):
    done = subprocess.run([MALLOW, *arguments], capture_output=True, text=True, env=ENVIRONMENT, check=False,
                          stdin=subprocess.DEVNULL, **more)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done


def setUpModule():
    mallow("record", "-q", "-o", RECORDING, "--", SCRIPTED)


def tearDownModule():
    FOLDER.cleanup()


def report(*options):
    return json.loads(mallow("report", "--json", *options, RECORDING).stdout)


class Bounded(unittest.TestCase):
    def test_a_limit_and_what_it_left_out(self):
        everything = report("-n", "0")["processes"][0]
        self.assertEqual((everything["sites_left_out"], len(everything["sites"])), (0, everything["sites_total"]))
        self.assertEqual(set(everything["left_out"].values()), {0})
        self.assertGreaterEqual(everything["sites_total"], STACKS)
        for options, shown in (([], 1000), (["-n", "7"], 7), (["-n", "1500", "--by", "calls"], 1500)):
            document = report(*options)
            self.assertEqual(disagreements(document), [])
            process = document["processes"][0]
            self.assertEqual(len(process["sites"]), shown)
            self.assertEqual(process["sites_left_out"], everything["sites_total"] - shown)
            for figure in FIGURES:
                self.assertEqual(sum(s[figure] for s in process["sites"]) + process["left_out"][figure],
                                 sum(s[figure] for s in everything["sites"]), (options, figure))
        self.assertLess(len(json.dumps(report())), 0.6 * len(json.dumps(report("-n0"))))

    def test_a_table_of_frames(self):
        inline, table = (report("-n0", "--frames", f)["processes"][0] for f in ("inline", "table"))
        self.assertNotIn("frame_table", inline)
        frames = table["frame_table"]
        self.assertEqual(len({json.dumps(f) for f in frames}), len(frames))
        self.assertEqual([dict(s, frames=[frames[f] for f in s["frames"]]) for s in table["sites"]], inline["sites"])
        self.assertEqual(disagreements(report("--frames=table")), [])
        self.assertLess(len(json.dumps(table)), 0.3 * len(json.dumps(inline)))
        self.assertIn("--json", mallow("report", "--frames=table", RECORDING, status=2).stderr)

    def test_all_in_text(self):
        one, every = (mallow("report", n, "--by", "allocated", RECORDING).stdout for n in ("-n1", "-n0"))
        self.assertEqual([one.count("hold ("), one.count("\n 2 ")], [1, 0])
        self.assertEqual([every.count("hold ("), every.count("temporary (")], [1, 1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
