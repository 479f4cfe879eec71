"""Settings: from the environment, and changed in the segment while the program runs; limits of the
machine; memory; whole programs without false alarms; the probes."""
import glob
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest

from mallowtest import ALLOCATORS, WATCH_LIBRARY, run, victim
from mallowtest.segment import SETTINGS, Segment
from watchtest import WatchCase

PYTHON = sys.executable
# Allocates 100 times 1000 bytes for each line read, and answers.
PHASES = ("import ctypes, sys\nl = ctypes.CDLL(None)\nl.malloc.restype = ctypes.c_void_p\n"
          "l.free.argtypes = [ctypes.c_void_p]\nprint('ready', flush=True)\n"
          "for line in sys.stdin:\n"
          "    p = [l.malloc(1000) for _ in range(int(line))]\n"
          "    print('done', flush=True)\n")


class Settings(WatchCase):
    def refused(self, name, value):
        r = self.watched([victim("hello"), "there"], settings={name: value})
        self.assertEqual((r.rc, r.own_err()), (33, b""))
        self.assertEqual(r.err, f"mallow: MALLOW_WATCH_{name.upper()} is not understood: the default is used\n"
                         .encode())

    def test_bad_values_are_said_once_and_the_default_is_used(self):
        for name, value in (("period", "much"), ("period", ""), ("period", "1Q"), ("guard", "2"), ("guard", "101%"),
                            ("guard", "x"), ("guard_side", "up"), ("on_error", "explode"), ("memory", "-1")):
            with self.subTest(name=name, value=value):
                self.refused(name, value)

    def test_values(self):
        r = self.watched([victim("hello"), "there"],
                         settings={"period": "32m", "guard": "12.5%", "guard_side": "both", "on_error": "die"})
        self.assertEqual((r.rc, r.err), (33, b""))
        (s,) = self.segments
        self.assertEqual((s.period, s.guard_share, s.guard_side, s.on_error, s.enabled), (32 << 20, 8192, 2, 1, 1))
        self.assertEqual(s.state, "exited")
        self.assertEqual(s.command, [victim("hello"), "there"])

    def test_off_and_on_and_another_period_while_it_runs(self):
        p = subprocess.Popen([PYTHON, "-c", PHASES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, **self.env(period="8K", guard="off", seed=1, memory="64M")))
        self.addCleanup(p.stdout.close)
        self.assertEqual(p.stdout.readline(), "ready\n")
        (path,) = glob.glob(os.path.join(self.session, f"{p.pid}-*"))

        def allocate(n):
            before = Segment(path).counters["samples"]
            p.stdin.write(f"{n}\n")
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), "done\n")
            return Segment(path).counters["samples"] - before

        def settings(enabled, period):
            with open(path, "r+b") as f, mmap.mmap(f.fileno(), 4096) as m:
                struct.pack_into("<I", m, SETTINGS + 4, enabled)
                struct.pack_into("<Q", m, SETTINGS + 8, period)
                epoch = struct.unpack_from("<I", m, SETTINGS)[0]
                struct.pack_into("<I", m, SETTINGS, epoch + 1)
        n = 20000  # 20 MB: 2,440 samples expected at 8K, 31 at 640K
        self.assertGreater(allocate(n), 1800)
        settings(0, 8192)
        self.assertEqual(allocate(n), 0)
        settings(1, 640 << 10)
        self.assertLess(allocate(n), 200)
        settings(1, 8192)
        allocate(2000)  # a thread looks after a megabyte at the latest
        self.assertGreater(allocate(n), 1800)
        settings(1, 0)  # taken as the nearest that makes sense
        allocate(2000)
        p.stdin.close()
        self.assertEqual(p.wait(600), 0)
        s = Segment(path)
        self.assertEqual(s.state, "exited")
        self.sound(s)

    def test_a_refused_call_does_not_end_sampling(self):
        """Each takes its size off what the thread may allocate until the next look, and must give it back."""
        script = ("import ctypes\nl = ctypes.CDLL(None)\np = ctypes.c_void_p()\n"
                  "for i in range(2000):\n    l.posix_memalign(ctypes.byref(p), 3, 1000)\n"
                  "for i in range(2000):\n    l.malloc(1000)\n")
        r = self.watched([PYTHON, "-c", script], settings={"period": 1000, "guard": "off", "memory": "64M"})
        self.assertEqual(r.rc, 0, r.err)
        (s,) = self.segments
        # 1 - 1 / e of them are sampled
        self.assertGreater(len([x for x in s.samples() if x["size"] == 1000]), 1000)

    def test_estimates_of_a_real_program(self):
        """20 MB that stay: the estimate is near them."""
        p = subprocess.Popen([PYTHON, "-c", PHASES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, **self.env(period="16K")))
        p.communicate("20000\n", timeout=600)
        (s,) = self.take()
        weight = sum(x["weight"] for x in s.samples() if x["size"] == 1000)
        self.assertLess(abs(weight - 20e6), 5 * (20e6 * 16384) ** 0.5)

    def test_more_live_samples_than_there_is_room_for(self):
        """60,000 samples are due and 383 fit: the period rises, and the estimate holds. Few are dropped: an address whose bucket of
        held.c happens to be full."""
        p = subprocess.Popen([PYTHON, "-c", PHASES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, **self.env(period=512, memory="256K", guard="off")))
        p.communicate("30000\n", timeout=600)
        (s,) = self.take()
        self.assertGreater(s.period_now, s.period)
        self.assertLess(s.counters["dropped_full"], 60)
        self.assertEqual(s.counters["dropped_memory"], 0)
        mine = [x for x in s.samples() if x["size"] == 1000]
        spread = sum(x["weight"] * (x["weight"] - x["size"]) for x in mine) ** 0.5
        total = sum(x["weight"] for x in mine)
        self.assertLess(abs(total - 30e6), 5 * spread, (total, spread, len(mine)))


