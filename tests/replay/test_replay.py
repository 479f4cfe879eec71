"""Replays under every order, many times: the same counts, no deadlock, no block used twice; memory as the
recorded program's; settings, allocators, and the messages for what cannot be.
REPLAYS=1000 in the environment makes it a thousand replays of rings under each order."""
import json
import os
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, REPLAYER, mallow, path, program

RING, HEAP = program("workload/ring"), program("workload/heap")
TIMES = int(os.environ.get("REPLAYS", "40"))
ROUNDS = 60, 400, 1500, 4000, 12000  # of the recordings of rings
WATCHDOG_S = 600  # a replay that takes longer hangs


class Replays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        trace = path("ring.mlw")
        cls.workload = path("ring.mwl")
        p = subprocess.run([MALLOW, "record", "-q", "-o", trace, "--", RING, "1500"], check=True,
                           capture_output=True, text=True, timeout=600)
        cls.called = [int(n) for n in p.stdout.split()]
        mallow("workload", "-q", "-o", cls.workload, trace)
        cls.process = json.loads(mallow("report", "--json", trace).stdout)["processes"][0]

    def replay(self, *options, **more):
        return json.loads(mallow("replay", "--json", *options, self.workload, **more).stdout)

    def check(self, run):
        calls = {k: v["count"] for k, v in run["calls"].items()}
        self.assertEqual([calls["malloc"], calls["realloc"]], self.called[:2])
        self.assertEqual(calls, {k: v for k, v in self.process["calls"].items() if k in calls})
        self.assertEqual(run["operations"], sum(calls.values()))
        self.assertEqual(run["unexpected_results"], 0)
        self.assertEqual(run["threads"], 9)

    def test_recorded_order(self):
        for run in self.replay("--order", "recorded", "--repeat", "8")["runs"]:
            self.check(run)
            self.assertEqual(run["peak_ideal_rss_bytes"], self.process["peak_live_bytes"])

    def test_dependent_order(self):
        for run in self.replay("--order", "dependent", "--repeat", "8")["runs"]:
            self.check(run)
            self.assertLess(abs(run["peak_ideal_rss_bytes"] / self.process["peak_live_bytes"] - 1), 0.02)

    def test_a_block_used_twice_would_be_seen(self):
        """Every byte written, and glibc's own checks on: a block freed twice or used after its free ends
        the replay with a signal."""
        for order in "recorded", "dependent":
            run = self.replay("--order", order, "--touch", "bytes", "--repeat", "5", "--set", "M_PERTURB=165",
                              "--set", "glibc.malloc.tcache_count=0", "--set", "glibc.malloc.check=3")
            self.check(run)

    def test_paces_and_timings(self):
        self.check(self.replay("--pace", "recorded"))
        self.check(self.replay("--pace", "4", "--order", "recorded", "--timing", "none"))
        run = self.replay("--timing", "all")
        self.check(run)
        # calls during which the thread was preempted are left out
        malloc = run["calls"]["malloc"]
        self.assertEqual(malloc["timed"] + malloc["preempted"], malloc["count"])
        self.assertGreater(malloc["timed"], 0)
        sampled = self.replay("--timing", "sample")["calls"]["malloc"]
        self.assertTrue(0 < sampled["timed"] < sampled["count"] / 20)

    def test_fields(self):
        run = self.replay("--set", "M_MMAP_THRESHOLD=64K")
        for name in ("allocator settings threads operations wall_ns cycles user_ns system_ns allocator_cycles calls "
                     "start_rss_bytes peak_rss_bytes workload_peak_rss_bytes peak_vmsize_bytes peak_ideal_rss_bytes "
                     "page_faults_minor page_faults_major mallinfo timeline schema order pace touch timing dry_run "
                     "trims own_bytes allocator_share slowest recorded").split():
            self.assertIn(name, run)
        self.assertEqual(run["settings"], {"M_MMAP_THRESHOLD": "64K"})
        self.assertGreater(run["mallinfo"]["arena_bytes"], 0)
        self.assertEqual(set(run["timeline"][0]), {"time_ns", "rss_bytes", "vmsize_bytes", "ideal_bytes",
                                                   "free_bytes"})
        self.assertEqual(run["timeline"][-1]["free_bytes"], run["mallinfo"]["free_bytes"])

    def test_other_allocators(self):
        for name in "jemalloc", "tcmalloc", "mimalloc":
            p = subprocess.run([MALLOW, "replay", "--json", "--alloc", name, self.workload], capture_output=True,
                               text=True, timeout=600)
            if p.returncode:
                self.assertIn("apt-get install lib", p.stderr)
                continue
            run = json.loads(p.stdout)
            self.check(run)
            self.assertIn(name, run["allocator_file"])
            self.assertNotIn("mallinfo", run)

    def test_messages(self):
        self.assertIn("K=V", mallow("replay", "--set", "nothing", self.workload, status=2).stderr)
        self.assertIn("mimalloc", mallow("replay", "--alloc", "x", self.workload, status=2).stderr)
        self.assertIn("did not serve", mallow("replay", "--alloc", "/lib/x86_64-linux-gnu/libm.so.6", self.workload,
                                              status=1).stderr)
        self.assertIn("not a workload", mallow("replay", RING, status=2).stderr)
        self.assertIn("pace", mallow("replay", "--pace", "soon", self.workload, status=2).stderr)

    def test_the_callers_settings_stay_out(self):
        run = self.replay(env={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "MALLOC_CONF": "x"})
        self.assertEqual(run["settings"], {})


