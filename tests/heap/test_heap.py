"""`mallow heap`: leaks, types, ways, options, targets that cannot be read."""
import base64
import errno
import json
import mmap
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
import zlib

from mallowtest import MALLOW, SANITIZED
from heaptest import HeapTest, tool

RING, CHAIN = 3 * 200, 1000 + 104  # usable bytes
EPOLL_WAIT = 232  # of x86-64


class Leaks(HeapTest):
    def test_known_leaks(self):
        p = self.start(tool("victim_leaks"), "50")
        document = self.heap_json(p.pid)
        self.assertTrue(document["verified"])
        groups = sorted((g["bytes"], g["blocks"]) for g in document["unreachable"])
        # One group each, whatever the blocks refer to. The last one's address may be left in a register.
        self.assertGreaterEqual(groups.count((RING, 3)), 49)
        self.assertGreaterEqual(groups.count((1000 + 8 - 8 + 104, 2)), 49)
        self.assertLessEqual(len(groups), 100)
        self.assertEqual(sum(g[0] for g in groups), document["unreachable_bytes"])
        self.assertEqual(sum(g[1] for g in groups), document["unreachable_blocks"])

    def test_none(self):
        p = self.start(tool("victim_leaks"), "0")
        document = self.heap_json(p.pid)
        self.assertEqual((document["unreachable_bytes"], document["unreachable"]), (0, []))
        self.assertIn("no unreachable blocks", self.heap("--leaks", p.pid).stdout)

    def test_as_leak_sanitizer(self):
        """The same program, the same blocks, as LeakSanitizer counts them at its end."""
        if not os.path.exists(tool("victim_leaks_lsan")):
            self.skipTest("the compiler has no LeakSanitizer")
        p = subprocess.run([tool("victim_leaks_lsan"), "50"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=False)
        found = re.search(r"SUMMARY: \w+: (\d+) byte\(s\) leaked in (\d+) allocation", p.stderr)
        if not found:
            self.skipTest(f"LeakSanitizer does not work here: {p.stderr[-200:]}")
        victim = self.start(tool("victim_leaks"), "50")
        document = self.heap_json(victim.pid)
        # It sees the last chain's address in a register or not: a chain is two blocks.
        self.assertLessEqual(abs(int(found.group(2)) - document["unreachable_blocks"]), 2)

    def test_fail_above(self):
        p = self.start(tool("victim_leaks"), "50")
        total = self.heap_json(p.pid)["unreachable_bytes"]
        self.heap("--fail-above", f"unreachable={total}", p.pid)
        out = self.heap("--fail-above", f"unreachable={total - 1}", p.pid, status=1)
        self.assertRegex(out.stderr, "^mallow heap: unreachable: .* more than ")
        report = os.path.join(self.folder, "junit.xml")
        self.heap("--fail-above", "unreachable=0", "--junit", report, "--annotate", "github", p.pid, status=1)
        with open(report, encoding="utf-8") as f:
            self.assertIn('failures="1"', f.read())
        self.heap("--junit", report, p.pid, status=2)


class Ways(HeapTest):
    def test_why_and_who(self):
        p = self.start(tool("victim_leaks"), "50")
        chain, kept = p.line.split()[1:]
        way = self.heap_json("--why", kept, p.pid)
        self.assertEqual((way["found"], way["path"][0]["root"], way["path"][0]["kind"], len(way["path"])),
                         ("used", "kept_list", "variable", 2))
        self.assertEqual(way["path"][1]["retained_bytes"], 100 * 200)
        who = self.heap_json("--who", kept, p.pid)
        self.assertEqual([r.get("root") for r in who["referrers"]], [None, "kept_list"])
        self.assertIn("variable kept_list", self.heap("--why", kept, p.pid).stdout)
        self.assertIn("is in no block", self.heap("--why", "0x10", p.pid).stdout)
        second = hex(int(chain, 16) + 8)
        self.assertIn(self.heap_json("--why", second, p.pid)["found"], ("unreachable", "used"))

    def test_roots(self):
        p = self.start(tool("victim_leaks"), "0")
        document = self.heap_json(p.pid)
        roots = {r["root"]: r for r in document["roots"]}
        self.assertEqual(roots["kept_list"]["retained_bytes"], 100 * 200)
        self.assertEqual(roots["kept_list"]["retained_blocks"], 100)
        self.assertEqual((os.path.basename(roots["kept_list"]["file"]), roots["kept_list"]["declared_type"]),
                         ("victim_leaks.c", "struct link *"))
        with open(os.path.join(os.path.dirname(__file__), "victim_leaks.c"), encoding="ascii") as f:
            self.assertEqual(f.read().splitlines()[roots["kept_list"]["line"] - 1], "struct link *kept_list;")
        self.assertIn("variable kept_list (victim_leaks) victim_leaks.c:", self.heap("--by", "root", p.pid).stdout)
        self.assertEqual(roots["kept_inside"]["retained_bytes"], 5000)
        threads = [r for r in document["roots"] if r["kind"] == "thread-local"]  # a stack may have the same name
        self.assertEqual([r["retained_bytes"] for r in threads if r["retained_bytes"] >= 7000], [7000])

    def test_the_file_of_the_unit_itself(self):
        """In DWARF 5 it has the number 0, which was none before; gcc lists it again as 1."""
        clang = shutil.which("clang") or shutil.which("clang-14")
        if not clang:
            self.skipTest("SKIPPED: no clang")
        program = os.path.join(self.folder, "victim_leaks")
        subprocess.run([clang, "-gdwarf-5", "-O1", "-fno-builtin", os.path.join(os.path.dirname(__file__), "victim_leaks.c"), "-pthread",
                        "-o", program], check=True)
        p = self.start(program, "0")
        self.assertEqual([os.path.basename(r["file"]) for r in self.heap_json(p.pid)["roots"] if r["root"] == "kept_list"],
                         ["victim_leaks.c"])


@unittest.skipUnless(shutil.which("objcopy") and shutil.which("readelf"), "no objcopy on this machine")
class Separate(HeapTest):
    """A stripped program, and its debug file somewhere else."""

    def split(self):
        """The stripped program, its debug file, and its build-id."""
        stripped, debug = (os.path.join(self.folder, name) for name in ("bin/victim", "victim.debug"))
        os.mkdir(os.path.dirname(stripped))
        subprocess.run(["objcopy", "--only-keep-debug", tool("victim_leaks"), debug], check=True)
        subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, tool("victim_leaks"), stripped], check=True)
        notes = subprocess.run(["readelf", "-n", stripped], capture_output=True, text=True, check=True).stdout
        found = re.search(r"Build ID: ([0-9a-f]+)", notes)
        if not found:
            self.skipTest("the linker writes no build-id")
        return stripped, debug, found.group(1)

    def kept_list(self, program, *args):
        p = self.start(program, "0")
        roots = [r for r in self.heap_json(*args, p.pid)["roots"] if r["root"] == "kept_list"]
        return [(r["retained_bytes"], os.path.basename(r.get("file", "")), r.get("declared_type")) for r in roots]

    def test_by_id(self):
        stripped, debug, build_id = self.split()
        self.assertEqual(self.kept_list(stripped), [])
        place = os.path.join(self.folder, "ids", ".build-id", build_id[:2])
        os.makedirs(place)
        shutil.move(debug, os.path.join(place, build_id[2:] + ".debug"))
        expected = [(100 * 200, "victim_leaks.c", "struct link *")]
        self.assertEqual(self.kept_list(stripped, "--debug-path", os.path.join(self.folder, "ids")), expected)
        self.assertEqual(self.kept_list(stripped, "--debug-path", os.path.join(self.folder, "none")), [])

    def test_by_link(self):
        stripped, debug, _ = self.split()
        place = os.path.join(self.folder, "bin", ".debug")
        os.mkdir(place)
        at = shutil.move(debug, place)
        expected = [(100 * 200, "victim_leaks.c", "struct link *")]
        self.assertEqual(self.kept_list(stripped), expected)
        if os.geteuid() == 0:  # neither ours, root's nor the program's owner's
            os.chown(at, 4711, 4711)
            self.assertEqual(self.kept_list(stripped), [])
            os.chown(stripped, 4711, 4711)
            self.assertEqual(self.kept_list(stripped), expected)

    def test_others(self):
        """What is not the program's debug file is not read, and never waited for."""
        stripped, debug, _ = self.split()
        place = os.path.join(self.folder, "bin", "victim.debug")
        os.mkfifo(place)
        self.assertEqual(self.kept_list(stripped), [])
        os.remove(place)
        subprocess.run(["objcopy", "--only-keep-debug", tool("victim_blocks"), place], check=True)
        self.assertEqual(self.kept_list(stripped), [])
        with open(debug, "rb") as whole, open(place, "wb") as cut:
            cut.write(whole.read()[:5000])
        self.kept_list(stripped)  # names or none, and no crash


