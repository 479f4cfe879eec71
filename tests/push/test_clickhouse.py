"""`mallow watch --push-as clickhouse`: reports in a store of `mallow fleet`, on a server of ClickHouse that is there, or is
not for a while."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import unittest
import urllib.parse
import urllib.request

from mallowtest import MALLOW, Test, wait_until
from collector import QUIET, Collector, Pushing

LEAK, SIZE, COUNT = "forgets_to_free", 2000, 500
PROGRAM = next((p for p in ("clickhouse-server", "clickhouse") if shutil.which(p)), None)
CONFIGURATION = """<?xml version="1.0"?>
<yandex><logger><level>warning</level><console>1</console></logger>
<http_port>{port}</http_port><listen_host>127.0.0.1</listen_host>
<path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size></yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex><profiles><default><max_memory_usage>1000000000</max_memory_usage><max_threads>2</max_threads></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default></users><quotas><default></default></quotas></yandex>
"""


class Server:
    def __init__(self, path, port):
        self.path, self.port = path, port
        for name in ("data", "tmp"):
            os.makedirs(os.path.join(path, name), exist_ok=True)
        for name, text in (("users.xml", USERS), ("config.xml", CONFIGURATION.format(port=port, path=path))):
            with open(os.path.join(path, name), "w", encoding="ascii") as f:
                f.write(text)
        command = [PROGRAM] if PROGRAM.endswith("server") else [PROGRAM, "server"]
        self.output = open(os.path.join(path, "output"), "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(command + ["--config-file=config.xml"], cwd=path, stdout=self.output,
                                        stderr=self.output)
        wait_until(self.answers, "the server answers")

    def answers(self):
        assert self.process.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=60) as answer:
                return answer.read() == b"Ok.\n"
        except (OSError, http.client.HTTPException):
            return False

    def ask(self, sql):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/?database=fleet", sql.encode(), timeout=300) as answer:
            return answer.read().decode().split()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.output.close()


@unittest.skipUnless(os.environ["PUSHES"], "this build has no libcurl")
class ClickHouse(Test):
    def fleet(self, command, *arguments):
        out = subprocess.run([MALLOW, "fleet", command, *arguments], capture_output=True, text=True, timeout=300,
                             env={**os.environ, **QUIET}, check=False)
        self.assertEqual(out.returncode, 0, out.stderr)
        return out.stdout

    @unittest.skipUnless(PROGRAM, "no clickhouse-server here")
    def test_reports_in_a_store(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        path, spool = os.path.join(self.folder, "server"), os.path.join(self.folder, "spool")
        url = f"http://127.0.0.1:{port}/fleet"
        server = Server(path, port)
        self.addCleanup(lambda: server.end())
        with Pushing(url, "--push-as", "clickhouse", "--spool", spool, "--label", "service_name=shop", "--label", "version=7") as w:
            w.says("answers 404")  # there is no store yet; nothing is lost
            self.fleet("init", "--store", url)
            w.says("accepts profiles again")
            server.end()
            w.says("it is tried again")
            wait_until(lambda: os.listdir(spool), "reports in the spool")
            w.process.send_signal(signal.SIGKILL)
            w.end()
        waiting = os.listdir(spool)
        self.assertTrue(all(name.endswith(".clickhouse") for name in waiting), waiting)
        server = Server(path, port)
        before = int(server.ask("SELECT uniqExact(key) FROM watched")[0])
        with Pushing(url, "--push-as", "clickhouse", "--spool", spool, "--label", "service_name=shop", "--label", "version=7",
                     every="1000h") as w:
            wait_until(lambda: not os.listdir(spool), "what was left is sent")
            said = w.end()
        self.assertRegex(said, r"--push: reports: \d+ sent \([^)]*\)\n")
        self.assertEqual(os.listdir(spool), [])
        # One of those that waited may have been inserted when the server died.
        self.assertIn(int(server.ask("SELECT uniqExact(key) FROM watched")[0]) - before - len(waiting), (0, 1))
        # The last report of the second process, by name, service and label.
        for selection in ((), ("--service", "shop"), ("--label", "version=7")):
            found = json.loads(self.fleet("report", "--store", url, "--watched", "final", "--json", *selection))
            sites = [s for s in found["sites"] if LEAK in [f["function"] for f in s["frames"]]]
            self.assertEqual([s["estimated_bytes"] for s in sites], [COUNT * SIZE], selection)
            self.assertEqual(found["processes"], 1)
        # Each report has all of its call sites.
        self.assertEqual(server.ask("SELECT count() FROM (SELECT report, uniqExact(place) AS n FROM watched_site GROUP BY report)"
                                    " ANY INNER JOIN (SELECT key AS report, sites FROM watched) USING report WHERE n != sites"), ["0"])

    def test_insertions_in_order(self):
        def answer(n, _asked):
            return (500, {}, b"") if n == 2 else (200, {}, b"")
        with Collector(answer) as server, Pushing(server.url + "/fleet", "--push-as", "clickhouse") as w:
            wait_until(lambda: len(server.taken) >= 5, "a report")
            tables = [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(a["path"]).query))["query"].split()[2]
                      for a in server.asked[:6]]
            self.assertRegex(w.end(), r"reports: \d+ sent")
        # The one that failed is sent again, and what comes behind it after it; the report itself comes last.
        self.assertEqual(tables, ["frame", "site", "site", "called", "watched_site", "watched"])

    def test_urls(self):
        for url in ("http://127.0.0.1:9", "http://127.0.0.1:9/", "http://127.0.0.1:9/a/b", "http://127.0.0.1:9/a-b",
                    "http://127.0.0.1:9/a?b=c", "x"):
            out = subprocess.run([MALLOW, "watch", "--push", url, "--push-as", "clickhouse", "--", "/bin/true"],
                                 capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(out.returncode, 2, out.stderr)
