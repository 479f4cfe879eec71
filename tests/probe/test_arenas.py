"""`probe arenas`: on an eight-thread program against its own malloc_info, and on a library that has
all of glibc's static probes with arguments of every form."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW
from mallowtest.libcfacts import MAPPED_SAYS
from probing import Case, attached, for_others, main, mallow, reads, victim

LIBRARY = victim("libnotes_victim.so")
ARENA = 0x7f1000000030
with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
    LIBC = next(line.split()[-1] for line in maps if "/libc.so.6" in line)
with open(LIBC, "rb") as file:
    STATIC_PROBES = b"libc\0memory_arena_new\0" in file.read()  # Ubuntu builds it with them, Debian without
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}


class Notes(Case):
    """The probes, read from notes."""

    def events(self):
        document = self.probe("arenas", "--lib", LIBRARY, "--", victim("notes_main"), status=1)
        return document, [(e["event"], e["arguments"]) for e in document["events"]]

    def test_every_probe_and_every_form_of_argument(self):
        document, events = self.events()
        self.assertIn("31 static probes of", document["source"])
        heap = 0x7f1000000000
        [wait] = [a for name, a in events if name == "arena_reuse_wait"]
        self.assertEqual(events, [
            ("heap_new", [heap, 135168]), ("heap_new", [heap + (64 << 20), 200704]), ("heap_more", [heap, 139264]),
            ("heap_less", [heap, 135168]), ("heap_free", [heap + (64 << 20), 0x31000]), ("arena_new", [ARENA, 136]),
            ("arena_reuse", [ARENA, 0]), ("arena_reuse_free_list", [ARENA]),
            ("arena_reuse_wait", [wait[0], ARENA, 0]), ("arena_retry", [77, ARENA]), ("sbrk_more", [heap, 266240]),
            ("sbrk_less", [heap, 4096]), ("sbrk_more", [0, 1 << 20]), ("malloc_retry", [0x2345, 0]),
            ("realloc_retry", [0x45, ARENA]), ("memalign_retry", [-2, 65534]), ("calloc_retry", [-9]),
            ("tcache_double_free", [ARENA, events[17][1][1]]), ("mallopt", [-3, 262144]),
            ("mallopt_free_dyn_thresholds", [65536, 131072]), ("mallopt_mxfast", [-1, 128]),
            ("mallopt_trim_threshold", [500000, 131072, 0]), ("mallopt_top_pad", [7, 0, 1]),
            ("mallopt_mmap_threshold", [heap, 65536, 1]), ("mallopt_mmap_max", [9, 65536, 1]),
            ("mallopt_perturb", [1, 0]), ("mallopt_arena_test", [2, 4096]), ("mallopt_arena_max", [4, 0]),
            ("tunable_tcache_max_bytes", [1032, 1040]), ("tunable_tcache_count", [7, 7]),
            ("tunable_tcache_unsorted_limit", [0, 3])])

    def test_without_the_symbols_of_arguments(self):
        """As a distribution's library is, whose debug symbols are not installed: an event whose place needs one is lost, and of a
        setting what it was before. That is said in one line, and in not_seen."""
        _, events = self.events()
        with tempfile.TemporaryDirectory() as folder:
            library, program = os.path.join(folder, os.path.basename(LIBRARY)), os.path.join(folder, "notes_main")
            subprocess.run(["strip", "-s", "-o", library, LIBRARY], check=True)
            shutil.copy(victim("notes_main"), program)
            out = mallow("probe", "arenas", "--json", "--lib", library, "--", program, env={"LD_LIBRARY_PATH": folder})
        self.assertEqual(out.returncode, 1, out.stderr)
        document = json.loads(out.stdout)
        lost = ["sbrk_more", "sbrk_less", "calloc_retry", "mallopt_free_dyn_thresholds"]
        self.assertEqual([e["event"] for e in document["events"]],
                         [name for name, arguments in events if name not in lost or arguments[0] == 0])  # that is a constant
        [test] = [e["arguments"] for e in document["events"] if e["event"] == "mallopt_arena_test"]
        self.assertEqual(test, [2, None])
        self.assertEqual(document["not_seen"], [", ".join(lost), "former values of mallopt_arena_test"])
        lines = [line for line in out.stderr.splitlines() if "the probes slow" not in line]
        self.assertEqual(len(lines), 1, out.stderr)
        self.assertIn(f"{library} has no symbol places, at which some of its static probes have arguments", lines[0])

    def test_what_they_amount_to(self):
        document, _ = self.events()
        self.assertEqual(document["not_seen"], [])
        self.assertEqual(document["sbrk_bytes"], 266240 - 4096)  # the break was not moved to 0
        self.assertEqual(document["heaps"], [{"address": "0x7f1000000000", "bytes": 135168}])
        self.assertEqual([(a["address"], a["main"], len(a["threads"])) for a in document["arenas"]],
                         [(hex(ARENA), False, 1), ("0x0", True, 0)])  # the break is the main one's, wherever that lies
        self.assertEqual([w["count"] for w in document["waits"]], [1])
        self.assertEqual((document["mmap_threshold_bytes"], document["trim_threshold_bytes"]),
                         (0x7f1000000000, 500000))

    def test_the_summary_of_the_founding_script(self):
        out = mallow("probe", "arenas", "--lib", LIBRARY, "--", victim("notes_main"))
        self.assertEqual(out.returncode, 1, out.stderr)
        text = re.sub(r"\b\d{2,6}\b(?=:|$)", "TID", out.stdout, flags=re.M)
        self.assertIn("TID: New heap\nTID: New heap\nTID: Created new arena\n", text)
        self.assertIn("TID: mallopt M_MMAP_THRESHOLD TID\n", text)  # as the number is six digits long
        self.assertIn("TID: New thresholds:: mmap: 65536 bytes, trim: 131072 bytes\n", text)
        self.assertTrue(text.endswith("Contention:\n\tTID: 1 wait\nActive arenas:\n\t0x7f1000000030 <- TID\n"
                                      "Allocated heaps: 1, 135168 bytes\n\t0x7f1000000000 -> 135168 bytes\n"
                                      "Total sbrk: 262144 bytes\n"
                                      f"Mmap threshold in the end: {0x7f1000000000 // 1024} kb\n"), text)


class Agrees:
    """What a source tells of the eight-thread victim, beside the victim's own malloc_info and mallinfo2."""
    source = None
    program = ()  # in front of the victim
    more = ()  # options
    sees_reuse = True
    sees_main = True  # that the main thread has the main arena
    user = {}

    def run_victim(self, name="arenas_victim", options=(), env=()):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            path = os.path.join(folder, "out")
            out = subprocess.run([MALLOW, "probe", "arenas", "--source", self.source, "--json", "-o", path, *self.more,
                                  *options, "--", *self.program, victim(name)], capture_output=True, text=True,
                                 check=False, env=dict(os.environ, **dict(env)), timeout=600, **self.user)
            if "neither glibc's static probes nor debug symbols" in out.stderr:
                self.assertIn("apt-get install libc6-dbg", out.stderr)
                self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg)")
            self.assertEqual(out.returncode, 0, out.stderr)
            with open(path, encoding="utf-8") as f:
                document = json.load(f)
        self.assertEqual(document["lost"], 0)
        self.assertTrue(document["source"])
        return document, out.stdout

    def compare(self, thresholds=(1200128 - MAPPED_SAYS, 2 * (1200128 - MAPPED_SAYS)), **env):
        document, stdout = self.run_victim(env=env)
        total, info = stdout.split("\n", 1)
        # Of each arena its "current" system bytes; the last is the sum.
        sizes = [int(n) for n in re.findall(r'<system type="current" size="(\d+)"/>', info)]
        self.assertEqual(document["sbrk_bytes"], sizes[0])
        self.assertEqual(sorted(h["bytes"] for h in document["heaps"]), sorted(sizes[1:-1]))
        self.assertEqual(document["sbrk_bytes"] + sum(h["bytes"] for h in document["heaps"]), int(total))
        self.assertEqual((document["mmap_threshold_bytes"], document["trim_threshold_bytes"]), thresholds)
        if self.sees_main:
            self.assertEqual([a["main"] for a in document["arenas"]].count(True), 1)
        return document, [e["event"] for e in document["events"]]

    def test_it_agrees_with_malloc_info(self):
        document, names = self.compare()
        self.assertEqual((names.count("heap_new"), names.count("arena_new")), (8, 8))
        self.assertEqual([e["arguments"] for e in document["events"] if e["event"] == "mallopt_free_dyn_thresholds"],
                         [[n - MAPPED_SAYS, 2 * (n - MAPPED_SAYS)] for n in (303104, 602112, 1200128)])
        self.assertEqual(len(document["arenas"]), 8 + self.sees_main)

    def test_with_few_arenas(self):
        document, names = self.compare(MALLOC_ARENA_MAX="3")
        self.assertEqual((names.count("heap_new"), names.count("arena_new")), (2, 2))
        if self.sees_reuse:
            self.assertGreaterEqual(names.count("arena_reuse"), 6)
        self.assertEqual(len(document["arenas"]), 3)

    def test_heaps_of_huge_pages(self):
        """They are of 8 MiB until glibc 2.42, and the main arena's memory is mapped: brk makes none of it."""
        document, stdout = self.run_victim(env=HUGE)
        sizes = [int(n) for n in re.findall(r'<system type="current" size="(\d+)"/>', stdout)]
        self.assertEqual(sorted(h["bytes"] for h in document["heaps"]), sorted(sizes[1:-1]))
        self.assertEqual(document["sbrk_bytes"], 0)
        self.assertEqual((len([a for a in document["arenas"] if not a["main"]]), len(document["heaps"])), (8, 8))
        document, stdout = self.run_victim("arenas_family", env=HUGE)
        self.assertEqual(sum(h["bytes"] for h in document["heaps"]), int(stdout.split()[0]))
        names = [e["event"] for e in document["events"]]
        self.assertEqual((names.count("heap_new") - names.count("heap_free"), names.count("arena_new")), (1, 1))
        self.assertGreaterEqual(names.count("heap_new"), 2)

    def test_requests_beside_the_threshold(self):
        """The victim's own requests: four large ones, and 8 times 2000 small ones; the library's are few."""
        document, _ = self.run_victim(options=["--sizes"])
        regimes = {r["mmap_threshold_bytes"]: r for r in document["requests"]}
        self.assertEqual(sorted(regimes), [131072, *(n - MAPPED_SAYS for n in (303104, 602112, 1200128))])
        self.assertEqual([regimes[t]["from"] for t in sorted(regimes)], [1, 1, 1, 0])
        self.assertEqual(regimes[303104 - MAPPED_SAYS]["below"], 1)
        self.assertEqual(sum(h["calls"] for h in regimes[303104 - MAPPED_SAYS]["histogram"]), 2)
        [large] = [h for h in regimes[602112 - MAPPED_SAYS]["histogram"] if not h["below"]]
        self.assertEqual((large["min_bytes"], large["max_bytes"], large["calls"]), (1 << 20, (1 << 21) - 1, 1))
        small = sum(h["calls"] for h in regimes[1200128 - MAPPED_SAYS]["histogram"] if h["max_bytes"] in range(64, 8192))
        self.assertGreaterEqual(small, 16000)
        self.assertLess(small, 16100)