class Peak(HeapTest):
    """`mallow record --snapshot-heap`."""

    def test_peak(self):
        """What lived at the peak is in the file, though the program has ended."""
        recording, saved = (os.path.join(self.folder, "it.ml" + last) for last in "wh")
        p = self.start(MALLOW, "record", "-q", "--snapshot-heap", "-o", recording, "--", tool("victim_cold"),
                       stderr=subprocess.PIPE)
        roots = {}
        while roots.get("cold_table", 0) + roots.get("hot_table", 0) < 200:  # of 300, when it has grown by less since
            self.assertIsNone(p.poll())
            time.sleep(0.02)
            if os.path.exists(saved):
                roots = {r["root"]: r["retained_blocks"] for r in self.heap_json(saved)["roots"]}
        p.stdin.close()
        err = p.stderr.read().decode()
        p.stderr.close()
        self.assertEqual((p.wait(), err), (0, ""))
        self.assertGreater(self.heap_json(saved)["used_bytes"], 200 * 65536)
        self.assertEqual(sorted(os.listdir(self.folder)), ["it.mlh", "it.mlw"])

    def test_none(self):
        """The status is the program's own, and it is said why there is no heap."""
        p = subprocess.run([MALLOW, "record", "--snapshot-heap", "-o", "it.mlw", "--", "sh", "-c", "exit 7"],
                           cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(p.returncode, 7)
        self.assertRegex(p.stderr, "the heap could not be saved: |saved the heap, when ")
        p = subprocess.run([MALLOW, "record", "--snapshot-heap", "-p", str(os.getpid()), "--how", "probe"],
                           capture_output=True, text=True, check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("does not work with --how probe", p.stderr)

    def roots_of(self, path):
        """What the victim's tables hold in a saved heap; 0 while there is none."""
        return sum(r["retained_blocks"] for r in self.heap_json(path)["roots"] if r["root"] in ("cold_table", "hot_table")) \
            if os.path.exists(path) else 0

    def test_child(self):
        """A child of the program has a file of its own."""
        recording = os.path.join(self.folder, "it.mlw")
        p = subprocess.Popen([MALLOW, "record", "--snapshot-heap", "-o", recording, "--", "sh", "-c",
                              f"exec 3<&0; {tool('victim_cold')} <&3 & echo $!; wait"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(self.stop, p)
        child = next(int(line) for line in iter(p.stdout.readline, b"") if line.strip().isdigit())  # beside "ready"
        saved = os.path.join(self.folder, f"it.{child}.mlh")
        while self.roots_of(saved) < 200:
            self.assertIsNone(p.poll())
            time.sleep(0.02)
        p.stdin.close()
        err = p.stderr.read().decode()
        p.stderr.close()
        self.assertEqual(p.wait(), 0, err)
        self.assertIn("saved the heaps of 1 child, too: " + saved, err)
        p.stdin = open(os.devnull, "rb")

    def test_attached(self):
        """Of a process that runs already."""
        victim = self.start(tool("victim_cold"))
        recording, saved = (os.path.join(self.folder, "it.ml" + last) for last in "wh")
        p = subprocess.Popen([MALLOW, "record", "--snapshot-heap", "-o", recording, "-p", str(victim.pid)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        while self.roots_of(saved) < 300:
            self.assertIsNone(p.poll(), p.poll() is not None and p.stderr.read())
            time.sleep(0.02)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=600)
        self.assertEqual(p.returncode, 0, err)
        self.assertIn("mallow heap " + saved, err)
        victim.stdin.write(b"x")
        victim.stdin.flush()
        self.assertEqual(os.read(victim.stdout.fileno(), 5), b"done\n")


class Types(HeapTest):
    def check(self, program):
        p = self.start(program if os.path.isabs(program) else tool(program))
        document = self.heap_json(p.pid)
        types = {t["type"]: (t["blocks"], t["bytes"]) for t in document["types"]}
        self.assertEqual(types["zoo::Bird"][0], 1000)
        self.assertLessEqual(types["zoo::Bird"][1] - 1000 * 120, 1000)  # a few have 16 bytes more
        self.assertEqual(types["zoo::Cage<int>"][0], 300)
        self.assertEqual(types["(anonymous namespace)::Hidden"][0], 1)
        shared = [t for t in types if "_Sp_counted_ptr_inplace<zoo::Both" in t]
        self.assertEqual(len(shared), 1, list(types)[:20])
        retained = {t["type"]: t["retained_bytes"] for t in document["types"]}
        self.assertLessEqual(retained["zoo::Cage<int>"] - types["zoo::Cage<int>"][1] - 300 * 120, 1000)
        return document

    def test_classes(self):
        document = self.check("victim_types")
        roots = {r["root"]: r["retained_bytes"] for r in document["roots"]}
        self.assertGreater(roots["birds"], 700 * 120)
        self.assertIn("vector<", [r["declared_type"] for r in document["roots"] if r["root"] == "birds"][0])

    def test_stripped(self):
        stripped = os.path.join(self.folder, "stripped")
        if not shutil.which("strip"):
            self.skipTest("no strip on this machine")
        subprocess.run(["strip", "-s", "-o", stripped, tool("victim_types")], check=True)
        self.check(stripped)

    def test_containers(self):
        """They hold their nodes, whoever else points at these."""
        p = self.start(tool("victim_containers"))
        document = self.heap_json(p.pid)
        roots = {r["root"].split("[")[0]: r for r in document["roots"] if r["kind"] == "variable"}
        self.assertEqual(roots["names"]["retained_blocks"], 2000)
        self.assertEqual(roots["orders"]["retained_blocks"], 1000)
        self.assertEqual(roots["inside"]["retained_blocks"], 201)
        self.assertEqual(roots["stale"]["retained_blocks"], 1)
        types = {t["type"].split("[")[0]: t["blocks"] for t in document["types"]}
        self.assertEqual(types["std::map or set node of names"], 1000)
        self.assertEqual(types["std::list node of orders"], 500)
        self.assertEqual([n for t, n in types.items() if t.startswith("std::map or set node, ")], [200])
        types = {re.sub(r"\[.*?\]", "", t["type"]): t["blocks"] for t in document["types"]}
        self.assertEqual(types["std::unordered_map or set node of table"], 300)
        self.assertEqual(types["std::unordered_map or set buckets of table"], 1)
        self.assertEqual(types["std::vector elements of lines"], 1)
        self.assertEqual(types["std::vector elements of figures"], 1)
        self.assertEqual(types["std::deque map of queue"], 1)
        self.assertEqual(types["std::deque elements of queue"], 16)  # 64 of 512 bytes each
        self.assertEqual(types["std::string text"], 1000 + 300 + 300)
        self.assertEqual(document["unreachable_blocks"], 0)
        why = self.heap("--why", p.line.split()[1], p.pid).stdout
        self.assertIn("variable names", why)

    def test_python(self):
        program = ("import sys\nclass Knot:\n  __slots__ = ('rope',)\n"
                   "k = [Knot() for _ in range(100)]\nd = [{i: str(i)} for i in range(5000)]\n"
                   "print('ready', flush=True)\nsys.stdin.read()\n")
        p = self.start(sys.executable, "-c", program, env=dict(os.environ, PYTHONMALLOC="malloc"))
        document = self.heap_json(p.pid)
        types = {t["type"]: t["blocks"] for t in document["types"]}
        if not any(t.endswith(" (Python)") for t in types):
            self.skipTest("this Python has no CPython types in glibc's heap")
        self.assertGreaterEqual(types["dict (Python)"], 5000)
        self.assertGreaterEqual(types["str (Python)"], 4000)


class Python(HeapTest):
    """CPython's own allocator, and its collector."""
    PROGRAM = """
import gc, sys
gc.disable()
class Slot:
    __slots__ = ("a", "b")
class Ring:
    pass
def fill():
    for i in range(3000):
        ring = Ring()
        ring.me = ring
registry = {}
for i in range(2000):
    registry[i] = slot = Slot()
    slot.a = "slot number %d" % i
before = sys.getallocatedblocks()
fill()
cost = round((sys.getallocatedblocks() - before) / 3000)
table = [0] * 64
sys._debugmallocstats()
print("ready", cost, flush=True)
sys.stdin.read()
"""

    def setUp(self):
        super().setUp()
        if sys.implementation.name != "cpython" or not hasattr(sys, "_debugmallocstats"):
            self.skipTest("this Python has no allocator of its own")
        with open(os.path.join(self.folder, "stats"), "wb") as stats:
            self.victim = self.start(sys.executable, "-c", self.PROGRAM, env=dict(os.environ, PYTHONMALLOC="pymalloc"),
                                     stderr=stats)
        self.document = self.heap_json(self.victim.pid)
        if "python_pool_blocks" not in self.document:
            self.skipTest("this Python's pools are of another kind")

    def test_every_block(self):
        self.assertTrue(self.document["verified"], self.document.get("reason"))
        with open(os.path.join(self.folder, "stats"), encoding="utf-8") as f:
            known = int(re.search(r"bytes in allocated blocks\s*=\s*([\d,]+)", f.read())[1].replace(",", ""))
        # Between its own count and the look, the victim printed a word.
        self.assertLessEqual(abs(self.document["python_pool_used_bytes"] - known), 2000)

    def test_types_and_holders(self):
        types = {t["type"]: t for t in self.document["types"]}
        self.assertEqual(types["Slot (Python)"]["blocks"], 2000)
        self.assertEqual(types["Ring (Python)"]["blocks"], 3000)
        # The objects of `registry` belong to it, although a list that the collector keeps links all objects. Stale words
        # on the interpreter's own stack may hold some of their texts, too.
        self.assertGreaterEqual(types["Slot (Python)"]["retained_bytes"], 1990 * (48 + 64))
        self.assertGreaterEqual(types["dict (Python)"]["retained_bytes"], 2000 * (48 + 64))

    def test_garbage(self):
        """What only the collector can free: most of it, as stale words may hold some. By Python's own count an object
        with an attribute is two blocks; of 3.13 one, which has room for its attributes."""
        each = int(self.victim.line.split()[1])
        self.assertIn(each, (1, 2, 3))
        self.assertGreaterEqual(self.document["garbage_blocks"], each * 2900)
        self.assertLessEqual(self.document["garbage_blocks"], each * 3000 + 100)
        self.assertLess(self.document["unreachable_blocks"], 100)
        self.assertRegex(self.heap(self.victim.pid).stdout, r"only Python's collector can free")


class Free(HeapTest):
    def test_what_malloc_trim_returns(self):
        """To the page; and what it leaves is all on pages with blocks in use, or at an arena's end."""
        for threads in (0, 3):
            with self.subTest(threads=threads):
                p = self.start(tool("victim_trim"), str(threads))
                before, document = self.anonymous(p.pid), self.heap_json(p.pid)
                self.assertEqual(document["source"], "snapshot", document.get("note"))
                self.assertTrue(document["resident_known"])
                self.assertGreater(document["trimmable_bytes"], 1 << 20)
                p.stdin.write(b"t")
                p.stdin.flush()
                self.assertEqual(p.stdout.readline(), b"trimmed\n")
                self.assertEqual(before - self.anonymous(p.pid), document["trimmable_bytes"])
                after = self.heap_json(p.pid)
                self.assertEqual(after["trimmable_bytes"], 0)
                self.assertEqual(sum(r["blocks"] > 0 for r in after["pinning"]), len(after["pinning"]))
                for table in ("pinning", "pinning_roots"):
                    self.assertLessEqual(abs(sum(r["free_bytes"] for r in after[table]) - after["pinned_free_bytes"]),
                                         len(after[table]))
                self.assertEqual((after["pinning_roots"][0]["root"], after["pinning_roots"][0]["kind"]), ("kept", "variable"))

    def test_rows(self):
        p = self.start(tool("victim_leaks"), "50")
        types = self.heap_json(p.pid)["types"]
        rows = lambda *n: self.heap("--by", "type", *n, p.pid).stdout.split("  type\n")[1].splitlines()
        self.assertEqual(rows("-n", "1")[1:], [f"  ... and {len(types) - 1:,} more (-n)"])
        self.assertEqual(len(rows("-n", "0")), len(types))
        self.assertEqual(self.heap_json("-n", "0", p.pid)["types"], types)
        self.assertEqual(self.heap_json("-n", "1", p.pid)["types"], types[:1])

    def test_the_table(self):
        p = self.start(tool("victim_trim"), "0")
        out = self.heap("--free", "-n", "3", p.pid).stdout
        self.assertRegex(out, r"malloc_trim\(0\) would return\n(.*\n)*.* type that shares the pages")
        self.assertRegex(out, r"  root that reaches first what shares the pages\n.*  variable kept \(victim_trim\)\n")


class Recorded(HeapTest):
    """The heap joined with a recording: who allocated what is held, and what is leaked."""

    def recorded(self, lists, env=None):
        self.recording = os.path.join(self.folder, "r.mlw")
        mallow = self.start(MALLOW, "record", "-o", self.recording, "--", tool("victim_leaks"), lists,
                            env=dict(os.environ, **env or {}))
        with open(f"/proc/{mallow.pid}/task/{mallow.pid}/children", encoding="ascii") as f:
            pid = int(f.read().split()[0])
        self.settle(pid)
        return pid

    def sites(self, document):
        """By the victim's own function: (blocks, unreachable blocks)."""
        found = {}
        for site in document["sites"]:
            name = next((f["function"] for f in site["frames"] if f["function"] in ("leak", "main")), None)
            a, b = found.get(name, (0, 0))
            found[name] = a + site["blocks"], b + site.get("unreachable_blocks", 0)
        return found

    def test_who_allocated(self):
        pid = self.recorded("40")
        document = self.heap_json("--recording", self.recording, pid)
        self.assertTrue(document["verified"], document.get("reason"))
        self.assertEqual(document["recorded_blocks"], document["blocks"])
        sites = self.sites(document)
        self.assertEqual(sites["leak"][0], 40 * 5)
        self.assertGreaterEqual(sites["leak"][1], 39 * 5)
        self.assertEqual(sites["main"], (103, 0))
        self.assertEqual(document["unreachable"][0]["frames"][0]["function"], "leak")
        pinned = document["pinning_sites"]
        self.assertLessEqual(abs(sum(p["free_bytes"] for p in pinned) - document["pinned_free_bytes"]), len(pinned))
        if document["pinned_free_bytes"]:
            self.assertIn("call site that shares the pages", self.heap("--recording", self.recording, "--free", pid).stdout)
        text = self.heap("--recording", self.recording, "--by", "site", pid).stdout
        self.assertRegex(text, r"leak \(victim_leaks\.c:\d+\) <- main")

    def control(self, *args, status=0):
        p = subprocess.run([MALLOW, "control", *map(str, args)], capture_output=True, text=True, cwd=self.folder,
                           timeout=600, check=False)
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stderr

    def test_control(self):
        """`control PID snapshot --heap` saves the heap."""
        pid = self.recorded("40")
        self.assertIn("saved the heap as ", self.control(pid, "snapshot", "--heap"))
        saved = os.path.join(self.folder, f"mallow.victim_leaks.{pid}.mlh")
        self.assertEqual(self.heap_json(saved)["types"], self.heap_json(pid)["types"])
        self.control(pid, "snapshot", "--heap", "-o", "other.mlh")
        self.assertTrue(self.heap_json(os.path.join(self.folder, "other.mlh"))["verified"])
        for args in (("pause", "--heap"), ("snapshot", "-o", "x")):
            self.assertRegex(self.control(pid, *args, status=2), r"\Amallow control: [^\n]+\n\Z")

    def test_another_allocator(self):
        pid = self.recorded("40", {"LD_PRELOAD": tool("libother_malloc.so")})
        self.assertIn("--recording", self.heap(pid, status=1).stderr)
        document = self.heap_json("--recording", self.recording, pid)
        self.assertTrue(document["verified"], document.get("reason"))
        self.assertEqual(document["arenas"], [])
        roots = {r["root"]: r for r in document["roots"]}
        self.assertEqual((roots["kept_list"]["retained_blocks"], roots["kept_list"]["retained_bytes"]), (100, 100 * 208))
        self.assertGreaterEqual(self.sites(document)["leak"][1], 39 * 5)

    def test_ages(self):
        """How long ago the blocks of a type were made, to 17 ms."""
        recording = os.path.join(self.folder, "ages.mlw")
        mallow = self.start(MALLOW, "record", "-o", recording, "--", tool("victim_types"), "late")
        with open(f"/proc/{mallow.pid}/task/{mallow.pid}/children", encoding="ascii") as f:
            pid = int(f.read().split()[0])
        self.addCleanup(os.kill, pid, signal.SIGKILL)  # it does not end with its input
        self.settle(pid)
        document = self.heap_json("--recording", recording, pid)
        types = {t["type"]: t for t in document["types"]}
        bird, late = types["zoo::Bird"], types["(anonymous namespace)::Hidden"]
        self.assertEqual((bird["recorded_blocks"], late["recorded_blocks"]), (1000, 1))
        self.assertEqual(late["oldest_age_ns"], late["youngest_age_ns"])
        self.assertEqual(late["oldest_age_ns"], late["mean_age_ns"])
        events = [json.loads(line) for line in subprocess.run([MALLOW, "dump", "--json", recording], capture_output=True,
                                                              text=True, check=True).stdout.splitlines()]
        times = [e["time_ns"] for e in events if "time_ns" in e]
        apart = bird["youngest_age_ns"] - late["oldest_age_ns"]
        self.assertGreater(apart, (300 - 2 * 17) * 1000000)
        self.assertLess(apart, max(times) - min(times) + 2 * 17 * 1000000)
        self.assertLessEqual(bird["youngest_age_ns"], bird["mean_age_ns"])
        self.assertLessEqual(bird["mean_age_ns"], bird["oldest_age_ns"])
        sites = [s for s in document["sites"] if s["oldest_age_ns"] == late["oldest_age_ns"]]
        self.assertIn(1, [s["blocks"] for s in sites])
        self.assertRegex(self.heap("--recording", recording, "--by", "type", pid).stdout, r"blocks +oldest  type\n(.*\n)*.* m?s  zoo::Bird")
        self.assertNotIn("oldest_age_ns", self.heap_json(pid)["types"][0])

    def test_of_another_process(self):
        self.recorded("0")
        other = self.start(tool("victim_leaks"), "0")
        self.assertIn("has no process", self.heap("--recording", self.recording, other.pid, status=1).stderr)
        self.assertIn("needs --recording", self.heap("--by", "site", other.pid, status=2).stderr)


class Saved(HeapTest):
    """-o FILE.mlh, and --diff."""

    def save(self, lists):
        p, path = self.start(tool("victim_leaks"), lists), os.path.join(self.folder, f"{lists}.mlh")
        return p, path, self.heap_json("-o", path, p.pid)

    def test_read_again(self):
        p, path, live = self.save("20")
        self.assertEqual(self.heap_json(path), live)
        kept = p.line.split()[2]
        self.assertEqual(self.heap("--why", kept, path).stdout, self.heap("--why", kept, p.pid).stdout)
        self.assertEqual(self.heap("--who", kept, path).stdout, self.heap("--who", kept, p.pid).stdout)
        with open(path, "rb") as f:
            whole = f.read()
        self.assertLess(len(whole), 20000)
        for size in (8, 20, len(whole) // 2, len(whole) - 1):
            with open(path, "wb") as f:
                f.write(whole[:size])
            self.assertRegex(self.heap(path, status=1).stderr, r"\Amallow heap: .*section \d.*\n\Z")

    def test_page(self):
        p, path, _ = self.save("20")
        page = os.path.join(self.folder, "heap.html")
        self.assertEqual(self.heap("--html", page, path).stdout, "")
        with open(page, encoding="utf-8") as f:
            text = f.read()
        self.assertIn('id="heap">', text)
        packed = re.search(r'id="heap"[^>]*>([A-Za-z0-9+/=]+)', text)[1]
        squares = json.loads(zlib.decompress(base64.b64decode(packed)))["map"]
        self.assertEqual(squares["cell_bytes"], 4096)
        self.assertEqual(sum(sum(run[1:]) for run in squares["runs"]), self.heap_json(path)["used_bytes"])
        self.assertLess(len(text), 5000000)
        self.assertEqual(json.loads(self.heap("--json", "--html", page, path).stdout), self.heap_json(p.pid) | {
            "stopped_ns": self.heap_json(path)["stopped_ns"], "time_ns": self.heap_json(path)["time_ns"]})

    def test_difference(self):
        _, old, _ = self.save("10")
        q, new, _ = self.save("30")
        for last in (new, q.pid):
            document = self.heap_json("--diff", old, last)
            grown = document["new"]["unreachable_bytes"] - document["old"]["unreachable_bytes"]
            self.assertIn(grown // (RING + CHAIN), (19, 20, 21))
            rows = {r["root"]: r for r in document["roots"]}
            self.assertEqual(rows["kept_list"]["old_retained_bytes"], rows["kept_list"]["new_retained_bytes"])
            self.assertEqual(sum(t["new_bytes"] for t in document["types"]), document["new"]["used_bytes"])
            self.assertEqual(sum(t["old_bytes"] for t in document["types"]), document["old"]["used_bytes"])
        self.assertRegex(self.heap("--diff", old, new).stdout, r"\+\S+ \S+  unreachable \(")
        self.assertIn("no change", self.heap("--diff", new, new).stdout)
        self.heap("--diff", "--fail-above", "unreachable=1K", old, new, status=1)
        self.assertIn("--diff OLD NEW", self.heap("--diff", status=2).stderr)
        page = os.path.join(self.folder, "difference.html")
        self.assertEqual(self.heap("--diff", "--html", page, old, new).stdout, "")
        with open(page, encoding="utf-8") as f:
            packed = re.search(r'id="heap-difference"[^>]*>([A-Za-z0-9+/=]+)', f.read())[1]
        self.assertEqual(json.loads(zlib.decompress(base64.b64decode(packed)))["types"], self.heap_json("--diff", old, new)["types"])
        for args in (["--diff", old], [old, new], ["--diff", "--leaks", old, new]):
            self.heap(*args, status=2)


class Cost(HeapTest):
    def peak(self, target):
        """The peak resident size of `mallow heap`, in bytes, and what it said."""
        with subprocess.Popen([MALLOW, "heap", "--json", str(target)], stdout=subprocess.PIPE) as p:
            said = p.stdout.read()
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(p.returncode, 0)
        return usage.ru_maxrss * 1024, json.loads(said)

    @unittest.skipIf(SANITIZED, "sanitizers need memory of their own")
    def test_memory(self):
        """At most 100 bytes a block."""
        few, _ = self.peak(self.start(tool("victim_leaks"), "1").pid)
        many, document = self.peak(self.start(tool("victim_blocks"), os.path.join(self.folder, "t"), "1", "3000000", "small").pid)
        self.assertGreater(document["blocks"], 1400000)
        blocks = document["blocks"] + sum(a["free_blocks"] for a in document["arenas"])
        self.assertLess(many - few, 100 * blocks)


class Refusals(HeapTest):
    def test_usage(self):
        for args in (["--why", "zz", "1"], ["--why", "0x1", "--who", "0x1", "1"], ["--fail-above", "x=1", "1"],
                     ["--fail-above", "unreachable=x", "1"], [], ["--by", "nothing", "1"], ["-n", "x", "1"]):
            out = self.heap(*args, status=2)
            self.assertRegex(out.stderr, r"\Amallow heap: [^\n]+\n\Z")

    def test_no_target(self):
        for target, why in (("999999999", "there is no process"), ("/nowhere", "No such file"),
                            (tool("victim_leaks"), "not a core file"), (__file__, "neither a process id, a core file nor a saved"),
                            ("/dev/null", "the core file")):
            out = self.heap(target, status=2 if "core" in why else 1)
            self.assertIn(why, out.stderr)
            self.assertRegex(out.stderr, r"\Amallow heap: [^\n]+\n\Z")

    def test_no_heap_of_glibc(self):
        p = self.start(tool("victim_none"))
        out = self.heap(p.pid, status=1)
        self.assertIn("no heap of glibc", out.stderr)
        self.assertIn("--recording", out.stderr)

    def test_the_process_goes_on(self):
        """Nothing is left: no stop, no tracer, its blocking call not interrupted."""
        p = self.start(tool("victim_leaks"), "5")
        for _ in range(5):
            self.heap(p.pid)
        self.goes_on(p)

    def goes_on(self, p):
        with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
            status = dict(line.split(":\t", 1) for line in f if ":\t" in line)
        self.assertEqual(status["TracerPid"].strip(), "0")
        self.assertIn(status["State"][0], "SR")
        p.stdin.close()
        self.assertEqual(p.wait(60), 0)
        p.stdin = open(os.devnull, "rb")

    def looked_at(self, *args, source):
        """The victim is looked at ten times, and then says what it noticed."""
        p = self.start(tool("victim_waits"), *args)
        for _ in range(10):
            document = self.heap_json(p.pid)
            self.assertEqual(document["source"], source, document.get("note"))
            with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                self.assertEqual(f.read().split(), [])
        p.stdin.close()
        self.assertEqual(p.stdout.read().decode().strip(), "errors 0")
        self.assertEqual(p.wait(60), 0)
        p.stdin = open(os.devnull, "rb")
        return document

    def test_a_thread_that_does_not_stop(self):
        """It waits for a child of vfork. The heap is given up, and the process goes on as if nothing had been."""
        p = subprocess.Popen([tool("victim_vforks")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(self.stop, p)
        self.assertEqual(p.stdout.readline(), b"ready\n")

        def children():
            with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                return f.read()
        while not children():
            time.sleep(0.01)
        done = self.heap(p.pid, status=None)
        self.assertIn("does not stop", done.stderr)
        self.assertNotEqual(children(), "", "the child's end was waited for")
        p.stdin.write(b"x\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"on\n")
        self.settle(p.pid)
        self.goes_on(p)

    def test_a_stop_by_a_signal_ends_a_wait_all_the_same(self):
        """Stopped and continued, epoll_wait returns EINTR. It does so too when the process was looked at while it was stopped."""
        program = """
import ctypes, select
libc = ctypes.CDLL(None, use_errno=True)
poll, events = select.epoll(), ctypes.create_string_buffer(16)
print("ready", flush=True)
print(libc.epoll_wait(poll.fileno(), events, 1, 20000), ctypes.get_errno(), flush=True)
"""
        p = self.start(sys.executable, "-c", program)

        def proc(name):
            with open(f"/proc/{p.pid}/{name}", encoding="utf-8") as f:
                return f.read()
        until = time.monotonic() + 60
        while proc("syscall").split()[0] != str(EPOLL_WAIT) and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(p.pid, signal.SIGSTOP)
        while proc("stat").rsplit(") ", 1)[1][0] != "T" and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.heap_json(p.pid)["source"], "stopped")
        os.kill(p.pid, signal.SIGCONT)
        self.assertEqual(p.stdout.readline(), f"-1 {errno.EINTR}\n".encode())

    def test_a_snapshot_is_not_noticed(self):
        self.looked_at(source="snapshot")

    @unittest.skipUnless(shutil.which("strace"), "SKIPPED, LOUDLY: strace kills mallow at a given call")
    def test_a_killed_look_is_not_noticed(self):
        """Killed before any of its stops and calls: sleeps, polls and timed waits of the thread that it had borrowed begin again."""
        p = self.start(tool("victim_waits"), "killed")
        done = None

        def blocked():
            """The signals that each thread blocks: a thread that was given up has its own ones again."""
            found = {}
            for tid in os.listdir(f"/proc/{p.pid}/task"):
                with open(f"/proc/{p.pid}/task/{tid}/status", encoding="utf-8", errors="replace") as f:
                    found[tid] = next(line.split()[1] for line in f if line.startswith("SigBlk:"))
            return found
        until = time.monotonic() + 60
        while len(set(blocked().values())) > 1 and time.monotonic() < until:  # a thread that starts blocks all for a moment
            time.sleep(0.001)
        before = blocked()
        self.assertEqual(len(set(before.values())), 1, before)
        for n in range(1, 400):
            done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ptrace", "-e",
                                   f"inject=ptrace:signal=KILL:when={n}", MALLOW, "heap", "--json", str(p.pid)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=600)
            self.assertIsNone(p.poll())
            if done.returncode == 0:
                break
            until = time.monotonic() + 60
            while blocked() != before and time.monotonic() < until:
                time.sleep(0.001)
            self.assertEqual(blocked(), before, n)
        self.assertGreater(n, 20)
        self.assertEqual((done.returncode, json.loads(done.stdout)["source"]), (0, "snapshot"))
        p.stdin.close()
        self.assertEqual(p.stdout.read().decode().strip(), "errors 0")
        self.assertEqual(p.wait(60), 0)
        p.stdin = open(os.devnull, "rb")

    def test_a_snapshot_copies_nothing(self):
        """Pages that the copy shares with the process stay shared: reading them makes no page fault."""
        faults = []
        for blocks in (1, 97):
            p = self.start(sys.executable, "-c", f"import sys; b = [bytes([i]) * (1 << 20) for i in range(1, {blocks})]\n"
                           "print('ready', flush=True); sys.stdin.read()")
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            document = self.heap_json(p.pid)
            faults.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before)
            self.assertEqual(document["source"], "snapshot", document.get("note"))
        self.assertGreater(document["used_bytes"], 96 << 20)
        self.assertLess(faults[1] - faults[0], (96 << 20) // 4096 // 2)

    def test_snapshot_of_memory_that_is_not_copied(self):
        """What the process does not hand on when it forks holds blocks all the same."""
        program = """
import ctypes, mmap, struct, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
own = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own.madvise(mmap.MADV_DONTFORK)
for i in range(200):
    own[8 * i:8 * i + 8] = struct.pack("Q", libc.malloc(5432))
print("ready", flush=True)
sys.stdin.read()
"""
        if not hasattr(mmap, "MADV_DONTFORK"):
            self.skipTest("this Python does not know MADV_DONTFORK")
        document = self.heap_json(self.start(sys.executable, "-c", program).pid)
        self.assertEqual((document["source"], document.get("note")), ("snapshot", None))
        self.assertEqual([g for g in document["unreachable"] if g["bytes"] >= 5432], [])
        # Addresses of some stand in what Python freed as well.
        self.assertGreaterEqual(max(r["retained_blocks"] for r in document["roots"] if r["kind"] == "memory"), 150)

    def test_no_snapshot_behind_a_filter(self):
        self.assertIn("seccomp", self.looked_at("seccomp", source="stopped")["note"])

    def test_a_broken_heap_gives_no_totals(self):
        p = self.start(tool("victim_broken"))
        document = self.heap_json(p.pid)
        self.assertFalse(document["verified"])
        self.assertRegex(document["reason"], "overwritten|does not agree")
        for name in ("unreachable_bytes", "unreachable_blocks", "unreachable"):
            self.assertNotIn(name, document)
        self.assertIn("NOT VERIFIED", self.heap(p.pid).stdout)
        out = self.heap("--fail-above", "unreachable=1G", p.pid, status=3)
        self.assertRegex(out.stderr, r"(?m)^mallow heap: unreachable: not known whether it is more than 1\.0 GB: ")
