"""Files changed as one who means harm would (tests/mallowtest/mutate.py), through every command that reads one:
it ends by itself, with a status of its own, and no sanitizer has anything to say.

  MUTANTS   how many (default 80 under a sanitizer, else 60; MALLOW_LONG=1: 1,000), from number MUTANTS_FROM (default 0) on;
            MUTANTS_SECONDS ends earlier. A mutant that fails is kept, and named."""
import glob
import lzma
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time

from mallowtest import LONG, MALLOW, ROOT, SANITIZED, Test

from mallowtest.mutate import mutate

COUNT = int(os.environ.get("MUTANTS", 1000 if LONG else 80 if SANITIZED else 60))
FIRST = int(os.environ.get("MUTANTS_FROM", 0))
SECONDS = float(os.environ.get("MUTANTS_SECONDS", "inf"))
LIMIT = 2 << 30  # bytes that a command may take
GOLDEN = os.path.join(ROOT, "tests", "trace", "golden")
FOREIGN = os.path.join(ROOT, "tests", "import", "corpus", "import")
CORES = os.path.join(ROOT, "tests", "heap", "corpus", "*.core.xz")
RECORDINGS = glob.glob(os.path.join(ROOT, "tests", "trace", "corpus", "*.raw.xz"))
KEPT = glob.glob(os.path.join(ROOT, "tests", "heap", "corpus", "saved", "*.mlh"))

RECORDING = ["report FILE", "report --json FILE", "report --html=OUT FILE", "report --by=end --no-inline FILE", "dump FILE",
             "report --json --heap --only-new --time=1ns..1ms --size=1..1M --min-lifetime=1ns FILE",
             "report --plots=always --by=calls --thread=* FILE",
             "dump --json FILE", "diff GOOD FILE", "diff --json FILE GOOD", "workload -q --lossy -o OUT FILE"] + \
            [f"export --format={name} -o OUT FILE" for name in ("pprof", "folded", "speedscope", "heaptrack", "ctf",
                                                               "chrome", "massif", "sqlite", "csv", "mtrace")]
CORE = ["heap FILE", "heap --json FILE", "heap --leaks FILE", "heap --free --by=size FILE"]
SAVED = ["heap FILE", "heap --json FILE", "heap --leaks FILE", "heap --diff FILE SAVED", "heap --html=OUT FILE"]
WORKLOAD = ["workload -q -o OUT FILE", "workload -q --format=wl -o OUT FILE", "replay --dry-run FILE"]
TRACE = ["import -q -o OUT FILE", "workload -q -o OUT FILE"]


def environment():
    e = dict(os.environ, LC_ALL="C", DEBUGINFOD_URLS="")
    if SANITIZED:
        e["ASAN_OPTIONS"] = e.get("ASAN_OPTIONS", "") + f":hard_rss_limit_mb={LIMIT >> 20}:allocator_may_return_null=1" \
                                                        ":max_allocation_size_mb=1024"
        e["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    return e


def bounded():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


class Mutants(Test):
    def setUp(self):
        self.good = self.path("good.mlw")
        shutil.copy(os.path.join(GOLDEN, "early.sealed"), self.good)
        self.saved = ""
        self.seeds = []
        for name in sorted(os.listdir(GOLDEN)):
            if name.endswith((".raw", ".sealed", ".stored")):
                self.seeds.append((os.path.join(GOLDEN, name), RECORDING))
        for name in sorted(os.listdir(FOREIGN)):
            self.seeds.append((os.path.join(FOREIGN, name), TRACE))
        for packed in sorted(glob.glob(CORES)):
            core = self.path(os.path.basename(packed)[:-3])
            with lzma.open(packed) as source, open(core, "wb") as to:
                shutil.copyfileobj(source, to)
            self.seeds.append((core, CORE))
            self.saved = core + ".mlh"
            self.run_line("heap -o SAVED FILE", core)
            self.seeds.append((self.saved, SAVED))
        for ending in ("mwl", "wl", "mtrace"):
            made = self.path("seed." + ending)
            self.run_line(f"workload -q --lossy --pid=4100001 -o {made} GOOD")
            self.seeds.append((made, WORKLOAD))

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_line(self, line, file=""):
        words = [w.replace("FILE", file).replace("GOOD", self.good).replace("OUT", self.path("out")).replace("SAVED", self.saved)
                 for w in line.split()]
        return subprocess.run([MALLOW, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=environment(), preexec_fn=bounded, timeout=240, check=False)

    def judge(self, line, file):
        out = self.run_line(line, file)
        said = out.stderr.decode(errors="replace")
        self.assertIn(out.returncode, (0, 1, 2), said[-4000:])
        # a large allocation that is refused is the limit at work, if mallow says so itself
        said = re.sub(r"==\d+==WARNING: AddressSanitizer failed to allocate .*\n(?=mallow .*out of memory\n)", "", said)
        self.assertNotRegex(said, "runtime error:|Sanitizer")

    def test_found_before(self):
        """Mutants that were findings once."""
        self.assertTrue(KEPT and RECORDINGS)
        for packed in RECORDINGS:
            with lzma.open(packed) as f, open(self.path("found"), "wb") as to:
                to.write(f.read())
            for line in ("report FILE", "report --json FILE", "report --html=OUT FILE"):
                with self.subTest(file=os.path.basename(packed), line=line):
                    self.judge(line, self.path("found"))
        for file in KEPT:
            for line in SAVED:
                with self.subTest(file=os.path.basename(file), line=line):
                    self.judge(line, file)

    def test_mutants(self):
        began, done = time.monotonic(), 0
        for number in range(FIRST, FIRST + COUNT):
            if time.monotonic() - began > SECONDS:
                break
            seed, lines = self.seeds[number % len(self.seeds)]
            line = lines[number // len(self.seeds) % len(lines)]
            with open(seed, "rb") as f:
                mutant = mutate(f.read(), number)
            file = self.path("mutant")
            with open(file, "wb") as f:
                f.write(mutant)
            with self.subTest(mutant=number, seed=os.path.basename(seed), line=line):
                try:
                    self.judge(line, file)
                except (AssertionError, subprocess.TimeoutExpired):
                    kept = os.path.join(tempfile.gettempdir(), f"mallow-mutant-{number}")
                    with open(kept, "wb") as f:
                        f.write(mutant)
                    print("kept:", kept, flush=True)
                    raise
            out = self.path("out")
            shutil.rmtree(out) if os.path.isdir(out) else os.path.exists(out) and os.unlink(out)
            done += 1
        print(f"{done} mutants", flush=True)
        self.assertGreater(done, 0)
