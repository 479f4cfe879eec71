"""The moments and the map of the heap on a page, against `mallow report --json` and against what the
recorded calls add up to."""
import collections
import json
import os
import subprocess
import unittest

from mallowtest import MALLOW, mallow, path, program, record, report
import pages

FRAY = program("web/fray")
PAGE, HEADER = 4096, 8


def page_of(recording, *arguments):
    out = recording + ".html"
    assert mallow("report", "--html", out, *arguments, recording).stdout == ""
    assert os.path.getsize(out) <= 5000000
    return out


class State:
    """The blocks that are live, as the events say."""

    def __init__(self, recording):
        self.live, self.events = {}, []
        for line in mallow("dump", "--json", recording).stdout.splitlines():
            event = json.loads(line)
            if "slot" in event:
                self.events.append(event)
        self.next = 0

    def reach(self, time_ns):
        """All that happened before this time."""
        while self.next < len(self.events) and self.events[self.next]["time_ns"] < time_ns:
            event = self.events[self.next]
            if event["kind"] == "alloc":
                self.live[event["slot"]] = event
            else:
                del self.live[event["slot"]]
            self.next += 1

    def in_heaps(self):
        return [b for b in self.live.values() if "mmapped" not in b.get("path", ())]

    def cells(self, cell_bytes):
        """By number of the cell: bytes of live blocks with their headers, and pages with one on them."""
        used, there = collections.Counter(), collections.defaultdict(set)
        for block in self.in_heaps():
            at, end = int(block["address"], 16) - HEADER, int(block["address"], 16) + block["usable_bytes"]
            there_from, there_to = at // PAGE, (end - 1) // PAGE
            for page in range(there_from, there_to + 1):
                there[page * PAGE // cell_bytes].add(page)
            while at < end:
                stop = min(end, (at // cell_bytes + 1) * cell_bytes)
                used[at // cell_bytes] += stop - at
                at = stop
        return used, there


def hundredths(part, whole):
    return min(100, -(-part * 100 // whole))


class Moments(unittest.TestCase):
    maxDiff = 3000

    def parts(self, m, moment):
        return {name: value for name, value in zip(m["part_names"], moment["parts"]) if value or name == "live"}

    def check_explained(self, m, process):
        """What the report explains is on the page, and once more among its moments."""
        frames = m["frame_table"]
        wanted = [dict(e, pinning=e["pinning"][:20]) for e in process["explained"]]
        have = json.loads(json.dumps(m["explained"]))
        for e in have:
            for item in e["pinning"] + e["advice"]:
                if "frames" in item:
                    item["frames"] = [frames[i] for i in item["frames"]]
        self.assertEqual(have, wanted)
        for e in wanted:
            when = e["time_ns"] if e["measured_ns"] is None else e["measured_ns"]
            [moment] = [x for x in m["moments"] if x["time_ns"] == when]
            self.assertEqual(moment["measured"], e["measured_ns"] is not None)
            self.assertEqual(moment.get("rss_bytes"), e["rss_bytes"])
            self.assertEqual((moment["live_bytes"], moment["live_blocks"]), (e["live_bytes"], e["live_blocks"]))
            self.assertEqual(self.parts(m, moment), {p["name"]: p["bytes"] for p in e["parts"]})
            self.assertEqual([(m["remedies"][kind]["setting"], saves or None, most or None) for kind, saves, _site, most in moment["advice"]],
                             [(a["setting"], a["saves_bytes"], a["saves_at_most_bytes"]) for a in e["advice"]])
            arenas = sorted([int(a["address"], 16), a["live_bytes"], a["free_on_shared_pages_bytes"], a["free_below_bytes"]]
                            for a in e["arenas"])
            self.assertEqual(sorted([a[0], a[1], a[4], a[5]] for a in moment["arenas"]), arenas)

    def check_sums(self, m):
        """Parts add up to what was resident; call sites keep all that is kept."""
        for moment in m["moments"]:
            parts = self.parts(m, moment)
            self.assertEqual(parts["live"], moment["live_bytes"])
            if moment["measured"]:
                self.assertEqual(sum(parts.values()), moment["rss_bytes"])
            self.assertEqual(moment["keepers_total"], len(moment["keepers"]))
            self.assertEqual(sum(k[1] for k in moment["keepers"]), parts.get("fragmentation", 0))

    def check_slices(self, m, page):
        """Moments at the ends of slices hold what the slices end with."""
        bins, found = page["bins"], 0
        ends = {bins["start_ns"] + (i + 1) * bins["width_ns"]: bins["live_bytes"][i] for i in range(bins["count"])}
        for moment in m["moments"]:
            if moment["time_ns"] in ends:
                self.assertEqual(moment["live_bytes"], ends[moment["time_ns"]])
                found += 1
        self.assertGreaterEqual(found, 16)

    def maps(self, m):
        """For each moment: {cell's number: (live, free, sites)}."""
        raw, now = m["map"], {}
        for changes in raw["changes"]:
            at = -1
            for i in range(0, len(changes), 6):
                at += changes[i] + 1
                number = raw["rows"][at // raw["columns"]] // raw["cell_bytes"] + at % raw["columns"]
                now[number] = (changes[i + 1], changes[i + 2], changes[i + 3:i + 6])
            yield {k: v for k, v in now.items() if v[0] or v[1]}

    def check_map(self, m, recording, start_ns):
        """Every cell at every moment, from the calls by themselves."""
        state, cell, seen = State(recording), m["map"]["cell_bytes"], set()
        frames, rows = m["frame_table"], m["map"]["rows"]
        self.assertEqual(rows, sorted(rows))
        self.assertLessEqual(len(rows), 128)
        for moment, shown in zip(m["moments"], self.maps(m)):
            state.reach(start_ns + moment["time_ns"])
            parts, heaps = self.parts(m, moment), state.in_heaps()
            self.assertEqual(moment["live_bytes"], sum(b["size_bytes"] for b in state.live.values()))
            self.assertEqual(moment["live_blocks"], len(state.live))
            self.assertEqual(parts.get("rounding", 0), sum(b["usable_bytes"] - b["size_bytes"] for b in state.live.values()))
            self.assertEqual(parts.get("headers", 0), HEADER * len(heaps))
            used, there = state.cells(cell)
            self.assertEqual({k: v[0] for k, v in shown.items() if v[0]}, {k: hundredths(v, cell) for k, v in used.items()})
            free = {k: hundredths(len(there[k]) * PAGE - v, cell) for k, v in used.items()}
            if parts.get("tcache", 0) == 0:
                self.assertEqual({k: v[1] for k, v in shown.items()}, free)
                self.assertEqual(parts.get("fragmentation", 0), sum(len(there[k]) * PAGE - v for k, v in used.items()))
            else:
                self.assertEqual([k for k, v in free.items() if shown[k][1] < v], [])
            for _live, _free, sites in shown.values():
                seen |= {frames[m["sites"][s - 1]]["function"] for s in sites if s and m["sites"][s - 1] is not None}
        self.assertLessEqual({"survivor", "passing", "threaded"}, seen)
        self.assertNotIn("mapped", seen)

    def check(self, *arguments):
        recording = record(path("-".join(arguments)), FRAY, *arguments)
        out = page_of(recording)
        _, processes = pages.read(out)
        m = pages.moments(out)[0]
        process = report(recording)["processes"][0]
        times = [x["time_ns"] for x in m["moments"]]
        self.assertEqual(times, sorted(set(times)))
        self.assertLessEqual(len(times), 250)
        self.assertEqual(len(m["map"]["changes"]), len(times))
        self.check_explained(m, process)
        self.check_sums(m)
        self.check_slices(m, processes[0]["page"])
        self.check_map(m, recording, process["start_ns"])
        return recording, m, process

    def test_pages(self):
        """A heap so small that a cell is a page."""
        recording, m, process = self.check("600", "1500")
        self.assertEqual(m["map"]["cell_bytes"], PAGE)
        # What is known without a measurement is what the report says of that time.
        for moment in [x for x in m["moments"] if not x["measured"]][::9]:
            [e] = report(recording, "--at", f"{process['start_ns'] + moment['time_ns']}ns")["processes"][0]["explained"]
            if e["measured_ns"] is None:
                self.assertEqual(self.parts(m, moment), {p["name"]: p["bytes"] for p in e["parts"]})

    def test_large(self):
        """One for which cells are put together."""
        _, m, _ = self.check("800", "100000")
        self.assertGreaterEqual(m["map"]["cell_bytes"], 2 * PAGE)

    def test_heaps(self):
        """How far apart heaps of arenas begin, by which the map says whose an address is."""
        minor = int(os.confstr("CS_GNU_LIBC_VERSION").split(".")[1])
        for kind, step in ("0", 64 << 20), ("2", 8 << 20 if 35 <= minor <= 42 else 64 << 20):
            os.environ["GLIBC_TUNABLES"] = f"glibc.malloc.hugetlb={kind}"
            self.addCleanup(os.environ.pop, "GLIBC_TUNABLES", None)
            file = os.path.join(path(), f"heaps-{kind}")
            subprocess.run([MALLOW, "record", "-q", "-o", file, "--", FRAY, "600", "1500"], check=True)
            steps = {moment["arena_heap_bytes"] for moment in pages.moments(page_of(file))[0]["moments"]}
            self.assertEqual(steps | {0}, {0, step})
            self.assertIn(step, steps)

    def test_filters(self):
        """Under a filter of blocks, addresses say nothing; in a range of time there are its moments."""
        recording = record(path("filtered"), FRAY, "600", "1500")
        self.assertEqual(pages.moments(page_of(recording, "--size", "..1000")), {})
        [process] = report(recording)["processes"]
        middle = process["start_ns"] + process["duration_ns"] // 2
        m = pages.moments(page_of(recording, "--time", f"{middle}ns..{middle + process['duration_ns'] // 4}ns"))[0]
        times = [process["start_ns"] + x["time_ns"] for x in m["moments"]]
        self.assertTrue(times)
        self.assertTrue(all(middle <= t <= middle + process["duration_ns"] // 4 for t in times), (times, middle))
