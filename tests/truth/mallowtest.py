"""What the whole-program tests share: running victims with and without mallow, and reading reports.

Environment (set by meson): MALLOW, the command; MALLOW_LIBRARY, libmallow-record.so; VICTIMS, the
folder of the built victims; ORACLE, the second counter (see tests/victims/oracle.c). Python's standard
library only. Every test works in a folder of its own and cleans it up."""
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

MALLOW = os.path.abspath(os.environ.get("MALLOW", "build/mallow"))
LIBRARY = os.path.abspath(os.environ.get("MALLOW_LIBRARY", "build/lib/libmallow-record.so"))
VICTIMS = os.path.abspath(os.environ.get("VICTIMS", "build/tests/victims"))
ORACLE = os.path.abspath(os.environ.get("ORACLE", os.path.join(VICTIMS, "liboracle.so")))
# The other allocators by the files that they have in every release of the systems: mimalloc is 2 or 3.
ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.[23]"}
TIMEOUT = 600  # seconds for one program; nothing here takes a hundredth of it

ORACLE_CALLS = ["malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc",
                "memalign", "valloc", "pvalloc", "free", "free_sized", "free_aligned_sized",
                "malloc_usable_size", "mmap", "munmap", "mremap", "brk", "sbrk"]
ORACLE_TOTALS = ["failed_calls", "requested_bytes", "end_live_bytes", "end_live_blocks",
                 "peak_live_bytes", "peak_live_blocks", "temporary_allocations", "cross_thread_frees",
                 "unknown_frees"]