class Limits(WatchCase):
    def limited(self, what, value, argv, **settings):
        plain = run(argv, preexec_fn=lambda: resource.setrlimit(what, (value, value)))
        r = self.watched(argv, settings=dict({"period": "16K"}, **settings), broken=True,
                         preexec_fn=lambda: resource.setrlimit(what, (value, value)))
        self.assertEqual((r.rc, r.out, r.own_err()), (plain.rc, plain.out, plain.err), r.err)
        return r

    def test_address_space(self):
        for megabytes in (3000, 600, 200, 60):
            for argv in ([victim("api"), "counts"], [victim("threads"), "hammer", "2", "2000"]):
                self.limited(resource.RLIMIT_AS, megabytes << 20, argv)

    def test_address_space_limited_by_the_program_itself(self):
        argv = ["/bin/sh", "-c", "ulimit -v 400000; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); x=\"$x$i\"; done; "
                "exec \"$@\"", "sh", victim("api"), "counts"]
        plain = run(argv)
        r = self.watched(argv, settings={"period": "16K"})
        self.assertEqual((r.rc, r.out, r.err), (plain.rc, plain.out, plain.err))
        script = ("import resource, sys\nx = [b'x' * 50000 for _ in range(300)]\n"
                  "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
                  "y = [bytes(50000) for _ in range(3000)]\ndel x, y\nz = [bytes(200000) for _ in range(300)]\n"
                  "print(sum(map(len, z)))")
        for guard in "all", "off":
            r = self.watched([PYTHON, "-c", script], settings={"period": "16K", "guard": guard},
                             env={"PYTHONMALLOC": "malloc"})
            self.assertEqual((r.rc, r.out, r.err), (0, b"60000000\n", b""))
            self.assertEqual(bool(self.segments[0].trouble & 64), guard == "all")

    def test_file_size(self):
        for bytes_ in (0, 4096, 1 << 20):
            self.limited(resource.RLIMIT_FSIZE, bytes_, [victim("api"), "counts"])

    def test_no_descriptors(self):
        self.limited(resource.RLIMIT_NOFILE, 4, [victim("api"), "counts"])

    def test_session_that_is_not_there(self):
        """Then the segment is elsewhere; the program goes on."""
        for where in ("/nonexistent/x", "relative", self.folder + "/" + "x" * 600, "/dev/null"):
            r = run([victim("misuse"), "none"], env={"LD_PRELOAD": WATCH_LIBRARY, "MALLOW_WATCH_SESSION": where})
            self.assertEqual((r.rc, r.out, r.err), (0, b"survived\n", b""))

    @unittest.skipIf(os.geteuid(), "SKIPPED, LOUDLY: mounting a small /dev/shm needs root")
    def test_full_shared_memory(self):
        inner = f"mount -t tmpfs -o size=40K none {self.session} && exec \"$@\""
        plain = run(["unshare", "-m", "true"])
        if plain.rc:
            self.skipTest("SKIPPED, LOUDLY: no mount namespaces here")
        for size in ("4K", "20K", "40K", "200K"):
            inner = f"mount -t tmpfs -o size={size} none {self.session} && exec \"$@\""
            r = self.watched(["env", "-u", "LD_PRELOAD", "unshare", "-m", "/bin/sh", "-c", inner, "sh", "env",
                              f"LD_PRELOAD={WATCH_LIBRARY}", victim("api"), "counts"], settings={"period": "64"})
            self.assertEqual((r.rc, r.out, r.own_err()), (0, run([victim("api"), "counts"]).out, b""), r.err)

    def test_memory_is_bounded(self):
        """Full tables and the most different stacks: the memory that the program
        alone has grows by less than the 4 MB that are allowed."""
        script = ("import ctypes, resource\nl = ctypes.CDLL(None)\nl.malloc.restype = ctypes.c_void_p\n"
                  "p = [l.malloc(64) for _ in range(30000)]\nx = [str(i) * 3 for i in range(30000)]\n"
                  "f = open('/proc/self/smaps_rollup').read()\nprint(f.split('Private_Dirty:')[1].split()[0])")

        def resident(*how):
            return sorted(int(self.run_one(script, *how)) for _ in range(3))[1]
        plain = resident(None)
        grown = resident({"period": 100, "guard": "off"}) - plain
        self.assertLess(grown, 4096, "KiB")
        grown = resident({}) - plain
        self.assertLess(grown, 2048, "KiB at the default period")

    def run_one(self, script, settings):
        argv, env = [PYTHON, "-c", script], {"PYTHONMALLOC": "malloc"}
        r = run(argv, env=env) if settings is None else self.watched(argv, env=env, settings=settings)
        self.assertEqual(r.rc, 0, r.err)
        return r.out


