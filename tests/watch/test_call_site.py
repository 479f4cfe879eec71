"""A call site is one thing, and has one name, in whatever shows it."""
import base64
import csv
import glob
import gzip
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import time
import urllib.request
import zlib

from mallowtest import MALLOW, Case, pythons, run, source, victim
from mallowtest.ports import free_ports

SHOWN = 6  # call sites, the largest, that are looked for


def key(frame):
    """What a place is known by: its name, and the line where there is one."""
    file = os.path.basename(frame.get("file") or "")
    return (frame.get("function") or frame.get("address")) + (f" ({file}:{frame['line']})" if frame.get("line") else "")


def line_key(text):
    """The same of a line of text, without what stands behind it."""
    found = re.match(r"(.*?) \((?:[^()\s]*/)?([^()\s/]+:\d+)\)", text)
    if found:
        return re.sub(r" \[inlined\]$", "", found[1]) + f" ({found[2]})"
    return re.sub(r"( \[inlined\])?( \([^()\s]*\.\w+\)| \(<string>\))?$", "", re.split(r"  +", text)[0])


def function(name):
    """Of a key."""
    return re.sub(r" \([^()\s]+:\d+\)$", "", name)


def fields(message):
    """Of a message of protocol buffers: (number, value), numbers and bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            yield tag >> 3, message[at:at + size]
            at += size
        else:
            assert tag & 7 == 0, tag
            yield tag >> 3, varint()


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def leaves(path):
    """The leaves of a profile as its readers show them, with drop_frames applied, and what each holds at the end of the program."""
    with gzip.open(path) as f:
        profile = list(fields(f.read()))
    texts = [v.decode() for n, v in profile if n == 6]
    functions = {f[1]: f for f in (dict(fields(v)) for n, v in profile if n == 5)}
    locations = {}
    for v in (list(fields(v)) for n, v in profile if n == 4):
        lines = [dict(fields(line)) for n, line in v if n == 4]
        locations[dict(v)[1]] = [(texts[functions[line[1]][2]], texts[functions[line[1]].get(4, 0)], line.get(2, 0)) for line in lines]
    kinds = [texts[dict(fields(v))[1]] for n, v in profile if n == 1]
    live = next(i for i, kind in enumerate(kinds) if kind in ("inuse_space", "live_space", "end_space"))
    drop = next((texts[v] for n, v in profile if n == 7), "")
    found = {}
    for v in (list(fields(v)) for n, v in profile if n == 2):
        parts = {n: list(varints(data)) if isinstance(data, bytes) else [data] for n, data in v if n in (1, 2)}
        stack = [frame for at in parts[1] for frame in locations[at]]
        place = next((i for i in reversed(range(len(stack))) if drop and re.fullmatch(drop, stack[i][0])), -1)
        function, file, line = stack[min(place + 1, len(stack) - 1)]
        name = key({"function": function, "file": file, "line": line})
        found[name] = found.get(name, 0) + parts[2][live]
    return found


def plain(name):
    """A name without the parameters of C++, which tables leave out: "app::grow (names.cpp:36)"."""
    return re.sub(r"\((?![^()]*:\d+\))[^()]*\)(?: const)?", "", name)


def ask(port):
    """The report of the live page; None before the watch has seen the process."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/report.json?kind=all", timeout=60) as f:
            return json.load(f)
    except OSError:
        return None


