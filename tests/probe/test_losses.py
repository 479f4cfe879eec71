"""A recording while nobody reads the kernel's events: each is told or counted as lost, and it is said."""
import json
import os
import signal
import subprocess
import time

from mallowtest import MALLOW
from mallowtest.libcfacts import FREE_ENTERED_TWICE
from probing import Case, attached, main, mallow, reads, victim


class Losses(Case):
    def setUp(self):
        self.file = os.path.join(self.folder, "out.mlw")

    def start(self, *arguments, **more):
        p = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        for end in (p.wait, p.kill, p.stdin.close, p.stdout.close):
            self.addCleanup(end)
        return p

    def flood(self, victim_process, recorder):
        """Lets the victim do its work while the recorder stands still; the numbers that it says. There is room
        again when it is over: the recorder has written much of what it found."""
        recorder.send_signal(signal.SIGSTOP)
        os.waitpid(recorder.pid, os.WUNTRACED)
        victim_process.stdin.write("g")
        victim_process.stdin.flush()
        words = victim_process.stdout.readline().split()
        size = os.path.getsize(self.file)
        recorder.send_signal(signal.SIGCONT)
        for _ in range(12000):
            if os.path.getsize(self.file) > size + (1 << 20) or recorder.poll() is not None:
                return words
            time.sleep(0.05)
        raise AssertionError("the recorder does not go on")

    def report(self):
        out = mallow("report", "--json", self.file)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def test_faults_beside_the_calls(self):
        m = self.start(MALLOW, "record", "-o", self.file, "--with", "faults", "--", victim("loss_victim"), "faults",
                       stderr=subprocess.PIPE)
        self.addCleanup(m.stderr.close)
        start = int(m.stdout.readline().split()[1], 16)
        done, happened, length = self.flood(m, m)
        self.assertEqual(done, "done")
        err = m.communicate("g", timeout=600)[1]
        self.assertEqual(m.returncode, 0, err)
        told = 0
        with subprocess.Popen([MALLOW, "dump", "--json", self.file], stdout=subprocess.PIPE, text=True) as dump:
            for line in dump.stdout:
                event = json.loads(line)
                told += event["kind"] in ("minor-fault", "major-fault") and \
                    start <= int(event["address"], 16) < start + int(length)
        self.assertEqual(dump.returncode, 0)
        document = self.report()
        lost = document["kernel"]["lost_events"]
        self.assertGreater(told, 0)
        self.assertGreater(lost, 0)
        # In code and stack there may be a fault more, now told, now lost, within what the victim counts or beside it.
        self.assertLessEqual(abs(told + lost - int(happened)), 50)
        self.assertIn(f"{lost:,} events of the kernel were lost", err)
        [process] = document["processes"]
        # The calls themselves are all there.
        self.assertEqual((document["lost_events"], process["lost_events"], process["complete"]), (0, 0, True))
        said = f"{lost:,} events of the kernel were lost; its figures are too low"
        self.assertIn(said, document["warnings"])
        self.assertIn(said, mallow("report", self.file).stdout)

    def from_outside(self, how):
        """The recording of a victim, how many calls were lost, and what was said of them."""
        p = self.start(victim("loss_victim"), how)
        reads(p)
        m = subprocess.Popen([MALLOW, "record", "--how", "probe", "-p", str(p.pid), "-o", self.file], stderr=subprocess.PIPE, text=True)
        for end in (m.wait, m.kill, m.stderr.close):
            self.addCleanup(end)
        attached(m)
        self.assertEqual(p.stdout.readline().split()[0], "ready")
        done, happened, _ = self.flood(p, m)
        self.assertEqual(done, "done")
        p.communicate("g", timeout=600)
        err = m.communicate(timeout=600)[1]
        self.assertEqual((p.returncode, m.returncode), (0, 0), err)
        document = self.report()
        lost = document["lost_events"]
        calls = [sum(p["calls"][name] for name in ("malloc", "free")) for p in document["processes"]]
        self.assertGreater(lost, 0)
        self.assertGreater(sum(calls), 0)
        self.assertIn(sum(calls) + lost - int(happened), (0, FREE_ENTERED_TWICE))
        self.assertIn(f"{lost:,} calls could not be recorded", err)
        said = f"{lost:,} calls could not be recorded; live, peak and end may be too high or too low"
        self.assertIn(said, mallow("report", self.file).stdout)
        return document["processes"], lost, said, sum(calls) + lost

    def test_calls_from_outside(self):
        [process], lost, said, happened = self.from_outside("calls")
        self.assertEqual((process["lost_events"], process["complete"]), (lost, False))
        self.assertTrue(any(said in w for w in process["warnings"]), process["warnings"])
        # A replay of it would be of another program.
        out = mallow("workload", self.file, "-o", os.path.join(self.folder, "out.mwl"))
        self.assertEqual(out.returncode, 2, out.stderr)
        self.assertIn(f"the recording lost {lost} of {happened} calls", out.stderr)

    def test_calls_of_a_child_from_outside(self):
        [parent, child], lost, said, _ = self.from_outside("child")
        self.assertEqual((parent["lost_events"], parent["complete"]), (0, True))
        self.assertEqual((child["lost_events"], child["complete"]), (lost, False))
        self.assertFalse(any(said in w for w in parent["warnings"]))
        self.assertTrue(any(said in w for w in child["warnings"]), child["warnings"])


    def test_stacks_without_room(self):
        """The calls are all told, some of them without a stack, which is said."""
        p = self.start(victim("loss_victim"), "stacks")
        reads(p)
        m = subprocess.Popen([MALLOW, "record", "--how", "probe", "-p", str(p.pid), "-o", self.file, "--stacks", "caller"],
                             stderr=subprocess.PIPE, text=True)
        for end in (m.wait, m.kill, m.stderr.close):
            self.addCleanup(end)
        attached(m)
        self.assertEqual(p.stdout.readline().split()[0], "ready")
        p.stdin.write("g")
        p.stdin.flush()
        happened = int(p.stdout.readline().split()[1])
        p.communicate("g", timeout=600)
        err = m.communicate(timeout=600)[1]
        self.assertEqual((p.returncode, m.returncode), (0, 0), err)
        document = self.report()
        [process] = document["processes"]
        self.assertEqual((document["lost_events"], process["lost_events"], process["complete"]), (0, 0, True))
        self.assertEqual(process["calls"]["malloc"], happened)
        named = sum(s["calls"] for s in process["sites"] if [f["function"] for f in s["frames"]][:1] == ["branch"])
        without = happened - named
        # There is room for 65,536.
        self.assertIn(without, range(happened - 65536, happened - 65500))
        said = f"{without} of its calls are recorded without a stack"
        self.assertTrue(any(said in w for w in process["warnings"]), process["warnings"])
        self.assertIn(said, mallow("report", self.file).stdout)
        self.assertIn(f"{without:,} calls are recorded without a stack", err)
        self.assertNotIn("could not be recorded", err)


if __name__ == "__main__":
    main()