def needs(name):
    if not shutil.which(name):
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {name} is not installed")
    return shutil.which(name)


class WholePrograms(WatchCase):
    """With every block sampled and guarded where that can be: no false alarm, nothing different."""

    def quiet(self, argv, env=None, **kw):
        for settings in ({"period": 1, "guard": "all", "memory": "16M"}, {"period": "4K", "guard": "all"}, {}):
            plain = run(argv, env=env, **kw)
            r = self.watched(argv, env=env, settings=settings, **kw)
            self.assertEqual((r.rc, r.out, r.err), (plain.rc, plain.out, plain.err), (argv, settings))
            for s in self.segments:
                self.assertEqual(s.errors(), [])

    def test_python(self):
        self.quiet([PYTHON, "-c", "import json, hashlib, re, collections\n"
                    "w = collections.Counter(re.findall('[a-z]+', 'the quick brown fox ' * 500))\n"
                    "print(w.most_common(2), hashlib.sha256(json.dumps(dict(w)).encode()).hexdigest())\n"
                    "t = [[i, [str(i)] * 5] for i in range(3000)]"],
                   env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"})

    def test_perl(self):
        self.quiet([needs("perl"), "-e", "my %h; $h{$_ % 97} .= 'x' x 10 for 1..20000; "
                    "print scalar(keys %h), qq(\\n); fork or exec 'echo', 'child'; wait; exit 3"])

    def test_shell(self):
        self.quiet(["/bin/sh", "-c", "seq 1 3000 | sort -rn | head -3; ls /nonexistent; exit 7"])

    def test_git(self):
        git = needs("git")
        env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": self.folder,
               "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
               "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
               "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z", "GIT_PAGER": "cat"}
        repo = os.path.join(self.folder, "repo")
        self.assertEqual(run([git, "init", "-q", repo], env=env).rc, 0)
        for i in range(4):
            with open(os.path.join(repo, "file"), "a") as f:
                f.write(f"line {i}\n" * 50)
            run([git, "add", "."], env=env, cwd=repo)
            self.assertEqual(run([git, "commit", "-qm", f"change {i}"], env=env, cwd=repo).rc, 0)
        self.quiet([git, "log", "--stat", "-p"], env=env, cwd=repo)
        self.quiet([git, "grep", "line 3"], env=env, cwd=repo)

    def test_compiler(self):
        gcc = needs("gcc")
        c = os.path.join(self.folder, "x.c")
        with open(c, "w") as f:
            f.write("#include <stdio.h>\n" + "".join(
                f"int g{i}(int x) {{ for (int k = 0; k < x; k++) x ^= k * {i}; return x + printf(\"%d\", x); }}\n"
                for i in range(60)))
        self.quiet([gcc, "-O2", "-S", "-o", "-", c])
        self.quiet([gcc, "-c", "-o", os.path.join(self.folder, "x.o"), c])

    def test_other_allocators_behind(self):
        found = [p for name in ALLOCATORS.values() for p in glob.glob(f"/usr/lib/*/{name}")]
        if not found:
            self.skipTest("SKIPPED, LOUDLY: no other allocator is installed")
        for path in found:
            for argv in ([victim("cxx"), "operators"], [victim("threads"), "hammer", "2", "20000"]):
                with self.subTest(allocator=path, argv=argv):
                    plain = run(argv, env={"LD_PRELOAD": path})
                    for settings in ({"period": 1, "guard": "all"}, {"period": 1, "guard": "off"}, {}):
                        r = self.watched(argv, settings=settings, library=f"{WATCH_LIBRARY} {path}")
                        self.assertEqual((r.rc, r.out, r.err), (plain.rc, plain.out, plain.err), settings)