class CallSite(Case):
    def test_of_report_and_watch(self):
        path = os.path.join(self.folder, "r.mlw")
        self.assertEqual(run([MALLOW, "record", "-q", "-o", path, "--", victim("sites")]).rc, 0)
        [recorded] = json.loads(run([MALLOW, "report", "--json", path]).out)["processes"]
        truth = {key(s["frames"][s["call_site"]]) for s in recorded["sites"] if s["end_live_blocks"]}
        watched = run([MALLOW, "watch", "--json", "--every", "1h", "--period", "1", "--", victim("sites")])
        final = json.loads(watched.out.splitlines()[-1])
        self.assertEqual({key(s["frames"][s["call_site"]]) for s in final["sites"]}, truth)
        self.assertGreater(len(truth), 5)

    def test_a_row_is_a_call_site(self):
        """malloc in one_path is called on two ways."""
        said = run([MALLOW, "watch", "--every", "1h", "--period", "1", "--", victim("sites")]).err.decode()
        self.assertEqual(said.count("    one_path ("), 1, said)
        self.assertIn("  1.6 KB in 10 blocks, 10 sampled", said)
        self.assertIn("    and 400 B in 1 more stack with this call site\n", said)


class Everywhere(Case):
    """One recording and one watch of a program; the call sites that hold most at its end, by each output."""

    def mallow(self, *arguments):
        done = run([MALLOW, *arguments])
        self.assertEqual(done.rc, 0, (arguments, done.err[-2000:]))
        return done.out.decode()

    def path(self, name):
        return os.path.join(self.folder, name)

    def json(self, *arguments):
        return json.loads(self.mallow(*arguments))

    def of_sites(self, sites, bytes_of):
        found = {}
        for s in (s for s in sites if s["frames"]):
            name = key(s["frames"][s["call_site"]])
            found[name] = found.get(name, 0) + s[bytes_of]
        return found

    # -- each gives {name of a call site: bytes, or None where it has none}

    def report_json(self):
        return self.of_sites(self.json("report", "--json", "-n0", self.file)["processes"][0]["sites"], "end_live_bytes")

    def report_text(self):
        text = self.mallow("report", "--by", "end", f"-n{3 * SHOWN}", self.file).split("\nStill live at the end")[1]
        return dict.fromkeys(line_key(m) for m in re.findall(r"^ ?\d+ +[\d.]+ [KMG]?B .*\n +(.*)", text, re.M))

    def report_page(self):
        self.mallow("report", f"--html={self.path('r.html')}", self.file)
        with open(self.path("r.html"), encoding="utf-8") as f:
            blocks = {n: json.loads(zlib.decompress(base64.b64decode(d))) for n, d in
                      re.findall(r'<script type="application/octet-stream" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>', f.read())}
        page = next(v for n, v in blocks.items() if n.startswith("process-"))["page"]
        frames, texts, found = page["frames"], page["texts"], {}
        for site in page["groups"]["site"]:
            if site > 0:
                site -= 1
                found[key({"function": texts[frames["function"][site]], "file": texts[frames["file"][site]],
                           "line": frames["line"][site]})] = None
        return found

    def diff_json(self):
        return dict.fromkeys(key(s["frames"][s["call_site"]])
                             for s in self.json("diff", "--json", "--by", "end", "-n0", self.empty, self.file)["sites"])

    def diff_text(self):
        text = self.mallow("diff", "--by", "end", f"-n{3 * SHOWN}", self.empty, self.file)
        return dict.fromkeys(line_key(m) for m in re.findall(r"^ +\+[\d.]+ [KMG]?B  .*\n +(.*)", text, re.M))

    def export_sqlite(self):
        self.mallow("export", "--format=sqlite", "-o", self.path("r.db"), self.file)
        with sqlite3.connect(self.path("r.db")) as db:
            rows = db.execute("select c.function, c.file, c.line, sum(s.end_live_bytes) from site s join call_site c on c.process = s.process "
                              "and c.id = s.call_site group by 1, 2, 3").fetchall()
        return {key({"function": a, "file": b, "line": c}): bytes for a, b, c, bytes in rows}

    def export_csv(self):
        self.mallow("export", "--format=csv", "-o", self.path("r.csv"), self.file)
        with open(self.path("r.csv"), encoding="utf-8") as f:
            return dict.fromkeys(re.sub(r" \([^():\s]+\)$", "", line_key(row["site"])) for row in csv.DictReader(f))

    def export_pprof(self):
        self.mallow("export", "--format=pprof", "-o", self.path("r.pb.gz"), self.file)
        return leaves(self.path("r.pb.gz"))

    def fleet(self):
        if not os.path.exists(self.path("f.db")):
            self.mallow("fleet", "--store", self.path("f.db"), "init")
            self.mallow("fleet", "--store", self.path("f.db"), "load", self.file)
        return ["fleet", "--store", self.path("f.db"), "report", "--by", "end"]

    def fleet_json(self):
        return self.of_sites(self.json(*self.fleet(), "-n1000000", "--json")["sites"], "end_live_bytes")

    def fleet_text(self):
        text = self.mallow(*self.fleet(), f"-n{3 * SHOWN}").split("call site\n")[1]
        return dict.fromkeys(re.sub(r"  +(\S+:\d+)$", r" (\1)", m) if re.search(r":\d+$", m) else re.split("  +", m)[0]
                             for m in re.findall(r"^ +[\d.]+ [KMG]?B +\d+ +\d+  (.*)", text, re.M))

    def watch_json(self):
        return self.of_sites(self.watched["sites"], "estimated_bytes")

    def watch_page(self):
        return self.of_sites(self.live["sites"], "estimated_bytes")

    def watch_pprof(self):
        return leaves(self.path("w.pb.gz"))

    def watch_text(self):
        return dict.fromkeys(line_key(m) for m in re.findall(r"^  [\d.]+ [KMG]?B .*\n    (.*)", self.text, re.M))

    def watch_screen(self):
        return dict.fromkeys(line_key(line.split(" < ")[0]) for line in re.findall(r"^ *[\d.]+ [KMG]?B .* (?:ms|s|min|-)  (.*)", self.screen, re.M))

    def heap_json(self):
        return self.of_sites(self.heap["sites"], "estimated_bytes")

    OUTPUTS = ["report_json", "report_text", "report_page", "diff_json", "diff_text", "export_sqlite", "export_csv", "export_pprof",
               "fleet_json", "fleet_text", "watch_json", "watch_text", "watch_screen", "watch_page", "watch_pprof", "heap_json"]

    def look(self, command, period, stays):
        """The watch of the program: what it says at its end; and while it stands, its screen, its page, its heap."""
        watch = ["watch", "--every", "1h", "--period", period]
        self.watched = json.loads(run([MALLOW, *watch, "--json", "--pprof", self.path("w.pb.gz"), "--", *command]).out.splitlines()[-1])
        self.text = run([MALLOW, *watch, "--", *command]).err.decode()
        if not stays:
            return
        [port] = free_ports(1)
        env = dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm-256color", HOME=self.folder, SHELL="/bin/sh", STAY="1")
        env.pop("TMUX", None)

        def tmux(*arguments):
            return subprocess.run(["tmux", "-u", "-f", "/dev/null", "-S", self.path("s"), *arguments], capture_output=True, text=True,
                                  env=env, check=True).stdout

        def until(look):
            end = time.monotonic() + 60
            while not look():
                self.assertLess(time.monotonic(), end, getattr(self, "screen", ""))
                time.sleep(.2)

        def asked():
            self.live = ask(port)
            return self.live

        def stays_now():
            """It has done all that it does, and reads."""
            with open(f"/proc/{self.live['pid']}/syscall", encoding="ascii") as f:
                return f.read().startswith("0 0x0 ")

        def seen():
            self.screen = tmux("capture-pane", "-p")
            return re.search(r" live, [\d,]+ call sites\n", self.screen)
        stays = subprocess.Popen([MALLOW, *watch, "--listen", f"127.0.0.1:{port}", "--", *command], env=env, stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(asked)
            until(stays_now)
            time.sleep(1)  # the map of generated code is not read too often
            until(asked)
            self.heap = self.json("heap", "--json", "--by", "site", "-n1000000", str(self.live["pid"]))
            tmux("new-session", "-d", "-x", "400", "-y", "60", shlex.join([MALLOW, "watch", "-p", str(self.live["pid"])]))
            until(lambda: "CALL SITE" in tmux("capture-pane", "-p"))
            tmux("send-keys", "a")
            until(seen)
            tmux("kill-server")
        finally:
            stays.communicate()

    def check(self, command, least, period="1", stays=True):
        self.empty = self.path("empty.mlw")
        self.assertEqual(run([MALLOW, "record", "-q", "-o", self.empty, "--", "true"]).rc, 0)
        self.assertEqual(run([MALLOW, "record", "-q", "-o", self.file, "--", *command]).rc, 0)
        self.look(command, period, stays)
        all_sites = self.report_json()
        largest = sorted(all_sites, key=lambda name: (-all_sites[name], name))[:SHOWN]
        largest = [name for name in largest if all_sites[name] >= least]
        self.assertGreater(len(largest), 2, all_sites)
        for output in self.OUTPUTS if stays else [o for o in self.OUTPUTS if o not in ("watch_screen", "watch_page", "heap_json")]:
            found = {plain(name): bytes for name, bytes in getattr(self, output)().items()}
            with self.subTest(output):
                if output.startswith("diff"):  # which compares functions: their lines may have gone elsewhere
                    found = dict.fromkeys(map(function, found))
                    missing = [name for name in map(function, map(plain, largest)) if name not in found and "+0x" not in name]
                else:
                    missing = [name for name in map(plain, largest) if name not in found]
                self.assertEqual(missing, [], sorted(found)[:60])

    def test_cxx(self):
        self.check([victim("names_cxx")], 5000)

    def test_code_that_is_compiled_later(self):
        """A program that lives writes more names into its map: they are found by a watch that asked before."""
        python = pythons()[-1:]
        if not python:
            self.skipTest("SKIPPED, LOUDLY: no Python from 3.12 on with -X perf")
        program = "\n".join(["import sys", "def early(): return bytearray(300000)", "kept = [early()]", "print('early', flush=True)",
                             "sys.stdin.readline()", "def late(): return bytearray(400000)", "kept.append(late())",
                             "print('late', flush=True)", "sys.stdin.readline()"])
        [port] = free_ports(1)
        p = subprocess.Popen([MALLOW, "watch", "--every", "1h", "--period", "4K", "--listen", f"127.0.0.1:{port}", "--", *python, "-X",
                              "perf", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for name in ("early", "late"):
                self.assertEqual(p.stdout.readline(), name + "\n")
                end, found = time.monotonic() + 20, []
                while name not in found and time.monotonic() < end:
                    live = ask(port)
                    found = [function(key(s["frames"][s["call_site"]])) for s in live["sites"] if s["frames"]] if live else []
                    time.sleep(.1)
                self.assertIn(name, found)
                p.stdin.write("\n")
                p.stdin.flush()
        finally:
            p.communicate()

    def test_stripped(self):
        if not shutil.which("strip"):
            self.skipTest("SKIPPED, LOUDLY: no strip")
        program = self.path("stripped")
        shutil.copy(victim("names_cxx"), program)
        subprocess.run(["strip", program], check=True)
        self.check([program], 5000)

    def test_postgres(self):
        """Of a distribution, stripped: most functions have no name. This command of it does not stay."""
        postgres = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))[-1:]
        if not postgres:
            self.skipTest("SKIPPED, LOUDLY: no postgres in /usr/lib/postgresql")
        self.check([*postgres, "--describe-config"], 1000, stays=False)

    def test_rust(self):
        self.check([victim("names_rust")], 5000)

    def test_python(self):
        python = pythons()[-1:]
        if not python:
            self.skipTest("SKIPPED, LOUDLY: no Python from 3.12 on with -X perf")
        program = f"import os, runpy; kept = runpy.run_path({source('names.py')!r}); os._exit(0)"
        self.check([*python, "-X", "perf", "-c", program], 50000, "1K")
