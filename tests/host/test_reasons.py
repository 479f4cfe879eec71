"""What the recorder does not see is named with the reason that holds; programs that bring libraries or settings of their own
keep them; and `heap` says what it could not read."""
import os
import shutil
import subprocess
import sys
import time
import unittest

from mallowtest import ALLOCATORS, LIBRARY, MALLOW, Case, library, run, victim

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
FREED_BY_CTYPES = """import ctypes
libc = ctypes.CDLL("libc.so.6")
libc.strdup.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
rows = [libc.strdup(b"x" * 1000) for i in range(10000)]
for p in rows:
    libc.free(p)
print("ok")
"""
as_root = unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: needs root")


class Reasons(Case):
    def started(self, argv, **kw):
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        return p

    def script(self, text):
        path = os.path.join(self.folder, "start.sh")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path


class NotSeen(Reasons):
    def test_what_ctypes_frees_is_no_leak(self):
        doc = self.recorded([sys.executable, "-c", FREED_BY_CTYPES])
        (p,) = doc["processes"]
        rows = [s for s in p["sites"] if s["calls"] == 10000 and s["allocated_bytes"] == 10000 * 1001]
        self.assertEqual([s["end_live_blocks"] for s in rows], [0])
        self.assertEqual((p["not_seen"], p["inferred_frees"]), ([], 0))

    def two(self, argv):
        """It ends once it has been looked into: a recorder that has taken a first sample has looked before."""
        p = self.started([MALLOW, "record", "-o", self.file, "--", *argv])
        until = time.monotonic() + 600
        while not any(q["resident"] for q in self.report()["processes"] if q["exe"].endswith("two_allocators")):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)
        out, err = p.communicate(b"\n", timeout=600)
        self.assertEqual((p.returncode, out), (0, b""), err)
        return err.decode()

    def test_an_allocator_inside(self):
        for argv in ([victim("two_allocators")], ["sh", "-c", f"{victim('two_allocators')}; :"]):
            err = self.two(argv)
            said = "two_allocators: it brings an allocator of its own, jemalloc (_rjem_malloc): what goes through that is " \
                   "not recorded; build it for the system's allocator"
            self.assertEqual(err.count(said), 1, err)
            p = self.process(self.report(), "two_allocators")
            (u,) = p["not_seen"]
            self.assertEqual((u["reason"], u["module"]), ("own-allocator", victim("two_allocators")))
            self.assertTrue(u["text"].endswith(said))
            self.assertIn(u["text"], p["warnings"])
            text = run([MALLOW, "report", self.file]).out.decode()
            self.assertIn("it brings an allocator of its own", " ".join(text.split()))

    def test_allocators_for_all_are_none(self):
        for name in ALLOCATORS.values():
            with self.subTest(name=name):
                doc = self.recorded([victim("api"), "peak"], env={"LD_PRELOAD": library(name)})
                self.assertEqual([p["not_seen"] for p in doc["processes"]], [[]])

    def test_by_hand(self):
        """Without `mallow record`, the library says it at the end."""
        r = run([victim("ways"), "namespace", victim("ways_plugin.so")], stdin=b"\n",
                env={"MALLOW_OUTPUT": self.file, "LD_PRELOAD": LIBRARY})
        self.assertEqual((r.rc, r.err), (0, b""))
        (u,) = self.process(self.report(), "ways")["not_seen"]
        self.assertEqual((u["reason"], u["module"]), ("namespace", victim("ways_plugin.so")))


