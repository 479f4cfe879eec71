"""mallow import: files of heaptrack, dj/malloc, mtrace(3) and perf script, sound and damaged."""
import collections
import gzip
import json
import os
import random
import shutil
import struct
import subprocess
import unittest

from mallowtest import main, mallow, path, program

VICTIM, TRACED = program("export/export-victim"), program("import/mtraced")


def report(recording):
    return json.loads(mallow("report", "--json", recording).stdout)["processes"][0]


def imported(text, name="x.txt", *options):
    """The report of the recording made from this text."""
    with open(path(name), "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    mallow("import", path(name), "-o", path("x.mlw"), "-q", *options)
    return report(path("x.mlw"))


def refused(text, status=1, *options):
    """What is said about this damaged file."""
    with open(path("bad"), "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    done = mallow("import", path("bad"), "-o", path("bad.mlw"), *options, status=status)
    assert not os.path.exists(path("bad.mlw"))
    assert not [n for n in os.listdir(path()) if n.endswith(".part")]
    return done.stderr


def setUpModule():
    mallow("record", "-q", "-o", path("v.mlw"), "--", VICTIM)
    for form in ("heaptrack", "mtrace"):
        mallow("export", "--format", form, "-o", path("v." + form), path("v.mlw"))


def leaf_sites(process):
    """Bytes live at the end by (function, line) of the innermost frame."""
    sums = {}
    for s in process["sites"]:
        f = s["frames"][0]
        key = f["function"], f["line"], f["inlined"]
        sums[key] = sums.get(key, 0) + s["end_live_bytes"]
    return sums


FIGURES = ("requested_bytes", "peak_live_bytes", "peak_live_blocks", "end_live_bytes", "end_live_blocks", "allocations")


class Heaptrack(unittest.TestCase):
    def test_round_trip(self):
        mallow("import", path("v.heaptrack"), "-o", path("h.mlw"), "-q")
        was, now = report(path("v.mlw")), report(path("h.mlw"))
        self.assertEqual([now[k] for k in FIGURES], [was[k] for k in FIGURES])
        self.assertEqual(leaf_sites(now), leaf_sites(was))
        frames = [[f["function"] for f in s["frames"]] for s in now["sites"]]
        self.assertIn(["inlined_leaf", "leak", *["recurse"] * 41, "main"], [f[:44] for f in frames])
        self.assertTrue(any("imported from heaptrack" in w for w in now["warnings"]))
        # and out again
        mallow("export", "--format=folded", "--by=end", "-o", path("a"), path("v.mlw"))
        mallow("export", "--format=folded", "--by=end", "-o", path("b"), path("h.mlw"))
        with open(path("a"), encoding="utf-8") as a, open(path("b"), encoding="utf-8") as b:
            self.assertEqual(sorted(a), sorted(b))

    def test_files_of_heaptrack_itself(self):
        if not shutil.which("heaptrack") or not shutil.which("heaptrack_print"):
            self.skipTest("heaptrack is not installed (package heaptrack)")
        done = subprocess.run(["heaptrack", "-o", path("ht"), VICTIM], capture_output=True, text=True, check=False,
                              env=os.environ)
        files = [n for n in os.listdir(path()) if n in ("ht.zst", "ht.gz")]
        if not files:
            self.skipTest("heaptrack recorded nothing here: " + done.stderr[-300:])
        mallow("import", path(files[0]), "-o", path("ht.mlw"), "-q")
        p = report(path("ht.mlw"))
        for cost, value in (("allocations", p["allocations"]), ("leaked", p["end_live_bytes"]),
                            ("peak", p["peak_live_bytes"])):
            subprocess.run(["heaptrack_print", "-f", path(files[0]), "-F", path("flame"), "--flamegraph-cost-type", cost],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            with open(path("flame"), encoding="utf-8") as f:
                self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in f), value, cost)

    def test_compressed(self):
        with open(path("v.heaptrack"), "rb") as f:
            data = f.read()
        was = report(path("v.mlw"))
        self.assertEqual(imported(gzip.compress(data))["end_live_bytes"], was["end_live_bytes"])
        if shutil.which("zstd"):
            packed = subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout
            self.assertEqual(imported(packed)["end_live_bytes"], was["end_live_bytes"])
        # What other bytes mean in the midst of the stream depends on those before: an error, or a stream that ends early.
        with open(path("bad"), "wb") as f:
            f.write(gzip.compress(data)[:-2000] + b"x" * 2000)
        done = mallow("import", path("bad"), "-o", path("bad.mlw"), status=None)
        self.assertIn((done.returncode, "is truncated" in done.stderr), ((1, False), (0, True)), done.stderr)
        self.assertEqual(os.path.exists(path("bad.mlw")), done.returncode == 0)
        if done.returncode == 0:
            os.unlink(path("bad.mlw"))

    def test_cut(self):
        """A file that was cut off is read up to there, however it is packed, and that is said."""
        chance = random.Random(3)
        with open(path("v.heaptrack"), "rb") as f:
            data = f.read() + b"".join(b"# %s\n" % chance.randbytes(99).hex().encode() for _ in range(3000))
        cut = data[:-len(data) // 3]
        cut = cut if cut[-1:] != b"\n" else cut[:-1]
        was = imported(cut[:cut.rindex(b"\n") + 1])
        self.assertNotIn("truncated", str(was["warnings"]))
        forms = [("plain", cut), ("gzip", gzip.compress(cut) + gzip.compress(data[len(cut):])[:-9])]
        if shutil.which("zstd"):
            forms.append(("zstd", subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout[:-10]))
        for form, text in forms:
            with self.subTest(form):
                with open(path("cut"), "wb") as f:
                    f.write(text)
                self.assertIn("cut is truncated", mallow("import", path("cut"), "-o", path("cut.mlw"), "-q",
                                                        "--format=heaptrack").stderr)
                now = report(path("cut.mlw"))
                self.assertTrue(any("is truncated" in w for w in now["warnings"]))
                if form == "plain":
                    self.assertEqual([now[k] for k in FIGURES], [was[k] for k in FIGURES])

    def test_older_formats(self):
        """Before format 3, strings had no length in front; before that, the format had no version of its own."""
        body = "s /bin/a b\ns main\ns my file.c\n#\ni 1234 1 2 3 9\nt 1 0\na 10 1\n+ 0\nc 5\n+ 0\n- 0\n"
        for version in ("v 10000 2", "v 10250 2", "v 10200", "v 10200 1"):
            p = imported(version + "\nX prog arg\nI 1000 100\n" + body)
            self.assertEqual([p[k] for k in FIGURES], [32, 32, 2, 16, 1, 2])
            self.assertEqual([(f["function"], f["file"], f["line"], f["module"]) for f in p["sites"][0]["frames"]],
                             [("main", "my file.c", 9, "a b")])

    def test_raw(self):
        said = refused("v 10550 3\nx 3 /a\nX ./a\nm 1 -\n")
        self.assertIn("heaptrack --interpret", said)
        self.assertIn("line 2", said)

    HEAD = "v 10400 3\nX prog arg\nI 1000 100\n"

    def test_by_hand(self):
        p = imported(self.HEAD + "s 4 main\ns 6 /bin/x\ns 3 x.c\ns 4 leaf\ni 1234 2 4 3 9 1 3 a\nt 1 0\na 10 1\n"
                     "+ 0\nc 5\n+ 0\nR 2\n- 0\n+ 0\n")
        self.assertEqual([p[k] for k in FIGURES], [48, 32, 2, 32, 2, 3])
        self.assertEqual(p["command"], ["prog", "arg"])
        self.assertEqual([(f["function"], f["line"], f["inlined"], f["module"]) for f in p["sites"][0]["frames"]],
                         [("leaf", 9, True, "x"), ("main", 10, False, "x")])
        self.assertEqual(p["calls"]["free"], 1)

    def test_damage(self):
        body = "s 4 main\ni 1 0 1 0 1\nt 1 0\na 10 1\n"
        for text, line, why in (
                ("v 10400 4\n", 1, "format"), ("v 10400 0\n", 1, "format"), ("v 10400\n", 1, "version"),
                (self.HEAD + "s 9 main\n", 4, "as long as"), (self.HEAD + "s main\n", 4, "length"),
                (self.HEAD + "i 1 7\n", 4, "not defined before"), (self.HEAD + "i 1 0 0 0\n", 4, "frame"),
                (self.HEAD + "t 1 0\n", 4, "not defined before"), (self.HEAD + "a 10 1\n", 4, "not defined before"),
                (self.HEAD + "+ 0\n", 4, "not described"), (self.HEAD + body + "- 0\n", 8, "not live"),
                (self.HEAD + body + "+ 0\n- 0\n- 0\n", 10, "not live"), (self.HEAD + body + "+ zz\n", 8, "number"),
                (self.HEAD + "q\n", 4, "not a line"), (self.HEAD + "c 12345678901234567\n", 4, "time"),
                (self.HEAD + "X again\n", 4, "second"), (self.HEAD + "s 3 a\0b\n", 4, "NUL"),
                (self.HEAD + "#" * (2 << 20), 4, "more than")):
            said = refused(text)
            self.assertIn(f"line {line}:", said)
            self.assertIn(why, said)


class Mtrace(unittest.TestCase):
    def test_round_trip(self):
        mallow("import", path("v.mtrace"), "-o", path("m.mlw"), "-q")
        was, now = report(path("v.mlw")), report(path("m.mlw"))
        self.assertEqual([now[k] for k in FIGURES], [was[k] for k in FIGURES])
        self.assertEqual(now["usable_bytes"], was["usable_bytes"])
        calls = dict(was["calls"], mmap=0, munmap=0)
        self.assertEqual(now["calls"], calls)
        self.assertEqual((now["threads"], now["unknown_frees"], now["inferred_frees"]), (was["threads"], 0, 0))
        self.assertEqual(now["failed_calls"], was["failed_calls"])

    def test_damage(self):
        with open(path("v.mtrace"), "rb") as f:
            data = f.read()
        self.assertIn("offset", refused(data[:-1]))
        self.assertIn("type 77", refused(data + struct.pack("<iI7Q", 1, 77, *[0] * 7)))


class MtraceText(unittest.TestCase):
    """What mtrace(3) writes."""
    BODY = ("= Start\n@ %s:[0x11b1] + 0x1000 0x64\n@ %s:[0x11b1] + 0x2000 0xc8\n@ %s:[0x11ed] < 0x2000\n"
            "@ %s:[0x11ed] > 0x3000 0x12c\n@ %s:[0x11fd] - 0x1000\n@ %s:[0x122e] + (nil) 0x4000000000000000\n"
            "@ [0x7f0011223344] ! 0x3000 0x5000000000000000\n+ 0x1000 0\n= End\n").replace("%s", "/nonexistent/my prog")

    def test_by_hand(self):
        p = imported(self.BODY)
        self.assertEqual((p["allocations"], p["failed_calls"], p["end_live_bytes"], p["end_live_blocks"], p["peak_live_bytes"],
                          p["calls"]["free"], p["calls"]["realloc"]), (4, 2, 300, 2, 400, 1, 2))
        sites = [[f["function"] for f in s["frames"]] for s in p["sites"]]
        self.assertIn(["my prog+0x11b1"], sites)
        self.assertTrue(any("mtrace(3)" in w for w in p["warnings"]))

    def test_names(self):
        # of the file, where it is there
        nm = subprocess.run(["nm", VICTIM], capture_output=True, text=True, check=True).stdout
        main = next(int(line.split()[0], 16) for line in nm.splitlines() if line.endswith(" T main"))
        p = imported(f"= Start\n@ {VICTIM}:[{main + 5:#x}] + 0x1000 0x64\n")
        self.assertEqual(p["sites"][0]["frames"][0]["function"], "main")
        # as it is said, where some file is not; also with addresses, as before glibc 2.34
        p = imported(self.BODY + "@ ./lib.so:(make_it+0x12)[0x7f1122334455] + 0x9000 0x7\n")
        self.assertIn([("make_it", "lib.so")], [[(f["function"], f["module"]) for f in s["frames"]] for s in p["sites"]])

    def test_of_glibc_itself(self):
        done = subprocess.run([TRACED], capture_output=True, text=True, check=False,
                              env=dict(os.environ, LD_PRELOAD="libc_malloc_debug.so.0", MALLOC_TRACE=path("trace")))
        if not os.path.exists(path("trace")):
            self.skipTest("libc_malloc_debug.so.0 is not here: " + done.stderr[-200:])
        mallow("import", path("trace"), "-o", path("trace.mlw"), "-q")
        p = report(path("trace.mlw"))
        self.assertEqual([p[k] for k in FIGURES], [100 + 200 + 300 + 15 + 1000000, 1000400, 3, 1000400, 3, 5])
        calls = collections.Counter()
        for s in p["sites"]:
            calls[s["frames"][0]["function"]] += s["calls"]
        self.assertEqual(calls, {"made": 2, "main": 3})

    def test_damage(self):
        for text, line, why in (("@ a + 0x1 0x2\n", 2, "caller"), ("@ a:[0x] + 0x1 0x2\n", 2, "address"),
                                ("@ a:[0x1] + 0x1\n", 2, "not a line"), ("@ a:[0x1] ? 0x1 0x2\n", 2, "not a line"),
                                ("@ a:[0x1] < 0x1\n+ 0x1 0x2\n", 3, "second line"), ("> 0x1 0x2\n", 2, "its first"),
                                ("- 0x1 0x2\n", 2, "not a line"), ("", 1, "no call")):
            said = refused("= Start\n" + text)
            self.assertIn(f"line {line}:", said)
            self.assertIn(why, said)


def perf_text(events):
    """perf script's text of (tid, time, event, arguments, frames)."""
    out = []
    for tid, time, event, arguments, frames in events:
        out.append(f"my prog {tid:7} [000] {time:.6f}: probe_libc:{event}: (7f00) {arguments}\n")
        out += [f"\t    {pc:x} {symbol} ({module})\n" for pc, symbol, module in frames]
        out.append("\n")
    return "".join(out)


STACK = [(0x7F1234, "malloc+0x0", "/lib/libc.so.6"), (0x401000, "make+0x10", "/bin/prog"),
         (0x402000, "main+0x20", "/bin/prog")]


class Perf(unittest.TestCase):
    def test_by_hand(self):
        p = imported(perf_text([
            (7, 1.0, "malloc", "bytes=0x64", STACK), (7, 1.1, "malloc__return", "ret=0x1000", []),
            (8, 1.2, "malloc", "bytes=50", STACK), (7, 1.25, "calloc", "n=3 elem_size=7", STACK[1:]),
            (8, 1.3, "malloc__return", "ret=0x2000", []), (7, 1.35, "calloc__return", "ret=0x3000", []),
            (8, 1.4, "free", "mem=0x1000", []), (7, 1.5, "realloc", "oldmem=0x2000 bytes=200", STACK),
            (7, 1.6, "realloc__return", "ret=0x4000", []), (7, 1.7, "malloc", "bytes=10", []),
            (7, 1.8, "malloc__return", "ret=0x0", []), (7, 1.9, "free", "mem=0x0", [])]))
        self.assertEqual([p[k] for k in FIGURES], [371, 221, 2, 221, 2, 4])
        self.assertEqual((p["threads"], p["failed_calls"], p["null_frees"], p["cross_thread_frees"]), (2, 1, 1, 2))
        names = [[f["function"] for f in s["frames"]] for s in p["sites"] if s["end_live_bytes"] == 21]
        self.assertEqual(names, [["make", "main"]])
        self.assertEqual(p["duration_ns"], 900_000_000)

    HEAD_LINE = "perfp   29073 [001]  5696.887472:         probe_libc:malloc"

    def test_the_caller_is_in_the_return(self):
        """Frame pointers skip the caller at malloc's entry; addresses as perf prints them before 6.12 and since."""
        rest = "\t          116c main+0x15 (/srv/perfp)\n"
        before = f"{self.HEAD_LINE}: (7f740f9d4930) size=0x64\n\t  98930 malloc+0x0 (/lib/libc.so.6)\n{rest}\n" \
                 f"{self.HEAD_LINE}__return: (7f740f9d4930 <- 5640e7ee0155) ret=0x5641079022a0\n" \
                 f"\t           1155 mk+0xc (/srv/perfp)\n{rest}\n"
        p = imported(before)
        self.assertEqual([f["function"] for f in p["sites"][0]["frames"]], ["mk", "main"])
        since = before.replace(" 98930 malloc+0x0", "7f740f9d4930 [unknown]").replace("  1155 mk", "5640e7ee0155 mk") \
            .replace(rest, "\t5640e7ee016c main+0x15 (/srv/perfp)\n\t7f740f96324a [unknown] (/lib/libc.so.6)\n")
        p = imported(since)
        self.assertEqual([f["function"] for f in p["sites"][0]["frames"]], ["mk", "main", "0x7f740f96324a"])
        mapped = "perfp 29073 5696.88: PERF_RECORD_MMAP2 29073/29073: [0x7f740f962000(0x156000) @ 0x26000 fe:01 12 34]: " \
                 "r-xp /lib/libc.so.6\n"
        p = imported(mapped + since)
        self.assertEqual([f["function"] for f in p["sites"][0]["frames"]], ["mk", "main", "libc.so.6+0x2724a"])
        # a return whose stack is another one, as of a cut entry, changes nothing
        p = imported(before.replace(f"mk+0xc (/srv/perfp)\n{rest}", "mk+0xc (/srv/perfp)\n"))
        self.assertEqual([f["function"] for f in p["sites"][0]["frames"]], ["main"])

    def test_lines_about_mappings_and_tasks(self):
        events = perf_text([(7, 1.0, "malloc", "bytes=0x64", STACK), (7, 1.1, "malloc__return", "ret=0x1000", [])])
        halves = events.split("\n\n")
        between = ("my prog 7 [000] 1.05: PERF_RECORD_COMM exec: my prog:7/7\n"
                   "my prog 7 [000] 1.05: PERF_RECORD_FORK(8:8):(7:7)\n"
                   "my prog 7 [000] 1.05: PERF_RECORD_MMAP2 7/7: [0x1000(0x1000) @ 0 00:00 0 0]: r-xp [vdso]\n"
                   "my prog 7 [000] 1.05: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1000) @ 0]: x [kernel.kallsyms]_text\n"
                   ":7 7 1.05: PERF_RECORD_EXIT(7:7):(1:1)\n")
        p = imported(between + halves[0] + "\n\n" + between + halves[1] + "\n\n" + between)
        self.assertEqual((p["allocations"], p["end_live_bytes"]), (1, 100))
        self.assertEqual([f["function"] for f in p["sites"][0]["frames"]], ["make", "main"])

    def test_frames_of_other_events(self):
        """Indented by blanks, as an editor leaves them; a program's short name is, too."""
        events = perf_text([(7, 1.0, "malloc", "bytes=0x64", STACK), (7, 1.1, "malloc__return", "ret=0x1000", [])])
        other = "      dd     9 [000] 0.900000:   10101010 cpu-clock:uhH: \n        562039122f0f <std::map<K, V> as x>::trace+0xbf (/bin/x)\n" \
                "           dd777 main+0x1 (/bin/dd)\n"
        for text in (other + "\n" + events, other + other + "\n" + events, events + other):
            p = imported(text)
            self.assertEqual((p["allocations"], p["end_live_bytes"]), (1, 100))
        self.assertIn("line 2", refused(other.replace("562039122f0f", "THIS_IS_WEIRD ")[:other.index("dd777")] + events))

    def test_inlined_and_unknown_frames(self):
        p = imported(perf_text([(7, 1.0, "malloc", "arg1=0x10",
                                 [STACK[0], (0x401000, "tiny", "inlined"), (0x401000, "make+0x10", "/bin/prog"),
                                  (0x9999, "[unknown]", "[unknown]")]),
                                (7, 1.1, "malloc__return", "arg1=0x1000", [])]))
        frames = p["sites"][0]["frames"]
        self.assertEqual([(f["function"], f["inlined"]) for f in frames],
                         [("tiny", True), ("make", False), ("0x9999", False)])

    def test_damage(self):
        good = perf_text([(7, 1.0, "malloc", "bytes=1", STACK), (7, 1.1, "malloc__return", "ret=0x10", [])])
        for text, why in ((good + "rubbish\n", "line 8"), (good + perf_text([(7, 2, "malloc", "", [])]), "without its size"),
                          (good + perf_text([(7, 2, "free", "", [])]), "without its argument"),
                          (good + perf_text([(7, 2, "malloc__return", "", [])]), "without its value")):
            self.assertIn(why, refused(text))
        self.assertIn("no event", refused(perf_text([(7, 1.0, "open", "x=1", [])]), 1, "--format=perf"))

    def test_perf_itself(self):
        libc = next((line.split("=>")[1].split()[0] for line in
                     subprocess.run(["ldd", VICTIM], capture_output=True, text=True, check=True).stdout.splitlines()
                     if "libc.so" in line), None)
        if not shutil.which("perf") or os.geteuid() or not libc:
            self.skipTest("perf (package linux-perf) as root is needed for probes of the kernel")
        group = f"mallow_test_{os.getpid()}"
        probes = ["malloc bytes=%di", "malloc%return ret=$retval", "calloc n=%di elem_size=%si",
                  "calloc%return ret=$retval", "realloc oldmem=%di bytes=%si", "realloc%return ret=$retval",
                  "free mem=%di"]
        try:
            for probe in probes:
                event = probe.split()[0].replace("%return", "")
                done = subprocess.run(["perf", "probe", "-q", "-x", libc, f"{group}:{event}={probe}"],
                                      capture_output=True, text=True, check=False)
                if done.returncode:
                    self.skipTest("perf probe does not work here: " + done.stderr.strip()[-200:])
            done = subprocess.run(["perf", "record", "-q", "-g", "-m", "4M", "-e", f"{group}:*", "-o",
                                   path("perf.data"), VICTIM], capture_output=True, text=True, check=False)
            if done.returncode or "lost" in done.stderr.lower():
                self.skipTest("perf record does not work here: " + done.stderr.strip()[-200:])
            text = subprocess.run(["perf", "script", "-i", path("perf.data")], capture_output=True, check=True).stdout
        finally:
            subprocess.run(["perf", "probe", "-q", "-d", f"{group}:*"], capture_output=True, check=False)
        shown = subprocess.run(["perf", "script", "-i", path("perf.data"), "--show-mmap-events", "--show-task-events"],
                               capture_output=True, check=True).stdout
        self.assertIn(b"PERF_RECORD_MMAP2", shown)
        self.assertEqual(imported(shown, "shown.txt")["calls"], imported(text, "perf.txt")["calls"])
        p, was = imported(text, "perf.txt"), report(path("v.mlw"))
        for name in ("calloc", "realloc"):
            self.assertEqual(p["calls"][name], was["calls"][name])
        self.assertGreaterEqual(p["calls"]["malloc"], was["calls"]["malloc"])
        functions = {f["function"] for s in p["sites"] for f in s["frames"]}
        self.assertIn("main", functions)


class Any(unittest.TestCase):
    def test_usage(self):
        self.assertIn("-o FILE.mlw", mallow("import", path("v.mtrace"), status=2).stderr)
        self.assertIn("neither", refused("hello\nworld\n", 2))
        self.assertIn("neither", refused("", 2))
        mallow("import", "/nonexistent", "-o", path("x.mlw"), status=1)
        mallow("import", path("v.mtrace"), "-o", path("v.mtrace"), status=2)
        mallow("import", path("v.mtrace"), "-o", "/nonexistent/x.mlw", status=1)

    def test_random_damage(self):
        """Bytes changed, parts cut out or doubled: an error or a recording, never a crash."""
        chance = random.Random(6)
        good = perf_text([(7, 1 + i / 10, "malloc" + "__return" * (i % 2), f"bytes={i} ret={i * 64}", STACK)
                          for i in range(40)]).encode()
        sources = [good]
        for name in ("v.heaptrack", "v.mtrace"):
            with open(path(name), "rb") as f:
                sources.append(f.read()[:20000])
        refusals = 0
        for turn in range(90):
            data = bytearray(sources[turn % 3])
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(data))
                what = chance.randrange(3)
                if what == 0:
                    data[at] = chance.randrange(256)
                elif what == 1:
                    del data[at:at + chance.randrange(1, 200)]
                else:
                    data[at:at] = data[at:at + chance.randrange(1, 200)]
            with open(path("r"), "wb") as f:
                f.write(data)
            done = mallow("import", path("r"), "-q", "-o", path("r.mlw"), status=None)
            self.assertIn(done.returncode, (0, 1, 2), done.stderr)
            refusals += done.returncode != 0
            if done.returncode == 0:
                report(path("r.mlw"))
        self.assertGreater(refusals, 10)
