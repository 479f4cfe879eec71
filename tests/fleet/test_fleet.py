"""`mallow fleet`: every figure of its report is the sum of those of `mallow report --json`, whatever was loaded
how often, and whenever a load was killed. Usage:
test_fleet.py MALLOW VICTIM OLD_BUILD NEW_BUILD PART"""
import collections
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

MALLOW, VICTIM, OLD_BUILD, NEW_BUILD = sys.argv[1:5]
FIGURES = ["calls", "allocated_bytes", "peak_bytes", "peak_blocks", "end_live_bytes", "end_live_blocks", "temporary"]
TOTALS = ["requested_bytes", "peak_live_bytes", "peak_live_blocks", "end_live_bytes", "end_live_blocks",
          "temporary_allocations", "events", "lost_events"]
ALL = ["-n", "1000000"]


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
        self.assertIn("inlined_leaf  victim.c:20", run("fleet", "report", "--by", "end", "--store", self.store).stdout)

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
                                 (["--old", "all", "--new", "since=soon"], "'soon' is no time"),
                                 (["--old", "all", "--new", "all"], "no process is selected by --old")]:
            out = run("fleet", "diff", "--store", self.store, *arguments, status=2)
            self.assertIn(words, out.stderr)


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
            self.everywhere("is no store of mallow fleet", other)
            self.fails("is no store of mallow fleet", "init", "--store", other)
            with open(other, "rb") as f:
                self.assertEqual(f.read(), content)
        os.unlink(other)
        sqlite3.connect(other).execute("CREATE TABLE process(id)").connection.commit()
        self.everywhere("is no store of mallow fleet", other)
        os.unlink(other)
        os.mkfifo(other)
        self.everywhere("the store", other, status=2)
        os.unlink(other)
        self.fails("--store FILE or --store URL is needed", "report", status=2)

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
        self.fails("a frame is no JSON", "report", "--json", "--store", store)
        db = sqlite3.connect(store)
        db.executescript("UPDATE frame SET json = '{}'; UPDATE site SET parent = id")
        db.close()
        self.fails("is damaged", "report", "--store", store)

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
