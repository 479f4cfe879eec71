"""Real programs against glibc's own figures, and against valgrind and LeakSanitizer at their end.

gdb calls mallinfo2, malloc_info and malloc_trim in programs that wait for their input. At the end of others it takes a
core, in which `mallow heap` finds as many lost blocks as valgrind does, and as LeakSanitizer does. MALLOW_LONG=1 takes
all of them.
"""
import glob
import os
import re
import shutil
import subprocess
import time
import unittest

from mallowtest import LONG
from heaptest import HeapTest

GDB = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]
PYTHON = "/usr/bin/python3"
THREADS = """
import sys, threading
kept, over = [], threading.Event()
def work():
    d = {i: [str(i)] * (i % 40) for i in range(30000)}
    for i in range(3000, 20000):
        d.pop(i)
    kept.append(d)
    over.wait()
threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
for t in threads:
    t.start()
while len(kept) < 6:
    over.wait(0.01)
sys.stdin.read()
"""


@unittest.skipUnless(shutil.which("gdb"), "no gdb on this machine")
class Figures(HeapTest):
    """Each program frees a part of what it made, so that malloc_trim has something to return."""

    SQLITE = ("create table t(a,b,c); with recursive n(i) as (select 1 union all select i+1 from n where i<200000) insert into t "
              "select i, i*7, hex(randomblob(20)) from n; create index x on t(c); drop index x; delete from t where a%3;\n")
    BASH = "for ((i = 0; i < 60000; i++)); do a[i]=$i$i$i; done; for ((i = 0; i < 40000; i++)); do unset a[i]; done; read x\n"
    PERL = 'my @h; $h[$_] = "x" x (1 + $_ % 300) for 0..199999; for my $i (20000..150000) { undef $h[$i] } <STDIN>'
    ONE = "import sys\nd = {i: [str(i)] * (i % 40) for i in range(200000)}\nfor i in range(20000, 150000): d.pop(i)\nsys.stdin.read()"

    def waiting(self, command, text):
        """The process, when it has read its input and waits for more."""
        with open(os.path.join(self.folder, "err"), "wb") as err:
            p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                 env=dict(os.environ, PYTHONMALLOC="malloc"))
        self.addCleanup(self.stop, p)
        p.stdin.write(text.encode())
        p.stdin.flush()
        end = time.monotonic() + 300
        while time.monotonic() < end and p.poll() is None:
            try:
                with open(f"/proc/{p.pid}/syscall", encoding="ascii") as f:
                    if f.read().split()[:2] == ["0", "0x0"]:  # read(0, ...)
                        return p
            except OSError:
                self.skipTest("what a process waits for cannot be seen here")
            time.sleep(0.05)
        self.fail(f"{command[0]} does not wait for its input: {p.poll()}")

    @staticmethod
    def arena(heap):
        """What malloc_info says of an arena: bytes of it, and free ones. Each free block but the top has its flag in its size."""
        fast, rest = (tuple(map(int, re.search(rf'<total type="{kind}" count="(\d+)" size="(\d+)"', heap).groups()))
                      for kind in ("fast", "rest"))
        return int(re.search(r'<system type="current" size="(\d+)"', heap)[1]), fast[1] + rest[1] - (rest[0] - 1)

    INFO = "p ((int (*)(int, void *))malloc_info)(0, *(void **)&stderr)"

    def call(self, pid, *calls):
        done = subprocess.run(GDB + ["-p", str(pid)] + [w for c in calls for w in ("-ex", c)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=False)
        if f"${len(calls)} = " not in done.stdout:
            self.skipTest(f"gdb cannot call malloc_info here: {done.stderr[-300:]}")
        return done.stdout

    def asked(self, pid):
        """What glibc says of itself; then malloc_trim has given back what it can."""
        said = self.call(pid, "p ((struct mallinfo2 (*)(void))mallinfo2)()", self.INFO,
                         "p ((int (*)(unsigned long))malloc_trim)(0)")
        with open(os.path.join(self.folder, "err"), encoding="ascii", errors="replace") as f:
            last = f.read().rsplit("<malloc version", 1)[1]
        arenas = [self.arena(heap) for heap in re.findall(r'<heap nr="\d+">(.*?)</heap>', last, re.DOTALL)]
        return {k: int(v) for k, v in re.findall(r"(\w+) = (\d+)", said)}, arenas

    def test_figures(self):
        programs = [(["sqlite3"], self.SQLITE), (["bash", "--norc"], self.BASH), ([PYTHON, "-c", THREADS], ""),
                    (["perl", "-e", self.PERL], ""), ([PYTHON, "-c", self.ONE], "")]
        programs = [(c, text) for c, text in programs if shutil.which(c[0])]
        self.assertGreaterEqual(len(programs), 3)
        returned, asked = 0, 0
        for command, text in programs if LONG else programs[:3]:
            with self.subTest(program=command[0]):
                p = self.waiting(command, text)
                self.call(p.pid, self.INFO)  # the stream may allocate its buffer now
                document, before = self.heap_json(p.pid), self.anonymous(p.pid)
                self.assertTrue(document["verified"], document.get("reason"))
                info, arenas = self.asked(p.pid)
                self.assertEqual(document["free_bytes"], info["fordblks"])
                self.assertEqual(sorted((a["system_bytes"], a["free_bytes"]) for a in document["arenas"]), sorted(arenas))
                self.assertEqual(sum(a["system_bytes"] for a in document["arenas"]), info["arena"])
                self.assertEqual(document["trimmable_bytes"], before - self.anonymous(p.pid))
                returned, asked = returned + document["trimmable_bytes"], asked + 1
        if not asked:
            self.skipTest("gdb could call malloc_info in none of the programs")
        self.assertGreater(returned, 1 << 20)


@unittest.skipUnless(shutil.which("gdb") and shutil.which("valgrind"), "no gdb or no valgrind on this machine")
class Ends(HeapTest):
    HERE = os.path.dirname(os.path.abspath(__file__))
    PROGRAMS = (["sort", __file__], ["gcc", "--version"], ["ls", "-l", "/usr/bin"], ["jq", ".", "/dev/null"],
                ["sqlite3", ":memory:", "create table t(a, b); insert into t values(1, 2); select * from t;"],
                ["perl", "-e", "my %h; $h{$_} = [$_] for 1..1000; my $r = [1]; push @$r, $r; print scalar keys %h"],
                ["mawk", "{ a[$1]++ } END { for (i in a) n++; print n }", __file__], [PYTHON, "-c", "import json; json.dumps([1])"],
                ["bash", "--norc", "-c", "for i in {1..500}; do a[i]=$i; done; echo ${#a[@]}; true"], ["tar", "-cf", "-", HERE],
                ["find", HERE], ["grep", "-r", "heap", HERE], ["dash", "-c", "for i in 1 2 3; do x=$x$i; done; echo $x"],
                ["xz", "-kc", __file__], ["curl", "--version"], ["diff", __file__, "/dev/null"], ["make", "--version"],
                ["git", "--version"], ["openssl", "dgst", "-sha256", __file__])

    def setUp(self):
        super().setUp()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LD_")} | {
            "LC_ALL": "C", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}

    def run_one(self, *command, **more):
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False, cwd=self.folder,
                              env=self.environment | more)

    def lost(self, command):
        """Unreachable blocks in a core of the program, taken when it is about to end."""
        core = os.path.join(self.folder, "core")
        done = self.run_one(*GDB, "-ex", "catch syscall exit_group", "-ex", "run", "-ex", "gcore " + core, "-ex", "kill",
                            "--args", *command)
        if not os.path.exists(core):
            self.skipTest(f"gdb takes no core here: {done.stderr[-300:]}")
        document = self.heap_json(core)
        os.remove(core)
        self.assertTrue(document["verified"], document.get("reason"))
        return document["unreachable_blocks"]

    def by_valgrind(self, command):
        said = self.run_one("valgrind", "--leak-check=full", "--run-libc-freeres=no", "--run-cxx-freeres=no",
                            "--show-leak-kinds=none", *command).stderr.decode(errors="replace")
        if "no leaks are possible" in said:
            return 0
        found = re.findall(r"(?:definitely|indirectly) lost: [\d,]+ bytes in ([\d,]+) blocks", said)
        self.assertEqual(len(found), 2, said[-1000:])
        return sum(int(n.replace(",", "")) for n in found)

    def by_lsan(self, library, command):
        """None: LeakSanitizer's library ends the program by a signal. Debian 12's does so where a program calls signal()."""
        log = os.path.join(self.folder, "lsan")
        done = self.run_one(*command, LD_PRELOAD=library, LSAN_OPTIONS="log_path=" + log)
        if done.returncode < 0:
            return None
        text = ""
        for path in glob.glob(log + ".*"):
            with open(path, encoding="utf-8", errors="replace") as f:
                text += f.read()
            os.remove(path)
        found = re.search(r"SUMMARY: .*leaked in (\d+) allocation", text)
        self.assertTrue(found or not text, text[-500:])
        return int(found[1]) if found else 0

    def test_as_the_others(self):
        said = subprocess.run(["gcc", "-print-file-name=liblsan.so"], capture_output=True, text=True, check=False) \
            if shutil.which("gcc") else None
        library = said.stdout.strip() if said and os.path.isabs(said.stdout.strip()) else None
        looked = found = by_both = 0
        programs = [[shutil.which(p[0]), *p[1:]] for p in self.PROGRAMS if shutil.which(p[0])]
        for command in programs if LONG else programs[:3]:
            with self.subTest(program=command[0]):
                blocks = self.lost(command)
                self.assertEqual(blocks, self.by_valgrind(command))
                by_lsan = self.by_lsan(library, command) if library else None
                self.assertIn(by_lsan, {None, blocks})
                by_both += by_lsan is not None
                looked += 1
                found += blocks
        self.assertGreaterEqual(looked, 2)
        self.assertGreaterEqual(by_both, (10 if LONG else 2) if library else 0)
        self.assertGreater(found, 0)
