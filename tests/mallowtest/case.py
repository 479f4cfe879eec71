"""Tests with a folder of their own. Of whole programs: a victim is recorded, and its report compared with what is known to be true."""
import functools
import json
import os
import shutil
import struct
import sys
import tempfile
import unittest

from mallowtest.places import MALLOW, ORACLE
from mallowtest.running import run

ORACLE_CALLS = ["malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc",
                "memalign", "valloc", "pvalloc", "free", "free_sized", "free_aligned_sized",
                "malloc_usable_size", "mmap", "munmap", "mremap", "brk", "sbrk"]
ORACLE_TOTALS = ["failed_calls", "requested_bytes", "end_live_bytes", "end_live_blocks",
                 "peak_live_bytes", "peak_live_blocks", "temporary_allocations", "cross_thread_frees",
                 "unknown_frees"]


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


class Test(unittest.TestCase):
    maxDiff = None

    @functools.cached_property
    def folder(self):
        """A new one for each test, which goes with it."""
        made = tempfile.mkdtemp(prefix="mallow-test-")
        self.addCleanup(shutil.rmtree, made, True)
        return made


class Case(Test):
    def setUp(self):
        self.file = os.path.join(self.folder, "recording.mlw")

    def record(self, argv, options=(), oracle=False, file=None, **kw):
        """Runs argv under `mallow record`; with oracle, the second counter behind it."""
        env = dict(kw.pop("env", None) or {})
        if oracle:
            self.oracle_dir = tempfile.mkdtemp(prefix="oracle-", dir=self.folder)
            env["ORACLE_DIR"] = self.oracle_dir
            env["LD_PRELOAD"] = " ".join(filter(None, [env.get("LD_PRELOAD", ""), ORACLE]))
        return run([MALLOW, "record", "-o", file or self.file, *options, "--", *argv], env=env, **kw)

    def with_oracle_alone(self, argv, env=None, **kw):
        d = tempfile.mkdtemp(prefix="oracle-", dir=self.folder)
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
