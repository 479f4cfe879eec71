"""`mallow probe` on the command line: mistakes, and what an ordinary user is told. Needs no root."""
import json
import os
import re
import subprocess
import unittest

from mallowtest import MALLOW, ROOT
from probing import for_others, mallow, why_not


class Usage(unittest.TestCase):
    def wrong(self, *arguments):
        out = mallow("probe", *arguments)
        self.assertEqual((out.returncode, out.stdout), (2, ""), out.stderr)
        self.assertEqual(out.stderr.count("\n"), 1, out.stderr)
        return out.stderr

    def kinds(self):
        return self.wrong("frobnicate").split("; one of ")[1].strip().split(", ")

    def test_kinds_are_the_same_everywhere(self):
        kinds = self.kinds()
        listed = mallow("probe", "--help").stdout.split("KIND is\n\n")[1].split("\n\n")[0]
        self.assertEqual([line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)], kinds)
        with open(os.path.join(ROOT, "docs", "man", "mallow-probe.1"), encoding="utf-8") as f:
            section = re.search(r"^\.SH KINDS\n(.*?)(?=^\.SH )", f.read(), re.S | re.M).group(1)
        self.assertEqual(re.findall(r"^\.TP\n\.B (\w+)$", section, re.M), kinds)

    def test_targets(self):
        for kind in self.kinds():
            self.assertIn("no target given; use -p PID, -a", self.wrong(kind))
            self.assertIn("too many targets", self.wrong(kind, "-a", "-p", str(os.getpid())))
            self.assertIn("too many targets", self.wrong(kind, "-a", "--", "/bin/true"))

    def test_keys(self):
        self.assertIn("'weather' is not one of process", self.wrong("sizes", "--by", "process,weather", "/bin/true"))
        self.assertIn("does not apply to", self.wrong("sizes", "--by", "cache", "/bin/true"))

    def test_order(self):
        self.assertIn("--order: 'majr' is not one of minor, major", self.wrong("faults", "--order", "majr", "/bin/true"))
        self.assertIn("--order does not apply to 'arenas'", self.wrong("arenas", "--order", "calls", "/bin/true"))

    def test_conditions(self):
        for where, message in [("weather==1", "'weather' is not one of pid, ppid, uid, comm, tid, cpu, address, access, mapping, "
                                              "minor, major, which 'faults' knows"),
                               ("minor>1 major", "&& or || is missing at 'major'"), ("(minor", "a ) is missing at the end"),
                               ("minor &&", "a field is missing at the end"), ("minor>", "a value is missing at the end"),
                               ("comm", 'comm needs a comparison: comm == "..."'), ("comm<'x'", "comm is a text"),
                               ("minor~'x'", "minor is not a text"), ("comm=='x", "the quote of 'x is not closed"),
                               ("mapping~'a*b'", "'a*b': a pattern may end with *"), ("minor>9x", "'9x' is not a number, for minor"),
                               ("access=='weather'", '"weather" is not one of "kernel access"'),
                               ("||".join(["minor"] * 17), "at most 16 comparisons fit"), ("(" * 40 + "minor", "the parentheses are too deep"),
                               ("comm=='" + "x" * 64 + "'", "a value is too long"), ("minor==99999999999999999999", "'99999999999999999999' is not a number")]:
            with self.subTest(where):
                self.assertIn(f"--where: {message}", self.wrong("faults", "--where", where, "/bin/true"))
        self.assertIn("'bytes' is not one of pid, ppid, uid, comm, which 'rss' knows", self.wrong("rss", "--where", "bytes>1", "/bin/true"))
        self.assertIn("'tid' is not one of pid, ppid, uid, comm, which 'arenas'", self.wrong("arenas", "--where", "tid==1", "/bin/true"))
        self.assertIn("'function' is not one of", self.wrong("sizes", "--where", "function=='malloc'", "/bin/true"))

    def test_histograms(self):
        self.assertIn("--hist: 'calls' is not one of grown_bytes, released_bytes", self.wrong("brk", "--hist", "calls", "/bin/true"))
        self.assertIn("--hist does not apply to 'faults'", self.wrong("faults", "--hist", "minor", "/bin/true"))

    def test_list(self):
        out = mallow("probe", "calls", "--list", "--", "/bin/true")
        self.assertEqual((out.returncode, out.stderr), (0, ""))
        self.assertLessEqual({"malloc", "free", "realloc", "calloc", "posix_memalign"}, set(out.stdout.split()))
        self.assertNotIn("printf", out.stdout.split())
        document = json.loads(mallow("probe", "calls", "--list", "--json", "--lib", "libc.so.6", "--function",
                                     "*printf").stdout)
        self.assertIn("libc.so.6", document["library"])
        names = [f["function"] for f in document["functions"]]
        self.assertIn("printf", names)
        self.assertTrue(all(n.endswith("printf") for n in names), names)
        offsets = [f["offset"] for f in document["functions"]]
        self.assertEqual(offsets, sorted(offsets))
        self.assertGreater(offsets[0], 0)
        self.assertIn("--list does not apply to 'brk'", self.wrong("brk", "--list", "/bin/true"))
        self.assertIn("none of the functions", self.wrong("calls", "--list", "--function", "no_such_thing", "/bin/true"))

    def test_a_name_is_for_all_processes(self):
        self.assertIn("--comm", self.wrong("faults", "--comm", "true", "/bin/true"))
        self.assertIn("is empty", self.wrong("faults", "-a", "--comm", ""))
        self.assertIn("--frames", self.wrong("faults", "-a", "--frames", "65"))

    def test_options_before_and_behind_the_kind(self):
        self.assertIn("exclude each other", self.wrong("--json", "sizes", "--folded", "/bin/true"))
        self.assertIn("--no-such", self.wrong("sizes", "--no-such", "/bin/true"))

    def test_a_process_that_is_not_there(self):
        out = mallow("probe", "sizes", "-p", "2147483646")
        self.assertEqual((out.returncode, out.stderr), (1, "mallow probe: there is no process 2147483646\n"))

    def test_a_program_that_is_not_there(self):
        self.assertEqual(mallow("probe", "sizes", "--", "/no/such/program").returncode, 127)
        self.assertEqual(mallow("probe", "sizes", "--", "/etc/passwd").returncode, 126)

    def test_recording_from_outside(self):
        for words in [["-p", "1", "/bin/true"], ["-p", "1", "--paused"], ["-p", "1", "--with", "rss"], ["-p", "1", "--env"],
                      ["-p", "x"], ["-p", "0"], ["-d", "1s", "/bin/true"]]:
            out = mallow("record", *words)
            self.assertEqual((out.returncode, out.stdout, out.stderr.count("\n")), (2, "", 1), out.stderr)

    def test_events_beside_a_recording(self):
        def refused(kinds):
            out = mallow("record", "--with", kinds, "--", "/bin/true")
            self.assertEqual((out.returncode, out.stdout, out.stderr.count("\n")), (2, "", 1), out.stderr)
            return out.stderr

        for kinds in ["weather", "faults,weather", ",", "f" * 500]:
            self.assertIn("arenas, faults, swapin, reclaim, rss", refused(kinds))
        self.assertIn("arenas, faults, swapin, reclaim, rss", " ".join(mallow("record", "--help").stdout.split()))
        # Every kind of probe is recorded, or says why it is not.
        taken = {"faults", "rss", "arenas", "swapin", "reclaim"}
        for kind in set(self.kinds()) - taken:
            self.assertIn(f"--with {kind} is not supported: ", refused(kind))
            refused(f"rss,{kind}")

    def test_an_ordinary_user_is_told_what_is_missing(self):
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if not nobody and not why_not():
            self.skipTest("SKIPPED, LOUDLY: this user may load programs")
        for_others(self)
        for kind in self.kinds():
            out = mallow("probe", kind, "--", "/bin/true", **nobody)
            if kind == "arenas":  # has a source that needs no rights; not for a process that runs already
                self.assertEqual((out.returncode, out.stderr.count("\n")), (0, 1), out.stderr)
                out = mallow("probe", kind, "-p", str(os.getpid()), **nobody)
                self.assertEqual((out.returncode, out.stdout, out.stderr.count("\n")), (1, "", 1), out.stderr)
                self.assertRegex(out.stderr, "CAP_BPF and CAP_PERFMON; to fix it: .*sudo|type")
                continue
            self.assertEqual((out.returncode, out.stdout), (125, ""), out.stderr)
            self.assertEqual(out.stderr.count("\n"), 1, out.stderr)
            self.assertRegex(out.stderr, "CAP_BPF and CAP_PERFMON; to fix it: .*sudo|type")
        out = mallow("record", "--with", "rss", "-o", "/tmp/mallow-test-%p", "--", "/bin/true", **nobody)
        self.assertEqual((out.returncode, out.stdout, out.stderr.count("\n")), (125, "", 1), out.stderr)
        self.assertRegex(out.stderr, "--with rss: .*(CAP_BPF and CAP_PERFMON; to fix it: .*sudo|type)")
        checks = {c["name"]: c for c in json.loads(mallow("doctor", "--json", **nobody).stdout)["checks"]}
        self.assertEqual(checks["probe-rights"]["status"], "missing")
        self.assertIn("sudo", checks["probe-rights"]["remedy"])

    def test_pid_namespace(self):
        """As in a container: process ids are not those of the kernel, and nothing would be found."""
        apart = ["unshare", "-p", "-f", "--mount-proc"]
        if why_not() or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
            self.skipTest("SKIPPED, LOUDLY: no probes, or no pid namespace, can be had here")
        for kind in ("sizes", "brk", "faults"):
            out = subprocess.run([*apart, MALLOW, "probe", kind, "--", "/bin/true"], capture_output=True, text=True, check=False)
            self.assertEqual((out.returncode, out.stdout), (125, ""), out.stderr)
            self.assertIn("docker run --pid=host", out.stderr)
        out = subprocess.run([*apart, MALLOW, "doctor", "--json"], capture_output=True, text=True, check=False)
        checks = {c["name"]: c for c in json.loads(out.stdout)["checks"]}
        self.assertEqual(checks["probe-rights"]["status"], "missing")
        self.assertIn("docker run --pid=host", checks["probe-rights"]["remedy"])
