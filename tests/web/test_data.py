"""The data on a page against `mallow report --json`: for the whole run and for ranges of it, call site
by call site."""
import collections
import json
import os
import unittest

from mallowtest import mallow, path, program, record, report
import pages

PATHS = program("web/paths")
LIMIT = 5000000


def page_of(recording, *arguments):
    out = recording + ".html"
    assert mallow("report", "--html", out, *arguments, recording).stdout == ""
    assert os.path.getsize(out) <= LIMIT
    return pages.read(out)


class Stack:
    """Frames, innermost first. There is one of each, so that sums by stack and figure are found fast."""
    ALL, PATHS = {}, {}

    def __init__(self, frames):
        self.frames, self.paths, at = frames, [], 0
        for frame in reversed(frames):
            at = Stack.PATHS.setdefault((at, frame), len(Stack.PATHS) + 1)
            self.paths.append(at)  # a number for each frame with all its callers

    @staticmethod
    def of(frames):
        if frames not in Stack.ALL:
            Stack.ALL[frames] = Stack(frames)
        return Stack.ALL[frames]

    def __repr__(self):
        return repr(self.frames)


def by_stack(process):
    """The sites of a report, as the page names them: files relative to the program's sources."""
    out = collections.Counter()
    root, places = process["source_root"] + "/", {}

    def place(file):
        if file not in places:
            normal = os.path.normpath(file) if file.startswith("/") else file
            places[file] = normal[len(root):] if len(root) > 1 and normal.startswith(root) else file
        return places[file]
    for s in process["sites"]:
        stack = Stack.of(tuple((f["function"], place(f["file"]), f["line"], f["module"]) for f in s["frames"]))
        for key, name in (("calls", "calls"), ("allocated", "allocated_bytes"), ("temporary", "temporary"),
                          ("peak", "peak_bytes"), ("peak_blocks", "peak_blocks"), ("end", "end_live_bytes"),
                          ("end_blocks", "end_live_blocks")):
            out[stack, key] += s[name]
    return +out


def of_paths(frame):
    """The call sites of paths.c; what libraries allocate for themselves is one."""
    return frame if frame and frame[3] == "paths" and frame[0] != "xmalloc" else "of libraries"


def by_call_site(stacks):
    """The figures of by_stack() by the innermost frame of paths.c that is no wrapper."""
    out = collections.Counter()
    sites = {stack: next((f for f in stack.frames if of_paths(f) == f), "of libraries") for stack, _key in stacks}
    for (stack, key), value in stacks.items():
        out[sites[stack], key] += value
    return out


