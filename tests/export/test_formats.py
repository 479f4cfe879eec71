"""Each format read back by a reader that is not ours, its totals those of `mallow report --json`."""
import csv
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

from mallowtest import MALLOW, program
import readers
from readers import need, pprof, run

VICTIM, FORMAT = program("export/export-victim"), sys.argv[1]
BY = {"peak": "sites_peak_bytes", "end": "sites_end_live_bytes", "allocated": "sites_allocated_bytes",
      "temporary": "sites_temporary", "calls": "sites_calls"}
made = None


def setUpModule():
    global made
    made = readers.Recordings()


def tearDownModule():
    made.folder.cleanup()


def totals_by_type(path):
    """Sums of the samples of a profile, by the name of the value, as pprof sees them."""
    text = pprof("-raw", path)
    part = text.split("Samples:\n")[1].split("Locations\n")[0].splitlines()
    names = [word.split("/")[0] for word in part[0].split()]
    sums = [0] * len(names)
    for line in part[1:]:
        match = re.match(r"^((?:\s+-?\d+)+):", line)
        if match:
            sums = [a + int(b) for a, b in zip(sums, match.group(1).split())]
    return dict(zip(names, sums))


class Pprof(unittest.TestCase):
    def test_totals(self):
        for recording in (made.single, made.forked):
            want = made.totals(recording)
            got = totals_by_type(made.export(recording, "pprof"))
            self.assertEqual(got, {
                "alloc_objects": want["allocations"], "alloc_space": want["requested_bytes"],
                "inuse_objects": want["end_live_blocks"], "inuse_space": want["end_live_bytes"],
                "peak_objects": want["peak_live_blocks"], "peak_space": want["peak_live_bytes"],
                "temporary_objects": want["temporary_allocations"]})

    def test_names_lines_and_build_ids(self):
        path = made.export(made.single, "pprof")
        raw = pprof("-raw", path)
        build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", VICTIM)).group(1)
        mappings = raw.split("Mappings\n")[1]
        self.assertRegex(mappings, rf"^1: 0x[0-9a-f]+/0x[0-9a-f]+/0x0 \S*{os.path.basename(VICTIM)} {build_id}")
        # an inlined function and its caller are lines of one location
        self.assertRegex(raw, r"inlined_leaf \S+victim\.c:\d+\S* s=0\n\s+leak \S+victim\.c:\d+")
        for name, kind in (("leak", "inuse_space"), ("momentary", "temporary_objects"), ("worker", "alloc_objects")):
            self.assertIn(name, pprof("-top", f"-sample_index={kind}", path))

    def test_processes_are_labels(self):
        raw = pprof("-raw", made.export(made.forked, "pprof"))
        for p in made.report(made.forked)["processes"]:
            self.assertIn(f"pid:[{p['pid']}]", raw)

    def test_base_of_itself_is_nothing(self):
        path = made.export(made.single, "pprof")
        self.assertRegex(pprof("-top", f"-base={path}", path), r"accounting for 0, 0%")


class Folded(unittest.TestCase):
    def sums(self, path):
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines)

    def test_standard_streams_that_are_files(self):
        """What is open already is written where it stands, under each of its names."""
        with open(made.export(made.single, "folded"), "rb") as f:
            want = f.read()
        for name, stream in (("/dev/stdout", "stdout"), ("/dev/stderr", "stderr"), ("/dev/fd/1", "stdout"),
                             ("/proc/self/fd/1", "stdout"), ("-", "stdout")):
            with open(made.path("stream"), "w+b") as f:
                f.write(b"before\n")
                f.flush()
                done = subprocess.run([MALLOW, "export", "--format=folded", "-o", name, made.single], check=False,
                                      **{stream: f})
                f.seek(0)
                self.assertEqual((done.returncode, f.read()), (0, b"before\n" + want), name)

    def test_totals_by_each_figure(self):
        for recording in (made.single, made.forked):
            want = made.totals(recording)
            for by, key in BY.items():
                self.assertEqual(self.sums(made.export(recording, "folded", "--by", by)), want[key], by)

    def test_equals_pprof(self):
        need("go", "golang-go")
        got = totals_by_type(made.export(made.single, "pprof"))
        for by, kind in (("peak", "peak_space"), ("end", "inuse_space"), ("allocated", "alloc_space")):
            self.assertEqual(self.sums(made.export(made.single, "folded", "--by", by)), got[kind])

    def test_filters(self):
        want = made.totals(made.single, "--size", "50..500")
        path = made.export(made.single, "folded", "--by=allocated", "--size", "50..500")
        self.assertEqual(self.sums(path), want["sites_allocated_bytes"])

    def test_stack(self):
        with open(made.export(made.single, "folded", "--by", "end"), encoding="utf-8") as f:
            text = f.read()
        self.assertRegex(text, r"(?m)^\S*.*;main;(recurse;){41}leak;inlined_leaf 77$")