class ManyTimes(unittest.TestCase):
    """Rings of several lengths; in every second replay each slot is verified at each change."""
    @classmethod
    def setUpClass(cls):
        cls.rings = []
        for rounds in ROUNDS:
            trace, workload = (path(f"{rounds}{end}") for end in (".mlw", ".mwl"))
            p = subprocess.run([MALLOW, "record", "-q", "--stacks=none", "-o", trace, "--", RING, str(rounds)],
                               check=True, capture_output=True, text=True, timeout=WATCHDOG_S)
            mallow("workload", "-q", "-o", workload, trace)
            peak = json.loads(mallow("report", "--json", trace).stdout)["processes"][0]["peak_live_bytes"]
            cls.rings.append((workload, [int(n) for n in p.stdout.split()], peak))

    def replays(self, order, slack):
        for workload, called, peak in self.rings:
            told = None
            for i in range(max(2, TIMES // len(ROUNDS))):
                p = subprocess.run([REPLAYER, workload, f"order={order}", f"verify={i % 2}", "touch=bytes"],
                                   timeout=WATCHDOG_S, capture_output=True, text=True)
                self.assertEqual((p.returncode, p.stderr), (0, ""))
                run = json.loads(p.stdout)
                calls = {k: v["count"] for k, v in run["calls"].items()}
                told = told or calls
                self.assertEqual(calls, told)
                self.assertEqual([calls["malloc"], calls["realloc"]], called[:2])
                self.assertEqual(run["unexpected_results"], 0)
                self.assertLessEqual(abs(run["peak_ideal_rss_bytes"] - peak), slack * peak)

    def test_recorded(self):
        self.replays("recorded", 0)

    def test_dependent(self):
        self.replays("dependent", 0.02)


class Heap(unittest.TestCase):
    """glibc's own sums at the end of the replay, against what the recorded program said of its own."""
    def compare(self, threads, rounds, share, *options, may_differ=frozenset()):
        """Whether all sums are as near as that; fails when one that may not differ is not."""
        with tempfile.TemporaryDirectory() as folder:
            trace, workload = (os.path.join(folder, "heap" + end) for end in (".mlw", ".mwl"))
            p = subprocess.run([MALLOW, "record", "-q", "-o", trace, "--", HEAP, str(threads), str(rounds)],
                               check=True, capture_output=True, text=True, timeout=WATCHDOG_S)
            mallow("workload", "-q", "-o", workload, trace)
            run = json.loads(mallow("replay", "--json", *options, workload).stdout)
        said = dict(zip(("arena_bytes", "in_use_bytes", "free_bytes", "mmapped_bytes"), map(int, p.stdout.split())))
        far = {name for name, value in said.items() if abs(run["mallinfo"][name] - value) > share * value}
        self.assertLessEqual(far, may_differ, (said, run["mallinfo"]))
        return not far

    def test_one_thread(self):
        for rounds in 300, 20000:
            self.compare(0, rounds, 0.01)
        self.compare(0, 20000, 0.01, "--touch", "bytes", "--timing", "all")

    def test_threads(self):
        """What a thread frees of another's meets the allocator in an order that no recording knows, and what is
        free is the small rest of what is not: it may miss once, but not every time."""
        for order in "recorded", "dependent":
            self.assertTrue(any(self.compare(4, 20000, 0.05, "--order", order, may_differ={"free_bytes"})
                                for _ in range(6)))
