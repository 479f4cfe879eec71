"""Threads that outlive the main thread (tests/victims/leader.c) have stacks like others."""
import os

from mallowtest import WATCH_LIBRARY, Case, run, victim

from mallowtest.segment import Segment

WATCH = WATCH_LIBRARY
TRUNCATED = 2  # enum mlw_watch_stack_flags
CALLER = 4


class Leader(Case):
    def test_record(self):
        r = self.record([victim("leader")])
        self.assertEqual(r.rc, 0, r.err)
        doc = self.report()
        self.assertNotIn("could not be unwound", " ".join(doc["warnings"]))
        calls = sum(s["calls"] for s in doc["processes"][0]["sites"]
                    if {"leaf", "outlives"} <= {f["function"] for f in s["frames"]})
        self.assertEqual(calls, 1000)

    def test_watch(self):
        session = os.path.join(self.folder, f"mallow-watch-session-{os.getpid()}-test")
        os.mkdir(session, 0o700)
        r = run([victim("leader")], env={"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": session,
                                         "MALLOW_WATCH_PERIOD": "1"})
        self.assertEqual((r.rc, r.err), (0, b""))
        [name] = os.listdir(session)
        s = Segment(os.path.join(session, name))
        sizes = [x for x in s.samples() if x["size"] >= 5000]
        self.assertGreater(len(sizes), 900)
        for x in sizes:
            stack = s.site(x["site"])["stack"]
            self.assertFalse(stack["flags"] & (TRUNCATED | CALLER), stack)
            self.assertGreaterEqual(len(stack["frames"]), 3, stack)
