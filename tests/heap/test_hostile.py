"""Processes that lie about their heap, under the sanitizers: nothing crashes, and the process stays as it was.
Usage: test_hostile.py [FIRST_SEED [COUNT]]"""
import subprocess
import sys
import unittest

from heaptest import HeapTest, tool

FIRST, COUNT = map(int, (sys.argv[1:3] + ["1", "25"][len(sys.argv[1:3]):]))


class Hostile(HeapTest):
    def runTest(self):
        for seed in range(FIRST, FIRST + COUNT):
            p = self.start(tool("victim_hostile"), str(seed))
            done = subprocess.run([tool("fuzz-core"), str(p.pid)], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"seed {seed}")
            with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
                status = f.read()
            self.assertIn("TracerPid:\t0\n", status)
            p.stdin.close()
            self.assertEqual(p.wait(60), 0, f"seed {seed}")
            p.stdout.close()


if __name__ == "__main__":
    sys.exit(not unittest.TextTestRunner().run(Hostile()).wasSuccessful())
