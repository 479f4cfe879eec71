"""Blocks that are released past the program's own symbols (tests/victims/past.c): by a function that was asked of
libc's handle, by a module that was loaded with RTLD_DEEPBIND, by glibc's __libc_ names, in a second namespace. Each
program ends as it ends alone, whatever is sampled and guarded, whichever allocator is behind."""
import glob
import os
import shutil
import signal
import subprocess
import sys

from mallowtest import MALLOW, VICTIMS, WATCH_LIBRARY, run, victim
from watchtest import WatchCase

PLUGIN = os.path.join(VICTIMS, "plug_past.so")
ALLOCATORS = {"glibc": ""} | {name: (glob.glob(f"/usr/lib/*/lib{name}.so.*") or [None])[0]
                              for name in ("jemalloc", "tcmalloc_minimal", "mimalloc")}
SETTINGS = ({}, {"period": "16M"}, {"period": 100}, {"period": 1, "guard": "all"}, {"period": 1, "guard": "off"})
NAMESPACE, BETWEEN, ALLOCATOR = 4, 2, 8  # why nothing is guarded

# What an FFI does in five languages: libc's own code makes a block, libc's own free takes it.
CTYPES = ("import ctypes\nlibc = ctypes.CDLL('libc.so.6')\nlibc.strdup.restype = ctypes.c_void_p\n"
          "libc.free.argtypes = [ctypes.c_void_p]\nfor i in range(5000):\n    libc.free(libc.strdup(b'x' * 5000))\nprint('ok')")
FIDDLE = ("require 'fiddle'; l = Fiddle.dlopen('libc.so.6'); s = Fiddle::TYPE_VOIDP\n"
          "d = Fiddle::Function.new(l['strdup'], [s], s); f = Fiddle::Function.new(l['free'], [s], Fiddle::TYPE_VOID)\n"
          "5000.times { f.call(d.call('x' * 5000)) }; puts 'ok'")
LUA = ("local ffi = require 'ffi'; ffi.cdef 'void *strdup(const char *); void free(void *);'\n"
       "local c = ffi.load('libc.so.6'); for i = 1, 5000 do c.free(c.strdup(string.rep('x', 5000))) end; print('ok')")
PHP = "for ($i = 0; $i < 200; $i++) { $c = curl_init('file:///etc/hostname'); curl_close($c); } echo \"ok\\n\";"
PROGRAMS = [[sys.executable, "-c", CTYPES], ["ruby", "-e", FIDDLE], ["luajit", "-e", LUA], ["php", "-r", PHP]]