class Wrappers(Reasons):
    def test_a_script_that_sets_ld_preload(self):
        """Its own library is there, and does its work; ours, too."""
        jemalloc = library("libjemalloc.so.2")
        for how in ("exec ", "", "env "):
            s = self.script(f"export LD_PRELOAD={jemalloc}\n{how}{victim('api')} peak\n")
            doc = self.recorded([s])
            p = self.process(doc, "api")
            self.assertEqual((p["allocator"], p["calls"]["free"]), ("jemalloc", 750))
            self.assertGreaterEqual(p["peak_live_bytes"], 1000000)
            self.assertNotIn(b"did not load", self.last.err)

    def test_by_posix_spawn(self):
        jemalloc = library("libjemalloc.so.2")
        code = f"import os\nos.waitpid(os.posix_spawn({victim('api')!r}, ['api', 'peak'], {{'LD_PRELOAD': {jemalloc!r}}}), 0)"
        p = self.process(self.recorded([sys.executable, "-c", code]), "api")
        self.assertEqual((p["allocator"], p["calls"]["free"]), ("jemalloc", 750))

    def test_under_watch(self):
        jemalloc = library("libjemalloc.so.2")
        s = self.script(f"export LD_PRELOAD={jemalloc}\nexec grep -E -o 'libjemalloc.so.2|libmallow-watch' /proc/self/maps\n")
        r = run([MALLOW, "watch", "--", s])
        self.assertEqual((r.rc, set(r.out.split())), (0, {b"libjemalloc.so.2", b"libmallow-watch"}))

    @as_root
    def test_another_user_from_then_on(self):
        """setpriv, su, start-stop-daemon: what the new user may not open by its path is handed on."""
        api = os.path.join(self.folder, "api")
        shutil.copy(victim("api"), api)
        os.chmod(self.folder, 0o755)
        if run([*NOBODY, "test", "-r", LIBRARY]).rc:
            self.skipTest("SKIPPED, LOUDLY: the library is where others may not read it")
        doc = self.recorded([*NOBODY, api, "peak"])
        self.assertIn((750, 1000000), [(p["calls"]["free"], p["peak_live_bytes"]) for p in doc["processes"]])


class Unjoined(Reasons):
    def why(self, argv, status=0, env=None):
        r = self.record(argv, env=env)
        self.assertEqual(r.rc, status, r.err)
        (line,) = [x for x in r.err.decode().splitlines() if "did not load the recorder" in x]
        warnings = [w for p in self.report()["processes"] for w in p["warnings"] if "did not load the recorder" in w]
        self.assertEqual(len(warnings), 1)
        return line, warnings[0]

    def test_static(self):
        for w in self.why(["sh", "-c", f"{victim('hello_static')}; :"]):
            self.assertIn("it is statically linked, so no library can be preloaded into it", w)

    def test_static_by_exec(self):
        for w in self.why(["env", victim("hello_static")], status=33):
            self.assertIn("it is statically linked", w)

    def test_another_machine(self):
        """A program of 32 bits, as far as its header says: no such one runs on every machine."""
        path = os.path.join(self.folder, "foreign")
        with open(victim("hello_static"), "rb") as f:
            b = bytearray(f.read())
        b[4] = 1  # ELFCLASS32
        with open(path, "wb") as f:
            f.write(b)
        os.chmod(path, 0o755)
        r = self.record([path])
        self.assertIn(b"32-bit", r.err)

    @as_root
    def test_secure(self):
        """File capabilities: the loader ignores LD_PRELOAD. The kernel says so of the process that runs."""
        if not shutil.which("setcap"):
            self.skipTest("SKIPPED, LOUDLY: setcap is not installed")
        path = os.path.join(self.folder, "sleeps")
        os.chmod(self.folder, 0o755)
        shutil.copy(shutil.which("sleep"), path)
        if run(["setcap", "cap_net_raw+ep", path]).rc:
            self.skipTest("SKIPPED, LOUDLY: the file system has no capabilities")
        for w in self.why([*NOBODY, path, "1"]):
            self.assertIn("so the loader ignores LD_PRELOAD", w)