def library(name):
    """The path of a library of the system."""
    found = glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/lib/*/{name}")
    if not found:
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {name} is not installed")
    return found[0]


def victim(name):
    path = os.path.join(VICTIMS, name)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {name} was not built (no compiler for it here?)")
    return path


def source(name):
    """Of a victim."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "victims", name)


def pythons():
    """Commands of Python 3.12 or later that write a perf map."""
    found = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        versions = os.path.join(root, "versions")
        if root and os.path.isdir(versions):
            found += [os.path.join(versions, v, "bin", "python3") for v in sorted(os.listdir(versions))
                      if re.match(r"3\.(1[2-9])\.", v)]
    check = "import sys; sys.exit(not (sys.version_info >= (3, 12) and sys.is_stack_trampoline_active()))"
    return [p for p in found if p and os.path.exists(p) and
            subprocess.run([p, "-X", "perf", "-c", check], capture_output=True).returncode == 0]


class Run:
    """One finished program: rc as subprocess gives it (negative: a signal), out, err (bytes)."""

    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    @property
    def status(self):
        """As a shell, and mallow record, report it."""
        return 128 - self.rc if self.rc < 0 else self.rc

    def own_err(self):
        """Standard error without mallow's own lines."""
        return b"".join(l for l in self.err.splitlines(keepends=True) if not l.startswith(b"mallow"))


def run(argv, env=None, cwd=None, stdin=None, timeout=TIMEOUT, preexec_fn=None, pass_fds=()):
    e = dict(os.environ)
    for k in list(e):
        if k.startswith("MALLOW_"):
            del e[k]
    e["LC_ALL"] = "C"
    e.update(env or {})
    p = subprocess.Popen([str(a) for a in argv], env=e, cwd=cwd, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=preexec_fn,
                         pass_fds=pass_fds, start_new_session=True)
    try:
        out, err = p.communicate(stdin or b"", timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, err = p.communicate()
        raise AssertionError(f"hung for {timeout} s: {argv}\nstdout: {out[-2000:]!r}\nstderr: {err[-2000:]!r}")
    return Run(p.returncode, out, err)


def slow_opens(microseconds):
    """What stands before a command so that each file that it opens takes so much longer. needs_strace: a test of it."""
    return ["strace", "-o", "/dev/null", "-e", "trace=openat", "-e", f"inject=openat:delay_exit={microseconds}"]


needs_strace = unittest.skipUnless(shutil.which("strace"), "SKIPPED, LOUDLY: strace is not installed")


def status_of(pid):
    """The fields of /proc/PID/stat behind the name: state, parent, process group, session; [] for who is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def has_ended(pid):
    """Or waits for a parent that does not ask: not every first process of a container does."""
    return status_of(pid)[:1] in ([], ["Z"], ["X"])


class Oracle:
    """The totals that the second counter left, one dict a process image, in order of start."""

    def __init__(self, directory):
        self.images = []
        names = sorted(os.listdir(directory),
                       key=lambda n: (os.stat(os.path.join(directory, n)).st_mtime_ns, n))
        for name in names:
            with open(os.path.join(directory, name), "rb") as f:
                b = f.read()
            if b[:8] != b"oracle01":
                continue
            n = len(ORACLE_CALLS)
            v = struct.unpack_from(f"<{n + 10}q", b, 8)
            image = {"pid": v[0], "calls": dict(zip(ORACLE_CALLS, v[1:1 + n]))}
            image.update(zip(ORACLE_TOTALS, v[1 + n:]))
            image["exe"] = b[8 * (n + 11):].split(b"\0")[0].decode()
            self.images.append(image)

    def of(self, exe):
        found = [i for i in self.images if os.path.basename(i["exe"]) == exe]
        assert found, (exe, [i["exe"] for i in self.images])
        return found


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="mallow-test-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.file = os.path.join(self.dir, "recording.mlw")

    def record(self, argv, options=(), oracle=False, file=None, **kw):
        """Runs argv under `mallow record`; with oracle, the second counter behind it."""
        env = dict(kw.pop("env", None) or {})
        if oracle:
            self.oracle_dir = tempfile.mkdtemp(prefix="oracle-", dir=self.dir)
            env["ORACLE_DIR"] = self.oracle_dir
            env["LD_PRELOAD"] = " ".join(filter(None, [env.get("LD_PRELOAD", ""), ORACLE]))
        return run([MALLOW, "record", "-o", file or self.file, *options, "--", *argv], env=env, **kw)

    def with_oracle_alone(self, argv, env=None, **kw):
        d = tempfile.mkdtemp(prefix="oracle-", dir=self.dir)
        e = dict(env or {}, ORACLE_DIR=d, LD_PRELOAD=ORACLE)
        r = run(argv, env=e, **kw)
        return r, Oracle(d)

    def oracle(self):
        return Oracle(self.oracle_dir)

    report_options = ()  # of every report, in tests that need them

    def report(self, file=None, options=()):
        r = run([MALLOW, "report", "--json", "-n0", *self.report_options, *options, file or self.file])
        self.assertEqual(r.rc, 0, f"report failed: {r.err.decode(errors='replace')[-2000:]}")
        doc = json.loads(r.out)
        self.assertEqual(doc["schema"], 1)
        return doc

    def recorded(self, argv, status=0, **kw):
        """Records, expects the status, and returns the report; the Run is in self.last."""
        self.last = self.record(argv, **kw)
        self.assertEqual(self.last.rc, status,
                         f"{argv}: out {self.last.out[-1500:]!r} err {self.last.err[-1500:]!r}")
        return self.report(kw.get("file"))

    def process(self, doc, exe, index=None):
        """The one process image of that executable (or the index-th)."""
        found = [p for p in doc["processes"] if os.path.basename(p["exe"]) == exe]
        if index is None:
            self.assertEqual(len(found), 1, f"{exe}: {[(p['pid'], p['exe']) for p in doc['processes']]}")
            return found[0]
        return found[index]

    def calls(self, process, **expected):
        """Exactly these calls, and no others."""
        got = {k: v for k, v in process["calls"].items() if v}
        self.assertEqual(got, {k: v for k, v in expected.items() if v})

    def agrees(self, process, oracle, skip=()):
        """A process of the report agrees with the second counter's totals."""
        skip = set(skip) | {"malloc_usable_size"}  # mallow may itself ask the counter behind it

        def comparable(calls):
            calls = {k: v for k, v in calls.items() if v and k not in skip}
            # reallocarray reaches whoever stands behind as realloc
            calls["realloc"] = calls.pop("realloc", 0) + calls.pop("reallocarray", 0)
            return calls
        self.assertEqual(comparable(process["calls"]), comparable(oracle["calls"]))
        for k in ORACLE_TOTALS:
            if k not in skip:
                self.assertEqual(process[k], oracle[k], k)

    def untouched(self, argv, options=(), compare_err=True, env=None, **kw):
        """The program's output and exit status are what they are without mallow. Returns both runs."""
        plain = run(argv, env=env, **kw)
        under = self.record(argv, options=options, env=env, **kw)
        self.assertEqual(under.out, plain.out)
        if compare_err:
            self.assertEqual(under.own_err(), plain.err)
        self.assertEqual(under.rc, plain.status, f"{argv}: {under.err[-1500:]!r}")
        return plain, under


def function_names(site):
    return [f["function"] for f in site["frames"]]


def main():
    unittest.main(verbosity=2, argv=[sys.argv[0], *sys.argv[1:]])
