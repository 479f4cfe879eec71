"""mallow diff: a known leak against its fix, equal runs, rebuilt and stripped programs, the gate for CI."""
import json
import shutil
import subprocess
import unittest
import xml.etree.ElementTree

from mallowtest import mallow, path, program, record

LEAKY, FIXED = program("diff/diff-leaky"), program("diff/diff-fixed")
KEY_BYTES = len("a key of the table") + 1
LEAKED = 500 * KEY_BYTES


def setUpModule():
    for name, program_of in (("leaky", LEAKY), ("again", LEAKY), ("fixed", FIXED), ("many", "/bin/ls")):
        globals()[name] = record(path(name + ".mlw"), program_of)


def diff(old, new, *options):
    document = json.loads(mallow("diff", "--json", *options, old, new).stdout)
    assert document["schema"] == 1
    return document


def functions(site):
    return [frame["function"] for frame in site["frames"]]


def grown(document, figure):
    return [s for s in document["sites"] if s["growth"][figure]]


class Leak(unittest.TestCase):
    def test_the_leak_alone(self):
        for old, new, sign in ((fixed, leaky, 1), (leaky, fixed, -1)):
            for by, figure in (("end", "end_live_bytes"), ("peak", "peak_bytes")):
                document = diff(old, new, "--by", by)
                sites = grown(document, figure)
                self.assertEqual(len(sites), 1, (by, sites))
                self.assertEqual(functions(sites[0])[:3], ["copy", "parse", "main"])
                self.assertEqual(document["by"], by)
            site = grown(document, "end_live_bytes")[0]
            self.assertEqual(site["growth"]["end_live_bytes"], sign * LEAKED)
            self.assertEqual(site["growth"]["end_live_blocks"], sign * 500)
            self.assertEqual(document["growth"]["end_live_bytes"], sign * LEAKED)

    def test_text(self):
        text = mallow("diff", fixed, leaky).stdout
        self.assertIn("Live at the end: grew at 1 call site\n", text)
        self.assertNotIn("shrank", text)
        self.assertRegex(text, r"\+9\.3 KB  9\.3 KB, was 0 B; \+500 blocks\n +copy \(leaky\.c:\d+\)\n +parse ")

    def test_figures_are_those_of_report(self):
        document = diff(fixed, leaky)
        for side, path in (("old", fixed), ("new", leaky)):
            p = json.loads(mallow("report", "--json", path).stdout)["processes"][0]
            t = document[side]["totals"]
            self.assertEqual([t["peak_bytes"], t["end_live_bytes"], t["allocated_bytes"], t["temporary"], t["calls"]],
                             [p["peak_live_bytes"], p["end_live_bytes"], p["requested_bytes"],
                              p["temporary_allocations"], p["allocations"]])

    def test_limit(self):
        """What -n leaves out is counted, and shown and left out are all."""
        options = ("--by", "calls", "--size", "1..")
        everything = diff(leaky, many, *options, "-n", "0")
        shown = diff(leaky, many, *options, "-n", "2")
        self.assertEqual(everything["sites_left_out"], 0)
        self.assertEqual(len(everything["sites"]), everything["sites_total"])
        self.assertGreater(everything["sites_total"], 4)
        self.assertEqual(shown["sites_total"], everything["sites_total"])
        count = len(shown["sites"])
        self.assertEqual(shown["sites_left_out"], shown["sites_total"] - count)
        shrank = [s for s in everything["sites"] if s["growth"]["calls"] < 0]
        self.assertEqual(count, 2 + min(2, len(shrank)))
        self.assertEqual(shown["sites"], everything["sites"][:2] + shrank[-2:])
        rest = everything["sites"][2:len(everything["sites"]) - min(2, len(shrank))]
        for side in ("old", "new", "growth"):
            for figure, value in shown["left_out"][side].items():
                if figure == "mean_bytes":
                    calls = max(shown["left_out"][side]["calls"], 1)
                    self.assertEqual(value, shown["left_out"][side]["allocated_bytes"] // calls)
                    continue
                self.assertEqual(value, sum(s[side][figure] for s in rest), (side, figure))

    def test_a_filter(self):
        self.assertEqual(diff(fixed, leaky, "--function", "keep_some")["sites"], [])
        self.assertEqual(len(grown(diff(fixed, leaky, "--size", f"{KEY_BYTES}..{KEY_BYTES}"), "end_live_bytes")), 1)


class Equal(unittest.TestCase):
    def test_nothing(self):
        for old, new in ((leaky, again), (leaky, leaky)):
            document = diff(old, new)
            self.assertEqual((document["sites"], document["sites_total"]), ([], 0))
            text = mallow("diff", old, new).stdout
            self.assertIn("Live at the end: no call site differs", text)
            self.assertIn("Live at the peak: no call site differs", text)


class Stripped(unittest.TestCase):
    def test_rebuilt_without_names(self):
        if not shutil.which("strip"):
            self.skipTest("strip (package binutils) is not installed")
        recordings = []
        for name, program_of in (("s-leaky", LEAKY), ("s-fixed", FIXED)):
            copy = path(name)
            subprocess.run(["strip", "-s", "-o", copy, program_of], check=True)
            recordings.append(record(path(name + ".mlw"), copy))
        document = diff(recordings[1], recordings[0])
        self.assertEqual(document["growth"]["end_live_bytes"], LEAKED)
        sites = grown(document, "end_live_bytes")
        self.assertEqual(sum(s["growth"]["end_live_bytes"] for s in sites), LEAKED)
        # of the same build the offsets still tell sites apart
        self.assertEqual(diff(recordings[0], recordings[0])["sites"], [])
        again = record(path("s-again.mlw"), path("s-leaky"))
        self.assertEqual(diff(recordings[0], again)["sites"], [])


class Gate(unittest.TestCase):
    def test_fail_above(self):
        for limit, status in (("0", 1), ("9499", 1), ("9500", 0), ("1M", 0), ("29%", 1), ("30%", 0)):
            said = mallow("diff", "--by=end", "--fail-above", limit, fixed, leaky, status=status).stderr
            self.assertEqual("grew by 9.3 KB" in said, status == 1, said)
        mallow("diff", "--by=end", "--fail-above=0", leaky, fixed)
        mallow("diff", "--fail-above=0", leaky, again)

    def test_several_figures(self):
        said = mallow("diff", "--fail-above", "end=0,allocated=1G,peak=1%,calls=0", fixed, leaky, status=1).stderr
        self.assertEqual([line.split(": ")[1] for line in said.splitlines()], ["live at the end", "live at the peak"])
        self.assertIn("most of it at copy", said)
        mallow("diff", "--fail-above", "end=0,peak=0,calls=0,temporary=0,allocated=0", leaky, again)
        said = mallow("diff", "--fail-above", "rss=1G,end=1M", "--size", "1..", fixed, leaky, status=3).stderr
        self.assertIn("largest resident size: not known", said)
        said = mallow("diff", "--fail-above", "gap=1G,end=0", "--size", "1..", fixed, leaky, status=1).stderr
        self.assertEqual(said.count("\n"), 2)

    def test_annotations_and_junit(self):
        out = path("junit.xml")
        said = mallow("diff", "--fail-above", "end=0,calls=0", "--annotate=github", "--junit", out, fixed, leaky,
                      status=1).stderr
        self.assertRegex(said, r"(?m)^::error file=.*leaky\.c,line=\d+,title=mallow diff::live at the end: grew by 9\.3 KB")
        suite = xml.etree.ElementTree.parse(out).getroot().find("testsuite")
        self.assertEqual({c.get("name"): [e.tag for e in c] for c in suite},
                         {"end=0": ["failure"], "calls=0": ["system-out"]})

    def test_usage(self):
        for bad in ("much", "%", "-5%", "", "end=", "end=1,end=2", "1M,peak=2M"):
            mallow("diff", "--fail-above=" + bad, fixed, leaky, status=2)
        mallow("diff", fixed, status=2)
        mallow("diff", fixed, "/etc/passwd", status=2)
        mallow("diff", fixed, "/nonexistent.mlw", status=1)
