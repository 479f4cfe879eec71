"""`mallow fleet` on two servers of ClickHouse that share a store: every answer is that of the embedded store, which is
the sum of `mallow report --json`; after the same load twice, and after loads that were killed. And servers that answer
what they should not."""
import http.server
import json
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

from mallowtest import LONG, MALLOW
import test_fleet as fleet
from mallowtest.ports import free_ports
from test_fleet import ALL, run

PROGRAM = next((p for p in ("clickhouse-server", "clickhouse") if shutil.which(p)), None)
CONFIGURATION = """<?xml version="1.0"?>
<yandex><logger><level>warning</level><console>1</console></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size>
<remote_servers><two>{shards}</two></remote_servers></yandex>
"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>{}</port></replica></shard>"
USERS = """<?xml version="1.0"?>
<yandex><profiles><default><max_memory_usage>1000000000</max_memory_usage><max_threads>2</max_threads></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default></users><quotas><default></default></quotas></yandex>
"""


class Servers:
    """Two of them, each a shard of the cluster `two`."""

    def __init__(self, directory):
        ports = free_ports(4)
        self.http, self.processes = ports[:2], []
        for n in range(2):
            path = os.path.join(directory, f"server-{n}")
            for name in ("data", "tmp"):
                os.makedirs(os.path.join(path, name))
            with open(os.path.join(path, "users.xml"), "w") as f:
                f.write(USERS)
            with open(os.path.join(path, "config.xml"), "w") as f:
                f.write(CONFIGURATION.format(http=ports[n], tcp=ports[2 + n], path=path,
                                             shards="".join(map(SHARD.format, ports[2:]))))
            command = [PROGRAM] if PROGRAM.endswith("server") else [PROGRAM, "server"]
            with open(os.path.join(path, "output"), "w") as out:
                self.processes.append(subprocess.Popen(command + ["--config-file=config.xml"], cwd=path, stdout=out,
                                                       stderr=out))
        for n in range(2):
            self.wait(n, directory)

    def wait(self, n, directory):
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.http[n]}/ping", timeout=60) as answer:
                    if answer.read() == b"Ok.\n":
                        return
            except OSError:
                pass
            if self.processes[n].poll() is not None:
                with open(os.path.join(directory, f"server-{n}", "output")) as f:
                    raise RuntimeError("a server ended at its start: " + f.read()[-2000:])
            time.sleep(0.05)

    def url(self, database, n=0):
        return f"http://127.0.0.1:{self.http[n]}/{database}"

    def ask(self, database, sql, n=0):
        return self.answer(database, sql, n).split()

    def lines(self, database, sql, n=0):
        return self.answer(database, sql, n).splitlines()

    def answer(self, database, sql, n):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http[n]}/?database={database}", sql.encode()) as answer:
            return answer.read().decode()

    def end(self):
        for p in self.processes:
            p.kill()
            p.wait()


class Both(fleet.Case):
    """self.store: of a server; self.file: the embedded store."""

    def both(self, *arguments):
        """The answer of the server, which is that of the file."""
        answers = []
        for store in dict.fromkeys((self.store, self.file)):  # one is asked once: a second load finds the first
            answers.append(json.loads(run("fleet", *arguments, "--json", "--store", store).stdout))
            if "store" in answers[-1]:
                self.assertEqual(answers[-1].pop("store"), store)
        self.assertEqual(answers[0], answers[-1])
        return answers[0]


@unittest.skipIf(PROGRAM is None, "no clickhouse-server here; scripts/dependencies check installs it")
class Cluster(Both):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.servers = Servers(cls.directory)

    @classmethod
    def tearDownClass(cls):
        cls.servers.end()
        super().tearDownClass()

    def setUp(self):
        """self.store: both servers; self.file: the embedded store."""
        self.database = self.id().rsplit(".", 1)[1]
        self.file = os.path.join(self.directory, self.database + ".sqlite")
        self.store = self.servers.url(self.database)
        run("fleet", "init", "--store", self.file)
        for n in range(2):
            run("fleet", "init", "--store", self.servers.url(self.database, n), "--cluster", "two")

    def everywhere(self, expected):
        self.check(self.both("report", *ALL), expected)
        found = json.loads(run("fleet", "report", "--json", *ALL, "--store", self.servers.url(self.database, 1)).stdout)
        self.check(found, expected)

    def quiet(self):
        """Waits until no server is at work for a client that is gone."""
        while any(self.servers.ask(self.database, "SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'", n)
                  != ["0"] for n in range(2)):
            time.sleep(0.02)

    def test_sums(self):
        """Ten recordings of ten hosts, twice."""
        loaded = []
        for turn in range(2):
            for host in range(10):
                index = host % len(self.recordings)
                n = self.both("load", "--host", f"it's host \\{host}", "--label", f"half={host % 2}",
                              self.recordings[index])
                count = len(self.reports[index]["processes"])
                self.assertEqual([n["added_processes"], n["present_processes"]], [0, count] if turn else [count, 0])
                loaded += [] if turn else [self.reports[index]]
            if turn or LONG:  # a question takes a second and a half of the servers' time
                self.everywhere(loaded)
        rows = [int(self.servers.ask(self.database, "SELECT count() FROM process_local", n)[0]) for n in range(2)]
        self.assertEqual(sum(rows), sum(len(r["processes"]) for r in loaded))
        self.assertTrue(all(rows), "one server has every process: nothing was tested")
        self.check(self.both("report", *ALL, "--host", "it's host \\1", "--since", "1970-01-02"), [self.reports[1]])
        self.check(self.both("report", *ALL, "--label", "half=1"), loaded[1::2])
        self.check(self.both("report", *ALL, "--service", "nothing"), [])
        self.check(self.both("report", *ALL, "--until", "1970-01-02"), [])
        build = self.servers.ask(self.database, "SELECT DISTINCT build_id FROM process")
        self.check(self.both("report", *ALL, "--build-id", build[0][:12].upper()), loaded)
        for by in ("peak", "end", "allocated", "temporary", "calls") if LONG else ("allocated", "temporary"):
            few = self.both("report", "--by", by, "-n", "3")
            self.assertEqual(len(few["sites"]), 3)
            sql = run("fleet", "report", "--sql", "--by", by, "-n", "3", "--store", self.store).stdout
            rows = self.servers.ask(self.database, sql.rstrip().rstrip(";"))
            self.assertEqual([int(v) for v in rows[1:8]], [few["sites"][0][name] for name in fleet.FIGURES])
        self.many_stacks(2 * 10**7)  # of a few million processes and call sites at once
        self.everywhere(loaded)
        diff = self.both("diff", "--old", "label.half=0", "--new", "label.half=1")
        self.assertEqual([diff["old"]["processes"], diff["new"]["processes"]],
                         [sum(len(r["processes"]) for r in loaded[n::2]) for n in range(2)])
        self.assertTrue(diff["sites"])
        text = run("fleet", "report", "--by", "end", "--store", self.store).stdout
        self.assertIn("inlined_leaf  victim.c:19", text)

    def many_stacks(self, count):
        """Newer rows of all processes say that these have so many stacks: questions are asked in parts."""
        columns = [c.split(" ")[0] for c in self.servers.lines(self.database, "DESCRIBE TABLE process FORMAT TSV", 0)]
        columns = [c.split("\t")[0] for c in columns]
        changed = {"version": "version + 1", "stacks": f"toUInt64({count})"}
        self.servers.ask(self.database, "INSERT INTO process SELECT " + ", ".join(changed.get(c, c) for c in columns) + " FROM process")

    def test_questions(self):
        for host in range(6):
            self.both("load", "--host", f"h{host % 4}", "--label", f"half={host % 2}", "--service", f"s{host % 3}",
                      self.recordings[host % 4])
        found = self.both("report", *ALL, "--leaks")
        self.assertTrue(found["sites"])
        self.assertTrue(self.both("report", *ALL, "--distribution", "--by", "calls")["sites"])
        for by in ("host", "service", "build-id", "allocator", "label.half", "label.it's") if LONG else ("service", "label.it's"):
            self.assertTrue(self.both("report", "-n", "2", "--distribution", "--group-by", by)["groups"])
        self.assertFalse(self.both("report", "--distribution", "--host", "h9")["groups"])
        grown = self.both("report", "--growth", "--by", "calls", "--host", "h1", "--baseline", "1970-01-02..")
        self.assertEqual(grown["old"], grown["new"])
        for question in ("--leaks", "--distribution"):
            for sql in run("fleet", "report", "--sql", question, "--store", self.store).stdout.split(";\n")[:-1]:
                self.assertTrue(self.servers.ask(self.database, sql))
        for n, (arguments, top) in enumerate((([], 3), (["--label", "half=1"], 2))):
            fleet.check_sql(self, arguments, top,
                            lambda sql, _, n=n: [r.split("\t") for r in self.servers.lines(self.database, sql, n)])

    def test_call_sites(self):
        """By call site, as the embedded store has it; and in a store of the version before, once `init` has added what it lacks."""
        deep = os.path.join(self.directory, "deep.mlw")
        run("record", "-q", "-o", deep, "--", fleet.OLD_BUILD, "3", "0", "40")
        for host in range(3):
            self.both("load", "--host", f"h{host}", deep if host else self.recordings[2])
        reports = os.path.join(self.directory, "call-sites.jsonl")
        fleet.write_reports(reports, fleet.REPORTS)
        self.both("load", reports)
        os.unlink(reports)
        questions = (["--by", "end"], ["--leaks"], ["--distribution"], ["--watched", "all"])
        answers = [self.both("report", "-n", "5", "--call-sites", *q) for q in questions]
        self.assertTrue(all(a["sites"] for a in answers))
        for q in questions:
            for store in (self.file, self.store):
                sql = run("fleet", "report", "--call-sites", "--sql", "-n", "2", *q, "--store", store).stdout.split(";\n")[:-1]
                if store == self.store:
                    self.assertTrue(all(self.servers.ask(self.database, s) for s in sql))
        text = run("fleet", "report", "--by", "end", "--store", self.store).stdout
        self.assertEqual(text.replace(self.store, ""), run("fleet", "report", "--by", "end", "--store", self.file).stdout.replace(self.file, ""))
        self.assertEqual(text.count("descend"), 1)
        for n in range(2):  # as version 3 had it
            for sql in ("DROP TABLE called", "DROP TABLE called_local", "DROP TABLE mallow_store",
                        "CREATE TABLE mallow_store (version UInt64) ENGINE = MergeTree ORDER BY version", "INSERT INTO mallow_store VALUES (3)"):
                self.servers.ask(self.database, sql, n)
        self.both("report", "--by", "end")
        out = run("fleet", "report", "--store", self.store, status=1).stderr
        self.assertIn("'mallow fleet init --store URL' adds them", out)
        self.both("load", "--host", "later", deep)
        out = run("fleet", "init", "--store", self.store, status=2).stderr
        self.assertIn("say --cluster NAME", out)
        for n in range(2):
            run("fleet", "init", "--store", self.servers.url(self.database, n), "--cluster", "two")
        again = [self.both("report", "-n", "5", "--call-sites", *q) for q in questions]
        self.assertEqual(again[0]["processes"], answers[0]["processes"] + 1)
        self.assertEqual(again[3], answers[3])

    def test_any_sharding(self):
        """Rows that lie on either server by chance give the same answers."""
        for n in range(2):
            for table in ("location", "frame", "site", "called", "stack", "figure", "slice", "block", "process", "watched", "watched_site"):
                self.servers.ask(self.database, f"DROP TABLE {table}", n)
                self.servers.ask(self.database, f"CREATE TABLE {table} AS {table}_local ENGINE = Distributed(two, {self.database},"
                                 f" {table}_local, rand())", n)
        for host in range(6):
            self.both("load", "--host", f"h{host % 4}", "--label", f"half={host % 2}", "--service", f"s{host % 3}",
                      self.recordings[host % 4])
        split = [set(self.servers.ask(self.database, "SELECT DISTINCT attempt FROM figure_local", n)) for n in range(2)]
        self.assertTrue(split[0] & split[1], "no process is on both servers: nothing was tested")
        for by in ("peak", "end", "calls"):
            if by != "peak" or LONG:
                self.assertTrue(self.both("report", *ALL, "--by", by)["sites"])
            if by != "end" or LONG:
                self.assertTrue(self.both("report", *ALL, "--distribution", "--by", by)["sites"])
        self.assertTrue(self.both("report", *ALL, "--leaks")["sites"])
        self.assertTrue(self.both("report", *ALL, "--call-sites", "--by", "end")["sites"])
        self.assertTrue(self.both("report", *ALL, "--by", "byte-seconds")["sites"])
        self.assertTrue(self.both("report", "--timeline")["slices"])
        self.assertTrue(self.both("report", "--timeline", "--slice", "1h")["slices"])
        self.assertTrue(self.both("diff", "--old", "label.half=0", "--new", "label.half=1", "--by", "calls")["sites"])

    def test_blocks_and_reports(self):
        for recording in self.recordings[:2]:
            self.both("load", "--events", "--host", "a", recording)
            self.both("load", "--events", "--host", "a", recording)
        columns = "number, stack, size_bytes, address, thread, freed_by, allocated_ns, freed_ns, temporary"
        rows = self.servers.ask(self.database, f"SELECT {columns} FROM block WHERE attempt GLOBAL IN (SELECT attempt"
                                " FROM process) ORDER BY process, number")
        db = sqlite3.connect(self.file)
        expected = db.execute(f"SELECT {columns} FROM block").fetchall()
        found = [tuple(int(v) for v in rows[i:i + 9]) for i in range(0, len(rows), 9)]
        self.assertTrue(found)
        self.assertEqual(sorted(found), sorted((r[0], r[1] % 2**64, *r[2:]) for r in expected))
        self.assertEqual(self.both("load", "--host", "a", self.recordings[0])["present_processes"], 1)
        path = os.path.join(self.directory, "reports.jsonl")
        fleet.write_reports(path, fleet.REPORTS)
        for turn in range(2):
            loaded = self.both("load", "--label", "half=it's", path)
            self.assertEqual([loaded["added_reports"], loaded["present_reports"]],
                             [0, len(fleet.REPORTS)] if turn else [len(fleet.REPORTS), 0])
        for arguments in ([], ["--host", "h1"], ["--until", "@1500"], ["--label", "half=it's"], ["--service", "none"]):
            fleet.check_watched(self, self.both("report", "--watched", "all", *arguments),
                                fleet.watched_truth(fleet.REPORTS, arguments))
        self.servers.ask(self.database, "INSERT INTO watched SELECT * FROM watched")
        self.servers.ask(self.database, "INSERT INTO watched_site SELECT * FROM watched_site")
        self.both("report", "--watched", "all")
        self.both("report", "--watched", "final")

    def test_again_with_other_facts(self):
        """What changed takes the place of what was there; two rows of one state count once."""
        for service in ("one", "two", "one"):
            self.both("load", "--service", service, "--label", "of=" + service, self.recordings[2])
            self.check(self.both("report", *ALL, "--service", service), [self.reports[2]])
            if LONG:
                self.everywhere([self.reports[2]])
        self.servers.ask(self.database, "INSERT INTO process SELECT * FROM process")
        self.everywhere([self.reports[2]])

    def test_killed(self):
        """Killed at random moments; what is there is whole, and in the end all of it, once."""
        source = os.path.join(self.directory, "in")
        began = time.monotonic()
        self.load("--host", "first", source)
        took = time.monotonic() - began
        dice = random.Random(15)
        for i in range(20 if LONG else 3):
            p = subprocess.Popen([MALLOW, "fleet", "load", "--store", self.store, "--host", f"host-{i % 5}", source],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.random() * took)
            p.kill()
            p.wait()
            self.quiet()
            # each process of a host that is there has all its figures
            found = self.report("--host", f"host-{i % 5}", "--by", "calls")
            calls = sum(s["calls"] for s in found["sites"])
            sql = ("SELECT sum(calls) FROM (SELECT key, any(calls) AS calls FROM process"
                   f" WHERE host = 'host-{i % 5}' GROUP BY key)")
            self.assertEqual(calls, int(self.servers.ask(self.database, sql)[0]))
        for i in range(5):
            self.load("--host", f"host-{i}", source)
            if i == 4 or LONG:
                self.check(self.report("--host", f"host-{i}"), self.reports)
        self.check(self.report(), self.reports * 6)


# ---- another version ----


@unittest.skipUnless(shutil.which("node") and os.environ.get("MALLOW_CHDB"),
                     "no current ClickHouse here: 'npm i chdb' in a directory and MALLOW_CHDB=DIRECTORY make this run")
class Newer(Both):
    """All questions to a current engine, which reads SQL more strictly than 18.16."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = subprocess.Popen(["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "chdb_server.mjs"),
                                       cls.directory], stdout=subprocess.PIPE, text=True)
        cls.port, cls.version = cls.server.stdout.readline().split()

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.communicate()
        super().tearDownClass()

    def test_questions(self):
        print("ClickHouse", self.version, file=sys.stderr)
        self.store = f"http://127.0.0.1:{self.port}/fleet"
        self.file = os.path.join(self.directory, "newer.sqlite")
        loaded = []
        for store in (self.store, self.file):
            run("fleet", "init", "--store", store)
        for turn in range(2):
            for host in range(10):
                index = host % len(self.recordings)
                self.both("load", "--host", f"it's host {host}", "--label", f"half={host % 2}", "--service", f"s{host % 3}",
                          *(["--events"] if host == 1 else []), self.recordings[index])
                loaded += [] if turn else [self.reports[index]]
            self.check(self.both("report", *ALL), loaded)
        path = os.path.join(self.directory, "reports.jsonl")
        fleet.write_reports(path, fleet.REPORTS)
        self.both("load", path)
        for arguments in ([], ["--host", "it's host 1"], ["--label", "half=1"], ["--service", "s1"], ["--since", "1970-01-02"]):
            for by in ("peak", "end", "allocated", "temporary", "calls", "byte-seconds"):
                self.both("report", "--by", by, "-n", "3", *arguments)
                self.both("report", "--distribution", "--by", by, *arguments)
            self.assertTrue(self.both("report", *ALL, "--leaks", *arguments)["sites"])
            self.assertTrue(self.both("report", "--timeline", *arguments)["slices"])
        for by in ("host", "service", "build-id", "label.half"):
            self.assertTrue(self.both("report", "-n", "2", "--distribution", "--group-by", by)["groups"])
        self.assertTrue(self.both("diff", "--old", "label.half=0", "--new", "label.half=1")["sites"])
        for arguments in ([], ["--host", "h1"], ["--until", "@1500"]):
            fleet.check_watched(self, self.both("report", "--watched", "all", *arguments),
                                fleet.watched_truth(fleet.REPORTS, arguments))
        for question in (["report"], ["report", "--leaks"], ["report", "--distribution"], ["report", "--watched", "all"],
                         ["report", "--timeline"], ["report", "--by", "byte-seconds"], ["diff", "--old", "label.half=0", "--new", "label.half=1"]):
            for sql in run("fleet", *question, "--sql", "--store", self.store).stdout.split(";\n")[:-1]:
                url = f"http://127.0.0.1:{self.port}/?database=fleet"
                with urllib.request.urlopen(url, (sql + " FORMAT TSV").encode()) as answer:
                    self.assertTrue(answer.read())


