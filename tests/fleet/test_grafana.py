"""Each query of the Grafana dashboard, with the variables filled in as Grafana does it, on a real store: what comes
back is what was loaded."""
import json
import os
import shutil
import tempfile
import unittest

from mallowtest import ROOT
import test_clickhouse as clickhouse
import test_fleet as fleet

DASHBOARD = os.path.join(ROOT, "packaging", "grafana", "mallow-fleet.json")


def fill(sql, services, kind, until=10**13):
    for name, value in (("${service:sqlstring}", ",".join(f"'{s}'" for s in services)), ("${kind:sqlstring}", f"'{kind}'"),
                        ("$__from", "0"), ("$__to", str(until))):
        sql = sql.replace(name, value)
    return sql


@unittest.skipIf(clickhouse.PROGRAM is None, "no clickhouse-server here; scripts/dependencies check installs it")
class Grafana(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mallow-grafana-")
        cls.servers = clickhouse.Servers(cls.directory)

    @classmethod
    def tearDownClass(cls):
        cls.servers.end()
        shutil.rmtree(cls.directory)

    def ask(self, sql):
        lines = self.servers.lines("dashboard", sql + " FORMAT TabSeparatedWithNames")
        rows = [line.split("\t") for line in lines]
        return [dict(zip(rows[0], row)) for row in rows[1:]]

    def test_dashboard(self):
        store = self.servers.url("dashboard")
        recording, reports = (os.path.join(self.directory, name) for name in ("r.mlw", "w.json"))
        fleet.run("fleet", "init", "--store", store)
        fleet.run("record", "-q", "-o", recording, "--", fleet.OLD_BUILD, "10")
        fleet.write_reports(reports, fleet.REPORTS)
        for host in ("h1", "h2"):
            fleet.run("fleet", "load", "--store", store, "--host", host, recording)
        fleet.run("fleet", "load", "--store", store, reports)
        peak = json.loads(fleet.run("report", "--json", recording).stdout)["processes"][0]["peak_live_bytes"]
        end = json.loads(fleet.run("report", "--json", recording).stdout)["processes"][0]["end_live_bytes"]
        with open(DASHBOARD) as f:
            dashboard = json.load(f)
        service = next(v for v in dashboard["templating"]["list"] if v["name"] == "service")
        services = [r["service"] for r in self.ask(service["query"])]
        self.assertEqual(services, ["api", os.path.basename(fleet.OLD_BUILD)])
        answers = {p["title"]: self.ask(fill(p["targets"][0]["rawSql"], services, "all")) for p in dashboard["panels"]}
        self.assertEqual(len(answers), len(dashboard["panels"]))
        for title, rows in answers.items():
            self.assertTrue(rows, title)
        self.assertEqual(answers["Processes recorded"], [{"processes": "2", "hosts": "2", "builds": "1"}])
        self.assertEqual(answers["Processes watched"], [{"processes": "3", "hosts": "2"}])
        last, _ = fleet.watched_truth(fleet.REPORTS)
        by_host = {h: sum(r["estimated_bytes"] for (host, _), r in last.items() if host == h) for h in ("h1", "h2")}
        watched = answers["Watched: hosts that hold most, by the last report of each process"]
        self.assertEqual({r["host"]: int(r["estimated"]) for r in watched}, by_host)
        recorded = answers["Recorded: hosts that hold most at the end"]
        self.assertEqual({r["host"]: int(r["bytes"]) for r in recorded}, {"h1": end, "h2": end})
        builds = answers["Recorded: peak of a process by service and build"]
        self.assertEqual([(r["processes"], int(r["median"]), int(r["most"])) for r in builds], [("2", peak, peak)])
        for p in dashboard["panels"]:
            if p["type"] != "stat":
                self.assertEqual(self.ask(fill(p["targets"][0]["rawSql"], ["none"], "all")), [], p["title"])
                self.assertEqual(self.ask(fill(p["targets"][0]["rawSql"], services, "all", until=1)), [], p["title"])
