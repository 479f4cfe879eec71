"""`mallow fleet`: byte-seconds and slices of time are what `mallow dump` says of every call, added up here; limits of
memory are those that a program was started with. Of the embedded store and, where clickhouse-server is, of a server."""
import collections
import json
import os
import resource
import sqlite3
import sys

import test_clickhouse as clickhouse
import test_fleet as fleet
from test_fleet import ALL, run

SECOND = 10**9
WIDTHS = [10**6, 10**7, 10**8, SECOND, 10 * SECOND, 60 * SECOND]


class Process:
    """What dump says of one: its blocks as (stack, bytes, from, to), calls as (time, bytes), and changes of what is live."""

    def __init__(self, about, realtime):
        self.about, self.realtime = about, realtime
        self.start, self.end = about["start_ns"], about["start_ns"] + about["duration_ns"]
        self.inherited = about["inherited_blocks"]
        self.blocks, self.calls, self.changes, self.live = [], [], [], {}

    def add(self, e):
        if e["kind"] == "alloc":
            if self.inherited:
                self.inherited -= 1
            else:
                self.calls.append((e["time_ns"], e["size_bytes"]))
            self.live[e["slot"]] = (tuple(e.get("frames", ())), e["size_bytes"], e["time_ns"], e["stack"])
            self.changes.append((e["time_ns"], e["size_bytes"]))
        elif e["kind"] in ("free", "free-temporary", "free-inferred"):
            frames, size, since, stack = self.live.pop(e["slot"])
            self.blocks.append((frames, size * (e["time_ns"] - since), stack))
            self.changes.append((e["time_ns"], -size))

    def finish(self):
        self.blocks += [(frames, size * (self.end - since), stack) for frames, size, since, stack in self.live.values()]

    def width(self):
        return next(w for w in WIDTHS if (self.end - self.start) // w < 100)

    def slices(self, width):
        """start: [calls, allocated, live at the end, most]."""
        out, live = {}, 0
        events = [(t, "live", n) for t, n in self.changes]  # in the order of dump, which is that of the recording
        calls = collections.Counter()
        allocated = collections.Counter()
        for t, n in self.calls:
            calls[(self.realtime + t) // width] += 1
            allocated[(self.realtime + t) // width] += n
        at = 0
        for k in range((self.realtime + self.start) // width, (self.realtime + self.end) // width + 1):
            most = live
            while at < len(events) and (self.realtime + events[at][0]) // width <= k:
                live += events[at][2]
                most = max(most, live)
                at += 1
            out[k * width] = [calls[k], allocated[k], live, most]
        assert at == len(events), "an event behind the end of its process"
        return out


def read(path):
    """The processes of a recording, by dump."""
    report = json.loads(run("report", "--json", *ALL, path).stdout)
    processes = {p["pid"]: Process(p, report["start_realtime_ns"]) for p in report["processes"]}
    assert len(processes) == len(report["processes"]), "two programs of one process: dump's lines cannot be told apart here"
    for line in run("dump", "--json", "--names", path).stdout.splitlines():
        e = json.loads(line)
        if e.get("pid") in processes and "slot" in e:
            processes[e["pid"]].add(e)
    for p in processes.values():
        p.finish()
    return list(processes.values())


class Times(clickhouse.Both):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, arguments in (("paused", ["3000", "300"]), ("short", ["2000", "20"])):
            path = os.path.join(cls.directory, "in", name + ".mlw")
            run("record", "-q", "-o", path, "--", fleet.OLD_BUILD, *arguments)
            cls.recordings.append(path)
        cls.processes = [read(path) for path in cls.recordings]
        cls.servers = clickhouse.Servers(cls.directory) if clickhouse.PROGRAM else None

    @classmethod
    def tearDownClass(cls):
        if cls.servers:
            cls.servers.end()
        super().tearDownClass()

    def setUp(self):
        self.database = self.id().rsplit(".", 1)[1]
        self.file = os.path.join(self.directory, self.database + ".sqlite")
        self.store = self.file
        run("fleet", "init", "--store", self.file)
        if self.servers:
            self.store = self.servers.url(self.database)
            for n in range(2):
                run("fleet", "init", "--store", self.servers.url(self.database, n), "--cluster", "two")
        else:
            print("no clickhouse-server here: the embedded store alone", file=sys.stderr)
        self.loaded = []
        for host in range(8):
            index = host % len(self.recordings)
            self.both("load", "--start-frames", "--host", f"h{host}", "--label", f"half={host % 2}", self.recordings[index])
            self.loaded += [(f"h{host}", p) for p in self.processes[index]]

    def ask(self, sql):
        """The answers of both engines to what --sql printed; the last column of the server's may be an empty text."""
        rows = [[int(v) for v in r] for r in sqlite3.connect(self.file).execute(sql[0])]
        answers = [rows]
        if self.servers:
            answers.append([[int(v) for v in line.rstrip("\t").split("\t")] for line in self.servers.lines(self.database, sql[1])])
        return answers

    def sql(self, *arguments):
        return self.ask([run("fleet", *arguments, "--sql", "--store", s).stdout.rstrip().rstrip(";") for s in (self.file, self.store)])

    def check_byte_seconds(self, found, processes):
        exact, stacks = collections.Counter(), collections.defaultdict(set)
        for i, p in enumerate(processes):
            for frames, share, stack in p.blocks:
                exact[frames] += share
                stacks[frames].add((i, stack))
        whole = sum(sum(share for _, share, _ in p.blocks) // SECOND for p in processes)
        self.assertEqual(found["byte_seconds"], whole)
        self.assertEqual(sum(s["byte_seconds"] for s in found["sites"]), whole)
        sites = collections.Counter()
        for s in found["sites"]:
            sites[tuple(f["function"] for f in s["frames"])] += s["byte_seconds"]
        self.assertEqual(set(sites), set(exact))
        for frames, share in exact.items():
            self.assertLess(abs(sites[frames] * SECOND - share), len(stacks[frames]) * SECOND, frames)
        self.assertGreater(max(exact.values()), 100 * SECOND, "nothing lived long: nothing was tested")

    def test_byte_seconds(self):
        everything = [p for _, p in self.loaded]
        by = ("--by", "byte-seconds")
        found = self.both("report", *ALL, *by)
        self.check_byte_seconds(found, everything)
        values = [s["byte_seconds"] for s in found["sites"]]
        self.assertEqual(values, sorted(values, reverse=True))
        self.check_byte_seconds(self.both("report", *ALL, "--host", "h4"), [p for h, p in self.loaded if h == "h4"])
        few = self.both("report", "-n", "2", *by)
        self.assertEqual(few["left_out"]["byte_seconds"], sum(values[2:]))
        figures = [n for n in fleet.FIGURES] + ["byte_seconds"]
        for rows in self.sql("report", "-n", "2", *by):
            self.assertEqual([r[1:9] for r in rows], [[s[n] for n in figures] for s in few["sites"]])
        text = run("fleet", "report", "-n", "1", *by, "--store", self.file).stdout
        self.assertIn("byte-seconds: ", text)
        groups = self.both("report", "--distribution", *by, "--group-by", "host")["groups"]
        self.assertEqual(sum(g["sum"] for g in groups), found["byte_seconds"])
        self.assertTrue(self.both("report", *ALL, "--distribution", *by)["sites"])
        grown = self.both("diff", "--old", "host=h5", "--new", "host=h4", *by)
        serve = [s for s in grown["sites"] if s["frames"][s["call_site"]]["function"] == "serve"]
        self.assertEqual([round(s["growth_byte_seconds"]) for s in serve],
                         [round(s["new_mean_byte_seconds"] - s["old_mean_byte_seconds"]) for s in serve])
        self.assertTrue(serve and all(s["growth_byte_seconds"] > 0 for s in serve))

    def expected_slices(self, width, hosts=None):
        """start: [processes, hosts, live, most, allocated, calls]."""
        sums, where = collections.defaultdict(lambda: [0] * 6), collections.defaultdict(set)
        for host, p in self.loaded:
            if hosts and host not in hosts:
                continue
            for start, (calls, allocated, live, most) in p.slices(width).items():
                where[start].add(host)
                for i, v in enumerate([1, 0, live, most, allocated, calls]):
                    sums[start][i] += v
        return [[start, v[0], len(where[start]), *v[2:]] for start, v in sorted(sums.items())]

    NAMES = ["start_realtime_ns", "processes", "hosts", "live_bytes", "peak_bytes", "allocated_bytes", "calls"]

    def check_slices(self, width, arguments=(), hosts=None):
        expected = self.expected_slices(width, hosts)
        found = self.both("report", "--timeline", *arguments, "-n", "100000")
        self.assertEqual(found["slice_ns"], width)
        self.assertEqual([[s[n] for n in self.NAMES] for s in found["slices"]], expected)
        self.assertEqual([found["slices_total"], found["slices_left_out"]], [len(expected), 0])
        for rows in self.sql("report", "--timeline", *arguments):
            self.assertEqual(rows, expected)
        return expected

    def test_slices(self):
        widest = max(p.width() for _, p in self.loaded)
        self.assertLess(min(p.width() for _, p in self.loaded), widest, "all slices are of one width: nothing was tested")
        for width in (widest, widest * 10, widest * 30, 3600 * SECOND):
            self.check_slices(width, ("--slice", f"{width // 10**6}ms"))
        for host in ("h4", "h5"):
            widths = [p.width() for h, p in self.loaded if h == host]
            self.assertGreater(len(self.check_slices(*widths, ("--host", host), {host})), 10)
        stored = sqlite3.connect(self.file).execute("SELECT count(*), count(DISTINCT process), max(n) FROM slice JOIN"
                                                    " (SELECT process, count(*) AS n FROM slice GROUP BY process) USING (process)")
        rows, processes, most = stored.fetchone()
        self.assertEqual(processes, len(self.loaded))
        self.assertLessEqual(most, 101)
        chosen = self.both("report", "--timeline")
        self.assertLessEqual(len(chosen["slices"]), 101)
        self.assertIn(chosen["slice_ns"], WIDTHS)
        self.assertEqual(chosen["slices_left_out"], 0)
        few = self.both("report", "--timeline", "-n", "3")
        self.assertEqual([few["slices"], few["slices_left_out"]], [chosen["slices"][:3], len(chosen["slices"]) - 3])
        self.assertEqual(self.both("report", "--timeline", "--host", "none")["slices"], [])
        text = run("fleet", "report", "--timeline", "--host", "h4", "--store", self.file).stdout.splitlines()
        self.assertIn("slices of", text[0])
        self.assertEqual(len(text) - 3, len(self.expected_slices(*[p.width() for h, p in self.loaded if h == "h4"], {"h4"})))

    def test_usage(self):
        for arguments, words in [(["--timeline", "--slice", "1ms"], "the store has slices of"),
                                 (["--slice", "1s"], "needs --timeline"), (["--timeline", "--leaks"], "exclude each other"),
                                 (["--timeline", "--by", "end"], "--timeline and --by exclude"),
                                 (["--html", os.path.join(self.directory, "x"), "--by", "byte-seconds"], "does not show byte-seconds"),
                                 (["--html", os.path.join(self.directory, "x"), "--timeline"], "use --json")]:
            for store in {self.file, self.store}:
                out = run("fleet", "report", "--store", store, *arguments, status=2)
                self.assertIn(words, out.stderr)

    def test_limits(self):
        """What mallow was started with, each of the three kinds: a number, none, and recordings that say nothing."""
        path = os.path.join(self.directory, "limits.mlw")
        size = 64 << 30

        def bounded():
            resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
        run("record", "-q", "-o", path, "--", fleet.OLD_BUILD, "5", preexec_fn=bounded)
        limits = json.loads(run("report", "--json", path).stdout)["limits"]
        memory = self.group_limit()
        self.assertEqual(limits, {"memory_bytes": memory, "address_space_bytes": size, "data_bytes": None})
        own = os.path.join(self.directory, "own.mlw")
        library = os.path.join(os.path.dirname(fleet.MALLOW), "lib", "libmallow-record.so")
        fleet.subprocess.run([fleet.OLD_BUILD, "6"], env={**os.environ, "LD_PRELOAD": library, "MALLOW_OUTPUT": own}, check=True)
        self.assertNotIn("limits", json.loads(run("report", "--json", own).stdout))
        none = 2**63 - 1
        for recording, host, expected in ((path, "bounded", [memory or none, size, none]), (own, "own", [0, 0, 0])):
            self.both("load", "--host", host, recording)
            sql = ("SELECT memory_limit_bytes, address_space_limit_bytes, data_limit_bytes FROM process"
                   f" WHERE host = '{host}'")
            for rows in self.ask([sql, sql]):
                self.assertEqual(rows, [expected])

    @staticmethod
    def group_limit():
        """The least limit of memory of the control groups of this process, of either version; None: there is none."""
        least = []
        with open("/proc/self/cgroup", encoding="ascii") as f:
            for line in f:
                number, controllers, group = line.rstrip("\n").split(":", 2)
                roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] if number == "0" else ["/sys/fs/cgroup/memory"]
                if number != "0" and "memory" not in controllers.split(","):
                    continue
                while True:
                    for root in roots:
                        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
                            try:
                                with open(root + group.rstrip("/") + "/" + name, encoding="ascii") as limit:
                                    least.append(int(limit.read().replace("max", str(2**63))))
                            except OSError:
                                pass
                    if group in ("/", ""):
                        break
                    group = os.path.dirname(group)
        least = [n for n in least if n < 2**62]
        return min(least) if least else None
