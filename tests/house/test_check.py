"""Sees scripts/check count what meson says: passes, failures, time-outs, skips, and a missing log; and who
gets a second chance."""
import json
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def function(name):
    with open(os.path.join(ROOT, "scripts", "check"), encoding="utf-8") as f:
        return re.search(rf"^{name}\(\) \{{.*?^\}}", f.read(), re.S | re.M).group(0)


def run(text):
    out = subprocess.run(["bash", "-uc", "passed=0 failed=0 skipped=0 unsteady=()\n" + text +
                          "\necho $passed $failed $skipped ${unsteady[*]}"],
                         capture_output=True, text=True, check=True)
    passed, failed, skipped, *unsteady = out.stdout.splitlines()[-1].split()
    return int(passed), int(failed), int(skipped), *unsteady


def written(folder, tests):
    os.mkdir(os.path.join(folder, "meson-logs"))
    log = os.path.join(folder, "meson-logs", "testlog.json")
    with open(log, "w", encoding="utf-8") as f:
        for suite, name, result in tests:
            f.write(json.dumps({"name": f"mallow:{suite} / {name}", "result": result}) + "\n")
    return log


def tally(results):
    """What scripts/check's tally() makes of a log with these results; None: no log at all."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "none")
        if results is not None:
            log = written(folder, [("x", "y", result) for result in results])
        return run(f"{function('tally')}\ntally '{log}'")


def tests(results, again):
    """What run_tests() makes of these tests, of which those that are run again then pass or not."""
    with tempfile.TemporaryDirectory() as folder:
        written(folder, results)
        meson = f'meson_test() {{ echo run "${{@:2}}"; [ $# -eq 1 ] || {str(again).lower()}; }}'
        return run(f"{function('tally')}\n{function('run_tests')}\n{meson}\nrun_tests '{folder}'")


class Check(unittest.TestCase):
    def test_every_result_is_counted_once(self):
        self.assertEqual(tally(["OK", "OK", "EXPECTEDFAIL", "SKIP", "FAIL", "TIMEOUT", "ERROR",
                                "INTERRUPT", "UNEXPECTEDPASS"]), (3, 5, 1))

    def test_all_good(self):
        self.assertEqual(tally(["OK"] * 7), (7, 0, 0))
        self.assertEqual(tests([("a", "b", "OK")], False), (1, 0, 0))

    def test_no_log_is_a_failure(self):
        self.assertEqual(tally(None), (0, 1, 0))

    def test_who_passes_alone_is_unsteady(self):
        some = [("probe", "one", "FAIL"), ("record", "two", "TIMEOUT"), ("record", "three", "OK")]
        self.assertEqual(tests(some, True), (3, 0, 0, "one", "two"))

    def test_who_fails_again_has_failed(self):
        self.assertEqual(tests([("probe", "one", "FAIL"), ("probe", "two", "SKIP")], False), (0, 1, 1))

    def test_three_have_no_second_chance(self):
        self.assertEqual(tests([("probe", name, "FAIL") for name in "abc"], True), (0, 3, 0))

    def test_nor_has_a_lost_event(self):
        self.assertEqual(tests([("truth", "one", "FAIL"), ("probe", "two", "FAIL")], True), (0, 2, 0))


if __name__ == "__main__":
    unittest.main()
