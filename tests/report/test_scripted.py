"""What scripts ask a recording for: a JSON report of bounded length, with figures of what it leaves out; limits."""
import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree

from mallowtest import MALLOW, mallow, path, program
from checks import disagreements

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTED = program("report/scripted")

RECORDING = path("scripted.mlw")
STACKS, BLOCK, SHORT, TOUCHED = 1 << 11, 48, 500, 24 << 20  # as in scripted.c
FIGURES = ("calls", "allocated_bytes", "peak_bytes", "peak_blocks", "end_live_bytes", "end_live_blocks", "temporary")


def setUpModule():
    """Records; while the large block is held, what is resident is measured."""
    with subprocess.Popen([MALLOW, "record", "-q", "-o", RECORDING, "--", SCRIPTED], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as program:
        mallow("control", program.stdout.readline().strip(), "snapshot")
        program.stdin.close()
        assert program.wait() == 0


def report(*options):
    return json.loads(mallow("report", "--json", *options, RECORDING).stdout)


class Bounded(unittest.TestCase):
    def test_a_limit_and_what_it_left_out(self):
        everything = report("-n", "0")["processes"][0]
        self.assertEqual((everything["sites_left_out"], len(everything["sites"])), (0, everything["sites_total"]))
        self.assertEqual(set(everything["left_out"].values()), {0})
        self.assertGreaterEqual(everything["sites_total"], STACKS)
        for options, shown in (([], 1000), (["-n", "7"], 7), (["-n", "1500", "--by", "calls"], 1500)):
            document = report(*options)
            self.assertEqual(disagreements(document), [])
            process = document["processes"][0]
            self.assertEqual(len(process["sites"]), shown)
            self.assertEqual(process["sites_left_out"], everything["sites_total"] - shown)
            for figure in FIGURES:
                self.assertEqual(sum(s[figure] for s in process["sites"]) + process["left_out"][figure],
                                 sum(s[figure] for s in everything["sites"]), (options, figure))
        self.assertLess(len(json.dumps(report())), 0.6 * len(json.dumps(report("-n0"))))

    def test_a_table_of_frames(self):
        inline, table = (report("-n0", "--frames", f)["processes"][0] for f in ("inline", "table"))
        self.assertNotIn("frame_table", inline)
        frames = table["frame_table"]
        self.assertEqual(len({json.dumps(f) for f in frames}), len(frames))
        self.assertEqual([dict(s, frames=[frames[f] for f in s["frames"]]) for s in table["sites"]], inline["sites"])
        pinning = [[p for e in process["explained"] for p in e["pinning"]] for process in (inline, table)]
        self.assertTrue(pinning[0])
        self.assertEqual([dict(p, frames=[frames[f] for f in p["frames"]]) for p in pinning[1]], pinning[0])
        self.assertEqual(disagreements(report("--frames=table")), [])
        self.assertLess(len(json.dumps(table)), 0.3 * len(json.dumps(inline)))
        self.assertIn("--json", mallow("report", "--frames=table", RECORDING, status=2).stderr)

    def test_all_in_text(self):
        one, every = (mallow("report", n, "--by", "allocated", RECORDING).stdout for n in ("-n1", "-n0"))
        self.assertEqual([one.count("hold ("), one.count("\n 2 ")], [1, 0])
        self.assertEqual([every.count("hold ("), every.count("temporary (")], [1, 1])


class Gates(unittest.TestCase):
    def gate(self, limits, status, *options, recording=RECORDING):
        """The lines on stderr."""
        return mallow("report", "--fail-above", limits, *options, recording, status=status).stderr.splitlines()

    def test_each_figure(self):
        process = report()["processes"][0]
        for figure, key in (("peak", "peak_live_bytes"), ("end", "end_live_bytes"), ("allocated", "requested_bytes"),
                            ("temporary", "temporary_allocations"), ("calls", "allocations")):
            with self.subTest(figure):
                self.assertEqual(self.gate(f"{figure}={process[key]}", 0), [])
                above = self.gate(f"{figure}={process[key] - 1}", 1)
                self.assertEqual(len(above), 1)
                self.assertIn(f"above {figure}={process[key] - 1}", above[0])
        self.assertEqual((process["end_live_bytes"], process["temporary_allocations"]), (STACKS * BLOCK, SHORT + 1))

    def test_what_is_resident(self):
        self.gate(f"rss={TOUCHED}", 1)
        self.assertEqual(self.gate("rss=1G,gap=1G", 0), [])
        self.gate("gap=0", 1)
        self.assertIn("not known", self.gate("rss=1G,peak=1G", 3, "--size", "1..")[0])
        self.assertIn("not known", self.gate("gap=1G", 3, "--time", "1h..")[0])
        self.assertIn("not known", self.gate("rss=1,gap=1", 3, "--function", "main")[0])  # nor above
        self.assertEqual(len(self.gate("gap=1G,peak=1", 1, "--size", "1..")), 2)  # above outweighs not known

    def test_several_at_once(self):
        above = self.gate("peak=1M,end=1K,allocated=1G,temporary=500,calls=1", 1)
        self.assertEqual([re.search("above ([a-z]+)=", line)[1] for line in above],
                         ["peak", "end", "temporary", "calls"])
        for output in (["--json"], ["--html", path("page.html")]):
            self.assertEqual(self.gate("peak=1M,end=1K,allocated=1G,temporary=500,calls=1", 1, *output), above)

    def test_each_process(self):
        forked = path("forked.mlw")
        script = f"{SCRIPTED}; {SCRIPTED}; true"
        mallow("record", "-q", "-o", forked, "--", "/bin/sh", "-c", script)
        above = self.gate(f"end={STACKS * BLOCK - 1},peak=1G", 1, recording=forked)
        self.assertEqual([bool(re.search(r"of process \d+ \(.*scripted\): 96.0 KB", line)) for line in above],
                         [True, True])

    def test_known_leaks_do_not_count(self):
        known = path("known")
        with open(known, "w", encoding="utf-8") as f:
            f.write("leak:branch\n")
        for output in ([], ["--json"]):
            self.assertEqual(self.gate("end=0", 0, "--suppressions", known, *output), [])
        self.gate("end=0,peak=1", 1, "--suppressions", known)

    def test_annotations(self):
        lines = self.gate("peak=1M,end=0,calls=1G", 1, "--annotate", "github")
        found = [re.fullmatch(r"::error file=(.*),line=(\d+),title=mallow report::(.*)", line) for line in lines]
        found = [m for m in found if m]
        self.assertEqual([os.path.basename(m[1]) for m in found], ["scripted.c", "scripted.c"])
        self.assertTrue(all("/../" not in m[1] for m in found))
        self.assertEqual([m[3].split(";")[1] for m in found], [" most of it at hold", " most of it at branch"])
        with open(os.path.join(HERE, "scripted.c"), encoding="utf-8") as f:
            source = f.read().splitlines()
        self.assertIn("malloc(TOUCHED)", source[int(found[0][2]) - 1])
        self.assertIn("malloc(BLOCK)", source[int(found[1][2]) - 1])

    def test_junit(self):
        out = path("junit.xml")
        odd = path('a<b>&"\x01.mlw')
        os.link(RECORDING, odd)
        self.gate("peak=1M,calls=1G,gap=1G", 1, "--size", "1..", "--junit", out, recording=odd)
        suite = xml.etree.ElementTree.parse(out).getroot().find("testsuite")
        self.assertEqual([suite.get(k) for k in ("tests", "failures", "errors")], ["3", "1", "1"])
        self.assertIn('a<b>&"', suite.get("name"))
        cases = {c.get("name"): [e.tag for e in c] for c in suite}
        self.assertEqual(cases, {"peak=1M": ["failure"], "calls=1G": ["system-out"], "gap=1G": ["error"]})

    def test_usage(self):
        for bad in ("", "much", "peak", "peak=", "peak=x", "peak=5%", "peak=1,peak=2", "weight=1", "peak=1,"):
            self.assertEqual(len(self.gate(bad, 2)), 1, bad)
        self.assertIn("--fail-above", mallow("report", "--junit", "/dev/null", RECORDING, status=2).stderr)
        self.assertIn("--fail-above", mallow("report", "--annotate", "github", RECORDING, status=2).stderr)


class Commands(unittest.TestCase):
    def test_empty_arguments_at_the_end(self):
        """As of a program that writes its state over its command line."""
        file = path("empty.mlw")
        mallow("record", "-q", "-o", file, "--", SCRIPTED, "a", "", "", "b", *[""] * 20)
        lines = mallow("report", file).stdout.splitlines()
        self.assertIn(f"{SCRIPTED} a '' '' b", lines)
        document = json.loads(mallow("report", "--json", file).stdout)
        self.assertEqual(len(document["processes"][0]["command"]), 25)


class Marks(unittest.TestCase):
    def calls(self, time, *options):
        return report("--time", time, *options)["processes"][0]["allocations"]

    def test_a_range_between_marks(self):
        everything = report()["processes"][0]["allocations"]
        before = self.calls("..start")
        self.assertEqual(self.calls("start..done"), STACKS)
        self.assertEqual(self.calls("start.."), everything - before)
        self.assertEqual(self.calls("..done"), before + STACKS)
        self.assertEqual(self.calls("mark:done.."), everything - before - STACKS)
        self.assertEqual(self.calls("start..1h", "--only-new"), everything - before)
        lines = mallow("dump", "--time", "start..done", RECORDING).stdout
        self.assertEqual(lines.count("malloc("), STACKS, lines[:500])
        out = path("between.folded")
        mallow("export", "--format=folded", "--by=calls", "--time=start..done", "-o", out, RECORDING)
        with open(out, encoding="utf-8") as f:
            self.assertEqual(sum(int(line.split()[-1]) for line in f), STACKS)
        document = json.loads(mallow("diff", "--json", "--time", "start..done", RECORDING, RECORDING).stdout)
        self.assertEqual([document[side]["totals"]["calls"] for side in ("old", "new")], [STACKS, STACKS])

    def test_a_mark_that_reads_like_a_time(self):
        file = path("time.mlw")
        with subprocess.Popen([MALLOW, "record", "-q", "-o", file, "--", SCRIPTED], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as p:
            pid = p.stdout.readline().decode().strip()
            mallow("control", pid, "mark", "0")
            p.stdin.close()
        self.assertEqual(p.returncode, 0)

        def calls(time):
            return json.loads(mallow("report", "--json", "--time", time, file).stdout)["processes"][0]["allocations"]
        self.assertEqual(calls("0..done"), calls("..done"))
        self.assertLess(calls("mark:0.."), STACKS)

    def test_what_is_no_range(self):
        for time in ("done..start", "nope..", "..nope", "mark:1s..", "start"):
            said = mallow("report", "--time", time, RECORDING, status=2).stderr
            self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("the marks 'start', 'done'", mallow("report", "--time", "nope..", RECORDING, status=2).stderr)

    def test_a_moment_at_which_nothing_ran(self):
        for at in ("0", "10h"):
            said = mallow("report", "--at", at, RECORDING, status=2).stderr
            self.assertIn(f"nothing ran at '{at}'", said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_marks_are_shown(self):
        process = report()["processes"][0]
        self.assertEqual([m["label"] for m in process["marks"]], ["start", "done"])
        self.assertEqual(process["marks_total"], 2)
        text = mallow("report", RECORDING).stdout
        self.assertRegex(text, r"(?m)^Marks, .*\n +\d\S* [num]?s  start\n +\d\S* [num]?s  done\n")
        self.assertNotIn("  done\n", mallow("report", "--time", "..start", RECORDING).stdout)
