"""Sees scripts/check count what meson says: passes, failures, time-outs, skips, a missing log, a build that
fails; and fail when a test failed. Beside stubs of meson and ninja, which say what a test wants."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STUBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stubs")
with open(os.path.join(ROOT, "scripts", "check"), encoding="utf-8") as script:
    BY_BUILD = {build: words.split() for build, words in re.findall(r"^(\w+)_suites=\((.*)\)$", script.read(), re.M)}
SUITES = sorted({suite for suites in BY_BUILD.values() for suite in suites})


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(os.path.join(self.folder, "scripts"))
        os.makedirs(os.path.join(self.folder, "tests", "export", "node_modules", "ajv"))
        for name in ("check", "readers", "tally"):
            shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(self.folder, "scripts"))

    def check(self, suites=None, breaks="", **results):
        """Runs it with these results of the tests in build, build_asan, build_tsan; None: no log."""
        suites = SUITES if suites is None else suites
        for build in ("build", "build-asan", "build-tsan"):
            found = results.get(build.replace("-", "_"), ["OK"])
            with open(os.path.join(self.folder, f"log-{build}"), "w", encoding="utf-8") as f:
                f.writelines(json.dumps({"name": f"mallow:x / {i}", "result": r}) + "\n"
                             for i, r in enumerate(found or ()))
            if found is None:
                os.unlink(f.name)
        with open(os.path.join(self.folder, "tests.json"), "w", encoding="utf-8") as f:
            json.dump([{"name": s, "suite": [f"mallow:{s}"], "depends": [s]} for s in suites], f)
        with open(os.path.join(self.folder, "targets.json"), "w", encoding="utf-8") as f:
            json.dump([{"id": s, "filename": [os.path.join(self.folder, "build-asan", s)]} for s in SUITES], f)
        env = dict(os.environ, PATH=":".join((STUBS, os.path.dirname(sys.executable), os.environ["PATH"])), BREAKS=breaks, FOLDER=self.folder)
        out = subprocess.run(["scripts/check"], cwd=self.folder, env=env, capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, check=False)
        self.last = out.stdout + out.stderr
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", out.stdout.splitlines()[-1])
        self.assertTrue(counts, self.last)
        return out.returncode, *map(int, counts.groups())

    def calls(self):
        with open(os.path.join(self.folder, "calls"), encoding="utf-8") as f:
            return f.read().splitlines()

    def test_all_good(self):
        self.assertEqual(self.check(build=["OK"] * 7 + ["SKIP"]), (0, 9, 0, 1))

    def test_every_result_is_counted_once(self):
        self.assertEqual(self.check(build=["OK", "OK", "EXPECTEDFAIL", "SKIP", "FAIL", "TIMEOUT", "ERROR", "INTERRUPT",
                                           "UNEXPECTEDPASS"]), (1, 5, 5, 1))

    def test_one_failure_is_enough_wherever_it_is(self):
        for build in ("build", "build_asan", "build_tsan"):
            self.assertEqual(self.check(**{build: ["OK", "FAIL"]}), (1, 3, 1, 0), build)

    def test_nothing_is_run_twice(self):
        self.check(build=["OK", "FAIL"])
        self.assertEqual(sum(c.startswith("meson test") for c in self.calls()), 3)

    def test_no_log_is_a_failure(self):
        self.assertEqual(self.check(build=None), (1, 2, 1, 0))

    def test_nothing_that_passes_is_no_pass(self):
        self.assertEqual(self.check(build=["SKIP"], build_asan=["SKIP"], build_tsan=["SKIP"]), (1, 0, 0, 3))

    def test_a_build_that_fails_is_a_failure(self):
        for breaks in ("build", "build-asan", "build-tsan"):
            self.assertEqual(self.check(breaks=breaks), (1, 2, 1, 0), breaks)
            self.assertIn(f"{breaks} does not build", self.last)

    def test_a_suite_that_is_gone_is_a_failure(self):
        self.assertEqual(self.check(suites=[s for s in SUITES if s != "trace"]), (1, 2, 1, 0))
        self.assertIn("no suite 'trace' in build-asan", self.last)

    def test_only_what_is_needed_is_built_again(self):
        self.check()
        built = [c.split() for c in self.calls() if c.startswith("ninja") and not c.endswith("build.ninja")]
        # the sanitizer builds twice: ahead, beside the tests, and in their turn
        self.assertEqual([c[2] for c in built], ["build", *["build-asan", "build-tsan"] * 2])
        self.assertEqual((built[0][3:], built[1][3:]), ([], sorted(BY_BUILD["asan"])))
        self.assertEqual(len(built[2][3:]), len(BY_BUILD["tsan"]))
        self.assertEqual(built[1:3], built[3:])


if __name__ == "__main__":
    unittest.main()