class Probes(WatchCase):
    PROBES = {("mallow", "sample"): 4, ("mallow", "free"): 3, ("mallow", "realloc"): 4, ("mallow", "error"): 5,
              ("otel_memory", "alloc"): 3, ("otel_memory", "free"): 1}

    def test_notes(self):
        out = subprocess.run([needs("readelf"), "-n", WATCH_LIBRARY], check=True, capture_output=True, text=True).stdout
        found, provider, name, semaphores = {}, None, None, set()
        for line in out.splitlines():
            key, _, value = line.strip().partition(": ")
            if key == "Provider":
                provider = value
            elif key == "Name":
                name = value
            elif key == "Location":
                semaphore = int(value.rpartition(" ")[2], 16)
                self.assertNotEqual(semaphore, 0, "it has a semaphore")
                semaphores.add(semaphore)
            elif key == "Arguments":
                found[provider, name] = len(value.split())
        self.assertEqual(found, self.PROBES)
        self.assertEqual(len(semaphores), len(found))

    def test_bpftrace_reads_both_contracts(self):
        """System-wide, on a copy of the library that nobody else has."""
        tool = needs("bpftrace")
        if os.geteuid():
            self.skipTest("SKIPPED, LOUDLY: bpftrace needs root")
        copy = os.path.join(self.folder, "libmallow-watch.so")
        shutil.copy(WATCH_LIBRARY, copy)
        script = "".join(f"usdt:{copy}:{probe} {{ @{name} = {what}; }} " for probe, name, what in (
            ("mallow:sample", "samples", "count()"), ("mallow:sample", "bytes", "sum(arg1)"),
            ("mallow:free", "frees", "count()"), ("otel_memory:alloc", "allocs", "count()"),
            ("otel_memory:alloc", "weight", "sum(arg2)"), ("otel_memory:free", "released", "count()")))
        p = subprocess.Popen([tool, "-e", script + "interval:ms:200 { printf(\"attached\\n\"); }"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in p.stdout:
            if line.startswith("attached"):
                break
        else:
            self.skipTest(f"SKIPPED, LOUDLY: bpftrace cannot attach here: {p.communicate()[1][-300:]}")
        r = self.watched([victim("api"), "peak"], library=copy, settings={"period": 1, "guard": "off"})
        self.assertEqual(r.rc, 0)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=600)
        found = dict(line[1:].split(": ") for line in out.splitlines() if line.startswith("@"))
        self.assertEqual(found, {"samples": "1100", "bytes": "1050000", "frees": "750", "allocs": "1100",
                                 "weight": "1050000", "released": "750"})

    def test_perf_knows_the_probes(self):
        perf = needs("perf")
        if os.geteuid():
            self.skipTest("SKIPPED, LOUDLY: perf's probes need root")
        home = dict(os.environ, HOME=self.folder)  # perf keeps a cache of build-ids there
        r = subprocess.run([perf, "--buildid-dir", self.folder, "buildid-cache", "--add", WATCH_LIBRARY], env=home,
                           capture_output=True, text=True)
        r = subprocess.run([perf, "--buildid-dir", self.folder, "list", "sdt"], env=home, capture_output=True, text=True)
        if "mallow" not in r.stdout + r.stderr:
            self.skipTest(f"SKIPPED, LOUDLY: this perf keeps no SDT cache: {(r.stdout + r.stderr)[-200:]}")
        for provider, name in self.PROBES:
            self.assertIn(f"sdt_{provider}:{name}", r.stdout)
