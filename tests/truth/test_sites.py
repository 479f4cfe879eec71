"""Leak sites with inlined names, exact: tests/victims/sites.cpp, rusty.rs, dee.d, plugin.c."""
import os
import re

from mallowtest import VICTIMS, Case, function_names, source, victim


def lines(name):
    """{word behind SITE: line number}"""
    found = {}
    with open(source(name)) as f:
        for number, text in enumerate(f, 1):
            m = re.search(r"// SITE (\w+)", text)
            if m:
                found[m.group(1)] = number
    return found


def own_frames(site):
    """From the first frame of the program itself: below it stand the C++ runtime's."""
    frames = site["frames"]
    while frames and not os.path.basename(frames[0]["module"] or "").startswith("sites"):
        frames = frames[1:]
    return frames


def short(function):
    """A function's qualified name without parameters and return type."""
    return re.sub(r"\(.*", "", function or "").split(" ")[-1]


class Sites(Case):
    report_options = ("--start-frames",)

    def setUp(self):
        super().setUp()
        self.program = self.process(self.recorded([victim("sites")]), "sites")
        self.lines = lines("sites.cpp")

    def site(self, function, outer=None):
        """The site whose innermost frame of the program is `function`, called through `outer`."""
        found = []
        for s in self.program["sites"]:
            f = own_frames(s)
            if f and short(f[0]["function"]) == function and (
                    outer is None or any(short(g["function"]) == outer for g in f)):
                found.append(s)
        self.assertEqual(len(found), 1, f"{function}: {[function_names(s) for s in self.program['sites']]}")
        return found[0]

    def check_frames(self, site, expected):
        """expected: (function, SITE word, inlined), innermost first, then main must follow."""
        got = [(short(f["function"]), f["line"], bool(f["inlined"])) for f in own_frames(site)]
        want = [(function, self.lines[word], inlined) for function, word, inlined in expected]
        self.assertEqual(got[:len(want)], want)
        for f in own_frames(site)[:len(want)]:
            self.assertEqual(os.path.basename(f["file"]), "sites.cpp")
        self.assertIn("main", [short(n) for n in function_names(site)])

    def check_numbers(self, site, calls, each, leaked=True):
        self.assertEqual((site["calls"], site["allocated_bytes"]), (calls, calls * each))
        self.assertEqual((site["end_live_blocks"], site["end_live_bytes"]),
                         (calls, calls * each) if leaked else (0, 0))

    def test_inlined_frames(self):
        s = self.site("store::innermost")
        self.check_frames(s, [("store::innermost", "innermost", True), ("store::middle", "middle", True),
                              ("store::leak_inlined", "leak_inlined", False)])
        self.check_numbers(s, 7, 1111)

    def test_template_member(self):
        found = [s for s in self.program["sites"] if own_frames(s)
                 and "Box<store::Item>::fill" in own_frames(s)[0]["function"]]
        self.assertEqual(len(found), 1)
        self.check_numbers(found[0], 3, 480)
        self.assertEqual(own_frames(found[0])[0]["line"], self.lines["fill"])
        self.assertEqual(short(own_frames(found[0])[1]["function"]), "store::leak_template")

    def test_operator_new(self):
        s = self.site("store::make_item")
        self.check_frames(s, [("store::make_item", "make_item", False),
                              ("store::leak_new", "leak_new", False)])
        self.check_numbers(s, 5, 48)

    def test_one_function_by_two_paths_is_two_sites(self):
        one, two = self.site("one_path", "caller_one"), self.site("one_path", "caller_two")
        self.check_frames(one, [("one_path", "one_path", False), ("caller_one", "caller_one", False)])
        self.check_frames(two, [("one_path", "one_path", False), ("caller_two", "caller_two", False)])
        self.check_numbers(one, 4, 100)
        self.check_numbers(two, 6, 200)

    def test_lambda(self):
        found = [s for s in self.program["sites"] if own_frames(s)
                 and own_frames(s)[0]["line"] == self.lines["lambda"]]
        self.assertEqual(len(found), 1)
        self.check_numbers(found[0], 1, 555)
        self.assertRegex(own_frames(found[0])[0]["function"], r"lambda|\$_0")  # gcc's word, clang's word

    def test_thread_stack_is_complete(self):
        s = self.site("in_a_thread")
        self.check_numbers(s, 1, 3333)
        outermost = s["frames"][-1]["function"]
        self.assertRegex(outermost, r"clone|start_thread", "a thread's stack ends at its start")

    def test_peak_is_attributed(self):
        s = self.site("at_the_peak")
        self.check_numbers(s, 1, 1000000, leaked=False)
        self.assertEqual(s["peak_bytes"], 1000000)
        self.assertEqual(self.program["peak_live_bytes"], sum(x["peak_bytes"] for x in self.program["sites"]))

    def test_main_stacks_reach_the_start(self):
        s = self.site("one_path", "caller_one")
        self.assertIn("_start", [short(n) for n in function_names(s)])


class Languages(Case):
    def test_rust(self):
        p = self.process(self.recorded([victim("rusty")]), "rusty")
        found = [s for s in p["sites"] if any("rusty::leak_boxes" == short(n) for n in function_names(s))]
        self.assertEqual(sum(s["end_live_bytes"] for s in found), 9 * 1234)
        self.assertEqual(sum(s["end_live_blocks"] for s in found), 9)
        found = [s for s in p["sites"] if any("with_room" in n for n in function_names(s))]
        self.assertEqual(sum(s["end_live_bytes"] for s in found), 40000)
        self.assertTrue(all("deep::Holder>::with_room" in n or "deep::Holder::with_room" in n
                            for s in found for n in function_names(s) if "with_room" in n))

    def test_d(self):
        p = self.process(self.recorded([victim("dee")]), "dee")
        found = [s for s in p["sites"] if any(short(n) == "dee.leakMany" for n in function_names(s))]
        self.assertEqual(sum(s["end_live_bytes"] for s in found), 6 * 4321)


class Plugins(Case):
    def test_names_stay_right_when_two_modules_share_an_address(self):
        p = self.process(self.recorded([victim("dl"), VICTIMS, "10"]), "dl")
        for name, size in (("a", 1001), ("b", 2002)):
            found = [s for s in p["sites"] if s["frames"][0]["function"] == f"inside_plug_{name}"]
            self.assertEqual(sum(s["end_live_bytes"] for s in found), 30 * size, name)
            self.assertEqual(sum(s["calls"] for s in found), 30, name)
            for s in found:
                self.assertEqual(function_names(s)[1], f"alloc_in_plug_{name}")
                self.assertEqual(os.path.basename(s["frames"][0]["module"]), f"plug_{name}.so")
                self.assertIn("main", function_names(s))
