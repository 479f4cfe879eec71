"""`mallow record --last` and `--dump-when`, from the outside: however a program ends, the file is an ordinary
recording of the last window, with all that is live; and the file stays as small as its window."""
import json
import os
import select
import signal
import subprocess

from mallowtest import LONG, MALLOW, Test, has_ended, program, run, wait_until
from mallowtest.memorygroup import MemoryGroup

CHURN = program("flight/churn")


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


class Case(Test):
    def setUp(self):
        self.file = os.path.join(self.folder, "recording.mlw")

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
        for stream in filter(None, (p.stdin, p.stdout, p.stderr)):
            stream.close()

    def child_of(self, p):
        """The process that the recorder started, once it has said that it is ready."""
        self.assertEqual(p.stdout.readline(), b"ready\n")
        with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
            for pid in f.read().split():
                if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(CHURN):
                    return int(pid)
        self.fail("there is no program")

    def disk(self):
        return os.stat(self.file).st_blocks * 512

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
        whole = list(range(5000, 5200))
        for sizes in last.values():
            # the living of before the window, then all of the window, whenever that began
            self.assertIn(sizes, [whole[:k:2] + whole[k:] for k in range(201)])
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

    def killed(self, *options, churn, before=lambda p: None):
        """The process in the recording, of churn whose recorder is killed when it is ready for the last time."""
        p = self.start(*options, argv=[CHURN, *churn])
        program = self.child_of(p)
        before(p)
        p.kill()
        p.wait()
        p.stdin.close()
        wait_until(lambda: has_ended(program), "the program ends")
        (process,) = report(self.file)["processes"]
        self.assertEqual(sites(process)["early"], 100)
        self.assertEqual(process["unknown_frees"], 0)
        return process

    def test_killed_recorder(self):
        """Without its parent the program goes on, and the next reader finds the window."""
        self.killed("--last", "100ms", churn=[2, 60000, "rest=200", "end=wait"])

    def test_killed_recorder_that_slept(self):
        """What threads that have ended left in their buffers is in memory that goes with the program."""
        def work_unseen(p):
            p.send_signal(signal.SIGSTOP)
            p.stdin.write(b"x")
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), b"ready\n")
        process = self.killed("--last", "1h", churn=[2, 100, "end=wait"], before=work_unseen)
        self.assertEqual(sites(process)["late"], 400)


