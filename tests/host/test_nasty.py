"""Nasty programs (tests/victims/nasty.c; docs/security.md names them) under `record`, `watch` and `watch --guard
all`: output and status are those of the program alone, with each allocator behind. Here each program runs
under each tool with glibc, and under one of the tools with one of the other allocators, by turns; with
MALLOW_LONG everything with everything."""
import glob
import os

from mallowtest import Case, MALLOW, main, run, victim, VICTIMS

LONG = bool(os.environ.get("MALLOW_LONG"))
MODES = ["jumps", "timers", "deaf", "fork-in-handler", "stops", "own-faults", "coroutines", "clone-vm", "raw-exit",
         "cancels", "exec-in-thread", "forks", "abort-at-exit", "usable", "pages", "kernel-writes", "extremes",
         "libraries", "before-constructors", "closes-all", "covers-all", "limits", "limited-child", "drops",
         "undumpable", "namespaces", "vforks", "executes", "spawns", "forgets", "persona", "locks", "deaf-reader"]
TOOLS = [["record"], ["watch"], ["watch", "--guard", "all", "--period", "1K"]]
ALLOCATORS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2"}


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
        empty = os.path.join(self.dir, "empty")
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


if __name__ == "__main__":
    main()