# ---- servers that answer what they should not ----

def number(*values):
    return struct.pack(f"<{len(values)}Q", *values)


class FalseServer(fleet.Case):
    """A server that answers questions in turn from a list; the last answer again and again."""

    def setUp(self):
        self.answers, self.headers = [], []
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                test.headers.append(dict(self.headers))
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = test.answers.pop(0) if len(test.answers) > 1 else test.answers[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/fleet"

    def tearDown(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def fails(self, words, *arguments, status=1):
        out = run("fleet", *arguments, status=status)
        self.assertIn(words, out.stderr)
        self.assertEqual(len(out.stderr.splitlines()), 1, out.stderr)
        self.assertNotIn("\x1b", out.stderr + out.stdout)

    def report(self, *arguments):
        return ["report", "--store", self.url, *arguments]

    def test_answers(self):
        opened = [(200, number(1)), (200, number(4))]
        totals = (200, number(*[1] * 17) + b"\0")
        asked = opened + [totals, (200, number(1, 1, 1) + b"\0")]
        site = (200, number(5, *[7] * 10) + b"\0")
        for answers, words, status in [
                ([(500, b"\x1b[2Jbroken\nmore")], "?[2Jbroken", 1),
                ([(302, b"")], "answers 302", 1),
                ([(200, b"")], "is truncated", 1),
                ([(200, number(0))], "there is no store", 2),
                ([(200, number(1)), (200, number(9))], "a store of version 9", 1),
                (opened + [(200, number(1, 2))], "is truncated", 1),
                (opened + [totals, (200, number(1, 1))], "is truncated", 1),
                (asked + [(200, number(5, 7))], "is truncated", 1),
                (asked + [site, (200, b"")], "is damaged", 1),
                (asked + [site, (200, number(5, 0, 1) + b"\xff\xff\xff\xff\x7f{}")], "is truncated", 1),
                (asked + [site, (200, number(5, 0, 1) + b"\x03\x1b[2")], "a frame is not a JSON", 1),
                (asked + [site, (200, number(5, 5, 1) + b"\x02{}")], "is damaged", 1)]:
            self.answers = list(answers)
            self.fails(words, *self.report(), status=status)

    def test_too_long(self):
        """A server that never ends its answer."""
        body = bytes(1 << 20)

        self.answers = [(200, number(4))]
        handler = self.server.RequestHandlerClass

        def do_POST(request):
            request.rfile.read(int(request.headers["Content-Length"]))
            request.send_response(200)
            request.end_headers()
            try:
                while True:
                    request.wfile.write(body)
            except OSError:
                pass
        handler.do_POST = do_POST
        self.fails("the answer is longer than", *self.report())

    def test_key(self):
        """A key comes from a file; it is in no message and no URL."""
        key = os.path.join(self.directory, "key")
        with open(key, "w") as f:
            f.write("se cret\n")
        self.answers = [(403, b"no")]
        url = self.url.replace("//", "//reader@")
        self.fails("answers 403", "report", "--store", url, "--key-file", key)
        self.assertEqual([self.headers[0]["X-ClickHouse-User"], self.headers[0]["X-ClickHouse-Key"]],
                         ["reader", "se cret"])
        self.fails("a password in a URL", "report", "--store", self.url.replace("//", "//u:pw@"), status=2)
        with open(key, "w") as f:
            f.write("a\x01b")
        self.fails("control character", "report", "--store", url, "--key-file", key, status=2)
        self.fails("does not end in the name", "report", "--store", self.url + "%27", status=2)
        self.fails("is not supported", "report", "--store", "ftp://127.0.0.1/x", status=2)
