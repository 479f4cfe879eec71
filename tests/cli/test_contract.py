"""What scripts rely on: commands, options, exit statuses, variables, and the names, units and types in
the JSON documents. One table each; a line that is taken away here breaks somebody's script."""
import copy
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

from mallowtest import LIBRARY, MALLOW, SANITIZED, VICTIMS
from cli import commands, help_options, mallow


PUSHES = "built without libcurl" not in mallow("doctor").stdout

OPTIONS = {
    "record": "--to -o --stacks --paused --no-follow --with -p",
    "report": "--json --html --by -n --time --pid --at",
    "advise": "--json",
    "dump": "--json",
    "diff": "--json",
    "export": "--format -o",
    "import": "",
    "workload": "-o --pid",
    "replay": "--alloc --order --pace --touch --timing --set --repeat --trim-every --dry-run --json",
    "compare": "--alloc --save --against --fail-above --json",
    "tune": "--json",
    "watch": "-p --period --every --old --guard --on-error --high-water --known --json",
    "probe": "-p -a -d -i -n --by --json",
    "control": "",
    "doctor": "--json",
    "push": "--to --segments --s3 --remove",
    "pull": "-o --partial --s3",
    "fleet": "--store --host --service --build-id --since --until --by -n --json --sql --old --new",
}

# What is given, the status, and what standard error says. In a folder with: run.mlw, run.mwl, text.
STATUSES = [
    ("record -q -o x.mlw -- sh -c 'exit 7'", 7, ""),
    ("record -q -o x.mlw -- sh -c 'kill -9 $$'", 137, ""),
    ("record -q -o x.mlw -- ./not-there", 127, "not-there"),
    ("record -q -o x.mlw -- not-there-either", 127, "not-there-either"),
    ("record -q -o x.mlw -- ./text", 126, "text"),
    ("record -q -o no/such/folder/x.mlw -- true", 125, "no/such/folder"),
    ("record -q -o x.mlw", 2, "PROGRAM"),
    ("record --stacks=some -- true", 2, "full|caller|none"),
    ("watch -q -- sh -c 'exit 7'", 7, ""),
    ("watch -q -- sh -c 'kill -9 $$'", 137, ""),
    ("watch -q -- ./not-there", 127, "not-there"),
    ("watch -q -- ./text", 126, "text"),
    ("watch --guard=2 -- true", 2, "off, all"),
    ("watch -p 99999999", 1, "99999999"),
    ("probe brk -- ./not-there", 127, "not-there"),
    ("probe not-a-kind -- true", 2, "sizes"),
    ("report run.mlw", 0, ""),
    ("report not-there.mlw", 1, "not-there.mlw"),
    ("report text", 2, "text is not a recording"),
    ("report run.mwl", 2, "not a recording"),
    ("report --by=size run.mlw", 2, "peak|end|allocated|temporary|calls"),
    ("report -n x run.mlw", 2, "'x'"),
    ("report --html run.mlw", 2, "--html takes 'run.mlw' as its OUT, and FILE is missing"),
    ("report --json", 2, "usage: mallow report"),
    ("report --time 3 run.mlw", 2, "range of time"),
    ("report --pid 1 run.mlw", 2, "no process 1"),
    ("dump text", 2, "text is not a recording"),
    ("diff run.mlw text", 2, "text is not a recording"),
    ("diff run.mlw run.mlw", 0, ""),
    ("export --format csv text", 2, "text is not a recording"),
    ("export --format pdf run.mlw", 2, "pprof"),
    ("export --format sqlite -o fifo run.mlw", 2, "fifo is not a regular file"),
    ("import text -o x.mlw", 2, "text"),
    ("import trace.mtrace -o fifo", 2, "fifo is not a regular file"),
    ("workload run.mlw -o fifo", 2, "fifo is not a regular file"),
    ("workload run.mlw -o -", 2, "-o - is standard output"),
    ("record -o - true", 2, "-o - is standard output"),
    ("workload text -o x.mwl", 2, "text is not a recording"),
    ("workload run.mlw", 2, "-o"),
    ("replay run.mlw", 2, "run.mlw is not a workload"),
    ("replay not-there", 1, "not-there"),
    ("replay --order any run.mwl", 2, "dependent|recorded"),
    ("replay --alloc nonesuch run.mwl", 2, "glibc"),
    ("replay --alloc ./nonesuch.so run.mwl", 1, "nonesuch.so"),
    ("compare text", 2, "text is not a workload"),
    ("compare -p 99999999 run.mlw", 2, "no process 99999999"),
    ("compare --alloc glibc --repeat 2 --against never run.mwl", 2, "never"),
    ("compare --alloc glibc --repeat 2 --against ./text run.mwl", 2, "./text is not a baseline"),
    ("tune run.mlw", 2, "run.mlw is not a workload"),
    ("control 99999999 pause", 1, "99999999"),
    ("control 1 dance", 2, "pause"),
    ("control 1 mark", 2, "LABEL"),
    ("doctor", 0, ""),
    ("push run.mlw", 2, "--to URL"),
    ("push run.mlw --to ftp://store.example/", 2 if PUSHES else 1, "http" if PUSHES else "libcurl"),
]