class MallocDebug(Reasons):
    def setUp(self):
        super().setUp()
        self.debug = library("libc_malloc_debug.so.0")
        self.trace = os.path.join(self.folder, "mtrace.txt")

    def lines(self):
        with open(self.trace, encoding="ascii") as f:
            return len(f.read().splitlines())

    def env(self, **more):
        return dict(os.environ, LD_PRELOAD=self.debug, MALLOC_TRACE=self.trace, **more)

    def test_mtrace_keeps_working(self):
        run([victim("mtraced")], env=self.env())
        alone = self.lines()
        self.assertGreaterEqual(alone, 102)
        for command in (["record", "-q", "-o", self.file], ["watch"], ["watch", "--guard", "all"]):
            os.unlink(self.trace)
            r = run([MALLOW, *command, "--", victim("mtraced")], env=self.env())
            self.assertEqual((r.rc, self.lines()), (0, alone), (command, r.err))
        p = self.process(self.report(), "mtraced")
        self.assertGreaterEqual(p["calls"]["malloc"], 50)

    def test_malloc_check_keeps_working(self):
        alone = run([victim("mtraced"), "x"], env=self.env(MALLOC_CHECK_="3"), stdin=b"\n")
        self.assertEqual(alone.status, 134, alone.err)
        for command in (["record", "-q", "-o", self.file], ["watch"]):
            r = run([MALLOW, *command, "--", victim("mtraced"), "x"], env=self.env(MALLOC_CHECK_="3"), stdin=b"\n")
            self.assertEqual(r.rc, 134, (command, r.err))

    def test_attached(self):
        """Recorded, or refused with the reason: never as if it had called nothing."""
        p = self.started([victim("mtraced"), "x"], env=self.env())
        r = run([MALLOW, "record", "--how", "inject", "-o", self.file, "-p", str(p.pid), "-d", "1s"])
        self.assertNotEqual(r.rc, 0)
        self.assertIn(b"a malloc that is not glibc's, or something stands before it", r.err)
        r = run([MALLOW, "watch", "-p", str(p.pid)])
        self.assertNotEqual(r.rc, 0)
        self.assertIn(b"a malloc that is not glibc's, or something stands before it", r.err)


class Heap(Reasons):
    def test_a_second_namespace(self):
        p = self.started([victim("ways"), "namespace", victim("ways_plugin.so"), "hold"])
        p.stdin.write(b"\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"done\n")
        r = run([MALLOW, "heap", str(p.pid)])
        self.assertEqual(r.rc, 0, r.err)
        self.assertNotIn(b"NOT VERIFIED", r.out)
        self.assertIn(b"with a heap of its own, is in this process (dlmopen)", b" ".join(r.out.split()))

    def core(self, keep):
        """Of a program with a heap, cut to so many bytes."""
        if not shutil.which("gcore"):
            self.skipTest("SKIPPED, LOUDLY: gdb is not installed")
        p = self.started([victim("two_allocators")])
        path = os.path.join(self.folder, "core")
        self.assertEqual(run(["gcore", "-o", path, str(p.pid)]).rc, 0)
        path += f".{p.pid}"
        with open(path, "r+b") as f:
            f.truncate(keep)
        return path

    def test_a_core_that_is_cut_off(self):
        r = run([MALLOW, "heap", self.core(100000)])
        self.assertEqual(r.rc, 1)
        self.assertIn(b"the core file is cut off", r.err)
        self.assertNotIn(b"has not called malloc", r.err)

    def test_compressed(self):
        for magic, command in ((b"\x28\xb5\x2f\xfd", b"zstd -d"), (b"\x04\x22\x4d\x18", b"lz4 -d"),
                               (b"\xfd7zXZ\0", b"xz -d"), (b"\x1f\x8b\x08", b"gzip -d")):
            path = os.path.join(self.folder, "core.packed")
            with open(path, "wb") as f:
                f.write(magic + bytes(200))
            r = run([MALLOW, "heap", path])
            self.assertNotEqual(r.rc, 0)
            self.assertIn(command, r.err)
            self.assertIn(b"coredumpctl dump", r.err)

    def test_a_zombie(self):
        with subprocess.Popen(["true"]) as p:
            os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
            for command in (["heap", str(p.pid)], ["probe", "sizes", "-p", str(p.pid), "-d", "1s"]):
                r = run([MALLOW, *command])
                self.assertNotEqual(r.rc, 0)
                self.assertIn(b"has ended (it is a zombie)", r.err, command)
