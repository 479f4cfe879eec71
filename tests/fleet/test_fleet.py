"""`mallow fleet`: every figure of its report is the sum of those of `mallow report --json`, whatever was loaded
how often, and whenever a load was killed."""
import collections
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

from mallowtest import MALLOW, program

VICTIM = program("export/export-victim")
OLD_BUILD, NEW_BUILD = program("fleet/fleet-service-old"), program("fleet/fleet-service-new")
FIGURES = ["calls", "allocated_bytes", "peak_bytes", "peak_blocks", "end_live_bytes", "end_live_blocks", "temporary"]
TOTALS = ["requested_bytes", "peak_live_bytes", "peak_live_blocks", "end_live_bytes", "end_live_blocks",
          "temporary_allocations", "events", "lost_events"]
ALL = ["-n", "0"]


def run(*arguments, status=0, **more):
    out = subprocess.run([MALLOW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    assert out.returncode == status, f"{arguments}: {out.returncode}\n{out.stdout}{out.stderr}"
    return out


def frames_of(site):
    return tuple((f["function"], f["file"], f["line"], f["module"], f["inlined"]) for f in site["frames"])


def sum_reports(reports):
    """What a fleet report of these reports must say: totals, and figures by frames."""
    totals, sites = collections.Counter(), collections.defaultdict(collections.Counter)
    for report in reports:
        for process in report["processes"]:
            totals["processes"] += 1
            for name in TOTALS:
                totals[name] += process[name]
            for site in process["sites"]:
                for name in FIGURES:
                    sites[frames_of(site)][name] += site[name]
    return totals, sites


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mallow-fleet-")
        cls.recordings = []
        for i, arguments in enumerate([[], ["fork"], ["callers"], []]):
            path = os.path.join(cls.directory, "in", f"{i}.mlw")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            run("record", "-q", "-o", path, "--", VICTIM, *arguments)
            cls.recordings.append(path)
        cls.reports = [json.loads(run("report", "--json", *ALL, path).stdout) for path in cls.recordings]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def setUp(self):
        self.store = os.path.join(self.directory, self.id() + ".sqlite")
        run("fleet", "init", "--store", self.store)

    def load(self, *arguments, **more):
        return json.loads(run("fleet", "load", "--json", "--store", self.store, *arguments, **more).stdout)

    def report(self, *arguments):
        return json.loads(run("fleet", "report", "--json", *ALL, "--store", self.store, *arguments).stdout)

    def check(self, found, reports):
        totals, sites = sum_reports(reports)
        self.assertEqual({name: found[name] for name in totals}, dict(totals))
        self.assertEqual(len(found["sites"]), len({frames_of(s) for s in found["sites"]}), "a call site is there twice")
        self.assertEqual({frames_of(s): {n: s[n] for n in FIGURES} for s in found["sites"]},
                         {k: dict(v) for k, v in sites.items()})
        self.assertEqual(found["sites_left_out"], 0)


class Sums(Case):
    def test_ten_hosts(self):
        """Ten recordings of ten hosts, twice; the four files are loaded under several names of hosts."""
        loaded = []
        for turn in range(2):
            for host in range(10):
                index = host % len(self.recordings)
                n = self.load("--host", f"host-{host}", "--label", f"half={host % 2}", self.recordings[index])
                count = len(self.reports[index]["processes"])
                self.assertEqual([n["added_processes"], n["present_processes"]], [0, count] if turn else [count, 0])
                loaded += [] if turn else [self.reports[index]]
            found = self.report()
            self.assertEqual(found["hosts"], 10)
            self.check(found, loaded)
        self.check(self.report("--host", "host-1"), [self.reports[1]])
        self.check(self.report("--label", "half=1"), loaded[1::2])
        self.check(self.report("--service", "nothing"), [])
        build = sqlite3.connect(self.store).execute("SELECT DISTINCT build_id FROM process").fetchall()
        self.assertEqual(len(build), 1)
        self.check(self.report("--build-id", build[0][0][:12].upper()), loaded)
        self.check(self.report("--build-id", "0" * 12), [])
        self.check(self.report("--since", "1970-01-01"), loaded)
        self.check(self.report("--until", "1970-01-02"), [])

    def test_allocators(self):
        """The allocator of a process, with glibc's version, as it was recorded: selected by, counted, grouped by."""
        for host in range(3):
            self.load("--host", f"host-{host}", self.recordings[host])
        glibc, = {p["allocator"] for r in self.reports for p in r["processes"]}
        self.check(self.report("--allocator", glibc), self.reports[:3])
        db = sqlite3.connect(self.store)
        db.execute("UPDATE process SET allocator = 'glibc 2.31' WHERE host = 'host-1'")
        db.commit()
        self.assertEqual(self.report()["allocators"], 2)
        old = self.report("--allocator", "glibc 2.31")
        self.check(old, [self.reports[1]])
        self.assertEqual(old["allocators"], 1)
        self.check(self.report("--allocator", "glibc 2.3"), [])
        groups = self.report("--distribution", "--group-by", "allocator")["groups"]
        self.assertEqual({g["group"]: g["processes"] for g in groups},
                         {glibc: len(self.reports[0]["processes"] + self.reports[2]["processes"]), "glibc 2.31": len(self.reports[1]["processes"])})
        diff = json.loads(run("fleet", "diff", "--json", "--store", self.store, "--old", "allocator=glibc 2.31", "--new", f"allocator={glibc}").stdout)
        self.assertEqual([diff["old"]["hosts"], diff["new"]["hosts"]], [1, 2])
        text = run("fleet", "report", "--store", self.store).stdout
        self.assertIn(" on 3 hosts, 1 service, 1 build, 2 allocators\n", text)
        sql = run("fleet", "report", "--sql", "--allocator", "glibc 2.31", "--store", self.store).stdout
        self.assertEqual([r[1] for r in db.execute(sql)], [s["calls"] for s in old["sites"]])
        self.assertIn("use --watched without --allocator", run("fleet", "report", "--store", self.store, "--watched", "all", "--allocator",
                                                               "x", status=2).stderr)
        self.assertIn("build-id=, allocator=, since=", run("fleet", "diff", "--store", self.store, "--old", "x=1", "--new", "all", status=2).stderr)

    def test_same_stacks_merge(self):
        """Two runs of one program at other addresses have the same stacks: the second adds no row."""
        count = "SELECT (SELECT count(*) FROM stack), (SELECT count(*) FROM site), (SELECT count(*) FROM frame)"
        self.load(self.recordings[0])
        before = sqlite3.connect(self.store).execute(count).fetchone()
        starts = "SELECT start FROM module"
        self.load(self.recordings[3])
        self.assertEqual(before, sqlite3.connect(self.store).execute(count).fetchone())
        self.check(self.report(), [self.reports[0], self.reports[3]])
        addresses = set()
        for path in (self.recordings[0], self.recordings[3]):
            out = os.path.join(self.directory, "addresses.sqlite")
            run("export", "--format", "sqlite", "-o", out, path)
            addresses.add(sqlite3.connect(out).execute(starts).fetchone())
        self.assertEqual(len(addresses), 2, "both runs had their modules at the same addresses: nothing was tested")

    def test_orders(self):
        self.load(os.path.join(self.directory, "in"))
        names = {"peak": "peak_bytes", "end": "end_live_bytes", "allocated": "allocated_bytes",
                 "temporary": "temporary", "calls": "calls"}
        for by, name in names.items():
            sites = self.report("--by", by)["sites"]
            values = [s[name] for s in sites]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertTrue(values[0])
            few = json.loads(run("fleet", "report", "--json", "--by", by, "-n", "3", "--store", self.store).stdout)
            self.assertEqual(few["sites"], sites[:3])
            self.assertEqual(few["sites_total"], len(sites))
            for figure in FIGURES:
                self.assertEqual(few["left_out"][figure], sum(s[figure] for s in sites[3:]))
            sql = run("fleet", "report", "--sql", "--by", by, "-n", "3", "--store", self.store).stdout
            columns = FIGURES[:4] + ["end_live_bytes", "end_live_blocks", "temporary"]
            self.assertEqual([list(r[1:8]) for r in sqlite3.connect(self.store).execute(sql)],
                             [[s[c] for c in columns] for s in few["sites"]])
        self.assertIn("inlined_leaf  victim.c:19", run("fleet", "report", "--by", "end", "--store", self.store).stdout)

    def test_all_call_sites(self):
        """-n 0 leaves none out."""
        self.load(os.path.join(self.directory, "in"))
        sites = [s for s in self.report("--by", "calls", "--call-sites")["sites"] if s["calls"]]
        text = run("fleet", "report", "--by", "calls", "-n", "0", "--store", self.store).stdout
        rows = text.split("call site\n")[1].splitlines()
        self.assertGreater(len(sites), 8)
        self.assertEqual(len(rows), len(sites))
        sql = run("fleet", "report", "--by", "calls", "-n", "0", "--sql", "--store", self.store).stdout
        self.assertEqual(len(sqlite3.connect(self.store).execute(sql).fetchall()),
                         len(self.report("--by", "calls")["sites"]))

    def test_impossible_sizes(self):
        """Figures that each fit, and whose sum does not, leave every question with an answer."""
        for host in ("a", "b"):
            self.load("--host", host, self.recordings[0])
        db = sqlite3.connect(self.store)
        db.execute("UPDATE process SET peak_bytes = 1 << 62, end_bytes = 1 << 62, requested_bytes = (1 << 62) + 1")
        db.execute("UPDATE figure SET end_bytes = 1 << 62, peak_bytes = 1 << 62")
        db.commit()
        found = self.report()
        self.assertEqual([found["peak_live_bytes"], found["requested_bytes"]], [2**63, 2**63 + 2])
        groups = self.report("--distribution", "--by", "end")["groups"]
        self.assertEqual([g["sum"] for g in groups], [2**63])
        leaks = self.report("--leaks")["sites"]
        self.assertEqual({s["end_live_bytes"] % 2**63 for s in leaks}, {0})
        run("fleet", "diff", "--store", self.store, "--old", "host=a", "--new", "host=b", "--by", "end")
        # what --sql prints says the same; a figure of a process that was loaded always fits, so one stack is enough
        db.execute("DELETE FROM figure WHERE (process, stack) NOT IN (SELECT process, max(stack) FROM figure GROUP BY process)")
        db.execute("UPDATE figure SET end_blocks = 1, calls = (1 << 62) - process")
        db.commit()
        site, = self.report("--by", "end")["sites"]
        self.assertEqual([site["end_live_bytes"], site["peak_bytes"]], [2**63, 2**63])

        def rows(*arguments):
            sql = run("fleet", "report", "--sql", *arguments, "--store", self.store).stdout.split(";\n")
            return [[int(v) for v in r if not isinstance(v, str) or v.isdigit()] for s in sql[:-1] for r in db.execute(s)]
        for top in ([], ["-n", "1"]):
            self.assertEqual([r[1:9] for r in rows("--by", "end", *top)],
                             [[site[n] for n in [*FIGURES, "byte_seconds"]]])
            self.assertEqual([r[1] for r in rows("--leaks", *top)], [2**63])
            self.assertEqual([r[1] for r in rows("--distribution", "--by", "end", *top)], [2**63, 2**63])

    def test_grown_recording(self):
        """A recording that was loaded while it was written is replaced by what it became, and not the reverse."""
        self.load(self.recordings[0])
        db = sqlite3.connect(self.store)
        db.execute("UPDATE process SET events = events - 1, content = content + 1")
        db.execute("UPDATE figure SET calls = calls - 1")
        db.commit()
        self.assertEqual(self.load(self.recordings[0])["replaced_processes"], 1)
        self.check(self.report(), [self.reports[0]])
        db.execute("UPDATE process SET events = events + 1, content = content + 1")
        db.commit()
        self.assertEqual(self.load(self.recordings[0])["present_processes"], 1)


class Diff(Case):
    def diff(self, old, new, *arguments):
        return json.loads(run("fleet", "diff", "--json", "--store", self.store, "--old", old, "--new", new,
                              *arguments).stdout)

    def test_canary(self):
        """Three processes of a new build against six of the old one: what changed has a name, what varies has not."""
        path = os.path.join(self.directory, "service.mlw")
        for build, counts in ((OLD_BUILD, [100, 120, 140, 160, 180, 200]), (NEW_BUILD, [110, 150, 190])):
            for n in counts:
                run("record", "-q", "-o", path, "--", build, str(n))
                self.load("--service", "api", "--label", f"canary={build == NEW_BUILD}", "--host", f"h{n}", path)
                os.unlink(path)
        builds = sqlite3.connect(self.store).execute("SELECT count(DISTINCT build_id), min(build_id) FROM process")
        builds = builds.fetchone()
        self.assertEqual(builds[0], 2)
        self.assertTrue(builds[1], "a build without a build-id: nothing was tested")
        found = self.diff("service=api,label.canary=False", "label.canary=True", "--by", "end")
        self.assertEqual([found["old"]["processes"], found["new"]["processes"]], [6, 3])
        sites = {s["frames"][s["call_site"]]["function"]: s for s in found["sites"]}
        self.assertEqual(set(sites), {"cache"}, "the mean of serve() is the same, and other builds have the same paths")
        grown = [s for s in found["sites"] if s["differs"]]
        self.assertEqual(sum(s["growth_bytes"] for s in grown), 10000)
        self.assertTrue(all(s["growth_low_bytes"] <= s["growth_bytes"] <= s["growth_high_bytes"] for s in grown))
        text = run("fleet", "diff", "--store", self.store, "--by", "end", "--old", "label.canary=False",
                   "--new", "label.canary=True").stdout
        self.assertIn("cache  service.c:", text)
        self.assertNotIn("serve", text)
        calls = self.diff("label.canary=False", "label.canary=True", "--by", "calls")
        self.assertIn("added_by_the_new_build", {s["frames"][s["call_site"]]["function"] for s in calls["sites"]})
        one = self.diff("host=h100", "host=h110", "--by", "end")["sites"]
        self.assertEqual({s["differs"] for s in one}, {None})
        serve = [s for s in one if s["frames"][s["call_site"]]["function"] == "serve"]
        self.assertEqual([(s["old_mean_bytes"], s["new_mean_bytes"]) for s in serve], [(10000, 11000)])
        same = self.diff("all", "all")
        self.assertEqual(same["sites"], [])

    def test_usage(self):
        for arguments, words in [(["--old", "all"], "needs --old SELECTION and --new"),
                                 (["--old", "all", "--new", "color=red"], "'color' is not part of a selection"),
                                 (["--old", "all", "--new", "since=soon"], "'soon' is not a time"),
                                 (["--old", "all", "--new", "all"], "no process is selected by --old")]:
            out = run("fleet", "diff", "--store", self.store, *arguments, status=2)
            self.assertIn(words, out.stderr)


VALUES = {"peak": ("peak_live_bytes", "peak_bytes"), "end": ("end_live_bytes", "end_live_bytes"),
          "allocated": ("requested_bytes", "allocated_bytes"), "temporary": ("temporary_allocations", "temporary"),
          "calls": ("allocations", "calls")}
RANKS = {"minimum": (0, 1), "quartile_1": (1, 4), "median": (1, 2), "quartile_3": (3, 4), "p90": (9, 10),
         "p99": (99, 100), "maximum": (1, 1)}


def spread(values):
    """The answer of --distribution for these."""
    values = sorted(values)
    ranks = {name: max(1, -(-len(values) * a // b)) for name, (a, b) in RANKS.items()}
    return {"sum": sum(values), **{name: values[rank - 1] for name, rank in ranks.items()}}


def loaded_processes(loads):
    """(host, process of report --json) of a list of (host, report)."""
    return [(host, p) for host, report in loads for p in report["processes"]]


LEAK_FIGURES = ["end_live_bytes", "end_live_blocks", "processes", "hosts", "calling_processes", "calling_hosts", "most_bytes",
                "most_host"]


def check_sql(test, arguments, top, ask):
    """What --sql prints gives the rows of --json: ask(statement) is rows, of numbers and a text. Processes are looked
    at for the call sites that are shown alone: these are picked inside."""
    for question in (["--leaks"], *(["--distribution", "--by", by] for by in VALUES)):
        question = [*question, "-n", str(top), "--store", test.store, *arguments]
        statements = run("fleet", "report", "--sql", *question).stdout.split(";\n")[:-1]
        sites = json.loads(run("fleet", "report", "--json", *question).stdout)["sites"]
        test.assertTrue(0 < len(sites) <= top, question)
        rows = [[int(v) for v in row[1:-1]] + [row[-1]] for row in ask(statements[-1], "--leaks" in question)]
        if "--leaks" in question:
            test.assertEqual(rows, [[s[n] for n in LEAK_FIGURES] for s in sites])
        else:
            test.assertEqual([[r[1], r[0], *r[2:9]] for r in rows], [[s[n] for n in ("processes", "sum", *RANKS)] for s in sites])
        test.assertIn(f" LIMIT {top})", statements[-1])


class Questions(Case):
    """The answers of --leaks and --distribution, computed from the reports of what was loaded."""

    def check_leaks(self, found, processes):
        expected = {}
        for host, p in processes:
            for s in p["sites"]:
                expected.setdefault(frames_of(s), []).append((s["end_live_bytes"], host, s["end_live_blocks"]))
        expected = {k: v for k, v in expected.items() if any(blocks for _, _, blocks in v)}
        self.assertEqual({frames_of(s) for s in found["sites"]}, set(expected))
        sizes = [s["end_live_bytes"] for s in found["sites"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        for s in found["sites"]:
            has = expected[frames_of(s)]
            self.assertEqual(
                [s[n] for n in LEAK_FIGURES],
                [sum(b for b, _, _ in has), sum(n for _, _, n in has), sum(n > 0 for _, _, n in has),
                 len({h for _, h, n in has if n}), len(has), len({h for _, h, _ in has}), max(has)[0], max(has)[1]])

    def check_distribution(self, found, processes, by, group=None):
        of_process, of_site = VALUES[by]
        groups, sites = collections.defaultdict(list), collections.defaultdict(list)
        for host, p in processes:
            groups[group(host) if group else ""].append(p[of_process])
            for s in p["sites"]:
                if s[of_site]:
                    sites[frames_of(s)].append(s[of_site])
        self.assertEqual({g["group"]: g for g in found["groups"]},
                         {g: {"group": g, "processes": len(v), **spread(v)} for g, v in groups.items()})
        self.assertEqual({frames_of(s): {n: s[n] for n in ["processes", "sum", *RANKS]} for s in found["sites"]},
                         {k: {"processes": len(v), **spread(v + [0] * (len(processes) - len(v)))}
                          for k, v in sites.items()})

    def load_all(self):
        loads = []
        for host in range(7):
            index = host % len(self.recordings)
            self.load("--host", f"host-{host % 5}", "--label", f"half={host % 2}", "--service", f"s{host % 3}",
                      self.recordings[index])
            if host < 5 or (host % 5) % len(self.recordings) != index:  # else the same process on the same host
                loads.append((f"host-{host % 5}", self.reports[index]))
        return loaded_processes(loads)

    def test_questions(self):
        processes = self.load_all()
        self.assertEqual(self.report()["processes"], len(processes))
        self.check_leaks(self.report("--leaks"), processes)
        self.check_leaks(self.report("--leaks", "--host", "host-1"), [x for x in processes if x[0] == "host-1"])
        for by in VALUES:
            self.check_distribution(self.report("--distribution", "--by", by), processes, by)
        self.check_distribution(self.report("--distribution", "--group-by", "host"), processes, "peak", str)
        self.check_distribution(self.report("--distribution", "--service", "none"), [], "peak")
        few = json.loads(run("fleet", "report", "--json", "--distribution", "-n", "2", "--store", self.store).stdout)
        self.assertEqual(len(few["sites"]), 2)
        labels = [g["group"] for g in self.report("--distribution", "--group-by", "label.half")["groups"]]
        self.assertEqual(sorted(labels), ["0", "1"])
        self.assertEqual([g["group"] for g in self.report("--distribution", "--group-by", "label.it's")["groups"]], [""])
        self.assertEqual(len(self.report("--distribution", "--group-by", "service")["groups"]), 3)
        self.assertEqual(len(self.report("--distribution", "--group-by", "build-id")["groups"]), 1)

    def test_hosts_without_figures(self):
        """Processes that never allocated: hosts on which nothing happened stand before those with leaks."""
        quiet = 100
        for host in range(2):
            self.load("--host", f"host-{host}", self.recordings[host])
        db = sqlite3.connect(self.store)
        self.copy_host("host-0", quiet)
        db.execute("DELETE FROM figure WHERE process IN (SELECT id FROM process WHERE host LIKE 'c%')")
        # one row on the first host with any, fewer than there are hosts before it
        db.execute("DELETE FROM figure WHERE process = (SELECT id FROM process WHERE host = 'host-0') AND stack !="
                   " (SELECT stack FROM figure WHERE end_blocks AND process = (SELECT id FROM process WHERE host = 'host-0'))")
        db.commit()
        found = self.report("--leaks")
        answers = db.execute(run("fleet", "report", "--sql", "--leaks", "--store", self.store).stdout).fetchall()
        self.assertEqual(found["hosts"], quiet + 2)
        self.assertEqual([(s["end_live_bytes"], s["most_host"]) for s in found["sites"]], [(r[1], r[8]) for r in answers])

    def test_sql(self):
        """What --sql prints is the answer: the first column of numbers is the site's."""
        self.load_all()
        db = sqlite3.connect(self.store)
        leaks = db.execute(run("fleet", "report", "--sql", "--leaks", "--store", self.store).stdout).fetchall()
        self.assertEqual([r[1] for r in leaks], [s["end_live_bytes"] for s in self.report("--leaks")["sites"]])
        parts, sites, rest = run("fleet", "report", "--sql", "--distribution", "--group-by", "host", "-n", "4",
                                 "--store", self.store).stdout.split(";\n")
        found = self.report("--distribution", "--group-by", "host")
        self.assertEqual([[r[10], r[2], r[1], *r[3:10]] for r in db.execute(parts)],
                         [[g[n] for n in ("group", "processes", "sum", *RANKS)] for g in found["groups"]])
        self.assertEqual([[r[2], r[1], *r[3:10]] for r in db.execute(sites)],
                         [[s[n] for n in ("processes", "sum", *RANKS)] for s in found["sites"]][:4])
        self.assertEqual(rest, "")
        for arguments, top in (([], 3), ([], 1), (["--label", "half=1"], 2)):
            check_sql(self, arguments, top, lambda sql, text: [r if text else (*r, "") for r in db.execute(sql)])

    def copy_host(self, host, count):
        """What `count` loads of the recording of `host` under the names c0, c1, ... would add: its rows again."""
        db = sqlite3.connect(self.store)
        of = "SELECT id FROM process WHERE host = ?"
        for name in [f"c{n}" for n in range(count)]:
            (process,), = db.execute(of, (host,))
            rest = [r[1] for r in db.execute("PRAGMA table_info(process)") if r[1] not in ("id", "key", "host")]
            copy = db.execute(f"INSERT INTO process(key, host, {', '.join(rest)}) SELECT abs(random()), ?, {', '.join(rest)}"
                              " FROM process WHERE id = ?", (name, process)).lastrowid
            for table in ("label", "process_module", "figure"):
                rest = ", ".join(r[1] for r in db.execute(f"PRAGMA table_info({table})") if r[1] != "process")
                db.execute(f"INSERT INTO {table}(process, {rest}) SELECT ?, {rest} FROM {table} WHERE process = ?", (copy, process))
        db.commit()

    def rows_of_host(self, host):
        """All that a store has of a host but the host's name and the process's numbers."""
        db = sqlite3.connect(self.store)
        rows = []
        for table, key in (("process", "id"), ("label", "process"), ("process_module", "process"), ("figure", "process")):
            columns = ", ".join(r[1] for r in db.execute(f"PRAGMA table_info({table})")
                                if r[1] not in (key, "key" if table == "process" else "", "host"))
            rows += db.execute(f"SELECT {columns} FROM {table} WHERE {key} IN (SELECT id FROM process WHERE host = ?)",
                               (host,)).fetchall()
        return sorted(map(repr, rows))

    def test_one_of_a_hundred(self):
        """One of a hundred hosts leaks; one command says where. Most hosts are copies of one that was loaded."""
        path = os.path.join(self.directory, "service.mlw")
        for build, count in ((OLD_BUILD, 10), (NEW_BUILD, 10)):
            run("record", "-q", "-o", path, "--", build, str(count))
            for host in ["canary"] if build == NEW_BUILD else ["h0", "h1"]:
                self.load("--service", "api", "--host", host, path)
            os.unlink(path)
        self.copy_host("h0", 97)
        self.assertEqual(self.rows_of_host("h1"), self.rows_of_host("h0"))
        self.assertEqual(self.rows_of_host("h1"), self.rows_of_host("c96"), "a copy is not what a load makes")
        self.assertNotEqual(self.rows_of_host("h1"), self.rows_of_host("canary"))
        found = self.report("--leaks")
        self.assertEqual(found["hosts"], 100)
        alone = [s for s in found["sites"] if s["hosts"] == 1]
        self.assertEqual({(s["frames"][s["call_site"]]["function"], s["most_host"]) for s in alone
                          if s["frames"][s["call_site"]]["function"] != "main"}, {("cache", "canary"), ("serve", "canary")})
        self.assertEqual(max(s["end_live_bytes"] for s in alone), 10000)
        text = run("fleet", "report", "--leaks", "--store", self.store).stdout
        self.assertRegex(text, r"1 of 1 +1 of 1 .* canary +cache  service.c:")
        median = self.report("--distribution", "--by", "end", "--group-by", "host")["groups"][0]
        self.assertEqual(median["group"], "canary")

    def test_growth(self):
        """The processes since a moment against those before, as `diff` has them."""
        path = os.path.join(self.directory, "service.mlw")
        starts = []
        for build, count in ((OLD_BUILD, 3), (OLD_BUILD, 4), (NEW_BUILD, 2), (NEW_BUILD, 3)):
            run("record", "-q", "-o", path, "--", build, str(count))
            self.load(path)
            os.unlink(path)
            starts.append(sqlite3.connect(self.store).execute("SELECT max(start_ns) FROM process").fetchone()[0])
        db = sqlite3.connect(self.store)  # an hour between them
        for i, ns in enumerate(starts):
            db.execute("UPDATE process SET start_ns = ? WHERE start_ns = ?", ((i + 1) * 3600 * 10**9, ns))
        db.commit()
        new = "@" + str(3 * 3600)
        found = self.report("--growth", "--by", "end", "--since", new)
        self.assertEqual([found["old"]["processes"], found["new"]["processes"]], [2, 2])
        self.assertEqual({s["frames"][s["call_site"]]["function"] for s in found["sites"]}, {"cache"})
        self.assertEqual(sum(s["growth_bytes"] for s in found["sites"]), 10000)
        diff = json.loads(run("fleet", "diff", "--json", "--by", "end", "--old", "until=" + new, "--new", "since=" + new,
                              "--store", self.store).stdout)
        self.assertEqual([s for s in diff["sites"] if s["growth_bytes"] > 0], found["sites"])
        self.assertTrue([s for s in diff["sites"] if s["growth_bytes"] < 0], "nothing shrank: nothing was tested")
        one = self.report("--growth", "--by", "calls", "--since", new, "--baseline", "..@3601")
        self.assertEqual([one["old"]["processes"], one["new"]["processes"]], [1, 2])
        self.assertEqual(self.report("--growth", "--since", "@7200", "--until", new, "--baseline", new + "..")["new"]
                         ["processes"], 1)
        text = run("fleet", "report", "--growth", "--by", "end", "--since", new, "--store", self.store).stdout
        self.assertIn("cache  service.c:", text)
        sql = run("fleet", "report", "--growth", "--sql", "--since", new, "--store", self.store).stdout
        self.assertTrue(db.execute(sql).fetchall())

    def test_usage(self):
        for arguments, words in [
                (["--growth"], "needs --since"), (["--growth", "--leaks"], "exclude each other"),
                (["--growth", "--baseline", "yesterday"], "is not FROM..TO"), (["--baseline", "2d.."], "needs --growth"),
                (["--growth", "--baseline", ".."], "is not FROM..TO"),
                (["--growth", "--since", "1h"], "no process was recorded before"),
                (["--group-by", "host"], "needs --distribution"), (["--leaks", "--by", "calls"], "use it without --by"),
                (["--distribution", "--group-by", "color"], "is not host")]:
            out = run("fleet", "report", "--store", self.store, *arguments, status=2)
            self.assertIn(words, out.stderr)
        out = run("fleet", "diff", "--store", self.store, "--old", "all", "--new", "all", "--leaks", status=2)
        self.assertIn("go with report", out.stderr)


def sum_call_sites(loads, of):
    """What the sites of --call-sites must say of (host, report --json): rows by the frame of the call site, each with the
    figures of `of`, and the processes and hosts that have it."""
    found = {}
    for host, p in loaded_processes(loads):
        for s in p["sites"]:
            name = frames_of({"frames": s["frames"][s["call_site"]:][:1]}) if s["frames"] else ()
            of_processes = found.setdefault(name, {})
            figures = of_processes.setdefault((host, p["pid"]), collections.Counter())
            for figure in of:
                figures[figure] += s[figure]
    return found


class CallSites(Case):
    """A recursion that allocates at each of its levels has as many stacks as levels, and one call site."""
    DEPTH = 150

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = os.path.join(cls.directory, "deep.mlw")
        run("record", "-q", "-o", path, "--", OLD_BUILD, "3", "0", str(cls.DEPTH))
        cls.recordings.append(path)
        cls.reports.append(json.loads(run("report", "--json", *ALL, path).stdout))

    def load_all(self):
        loads = []
        for host, index in (("a", 4), ("b", 4), ("b", 0), ("c", 2)):
            self.load("--host", host, self.recordings[index])
            loads.append((host, self.reports[index]))
        return loads

    def rows(self, *arguments):
        return run("fleet", "report", "--store", self.store, *arguments).stdout.split("call site\n")[1].splitlines()

    def test_recursion(self):
        """In text it is one row, with every byte once, as in `mallow report`."""
        self.load_all()
        self.assertGreaterEqual(sum(s["frames"][s["call_site"]]["function"] == "descend" for s in self.report()["sites"]), self.DEPTH)
        bytes_held = f"{2 * self.DEPTH * 50 / 1024:.1f} KB"
        for arguments, row in ((["--by", "end"], rf" +{bytes_held} +2 +2  descend  service.c:\d+"),
                               (["--leaks"], rf" +{bytes_held} +2 of 2 +2 of 2 +7.3 KB  b +descend  service.c:\d+"),
                               (["--distribution", "--by", "end"], r" +2 .* +7.3 KB  descend  service.c:\d+")):
            found = [r for r in self.rows(*arguments, "-n", "0") if "descend" in r]
            self.assertEqual(len(found), 1, found[:9])
            self.assertRegex(found[0], f"^{row}$")
        self.assertRegex(run("report", "--by", "end", self.recordings[4]).stdout, r"7\.3 KB .*\n +descend \(service\.c")

    def test_sums(self):
        """--json --call-sites are the sums over the stacks of `mallow report`; so is what --sql prints."""
        loads = self.load_all()
        of = [*FIGURES]
        expected = sum_call_sites(loads, of)
        found = self.report("--by", "end", "--call-sites")
        self.assertEqual(len(found["sites"]), len(expected))
        for s in found["sites"]:
            processes = expected[frames_of(s)]
            total = sum(processes.values(), collections.Counter())
            self.assertEqual({n: s[n] for n in of}, {n: total[n] for n in of})
            has = [key for key, figures in processes.items() if figures["end_live_bytes"]]
            self.assertEqual([s["processes"], s["hosts"]], [len(has), len({host for host, _ in has})])
        db = sqlite3.connect(self.store)

        def ask(*arguments):
            sql = run("fleet", "report", "--sql", "--call-sites", "--store", self.store, *arguments).stdout.split(";\n")
            return db.execute(sql[-2]).fetchall()
        columns = ["calls", "allocated_bytes", "peak_bytes", "peak_blocks", "end_live_bytes", "end_live_blocks", "temporary"]
        self.assertEqual([list(r[1:8]) for r in ask("--by", "end")], [[s[c] for c in columns] for s in found["sites"]])
        for top in ("0", "3", "1"):
            leaks = json.loads(run("fleet", "report", "--json", "--leaks", "--call-sites", "-n", top, "--store", self.store).stdout)
            self.assertEqual([list(r[1:]) for r in ask("--leaks", "-n", top)], [[s[n] for n in LEAK_FIGURES] for s in leaks["sites"]])
            for s in leaks["sites"]:
                self.assertEqual(s["end_live_bytes"], sum(f["end_live_bytes"] for f in expected[frames_of(s)].values()))
                self.assertEqual(s["calling_processes"], len(expected[frames_of(s)]))
            parts = json.loads(run("fleet", "report", "--json", "--distribution", "--by", "calls", "--call-sites", "-n", top,
                                   "--store", self.store).stdout)
            self.assertEqual([[r[2], r[1], *r[3:]] for r in ask("--distribution", "--by", "calls", "-n", top)],
                             [[s[n] for n in ("processes", "sum", *RANKS)] for s in parts["sites"]])
            for s in parts["sites"]:
                self.assertEqual(s["maximum"], max(f["calls"] for f in expected[frames_of(s)].values()))

    def test_watched(self):
        path = os.path.join(self.directory, "deep.json")
        report = watch_report("h1", 1, 1001, [("grow", 3000, 2000, 5000)] * 3)
        report["sites"][1]["frames"].insert(1, report["sites"][1]["frames"][0])  # two levels, and one
        write_reports(path, [report])
        self.load(path)
        os.unlink(path)
        question = ["--watched", "all"]
        self.assertEqual(len(self.report(*question)["sites"]), 2)
        site, = self.report(*question, "--call-sites")["sites"]
        self.assertEqual([site["estimated_bytes"], [f["function"] for f in site["frames"]]], [9000, ["grow"]])
        self.assertRegex("\n".join(self.rows(*question)), r"^ +8.8 KB +[\d.]+ KB +[\d.]+ KB +1 +1  grow  api.c:5$")
        sql = run("fleet", "report", "--sql", "--call-sites", *question, "--store", self.store).stdout
        self.assertEqual([r[1] for r in sqlite3.connect(self.store).execute(sql)], [9000])

    def test_usage(self):
        for arguments in (["--call-sites"], ["--call-sites", "--json", "--timeline"], ["--call-sites", "--json", "--growth", "--since", "1h"]):
            self.assertIn("--call-sites needs", run("fleet", "report", "--store", self.store, *arguments, status=2).stderr)


def watch_report(host, pid, second, sites, kind="all"):
    """A report as `mallow watch --json` prints it. sites: (function, bytes, low, high)."""
    def estimate(size, low, high):
        return {"sampled_blocks": 2, "sampled_bytes": 64, "estimated_blocks": size // 32, "estimated_bytes": size,
                "estimated_bytes_low": low, "estimated_bytes_high": high}
    frames = [{"function": "main", "file": "/src/api.c", "line": 9, "module": "api", "inlined": False}]
    return {"schema": 1, "kind": kind, "time_ns": (second - 1000) * 10**9, "realtime_ns": second * 10**9, "pid": pid,
            "host": host, "ppid": 1, "exe": "/usr/bin/api", "command": ["api", "-x"], "period_bytes": 65536, "dropped": 0,
            **estimate(sum(s[1] for s in sites), sum(s[1] for s in sites) // 2, sum(s[1] for s in sites) * 2),
            "sites_total": len(sites),
            "sites": [{"frames": [{"function": name, "file": "/src/api.c", "line": 5, "module": "api", "inlined": False},
                                  *frames], **estimate(*values), "growth_bytes": -5, "oldest_age_ns": second,
                       "allocated_bytes": 10, "freed_bytes": 3} for name, *values in sites]}


REPORTS = [watch_report("h1", 1, 1001, [("grow", 3000, 2000, 5000), ("hold", 640, 100, 900)]),
           watch_report("h1", 1, 1002, [("grow", 6000, 5000, 8000), ("hold", 640, 100, 900)]),
           watch_report("h1", 2, 1003, [("grow", 4000, 3700, 4400)]),
           watch_report("h2", 1, 2000, [("grow", 5000, 1000, 9000), ("odd", 64, 64, 64)]),
           watch_report("h2", 1, 2001, [("end", 128, 64, 200)], "final")]


def write_reports(path, reports, more=""):
    with open(path, "a") as f:
        f.write("".join(json.dumps(r) + "\n" for r in reports) + more)


def watched_truth(reports, arguments=()):
    """The estimates by function, of the last report of each process in what the options select."""
    options = dict(zip(arguments[::2], arguments[1::2]))
    last = {}
    for r in reports:
        if (r["kind"] == options.get("--watched", "all") and options.get("--host", r["host"]) == r["host"]
                and r["realtime_ns"] < int(options.get("--until", "@9999")[1:]) * 10**9
                and options.get("--service", "api") == "api"):
            last[r["host"], r["pid"]] = r
    sites = collections.defaultdict(list)
    for r in last.values():
        for s in r["sites"]:
            sites[s["frames"][0]["function"]].append((r["host"], s))
    return last, sites


def check_watched(test, found, truth):
    last, sites = truth
    test.assertEqual(found["processes"], len(last))
    test.assertEqual(found["hosts"], len({host for host, _ in last}))
    test.assertEqual(found["estimated_bytes"], sum(r["estimated_bytes"] for r in last.values()))
    by_name = {s["frames"][s["call_site"]]["function"]: s for s in found["sites"]}
    test.assertEqual(set(by_name), set(sites))
    for name, parts in sites.items():
        s, total = by_name[name], sum(p["estimated_bytes"] for _, p in parts)
        down = round(sum((p["estimated_bytes"] - p["estimated_bytes_low"]) ** 2 for _, p in parts) ** 0.5)
        up = round(sum((p["estimated_bytes_high"] - p["estimated_bytes"]) ** 2 for _, p in parts) ** 0.5)
        test.assertEqual([s["estimated_bytes"], s["estimated_bytes_low"], s["estimated_bytes_high"], s["processes"],
                          s["hosts"], s["oldest_age_ns"]],
                         [total, max(total - down, 64 * len(parts)), total + up, len(parts), len({h for h, _ in parts}),
                          max(p["oldest_age_ns"] for _, p in parts)])


class Sum:
    """The sum of hash.h."""

    def __init__(self, seed):
        self.value = seed

    def word(self, word):
        h = (self.value ^ word) * 0xd6e8feb86659fd93 % 2**64
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93 % 2**64
        self.value = h ^ h >> 29
        return self

    def text(self, data):
        self.word(len(data))
        for i in range(0, len(data), 8):
            self.word(int.from_bytes(data[i:i + 8], "little"))
        return self


def signed(value):
    return value - 2**64 if value >= 2**63 else value


class Watched(Case):
    def watched(self, kind="all", *arguments):
        return json.loads(run("fleet", "report", "--json", "--watched", kind, "--store", self.store, *arguments).stdout)

    def test_reports(self):
        """A spool of reports, loaded while it grows; nothing counts twice."""
        spool = os.path.join(self.directory, "spool")
        os.makedirs(os.path.join(spool, "h1"))
        path = os.path.join(spool, "h1", "w.jsonl")
        whole = json.dumps(REPORTS[2])
        write_reports(path, REPORTS[:2], whole[:100])
        first = self.load(spool)
        self.assertEqual([first["added_reports"], first["failed_files"]], [2, 0], "an unfinished line is no error")
        write_reports(path, [], whole[100:] + "\n")
        write_reports(os.path.join(spool, "other.json"), REPORTS[3:])
        second = self.load("--label", "x=y", spool)
        self.assertEqual([second["added_reports"], second["present_reports"]], [5, 0], "with a label they are others")
        third = self.load("--label", "x=y", spool)
        self.assertEqual([third["added_reports"], third["present_reports"]], [0, 5])
        for arguments in ([], ["--host", "h1"], ["--until", "@1500"], ["--label", "x=y"], ["--service", "none"]):
            check_watched(self, self.watched("all", *arguments), watched_truth(REPORTS, arguments))
        check_watched(self, self.watched("final"), watched_truth(REPORTS, ["--watched", "final"]))
        text = run("fleet", "report", "--watched", "all", "--store", self.store).stdout
        self.assertRegex(text, "3 +2 +grow  api.c:5")
        sql = run("fleet", "report", "--watched", "all", "--sql", "-n", "1", "--store", self.store).stdout
        self.assertEqual([r[1] for r in sqlite3.connect(self.store).execute(sql)], [15000])
        self.assertEqual(self.report()["processes"], 0)

    def test_one_report(self):
        """A report is the same in whatever form it was printed; and it is what a store of mallow 0.1.0 has, by the sum of its line."""
        path = os.path.join(self.directory, "forms.json")
        forms = [REPORTS, [dict(reversed(r.items())) for r in REPORTS], [{**r, "new_key": 1} for r in REPORTS]]
        for n, form in enumerate(forms):
            write_reports(path, form)
            loaded = self.load(path)
            os.unlink(path)
            self.assertEqual([loaded["added_reports"], loaded["present_reports"]], [0, len(REPORTS)] if n else [len(REPORTS), 0])
        for change in ({}, {"dropped": 1}, {"kind": "old"}, {"sites": REPORTS[0]["sites"][:1]}, {"process": "exec"}):
            write_reports(path, [{**REPORTS[0], "host": "other", **change}])
        self.assertEqual(self.load(path)["added_reports"], 5, "each says something else")
        os.unlink(path)
        db = sqlite3.connect(self.store)
        for report in REPORTS:
            host, pid, command = report["host"], report["pid"], json.dumps(report["command"], separators=(",", ":"))
            start = report["realtime_ns"] - report["time_ns"]
            process = Sum(11).text(host.encode()).word(start).word(pid).text(command.encode()).value
            key = Sum(12).word(process).text(json.dumps(report).encode()).text(b"api").value
            changed = db.execute("UPDATE watched SET key = ? WHERE host = ? AND process = ? AND time_ns = ? AND kind = ?",
                                 (signed(key), host, signed(process), report["realtime_ns"], report["kind"])).rowcount
            self.assertEqual(changed, 1)
        db.commit()
        write_reports(path, REPORTS)
        self.assertEqual(self.load(path)["present_reports"], len(REPORTS))

    def test_real(self):
        """Reports of a real process have the call sites that a recording of it has."""
        path = os.path.join(self.directory, "real.json")
        run("watch", "--json", "--period", "16", "-o", path, "--", OLD_BUILD, "1000")
        self.assertEqual(self.load(path)["failed_files"], 0)
        os.unlink(path)
        found = self.watched("final")
        self.assertEqual([found["processes"], found["hosts"]], [1, 1])
        serve = [s for s in found["sites"] if s["frames"][s["call_site"]]["function"] == "serve"]
        self.assertEqual(len(serve), 1)
        self.assertLessEqual(serve[0]["estimated_bytes_low"], serve[0]["estimated_bytes"])
        recording = os.path.join(self.directory, "real.mlw")
        run("record", "-q", "-o", recording, "--", OLD_BUILD, "1000")
        self.load(recording)
        os.unlink(recording)
        self.assertIn(frames_of(serve[0]), {frames_of(s) for s in self.report()["sites"]})
        sites = sqlite3.connect(self.store).execute(
            "SELECT count(DISTINCT i.site) FROM watched_site AS i JOIN stack AS s ON s.site = i.site").fetchone()
        self.assertTrue(sites[0], "watched and recorded call sites are not the same")

    def test_call_site_of_the_watch(self):
        """It knows more than names say; where it says nothing, a frame without a name that an allocator of its module calls is no call site."""
        frames = [{"function": name, "file": "", "line": 0, "module": module, "inlined": False, **more} for name, module, more in (
            ("db+0x10", "db", {"unnamed": True}), ("palloc", "db", {}), ("row", "db", {}), ("main", "db", {}))]
        for said, name in (({"call_site": 3}, "main"), ({}, "row"), ({"call_site": 4}, "row")):
            report = watch_report("h", 1, 1001, [("f", 1000, 900, 1100)])
            report["sites"][0].pop("call_site", None)
            report["sites"][0].update(frames=frames, **said)
            path = os.path.join(self.directory, "said.json")
            write_reports(path, [report])
            run("fleet", "init", "--store", self.store + name + str(said.get("call_site")))
            run("fleet", "load", "--store", self.store + name + str(said.get("call_site")), path)
            os.unlink(path)
            found = json.loads(run("fleet", "report", "--json", "--watched", "all", "--store",
                                   self.store + name + str(said.get("call_site"))).stdout)
            self.assertEqual([s["frames"][s["call_site"]]["function"] for s in found["sites"]], [name])

    def test_impossible_sizes(self):
        """Reports whose sizes each fit, and whose sum does not, leave the others readable."""
        path = os.path.join(self.directory, "huge.json")
        write_reports(path, [{**watch_report("h3", pid, 1001, [("huge", 2**62, 2**62, 2**62)]), "estimated_bytes_high": 2**62}
                             for pid in (1, 2)] + REPORTS[:1])
        self.load(path)
        found = self.watched()
        self.assertEqual(found["estimated_bytes"], 2**63 + 3640)
        by_name = {s["frames"][s["call_site"]]["function"]: s["estimated_bytes"] for s in found["sites"]}
        self.assertEqual(by_name, {"huge": 2**63, "grow": 3000, "hold": 640})
        sql = run("fleet", "report", "--watched", "all", "--sql", "--store", self.store).stdout
        self.assertEqual([int(r[1]) for r in sqlite3.connect(self.store).execute(sql)], list(by_name.values()))
        self.assertEqual(self.watched("all", "--host", "h1")["estimated_bytes"], 3640)

    def test_bad_reports(self):
        """Lines before a bad one are added; a bad one adds nothing of itself."""
        path = os.path.join(self.directory, "bad.json")
        for change in (lambda r: r.pop("estimated_bytes"), lambda r: r["sites"][0].pop("frames"),
                       lambda r: r["sites"][0].update(estimated_bytes_low=10**9), lambda r: r.update(pid=-1),
                       lambda r: r["sites"][0]["frames"][0].update(line="x"), lambda r: r.update(realtime_ns=2**70),
                       lambda r: r.update(command={}), lambda r: r.update(sites=3)):
            bad = json.loads(json.dumps(REPORTS[1]))
            change(bad)
            write_reports(path, [REPORTS[0], bad, REPORTS[2]])
            out = run("fleet", "load", "--json", "--store", self.store, path, status=1)
            self.assertIn("line 2", out.stderr)
            self.assertEqual(len(out.stderr.splitlines()), 1)
            self.assertEqual(self.watched()["estimated_bytes"], REPORTS[0]["estimated_bytes"])
            os.unlink(path)
        for text, words in (("{\n", "line 1"), ("{}\n", "line 1"), ('{"kind":"error"}\n', None), ("{" * 100 + "\n", "line 1")):
            write_reports(path, [], text)
            out = run("fleet", "load", "--store", self.store, path, status=1 if words else 0)
            self.assertIn(words or "", out.stderr)
            os.unlink(path)
        out = run("fleet", "report", "--watched", "some", "--store", self.store, status=2)
        self.assertIn("is not old, all", out.stderr)
        run("fleet", "report", "--watched", "all", "--build-id", "ab", "--store", self.store, status=2)


class Blocks(Case):
    def test_blocks(self):
        """The lives of all blocks give the figures of the report."""
        for index in (0, 2):
            self.load(self.recordings[index])
            self.assertEqual(self.load("--events", self.recordings[index])["replaced_processes"], 1)
            self.assertEqual(self.load("--events", self.recordings[index])["present_processes"], 1)
            self.assertEqual(self.load(self.recordings[index])["present_processes"], 1)
        self.check(self.report(), [self.reports[0], self.reports[2]])
        db = sqlite3.connect(self.store)
        by_stack = ("SELECT process, stack, sum(size_bytes) AS allocated, count(*) AS calls,"
                    " sum((freed_ns = 0) * size_bytes) AS end, sum(temporary) AS temporary FROM block GROUP BY 1, 2")
        wrong = db.execute(f"SELECT * FROM figure AS f LEFT JOIN ({by_stack}) AS b ON b.process = f.process AND"
                           " b.stack = f.stack WHERE b.end IS NOT f.end_bytes OR b.temporary IS NOT f.temporary"
                           " OR b.allocated IS NOT f.allocated_bytes OR b.calls IS NOT f.calls").fetchall()
        self.assertEqual(wrong, [])
        peaks = ("SELECT max(live) FROM (SELECT process, sum(bytes) OVER (PARTITION BY process ORDER BY ns, bytes) AS live"
                 " FROM (SELECT process, allocated_ns AS ns, size_bytes AS bytes FROM block UNION ALL"
                 " SELECT process, freed_ns, -size_bytes FROM block WHERE freed_ns)) GROUP BY process")
        for (live,), (peak,) in zip(db.execute(peaks), db.execute("SELECT peak_bytes FROM process ORDER BY id")):
            self.assertLessEqual(live, peak)  # of calls within one tick, releases come first here
            self.assertGreater(live, peak * 0.9)
        self.assertEqual(db.execute("SELECT count(*) FROM block WHERE freed_ns AND freed_ns < allocated_ns").fetchone(), (0,))
        self.assertEqual(db.execute("SELECT count(*) FROM block AS b LEFT JOIN stack AS s ON s.id = b.stack"
                                    " WHERE s.id IS NULL").fetchone(), (0,))


class Killed(Case):
    def test_killed(self):
        """Killed 20 times at random, the store holds whole recordings; in the end, all of them."""
        source = os.path.join(self.directory, "in")
        hosts = [f"host-{i}" for i in range(20)]
        began = time.monotonic()
        self.load("--host", "first", source)
        took = time.monotonic() - began
        dice = random.Random(15)
        for host in hosts:
            p = subprocess.Popen([MALLOW, "fleet", "load", "--store", self.store, "--host", host, source],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.random() * took)
            p.kill()
            p.wait()
            found = self.report("--host", host)
            processes = [len(r["processes"]) for r in self.reports]
            whole = [sum(processes[:i]) for i in range(len(processes) + 1)]
            self.assertIn(found["processes"], whole)
            self.check(found, self.reports[:whole.index(found["processes"])])
        for host in hosts:
            self.load("--host", host, source)
            self.check(self.report("--host", host), self.reports)
        self.check(self.report(), self.reports * 21)


class Hostile(Case):
    def fails(self, words, *arguments, status=1, **more):
        out = run("fleet", *arguments, status=status, **more)
        self.assertIn(words, out.stderr)
        self.assertEqual(len(out.stderr.splitlines()), 1, out.stderr)

    def everywhere(self, words, store, **more):
        self.fails(words, "report", "--store", store, **more)
        self.fails(words, "load", "--store", store, self.recordings[0], **more)

    def test_no_store(self):
        other = os.path.join(self.directory, "other")
        self.everywhere("there is no store", other, status=2)
        self.assertFalse(os.path.exists(other))
        for content in (b"no store at all", b"SQLite format 3\0" + bytes(range(256)) * 40):
            with open(other, "wb") as f:
                f.write(content)
            self.everywhere("is not a store of mallow fleet", other)
            self.fails("is not a store of mallow fleet", "init", "--store", other)
            with open(other, "rb") as f:
                self.assertEqual(f.read(), content)
        os.unlink(other)
        sqlite3.connect(other).execute("CREATE TABLE process(id)").connection.commit()
        self.everywhere("is not a store of mallow fleet", other)
        os.unlink(other)
        os.mkfifo(other)
        self.everywhere("the store", other, status=2)
        os.unlink(other)
        self.fails("use --store FILE or --store URL", "report", status=2)

    def test_changed_store(self):
        self.load(self.recordings[0])
        for change, words in [("PRAGMA user_version = 7", "a store of version 7"),
                              ("CREATE TRIGGER t AFTER INSERT ON figure BEGIN DELETE FROM process; END", "its tables"),
                              ("DROP TABLE site; CREATE VIEW site AS SELECT 1 AS id", "its tables"),
                              ("ALTER TABLE frame ADD COLUMN more", "its tables")]:
            store = os.path.join(self.directory, "changed.sqlite")
            shutil.copy(self.store, store)
            db = sqlite3.connect(store)
            db.executescript(change)
            db.close()
            self.everywhere(words, store)
        shutil.copy(self.store, store)
        db = sqlite3.connect(store)
        db.executescript("UPDATE frame SET json = '\x1b[2J'; CREATE VIEW mine AS SELECT * FROM process")
        db.close()
        self.fails("a frame is not a JSON", "report", "--json", "--store", store)
        db = sqlite3.connect(store)
        db.executescript("UPDATE frame SET json = '{}'; UPDATE site SET parent = id")
        db.close()
        self.fails("is damaged", "report", "--json", "--store", store)
        db = sqlite3.connect(store)  # a ring of which each round takes more memory
        db.execute("UPDATE frame SET json = ?", (json.dumps({"function": "x" * 2**20}),))
        db.commit()
        db.close()
        self.fails("take more than 256 MiB", "report", "--json", "--store", store)

    def test_cannot_write(self):
        """A disk that is full ends a load; the store is as it was, and takes the recording later."""
        self.load("--host", "a", self.recordings[0])
        before = self.report()
        limit = os.path.getsize(self.store)

        def full():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        out = run("fleet", "load", "--store", self.store, self.recordings[2], self.recordings[1], status=1,
                  preexec_fn=full)
        self.assertEqual(len(out.stderr.splitlines()), 1, out.stderr)
        self.assertIn("cannot write to the store", out.stderr)
        self.assertEqual(self.report(), before)
        self.load("--host", "b", self.recordings[2])
        self.check(self.report(), [self.reports[0], self.reports[2]])

    def test_read_only(self):
        self.load(self.recordings[0])
        os.chmod(self.store, 0o444)
        drop = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        os.chmod(self.directory, 0o755)
        self.check(json.loads(run("fleet", "report", "--json", *ALL, "--store", self.store, **drop).stdout),
                   [self.reports[0]])
        self.fails("cannot write to the store", "load", "--store", self.store, self.recordings[1], **drop)

    def test_bad_recordings(self):
        """What is no recording is said; the others are loaded."""
        bad = os.path.join(self.directory, "bad.mlw")
        with open(bad, "wb") as f:
            f.write(b"no recording")
        out = run("fleet", "load", "--json", "--store", self.store, bad, self.recordings[0], status=1)
        self.assertEqual([json.loads(out.stdout)[k] for k in ("failed_files", "added_processes")], [1, 1])
        self.assertIn("bad.mlw", out.stderr)
        self.check(self.report(), [self.reports[0]])