FRAME = {"function": str, "file": str, "line": int, "module": str, "inlined": bool}
SITE = {"frames": [FRAME], "calls": int, "allocated_bytes": int, "peak_bytes": int, "end_live_bytes": int,
        "end_live_blocks": int, "temporary": int}
CALLS = ("malloc free calloc realloc reallocarray posix_memalign aligned_alloc memalign valloc pvalloc "
         "free_sized free_aligned_sized mmap munmap mremap").split()
NUMBERS = ("pid ppid threads duration_ns failed_calls requested_bytes usable_bytes peak_live_bytes "
           "peak_live_blocks peak_time_ns end_live_bytes end_live_blocks temporary_allocations cross_thread_frees "
           "unknown_frees stacks").split()
REPORT = {"schema": 1, "events": int, "lost_events": int, "file_bytes": int, "processes": [{
    "command": [str], "exe": str, "complete": bool, "calls": dict.fromkeys(CALLS, int), "sites": [SITE],
    "size_histogram": [dict.fromkeys(("min_bytes", "max_bytes", "calls", "bytes"), int)],
    **dict.fromkeys(NUMBERS, int)}]}

RUN = {"allocator": str, "settings": {"M_TOP_PAD": str}, "calls": {"malloc": {
    "count": int, **dict.fromkeys(("mean_cycles", "p50_ns", "p99_ns", "p999_ns", "max_ns"), float)}},
    "mallinfo": dict.fromkeys(("arena_bytes", "in_use_bytes", "free_bytes", "mmapped_bytes"), int),
    "timeline": [dict.fromkeys(("time_ns", "rss_bytes", "vmsize_bytes", "ideal_bytes"), int)],
    **dict.fromkeys(("threads operations wall_ns cycles user_ns system_ns allocator_cycles start_rss_bytes "
                     "peak_rss_bytes workload_peak_rss_bytes peak_vmsize_bytes peak_ideal_rss_bytes "
                     "page_faults_minor page_faults_major").split(), int)}

WATCH = {"schema": 1, "kind": str, "time_ns": int, "pid": int, "period_bytes": int, "dropped": int}
WATCHED = {**WATCH, "sites": [{"frames": [FRAME], **dict.fromkeys(
    ("sampled_blocks estimated_blocks estimated_bytes estimated_bytes_low estimated_bytes_high growth_bytes "
     "oldest_age_ns").split(), int)}]}
WATCH_ERROR = {**WATCH, "error": str, "address": hex, "size_bytes": int, "offset_bytes": int, "access": [FRAME],
               "allocation": [FRAME], "release": [FRAME]}