class Data(unittest.TestCase):
    maxDiff = 2000

    def compare_call_sites(self, page, stacks, first, end):
        """Every figure of every call site, whatever was folded."""
        want, have, gone = by_call_site(stacks), collections.Counter(), 0
        for group, f in pages.figures(page, first, end).items():
            site = pages.call_site(page, group)
            self.assertNotEqual(site, -1)
            if page["groups"]["folded"][group] == 1:
                gone += sum(f.values())  # of no call site
                continue
            for key, value in f.items():
                have[of_paths(site), key] += value
        self.assertEqual(gone, 0)
        self.assertEqual([(k, have[k], want[k]) for k in have | want if have[k] != want[k]], [])
        self.assertEqual(page["call_sites_together"], 0)

    def compare(self, page, process, first, end):
        """Every figure of every site; what is folded is only in the sums."""
        want, have, folded = by_stack(process), collections.Counter(), collections.Counter()
        for group, f in pages.figures(page, first, end).items():
            gone = page["groups"]["folded"][group]
            stack = None if gone else Stack.of(pages.stack(page, group))
            for key, value in f.items():
                if gone:
                    folded[key] += value
                else:
                    have[stack, key] += value
        have = +have
        wrong = [(k, v, want[k]) for k, v in have.items() if want[k] != v]
        self.assertEqual(wrong[:3], [])
        rest = collections.Counter()
        for (_stack, key), value in (want - have).items():
            rest[key] += value
        self.assertEqual(+rest, +folded)
        if not page["sites_folded"]:
            # What was inherited and gone before the peak is of no site: no calls.
            self.assertEqual([k for k in ("calls", "allocated") if folded[k]], [])

    def check(self, recording, ranges, *arguments, document=None):
        document = document or report(recording, *arguments)
        summary, processes = page_of(recording, *arguments)
        self.assertEqual((summary["events"], summary["lost_events"]), (document["events"], document["lost_events"]))
        self.assertEqual([(p["pid"], p["events"], p["peak_live_bytes"]) for p in summary["processes"]],
                         [(p["pid"], p["events"], p["peak_live_bytes"]) for p in document["processes"]])
        for listed, process in zip(summary["processes"], document["processes"]):
            detail = processes[listed["block"]]
            for key, value in process.items():
                if key == "mapped":
                    value = dict(value, sites_total=len(value["sites"]), sites=value["sites"][:200])
                if key in ("marks", "marks_total"):
                    self.assertEqual(detail["page"][key], value, key)
                if key not in ("sites", "sites_total", "sites_left_out", "left_out", "explained", "marks", "marks_total"):
                    self.assertEqual(detail[key], value, key)
            page = detail["page"]
            bins = page["bins"]
            self.assertEqual([b["live_bytes"] for b in process["timeline"]], bins["live_bytes"] if process["timeline"] else [])
            self.compare(page, process, 0, bins["count"])
            for first, end in ranges:
                begin = process["start_ns"] + bins["start_ns"] + first * bins["width_ns"]
                stop = begin + (end - first) * bins["width_ns"] - 1
                part = report(recording, "-p", str(process["pid"]), "--time", f"{begin}ns..{stop}ns", *arguments)
                part = next(p for p in part["processes"] if p["start_ns"] == process["start_ns"])
                self.compare(page, part, first, end)
                peak = pages.peak_bin(page, first, end)
                self.assertEqual((bins["max_bytes"][peak], bins["max_blocks"][peak], bins["live_bytes"][end - 1]),
                                 (part["peak_live_bytes"], part["peak_live_blocks"], part["end_live_bytes"]))
        return summary, processes

    def test_threads_and_many_stacks(self):
        recording = record(path("paths"), PATHS, "8")
        _, processes = self.check(recording, ((0, 1), (0, 120), (60, 61), (100, 240)))
        page = processes[0]["page"]
        self.assertEqual(page["sites_folded"], 0)
        self.assertGreaterEqual(page["sites_total"], 256)
        self.assertEqual([lane["name"] for lane in page["lanes"] if lane["tids"]].count("</script><b>&"), 1)
        made = processes[0]["thread_figures"]
        for lane, info in enumerate(page["lanes"]):
            allocated = sum(c["allocated"] for _g, of, _s, _b, row in pages.cells(page) for c in row if of == lane)
            self.assertEqual(allocated, sum(t["allocated_bytes"] for t in made if t["tid"] in info["tids"]))

    def test_folding(self):
        """More stacks than the page has room for: sums stay, and how many were folded is said."""
        recording = record(path("folded"), PATHS, "14")
        document = report(recording)
        _, processes = self.check(recording, (), document=document)
        page = processes[0]["page"]
        self.assertGreater(page["sites_folded"], 1000)
        groups = page["groups"]["folded"]
        self.assertEqual(sum(n - 1 for n in groups if n), page["sites_folded"])
        self.assertEqual(sum(1 for n in groups if not n), page["sites_total"] - page["sites_folded"])
        # Never across call sites.
        process = document["processes"][0]
        stacks = by_stack(process)
        self.compare_call_sites(page, stacks, 0, page["bins"]["count"])
        sites = {f for f, _key in by_call_site(stacks) if f != "of libraries"}
        self.assertTrue({"tiny", "small", "middle", "large"} <= {f[0] for f in sites}, sites)
        shown = [pages.call_site(page, g) for g in range(len(page["groups"]["site"])) if page["groups"]["folded"][g] != 1]
        self.assertEqual({of_paths(f) for f in shown} - {"of libraries"}, sites)
        self.assertEqual(page["call_sites"], len(set(shown)))
        bins, start = page["bins"], process["start_ns"]
        for first, end in ((0, 7), (31, 200)):
            begin = start + bins["start_ns"] + first * bins["width_ns"]
            part = report(recording, "--time", f"{begin}ns..{begin + (end - first) * bins['width_ns'] - 1}ns")
            self.compare_call_sites(page, by_stack(part["processes"][0]), first, end)
        # The frames that are kept are those that weigh most, and their sums are those of all stacks.
        weight = collections.Counter()
        for (stack, key), value in stacks.items():
            for way in stack.paths:
                weight[way, key] += value
        shown = collections.Counter()
        for group, f in pages.figures(page, 0, bins["count"]).items():
            for way in Stack.of(pages.stack(page, group)).paths:
                for key, value in f.items():
                    shown[way, key] += value
        self.assertEqual({k: v for k, v in shown.items() if weight[k] != v}, {})
        self.assertGreater(len(shown), 1000)

    def test_sources(self):
        """Only where they are asked for, and only below the directory that was named."""
        recording = record(path("sources"), PATHS, "3")
        self.assertIsNone(page_of(recording)[1][0]["page"]["sources"])
        paths = next(f["file"] for s in report(recording)["processes"][0]["sites"] for f in s["frames"] if f["function"] == "walk")
        with open(paths, encoding="utf-8") as f:
            lines = f.read().splitlines()
        page = page_of(recording, "--source-text", "--source-root", os.path.dirname(paths))[1][0]["page"]
        frames, texts = page["frames"], page["texts"]
        seen = set()
        for item in page["sources"]["items"]:
            self.assertEqual((texts[frames["file"][item["frame"]]], frames["line"][item["frame"]]), ("paths.c", item["line"]))
            first = item["first"]
            self.assertEqual(first, max(1, item["line"] - 3))
            self.assertEqual(item["lines"], [l[:200] for l in lines[first - 1:item["line"] + 3]])
            seen.add(texts[frames["function"][item["frame"]]])
        self.assertTrue({"walk", "left", "right", "run", "tiny"} <= seen, seen)
        elsewhere = page_of(recording, "--source-text", "--source-root", path())[1][0]["page"]["sources"]
        self.assertEqual(elsewhere["items"], [])
        mallow("report", "--html", path("no"), "--source-text", recording, status=2)
        mallow("report", "--html", path("no"), "--source-text", "--source-root", path("gone"), recording, status=1)

    def test_forks(self):
        """What a child inherits is there before its first slice."""
        recording = record(path("forks"), "/bin/sh", "-c", "(echo a; echo b) | cat | wc -l; ls -lR /etc | sort | tail -1")
        summary, _ = self.check(recording, ((0, 3), (120, 240)))
        self.assertGreater(len(summary["processes"]), 3)

    def test_filters(self):
        recording = record(path("filtered"), PATHS, "7")
        whole, _ = self.check(recording, ())
        some, _ = self.check(recording, (), "--size", "..100")
        self.assertLess(some["events"], whole["events"])
        self.assertEqual(some["filter"], {"min_bytes": 0, "max_bytes": 100})
        self.check(recording, (), "--min-lifetime", "100us")

    def test_byte_seconds(self):
        """Bytes times time, by whole lives."""
        recording = record(path("areas"), PATHS, "6")
        _, processes = page_of(recording)
        page, born, want = processes[0]["page"], {}, 0
        bins = page["bins"]
        start = processes[0]["start_ns"] + bins["start_ns"]
        stop = start + bins["count"] * bins["width_ns"]
        for line in mallow("dump", "--json", recording).stdout.splitlines():
            event = json.loads(line)
            if "slot" not in event:
                continue
            if event["kind"] == "alloc":
                born[event["slot"]] = event
            else:
                block = born.pop(event["slot"])
                want += block["size_bytes"] * (event["time_ns"] - block["time_ns"])
        want += sum(block["size_bytes"] * (stop - block["time_ns"]) for block in born.values())
        have = 0
        for _group, _lane, live, _blocks, row in pages.cells(page):
            position = 0
            for c in row:
                have += (live * (c["bin"] - position) + c["mean"]) * bins["width_ns"]
                live, position = c["live"], c["bin"] + 1
            have += live * (bins["count"] - position) * bins["width_ns"]
        # A cell's mean is written in whole bytes.
        self.assertLessEqual(abs(have - want), len(page["cells"]["bin"]) * bins["width_ns"])

    def test_output(self):
        recording = record(path("output"), PATHS, "3")
        with open(path("there"), "w", encoding="utf-8") as f:
            f.write("before")
        os.chmod(path("there"), 0o640)
        mallow("report", "--html", path("there"), "--json", recording, status=2)
        mallow("report", "--html", path("none/there"), recording, status=1)
        done = mallow("report", "--html", "/dev/full", recording, status=None)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("/dev/full", done.stderr)
        with open(path("there"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "before")
        mallow("report", "--html", path("there"), recording, status=0)
        with open(path("there"), encoding="utf-8") as f:
            html = f.read()
        self.assertTrue(html.startswith("<!DOCTYPE html>") and html.endswith("</html>\n"))
        self.assertEqual(len([n for n in os.listdir(path()) if n.startswith("there")]), 1)
        self.assertNotRegex(html, r'(?i)(src|href)\s*=\s*["\']?(https?:)?//')
        through = mallow("report", "--html", "/dev/stdout", recording)
        self.assertEqual((through.returncode, through.stdout), (0, html))
