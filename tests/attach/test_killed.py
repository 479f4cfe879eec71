"""A program that grows in three phases, is attached to in its second, and is killed by the kernel in its third, in
a control group of this test's own: who made the memory is in what was written before the kill, and in what was
left after it. Environment: that of test_attach.py, and GROWING."""
import json
import os
import signal
import subprocess

from mallowtest import MALLOW, Test, program, wait_until
from mallowtest.memorygroup import MemoryGroup
from victim import Attached, mallow

MIB = 1 << 20
LIMIT = 127 * MIB
PHASES = "first_phase", "second_phase", "third_phase"


def by_phase(sites, key):
    """Bytes of each phase's own function."""
    found = dict.fromkeys(PHASES, 0)
    for s in sites:
        for f in s["frames"]:
            if f.get("function") in found:
                found[f["function"]] += s[key]
    return found


class Growing(Test):
    def setUp(self):
        try:
            group = MemoryGroup(LIMIT)
        except OSError as why:
            self.skipTest(f"SKIPPED, LOUDLY: {why}")
        self.addCleanup(group.remove)
        self.process = p = subprocess.Popen(group.command(program("attach/attach-growing")), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True)
        self.pid = p.pid
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), "grown\n")

    def grow(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.readline(), "grown\n")

    def grow_until_it_is_killed(self, ending):
        """Once the dump is there."""
        self.grow()
        self.grow()
        name, = wait_until(lambda: [n for n in os.listdir(self.folder) if n.endswith(ending)])
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.wait(600), -signal.SIGKILL)
        return os.path.join(self.folder, name)

    def check(self, found, least, most):
        """Nothing of before it was attached to; samples are within five standard errors."""
        print({k: f"{v / MIB:.1f} MiB" for k, v in found.items()})
        self.assertEqual(found["first_phase"], 0)
        self.assertGreater(found["second_phase"], 27 * MIB)
        self.assertLess(found["second_phase"], 33 * MIB)
        self.assertGreater(found["third_phase"], least * MIB)
        self.assertLess(found["third_phase"], most * MIB)

    def test_watched(self):
        watch = Attached(self, "--period", "16K", "--every", "1000h", "--dump-when", "rss>70%", "--dump-to", self.folder)
        dump = self.grow_until_it_is_killed(".json")
        out, err = watch.process.communicate(timeout=600)
        self.assertEqual(watch.process.returncode, 0, err)
        with open(dump, encoding="utf-8") as f:
            dump = json.load(f)
        self.assertEqual(dump["limit_bytes"], LIMIT)
        self.check(by_phase(dump["report"]["sites"], "estimated_bytes"), 42, 66)
        final, = [r for r in map(json.loads, out.splitlines()) if r["kind"] == "final"]
        self.assertTrue(final["out_of_memory"])
        self.check(by_phase(final["sites"], "estimated_bytes"), 75, 105)

    def test_recorded(self):
        """By a flight recorder with a window that is over by then."""
        file = os.path.join(self.folder, "r.mlw")
        record = subprocess.Popen([MALLOW, "record", "-p", str(self.pid), "--how", "inject", "--last", "20ms", "--dump-when",
                                   "rss>70%", "-o", file], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertIn("attached to process", record.stderr.readline())
        dump = self.grow_until_it_is_killed(".1.mlw")
        _, err = record.communicate(timeout=600)
        self.assertEqual(record.returncode, 0, err)
        self.assertIn("wrote ", err)
        for name, least, most in (dump, 42, 66), (file, 75, 105):
            status, out, err = mallow("report", "--json", name)
            self.assertEqual(status, 0, err)
            process, = json.loads(out)["processes"]
            self.check(by_phase(process["sites"], "end_live_bytes"), least, most)
            self.assertEqual((process["unknown_frees"], process["complete"]), (0, False))
