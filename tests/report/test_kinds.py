"""Each kind of memory in the part that it belongs to, of programs that have so much of one kind (kinds.c)."""
import json
import os
import subprocess
import tempfile
import time
import unittest

from mallowtest import MALLOW, program

PROGRAM = program("report/kinds")
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))},
               "LC_ALL": "C", "DEBUGINFOD_URLS": ""}
MB = 1 << 20
# What is in memory, in MB. All other parts are small.
KINDS = {
    "lazy": {"given_back": 30, "mappings": 10},
    "hole": {"mappings": 30},
    "barred": {"mappings": 40},
    "moved": {"mappings": 30},
    "syscall": {"mappings": 40},
    "reserve": {"mappings": 20},
    "device": {"mappings": 30},  # before: a mapped file, which the kernel would drop by itself
    "file": {"mapped_files": 30, "mappings": 20},  # before: 50 of a mapped file
    "memfd": {"shared": 30, "mappings": 20},  # before: 20 of a mapped file
    "segment": {"shared": 40},
    "shared": {"shared": 30},
    "deep": {"stacks": 5},
    "thread": {"stacks": 5},
    "block-stack": {"live": 8, "untouched": -3},  # before: stacks as well, and as much less untouched
    "block-stack-within": {"live": 8, "untouched": -3},
    "library-data": {"code_and_data": 20},  # before: mappings
    "context": {"mappings": 5},
    "break": {"unrecorded": 10},
    "break-syscall": {"unrecorded": 30},
    "needless": {"live": 40, "untouched": -30},
    "fork": {"live": 40, "untouched": -30},
    "exec": {"live": 20},
    "library": {},
    "unsaved": {"mappings": 20},  # before: 4 of it the recorder's
    "table": {"code_and_data": 30},  # before: mappings
}


def mallow(*arguments):
    done = subprocess.run([MALLOW, *arguments], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


class Kinds(unittest.TestCase):
    def explained(self, kind, folder):
        """The explanation of what the program has now, and its resident size."""
        path = os.path.join(folder, kind + ".mlw")
        with subprocess.Popen([MALLOW, "record", "-q", "-o", path, "--", PROGRAM, kind, os.path.join(folder, "file")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as record:
            self.assertEqual(record.stdout.readline(), b"ready\n")
            with open(f"/proc/{record.pid}/task/{record.pid}/children", encoding="ascii") as f:
                pid = f.read().split()[0]
            end = time.monotonic() + 60
            while True:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                    rss = next(int(line.split()[1]) << 10 for line in f if line.startswith("Rss:"))
                mallow("control", pid, "snapshot")
                mallow("control", pid, "sync")
                processes = json.loads(mallow("report", "--json", "--at", "end", path))["processes"]
                process = next((p for p in processes if p["pid"] == int(pid)), None)
                e = process["explained"][0] if process and process["explained"] else {}
                if e.get("rss_bytes") and abs(e["rss_bytes"] - rss) < MB or time.monotonic() > end:
                    record.stdin.close()
                    return e, rss
                time.sleep(0.05)

    def test_each(self):
        for kind, wanted in KINDS.items():
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                e, rss = self.explained(kind, folder)
                self.assertLess(abs(e["rss_bytes"] - rss), MB)
                parts = {p["name"]: p["bytes"] / MB for p in e["parts"]}
                self.assertAlmostEqual(sum(p["bytes"] for p in e["parts"]), e["rss_bytes"])
                for name in {*parts, *wanted}:
                    most = 4 if name == "code_and_data" else 1.5
                    self.assertAlmostEqual(parts.get(name, 0), wanted.get(name, 0), delta=most, msg=(name, parts))
