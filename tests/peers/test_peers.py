"""The same leaked bytes as valgrind's and heaptrack's, to the byte, on real programs.

The programs are such as allocate the same whatever else is in their environment (a preload library's
variables are in it, and programs that copy their environment differ by that) and wherever it is
mapped (the compiler's collector does not), in one thread: others may end before or after the process does."""
import os
import re
import shutil

from mallowtest import Case, run


class Peers(Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.folder, "numbers"), "w") as f:
            f.write("".join(f"{i * 7919 % 10007}\n" for i in range(5000)))
        self.programs = [p for p in (
            [shutil.which("xz"), "-T1", "-k", "-c", "numbers"],
            [shutil.which("ld"), "--verbose"],
            [shutil.which("objdump"), "-d", "/usr/bin/true"],
            [shutil.which("grep"), "-c", "1", "numbers"],
            [shutil.which("sed"), "-e", "s/1/2/", "numbers"],
            # GNU's: that in Rust of Ubuntu 26.04 copies its environment
            [shutil.which("gnusort") or "/usr/bin/sort", "-rn", "--parallel=1", "numbers"]) if p[0]]
        self.assertGreaterEqual(len(self.programs), 3, "too few real programs here")

    def ours(self, argv):
        doc = self.recorded(argv, cwd=self.folder)
        (p,) = doc["processes"]
        self.assertEqual(doc["lost_events"], 0)
        os.unlink(self.file)
        return p["end_live_bytes"], p["end_live_blocks"]

    def valgrind(self, argv):
        """definitely + indirectly + possibly lost + still reachable, as valgrind says itself."""
        log = os.path.join(self.folder, "valgrind.log")
        # A libc of its own: probes of the kernel that other programs set in libc's code are breakpoints there, which
        # end a program under valgrind.
        with open("/proc/self/maps") as f:
            libc = next(line.split()[-1] for line in f if line.rstrip().endswith("/libc.so.6"))
        shutil.copy(libc, self.folder)
        run(["valgrind", "--leak-check=full", "--show-reachable=yes", "--run-libc-freeres=no",
             "--run-cxx-freeres=no", f"--log-file={log}", *argv], cwd=self.folder, timeout=600,
            env={"LD_LIBRARY_PATH": self.folder})
        with open(log) as f:
            text = f.read()
        found = re.findall(r"(?:definitely lost|indirectly lost|possibly lost|still reachable): "
                           r"([\d,]+) bytes in ([\d,]+) blocks\n", text)
        if not found:  # nothing left: it says so in other words
            self.assertRegex(text, r"in use at exit: 0 bytes")
        number = lambda s: int(s.replace(",", ""))
        return sum(number(b) for b, _ in found[-4:]), sum(number(n) for _, n in found[-4:])

    def heaptrack(self, argv):
        """The leaked bytes of each stack, which heaptrack_print gives exactly, added."""
        out = os.path.join(self.folder, "heaptrack")
        run(["heaptrack", "-o", out, *argv], cwd=self.folder)
        (file,) = [f"{out}.{s}" for s in ("zst", "gz") if os.path.exists(f"{out}.{s}")]
        folded = os.path.join(self.folder, "folded")
        run(["heaptrack_print", file, "-F", folded, "--flamegraph-cost-type", "leaked"])
        with open(folded) as f:
            total = sum(int(l.rsplit(" ", 1)[1]) for l in f if l.strip())
        os.unlink(file)
        return total

    def test_leaked_bytes_as_valgrind(self):
        if not shutil.which("valgrind"):
            self.skipTest("SKIPPED, LOUDLY: valgrind is not installed")
        for argv in self.programs:
            with self.subTest(program=os.path.basename(argv[0])):
                self.assertEqual(self.ours(argv), self.valgrind(argv))

    def test_leaked_bytes_as_heaptrack(self):
        if not shutil.which("heaptrack") or not shutil.which("heaptrack_print"):
            self.skipTest("SKIPPED, LOUDLY: heaptrack is not installed")
        for argv in self.programs:
            with self.subTest(program=os.path.basename(argv[0])):
                self.assertEqual(self.ours(argv)[0], self.heaptrack(argv))
