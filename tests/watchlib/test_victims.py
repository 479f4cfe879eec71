"""The victims of `record`, under libmallow-watch.so: as without it, however much is sampled and
guarded; and what the segments say adds up."""
import glob
import json
import os
import subprocess
import sys
import unittest

from watchtest import WatchCase
from mallowtest import LONG, MALLOW, VICTIMS, run, victim
from mallowtest.memorygroup import MemoryGroup  # where watchtest looks

ROOT = os.geteuid() == 0
PROGRAMS = [
    *(["api", m] for m in ("counts", "maps", "failures", "peak", "reallocs", "temporary")),
    ["threads", "waves", "2", "4"], ["threads", "cross", "2", "2000"], ["threads", "keys", "3"],
    ["threads", "detached", "20"], ["threads", "main-first"], ["threads", "cancel", "5"],
    ["threads", "hammer", "2", "50000"],
    *(["process", m] for m in ("fork", "fork-exec", "vfork", "failed-exec", "spawn", "clone", "clone-vm",
                               "all-execs")),
    ["process", "env-cleared", os.path.join(VICTIMS, "api"), "peak"],
    ["process", "forks", "12"], ["process", "children", "50"], ["process", "brood", "20"],
    ["process", "closed", "loop"], ["process", "closed", "range"], ["process", "closed", "closefrom"],
    *(["signals", m, "300"] for m in ("mapping", "jumping", "longjmp", "recursion")),
    *(["ends", m] for m in ("return", "exit", "_exit", "_Exit", "quick_exit", "syscall", "abort", "segv", "kill",
                            "term", "thread", "with-threads")),
    *(["confine", m] for m in ("eperm", "eperm-syscall", "kill-files", "only", "only-syscall", "silent",
                               "silent-syscall", "strict", "no-clock", "eperm-fork", "fsize", "fsize-handler",
                               "files", "first-file", "space")),
    *(["cxx", m] for m in ("operators", "exceptions", "tls", "refused")),
    ["sites"], ["dl", VICTIMS, "10"], ["loop", "1" if LONG else "0"], ["own_malloc"], ["rusty"], ["dee"], ["hello", "there"],
    ["hello_static", "there"],
]
# It may not grow its heap, and counts on what it freed before: which are now and then blocks of ours.
NOT_STRICT = [p for p in PROGRAMS if p != ["confine", "strict"]]
# Output that is not the same twice (times, addresses), in any run.
UNSTEADY = {"signals"}


class Victims(WatchCase):
    def each(self, settings, check=None, programs=PROGRAMS):
        for name, *arguments in programs:
            argv = [victim(name), *arguments] if os.path.exists(os.path.join(VICTIMS, name)) else None
            if not argv:
                continue
            with self.subTest(argv=[name, *arguments], settings=settings):
                plain = run(argv, cwd=self.folder)
                under = self.watched(argv, settings=settings, cwd=self.folder)
                self.assertEqual(under.rc, plain.rc, under.err[-1500:])
                if name not in UNSTEADY:
                    self.assertEqual(under.out, plain.out)
                self.assertEqual(under.own_err(), plain.err)
                self.assertNotIn(b"heap-", under.err)
                for s in self.segments:
                    self.assertEqual(s.errors(), [])
                    self.sound(s, killed=s.state == "live" or arguments[:1] in (["with-threads"], ["thread"]) or
                               name in ("threads", "signals", "confine"))
                if check:
                    check(name, arguments)

    def test_default_settings(self):
        self.each({}, programs=NOT_STRICT)

    def test_every_block_sampled(self):
        self.each({"period": 1, "guard": "off", "memory": "16M"})

    def test_every_block_guarded(self):
        self.each({"period": 1, "guard": "all", "memory": "16M"}, programs=NOT_STRICT)

    def test_switched_off(self):
        def nothing(name, arguments):
            for s in self.segments:
                self.assertEqual(s.counters["samples"], 0)
        self.each({"period": 1, "paused": 1}, nothing)

    def test_memory_of_a_quarter_megabyte(self):
        """Full tables: the period rises, stacks share a site; the program does not notice."""
        raised, crowded = [], []

        def count(name, arguments):
            raised.extend(s.period_now > s.period for s in self.segments)
            crowded.extend(s.counters["crowded"] for s in self.segments)
        self.each({"period": 1, "memory": "256K"}, count, programs=NOT_STRICT)
        self.assertTrue(any(raised))
        self.assertGreater(sum(crowded), 0)

    @unittest.skipUnless(ROOT, "SKIPPED, LOUDLY: chroot and changing the user need root")
    def test_other_root_and_other_user(self):
        os.mkdir(os.path.join(self.folder, "empty"))
        self.each({"period": 1}, programs=[["confine", "chroot", "empty"], ["confine", "nobody"]])


