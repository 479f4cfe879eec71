"""Processes that make processes (tests/victims/process.c): all in one recording."""
import glob
import os
import shutil
import subprocess
import time

from mallowtest import LIBRARY, MALLOW, Case, run, victim

PEAK = dict(requested_bytes=1050000, peak_live_bytes=1000000, end_live_bytes=300000, end_live_blocks=350)


class Processes(Case):
    def images(self, doc, exe):
        return [p for p in doc["processes"] if os.path.basename(p["exe"]) == exe]

    def is_peak(self, p):
        """A whole run of `api peak`."""
        self.calls(p, malloc=1100, free=750)
        for k, v in PEAK.items():
            self.assertEqual(p[k], v, k)
        self.assertTrue(p["complete"])
        self.assertIn("peak", p["command"])

    def test_fork(self):
        doc = self.recorded([victim("process"), "fork"])
        parent, child = self.images(doc, "process")
        if parent["ppid"] == child["pid"]:
            parent, child = child, parent
        self.assertEqual(child["ppid"], parent["pid"])
        self.calls(parent, malloc=10, free=10)
        self.assertEqual(parent["end_live_bytes"], 0)
        self.assertEqual(parent["peak_live_bytes"], 10000)
        self.calls(child, malloc=3, free=5)
        self.assertEqual(child["unknown_frees"], 0)
        self.assertEqual(child["peak_live_bytes"], 10600)
        self.assertEqual(child["end_live_bytes"], 5600)
        self.assertEqual(child["end_live_blocks"], 8)
        self.assertTrue(parent["complete"] and child["complete"])
        self.assertEqual(doc["events"], 28)

    def test_fork_of_fork(self):
        doc = self.recorded([victim("process"), "forks", "12"])
        p = self.images(doc, "process")
        self.assertEqual(len(p), 12)
        self.assertEqual(len({x["pid"] for x in p}), 12)
        for x in p:
            self.calls(x, malloc=1)
        self.assertEqual(sorted(x["end_live_bytes"] for x in p), [111 * i for i in range(1, 13)])

    def test_many_children(self):
        doc = self.recorded([victim("process"), "children", "150"])
        p = self.images(doc, "process")
        self.assertEqual(len(p), 151)
        self.assertEqual(sum(x["calls"].get("malloc", 0) for x in p), 300)

    def test_children_at_once(self):
        doc = self.recorded([victim("process"), "brood", "80"])
        p = self.images(doc, "process")
        self.assertEqual(len(p), 81)
        self.assertEqual(sorted(x["calls"].get("malloc", 0) for x in p), [1] + [100] * 80)
        self.assertTrue(all(x["complete"] for x in p))

    def test_fork_exec(self):
        doc = self.recorded([victim("process"), "fork-exec"])
        (api,) = self.images(doc, "api")
        self.is_peak(api)
        before = [p for p in self.images(doc, "process") if p["pid"] == api["pid"]]
        self.assertEqual([p["calls"].get("malloc") for p in before], [2])
        parent = [p for p in self.images(doc, "process") if p["pid"] != api["pid"]]
        self.assertEqual([p["calls"].get("malloc") for p in parent], [4])

    def test_vfork(self):
        doc = self.recorded([victim("process"), "vfork"])
        for p in self.images(doc, "api"):
            self.is_peak(p)
        self.assertEqual(len(self.images(doc, "api")), 3)
        (parent,) = self.images(doc, "process")
        self.calls(parent, malloc=10)
        self.assertTrue(parent["complete"])

    def test_exec_that_fails(self):
        doc = self.recorded([victim("process"), "failed-exec"])
        (p,) = self.images(doc, "process")
        self.calls(p, malloc=11)
        self.assertTrue(p["complete"])

    def test_posix_spawn(self):
        doc = self.recorded([victim("process"), "spawn"])
        self.assertEqual(len(self.images(doc, "api")), 3)
        for p in self.images(doc, "api"):
            self.is_peak(p)
        (parent,) = self.images(doc, "process")
        self.assertEqual(parent["end_live_bytes"], 1000)

    def test_clone(self):
        doc = self.recorded([victim("process"), "clone"])
        p = self.images(doc, "process")
        self.assertEqual(sorted(x["calls"]["malloc"] for x in p), [7, 9, 10])
        self.assertEqual({x["calls"]["malloc"]: x["end_live_bytes"] for x in p},
                         {7: 400 + 490, 9: 400 + 810, 10: 1000})

    def test_clone_that_shares_memory(self):
        doc = self.recorded([victim("process"), "clone-vm"])
        p = self.images(doc, "process")
        sized = [(s["allocated_bytes"] // s["calls"], s["calls"]) for x in p for s in x["sites"] if s["calls"]]
        self.assertEqual(sum(n for size, n in sized if size == 70), 14)
        self.assertEqual(sum(n for size, n in sized if size == 100), 10)

    def test_all_execs(self):
        doc = self.recorded([victim("process"), "all-execs"])
        self.assertEqual(len(self.images(doc, "api")), 8)
        for p in self.images(doc, "api"):
            self.is_peak(p)

    def test_exec_chain(self):
        doc = self.recorded(["/bin/sh", "-c", f"exec env FOO=1 nice -n 0 {victim('api')} peak"])
        (api,) = self.images(doc, "api")
        self.is_peak(api)
        chain = [p for p in doc["processes"] if p["pid"] == api["pid"]]
        self.assertGreaterEqual(len(chain), 4)  # sh, env, nice, api: a program image each

    def test_cleared_environment(self):
        doc = self.recorded(["env", "-i", victim("api"), "peak"])
        (api,) = self.images(doc, "api")
        self.is_peak(api)
        doc = self.recorded([victim("process"), "env-cleared", victim("api"), "peak"])
        (api,) = self.images(doc, "api")
        self.is_peak(api)

    def test_environment_is_the_programs_own(self):
        """A program that prints its environment, or passes on a cleared one, finds what it would."""
        for argv in (["env", "-i", "/usr/bin/env"], ["/bin/sh", "-c", "env -i A=1 /bin/sh -c 'echo $A $B'"]):
            plain = run(argv)
            under = self.record(argv)
            mine = [l for l in under.out.splitlines() if not l.startswith((b"MALLOW_", b"LD_PRELOAD="))]
            self.assertEqual(mine, plain.out.splitlines())

    def test_no_follow(self):
        r = self.record([victim("process"), "fork-exec"], options=["--no-follow"])
        self.assertEqual(r.rc, 0)
        doc = self.report()
        self.assertEqual(len(doc["processes"]), 1)
        self.calls(doc["processes"][0], malloc=4)

    def daemon_at_its_end(self, done):
        """The images that made all its calls; there is one when it is out."""
        end = time.monotonic() + 600
        while not os.path.exists(done):
            self.assertLess(time.monotonic(), end, "the daemon never got to its end")
            time.sleep(0.02)
        while True:  # it may still be on its way out
            found = self.images(self.report(), "process")
            daemon = [p for p in found if p["calls"].get("malloc") == 30050]
            if daemon:
                return daemon
            self.assertLess(time.monotonic(), end, [(p["pid"], p["calls"]) for p in found])
            time.sleep(0.2)

    def daemon(self, how):
        done = os.path.join(self.folder, "done")
        r = self.record([victim("process"), "daemon", how, done])
        self.assertEqual((r.rc, r.out), (0, b""))
        daemon = self.daemon_at_its_end(done)
        self.assertEqual(len(daemon), 1)
        self.assertEqual(daemon[0]["calls"]["free"], 30000)
        self.assertEqual(daemon[0]["end_live_bytes"], 400 + 50 * 123)

    def test_daemon_that_closes_in_a_loop(self):
        self.daemon("loop")

    def test_daemon_that_closes_a_range(self):
        self.daemon("range")

    def test_daemon_that_closes_from(self):
        self.daemon("closefrom")

    def test_daemon_that_closes_by_system_call(self):
        self.daemon("raw")

    def test_daemon_without_parent(self):
        """The library by itself, without `mallow record`."""
        done = os.path.join(self.folder, "done")
        r = run([victim("process"), "daemon", "loop", done],
                env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.file})
        self.assertEqual((r.rc, r.out), (0, b""))
        self.daemon_at_its_end(done)

    def test_untouched(self):
        for argv in (["fork"], ["forks", "5"], ["children", "10"], ["brood", "20"], ["fork-exec"],
                     ["vfork"], ["failed-exec"], ["spawn"], ["clone"], ["clone-vm"], ["all-execs"]):
            with self.subTest(argv=argv):
                self.untouched([victim("process"), *argv])


class ByHand(Case):
    """LD_PRELOAD and MALLOW_OUTPUT, without the command beside it."""

    def test_preload_alone(self):
        r = run([victim("api"), "peak"], env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.file})
        self.assertEqual((r.rc, r.out, r.err), (0, b"", b""))
        p = self.process(self.report(), "api")
        self.calls(p, malloc=1100, free=750)
        self.assertEqual(p["end_live_bytes"], 300000)

    def test_percent_p(self):
        r = run([victim("api"), "peak"],
                env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": os.path.join(self.folder, "x-%p.mlw")})
        self.assertEqual((r.rc, r.out, r.err), (0, b"", b""))
        (name,) = [n for n in os.listdir(self.folder) if n.startswith("x-")]
        self.assertRegex(name, r"^x-\d+\.mlw$")
        self.calls(self.process(self.report(os.path.join(self.folder, name)), "api"), malloc=1100, free=750)

    def test_unwritable_output_is_said_once(self):
        r = run([victim("api"), "peak"],
                env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": "/proc/nonexistent/x.mlw"})
        self.assertEqual((r.rc, r.out), (0, b""))
        self.assertEqual(len(r.err.splitlines()), 1, r.err)
        self.assertTrue(r.err.startswith(b"mallow"), r.err)
        self.assertIn(b"/proc/nonexistent/x.mlw", r.err)

    def by_hand(self, *argv, **env):
        return run(argv, env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.file, **env})

    def test_a_file_that_is_something_else_is_left_alone(self):
        """A sealed recording, or anything else: rows behind it could be read by nobody."""
        self.record([victim("api"), "peak"])
        for text in (None, b"no recording\n"):
            if text:
                with open(self.file, "wb") as f:
                    f.write(text)
            with open(self.file, "rb") as f:
                before = f.read()
            r = self.by_hand("sh", "-c", "echo $$")
            self.assertRegex(r.err, rb"^mallow: .*already.*\n$")
            self.assertEqual((r.rc, glob.glob(f"/dev/shm/mallow-{int(r.out)}-*")), (0, []))
            with open(self.file, "rb") as f:
                self.assertEqual(f.read(), before)

    def slow_reader(self, first):
        """The environment of a mallow that has indexed the file and asks whether the program lives, by its call
        number `first` of kill, only once the file `go` is there."""
        if not shutil.which("cc"):
            self.skipTest("SKIPPED, LOUDLY: no compiler here")
        source, library = os.path.join(self.folder, "slow.c"), os.path.join(self.folder, "slow.so")
        with open(source, "w", encoding="ascii") as f:
            f.write("#include <fcntl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
                    "int kill(int pid, int number)\n{\n"
                    f"    static int calls;\n    if (number == 0 && ++calls == {first})\n"
                    f'        for (close(open("{self.folder}/asked", O_CREAT, 0600)); access("{self.folder}/go", F_OK);)\n'
                    "            usleep(10000);\n"
                    "    return (int)syscall(SYS_kill, pid, number);\n}\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, source], check=True)
        return dict(os.environ, LD_PRELOAD=library)

    def ends_while_it_is_read(self, argv, first=1, **env):
        reader_env = self.slow_reader(first)
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ, **env)) as p:
            p.stdin.write(b"x")
            p.stdin.flush()
            self.assertEqual(p.stdout.read(1), b"x")
            if "record" in argv:
                with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                    self.assertEqual(run([MALLOW, "control", f.read().strip(), "sync"]).rc, 0)
            with subprocess.Popen([MALLOW, "report", "--json", self.file], stdout=subprocess.PIPE,
                                  env=reader_env) as reader:
                until = time.monotonic() + 600
                while not os.path.exists(os.path.join(self.folder, "asked")):
                    self.assertLess(time.monotonic(), until, "the reader never asked")
                    time.sleep(0.02)
                p.communicate(b"xx", timeout=600)
                with open(os.path.join(self.folder, "go"), "wb"):
                    pass
                reader.communicate(timeout=600)
                self.assertEqual(reader.returncode, 0)
        process = self.process(self.report(), "control")
        self.assertEqual((process["calls"]["malloc"], process["complete"]), (30, True))

    def test_a_program_that_ends_while_it_is_read(self):
        """What came after the reader's look is not lost: the reader does not put what it saw in the file's place."""
        # asked for the first time for what the dead have left behind
        self.ends_while_it_is_read([victim("control"), "wait"], first=2, LD_PRELOAD=LIBRARY,
                                   MALLOW_OUTPUT=self.file)

    def test_a_recording_that_ends_while_it_is_read(self):
        self.ends_while_it_is_read([MALLOW, "record", "-q", "-o", self.file, "--", victim("control"), "wait"])

    def test_the_variables_of_the_options(self):
        api = [victim("api"), "peak"]
        for stacks in ("full", "caller", "none"):
            self.assertEqual(self.by_hand(*api, MALLOW_STACKS=stacks).err, b"")
            self.assertEqual(self.process(self.report(), "api")["stacks_mode"], stacks)
            os.unlink(self.file)
        r = self.by_hand(*api, MALLOW_STACKS="all")
        self.assertRegex(r.err, rb"^mallow: MALLOW_STACKS .*full, caller.*\n$")
        self.assertEqual(self.process(self.report(), "api")["stacks_mode"], "full")
        os.unlink(self.file)
        self.by_hand(*api, MALLOW_PAUSED="1")
        self.assertEqual(self.process(self.report(), "api")["events"], 0)
        os.unlink(self.file)
        self.by_hand(*api, MALLOW_ENVIRONMENT="1", SECRET="abc")
        self.assertIn("SECRET=abc", self.process(self.report(), "api")["environment"])

    def test_no_follow(self):
        """Children that fork, exec and spawn are left out; an exec of the process itself is not."""
        api = victim("api") + " peak"
        for script, commands in ((f"{api}; ({api}); echo $({api})", ["sh"]), (f"exec {api}", ["api", "sh"])):
            r = self.by_hand("sh", "-c", script, MALLOW_NO_FOLLOW="1")
            self.assertEqual((r.rc, r.err), (0, b""))
            self.assertEqual(sorted(os.path.basename(p["command"][0]) for p in self.report()["processes"]),
                             commands)
            os.unlink(self.file)
