"""Nasty programs (tests/victims/nasty.c; docs/security.md names them) under `record`, `watch` and `watch --guard
all`: output and status are those of the program alone, with each allocator behind. Here each program runs
under each tool with glibc, and under one of the tools with one of the other allocators, by turns; with
MALLOW_LONG everything with everything."""
import glob
import os
import resource
import subprocess

import mallowtest
from mallowtest import LIBRARY, LONG, MALLOW, VICTIMS, WATCH_LIBRARY, Case, run, victim

WATCH = WATCH_LIBRARY
ARENAS = os.path.join(os.path.dirname(WATCH), "libmallow-arenas.so")
MODES = ["jumps", "timers", "deaf", "fork-in-handler", "stops", "own-faults", "coroutines", "clone-vm", "raw-exit",
         "cancels", "exec-in-thread", "forks", "abort-at-exit", "usable", "pages", "kernel-writes", "extremes",
         "libraries", "before-constructors", "closes-all", "covers-all", "limits", "limited-child", "drops",
         "undumpable", "namespaces", "vforks", "executes", "spawns", "forgets", "persona", "locks", "deaf-reader"]
TOOLS = [["record"], ["watch"], ["watch", "--guard", "all", "--period", "1K"]]
# mimalloc 3 behind `record`: programs end with SIGSEGV in some of these modes
ALLOCATORS = {"glibc": None} | mallowtest.ALLOCATORS | {"mimalloc": "libmimalloc.so.2"}


class Nasty(Case):
    def behind(self, name):
        """The environment with that allocator; None where it is not installed."""
        if not ALLOCATORS[name]:
            return {}
        found = glob.glob(f"/usr/lib/*/{ALLOCATORS[name]}") + glob.glob(f"/usr/lib64/{ALLOCATORS[name]}")
        return {"LD_PRELOAD": found[0]} if found else None

    def argv(self, mode):
        if mode != "drops":
            return [victim("nasty"), mode, VICTIMS]
        empty = os.path.join(self.folder, "empty")
        os.makedirs(empty, exist_ok=True)
        return [victim("nasty"), mode, empty]

    def under(self, tool, mode, allocator):
        env = self.behind(allocator)
        if env is None:
            print(f"SKIPPED, LOUDLY: {allocator} is not installed")
            return
        with self.subTest(mode=mode, tool=tool, allocator=allocator):
            argv = self.argv(mode)
            plain = run(argv, env=env)
            self.assertNotEqual(plain.status, 1, plain.err)
            where = ["-o", self.file] if tool[0] == "record" else []
            r = run([MALLOW, *tool, *where, "--", *argv], env=env)
            self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err[-2000:])
            if tool[0] == "record":
                read = run([MALLOW, "report", "--json", "-n", "1", self.file])
                self.assertEqual(read.rc, 0, read.err)

    def test_glibc(self):
        for mode in MODES:
            for tool in TOOLS:
                self.under(tool, mode, "glibc")

    def test_other_allocators(self):
        others = [a for a in ALLOCATORS if ALLOCATORS[a]]
        for i, mode in enumerate(MODES):
            for k, allocator in enumerate(others):
                for t, tool in enumerate(TOOLS):
                    if LONG or (k == i % 3 and t == i // 3 % 3):
                        self.under(tool, mode, allocator)


class Limited(Case):
    def test_a_child_that_may_write_no_file(self):
        """Alone with the library: what it could not write is recovered, or counted; its stacks are whole."""
        argv = [victim("nasty"), "limited-child"]
        r = self.record(argv)
        self.assertEqual(r.rc, 34, r.err)
        doc = self.report()
        self.assertEqual((len(doc["processes"]), doc["lost_events"], doc["warnings"]), (2, 0, []))
        alone = os.path.join(self.folder, "alone.mlw")
        r = run(argv, env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": alone})
        self.assertEqual(r.rc, 34, r.err)
        found = self.report(alone)
        self.assertGreater(found["lost_events"], 0)
        # a lost call of realloc counts for two: its release and its allocation
        reallocs = sum(p["calls"].get("realloc", 0) for p in doc["processes"])
        total = found["events"] + found["lost_events"]
        self.assertTrue(doc["events"] <= total <= doc["events"] + reallocs, (total, doc["events"], reallocs))
        self.assertNotIn("could not be unwound", " ".join(found["warnings"]))


class Said(Case):
    """What a library says on standard error neither ends the program nor makes it wait."""
    LIBRARIES = [{"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": "/dev/null"},
                 {"LD_PRELOAD": WATCH, "MALLOW_WATCH_PERIOD": "nonsense"},
                 {"LD_PRELOAD": ARENAS, "MALLOW_ARENAS": "/dev/null"}]

    def said_to(self, stderr, **how):
        for env in self.LIBRARIES:
            with self.subTest(env=env):
                r = subprocess.run([victim("nasty"), "ends"], env={**os.environ, **env}, stderr=stderr, timeout=300,
                                   check=False, **how)
                self.assertEqual(r.returncode, 21)

    def test_it_is_said(self):
        for env in self.LIBRARIES:
            r = run([victim("nasty"), "ends"], env=env)
            self.assertTrue(r.err.startswith(b"mallow: "), (env, r.err))

    def test_nobody_reads(self):
        read, write = os.pipe()
        os.close(read)
        self.said_to(write, restore_signals=True)
        os.close(write)

    def test_a_reader_that_waits(self):
        read, write = os.pipe()
        os.set_blocking(write, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(write, bytes(4096))
        os.set_blocking(write, True)
        self.said_to(write)
        os.close(read)
        os.close(write)

    def test_a_file_at_its_limit(self):
        with open(os.path.join(self.folder, "stderr"), "wb") as f:
            self.said_to(f, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
