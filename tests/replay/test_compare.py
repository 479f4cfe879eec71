"""Comparisons: what is printed, baselines, and the gate. Nothing here depends on how fast the machine is:
baselines are edited so that the answer is known."""
import json
import os
import subprocess
import unittest

from mallowtest import MALLOW, mallow, path, program

RING, HEAP = program("workload/ring"), program("workload/heap")


class Compares(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        trace = path("ring.mlw")
        cls.workload = path("ring.mwl")
        cls.one_thread = path("heap.mwl")
        for workload, program in (cls.workload, (RING, "500")), (cls.one_thread, (HEAP, "0", "20000")):
            subprocess.run([MALLOW, "record", "-q", "-o", trace, "--", *program], check=True, capture_output=True,
                           timeout=600)
            mallow("workload", "-q", "-o", workload, trace)

    def test_json(self):
        out = json.loads(mallow("compare", "--json", "--repeat", "3", "--alloc", "glibc", "--alloc",
                                "glibc+M_ARENA_MAX=1+glibc.malloc.tcache_count=0", self.workload).stdout)
        self.assertEqual(out["schema"], 1)
        self.assertEqual(len(out["runs"]), 6)
        self.assertEqual([r["settings"] for r in out["runs"][:2]],
                         [{}, {"M_ARENA_MAX": "1", "glibc.malloc.tcache_count": "0"}])
        self.assertEqual(len({r["operations"] for r in out["runs"]}), 1)
        first, second = out["candidates"]
        self.assertNotIn("ratio", first["cpu_ns"])
        r = second["peak_rss_bytes"]
        self.assertTrue(r["ratio_low"] <= r["ratio"] <= r["ratio_high"])
        values = [run["peak_rss_bytes"] for run in out["runs"] if run["settings"]]
        self.assertEqual(r["median"], sorted(values)[1])

    def test_an_allocator_and_itself(self):
        """The same requests in the same process image: the growth of one thread's heap is the same. The
        interval is one of 99 %, so a single comparison may well find a difference; four in a row do not."""
        def differs():
            out = json.loads(mallow("compare", "--json", "--repeat", "3", "--alloc", "glibc,glibc", "--set",
                                    "M_ARENA_MAX=1", "--order", "recorded", self.workload).stdout)
            return out["candidates"][1]["fragmentation"]["differs"]
        self.assertFalse(all(differs() for _ in range(4)))

    def test_text(self):
        out = mallow("compare", "--repeat", "2", "--alloc", "glibc,glibc", self.workload).stdout
        self.assertIn("from the first's", out)
        self.assertIn("Medians of 2 interleaved rounds.\n", out)
        self.assertEqual([line for line in out.splitlines() if line.endswith(" ") or len(line) > 135], [])
        self.assertNotIn("\033", out)

    def test_side_by_side(self):
        """One thread each: all at once, unless the figures are to be kept, or there is one candidate. The first
        round, which tells how many threads there are, is none of those asked for."""
        baseline = path("apart")
        for workload, options, together in ((self.one_thread, ["--alloc", "glibc,glibc"], True),
                                            (self.one_thread, ["--alloc", "glibc,glibc", "--save", baseline], False),
                                            (self.one_thread, ["--alloc", "glibc,glibc", "--pace", "1000"], False),
                                            (self.one_thread, ["--alloc", "glibc"], False),
                                            (self.workload, ["--alloc", "glibc,glibc"], False)):
            out = json.loads(mallow("compare", "--json", "--repeat", "3", *options, workload).stdout)
            self.assertEqual(out["side_by_side"], together, options)
            self.assertEqual((out["rounds"], len(out["runs"])), (3, 3 * len(out["candidates"])))
            self.assertEqual(len({r["operations"] for r in out["runs"]}), 1)
            self.assertTrue(all(r["cycles"] > 0 for r in out["runs"]))
        out = mallow("compare", "--repeat", "2", "--alloc", "glibc,glibc", self.one_thread).stdout
        self.assertIn("side by side on one processor", out)

    def rounds(self, *options):
        out = json.loads(mallow("compare", "--json", "--alloc", "glibc,glibc", *options, self.workload).stdout)
        self.assertEqual(len(out["runs"]), 2 * out["rounds"])
        self.assertEqual([r["round"] for r in out["runs"]], [i // 2 for i in range(len(out["runs"]))])
        return out

    def test_rounds_until_precise(self):
        out = self.rounds("--precision", "100000%")
        self.assertEqual((out["rounds"], out["precise"]), (10, True))
        out = self.rounds("--precision", "0", "--max-repeat", "13")
        self.assertEqual((out["rounds"], out["precise"]), (13, False))
        self.assertGreater(out["reach"], 0)
        out = self.rounds("--precision", "0", "--repeat", "9")
        self.assertEqual((out["rounds"], out["precise"]), (9, False))
        self.assertIn("known to", mallow("compare", "--repeat", "3", "--precision", "0", "--alloc", "glibc,glibc",
                                         self.workload).stdout)

    def test_corpus(self):
        out = json.loads(mallow("compare", "--corpus", "--json", "--repeat", "2", "--alloc", "glibc,glibc").stdout)
        names = [w["workload"] for w in out["corpus"]]
        self.assertEqual(names, sorted(names))
        self.assertTrue({"cc1", "git", "perl", "python", "redis", "sqlite"} <= set(names))
        for w in out["corpus"]:
            self.assertEqual({r["unexpected_results"] for r in w["runs"]}, {0})
        self.assertEqual([g["candidate"] for g in out["geometric_means"]], ["glibc"])
        mean = out["geometric_means"][0]["peak_rss_bytes"]
        self.assertTrue(mean["ratio_low"] <= mean["ratio"] <= mean["ratio_high"])
        self.assertTrue(0.8 < mean["ratio"] < 1.25, mean)
        self.check_shards(out)
        self.assertIn("either", mallow("compare", "--corpus", self.workload, status=2).stderr)
        self.assertIn("no workload given", mallow("compare", status=2).stderr)

    def shard_files(self, whole, n):
        """What n machines would have printed, had they measured just this."""
        files = []
        for k in range(n):
            part = dict(whole, shard=f"{k + 1}/{n}", corpus=whole["corpus"][k::n])
            files.append(path(f"shard-{k}.json"))
            with open(files[-1], "w", encoding="utf-8") as f:
                json.dump(part, f)
        return files

    def check_shards(self, whole):
        """Merged, shards are the whole: every figure, in any order of the files."""
        files = self.shard_files(whole, 3)
        merged = json.loads(mallow("compare", "--merge", "--json", *reversed(files)).stdout)
        self.assertEqual(merged, whole)
        self.assertIn("geometric mean", mallow("compare", "--merge", *files).stdout)
        self.assertIn("No such file", mallow("compare", "--merge", files[0] + ".gone", status=1).stderr)
        for wrong, why in ((files[:2], "shard 3 of 3 is missing"), (files + files[:1], "occurs twice"),
                           ([files[0], self.workload], "is not JSON"), ([], "takes the FILEs")):
            self.assertIn(why, mallow("compare", "--merge", *wrong, status=2).stderr)
        with open(files[1], encoding="utf-8") as f:
            document = json.load(f)
        for spoil, why in ((lambda d: d["corpus"][0]["runs"].pop(), "incomplete"),
                           (lambda d: d["corpus"][0]["runs"].reverse(), "order"),
                           (lambda d: d["corpus"][0]["candidates"].pop(), "different allocators"),
                           (lambda d: d["corpus"][0].update(workload=whole["corpus"][0]["workload"]), "occurs twice"),
                           (lambda d: d.update(shard="0/3"), "it is not a result"), (lambda d: d.update(shard="2/4"), "one of 4 shards"),
                           (lambda d: d.update(corpus=[1, None, {}]), "without a workload")):
            bad = json.loads(json.dumps(document))
            for c in bad["corpus"]:
                for r, run in enumerate(c["runs"]):
                    run["candidate"] = c["candidates"][r % 2]["candidate"] = f"glibc{r % 2}"
            spoil(bad)
            one = json.loads(json.dumps(whole))
            for c in one["corpus"]:
                for r, run in enumerate(c["runs"]):
                    run["candidate"] = c["candidates"][r % 2]["candidate"] = f"glibc{r % 2}"
            others = self.shard_files(one, 3)
            with open(others[1], "w", encoding="utf-8") as f:
                json.dump(bad, f)
            said = mallow("compare", "--merge", *others, status=2).stderr
            self.assertIn(why, said)
            if why != "occurs twice":  # which is seen in the later of the two
                self.assertIn(others[1] + ": ", said)

    def test_a_shard(self):
        out = json.loads(mallow("compare", "--corpus", "--shard", "2/8", "--json", "--repeat", "2", "--alloc", "glibc").stdout)
        self.assertEqual(out["shard"], "2/8")
        self.assertTrue(0 < len(out["corpus"]) < 4)
        for text in ("0/2", "3/2", "2", "1/", "/2", "a/b", "1/2x", "-1/2", "1/99999"):
            self.assertIn("not a shard", mallow("compare", "--corpus", f"--shard={text}", status=2).stderr)
        self.assertIn("has no workload", mallow("compare", "--corpus", "--shard", "4000/4000", status=2).stderr)
        self.assertIn("needs --corpus", mallow("compare", "--shard", "1/2", self.workload, status=2).stderr)

    def test_corpus_against_a_baseline(self):
        file = path("corpus.json")
        mallow("compare", "--corpus", "--repeat", "2", "--alloc", "glibc", "--save", file)
        out = mallow("compare", "--corpus", "--repeat", "2", "--alloc", "glibc", "--against", file).stdout
        self.assertIn("the baseline's", out)
        self.assertNotIn("geometric mean", out)

    def packed(self, name):
        """The workload as zstd packs it, by way of the corpus: one that is there, cut or changed."""
        corpus = os.path.join(os.path.dirname(MALLOW), "corpus", "git-pack.mwl.zst")
        with open(corpus, "rb") as f:
            return corpus, bytearray(f.read()), path(name)

    def test_packed_is_read(self):
        corpus, _, _ = self.packed("x")
        run = json.loads(mallow("replay", "--json", "--dry-run", corpus).stdout)
        self.assertEqual(run["threads"], 5)
        out = path("pack.wl")
        mallow("workload", "-q", "-o", out, corpus)
        self.assertGreater(os.path.getsize(out), 10000)
        mallow("tune", "--runs", "12", corpus)

    def test_packed_and_damaged(self):
        _, data, path = self.packed("damaged.mwl.zst")
        def complaint(content):
            with open(path, "wb") as f:
                f.write(content)
            for command in (["replay"], ["compare", "--alloc", "glibc"], ["tune"]):
                error = mallow(*command, path, status=1).stderr
            return error
        self.assertIn("cut off", complaint(data[:-1000]))
        broken = bytearray(data)
        for i in range(len(data) // 2, len(data) // 2 + 40):
            broken[i] ^= 0x55
        self.assertIn("damaged", complaint(broken))
        self.assertIn("workload", complaint(data[:4]))

    def test_average_is_between(self):
        for run in self.rounds("--repeat", "2")["runs"]:
            low, high = (f(p["rss_bytes"] for p in run["timeline"]) for f in (min, max))
            average = run.get("average_rss_bytes", high)
            self.assertTrue(low <= average <= high)

    def test_baselines_of_something_else(self):
        file = path("other.json")
        mallow("compare", "--repeat", "2", "--alloc", "glibc", "--save", file, self.workload)
        again = ["compare", "--repeat", "2", "--alloc", "glibc", "--against", file, self.workload]
        mallow(*again)
        self.assertIn("another --touch", mallow(*again, "--touch", "none", status=2).stderr)
        with open(file, encoding="utf-8") as f:
            document = json.load(f)
        for run in document["runs"]:
            run["operations"] += 1
        with open(file, "w", encoding="utf-8") as f:
            json.dump(document, f)
        self.assertIn("another workload", mallow(*again, status=2).stderr)

    def edited(self, name, rss_factor):
        """A baseline in which time is no trouble and peaks were rss_factor times what they are."""
        home = path("data")
        mallow("compare", "--repeat", "4", "--alloc", "glibc", "--save", name, self.workload, env={"XDG_DATA_HOME": home})
        file = os.path.join(home, "mallow", "baselines", name + ".json")
        with open(file, encoding="utf-8") as f:
            document = json.load(f)
        for run in document["runs"]:
            run["user_ns"] *= 1000
            run["system_ns"] += 10**12
            run["peak_rss_bytes"] = int(run["peak_rss_bytes"] * rss_factor)
        with open(file, "w", encoding="utf-8") as f:
            json.dump(document, f)
        return home

    def gate(self, name, factor, status):
        home = self.edited(name, factor)
        return mallow("compare", "--repeat", "4", "--alloc", "glibc", "--against", name, "--fail-above", "50%",
                      self.workload, status=status, env={"XDG_DATA_HOME": home})

    def test_gate_opens(self):
        self.gate("same", 1, 0)

    def test_gate_closes(self):
        self.assertIn("peak RSS is ", self.gate("half", 0.5, 1).stderr)

    def test_gate_that_is_not_known(self):
        home = self.edited("wild", 1)
        file = os.path.join(home, "mallow", "baselines", "wild.json")
        with open(file, encoding="utf-8") as f:
            document = json.load(f)
        for i, run in enumerate(document["runs"]):  # from a tenth to a thousand times as much
            run["peak_rss_bytes"] = int(run["peak_rss_bytes"] * 10 ** (i - 1))
        with open(file, "w", encoding="utf-8") as f:
            json.dump(document, f)
        out = path("junit.xml")
        said = mallow("compare", "--repeat", "4", "--alloc", "glibc", "--against", "wild", "--fail-above", "50%",
                      "--annotate=github", "--junit", out, self.workload, status=3, env={"XDG_DATA_HOME": home}).stderr
        self.assertIn("glibc: peak RSS: not known whether it is worse (between ", said)
        self.assertIn("::error title=mallow compare::glibc: peak RSS", said.replace("%3A", ":"))
        with open(out, encoding="utf-8") as f:
            text = f.read()
        self.assertIn('tests="2" failures="0" errors="1"', text)
        self.assertIn("second --alloc", mallow("compare", "--alloc", "glibc", "--fail-above", "5%", self.workload,
                                               status=2).stderr)

    def test_a_recording(self):
        """It becomes a workload by itself: the same as one made by hand; of several processes one is chosen."""
        trace, mwl = (path(n) for n in ("itself.mlw", "itself.mwl"))
        mallow("record", "-q", "-o", trace, "--", "/bin/sh", "-c", f"{HEAP} 0 100; {RING} 5")
        said = mallow("compare", "--repeat", "2", "--alloc", "glibc", trace, status=2).stderr
        self.assertIn("--pid", said)
        self.assertIn("--pid", mallow("compare", "--pid", "1", self.workload, status=2).stderr)
        pid = next(p["pid"] for p in json.loads(mallow("report", "--json", trace).stdout)["processes"]
                   if p["exe"] == os.path.realpath(HEAP))
        mallow("workload", "-q", "--pid", str(pid), "-o", mwl, trace)
        before = sorted(os.listdir(path()))
        runs = [json.loads(mallow("compare", "--json", "--repeat", "2", "--alloc", "glibc,glibc", *options,
                                  env={"TMPDIR": path()}).stdout)["runs"]
                for options in ((mwl,), ("-p", str(pid), trace))]
        keys = ("threads", "operations", "peak_ideal_rss_bytes")
        self.assertEqual(*[[[r[k] for k in keys] for r in run] for run in runs])
        self.assertEqual(sorted(os.listdir(path())), before)

    def test_messages(self):
        self.assertIn("no baseline", mallow("compare", "--against", "never", self.workload, status=2,
                                            env={"XDG_DATA_HOME": path()}).stderr)
        self.assertIn("percentage", mallow("compare", "--fail-above", "much", self.workload, status=2).stderr)
        self.assertIn("percentage", mallow("compare", "--precision", "much", self.workload, status=2).stderr)
        self.assertIn("unknown allocator", mallow("compare", "--alloc", "a,b", self.workload, status=2).stderr)
        self.assertIn("empty", mallow("compare", "--alloc", "glibc,", self.workload, status=2).stderr)
