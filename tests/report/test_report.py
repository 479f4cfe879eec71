"""All of report/ over the made-up recording of sample.c: golden texts, the fields of the JSON report
that scripts rely on, sums that must agree, filters, suppressions, the dump.

--write makes the golden files anew; look at the difference."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from mallowtest import golden, program
from checks import disagreements

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = program("report/sample")
ENVIRONMENT = dict(os.environ, TZ="UTC", LC_ALL="C")

GOLDEN = {
    "text.golden": ["text", "unicode=1"],
    "text-ascii.golden": ["text", "unicode=0", "columns=72"],
    "text-wide.golden": ["text", "unicode=1", "columns=130", "by=2", "top=3"],
    "text-by-calls.golden": ["text", "by=4", "top=3", "all_frames=1"],
    "text-plots.golden": ["text", "unicode=1", "plots=1", "columns=100"],
    "text-plots-ascii.golden": ["text", "unicode=0", "plots=1", "columns=72"],
    "text-numbers.golden": ["text", "unicode=1", "numbers=1"],
    "text-child.golden": ["text", "pid=101"],
    "dump.golden": ["dump", "names=1", "from_ns=4900000", "to_ns=5250000"],
    "dump-json.golden": ["dump-json", "from_ns=4900000", "to_ns=5250000"],
}

# A release changes no golden text.
VERSION = re.compile(rb"\bmallow \d+\.\d+\.\d+")


def run(*arguments, status=0):
    done = subprocess.run([SAMPLE, *arguments], capture_output=True, env=ENVIRONMENT)
    assert done.returncode == status, (done.returncode, done.stderr)
    return VERSION.sub(b"mallow VERSION", done.stdout)


def report(*arguments):
    return json.loads(run("json", *arguments).decode("utf-8", errors="strict"))


class Golden(unittest.TestCase):
    maxDiff = None

    def test_texts(self):
        for name, arguments in GOLDEN.items():
            with self.subTest(name):
                golden.same(self, os.path.join(HERE, name), run(*arguments))

    def test_no_line_is_wider_than_the_terminal(self):
        for line in run("text", "columns=72", "unicode=0").decode().splitlines():
            self.assertLessEqual(len(line), 72, line)

    def test_bold_only_when_asked(self):
        self.assertNotIn(b"\x1b", run("text"))
        self.assertIn(b"\x1b[1m", run("text", "bold=1"))

    def test_nothing_to_show(self):
        self.assertIn(b"No call passes the filters.", run("text", "function=none of these"))
        self.assertIn(b"No allocation call of it was recorded.", run("text", "pid=104"))

    def test_no_call_but_a_size(self):
        """Shared memory, an allocator of its own: what is resident is explained all the same."""
        text = run("text", "pid=104", "measured=1").decode()
        self.assertIn("No allocation call of it was recorded.", text)
        self.assertIn("Resident   5.7 MB at most", text)
        self.assertIn("Resident against live at the largest RSS", text)
        self.assertRegex(text, r"2\.1 MB +anonymous mappings that are not blocks")
        self.assertNotIn("after the peak", text)
        e = report("pid=104", "measured=1")["processes"][0]["explained"][0]
        self.assertEqual(sum(part["bytes"] for part in e["parts"]), e["rss_bytes"])
        self.assertNotIn("Resident against live", run("text", "pid=104", "measured=1", "function=none").decode())


class Json(unittest.TestCase):
    def test_contract_and_sums(self):
        self.assertEqual(disagreements(report()), [])

    def test_the_check_sees_errors(self):
        spoilt = report()
        spoilt["processes"][0]["sites"][0]["peak_bytes"] += 1
        del spoilt["processes"][1]["sites"][0]["frames"][0]["module"]
        spoilt["processes"][0]["calls"]["free"] += 1
        self.assertEqual(len(disagreements(spoilt)), 3)

    def test_known_figures(self):
        d = report()
        parent, child, other = d["processes"]
        self.assertEqual(parent["command"], ["/bin/sample", "--table", "a b"])
        self.assertEqual((parent["complete"], parent["end"], parent["signal"]), (False, "killed", 9))
        self.assertEqual((child["complete"], child["end"], child["exit_status"]), (True, "exit", 3))
        self.assertEqual((parent["failed_calls"], parent["failed"]), (1, {"malloc": 1}))
        self.assertEqual((parent["unknown_frees"], parent["null_frees"]), (1, 1))
        self.assertEqual(d["lost_events"], 3)
        self.assertEqual((other["events"], other["sites"]), (0, []))
        # the child: two blocks inherited (1000 and 500 bytes), one freed, 64 bytes made
        self.assertEqual(child["calls"]["calloc"], 1)
        self.assertEqual(child["calls"]["malloc"], 0)
        self.assertEqual((child["inherited_blocks"], child["inherited_bytes"]), (2, 1500))
        self.assertEqual((child["peak_live_bytes"], child["peak_live_blocks"], child["peak_time_ns"]), (1500, 2, 0))
        self.assertEqual((child["end_live_bytes"], child["end_live_blocks"]), (564, 2))
        self.assertEqual(child["requested_bytes"], 64)

    def test_frames(self):
        functions = {tuple(f["function"] for f in s["frames"]): s for s in report()["processes"][0]["sites"]}
        self.assertIn(("xmalloc", "row_append", "table_read", "load_table", "main"), functions)
        self.assertIn(("cache_get", "worker"), functions)  # two addresses, one site
        self.assertIn(("libgone.so+0x7f0", "main"), functions)
        self.assertIn(("0x7f00deadbeef", "[stack not unwound further]"), functions)
        self.assertIn(("caf\ufffd \"quoted\"\n", "main"), functions)
        inlined = functions[("xmalloc", "row_append", "table_read", "load_table", "main")]["frames"]
        self.assertEqual([f["inlined"] for f in inlined], [False, True, False, False, False])

    def test_order_and_number_of_sites(self):
        for by, key in enumerate(("peak_bytes", "end_live_bytes", "allocated_bytes", "temporary", "calls")):
            values = [s[key] for s in report(f"by={by}")["processes"][0]["sites"]]
            self.assertEqual(values, sorted(values, reverse=True))
        two = report("top=2")["processes"][0]
        self.assertEqual((len(two["sites"]), two["sites_total"]), (2, 6))

    def test_failure_in_the_middle(self):
        done = subprocess.run([SAMPLE, "json", "fail=3"], capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"the sample ends in the middle", done.stderr)
        self.assertEqual(json.loads(done.stdout)["error"], "the sample ends in the middle")


class Sizes(unittest.TestCase):
    """Sizes and addresses that no process has, but a file may say: the sample ends at undefined arithmetic."""
    MOST, MORE = (1 << 63) - 1, 1 << 63  # the largest that has a sign, and one more

    def parts_add_up(self, *arguments):
        """Modulo 2^64, of the split and of each measured moment. Returns the process."""
        self.assertIn(b"Resident against live", run("text", *arguments))
        p = report("heap=1", *arguments)["processes"][0]
        at = p["resident_at_peak"]
        parts = ("rounding_bytes", "heap_and_arenas_free_bytes", "other_mappings_bytes", "allocator_and_mappings_bytes",
                 "stacks_bytes", "files_bytes", "shared_bytes", "other_bytes")
        self.assertEqual((sum(at.get(part, 0) for part in parts) - at["resident_bytes"] + at["live_bytes"]) % (1 << 64), 0)
        for e in (e for e in p["explained"] if e["measured_ns"] is not None):
            self.assertEqual((sum(part["bytes"] for part in e["parts"]) - e["rss_bytes"]) % (1 << 64), 0)
        return p

    def test_a_kind_of_mapping(self):
        block = "block=1:0x700000000000:200000"  # with a mapping of its own
        for field in ("heap", "arenas", "anonymous", "stacks", "files", "recorder", "lazy"):
            for size in (self.MOST, self.MORE, 2 * self.MORE - 1):
                for allocator in ("glibc 2.36", "jemalloc"):
                    with self.subTest(field=field, size=size, allocator=allocator):
                        self.parts_add_up(f"split={field}:{size}", f"allocator={allocator}", block)

    def test_huge_pages(self):
        """A table that is live, and touched in one byte of each two megabytes: resident by its huge pages alone."""
        size, huge = 400 << 20, 398 << 20
        block = f"block=1:0x700000000000:{size}"
        for pages, most in ((huge, huge - huge // 512), (0, None)):
            with self.subTest(pages=pages):
                split = (f"split=anonymous:{size}", f"split=huge:{pages}")
                e = self.parts_add_up(block, *split)["explained"][0]
                self.assertEqual(e["huge_bytes"], pages)
                self.assertEqual([a["saves_at_most_bytes"] for a in e["advice"] if a["setting"] == "thp"], [most] if pages else [])
                text = run("text", block, *split)
                self.assertEqual(b"in huge pages, which are resident as a whole" in text, bool(pages))
                self.assertNotIn(b"no setting makes", text)

    def test_hugetlb_pages(self):
        """They are in no resident size of the kernel, and in the one that is explained."""
        for pages in (40 << 20, 0):
            with self.subTest(pages=pages):
                split = (f"split=heap:{41 << 20}", f"split=hugetlb:{pages}")
                e = self.parts_add_up("block=1:0x700000000000:2000", *split)["explained"][0]
                self.assertEqual(e["hugetlb_bytes"], pages)
                text = run("text", "block=1:0x700000000000:2000", *split).decode()
                self.assertEqual("40.0 MB  of it in HugetlbPages, which the kernel does not count as resident" in text, bool(pages))
                self.assertEqual("up to 40.0 MB in HugetlbPages" in " ".join(text.split()), bool(pages))

    def test_forked_pages(self):
        """They are in the resident size of each process. A recording of before did not say."""
        block = "block=1:0x700000000000:2000"
        for forked, share in ((100 << 20, 30 << 20), (0, 41 << 20), (0, 0)):
            with self.subTest(forked=forked, share=share):
                split = (f"split=heap:{101 << 20}", f"split=forked:{forked}", f"split=proportional:{share}")
                e = self.parts_add_up(block, *split)["explained"][0]
                self.assertEqual((e["forked_bytes"], e["proportional_bytes"]), (forked, share) if share else (None, None))
                text = " ".join(run("text", block, *split).decode().split())
                self.assertEqual("100.0 MB of it in pages that other processes have as well, since a fork: each counts them 30.0 MB "
                                 "with each shared page divided among the processes that have it" in text, bool(forked))
                self.assertEqual("up to 100.0 MB of it shared with other processes since a fork" in text, bool(forked))

    def test_an_unknown_version(self):
        """Nothing is assumed of it, and that is said."""
        for allocator, unknown in (("glibc 2.25", True), ("glibc 2.26", False), ("glibc 2.43", False), ("glibc 2.99", True),
                                   ("jemalloc", False)):
            with self.subTest(allocator=allocator):
                arguments = (f"allocator={allocator}", "split=heap:1000000")
                self.assertEqual(b"mallow does not know" in run("text", *arguments), unknown)
                explained = report(*arguments)["processes"][0]["explained"]
                self.assertEqual({e.get("unknown_version", False) for e in explained}, {unknown})

    def test_their_sums(self):
        self.parts_add_up(f"split=heap:{self.MOST}", f"split=arenas:{self.MOST}")
        for other in ("arenas", "anonymous"):
            self.parts_add_up("allocator=jemalloc", f"split=heap:{self.MOST}", f"split={other}:{self.MOST}")

    def test_blocks(self):
        for path in range(4):  # where they lie: the model's sums are by that
            with self.subTest(path=path):
                self.parts_add_up(*(f"block={path}:{0x50000000 + i * 4096}:{self.MOST}" for i in range(3)))
        self.parts_add_up(*(f"block={path}:{0x50000000 + path * 4096}:{self.MOST}" for path in range(4)))

    def test_their_rounding(self):
        """What was asked for is the largest number that has a sign, what the allocator gave is more."""
        small = self.parts_add_up("block=0:0x50000000:16")["resident_at_peak"]
        large = self.parts_add_up(f"block=0:0x50000000:{self.MOST - small['live_bytes'] + 16}")["resident_at_peak"]
        self.assertEqual(large["live_bytes"], self.MOST)
        self.assertGreater(large["rounding_bytes"], 0)

    def test_the_least_there_can_be(self):
        """What is free is the least number that has a sign, before and after headers are taken off; it is printed."""
        for field, heap in (("heap", "main"), ("arenas", "arenas")):
            used = -self.parts_add_up(f"split={field}:0")["heap_at_peak"][heap]["free_bytes"]
            self.assertGreater(used, 0)
            free = self.parts_add_up(f"split={field}:{self.MORE + used}")["heap_at_peak"][heap]
            self.assertEqual(free["free_bytes"], -self.MORE)
            self.assertGreater(free["header_bytes"], 0)
        self.assertIn("-8.0 EB  stacks", run("text", f"split=stacks:{self.MORE}").decode())
        e = self.parts_add_up("split=recorder:0", f"split=stacks:{self.MORE}")["explained"][0]
        more = e["rss_bytes"] - e["live_bytes"] - self.MORE
        said = run("text", "split=recorder:0", f"split=stacks:{self.MORE - more}").decode()
        self.assertIn("without the recorder's own 8.0 EB below live", said)

    def test_addresses(self):
        """So far apart that the pages between are more than a number with a sign can count."""
        for path, field in ((0, "heap"), (2, "arenas")):
            self.parts_add_up(f"block={path}:{self.MORE}:16", f"block={path}:65536:16", f"split={field}:{self.MOST}")
            self.parts_add_up(f"block={path}:{2 * self.MORE - 4096}:16", f"block={path}:65536:16")


class Filters(unittest.TestCase):
    def one(self, *arguments):
        document = report(*arguments)
        self.assertEqual(disagreements(document), [])
        return document["processes"][0]

    def test_pid(self):
        document = report("pid=101")
        self.assertEqual([p["pid"] for p in document["processes"]], [101])
        self.assertEqual(document["filter"], {"pid": 101})
        for what in ("text", "json", "dump"):
            done = subprocess.run([SAMPLE, what, "pid=7"], capture_output=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (1, b"", b"no process 7 in this recording; it has 100, 101, 104\n"))

    def test_size(self):
        whole, small, large = self.one(), self.one("below_bytes=300"), self.one("min_bytes=300")
        for key in ("requested_bytes", "allocations", "end_live_bytes", "temporary_allocations"):
            self.assertEqual(small[key] + large[key], whole[key], key)
        self.assertLess(max(h["min_bytes"] for h in small["size_histogram"]), 300)

    def test_thread(self):
        whole = self.one()
        parts = [self.one("thread=100"), self.one("thread=worker-1"), self.one("thread=/-2$/")]
        for key in ("requested_bytes", "allocations", "end_live_bytes", "events"):
            self.assertEqual(sum(p[key] for p in parts), whole[key], key)
        self.assertEqual(self.one("thread=nobody")["events"], 0)

    def test_function_and_module(self):
        sites = self.one()["sites"]
        for arguments, key, match in ((["function=load_*"], "function", "load_table"),
                                      (["function=/vector.*back/"], "function",
                                       "std::vector<int>::push_back(int&&)"),
                                      (["function=cache_get"], "function", "cache_get"),
                                      (["module=libgone*"], "module", "libgone.so")):
            with self.subTest(arguments):
                expected = [s for s in sites if any(f[key] == match for f in s["frames"])]
                p = self.one(*arguments)
                self.assertTrue(expected)
                self.assertEqual({json.dumps(s["frames"]) for s in p["sites"]},
                                 {json.dumps(s["frames"]) for s in expected})
                self.assertEqual(p["allocations"], sum(s["calls"] for s in expected))
        # without parameters, and shortened, too
        self.assertEqual(self.one("function=std::vector<int>::push_back")["allocations"],
                         self.one("function=/push_back/")["allocations"])
        self.assertEqual(self.one("function=std::vector<int, std::allocator<int> >::push_back")["allocations"],
                         self.one("function=/push_back/")["allocations"])
        self.assertEqual(self.one("function=load")["allocations"], 0)  # the whole name

    def test_time(self):
        whole = self.one()
        first, second = self.one("to_ns=3000000"), self.one("from_ns=3000000")
        for key in ("requested_bytes", "allocations", "events", "temporary_allocations"):
            self.assertEqual(first[key] + second[key], whole[key], key)
        self.assertEqual(second["inherited_bytes"], first["end_live_bytes"])
        self.assertEqual(second["end_live_bytes"], whole["end_live_bytes"])
        new = self.one("from_ns=3000000", "only_new=1")
        self.assertEqual((new["inherited_blocks"], new["allocations"]), (0, second["allocations"]))
        self.assertLess(new["end_live_bytes"], second["end_live_bytes"])

    def test_rate_is_of_the_range(self):
        """Calls a second of the time that is looked at, not of the whole run (9 ms)."""
        text = run("text", "from_ns=3000000", "to_ns=5000001").decode()
        calls, rate = re.search(r"^Allocated .* by ([\d,]+) calls, .* ([\d,]+) a second", text, re.M).groups()
        self.assertAlmostEqual(int(rate.replace(",", "")), int(calls.replace(",", "")) * 1e9 / 2e6, delta=1)
        self.assertNotIn("bytes a call", text)  # of the file, which has the rest as well

    def test_source_file(self):
        def has(site):
            return any((f["file"] or "").endswith("table.c") for f in site["frames"])
        sites = self.one()["sites"]
        expected = [s for s in sites if has(s)]
        self.assertTrue(0 < len(expected) < len(sites))
        for pattern in ("/src/table.c", "*table.c", "/table[.]c$/"):
            p = self.one("source=" + pattern)
            self.assertEqual(p["allocations"], sum(s["calls"] for s in expected), pattern)
        self.assertEqual(self.one("source=nowhere.c")["allocations"], 0)
        self.assertEqual(report("source=*table.c")["filter"]["source_file"], "*table.c")
        self.assertIn("source file *table.c", run("text", "source=*table.c").decode())

    def test_min_lifetime(self):
        whole, old = self.one(), self.one("min_lifetime_ns=100000")
        lived = sum(h["blocks"] for h in whole["lifetime_histogram"] if h["min_ns"] >= 100000)
        self.assertLessEqual(lived, old["allocations"])
        self.assertLess(old["allocations"], whole["allocations"])
        self.assertEqual(old["temporary_allocations"], 0)

    def test_bad_patterns(self):
        done = subprocess.run([SAMPLE, "json", "function=/(/"], capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--function: '/(/' is not an extended regular expression", done.stderr)


class Suppressions(unittest.TestCase):
    def with_file(self, text, *arguments, what="json", status=0):
        with tempfile.NamedTemporaryFile("w", suffix=".supp") as f:
            f.write(text)
            f.flush()
            done = subprocess.run([SAMPLE, what, f"suppressions={f.name}", *arguments], capture_output=True,
                                  env=ENVIRONMENT)
            self.assertEqual(done.returncode, status, done.stderr)
            return done

    def suppressed(self, pattern):
        document = json.loads(self.with_file(f"leak:{pattern}\n").stdout)
        self.assertEqual(disagreements(document), [])
        return {f["function"] for s in document["processes"][0]["sites"] if s["suppressed"] for f in s["frames"][:1]}

    def test_matching(self):
        self.assertEqual(self.suppressed("cache"), {"cache_get"})
        self.assertEqual(self.suppressed("^cache_get$"), {"cache_get"})
        self.assertEqual(self.suppressed("^ache"), set())
        self.assertEqual(self.suppressed("cach$"), set())
        self.assertEqual(self.suppressed("c*_g*t$"), {"cache_get"})
        self.assertEqual(self.suppressed("libcache.so"), {"cache_get"})  # the module
        self.assertEqual(self.suppressed("table.c"), {"xmalloc"})  # the file, of an outer frame
        self.assertEqual(len(self.suppressed("*")), 5)

    def test_whole_stacks(self):
        """stack: hides exactly this stack, not another that begins alike."""
        everything = json.loads(self.with_file("leak:nothing\n").stdout)["processes"][0]["sites"]
        everything = [s for s in everything if "\ufffd" not in str(s["frames"])]  # not UTF-8: not what the file has
        self.assertGreaterEqual(len(everything), 3)
        for site in everything:
            names = [f["function"] for f in site["frames"]]
            written = [re.sub(r"[\0-\x1f]", "?", name) for name in names]
            text = "stack:" + ";".join(written) + "\n"
            sites = json.loads(self.with_file(text).stdout)["processes"][0]["sites"]
            self.assertEqual([[f["function"] for f in s["frames"]] for s in sites if s["suppressed"]],
                             [names] if site["end_live_blocks"] else [])
            for other in ("stack:" + ";".join(written[:-1]), "stack:" + ";".join(written) + ";x"):
                sites = json.loads(self.with_file(other + "\n").stdout)["processes"][0]["sites"]
                self.assertFalse(any(s["suppressed"] for s in sites), other)

    def test_counts(self):
        document = json.loads(self.with_file("# known\n\n  leak:load_table\nleak:nothing like it\n").stdout)
        process = document["processes"][0]
        hidden = [s for s in process["sites"] if s["suppressed"]]
        self.assertEqual(len(hidden), 1)
        self.assertEqual(process["suppressed_end_live_bytes"], hidden[0]["end_live_bytes"])
        self.assertEqual(process["suppressed_end_live_blocks"], hidden[0]["end_live_blocks"])
        self.assertEqual(document["unused_suppressions"], 1)
        self.assertEqual([(s["pattern"], s["line"]) for s in document["suppressions"]],
                         [("load_table", 3), ("nothing like it", 4)])
        text = self.with_file("leak:load_table\nleak:nothing like it\n", what="text").stdout.decode()
        at_end = text[text.index("Still live at the end"):text.index("Allocated in all")]
        self.assertNotIn("load_table", at_end)
        self.assertIn("1 of 2 suppressions matched nothing", at_end)
        self.assertIn("load_table", text[:text.index("Still live at the end")])  # the peak shows it

    def test_bad_lines(self):
        for text, said in (("leak:a\nrace:b\n", ":2: 'race:b' is not a suppression"),
                           ("leak:\n", ":1: no pattern behind leak:"), ("leak:a\n\nb\n", ":3: ")):
            error = self.with_file(text, status=1).stderr.decode()
            self.assertIn(said, error)
        done = subprocess.run([SAMPLE, "text", "suppressions=/nonexistent"], capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No such file", done.stderr)


class Dump(unittest.TestCase):
    def test_every_event_in_order(self):
        lines = [json.loads(line) for line in run("dump-json").decode().splitlines()]
        times = [line["time_ns"] for line in lines]
        self.assertEqual(times, sorted(times))
        calls = [line for line in lines if "call" in line and line.get("half") != "old"]
        inherited = 2
        self.assertEqual(len(calls) - inherited, report()["events"])
        kinds = [line["kind"] for line in lines if "call" not in line]
        self.assertEqual(kinds.count("process-start"), 3)
        self.assertEqual(kinds.count("process-end"), 3)
        for kind in ("thread-start", "thread-end", "mark", "pause", "unpause"):
            self.assertIn(kind, kinds)
        self.assertEqual([line["text"] for line in lines if line["kind"] == "mark"], ['phase "two"'])
        self.assertEqual({line["pid"] for line in lines}, {100, 101, 104})
        text = run("dump").decode().splitlines()
        self.assertEqual(len(text), len(lines))

    def test_filters(self):
        lines = [json.loads(line) for line in run("dump-json", "function=cache_get", "min_bytes=100",
                                                  "below_bytes=200", "names=1").decode().splitlines()]
        self.assertTrue(lines)
        for line in lines:
            self.assertEqual(line["frames"][0], "cache_get")
            self.assertTrue(100 <= line["size_bytes"] < 200)

    def test_failure_in_the_middle(self):
        done = subprocess.run([SAMPLE, "dump", "fail=3"], capture_output=True)
        self.assertEqual(done.returncode, 1)
        whole = run("dump")  # what was read before is there
        self.assertTrue(0 < len(done.stdout) < len(whole) and whole.startswith(done.stdout))
        self.assertIn(b"the sample ends in the middle", done.stderr)

    def test_closed_pipe(self):
        # without a buffer: that of newer Pythons takes all there is
        with subprocess.Popen([SAMPLE, "dump"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as p:
            p.stdout.read(10)
            p.stdout.close()
            p.stderr.read()
            self.assertNotEqual(p.wait(timeout=600), 0)
