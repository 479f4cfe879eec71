"""What `mallow watch --listen` answers is what `--json` and `--pprof` say, to real clients."""
import base64
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from mallowtest import MALLOW, wait_until
from mallowtest.fakes import functions
from listening import LISTENS, SERVER, Listening, sockets

LEAK, SIZE = "forgets_to_free", 2000
OPEN = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75," \
       "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def without_times(value):
    """Times pass between two reports, and growth is counted from another report."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items()
                if not re.search(r"(time|age)_ns$|^growth_bytes$|^byte_seconds$", k)}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def families(text):
    """Strictly OpenMetrics 1.0: name -> (type, samples)."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-2:]
    found, order = {}, []
    for line in lines[:-2]:
        if line.startswith("# "):
            keyword, name, rest = re.fullmatch(r"# (TYPE|UNIT|HELP) ([a-z_]+) (.+)", line).groups()
            if keyword == "TYPE":
                assert name not in found and rest in ("gauge", "counter"), line
                found[name] = (rest, {})
                order.append(name)
            assert name == order[-1], line
            if keyword == "UNIT":
                assert name.endswith("_" + rest), line
        else:
            name, labels, value = re.fullmatch(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} (\d+)', line).groups()
            kind, samples = found[order[-1]]
            assert name == order[-1] + ("_total" if kind == "counter" else ""), line
            assert labels not in samples, line
            samples[labels] = int(value)
    return found


def go_pprof(*args):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(["go", "tool", "pprof", *args], capture_output=True, text=True, check=True, timeout=300,
                              env={**os.environ, "HOME": home, "PPROF_TMPDIR": home}).stdout


def pprof_values(raw):
    """Of `pprof -raw`: types, default, and the sum of each value."""
    head = re.search(r"Samples:\n(.*)\n", raw).group(1).split()
    rows = re.findall(r"^ +(-?\d+) +(-?\d+) +(-?\d+) +(-?\d+): ", raw, re.M)
    default = [t.replace("[dflt]", "") for t in head if t.endswith("[dflt]")]
    return [t.replace("[dflt]", "") for t in head], default, [sum(int(r[i]) for r in rows) for i in range(4)]


TYPES = ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"]


