"""Sees scripts/check count what meson says: passes, failures, time-outs, skips, and a missing log."""
import json
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def tally(results):
    """What scripts/check's tally() makes of a log with these results; None: no log at all."""
    with open(os.path.join(ROOT, "scripts", "check"), encoding="utf-8") as f:
        function = re.search(r"^tally\(\) \{.*?^\}", f.read(), re.S | re.M).group(0)
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "testlog.json")
        if results is not None:
            with open(log, "w", encoding="utf-8") as f:
                for result in results:
                    f.write(json.dumps({"name": "x", "result": result}) + "\n")
        out = subprocess.run(["bash", "-c", f"passed=0 failed=0 skipped=0\n{function}\ntally '{log}'\n"
                              "echo $passed $failed $skipped"], capture_output=True, text=True, check=True)
    return tuple(int(n) for n in out.stdout.split())


class Tally(unittest.TestCase):
    def test_every_result_is_counted_once(self):
        self.assertEqual(tally(["OK", "OK", "EXPECTEDFAIL", "SKIP", "FAIL", "TIMEOUT", "ERROR",
                                "INTERRUPT", "UNEXPECTEDPASS"]), (3, 5, 1))

    def test_all_good(self):
        self.assertEqual(tally(["OK"] * 7), (7, 0, 0))

    def test_no_log_is_a_failure(self):
        self.assertEqual(tally(None), (0, 1, 0))


if __name__ == "__main__":
    unittest.main()