def npm_environment(test, package):
    """Where node finds a package of tests/export/package.json; skips the test when it is not there."""
    modules = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_modules")
    need("node", "nodejs")
    if not os.path.exists(os.path.join(modules, package)):
        test.skipTest(f"the npm packages of tests/export/package.json are not in {modules}: "
                      "scripts/readers fetches them")
    return dict(os.environ, NODE_PATH=modules)


class Speedscope(unittest.TestCase):
    def test_totals_and_shape(self):
        for recording in (made.single, made.forked):
            with open(made.export(recording, "speedscope"), encoding="utf-8") as f:
                document = json.load(f)
            want = made.totals(recording)
            got = {}
            frames = document["shared"]["frames"]
            for p in document["profiles"]:
                by = p["name"].rsplit(": ", 1)[1]
                self.assertEqual(sum(p["weights"]), p["endValue"])
                self.assertEqual(len(p["weights"]), len(p["samples"]))
                self.assertTrue(all(0 <= i < len(frames) for s in p["samples"] for i in s))
                got[by] = got.get(by, 0) + p["endValue"]
            self.assertEqual(got, {
                "live at the peak": want["sites_peak_bytes"], "live at the end": want["sites_end_live_bytes"],
                "allocated": want["sites_allocated_bytes"], "temporary allocations": want["sites_temporary"],
                "calls": want["sites_calls"]})

    def test_one_figure(self):
        with open(made.export(made.single, "speedscope", "--by", "end"), encoding="utf-8") as f:
            self.assertEqual([p["name"].rsplit(": ", 1)[1] for p in json.load(f)["profiles"]], ["live at the end"])

    def test_schema_of_speedscope(self):
        environment = npm_environment(self, "speedscope")
        path = made.export(made.forked, "speedscope")
        program = ("const fs = require('fs'); const Ajv = require('ajv');"
                   "const schema = require('speedscope/dist/release/file-format-schema.json');"
                   "const ajv = new (Ajv.default || Ajv)({strict: false});"
                   "const check = ajv.compile(schema);"
                   "const ok = check(JSON.parse(fs.readFileSync(process.argv[1])));"
                   "console.log(ok, JSON.stringify(check.errors));")
        for text, valid in ((None, "true"), ('{"profiles":[{"type":"sampled"}]}', "false")):
            if text:
                path = made.path("bad.json")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            done = subprocess.run(["node", "-e", program, path], capture_output=True, text=True, env=environment,
                                  check=False)
            self.assertEqual(done.stdout.split(" ")[0].strip(), valid, done.stdout + done.stderr)


class Heaptrack(unittest.TestCase):
    def flame(self, path, cost):
        out = made.path("flame.txt")
        run("heaptrack_print", "-f", path, "-F", out, "--flamegraph-cost-type", cost)
        with open(out, encoding="utf-8") as f:
            return [line.rsplit(" ", 1) for line in f.read().splitlines()]

    def test_totals(self):
        path = made.export(made.single, "heaptrack")
        want = made.totals(made.single)
        for cost, key in (("allocations", "allocations"), ("leaked", "end_live_bytes"), ("peak", "peak_live_bytes")):
            self.assertEqual(sum(int(v) for _, v in self.flame(path, cost)), want[key], cost)

    def test_names(self):
        stacks = {stack: int(v) for stack, v in self.flame(made.export(made.single, "heaptrack"), "leaked")}
        deep = [s for s in stacks if s.count("recurse") == 41]
        self.assertEqual([stacks[s] for s in deep], [77])
        text = run("heaptrack_print", "-f", made.export(made.single, "heaptrack"))
        self.assertRegex(text, r"inlined_leaf\n\s+at \S+victim\.c:\d+\n\s+in \S+\nleak\n\s+at \S+victim\.c:\d+")
        self.assertRegex(text, r"calls to allocation functions: 733\b")

    def test_time(self):
        end = made.report(made.single)["processes"][0]["duration_ns"]
        want = made.totals(made.single, "--time", f"{end // 3}ns..")
        path = made.export(made.single, "heaptrack", "--time", f"{end // 3}ns..")
        for cost, key in (("leaked", "end_live_bytes"), ("peak", "peak_live_bytes")):
            self.assertEqual(sum(int(v) for _, v in self.flame(path, cost)), want[key], cost)

    def test_several_processes(self):
        self.assertIn("choose one with --pid", run(MALLOW, "export", "--format=heaptrack", made.forked, status=2))
        for p in made.report(made.forked)["processes"]:
            path = made.export(made.forked, "heaptrack", "--pid", str(p["pid"]))
            self.assertEqual(sum(int(v) for _, v in self.flame(path, "leaked")), p["end_live_bytes"])