PROBED = {"schema": 1, "probe": str, "source": str, "duration_ns": int, "lost": int}
PROBES = {
    "sizes": {"calls": int, "bytes": int, "histogram": [{"min_bytes": int, "max_bytes": int, "calls": int}]},
    "calls": {},
    "arenas": {"sbrk_bytes": int, "mmap_threshold_bytes": int, "trim_threshold_bytes": int,
               "arenas": [{"address": hex, "threads": [int], "main": bool}], "heaps": list, "waits": list,
               "events": list},
    "brk": {},
    "slab": {"callers": [{"comm": str, "function": str, "cache": str, "calls": int, "requested_bytes": int,
                          "allocated_bytes": int}]},
    "faults": {"processes": [{"pid": int, "comm": str, "minor": int, "major": int, "stacks": list}]},
    "swapin": {}, "reclaim": {}, "rss": {},
}


def deviations(wanted, found, where=""):
    """What of `found` is not as the tables say, as lines."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [f"{where}: no object"]
        return [line for key, value in wanted.items() for line in
                (deviations(value, found[key], f"{where}.{key}") if key in found else [f"{where}.{key}: not there"])]
    if isinstance(wanted, list):
        if not isinstance(found, list) or not found:
            return [f"{where}: no array, or an empty one"]
        return [line for item in found for line in deviations(wanted[0], item, where + "[]")]
    if wanted is hex:
        right = isinstance(found, str) and re.fullmatch("0x[0-9a-f]+", found)
    elif isinstance(wanted, type):
        right = isinstance(found, (int, float) if wanted is float else wanted)
        right = right and (wanted is bool or not isinstance(found, bool))
    else:
        right = found == wanted
    return [] if right else [f"{where}: {found!r}"]


def strictly(text):
    """The document; no NaN, no name twice in one object."""
    def once(pairs):
        assert len({k for k, _ in pairs}) == len(pairs), pairs
        return dict(pairs)

    def never(name):
        raise AssertionError(name)
    return json.loads(text, object_pairs_hook=once, parse_constant=never)


class Contract(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with open(os.path.join(cls.folder, "text"), "w", encoding="ascii") as f:
            f.write("neither a program nor a recording\n")
        os.mkfifo(os.path.join(cls.folder, "fifo"))
        for line in (f"record -q -o run.mlw -- {VICTIMS}/api peak", "workload -q run.mlw -o run.mwl",
                     "export --format=mtrace run.mlw -o trace.mtrace"):
            made = mallow(*line.split(), cwd=cls.folder)
            assert made.returncode == 0, made.stderr

    def run_line(self, line):
        """A command line as a shell would take it."""
        return subprocess.run(["sh", "-c", f"exec {MALLOW} {line}"], cwd=self.folder, capture_output=True, text=True,
                              timeout=600, check=False, env=dict(os.environ, LC_ALL="C", XDG_DATA_HOME=self.folder))

    def document(self, line, wanted):
        out = self.run_line(line)
        self.assertEqual(out.returncode, 0, (line, out.stderr))
        found = strictly(out.stdout)
        self.assertEqual(deviations(wanted, found), [], line)
        return found

    def test_commands_and_options(self):
        self.assertLessEqual(set(OPTIONS), set(commands()))
        for name, wanted in OPTIONS.items():
            self.assertLessEqual(set(wanted.split()), help_options(mallow(name, "--help").stdout), name)

    def test_exit_statuses(self):
        for line, status, says in STATUSES:
            with self.subTest(line=line):
                if line.startswith("probe") and status == 127 and os.geteuid():
                    continue
                out = self.run_line(line)
                self.assertEqual(out.returncode, status, out.stderr)
                self.assertIn(says, out.stderr)
                self.assertTrue(stat.S_ISFIFO(os.stat(os.path.join(self.folder, "fifo")).st_mode))
                self.assertFalse(os.path.exists(os.path.join(self.folder, "-")))
                if status == 2:
                    self.assertEqual((out.stdout, out.stderr.count("\n")), ("", 1))

    def test_standard_output_by_name(self):
        wanted = self.run_line("export --format=csv run.mlw")
        self.assertEqual(self.run_line("export --format=csv -o - run.mlw").stdout, wanted.stdout)
        out = self.run_line("watch -o - -- true")
        self.assertIn("live when it ended", out.stdout)
        self.assertEqual(out.stderr, "")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "-")))

    def test_names_do_not_depend_on_options(self):
        """A function has one name, whether inlined calls are looked up or not."""
        made = self.run_line(f"record -q -o names.mlw -- {VICTIMS}/api peak")
        self.assertEqual(made.returncode, 0, made.stderr)

        def functions(options):
            found = self.document(f"report --json {options} names.mlw", REPORT)["processes"][0]["sites"]
            return {tuple(f["function"] for f in site["frames"] if not f["inlined"]) for site in found}

        self.assertEqual(functions(""), functions("--no-inline"))

    def test_damage_is_said(self):
        """Whatever reads a damaged recording says so; a workload is not made of it unless asked for."""
        made = self.run_line(f"record -q -o long.mlw -- {VICTIMS}/api peak")
        self.assertEqual(made.returncode, 0, made.stderr)
        with open(os.path.join(self.folder, "long.mlw"), "rb") as f:
            whole = f.read()
        first = whole.index(b"MLS1", whole.index(b"MLS1\2") + 4)  # behind the first block of events
        end = whole.rindex(b"MLS1\5")
        for size in (first + 1, end - 1, end):  # within a section, and between two
            with open(os.path.join(self.folder, "short.mlw"), "wb") as f:
                f.write(whole[:size])
            for line in ("dump", "export --format=csv", "export --format=folded", "diff run.mlw"):
                out = self.run_line(f"{line} short.mlw")
                self.assertEqual(out.returncode, 0, out.stderr)
                self.assertIn("short.mlw: the file is damaged", out.stderr)
            self.assertIn("the file is damaged: its end is missing", self.run_line("report short.mlw").stdout)
            out = self.run_line("workload short.mlw -o short.mwl")
            self.assertEqual(out.returncode, 2)
            self.assertRegex(out.stderr, "--lossy takes (the rest|it anyway)")
        self.assertRegex(self.block_lost(whole).stderr, r"the recording lost \d+ of \d+ calls .*--lossy")

    def block_lost(self, whole):
        """What workload says of a recording of which one block of events fails its checksum: seen as it is read."""
        for at in range(200, len(whole), 50):
            with open(os.path.join(self.folder, "flipped.mlw"), "wb") as f:
                f.write(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
            found = self.run_line("report --json flipped.mlw")
            if found.returncode == 0 and json.loads(found.stdout)["damaged_blocks"]:
                return self.run_line("workload flipped.mlw -o flipped.mwl")
        raise AssertionError("no block of events was found")

    def test_report(self):
        document = self.document("report --json run.mlw", REPORT)
        self.assertEqual(document["events"], sum(p["events"] for p in document["processes"]))
        # The check itself: what is taken away or has another type is seen.
        for change in (lambda d: d.pop("events"), lambda d: d["processes"][0]["sites"][0].update(calls="3"),
                       lambda d: d.update(schema=2), lambda d: d["processes"][0].update(complete=1)):
            broken = copy.deepcopy(document)
            change(broken)
            self.assertEqual(len(deviations(REPORT, broken)), 1)

    @unittest.skipIf(SANITIZED, "malloc is the sanitizer's, which is not replayed against")
    def test_replay_and_compare(self):
        self.document("replay --json --set M_TOP_PAD=64K run.mwl", {"schema": 1, **RUN})
        both = self.document("compare --json --alloc glibc --set M_TOP_PAD=64K --repeat 2 run.mwl",
                             {"schema": 1, "runs": [RUN]})
        self.assertEqual(len(both["runs"]), 2)

    def test_documents_have_a_schema(self):
        version = self.run_line("--version").stdout.split()[1]
        for line in ("diff --json run.mlw run.mlw", "doctor --json", "report --json run.mlw"):
            self.assertEqual(self.document(line, {"schema": 1, "mallow": str})["mallow"], version)
        self.assertIn(f"reported by mallow {version}\n", self.run_line("report run.mlw").stdout)
        for line in self.run_line("dump --json run.mlw").stdout.splitlines():
            self.assertEqual(deviations({"time_ns": int, "pid": int, "tid": int, "kind": str}, strictly(line)), [])

    def test_watch(self):
        out = self.run_line(f"watch --json -q --guard all --period 1 -o watch.json -- {VICTIMS}/misuse "
                            "use-after-free-write")
        self.assertEqual((out.returncode, out.stdout), (0, "survived\n"), out.stderr)
        with open(os.path.join(self.folder, "watch.json"), encoding="utf-8") as f:
            found = [strictly(line) for line in f]
        (error,) = [d for d in found if d["kind"] == "error"]
        self.assertEqual(deviations(WATCH_ERROR, error), [])
        self.assertEqual(error["error"], "heap-use-after-free")
        self.assertEqual(found[-1]["kind"], "final")
        self.assertEqual(deviations(WATCHED, found[-1]), [])

    def test_guard_all_guards_every_block(self):
        out = self.run_line(f"watch --json -q --guard all -o every.json -- {VICTIMS}/misuse use-after-free-write")
        self.assertEqual((out.returncode, out.stdout), (0, "survived\n"), out.stderr)
        with open(os.path.join(self.folder, "every.json"), encoding="utf-8") as f:
            found = [strictly(line) for line in f]
        self.assertEqual([d["error"] for d in found if d["kind"] == "error"], ["heap-use-after-free"])
        self.assertEqual(found[-1]["period_bytes"], 1)

    def test_probes(self):
        rights = {c["name"]: c for c in json.loads(mallow("doctor", "--json").stdout)["checks"]}["probe-rights"]
        if os.geteuid() or rights["status"] != "ok":
            self.skipTest("SKIPPED, LOUDLY: no right to probe: " + rights["detail"])
        for kind, wanted in PROBES.items():
            with self.subTest(kind=kind):
                out = self.run_line(f"probe {kind} --json -o probe.json -- {VICTIMS}/api peak")
                self.assertEqual(out.returncode, 0, out.stderr)
                with open(os.path.join(self.folder, "probe.json"), encoding="utf-8") as f:
                    found = strictly(f.read())
                self.assertEqual(deviations({**PROBED, "probe": kind, **wanted}, found), [])

    def test_library_alone(self):
        env = dict(os.environ, LD_PRELOAD=LIBRARY, MALLOW_OUTPUT=os.path.join(self.folder, "alone-%p.mlw"))
        out = subprocess.run([f"{VICTIMS}/api", "peak"], env=env, capture_output=True, text=True, check=True)
        self.assertEqual((out.stdout, out.stderr), ("", ""))
        (name,) = [n for n in os.listdir(self.folder) if n.startswith("alone-")]
        self.document(f"report --json {name}", REPORT)
        env["MALLOW_OUTPUT"] = "/proc/no/x.mlw"
        out = subprocess.run([f"{VICTIMS}/api", "peak"], env=env, capture_output=True, text=True, check=True)
        self.assertEqual((out.stdout, out.stderr.count("\n")), ("", 1))
        env["MALLOW_OUTPUT"] = ""
        out = subprocess.run([f"{VICTIMS}/api", "peak"], env=env, capture_output=True, text=True, check=True)
        self.assertIn("MALLOW_OUTPUT is not set", out.stderr)