class Past(WatchCase):
    def same(self, argv, behind="", settings=SETTINGS, **kw):
        """As alone: also where that is the allocator's own death of what is not its block."""
        alone = run(argv, env={"LD_PRELOAD": behind} if behind else {}, **kw)
        for s in settings:
            with self.subTest(argv=argv[:3], behind=behind, settings=s):
                r = self.watched(argv, settings=s, library=f"{WATCH_LIBRARY} {behind}".strip(), **kw)
                self.assertEqual((r.rc, r.out), (alone.rc, alone.out), r.err[-1000:])
                if not alone.rc:
                    self.assertEqual(r.own_err(), alone.err)
                    for segment in self.segments:  # of a death of the program's own it is said where it touched what
                        self.assertEqual(segment.errors(), [])
        return alone

    def test_each_way_with_each_allocator(self):
        ways = (["handle"], ["names"], ["deepbind", PLUGIN], ["plugin", PLUGIN])
        for name, behind in ALLOCATORS.items():
            if behind is None:
                print(f"SKIPPED, LOUDLY: {name} is not installed")
                continue
            alone = [self.same([victim("past"), *way], behind).rc for way in ways]
            if name == "glibc":
                self.assertEqual(alone, [0, 0, 0, 0])
            else:  # libc's own free gets another allocator's block: that ends alone, too
                self.assertEqual(alone[3], 0)

    def test_calls_past_us_are_seen(self):
        """What is made or released past the symbols counts as any other."""
        for way in (["handle"], ["names"], ["deepbind", PLUGIN]):
            for guard in "off", "all":
                with self.subTest(way=way, guard=guard):
                    r = self.watched([victim("past"), *way], settings={"period": 1, "guard": guard, "memory": "64M"})
                    self.assertEqual(r.rc, 0, r.err)
                    (s,) = self.segments
                    self.assertGreater(s.counters["samples"], 4000 * 7 * 0.99)  # blocks of one byte are missed now and then
                    self.assertLess(len([x for x in s.samples() if x["size"] in (500, 700, 2000, 3000, 9000)]), 3)
                    self.assertEqual(s.unguarded, 0)
                    self.assertEqual(s.counters["guarded"] > 20000, guard == "all")

    def test_interpreters(self):
        for argv in PROGRAMS:
            with self.subTest(program=argv[0]):
                if not shutil.which(argv[0]) or (argv[0] == "php" and b"curl" not in run(["php", "-m"]).out):
                    print(f"SKIPPED, LOUDLY: {argv[0]}, or its module, is not installed")
                    continue
                alone = self.same([shutil.which(argv[0]), *argv[1:]])
                self.assertEqual((alone.rc, alone.out), (0, b"ok\n"), alone.err)

    def test_between_threads_forks_and_signals(self):
        """Each block is whole, whoever makes, resizes and releases it; and its sample ends with it."""
        for name, behind in ALLOCATORS.items():
            past = ["past"] if name == "glibc" else []  # libc's free takes no block of another allocator
            alone = behind and run([victim("crossing"), "3000"], env={"LD_PRELOAD": behind})
            if alone and alone.rc:  # mimalloc 3.0 does
                print(f"SKIPPED, LOUDLY: {behind} overwrites the program's blocks without us: {alone.rc} {alone.err}")
                continue
            for settings in ({"period": 1, "guard": "all", "memory": "16M"},
                             {"period": 1, "guard": "50%", "guard_side": "both", "memory": "256K"},
                             {"period": 300, "guard": "off"}):
                if behind is None:
                    continue
                with self.subTest(allocator=name, settings=settings):
                    r = self.watched([victim("crossing"), "3000", *past], settings=settings,
                                     library=f"{WATCH_LIBRARY} {behind}".strip())
                    self.assertEqual((r.rc, r.out, r.err), (0, b"whole\n", b""))
                    first = self.segments[0]
                    self.assertLess(len(first.samples()), 100)
                    self.assertEqual([s.errors() for s in self.segments if s.errors()], [])

    def test_a_second_namespace(self):
        """Its libc has a free that nothing leads to us: from then on nothing is guarded, and it is said."""
        argv = [victim("past"), "namespace", PLUGIN]
        for settings in SETTINGS:
            with self.subTest(settings=settings):
                r = self.watched(argv, settings=settings)
                self.assertEqual((r.rc, r.err), (0, b""), r.err)
        r = self.watched(argv, settings={"period": 1, "guard": "all"})
        (s,) = self.segments
        self.assertEqual(s.unguarded, NAMESPACE)
        self.assertGreater(s.counters["guarded"], 0)
        self.assertGreater(s.counters["samples"], s.counters["guarded"] + 1000)

    def test_an_unknown_allocator_between(self):
        """A wrapper of malloc: what leads past it would reach the allocator behind."""
        r = self.watched([victim("past"), "handle"], settings={"period": 1, "guard": "all"},
                         library=f"{WATCH_LIBRARY} {os.path.join(VICTIMS, 'wrap_past.so')}")
        self.assertEqual((r.rc, r.err), (0, b""))
        (s,) = self.segments
        self.assertTrue(s.unguarded & (ALLOCATOR | BETWEEN), s.unguarded)
        self.assertEqual(s.counters["guarded"], 0)
        self.assertGreater(s.counters["samples"], 1000)

    def test_what_stands_against_guards_is_said_once(self):
        argv = [victim("past"), "namespace", PLUGIN]
        text = "nothing more is guarded: a second namespace of libraries (dlmopen) has a libc of its own"
        p = run([MALLOW, "watch", "--guard", "all", "--json", "--", *argv])
        self.assertEqual(p.rc, 0, p.err)
        self.assertEqual(p.err.decode().count(text), 1, p.err)
        self.assertIn(b'"unguarded":["namespace"]', p.out)
        p = run([MALLOW, "watch", "--", *argv])
        self.assertNotIn(text, p.err.decode())
        p = run([MALLOW, "watch", "--guard", "all", "--json", "--", victim("past"), "handle"])
        self.assertIn(b'"unguarded":[]', p.out)


class Children(WatchCase):
    """An attached watch preloads the library into what the process starts afterwards."""

    def test_children_of_an_attached_process(self):
        shell = subprocess.Popen(["/bin/sh", "-c", 'while read line; do eval "$line" >/dev/null; echo $?; done'],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(shell.stdout.close)
        script = os.path.join(self.folder, "script.py")
        with open(script, "w") as f:
            f.write(CTYPES)
        try:
            for more in [], ["--period", "100"], ["--period", "16M"]:
                watch = subprocess.Popen([MALLOW, "watch", "-p", str(shell.pid), *more], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertIn("attached to process", watch.stderr.readline())
                for command in ("grep -q libmallow-watch /proc/self/maps", *(f"{victim('past')} {way}" for way in (
                        "handle", "names", f"deepbind {PLUGIN}", f"namespace {PLUGIN}")), f"{sys.executable} {script}"):
                    shell.stdin.write(command + "\n")
                    self.assertEqual(shell.stdout.readline(), "0\n", (command, more))
                watch.send_signal(signal.SIGINT)
                watch.communicate(timeout=600)
                self.assertEqual(watch.returncode, 0)
        finally:
            shell.stdin.close()
            shell.wait(600)
