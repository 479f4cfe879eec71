"""`mallow record --last` and `--dump-when`, from the outside: however a program ends, the file is an ordinary
recording of the last window, with all that is live; and the file stays as small as its window."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, run
from memorygroup import MemoryGroup
from test_record import has_ended, until

CHURN = os.environ["CHURN"]
LONG = os.environ.get("MALLOW_LONG")


def report(path, *options):
    p = run([MALLOW, "report", "--json", *options, path])
    assert p.rc == 0, p.err
    return json.loads(p.out)


def sites(process, key="end_live_blocks"):
    """Of the victim's own functions: the figure by the innermost of them."""
    found = {}
    for s in process["sites"]:
        for f in s["frames"]:
            if f["function"] in ("early", "keep_one", "late", "work"):
                found[f["function"]] = found.get(f["function"], 0) + s[key]
                break
    return found


def calls_of(path):
    """The calls of `late`, in order."""
    p = run([MALLOW, "dump", "--json", "--function", "late", path])
    assert p.rc == 0, p.err
    return [json.loads(line) for line in p.out.splitlines()]


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="mallow-flight-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.file = os.path.join(self.dir, "recording.mlw")
        self.most = 0

    def start(self, *options, argv, **kw):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MALLOW_")}
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, *options, "--", *map(str, argv)], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, **kw)
        self.addCleanup(self.end, p)
        return p

    @staticmethod
    def end(p):
        if p.poll() is None:
            p.kill()
        p.wait()
        for stream in (p.stdin, p.stdout, p.stderr):
            stream.close()

    def watch_size(self, p):
        """The most that the file takes while the process runs."""
        while p.poll() is None:
            try:
                self.most = max(self.most, os.stat(self.file).st_blocks * 512)
            except FileNotFoundError:
                pass
            try:
                p.wait(0.005)
            except subprocess.TimeoutExpired:
                pass

    def check_tail(self, path, threads=2):
        """The last calls of every thread of churn are there, in order, with all that is live."""
        r = report(path)
        self.assertEqual(r["lost_events"], 0)
        events = calls_of(path)
        last = {}
        for e in events:
            if e["kind"] == "alloc" and 5000 <= e["size_bytes"] < 5200:
                last.setdefault((e["pid"], e["tid"]), []).append(e["size_bytes"])
        self.assertEqual(len(last), threads)
        for sizes in last.values():
            self.assertEqual(sizes[-200:], list(range(5000, 5200)))
        return r