@unittest.skipUnless(LISTENS, "this build has no libmicrohttpd")
class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.watch = Listening("hold", "500", "wait").wait()
        wait_until(lambda: any(LEAK in functions(s) and s["sampled_blocks"] == 500 for s in cls.watch.json()["sites"]),
              "all blocks are held")

    @classmethod
    def tearDownClass(cls):
        cls.watch.__exit__()

    def test_the_report_is_the_object_of_json(self):
        status, headers, body = self.watch.get("/report.json")
        self.watch.signal(signal.SIGHUP)
        printed = self.watch.next("all")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        self.assertEqual(without_times(json.loads(body)), without_times(printed))
        self.assertEqual(list(json.loads(body)), list(printed))
        self.assertGreater(printed["estimated_bytes"], 500 * SIZE)

    def test_a_report_of_old_blocks_and_of_a_process(self):
        pid = self.watch.json()["pid"]
        self.assertEqual(self.watch.json("/report.json?kind=old")["kind"], "old")
        self.assertEqual(self.watch.json(f"/report.json?pid={pid}")["pid"], pid)
        self.assertEqual(self.watch.get("/report.json?pid=1")[0], 404)
        for query in ("pid=x", "pid=0", "pid=-1", "pid=99999999999999999999", "kind=new", "pid="):
            self.assertEqual(self.watch.get("/report.json?" + query)[0], 400, query)

    def test_curl(self):
        out = subprocess.run(["curl", "-sS", "-D", "-", self.watch.url + "report.json"], capture_output=True,
                             check=True, timeout=300).stdout.decode()
        self.assertIn("HTTP/1.1 200 OK", out)
        self.assertIn("Cache-Control: no-store", out)
        self.assertEqual(json.loads(out.split("\r\n\r\n", 1)[1])["kind"], "all")

    def test_text_metrics(self):
        status, headers, body = self.watch.get("/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn(b"# TYPE mallow_allocated_bytes_total counter\n", body)
        if not shutil.which("promtool"):
            self.skipTest("no promtool: the text format was not checked by it")
        check = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, timeout=300)
        self.assertEqual((check.returncode, check.stdout + check.stderr), (0, b""))

    def test_open_metrics(self):
        for accept in (OPEN, "application/openmetrics-text"):
            _, headers, body = self.watch.get("/metrics", Accept=accept)
            self.assertEqual(headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        for accept in ("text/plain", "*/*", "application/openmetrics-text;q=0.2,text/plain;q=0.5", "application/openmetrics-text;q=0"):
            self.assertIn("0.0.4", self.watch.get("/metrics", Accept=accept)[1]["Content-Type"], accept)
        report, found = self.watch.json(), families(body.decode())
        labels = f'pid="{report["pid"]}",program="server"'
        for name, key in (("mallow_heap_live_bytes", "estimated_bytes"), ("mallow_heap_live_blocks", "estimated_blocks"),
                          ("mallow_heap_live_low_bytes", "estimated_bytes_low"),
                          ("mallow_heap_live_high_bytes", "estimated_bytes_high"),
                          ("mallow_heap_peak_bytes", "estimated_bytes"), ("mallow_sampling_period_bytes", "period_now_bytes")):
            self.assertEqual(found[name], ("gauge", {labels: report[key]}), name)
        self.assertEqual(found["mallow_freed_samples"][0], "counter")
        self.assertGreaterEqual(found["mallow_allocated_bytes"][1][labels], report["estimated_bytes"])
        self.assertFalse([n for n in found if not n.startswith("mallow_")])

    def test_the_page_runs_its_own_script_alone(self):
        status, headers, body = self.watch.get("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        policy = headers["Content-Security-Policy"]
        self.assertTrue(policy.startswith("default-src 'none'; "), policy)
        for tag in ("script", "style"):
            content, = re.findall(f"<{tag}>(.*?)</{tag}>".encode(), body, re.S)
            digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
            self.assertIn(f"{tag}-src 'sha256-{digest}';", policy)
        self.assertNotRegex(body, rb"(?i)https?://|\bsrc=|\bhref=|\bon[a-z]+=|\bstyle=|innerHTML")

    @unittest.skipUnless(shutil.which("chromium"), "no chromium")
    def test_the_page_shows_the_report(self):
        report = self.watch.json()
        wanted = (f"[{report['pid']}]</h1>", f">{LEAK} server.c:", f"{report['estimated_blocks']:,} blocks")

        def shown():
            """A browser that is busy may give the page away before its first report has come."""
            with tempfile.TemporaryDirectory() as home:
                dom = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}",
                                      "--virtual-time-budget=5000", "--dump-dom", self.watch.url], capture_output=True,
                                     text=True, check=True, timeout=300, env={**os.environ, "HOME": home}).stdout
            return all(text in dom for text in wanted)
        wait_until(shown, f"the page has {wanted}", 120)

    def test_other_requests(self):
        self.assertEqual(self.watch.get("/nothing")[0], 404)
        self.assertEqual(self.watch.get("/report.json/")[0], 404)
        for query in ("seconds=0", "seconds=-1", "seconds=x", "seconds=", "seconds=601", "seconds=1.5", "debug=1"):
            for name in ("heap", "allocs"):
                self.assertEqual(self.watch.get(f"/debug/pprof/{name}?{query}")[0], 400, query)

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_profiles(self):
        report = self.watch.json()
        for name, default in (("heap", "inuse_space"), ("allocs", "alloc_space")):
            raw = go_pprof("-raw", f"{self.watch.url}debug/pprof/{name}")
            types, dflt, sums = pprof_values(raw)
            self.assertEqual((types, dflt), (TYPES, [default + "/bytes"]))
            self.assertEqual(sums[2:], [report["estimated_blocks"], report["estimated_bytes"]])
            self.assertIn(LEAK, raw)

    def test_nothing_is_inherited_and_only_loopback_listens(self):
        listening = [f"0100007F:{self.watch.port:04X}"]
        # The connections of the tests before end when the server notices that their clients have gone.
        wait_until(lambda: sockets(self.watch.process.pid) == listening, "only the listening socket is open", 60)
        self.assertEqual(sockets(self.watch.json()["pid"]), [])


