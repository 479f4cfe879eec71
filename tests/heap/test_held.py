"""`mallow heap` finds the leaks that LeakSanitizer and valgrind find, and none in clean programs.

MALLOW_LONG=1 runs valgrind for every way of keeping blocks, and each clean program more often.
"""
import os
import re
import shutil
import subprocess
import sys
import time

from mallowtest import LONG
from heaptest import HeapTest, tool

COPIES = 20
WAYS = ("plain", "lists", "cycles", "containers", "interior", "threads", "registers", "library", "mapping",
        "shared-mapping", "hidden")
# docs/design/heap.md explains each difference: what else is leaked for this tool, in copies.
MORE_FOR_LSAN = {"mapping": COPIES, "shared-mapping": COPIES, "all": 2 * COPIES}


class Agreement(HeapTest):
    def agrees(self, found, known):
        """A word that was left behind may hide one copy, of at most 28 blocks, and never adds one."""
        self.assertLessEqual(found, known)
        self.assertGreaterEqual(found, known - 28)

    def test_mallow(self):
        for way in WAYS + ("all",):
            with self.subTest(way=way):
                p = self.start(tool("victim_held"), way, str(COPIES))
                document = self.heap_json(p.pid)
                self.assertTrue(document["verified"], document.get("reason"))
                self.agrees(document["unreachable_blocks"], int(p.line.split()[1]))

    def run_to_end(self, *command):
        p = subprocess.run([*command, str(COPIES)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return int(re.search(r"ready (\d+)", p.stdout)[1]), p.stderr

    def test_leak_sanitizer(self):
        if not os.path.exists(tool("victim_held_lsan")):
            self.skipTest("the compiler has no LeakSanitizer")
        for way in WAYS + ("all",):
            with self.subTest(way=way):
                known, said = self.run_to_end(tool("victim_held_lsan"), way)
                found = re.search(r"SUMMARY: \w+: \d+ byte\(s\) leaked in (\d+) allocation", said)
                if not found:
                    self.skipTest(f"LeakSanitizer does not work here: {said[-200:]}")
                self.agrees(int(found[1]), known + MORE_FOR_LSAN.get(way, 0))

    def test_valgrind(self):
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind on this machine")
        for way in WAYS + ("all",) if LONG else ("all",):
            with self.subTest(way=way):
                known, said = self.run_to_end("valgrind", "--leak-check=full", tool("victim_held"), way)
                found = re.findall(r"(?:definitely|indirectly) lost: [\d,]+ bytes in ([\d,]+) blocks", said)
                self.assertEqual(len(found), 2, said[-1000:])
                self.agrees(sum(int(n.replace(",", "")) for n in found), known)


class Stacks(HeapTest):
    def test_function(self):
        """A root on a stack is named after the function in whose frame it lies."""
        p = self.start(tool("victim_held"), "stack", "1")
        roots = {r["root"]: r for r in self.heap_json(p.pid)["roots"] if r["kind"] == "stack"}
        root = roots["victim_held in hold_on_stack()"]
        self.assertEqual((root["retained_blocks"], root["module"]), (4, "victim_held"))
        self.assertIn("stack victim_held in hold_on_stack()", self.heap("--by", "root", p.pid).stdout)


class Clean(HeapTest):
    """Programs that wait for their input have leaked nothing."""
    PROGRAMS = (["cat"], ["sort"], ["sed", "s/a/b/"], ["tr", "a", "b"], ["awk", "{ print }"], ["perl", "-ne", "print"], ["bash"],
                ["dash"], ["grep", "x"], [sys.executable, "-c", "import sys; sys.stdin.read()"], ["sqlite3"],
                ["openssl", "sha256"], ["git", "hash-object", "--stdin"], ["jq", "."], ["bc"])

    @staticmethod
    def leaked_by(program):
        """The first blocks of what nothing refers to, by type. uutils 0.10, which are coreutils in Rust, forget one box at their
        start: no word of the process has its address, at any alignment."""
        return ["(24 B)"] if "/cargo/bin/" in os.path.realpath(shutil.which(program)) else []

    def waits(self, p):
        """Waits until the program reads its standard input; false: it does otherwise, or this cannot be seen here."""
        end = time.monotonic() + 60
        while p.poll() is None and time.monotonic() < end:
            try:
                with open(f"/proc/{p.pid}/syscall", encoding="ascii") as f:
                    call = f.read().split()
            except OSError:
                return False
            if call[:2] == ["0", "0x0"]:  # read(0, ...)
                return True
            time.sleep(0.01)
        return False

    def test_clean(self):
        looked = 0
        for program in self.PROGRAMS:
            if not shutil.which(program[0]):
                continue
            with self.subTest(program=program[0]):
                p = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.addCleanup(self.stop, p)
                if not self.waits(p):
                    continue
                for _ in range(10 if LONG else 1):
                    document = self.heap_json(p.pid)
                    self.assertTrue(document["verified"], document.get("reason"))
                    self.assertEqual([u["type"] for u in document["unreachable"]], self.leaked_by(program[0]))
                    looked += 1
        if not looked:
            self.skipTest("what a process waits for cannot be seen here")
        self.assertGreaterEqual(looked, 8)