class Truth(WatchCase):
    """With every block sampled, and at a period so small that weights are sizes, figures are exact."""

    def exact(self, argv, **settings):
        r = self.watched(argv, settings=dict({"period": 1, "guard": "off", "memory": "64M"}, **settings))
        self.assertEqual(r.rc, 0, r.err)
        return self.segments

    def test_peak(self):
        (s,) = self.exact([victim("api"), "peak"])
        c = s.counters
        self.assertEqual((c["samples"], c["sample_bytes"]), (1100, 1050000))
        self.assertEqual((c["frees"], c["dropped_full"], c["crowded"], c["dropped_memory"]), (750, 0, 0, 0))
        self.assertEqual(sum(x["size"] for x in s.samples()), 300000)
        self.assertEqual(c["drawn_bytes"], 1050000)

    def test_realloc_is_a_release_and_an_allocation(self):
        (s,) = self.exact([victim("api"), "reallocs"])
        c = s.counters
        self.assertGreater(c["reallocs"], 0)
        self.assertEqual(c["samples"] - c["frees"], len(s.samples()))
        kinds = {f["kind"] for f in s.frees()}
        self.assertIn(1, kinds)
        self.assertTrue(any(f["new_size"] for f in s.frees() if f["kind"] == 1))

    def test_a_fork_inherits_what_was_live(self):
        segments = self.exact([victim("process"), "fork"])
        self.assertEqual(len(segments), 2)
        parent, child = segments
        self.assertEqual((parent.forked_from, child.forked_from), (0, parent.start_ns))
        self.assertEqual(child.ppid, parent.pid)
        self.assertEqual(len(parent.samples()), 0)
        # ten of 1000 bytes inherited, three made, five freed
        self.assertEqual(sum(x["size"] for x in child.samples()), 5600)
        self.assertEqual(sum(1 for x in child.samples() if x["flags"] & 4), 5)

    def test_children_have_segments_of_their_own(self):
        segments = self.exact([victim("process"), "children", "30"])
        self.assertEqual(len(segments), 31)
        self.assertEqual(len({s.pid for s in segments}), 31)

    def test_programs_that_follow_by_exec(self):
        segments = self.exact([victim("process"), "all-execs"])
        api = [s for s in segments if os.path.basename(s.exe) == "api"]
        self.assertEqual(len(api), 8)
        for s in api:
            self.assertEqual(s.counters["sample_bytes"], 1050000)
        segments = self.exact([victim("process"), "env-cleared", victim("api"), "peak"])
        self.assertTrue(any(os.path.basename(s.exe) == "api" for s in segments))

    def test_stacks_name_their_modules(self):
        (s,) = self.exact([victim("dl"), VICTIMS, "10"])
        modules = {os.path.basename(m["path"]): m for m in s.modules()}
        self.assertEqual({"plug_a.so", "plug_b.so"} & set(modules), {"plug_a.so", "plug_b.so"})
        for m in modules.values():
            self.assertTrue(m["build_id"] or m["path"] == "[vdso]")
        inner = {os.path.basename(s.places(x["stack"])[0][0] or "?") for x in s.sites() if x["samples"]}
        self.assertTrue({"plug_a.so", "plug_b.so"} <= inner, inner)

    def test_a_killed_program_leaves_its_state(self):
        r = self.watched([victim("ends"), "kill"], settings={"period": 1, "guard": "off"})
        self.assertEqual(r.rc, -9)
        (s,) = self.segments
        self.assertEqual(s.state, "live")
        # at a period of 1, a block of 10 bytes is passed over once in 22,000
        self.assertGreaterEqual(sum(x["size"] for x in s.samples() if x["size"] == 10), 9900)

    def test_an_out_of_memory_kill_leaves_its_state(self):
        """In a control group of 64 MB, where that can be had."""
        try:
            group = MemoryGroup(64 << 20)
        except OSError as e:
            self.skipTest(f"SKIPPED, LOUDLY: {e}")
        self.addCleanup(group.remove)
        r = self.watched(group.command(victim("ends"), "memory"), settings={"period": "16K", "guard": "off"})
        self.assertEqual(r.rc, -9)
        (s,) = self.of("ends")
        self.assertEqual(s.state, "live")
        big = [x for x in s.samples() if x["size"] == 1 << 20]
        self.assertGreater(len(big), 30)

    def test_nothing_stays_without_a_reader(self):
        """Without a session the file is in /dev/shm, and goes at the end."""
        script = ("import ctypes, os; l = ctypes.CDLL(None); [l.malloc(5000) for _ in range(3000)]; "
                  "print(*[n for n in os.listdir('/dev/shm') if n.startswith('mallow-watch-%d-' % os.getpid())])")
        r = run([sys.executable, "-c", script], env={"LD_PRELOAD": self.env()["LD_PRELOAD"]})
        self.assertEqual(r.rc, 0, r.err)
        name = r.out.decode().strip()
        self.assertTrue(name.startswith("mallow-watch-"), r)
        self.assertFalse(os.path.exists(os.path.join("/dev/shm", name)))

    def test_what_ended_before_its_reader_looked(self):
        """The reader of the process that started it looks for it, zombie or not. Another's is no child, and is left alone."""
        for waits in (False, True):
            with subprocess.Popen([victim("ends"), "return"], env={**os.environ, "LD_PRELOAD": self.env()["LD_PRELOAD"], "MALLOW_WATCH_READER": str(os.getpid())},
                                  stdout=subprocess.DEVNULL) as p:
                if waits:
                    p.wait()
                else:
                    os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
                r = run([MALLOW, "watch", "--json", "-p", str(p.pid)])
            self.assertEqual(r.rc, 0, r.err)
            (final,) = [json.loads(line) for line in r.out.splitlines()]
            self.assertEqual((final["kind"], final["pid"], final["process"]), ("final", p.pid, "ended"))
            self.assertEqual(glob.glob(f"/dev/shm/mallow-watch-{p.pid}-*"), [])