@unittest.skipUnless(LISTENS, "this build has no libmicrohttpd")
class Differences(unittest.TestCase):
    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_seconds_count_what_happens_meanwhile(self):
        with tempfile.TemporaryDirectory() as directory, Listening("serve", f"{directory}/port") as watch:
            watch.wait()
            wait_until(lambda: os.path.exists(f"{directory}/port") and os.path.getsize(f"{directory}/port"), "it serves")
            with open(f"{directory}/port", encoding="ascii") as f:
                s = socket.create_connection(("127.0.0.1", int(f.read())))
            stream, results = s.makefile("rw"), {}

            def ask(n):
                for _ in range(n):
                    stream.write("work\n")
                    stream.flush()
                    stream.readline()
            ask(50)
            before = self.leaked(watch)
            thread = threading.Thread(target=lambda: results.update(
                raw=go_pprof("-raw", f"{watch.url}debug/pprof/allocs?seconds=1")))
            thread.start()
            asked = 50
            while thread.is_alive():
                ask(1)
                asked += 1
                time.sleep(0.005)
            thread.join()
            s.sendall(b"stop\n")
            stream.close()
            s.close()
        types, default, _ = pprof_values(results["raw"])
        self.assertEqual((before, types, default), (50, TYPES, ["alloc_space/bytes"]))
        # Every request loses one block of SIZE.
        found = [tuple(map(int, m)) for m in re.findall(r"^ +(-?\d+) +(-?\d+) +(-?\d+) +(-?\d+): ", results["raw"], re.M)]
        lost = [(objects, space) for objects, space, _, _ in found if space == SIZE * objects and objects]
        self.assertTrue(lost and all(objects <= asked - 50 for objects, _ in lost), (asked, found))

    def leaked(self, watch):
        return sum(s["sampled_blocks"] for s in watch.json()["sites"] if LEAK in functions(s))

    def test_a_process_that_ends_in_between(self):
        with tempfile.TemporaryDirectory() as directory, Listening("hold", "1", "wait") as watch:
            watch.wait()
            s = watch.connect(b"GET /debug/pprof/heap?seconds=600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            watch.json()  # the one before has been taken up
            watch.process.stdin.write("\n")
            watch.process.stdin.flush()
            self.assertEqual(watch.process.wait(300), 3)  # it waits for no client
            self.assertEqual(s.recv(1), b"")
            s.close()


class Refused(unittest.TestCase):
    def run_watch(self, *options):
        return subprocess.run([MALLOW, "watch", *options, "--", "/bin/echo", "ran"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300)

    @unittest.skipUnless(LISTENS, "this build has no libmicrohttpd")
    def test_addresses(self):
        for address, why in (("0.0.0.0:0", "not a loopback address"), ("[::]:0", "not a loopback address"),
                             ("[::ffff:127.0.0.1]:0", "not a loopback address"), ("10.0.0.1:80", "not a loopback address"),
                             ("example.com:80", "names are not looked up"), ("127.0.0.1", "an address and a port"),
                             (":80", "an address and a port"), ("127.0.0.1:65536", "an address and a port"),
                             ("127.0.0.1:8x", "an address and a port"), ("127.1:80", "not an address"), ("[::1]80", "an address and a port"),
                             ("", "is empty"), ("1" * 5000 + ":80", "--listen")):
            ended = self.run_watch("--listen", address)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), address)
            self.assertIn(why, ended.stderr)
            self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)

    @unittest.skipUnless(LISTENS, "this build has no libmicrohttpd")
    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            ended = self.run_watch("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual((ended.returncode, ended.stdout), (125, ""))
        self.assertIn("Address already in use", ended.stderr)

    @unittest.skipUnless(LISTENS, "this build has no libmicrohttpd")
    def test_other_loopback_addresses(self):
        for address, shown in (("127.0.0.2:0", r"127\.0\.0\.2"), ("localhost:0", r"127\.0\.0\.1")):
            ended = self.run_watch("--listen", address)
            self.assertEqual((ended.returncode, ended.stdout), (0, "ran\n"), ended.stderr)
            self.assertRegex(ended.stderr, rf"(?m)^listening on http://{shown}:\d+/$")

    @unittest.skipIf(LISTENS, "this build has libmicrohttpd")
    def test_a_build_without_the_library_says_so(self):
        ended = self.run_watch("--listen", "127.0.0.1:0")
        self.assertEqual((ended.returncode, ended.stdout), (125, ""))
        self.assertIn("built without libmicrohttpd", ended.stderr)

    def test_nothing_listens_without_the_option(self):
        with subprocess.Popen([MALLOW, "watch", "--json", "--period", "1", "--", SERVER, "hold", "1", "wait"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
            self.assertEqual(watch.stdout.readline(), "ready\n")
            with open(f"/proc/{watch.pid}/maps", encoding="utf-8", errors="replace") as f:
                self.assertNotIn("microhttpd", f.read())
            self.assertEqual(sockets(watch.pid), [])
            _, err = watch.communicate("\n", timeout=300)
        self.assertNotIn("listening", err)
