"""`mallow record -p`: a process that runs already, recorded from outside."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from probing import MALLOW, Case, attached, main, mallow, reads, victim


class Attach(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mallow-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = os.path.join(self.folder, "out.mlw")

    def start(self, name, *arguments, **environment):
        p = subprocess.Popen([victim(name), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={**os.environ, **environment})
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        reads(p)
        return p

    def record(self, p, *options):
        m = subprocess.Popen([MALLOW, "record", "-p", str(p.pid), "-o", self.file, *options], stderr=subprocess.PIPE,
                             text=True)
        self.addCleanup(m.stderr.close)
        self.addCleanup(m.kill)
        attached(m)
        if m.poll() is not None:
            self.fail(m.stderr.read())
        return m

    def ended(self, m, status=0):
        err = m.communicate(timeout=60)[1]
        self.assertEqual(m.returncode, status, err)
        return err

    @staticmethod
    def go(p):
        p.stdin.write(b"g")
        p.stdin.flush()

    def report(self):
        out = mallow("report", "--json", self.file)
        self.assertEqual(out.returncode, 0, out.stderr)
        [process] = json.loads(out.stdout)["processes"]
        return process

    def check(self, process):
        """What the victim did after its first byte; its C library may add calls for threads."""
        sites = {}
        for site in process["sites"]:
            for frame in site["frames"]:
                if frame["function"].startswith("make_"):
                    sites[frame["function"]] = site
        self.assertNotIn("make_before", sites)
        kept = sites["make_kept"]
        self.assertEqual((kept["calls"], kept["allocated_bytes"], kept["end_live_blocks"]), (1000, 100000, 600))
        self.assertEqual(kept["frames"][0]["function"], "make_kept")
        self.assertEqual(kept["frames"][1]["function"], "main")
        cleared = sites["make_cleared"]
        self.assertEqual((cleared["calls"], cleared["allocated_bytes"], cleared["end_live_blocks"]), (30, 90000, 0))
        grown = sites["make_grown"]
        self.assertEqual((grown["end_live_blocks"], grown["end_live_bytes"]), (1, 150000))
        self.assertEqual(grown["allocated_bytes"], sum(i * 3000 for i in range(1, 51)))
        self.assertEqual((sites["make_aligned"]["calls"], sites["make_aligned"]["allocated_bytes"]), (20, 100000))
        self.assertEqual((sites["make_pairs"]["calls"], sites["make_pairs"]["end_live_blocks"]), (1000, 0))
        # Blocks from before; at a thread's end glibc calls free for what it keeps itself.
        self.assertIn(process["unknown_frees"], range(100, 109))
        self.assertEqual(process["calls"]["realloc"], 50)
        self.assertEqual(process["calls"]["posix_memalign"], 20)
        self.assertEqual((process["lost_events"], process["failed_calls"], process["inferred_frees"]), (0, 0, 0))
        self.assertEqual(process["threads"], 5)

    def whole(self, name, **environment):
        p = self.start(name, **environment)
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.stdin.close()
        p.wait(60)
        err = self.ended(m)
        self.assertIn("1 to 4 us", err)
        process = self.report()
        self.check(process)
        self.assertTrue(process["complete"])
        self.assertEqual((process["pid"], process["command"]), (p.pid, [victim(name)]))
        self.assertTrue(any("allocated before is not known" in w for w in process["warnings"]), process["warnings"])
        self.assertGreater(process["peak_rss_bytes"], 0)

    def test_until_it_ends(self):
        self.whole("attach_victim")

    def test_static_program(self):
        self.whole("attach_victim_static")

    def test_another_allocator(self):
        """In the order of addresses, the C library comes before it."""
        library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
        if not os.path.exists(library):
            self.skipTest("SKIPPED, LOUDLY: libjemalloc2 is not installed")
        self.whole("attach_victim", LD_PRELOAD=library)

    def test_until_interrupted(self):
        p = self.start("attach_victim")
        m = self.record(p, "-q")
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        m.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(m), "")
        self.assertIsNone(p.poll())  # it runs on, and nothing is left in it
        process = self.report()
        self.check(process)
        self.assertFalse(process["complete"])

    def test_for_a_time(self):
        p = self.start("attach_victim")
        m = self.record(p, "-d", "300ms", "--stacks", "none", "--keep-raw")
        self.ended(m)
        self.assertIsNone(p.poll())
        with open(self.file, "rb") as f:
            self.assertEqual(f.read(4), b"MLC1")
        self.assertEqual(self.report()["events"], 0)

    def test_when_it_becomes_another_program(self):
        p = self.start("attach_victim", "exec")
        m = self.record(p, "--stacks", "caller")
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        p.stdin.close()
        self.ended(m)
        process = self.report()
        self.assertEqual(process["end"], "exec")
        self.assertIn(["make_kept"], [[f["function"] for f in s["frames"]] for s in process["sites"]])

    def test_a_file_that_is_read_meanwhile(self):
        p = self.start("attach_victim")
        m = self.record(p)
        self.go(p)
        self.assertEqual(p.stdout.readline(), b"done\n")
        for _ in range(100):
            out = mallow("report", "--json", self.file)
            document = json.loads(out.stdout) if out.returncode == 0 else {"events": 0}
            if document["events"] > 3000:
                break
            time.sleep(0.1)
        self.assertGreater(document["events"], 3000)
        self.assertIsNone(m.poll())
        m.kill()  # and what was written is a recording
        m.wait()
        self.check(self.report())

    def test_a_process_that_is_not_there(self):
        out = mallow("record", "-p", "2147483646")
        self.assertEqual((out.returncode, out.stderr), (1, "mallow record: there is no process 2147483646\n"))

    def test_the_way_for_a_static_program_is_named(self):
        out = mallow("record", "--", victim("attach_victim_static"))
        self.assertEqual(out.returncode, 125)
        self.assertIn("'mallow record -p PID'", out.stderr)


if __name__ == "__main__":
    main()