class Bounds(Case):
    """The file stays small."""

    def check(self, last, bound, rounds, times, least):
        """Each time the program has written enough, the file gets below the bound."""
        p = self.start("--last", last, argv=[CHURN, 2, rounds, "end=wait"])
        self.assertEqual(p.stdout.readline(), b"ready\n")
        for _ in range(times):
            p.stdin.write(b"x")
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), b"ready\n")
            wait_until(lambda: self.disk() < bound, f"the file is smaller than {bound}")
        self.assertGreater(os.stat(self.file).st_size, least)
        p.stdin.close()
        self.assertEqual(p.wait(), 0, p.stderr.read())
        r = report(self.file)
        self.assertEqual(r["lost_events"], 0)
        (process,) = r["processes"]
        live = sites(process)
        self.assertEqual(live["early"], 100)
        self.assertEqual(live["keep_one"], 2 * -(-rounds // 4096) * (times + 1))
        self.assertEqual(live["late"], 200 * (times + 1))
        self.assertEqual(process["unknown_frees"], 0)
        return r

    def test_duration(self):
        self.check("20ms", 2 << 20, 40000, 400 if LONG else 8, 16 << 20)

    def test_size(self):
        r = self.check("16M", 10 << 20, 20000, 400 if LONG else 16, 24 << 20)
        self.assertGreater(r["events"], 20000)

    def test_processes(self):
        """What a fork inherited stays, in both; what ended before the window does not."""
        p = self.start("--last", "20ms", argv=[CHURN, 2, 80000, "rest=300", "fork"])
        self.assertEqual(p.communicate() and p.returncode, 0)
        r = report(self.file)
        self.assertTrue(r["processes"])
        for process in r["processes"]:
            self.assertEqual(sites(process)["early"], 100)
            self.assertEqual(process["unknown_frees"], 0)
        shell = 'i=0; while [ $i -lt 40 ]; do "$0" 1 100; i=$((i + 1)); done; exec "$0" 2 150000 rest=300'
        p = self.start("--last", "50ms", argv=["/bin/sh", "-c", shell, CHURN])
        self.assertEqual(p.communicate() and p.returncode, 0)
        r = report(self.file)
        self.assertLess(len(r["processes"]), 42)
        ended = [x for x in r["processes"] if x["command"][1:] != ["2", "150000", "rest=300"]]
        self.assertTrue(all(x["complete"] for x in ended), ended)


class Starved(Case):
    """Nobody folds, and the program goes on as fast as it can. 24 rounds write three times the bound."""
    BOUND, ROUNDS, TIMES = 16 << 20, 20000, 24

    def begin(self, last):
        p = self.start("--last", last, argv=[CHURN, 2, self.ROUNDS, "end=wait"])
        program = self.child_of(p)
        self.rounds = 1
        return p, program

    def work(self, p):
        """One more round. The program does not wait for anybody, and the file keeps its bound."""
        p.stdin.write(b"x")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.rounds += 1
        self.assertLess(self.disk(), self.BOUND)

    def lost(self, program):
        """Of a dump, in which all that is live has its origin."""
        out = os.path.join(self.folder, f"dump.{self.rounds}.mlw")
        done = run([MALLOW, "control", program, "dump", out])
        self.assertEqual((done.rc, done.err), (0, b""))
        return self.check_live(out)["lost_events"]

    def check_live(self, path):
        r = report(path)
        (process,) = r["processes"]
        live = sites(process)
        self.assertEqual((live["early"], live["late"], live["keep_one"], live.get("work", 0), process["unknown_frees"]),
                         (100, 200 * self.rounds, 2 * -(-self.ROUNDS // 4096) * self.rounds, 0, 0))
        return r

    def recovers(self, p, program):
        """Once somebody folds again, nothing more is lost."""
        wait_until(lambda: self.disk() < self.BOUND * 5 // 8, "the file is folded")
        lost = self.lost(program)
        self.assertGreater(lost, 1000000)
        self.work(p)
        self.assertEqual(self.lost(program), lost)
        p.stdin.close()
        self.assertEqual(p.wait(), 0)
        r = self.check_live(self.file)
        self.assertEqual(r["lost_events"], lost)
        (process,) = r["processes"]
        self.assertFalse(process["complete"])
        said = p.stderr.read()
        self.assertIn(b"faster than old calls can be folded", said)
        self.assertIn(b"calls could not be recorded", said)
        text = run([MALLOW, "report", self.file]).out
        self.assertIn(b"left out to keep the file within its bound", text)

    def test_recorder_sleeps(self):
        p, program = self.begin("16M")
        p.send_signal(signal.SIGSTOP)
        for _ in range(self.TIMES):
            self.work(p)
        p.send_signal(signal.SIGCONT)
        self.recovers(p, program)

    def folding(self, p, program):
        """The process that folds."""
        with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
            return next((pid for pid in map(int, f.read().split()) if pid != program), None)

    def stop_folder(self, p, program):
        pid = self.folding(p, program)
        if pid:
            os.kill(pid, signal.SIGSTOP)
        return pid

    def stop_between(self, p, program):
        """The recorder, while nothing is folded: what a fold adds is released by the recorder, later."""
        while True:
            p.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, p.pid, os.WSTOPPED)
            if not self.folding(p, program):
                return
            p.send_signal(signal.SIGCONT)
            wait_until(lambda: not self.folding(p, program), "the fold has ended")

    def test_folder_sleeps(self):
        """Also where the window is a duration."""
        p, program = self.begin("1h,16M")
        folder = None
        while not folder:
            p.stdin.write(b"x")
            p.stdin.flush()
            self.rounds += 1
            while not folder and not select.select([p.stdout], [], [], 0)[0]:
                folder = self.stop_folder(p, program)
            self.assertEqual(p.stdout.readline(), b"ready\n")
        for _ in range(self.TIMES):
            self.work(p)
        os.kill(folder, signal.SIGCONT)
        self.recovers(p, program)

    def test_least(self):
        """A bound that is too small even for what is live at last: calls of all kinds are lost, and the file
        keeps it, to a buffer of each thread."""
        self.BOUND = (1 << 20) + 3 * (64 << 10)
        p, program = self.begin("1M")
        self.stop_between(p, program)
        for _ in range(self.TIMES):
            self.work(p)
        p.send_signal(signal.SIGCONT)
        p.stdin.close()
        self.assertEqual(p.wait(), 0)
        r = report(self.file)
        self.assertGreater(r["lost_events"], 1000000)
        self.assertEqual(sites(r["processes"][0])["early"], 100)


class Dumps(Case):
    """Recordings that are written while the program goes on."""

    def test_control(self):
        """Of the program, of the recorder, again and again, and of a recording that keeps everything."""
        for options in (("--last", "30ms"), ()):
            p = self.start(*options, argv=[CHURN, 2, 20000, "rest=200", "end=wait"])
            program = self.child_of(p)
            for n, pid in enumerate((program, p.pid, program)):
                out = os.path.join(self.folder, f"dump.{n}.mlw")
                done = run([MALLOW, "control", pid, "dump", out])
                self.assertEqual((done.rc, done.err), (0, b""))
                r = report(out)
                (process,) = r["processes"]
                live = sites(process)
                self.assertEqual((live["early"], live["late"], process["unknown_frees"]), (100, 200 * (n + 1), 0))
                self.assertEqual(live["keep_one"], 10 * (n + 1))
                self.assertFalse(process["complete"])
                if n < 2:
                    p.stdin.write(b"x")
                    p.stdin.flush()
                    self.assertEqual(p.stdout.readline(), b"ready\n")
            p.stdin.close()
            self.assertEqual(p.wait(), 0)
            (process,) = report(self.file)["processes"]
            self.assertTrue(process["complete"])
            self.assertEqual(sites(process)["early"], 100)

    def test_a_process_that_runs(self):
        """-p: what is live has its origin since then; what was there before stays unknown."""
        program = subprocess.Popen([CHURN, "2", "20000", "rest=200", "end=wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, program)
        self.assertEqual(program.stdout.readline(), b"ready\n")
        p = subprocess.Popen([MALLOW, "record", "-p", str(program.pid), "--last", "30ms", "-o", self.file],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, p)
        said = p.stderr.readline()
        if b"attached" not in said:
            self.skipTest(f"no process can be attached to here: {said}")
        for n in (1, 2, 3):
            program.stdin.write(b"x")
            program.stdin.flush()
            self.assertEqual(program.stdout.readline(), b"ready\n")
            out = os.path.join(self.folder, f"attached.{n}.mlw")
            done = run([MALLOW, "control", program.pid, "dump", out])
            self.assertEqual((done.rc, done.err), (0, b""))
            (process,) = report(out)["processes"]
            live = sites(process)
            self.assertEqual((live["late"], live["keep_one"], live.get("early"), process["unknown_frees"]),
                             (200 * n, 10 * n, None, 0))
        p.send_signal(signal.SIGINT)
        err = p.communicate()[1]
        self.assertEqual((p.returncode, program.poll()), (0, None), err)
        (process,) = report(self.file)["processes"]
        self.assertEqual((sites(process)["late"], sites(process)["keep_one"]), (600, 30))
        program.stdin.close()
        self.assertEqual(program.wait(), 0)

    def test_refused(self):
        p = self.start("--last", "30ms", argv=[CHURN, 1, 1000, "end=wait"])
        program = self.child_of(p)
        link = os.path.join(self.folder, "link.mlw")
        os.symlink(self.file, link)
        for path, what in ((self.file, b"is being recorded to"), (link, b"is being recorded to"),
                           ("/nonexistent/x.mlw", b"No such file"), (self.folder, b"")):
            done = run([MALLOW, "control", program, "dump", path])
            self.assertEqual(done.rc, 1, (path, done.err))
            self.assertIn(what, done.err)
        for words in (("dump",), ("dump", "-"), ("dump", "a", "b")):
            self.assertEqual(run([MALLOW, "control", program, *words]).rc, 2)
        p.stdin.close()
        self.assertEqual(p.wait(), 0)
        self.assertEqual(sites(report(self.file)["processes"][0])["early"], 100)

    def check_threshold(self, expression, group=None):
        argv = [CHURN, "2", "2000", "end=grow", "pause=" + os.path.join(self.folder, "recording.1.mlw")]
        p = self.start("--last", "200ms", "--dump-when", expression, argv=group.command(*argv) if group else argv)
        out = p.communicate()
        said = [l for l in out[1].splitlines() if b"rss>" in l]
        wrote = [l for l in out[1].splitlines() if b"wrote " in l]
        self.assertEqual((len(said), len(wrote)), (1, 1), out)
        first = os.path.join(self.folder, "recording.1.mlw")
        self.assertEqual(sorted(os.listdir(self.folder)), ["recording.1.mlw", "recording.mlw"])
        process = max(report(first)["processes"], key=lambda x: x["end_live_bytes"])
        end = max(report(self.file)["processes"], key=lambda x: x["end_live_bytes"])
        self.assertEqual(sites(process)["early"], 100)
        self.assertGreater(sites(process)["late"], 200)
        self.assertLessEqual(sites(process)["late"], sites(end)["late"])
        return p.returncode

    def test_resident(self):
        self.assertEqual(self.check_threshold("rss>40M"), 0)

    def test_limit(self):
        """Before the kernel kills it at the limit of its control group: then, and after the kill."""
        try:
            group = MemoryGroup(96 << 20)
        except OSError as why:
            self.skipTest(str(why))
        self.addCleanup(group.remove)
        self.assertEqual(self.check_threshold("rss>50%", group), 128 + signal.SIGKILL)


class Options(Case):
    def test_wrong(self):
        for option, text in (("--last", "0"), ("--last", "5 minutes"), ("--last", "100K"), ("--last", "x"),
                             ("--last", "5m,1h"), ("--last", "2G,1M"), ("--last", "5m,"), ("--last", ",2G"), ("--last", "5m,2G,1h"),
                             ("--dump-when", "rss"), ("--dump-when", "rss>0%"), ("--dump-when", "rss>101%"),
                             ("--dump-when", "psi>1G"), ("--dump-when", "rss<1G"), ("--dump-when", "rss>1G,"),
                             ("--dump-when", "rss>")):
            p = run([MALLOW, "record", option, text, "-o", self.file, "--", "/bin/true"])
            self.assertEqual(p.rc, 2, (option, text, p.err))
            self.assertIn(option.encode(), p.err)
        self.assertFalse(os.path.exists(self.file))