class Ctf(unittest.TestCase):
    def events(self, recording, *options):
        folder = made.path("ctf")
        shutil.rmtree(folder, ignore_errors=True)
        made.export(recording, "ctf", *options, output=folder)
        found = []
        for line in run("babeltrace2", "--no-delta", "--clock-seconds", folder).splitlines():
            match = re.match(r"\[([0-9.]+)\] (\w+): (.*)$", line)
            fields = dict(re.findall(r'(\w+) = (\( "[^"]*"|"[^"]*"|[^ ,]+)', match.group(3)))
            found.append((float(match.group(1)), match.group(2), fields))
        return found

    def test_every_call(self):
        for recording in (made.single, made.forked):
            document = made.report(recording)
            events = self.events(recording)
            times = [t for t, _, _ in events]
            self.assertEqual(times, sorted(times))
            inherited = sum(p["inherited_blocks"] for p in document["processes"])
            calls = {}
            for p in document["processes"]:
                for name, count in p["calls"].items():
                    calls[name] = calls.get(name, 0) + count
            seen = {}
            for _, name, _ in events:
                seen[name] = seen.get(name, 0) + 1
            for name in ("calloc", "realloc", "free", "posix_memalign", "memalign", "mmap", "munmap"):
                if not inherited:
                    self.assertEqual(seen.get(name, 0), calls.get(name, 0), name)
            blocks = [f for _, n, f in events if f.get("kind", "").startswith('( "alloc"')]
            self.assertEqual(len(blocks) - inherited, sum(p["allocations"] for p in document["processes"]))
            if not inherited:
                self.assertEqual(sum(int(f["size"]) for f in blocks),
                                 sum(p["requested_bytes"] for p in document["processes"]))

    def test_stacks_have_names(self):
        events = self.events(made.single)
        frames = {f["stack"] for _, n, f in events if n == "frame"}
        used = {f["stack"] for _, n, f in events if n != "frame" and "stack" in f} - {"0"}
        self.assertTrue(used)
        self.assertLessEqual(used, frames)
        self.assertIn('"momentary"', {f.get("function") for _, n, f in events if n == "frame"})
        self.assertEqual([n for _, n, _ in events if n in ("process", "end")], ["process", "end"])

    def test_folder_must_be_new(self):
        folder = made.path("there")
        os.mkdir(folder)
        self.assertIn("exists", run(MALLOW, "export", "--format=ctf", "-o", folder, made.single, status=1))
        self.assertIn("-o OUT", run(MALLOW, "export", "--format=ctf", made.single, status=2))


class Csv(unittest.TestCase):
    def rows(self, recording, *options):
        with open(made.export(recording, "csv", *options), encoding="utf-8", newline="") as f:
            return list(csv.DictReader(f, strict=True))

    def test_every_event(self):
        for recording in (made.single, made.forked):
            lines = [json.loads(line) for line in run(MALLOW, "dump", "--json", recording).splitlines()]
            want = sorted((e["time_ns"], e["tid"], e["kind"], e["address"], e.get("size_bytes", 0), e.get("stack", 0))
                          for e in lines if "address" in e)
            got = sorted((int(r["time_ns"]), int(r["tid"]), r["kind"], r["address"] or "0x0",
                          int(r["size_bytes"] or 0), int(r["stack"] or 0)) for r in self.rows(recording))
            self.assertEqual(got, want)

    def test_totals(self):
        want = made.totals(made.single)
        made_rows = [r for r in self.rows(made.single) if r["kind"] == "alloc"]
        self.assertEqual((len(made_rows), sum(int(r["size_bytes"]) for r in made_rows)),
                         (want["allocations"], want["requested_bytes"]))
        self.assertTrue(any(re.match(r"momentary \(.*victim\.c:\d+\)$", r["site"]) for r in made_rows))

    def test_filters(self):
        rows = self.rows(made.single, "--size", "100..200")
        self.assertTrue(rows)
        self.assertTrue(all(100 <= int(r["size_bytes"]) <= 200 for r in rows))


