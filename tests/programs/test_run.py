"""The runner sees each way in which a program may differ: a command in mallow's place makes it. As root or not."""
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import run
import table

# Runs what stands behind "--", and then does what a test asked for; $out is the file of -o.
IN_ITS_PLACE = """#!/bin/sh
[ $1 != report ] || { %(report)s; exit; }
while [ $1 != -- ]; do [ $1 != -o ] || out=$2; shift; done; shift
"$@"; status=$?
%(then)s
exit $status
"""
REPORT = json.dumps({"lost_events": 0, "events": 5, "processes": []})
ERROR = json.dumps({"kind": "error", "pid": 1, "error": "heap-use-after-free", "access": [{"function": "f"}]})


class Runner(unittest.TestCase):
    def judged(self, then="", report=f"echo '{REPORT}'", script="echo out; echo err >&2", **more):
        with tempfile.TemporaryDirectory() as d:
            command = os.path.join(d, "mallow")
            with open(command, "w", encoding="utf-8") as f:
                f.write(IN_ITS_PLACE % {"then": then, "report": report})
            os.chmod(command, 0o755)
            before, run.MALLOW = run.MALLOW, command
            try:
                return run.judge(table.Program("x", "x", script, **more), ["record", "watch"])
            finally:
                run.MALLOW = before

    def test_same(self):
        self.assertEqual(self.judged("echo mallow watch: its own line >&2")["modes"], {"record": "same", "watch": "same"})

    def test_differs(self):
        for then, word in (("echo more", "stdout at byte 4"), ("echo more >&2", "stderr at byte 4"), ("status=3", "exit status 3 for 0"),
                           ("kill -SEGV $$", "exit status 139 for 0")):
            result = self.judged(then)
            self.assertTrue(run.is_bad(result))
            self.assertIn(word, result["modes"]["watch"])

    def test_memory_error(self):
        result = self.judged(f"echo '{ERROR}' > $out")
        self.assertTrue(run.is_bad(result))
        self.assertEqual(result["modes"]["watch"], "heap-use-after-free in f")

    def test_lost(self):
        lost = json.dumps({**json.loads(REPORT), "lost_events": 2})
        self.assertEqual(self.judged(report=f"echo '{lost}'")["modes"]["record"], "2 events lost")
        self.assertIn("no report", self.judged(report="false")["modes"]["record"])

    def test_not_the_same_alone(self):
        self.assertIn("stdout at byte", self.judged(script="cat /proc/sys/kernel/random/uuid")["failed"])
        self.assertEqual(self.judged(script="cat /proc/sys/kernel/random/uuid", varies=["[0-9a-f-]{36}"])["modes"]["watch"], "same")
        self.assertIn("exit status 4", self.judged(script="exit 4")["failed"])
        self.assertIn("setup failed", self.judged(setup="false")["failed"])

    def test_table(self):
        text = run.markdown([{"name": "a", "version": "1", "modes": {"record": "same", "watch": "exit status\n3 | x"},
                              "figures": {"calls": 1234, "processes": 2, "guarded": 1, "unguarded": ["namespace"]}},
                             {"name": "b", "skipped": "not installed: b"}], "S")
        self.assertIn("| a | 1 | same | differs (1) |  |  |  | 1,234 |  | 1 of 2 (namespace) |\n", text)
        self.assertIn("(1) a, watch: exit status 3 | x\n(2) b: skipped: not installed: b\n", text)
        self.assertIn("| b |  | skipped (2) |", text)