class Symbols(Agrees, Case):
    """The functions of the C library that its debug symbols name."""
    source = "symbols"


    def test_a_process_with_a_past(self):
        """Attached when all has happened, it knows what is there."""
        self.look_back((1200128 - MAPPED_SAYS, 2 * (1200128 - MAPPED_SAYS)))

    def test_a_past_with_heaps_of_huge_pages(self):
        self.look_back(None, HUGE)

    def look_back(self, thresholds, env=()):
        with subprocess.Popen([victim("arenas_victim"), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=dict(os.environ, **dict(env))) as process:
            process.stdin.write("go\n")
            process.stdin.flush()
            total, lines = int(process.stdout.readline()), [process.stdout.readline()]
            while "</malloc>" not in lines[-1]:
                lines.append(process.stdout.readline())
            with subprocess.Popen([MALLOW, "probe", "arenas", "--source", self.source, "--json", "-p",
                                   str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as probe:
                attached(probe)
                process.communicate("end\n")
                out, err = probe.communicate()
        if "apt-get install libc6-dbg" in err:
            self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg)")
        self.assertEqual(probe.returncode, 0, err)
        self.assertEqual([line for line in err.splitlines() if "the probes slow" not in line], [])
        document = json.loads(out)
        sizes = [int(n) for n in re.findall(r'<system type="current" size="(\d+)"/>', "".join(lines))]
        self.assertEqual(sum(sizes[:-1]), total)
        self.assertEqual(document["sbrk_bytes"], sizes[0] if thresholds else 0)
        self.assertEqual(sorted(h["bytes"] for h in document["heaps"]), sorted(sizes[1:-1]))
        if thresholds:
            self.assertEqual((document["mmap_threshold_bytes"], document["trim_threshold_bytes"]), thresholds)
        self.assertEqual(document["events"], [])
        self.assertEqual((len(document["arenas"]), [a["main"] for a in document["arenas"]].count(True)), (9, 1))


class Preload(Agrees, Case):
    """The library inside the program."""
    source = "preload"

    def test_what_the_environment_sets(self):
        tunables = "glibc.malloc.mmap_threshold=262144:glibc.malloc.arena_max=3"
        document, names = self.compare((262144, 131072), GLIBC_TUNABLES=tunables)
        self.assertEqual([e["arguments"] for e in document["events"] if e["event"] == "mallopt_mmap_threshold"],
                         [[262144, 131072, 0]])
        self.assertNotIn("mallopt_free_dyn_thresholds", names)
        document, _ = self.compare((0x50000, 131072), MALLOC_MMAP_THRESHOLD_="0x50000")
        self.assertEqual(document["mmap_threshold_bytes"], 0x50000)

    def test_children(self):
        document, stdout = self.run_victim("arenas_tree")
        child = int(stdout.split()[0])
        self.assertIn(child, [c["pid"] for c in document["children"]])
        [forked] = [c for c in document["children"] if c["pid"] == child]
        # It has what its parent had at the fork, and one heap grew.
        self.assertEqual(sorted(h["bytes"] for h in forked["heaps"]), sorted(map(int, stdout.split()[1:])))
        document, _ = self.run_victim("arenas_tree", ["--no-follow"])
        self.assertEqual(document["children"], [])

    def test_the_program_is_left_alone(self):
        """errno, forks while others allocate, a sandbox that kills for nearly every system call."""
        document, stdout = self.run_victim("arenas_harsh")
        self.assertEqual(stdout, "ok\n")
        self.assertEqual(len(document["children"]), 20)

    def test_every_call_of_the_family(self):
        """Blocks of every function, large and small; a second heap in an arena, and its end."""
        document, stdout = self.run_victim("arenas_family")
        heaps, sbrk = int(stdout.split()[0]), int(stdout.split()[1])
        names = [e["event"] for e in document["events"]]
        self.assertEqual(sum(h["bytes"] for h in document["heaps"]), heaps)
        self.assertEqual(document["sbrk_bytes"], sbrk)
        self.assertGreaterEqual(names.count("heap_new"), 2)
        self.assertGreaterEqual(names.count("heap_free"), 1)
        self.assertIn("sbrk_less", names)
        self.assertIn("arena_reuse_free_list", names)
        self.assertEqual([e["arguments"] for e in document["events"] if e["event"] == "mallopt"],
                         [[-3, 1 << 20], [-1, 128 << 10]])
        self.assertEqual(document["mmap_threshold_bytes"], 1 << 20)


class PreloadAsAnybody(Preload):
    """The same by a user without rights, who gets it without asking."""
    source = "best"

    def setUp(self):
        if os.geteuid() == 0:
            self.user = {"user": 65534, "group": 65534, "extra_groups": []}
            for_others(self)

    def test_it_says_why(self):
        with subprocess.Popen([MALLOW, "probe", "arenas", "--", "/bin/sh", "-c", "echo $MALLOW_ARENAS; read go"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              **self.user) as probe:
            shared = probe.stdout.readline().rstrip("\n")
            self.assertTrue(shared.startswith("/dev/shm/mallow-arenas-") and os.path.exists(shared), shared)
            probe.stdin.write("go\n")
            probe.stdin.close()
            stdout, stderr = probe.stdout.read(), probe.stderr.read()  # readline may have read ahead
            probe.wait(600)
        self.assertEqual((probe.returncode, os.path.exists(shared)), (0, False))
        self.assertEqual(stderr.count("\n"), 1, stderr)
        self.assertIn("a library inside the program, because programs are loaded into the kernel", stderr)
        self.assertIn("libmallow-arenas.so in the program\n", stdout)
        self.assertIn("Contention: not seen from within the program\n", stdout)


class Calls(Agrees, Case):
    """System calls alone."""
    source = "calls"
    sees_reuse = False

    def test_a_process_that_lives_on(self):
        """Sizes that changed without a system call are asked for at the end."""
        with subprocess.Popen([victim("arenas_victim"), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            reads(process)
            with subprocess.Popen([MALLOW, "probe", "arenas", "--source", "calls", "--json", "-p", str(process.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
                attached(probe)
                process.stdin.write("go\n")
                process.stdin.flush()
                lines = [process.stdout.readline()]
                while "</malloc>" not in lines[-1]:
                    lines.append(process.stdout.readline())
                probe.send_signal(signal.SIGINT)
                out, err = probe.communicate()
                self.assertEqual(probe.returncode, 0, err)
            process.communicate("end\n")
        document = json.loads(out)
        sizes = [int(n) for n in re.findall(r'<system type="current" size="(\d+)"/>', "".join(lines))]
        self.assertEqual(sorted(h["bytes"] for h in document["heaps"]), sorted(sizes[1:-1]))


class Founding(Case):
    """The output of the founding script, for a program with many threads that is on most machines."""

    def test_git_with_six_threads(self):
        if not shutil.which("git"):
            self.skipTest("SKIPPED, LOUDLY: no git")
        with tempfile.TemporaryDirectory() as folder:
            for i in range(60):
                with open(os.path.join(folder, f"{i}.txt"), "w", encoding="ascii") as f:
                    f.write("".join(f"line {n} of {i}\n" for n in range(2000 * (1 + i % 12))))
            out = mallow("probe", "arenas", "--no-follow", "--", "git", "--no-pager", "grep", "--no-index", "--threads", 6,
                         "no such word", cwd=folder)
        self.assertEqual(out.returncode, 1, out.stderr)  # nothing found
        live, summary = re.split(r"(?m)^arenas: 1 process in .*\n(?:from|  ).*\n(?:  .*\n)*", out.stdout)
        form = r"(\d+: (New heap|Created new arena|failed to allocate on own arena, trying another|" \
               r"New thresholds:: mmap: [0-9]+ bytes, trim: [0-9]+ bytes)\n)*"
        self.assertRegex(live, f"^{form}$")
        made = {m for m in re.findall(r"(?m)^(\d+): Created new arena$", live)}
        self.assertTrue(1 <= len(made) <= 6, live)
        self.assertLessEqual(made, set(re.findall(r"(?m)^(\d+): New heap$", live)))
        self.assertRegex(summary, r"^(Not seen by this source: .*\n)?Contention.*\n(\t\d+: \d+ waits?\n)*"
                                  r"Active arenas:\n(\t\w+ <-( \d+)+\n)+"
                                  rf"Allocated heaps: {len(made)}, [0-9]+ bytes\n(\t0x[0-9a-f]+ -> [0-9]+ bytes\n){{{len(made)}}}"
                                  r"Total sbrk: [0-9]+ bytes\nMmap threshold in the end: [0-9]+ kb\n$")


class Losses(Case):
    """Nobody reads while more is told than there is room for: what is lost is counted, and no more."""

    def flood(self, source):
        with subprocess.Popen([victim("memory_victim"), "flood"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            reads(p)
            with subprocess.Popen([MALLOW, "probe", "arenas", "--source", source, "--json", "-p", str(p.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
                attached(probe)
                probe.send_signal(signal.SIGSTOP)
                p.stdin.write(b"g")
                p.stdin.flush()
                done = p.stdout.readline() if probe.poll() is None else b""
                probe.send_signal(signal.SIGCONT)
                p.communicate(b"g")
                text, err = probe.communicate(timeout=600)
                if "apt-get install libc6-dbg" in err:
                    self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg)")
                self.assertEqual((probe.returncode, done), (0, b"done\n"), err)
        return json.loads(text)

    def test_every_event_is_told_or_counted(self):
        document = self.flood("symbols")
        told = sum(e["event"] in ("sbrk_more", "sbrk_less") for e in document["events"])
        self.assertGreater(document["lost"], 0)
        self.assertGreater(told, 0)
        self.assertEqual(told + document["lost"], 2 * 50000)

    def test_the_text_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            with subprocess.Popen([MALLOW, "probe", "arenas", "--source", "calls", "-o", path, "--",
                                   victim("memory_victim"), "flood"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as probe:
                attached(probe)
                probe.send_signal(signal.SIGSTOP)
                probe.stdin.write(b"g")
                probe.stdin.flush()
                self.assertEqual(probe.stdout.readline(), b"done\n")
                probe.send_signal(signal.SIGCONT)
                probe.communicate(b"g")
            self.assertEqual(probe.returncode, 0)
            with open(path, encoding="utf-8") as f:
                self.assertRegex(f.read(), r"(?m)^[0-9,]+ events lost: the ring buffer was full$")


class NotSeen(Case):
    """What a source cannot see is said, in JSON and in the text; what it can is told as it is."""

    def probe(self, source, *options, **env):
        out = mallow("probe", "arenas", "--source", source, *options, "--", victim("arenas_family"), "twice", env=env)
        if "apt-get install libc6-dbg" in out.stderr:
            self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg)")
        return out

    def test_a_double_free(self):
        out = self.probe("symbols", "--json")
        self.assertEqual(out.returncode, 134, out.stderr)
        document = json.loads(out.stdout)
        self.assertEqual([e["event"] for e in document["events"] if "double" in e["event"]], ["tcache_double_free"])
        self.assertIn("realloc_retry", document["not_seen"])

    def test_who_retried(self):
        out = mallow("probe", "arenas", "--source", "symbols", "--json", "--", victim("arenas_retry"))
        if "apt-get install libc6-dbg" in out.stderr:
            self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg)")
        self.assertEqual(out.returncode, 0, out.stderr)
        retries = [(e["event"], e["arguments"][0]) for e in json.loads(out.stdout)["events"] if "retry" in e["event"]]
        asked = ["malloc_retry"] * 3 + ["calloc_retry"] * 2 + ["memalign_retry"]
        self.assertEqual(retries, [(name, 100000) for who in asked for name in (who, "arena_retry")])

    def test_a_threshold_that_is_set(self):
        out = self.probe("symbols", "--json", GLIBC_TUNABLES="glibc.malloc.mmap_threshold=70000")
        document = json.loads(out.stdout)
        self.assertEqual([e["arguments"] for e in document["events"] if e["event"] == "mallopt_mmap_threshold"],
                         [[70000, 131072, 0]])
        self.assertNotIn("mallopt_free_dyn_thresholds", [e["event"] for e in document["events"]])
        self.assertEqual(document["mmap_threshold_bytes"], 70000)

    def test_it_is_said(self):
        for source, what in (("symbols", "tcache_*"), ("preload", "double frees"), ("calls", "GLIBC_TUNABLES")):
            text = self.probe(source).stdout
            [line] = [x for x in text.splitlines() if x.startswith("Not seen by this source: ")]
            self.assertIn(what, line)
            self.assertNotRegex(text, r":\n(?!\t)")  # no heading with nothing behind it
            self.assertTrue(any(what in x for x in json.loads(self.probe(source, "--json").stdout)["not_seen"]))


class Sources(Case):
    def test_what_cannot_be_had_says_why(self):
        for source, options, why in (("static", ["--", "/bin/true"], "built without --enable-systemtap"),
                                     ("preload", ["-p", str(os.getpid())], "the process runs already"),
                                     ("preload", ["--", victim("calls_victim_static")], "statically linked")):
            if source == "static" and STATIC_PROBES:
                continue
            out = mallow("probe", "arenas", "--source", source, *options)
            self.assertEqual(out.returncode, 125 if "--" in options else 1, out.stderr)
            self.assertIn(why, out.stderr)
            self.assertEqual(out.stderr.count("\n"), 1, out.stderr)


@unittest.skipUnless("STATIC_GLIBC" in os.environ or STATIC_PROBES, "needs a glibc with static probes: tests/probe/static_glibc.sh")
class Static(Agrees, Case):
    """The static probes of a glibc that has them; none of them tells of a thread that never changed its arena. glibc calls
    memory_sbrk_more with the address 0 where the break could not be moved, and maps memory then."""
    source = "static"

    def setUp(self):
        folder = os.environ.get("STATIC_GLIBC")
        if not folder:
            return
        self.program = [os.path.join(folder, "ld.so"), "--library-path", folder]
        self.more = ["--lib", os.path.join(folder, "libc.so.6")]


if __name__ == "__main__":
    main()