class Ends(Case):
    """However it ends."""

    def check(self, end, status, threads=2, rounds=100000):
        p = self.start("--last", "20ms", argv=[CHURN, threads, rounds, "rest=200", *end])
        out = p.communicate()
        self.assertEqual(p.returncode, status, out)
        r = self.check_tail(self.file, threads)
        (process,) = r["processes"]
        kept = threads * (-(-rounds // 4096))
        live = sites(process)
        self.assertEqual(live["early"], 100)
        self.assertEqual(live["keep_one"], kept)
        self.assertEqual(live["late"], 100 * threads)
        self.assertNotIn("work", {k for k, v in live.items() if v})
        self.assertEqual(process["unknown_frees"], 0)
        self.assertLess(r["events"], rounds * threads * 5)
        return process

    def test_exit(self):
        self.assertTrue(self.check([], 0)["complete"])

    def test_segv(self):
        self.assertFalse(self.check(["end=segv"], 128 + signal.SIGSEGV)["complete"])

    def test_kill(self):
        self.assertFalse(self.check(["end=kill"], 128 + signal.SIGKILL)["complete"])

    def test_more_threads(self):
        self.check([], 0, threads=6, rounds=40000)

    def test_out_of_memory(self):
        """Killed by the kernel at the limit of its control group; mallow is outside."""
        try:
            group = MemoryGroup(48 << 20)
        except OSError as why:
            self.skipTest(str(why))
        self.addCleanup(group.remove)
        p = self.start("--last", "200ms", argv=group.command(CHURN, "2", "2000", "rest=100", "end=grow"))
        out = p.communicate()
        self.assertEqual(p.returncode, 128 + signal.SIGKILL, out)
        r = report(self.file)
        process = max(r["processes"], key=lambda x: x["end_live_bytes"])
        live = sites(process)
        self.assertEqual(live["early"], 100)
        self.assertGreater(live["late"], 200)
        self.assertEqual(process["unknown_frees"], 0)
        self.assertFalse(process["complete"])

    def test_killed_recorder(self):
        """Without its parent the program goes on, and the next reader finds the window."""
        p = self.start("--last", "100ms", argv=[CHURN, 2, 60000, "rest=200", "end=wait"])
        self.assertEqual(p.stdout.readline(), b"ready\n")
        program = None
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                    if int(f.read().rsplit(")", 1)[1].split()[1]) == p.pid:
                        with open(f"/proc/{pid}/cmdline", "rb") as c:
                            if c.read().startswith(CHURN.encode()):
                                program = int(pid)
            except (OSError, ValueError):
                pass
        self.assertTrue(program)
        p.kill()
        p.wait()
        p.stdin.close()
        until(lambda: has_ended(program), "the program ends")
        (process,) = report(self.file)["processes"]
        self.assertEqual(sites(process)["early"], 100)
        self.assertEqual(process["unknown_frees"], 0)


class Bounds(Case):
    """The file stays small."""

    def test_duration(self):
        rounds = 6000000 if LONG else 300000
        p = self.start("--last", "50ms", argv=[CHURN, 2, rounds, "rest=300"])
        self.watch_size(p)
        r = self.check_tail(self.file)
        whole = rounds * 2 * 5 * 7  # at least so many bytes of rows were written
        self.assertGreater(whole, 10 << 20)
        self.assertLess(self.most, whole if LONG else whole // 2)
        self.assertEqual(sites(r["processes"][0])["keep_one"], 2 * -(-rounds // 4096))

    def test_size(self):
        rounds = 6000000 if LONG else 400000
        p = self.start("--last", "4M", argv=[CHURN, 2, rounds, "rest=500"])
        self.watch_size(p)
        r = self.check_tail(self.file)
        self.assertLess(self.most, rounds * 2 * 5 * 7 // 2)
        self.assertGreater(r["events"], 100000)
        self.assertEqual(sites(r["processes"][0])["early"], 100)

    def test_processes(self):
        """What a fork inherited stays, in both; what ended before the window does not."""
        p = self.start("--last", "20ms", argv=[CHURN, 2, 80000, "rest=300", "fork"])
        self.assertEqual(p.communicate() and p.returncode, 0)
        r = self.check_tail(self.file, 4)
        self.assertEqual(len(r["processes"]), 2)
        for process in r["processes"]:
            self.assertEqual(sites(process)["early"], 100)
        shell = 'i=0; while [ $i -lt 40 ]; do "$0" 1 100; i=$((i + 1)); done; exec "$0" 2 150000 rest=300'
        p = self.start("--last", "50ms", argv=["/bin/sh", "-c", shell, CHURN])
        self.assertEqual(p.communicate() and p.returncode, 0)
        r = self.check_tail(self.file, 2)
        self.assertLess(len(r["processes"]), 41)
        ended = [x for x in r["processes"] if x["command"][1:] != ["2", "150000", "rest=300"]]
        self.assertTrue(all(x["complete"] for x in ended), ended)


class Options(Case):
    def test_wrong(self):
        for option, text in (("--last", "0"), ("--last", "5 minutes"), ("--last", "100K"), ("--last", "x"),
                             ("--dump-when", "rss"), ("--dump-when", "rss>0%"), ("--dump-when", "rss>101%"),
                             ("--dump-when", "psi>1G"), ("--dump-when", "rss<1G"), ("--dump-when", "rss>1G,"),
                             ("--dump-when", "rss>")):
            p = run([MALLOW, "record", option, text, "-o", self.file, "--", "/bin/true"])
            self.assertEqual(p.rc, 2, (option, text, p.err))
            self.assertIn(option.encode(), p.err)
        self.assertFalse(os.path.exists(self.file))


if __name__ == "__main__":
    unittest.main()