class Chrome(unittest.TestCase):
    def test_counters(self):
        for recording in (made.single, made.forked):
            with open(made.export(recording, "chrome"), encoding="utf-8") as f:
                events = json.load(f)["traceEvents"]
            for p in made.report(recording)["processes"]:
                own = [e for e in events if e["pid"] == p["pid"]]
                live = [e for e in own if e["name"] == "live heap"]
                times = [e["ts"] for e in live]
                self.assertEqual(times, sorted(times))
                self.assertEqual(max(e["args"]["bytes"] for e in live), p["peak_live_bytes"])
                self.assertEqual(live[-1]["args"]["bytes"], p["end_live_bytes"])
                blocks = [e for e in own if e["name"] == "live blocks"]
                self.assertEqual(blocks[-1]["args"]["blocks"], p["end_live_blocks"])
                self.assertEqual([e["args"]["bytes"] for e in own if e["name"] == "peak of live bytes"],
                                 [p["peak_live_bytes"]])
                self.assertEqual(len([e for e in own if e["ph"] == "X"]), p["threads"])
                self.assertEqual(len([e for e in own if e["name"] == "process_name"]), 1)

    def test_calls_add_up(self):
        with open(made.export(made.single, "chrome"), encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        # a realloc that moves has two halves
        p = made.report(made.single)["processes"][0]
        calls = sum(e["args"]["calls"] for e in events if e["name"] == "calls")
        self.assertEqual(calls, p["events"] + p["reallocs"]["resized"])


    def test_chunks(self):
        """The last figures of all classes of chunks add up to the usable bytes that are live at the end."""
        with open(made.export(made.single, "chrome"), encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        last = {e["name"]: e["args"]["bytes"] for e in events if e["name"].startswith("chunks ")}
        row = series(made.export(made.single, "series"))[-1]
        self.assertEqual(sum(last.values()), sum(v for k, v in row.items() if k.startswith("chunk_bytes_")))
        self.assertIn("chunks to 32 B", last)

    def test_model_of_tracerbench(self):
        """The events as a model of Chrome's traces that is not ours understands them."""
        environment = npm_environment(self, "@tracerbench/trace-model")
        program = ("const { buildModel } = require('@tracerbench/trace-model');"
                   "const events = JSON.parse(require('fs').readFileSync(process.argv[1])).traceEvents;"
                   "const counters = (p) => p.events.filter((e) => e.ph === 'C' && e.name === 'live heap');"
                   "console.log(JSON.stringify(buildModel(events).processes.map((p) => ({"
                   "  pid: p.id, name: p.name, duration: p.duration, counters: counters(p).map((e) => [e.start, e.args.bytes]),"
                   "  threads: p.threads.map((t) => t.id)}))));")
        for recording in (made.single, made.forked):
            path = made.export(recording, "chrome")
            done = subprocess.run(["node", "-e", program, path], capture_output=True, text=True, env=environment, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            read = {p["pid"]: p for p in json.loads(done.stdout)}
            for p in made.report(recording)["processes"]:
                have = read[p["pid"]]
                self.assertEqual(have["name"], os.path.basename(p["exe"]))
                self.assertEqual(max(v for _, v in have["counters"]), p["peak_live_bytes"])
                self.assertEqual(have["counters"][-1][1], p["end_live_bytes"])
                times = [t for t, _ in have["counters"]]
                self.assertEqual(times, sorted(times))
                self.assertGreaterEqual(len(have["threads"]), p["threads"])


class Massif(unittest.TestCase):
    def test_ms_print(self):
        path = made.export(made.single, "massif")
        text = run("ms_print", path)
        p = made.report(made.single)["processes"][0]
        rows = re.findall(r"^ *(\d+) +([\d,.]+) +([\d,]+) +([\d,]+) +([\d,]+) +0$", text, re.M)
        heaps = [int(heap.replace(",", "")) for _, _, _, heap, _ in rows]
        self.assertEqual(max(heaps), p["peak_live_bytes"])
        self.assertEqual(heaps[-1], p["end_live_bytes"])
        peak = heaps.index(max(heaps))
        self.assertEqual(int(rows[peak][4].replace(",", "")), p["peak_usable_bytes"] - p["peak_live_bytes"])
        self.assertRegex(text, r"->\d+\.\d+% \([\d,]+B\) 0x0: inlined_leaf \(victim\.c:\d+\)\n"
                               r"\| ->\d+\.\d+% \([\d,]+B\) 0x0: leak \(victim\.c:\d+\)")
        self.assertIn("(peak)", text)

    def test_tree_adds_up(self):
        with open(made.export(made.single, "massif"), encoding="utf-8") as f:
            nodes = re.findall(r"^( *)n(\d+): (\d+) ", f.read(), re.M)
        total = int(nodes[0][2])
        self.assertEqual(total, made.totals(made.single)["peak_live_bytes"])
        self.assertEqual(sum(int(b) for indent, _, b in nodes if len(indent) == 1), total)

    def test_names_stay_while_others_come(self):
        text = run("env", "MALLOC_PERTURB_=165", MALLOW, "export", "--format=massif",
                   made.record("callers", VICTIM, "callers"))
        self.assertRegex(text, r"(?m)^  n\d+: \d+ 0x0: leak \(victim\.c:\d+\)$")

    def test_several_processes(self):
        self.assertIn("--pid", run(MALLOW, "export", "--format=massif", made.forked, status=2))


class Sqlite(unittest.TestCase):
    def ask(self, path, sql):
        return [line.split("|") for line in run("sqlite3", path, sql).splitlines()]

    def test_totals(self):
        for recording in (made.single, made.forked):
            path = made.export(recording, "sqlite")
            for p in made.report(recording)["processes"]:
                blocks = self.ask(path, "select count(*), sum(size_bytes), sum(freed_ns is null), "
                                        "sum(case when freed_ns is null then size_bytes end), sum(temporary) from block "
                                        f"join process on process.id = block.process where pid = {p['pid']}")[0]
                inherited = p["inherited_blocks"]
                self.assertEqual(
                    [int(v) for v in blocks],
                    [p["allocations"] + inherited, p["requested_bytes"] + p["inherited_bytes"], p["end_live_blocks"],
                     p["end_live_bytes"], p["temporary_allocations"]])
                site = self.ask(path, "select sum(site.calls), sum(allocated_bytes), sum(peak_bytes), sum(end_live_bytes) "
                                      f"from site join process on id = process where pid = {p['pid']}")[0]
                self.assertEqual([int(v) for v in site], [p["allocations"], p["requested_bytes"],
                                                          p["peak_live_bytes"], p["end_live_bytes"]])

    def test_questions(self):
        path = made.export(made.single, "sqlite")
        self.assertEqual(self.ask(path, "pragma integrity_check"), [["ok"]])
        peak = self.ask(path, "select max(live) from (select sum(bytes) over (order by ns, bytes) as live from "
                              "(select allocated_ns as ns, size_bytes as bytes from block union all "
                              "select freed_ns, -size_bytes from block where freed_ns is not null))")
        self.assertEqual(int(peak[0][0]), made.totals(made.single)["peak_live_bytes"])
        rows = self.ask(path, "select call, count(*) from block group by call order by call")
        self.assertIn(["posix_memalign", "1"], rows)
        self.assertEqual(self.ask(path, "select function from block join place using (process, stack) "
                                        "where temporary group by 1 order by count(*) desc limit 1"), [["momentary"]])
        self.assertEqual(self.ask(path, "select count(*) from other_call where call = 'malloc' and failed"), [["1"]])
        build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", VICTIM)).group(1)
        self.assertIn([build_id], self.ask(path, "select build_id from module"))

    def test_ten_questions(self):
        """Each view of the man page, against the report of the same recording."""
        for recording in (made.single, made.forked):
            path = made.export(recording, "sqlite")
            for p in made.report(recording, "--full-names", "--start-frames")["processes"]:
                with self.subTest(recording=recording, exe=p["exe"]):
                    self.questions(path, recording, p)

    def questions(self, path, recording, p):
        def rows(columns, view):
            return self.ask(path, f"select {columns} from {view} where pid = {p['pid']}")

        def numbers(columns, view):
            return [[int(v or -1) for v in r] for r in rows(columns, view)]

        sites = p["sites"]
        for view, figure, column in (("leaks", "end_live_bytes", "bytes"), ("at_peak", "peak_bytes", "bytes"),
                                     ("allocators", "allocated_bytes", "bytes"), ("temporaries", "temporary", "blocks")):
            want = {}
            for s in sites:
                first = next(f for f in s["frames"] if f["module"] == os.path.basename(p["exe"]))  # its own code
                key = (first["function"], str(first["line"]))
                want[key] = want.get(key, 0) + s[figure]
            found = {(r[0], r[1]): int(r[2]) for r in rows(f"function, line, {column}", view)}
            self.assertEqual(found, {k: v for k, v in want.items() if v}, view)
            self.assertEqual(list(found.values()), sorted(found.values(), reverse=True), view)
        for allocated, calls, mean in self.ask(path, "select allocated_bytes, calls, mean_bytes from site where calls > 0"):
            self.assertEqual(int(mean), int(allocated) // int(calls))
        want = {}
        for s in sites:
            if s["end_live_blocks"]:
                text = ";".join(f["function"] for f in s["frames"])
                before = want.get(text, (0, 0))
                want[text] = (before[0] + s["end_live_bytes"], before[1] + s["end_live_blocks"])
        self.assertEqual({r[0]: (int(r[1]), int(r[2])) for r in
                          rows("text, sum(bytes), sum(blocks)", f"leaking_stacks where pid = {p['pid']} group by text -- ")},
                         want)
        self.assertEqual(numbers("min_bytes, max_bytes, calls, bytes", "sizes"),
                         [[h[k] for k in ("min_bytes", "max_bytes", "calls", "bytes")] for h in p["size_histogram"]])
        if not p["inherited_blocks"]:
            self.assertEqual(numbers("min_ns, max_ns, blocks, bytes", "lifetimes"),
                             [[-1 if h[k] is None else h[k] for k in ("min_ns", "max_ns", "blocks", "bytes")]
                              for h in p["lifetime_histogram"]])
        self.assertEqual(sorted(numbers("tid, allocations, bytes, temporary, released_by_others", "threads")),
                         sorted([t[k] for k in ("tid", "allocations", "allocated_bytes", "temporary_allocations",
                                                "released_by_other_threads")]
                                for t in p["thread_figures"] if t["allocations"]))
        self.assertEqual({r[0]: int(r[1]) for r in rows("call, calls", "failures")}, p["failed"])
        for label, size, blocks in rows("label, bytes, blocks", "live_at_marks"):
            then, = made.report(recording, "--time", f"..{label}", "-p", str(p["pid"]))["processes"]
            self.assertEqual([label, int(size), int(blocks)],
                             ["leaked", then["end_live_bytes"], then["end_live_blocks"]])
        self.assertEqual(len(rows("label", "live_at_marks")), p["marks_total"])

    def test_a_stack_is_a_suppression(self):
        path = made.export(made.single, "sqlite")
        known = made.path("known.supp")
        with open(known, "w", encoding="utf-8") as f:
            f.writelines(f"stack:{text}\n" for text, in self.ask(path, "select text from leaking_stacks"))
        p, = made.report(made.single, "--suppressions", known)["processes"]
        self.assertEqual(p["suppressed_end_live_bytes"], p["end_live_bytes"])

    def test_indexes_are_used(self):
        path = made.export(made.single, "sqlite")
        for where, index in (("stack = 5", "block_by_stack"), ("allocated_ns between 1 and 2", "block_by_time")):
            plan = run("sqlite3", path, f"explain query plan select * from block where process = 0 and {where}")
            self.assertIn(index, plan)

    def test_needs_a_file(self):
        self.assertIn("-o OUT", run(MALLOW, "export", "--format=sqlite", made.single, status=2))
        said = run(MALLOW, "export", "--format=sqlite", "-o", "/nonexistent/x.db", made.single, status=1)
        self.assertIn("/nonexistent/x.db", said)


class Mtrace(unittest.TestCase):
    def test_records(self):
        with open(made.export(made.single, "mtrace"), "rb") as f:
            data = f.read()
        records = list(struct.iter_unpack("<iIQQQQQQQ", data))
        self.assertEqual((records[0][1] & 255, records[0][2], records[0][4]), (255, 0x1234, 8))
        calls = made.report(made.single)["processes"][0]["calls"]
        counts = {}
        live, peak = {}, 0
        for _, word, old, new, size, _, usable, _, _ in records[1:]:
            kind = word & 255
            counts[kind] = counts.get(kind, 0) + 1
            if kind in (3, 4) and old:
                del live[old]
            if kind != 3 and new:
                self.assertNotIn(new, live)
                self.assertGreaterEqual(usable, size)
                live[new] = size
            peak = max(peak, sum(live.values()))
        for kind, name in ((1, "malloc"), (2, "calloc"), (3, "free"), (4, "realloc"), (5, "memalign"),
                           (8, "posix_memalign")):
            self.assertEqual(counts.get(kind, 0), calls[name], name)
        want = made.totals(made.single)
        self.assertEqual((len(live), sum(live.values())), (want["end_live_blocks"], want["end_live_bytes"]))
        self.assertEqual(peak, want["peak_live_bytes"])

    def test_workload_of_it_is_that_of_the_recording(self):
        said = [run(MALLOW, "workload", path, "-o", made.path("w.mwl"))
                for path in (made.single, made.export(made.single, "mtrace"))]
        facts = [re.search(r"mwl: (.*) operations of (\d+) threads? on (\d+) slots, peak (\S+ \S+)", s).groups()
                 for s in said]
        self.assertEqual(facts[0], facts[1])


def series(path):
    with open(path, encoding="utf-8", newline="") as f:
        return [{k: int(v) if v else None for k, v in row.items()} for row in csv.DictReader(f, strict=True)]


class Series(unittest.TestCase):
    def test_rows(self):
        for recording in (made.single, made.forked):
            rows = series(made.export(recording, "series"))
            for p in made.report(recording)["processes"]:
                own = [r for r in rows if r["pid"] == p["pid"]]
                self.assertGreater(len(own), 900)
                self.assertLessEqual(len(own), 1000)
                times = [r["time_ns"] for r in own]
                self.assertEqual(times, sorted(set(times)))
                self.assertEqual(max(r["most_ideal_rss_bytes"] for r in own), p["peak_live_bytes"])
                self.assertEqual(own[-1]["ideal_rss_bytes"], p["end_live_bytes"])
                self.assertEqual(own[-1]["live_blocks"], p["end_live_blocks"])
                self.assertEqual(sum(r["calls"] for r in own), p["events"] + p["reallocs"]["resized"] + p["inherited_blocks"])
                for r in own:
                    self.assertEqual(sum(v for k, v in r.items() if re.match(r"chunks_", k)), r["live_blocks"])
                    usable = sum(v for k, v in r.items() if re.match(r"chunk_bytes_", k))
                    self.assertGreaterEqual(usable, r["ideal_rss_bytes"])
                    if r["rss_bytes"] is not None:
                        self.assertLess(0, r["rss_bytes"])
                        self.assertLess(r["rss_bytes"], r["vmsize_bytes"])

    def test_chunks_by_size(self):
        """At the end: each class as the blocks that `dump` leaves live."""
        rows = series(made.export(made.single, "series"))
        live = {}
        for line in run(MALLOW, "dump", "--json", made.single).splitlines():
            e = json.loads(line)
            if e["kind"] == "alloc":
                live[e["slot"]] = e["usable_bytes"]
            elif "slot" in e:
                del live[e["slot"]]
        want = {}
        for usable in live.values():
            to = 32
            while to < usable:
                to *= 2
            want[f"chunks_to_{to}"] = want.get(f"chunks_to_{to}", 0) + 1
        self.assertTrue(want)
        self.assertEqual({k: v for k, v in rows[-1].items() if k.startswith("chunks_") and v}, want)

    def test_range(self):
        end = made.report(made.single)["processes"][0]["duration_ns"]
        rows = series(made.export(made.single, "series", "--time", f"{end // 4}ns..{end // 2}ns"))
        self.assertLessEqual(end // 4, rows[0]["time_ns"])
        self.assertLessEqual(rows[-1]["time_ns"], end // 2 + 1)


class Hdf5(unittest.TestCase):
    def column(self, path, name, form):
        """A dataset, as h5dump reads it."""
        out = made.path("column.bin")
        run("h5dump", "-d", name, "-b", "LE", "-o", out, path)
        with open(out, "rb") as f:
            data = f.read()
        return [v for v, in struct.iter_unpack("<" + form, data)]

    def words(self, path, name):
        text = run("h5dump", "-y", "-w", "0", "-d", name, path).split("DATA {")[1]
        return re.findall(r'"((?:[^"\\]|\\.)*)"', text)

    def enumeration(self, path, name):
        text = run("h5dump", "-y", "-w", "0", "-d", name, path)
        return re.findall(r"[\w-]+", text.split("DATA {")[1])

    def processes(self, recording, path):
        listed = re.findall(r"(?m)^ group\s+(/process_\d+)$", run("h5dump", "-n", path))
        self.assertEqual(len(listed), len(made.report(recording)["processes"]))
        return {int(re.search(r"\(0\): (\d+)", run("h5dump", "-a", f"{g}/pid", path)).group(1)): g for g in listed}

    def test_every_event(self):
        for recording in (made.single, made.forked):
            path = made.export(recording, "hdf5")
            lines = [json.loads(line) for line in run(MALLOW, "dump", "--json", recording).splitlines()]
            for pid, group in self.processes(recording, path).items():
                events = [e for e in lines if e["pid"] == pid and "address" in e]
                for name, form, key in (("time_ns", "Q", "time_ns"), ("size_bytes", "Q", "size_bytes"),
                                        ("usable_bytes", "Q", "usable_bytes"), ("stack", "I", "stack")):
                    self.assertEqual(self.column(path, f"{group}/events/{name}", form),
                                     [e.get(key, 0) for e in events], name)
                self.assertEqual(self.column(path, f"{group}/events/address", "Q"), [int(e["address"], 16) for e in events])
                self.assertEqual(self.column(path, f"{group}/events/slot", "I"), [e.get("slot", 0xffffffff) for e in events])
                for name in ("kind", "call"):
                    got = self.enumeration(path, f"{group}/events/{name}")
                    if name == "call":
                        got = [word.removesuffix("-old") for word in got]
                    self.assertEqual(got, [e[name] if name == "kind" else e.get("call", "none") for e in events])
                tids = self.column(path, f"{group}/threads/tid", "I")
                self.assertEqual([tids[t] for t in self.column(path, f"{group}/events/thread", "I")],
                                 [e["tid"] for e in events])

    def test_names_of_stacks(self):
        path = made.export(made.single, "hdf5")
        names = self.words(path, "/process_0/names/function")
        frames = {}
        for stack, name in zip(self.column(path, "/process_0/frames/stack", "I"), self.column(path, "/process_0/frames/name", "I")):
            frames.setdefault(stack, []).append(names[name])
        parents = self.column(path, "/process_0/stacks/parent", "I")
        checked = 0
        for line in run(MALLOW, "dump", "--json", "--names", made.single).splitlines():
            e = json.loads(line)
            if e.get("stack"):
                stack, have = e["stack"], []
                while stack:
                    have += frames[stack]
                    stack = parents[stack]
                self.assertEqual(have, e["frames"])
                checked += 1
        self.assertGreater(checked, 700)

    def test_series(self):
        path = made.export(made.single, "hdf5")
        rows = series(made.export(made.single, "series"))
        for name in ("time_ns", "live_blocks", "ideal_rss_bytes", "rss_bytes", "vmsize_bytes"):
            self.assertEqual(self.column(path, f"/process_0/series/{name}", "Q"), [r[name] or 0 for r in rows])
        bounds = self.column(path, "/process_0/chunk_sizes/to_bytes", "Q")
        chunks = self.column(path, "/process_0/series/chunks", "Q")
        self.assertEqual(len(chunks), len(bounds) * len(rows))
        self.assertEqual(dict(zip(bounds, chunks[-len(bounds):]))[32], rows[-1]["chunks_to_32"])
        for name in ("rss_bytes", "vmsize_bytes"):
            measured = self.column(path, f"/process_0/resident/{name}", "Q")
            if measured:
                self.assertEqual(rows[-1][name], measured[-1])

    def test_failures(self):
        self.assertIn("-o OUT", run(MALLOW, "export", "--format", "hdf5", made.single, status=2))
        said = run(MALLOW, "export", "--format", "hdf5", "-o", made.path("none/x.h5"), made.single, status=1)
        self.assertIn("none/x.h5", said)
        self.assertIn("No such file", said)


class Any(unittest.TestCase):
    """What holds for all formats."""

    def test_usage(self):
        said = run(MALLOW, "export", "--format", "yaml", made.single, status=2)
        self.assertIn("pprof|folded|speedscope", said)
        self.assertIn("pprof|folded", run(MALLOW, "export", made.single, status=2))
        self.assertIn("itself", run(MALLOW, "export", "--format", "folded", "-o", made.single, made.single, status=2))
        self.assertIn("no process 1", run(MALLOW, "export", "--format", "folded", "--pid", "1", made.single, status=2))

    def test_not_a_recording(self):
        said = run(MALLOW, "export", "--format", "folded", "-o", made.path("x"), "/etc/passwd", status=2)
        self.assertIn("/etc/passwd", said)
        self.assertFalse(os.path.exists(made.path("x")))

    def test_full_disk(self):
        self.assertIn("No space", run(MALLOW, "export", "--format", "pprof", "-o", "/dev/full", made.single, status=1))
        self.assertTrue(os.path.exists("/dev/full"))


CLASSES = {"pprof": Pprof, "folded": Folded, "speedscope": Speedscope, "heaptrack": Heaptrack, "ctf": Ctf,
           "chrome": Chrome, "massif": Massif, "sqlite": Sqlite, "csv": Csv, "mtrace": Mtrace, "series": Series, "hdf5": Hdf5, "any": Any}
NEEDS = {"pprof": ("go", "golang-go"), "heaptrack": ("heaptrack_print", "heaptrack"),
         "ctf": ("babeltrace2", "babeltrace2"), "massif": ("ms_print", "valgrind"),
         "sqlite": ("sqlite3", "sqlite3"), "hdf5": ("h5dump", "hdf5-tools")}

if __name__ == "__main__":
    if FORMAT in NEEDS:
        need(*NEEDS[FORMAT])
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(CLASSES[FORMAT])
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite([suite]))
    skipped = [reason for _, reason in result.skipped]
    if result.wasSuccessful() and skipped:
        print("SKIPPED in part:", *skipped, sep="\n")
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
