"""mallow report and mallow dump on recordings of programs of this machine, sound and damaged."""
import json
import os
import random
import shutil
import subprocess
import sys
import unittest

from mallowtest import MALLOW, path
from checks import disagreements

RECORDING = path("sh.mlw")


def mallow(*arguments, **more):
    return subprocess.run([MALLOW, *arguments], capture_output=True, **more)


def setUpModule():
    done = mallow("record", "-q", "-o", RECORDING, "--", "/bin/sh", "-c",
                  "ls -lR /etc > /dev/null; sort /etc/passwd > /dev/null & (exit 3); wait")
    assert done.returncode == 0, done.stderr


def report(*arguments):
    done = mallow("report", "--json", *arguments, RECORDING)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.decode("utf-8", errors="strict"))


def dump(*arguments):
    done = mallow("dump", "--json", *arguments, RECORDING)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


class Sound(unittest.TestCase):
    def test_report_agrees_with_itself(self):
        document = report()
        self.assertEqual(disagreements(document), [])
        self.assertEqual((document["lost_events"], document["damaged_bytes"]), (0, 0))
        self.assertEqual(document["file_bytes"], os.path.getsize(RECORDING))
        commands = {os.path.basename(p["exe"]) for p in document["processes"]}
        self.assertLessEqual({"ls", "sort"}, commands)

    def test_dump_agrees_with_report(self):
        document, lines = report(), dump()
        times = [line["time_ns"] for line in lines]
        self.assertEqual(times, sorted(times))
        inherited = sum(p["inherited_blocks"] for p in document["processes"])
        calls = [line for line in lines if "call" in line and line.get("half") != "old" and "undone" not in line]
        self.assertEqual(len(calls) - inherited, document["events"])
        for index, p in enumerate(document["processes"]):
            live, peak = {}, 0
            for line in lines:
                if line["image"] != index or "slot" not in line:
                    continue
                if line["kind"] == "alloc":
                    self.assertNotIn(line["slot"], live)
                    live[line["slot"]] = line["size_bytes"]
                    peak = max(peak, sum(live.values())) if len(live) < 50 else peak
                else:
                    del live[line["slot"]]
            self.assertEqual((len(live), sum(live.values())), (p["end_live_blocks"], p["end_live_bytes"]))
            self.assertLessEqual(peak, p["peak_live_bytes"])

    def test_every_so_many_calls(self):
        calls = [line for line in dump() if "address" in line]
        sides = [line for line in dump() if "address" not in line]
        few = dump("--every", "7")
        self.assertEqual([line for line in few if "address" in line], calls[::7])
        self.assertEqual([line for line in few if "address" not in line], sides)

    def test_windows(self):
        """The figures of each window, worked out again from the events."""
        width = 5000000
        want, live, now = {}, {}, 0
        for line in dump():
            if line["kind"] == "process-end":
                now -= sum(live.pop(line["image"], {}).values())
            if "address" not in line:
                continue
            own = live.setdefault(line["image"], {})
            w = want.setdefault(line["time_ns"] // width * width, {"records": 0, "size": [], "live": []})
            w["records"] += 1
            if "slot" in line:
                now -= own.pop(line["slot"], 0)
                if line["kind"] == "alloc":
                    own[line["slot"]] = line["size_bytes"]
                    now += line["size_bytes"]
                    w["size"].append(line["size_bytes"])
            if line.get("half") != "old":
                w["live"].append(now)
        rows = dump("--window", "5ms")
        self.assertEqual([r["time_ns"] for r in rows], sorted(want))
        self.assertGreater(len(rows), 1)
        for r in rows:
            w = want[r["time_ns"]]
            self.assertEqual((r["window_ns"], r["records"]), (width, w["records"]))
            for name, values in (("size_bytes", w["size"]), ("live_bytes", w["live"])):
                if not values:
                    self.assertIsNone(r[name])
                    continue
                self.assertEqual((r[name]["least"], r[name]["most"]), (min(values), max(values)), r)
                self.assertLessEqual(abs(r[name]["mean"] - sum(values) / len(values)), 0.51)
        text = mallow("dump", "--window", "5ms", RECORDING).stdout.decode().splitlines()
        self.assertEqual(len(text), len(rows) + 1)
        self.assertEqual(text[1].split()[1], str(rows[0]["records"]))
        size = dump("--window", "5ms", "--size", "100..200")
        self.assertTrue(all(100 <= r["size_bytes"]["least"] <= r["size_bytes"]["most"] <= 200
                            for r in size if r["size_bytes"]))
        for wrong in (["--every", "0"], ["--window", "0s"], ["--every", "2", "--window", "1s"], ["--names", "--window", "1s"]):
            self.assertEqual(mallow("dump", *wrong, RECORDING).returncode, 2, wrong)

    def test_text(self):
        done = mallow("report", RECORDING)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        for part in (b"Peak  ", b"At the end ", b"Live at the peak: ", b"Sizes asked for", b"How long blocks lived"):
            self.assertIn(part, done.stdout)
        self.assertNotIn(b"\x1b", done.stdout)

    def test_filters(self):
        document = report()
        ls = next(p for p in document["processes"] if os.path.basename(p["exe"]) == "ls")
        pid = str(ls["pid"])
        parts = [report("-p", pid, "--size", r) for r in ("..100", "101..1000", "1001..")]
        def total(of, key):
            return sum(p[key] for p in of["processes"])
        whole = report("-p", pid, "--start-frames")
        for key in ("allocations", "requested_bytes", "end_live_bytes"):
            self.assertEqual(sum(total(p, key) for p in parts), total(whole, key), key)
        self.assertEqual(total(report("-p", pid, "--module", "libc.so.6"), "allocations"),
                         sum(s["calls"] for p in whole["processes"] for s in p["sites"]
                             if any(f["module"] == "libc.so.6" for f in s["frames"])))
        self.assertEqual(report("--function", "no such function")["events"], 0)

    def test_processes_that_begin_after_the_range(self):
        file = path("late.mlw")
        script = "import os; b = bytearray(1 << 20); p = os.fork(); p and os.waitpid(p, 0)"
        done = mallow("record", "-q", "-o", file, "--", sys.executable, "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = json.loads(mallow("report", "--json", file).stdout)["processes"]
        child = next(p for p in whole if p["inherited_blocks"])
        begins = next(line["time_ns"] for line in map(json.loads, mallow("dump", "--json", file).stdout.splitlines())
                      if line["kind"] == "process-start" and line["pid"] == child["pid"])
        for to in (begins - 1000, begins - 1):
            done = mallow("report", "--json", "--time", f"..{to}ns", file)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            late = next(p for p in json.loads(done.stdout)["processes"] if p["pid"] == child["pid"])
            self.assertEqual([late[k] for k in ("inherited_blocks", "peak_live_bytes", "end_live_bytes")], [0, 0, 0])
        self.assertEqual(mallow("diff", "--time", f"..{begins - 1000}ns", file, file).returncode, 0)

    def test_usage_errors(self):
        for arguments in (["--only-new"], ["--by", "weight"], ["--time", "2..1"], ["--size", "x.."], ["-p", "0"]):
            done = mallow("report", *arguments, RECORDING)
            self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertEqual(mallow("report").returncode, 2)
        self.assertEqual(mallow("dump", RECORDING, RECORDING).returncode, 2)
        self.assertEqual(mallow("report", "--function", "/(/", RECORDING).returncode, 2)

    def test_output_that_cannot_be_written(self):
        for command in (["report"], ["report", "--json"], ["dump"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([MALLOW, *command, RECORDING], stdout=full, stderr=subprocess.PIPE,
                                      env=os.environ)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn(b"No space left", done.stderr)


class Damaged(unittest.TestCase):
    def damaged(self, change):
        file = path("damaged.mlw")
        shutil.copy(RECORDING, file)
        with open(file, "r+b") as f:
            change(f, os.path.getsize(file))
        return file

    def look(self, path):
        """Either an error and nothing else, or a whole report that says what is wrong."""
        done = mallow("report", "--json", path, timeout=600)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if done.returncode == 1:
            self.assertTrue(done.stderr)
        if done.returncode == 0 or done.stdout:
            document = json.loads(done.stdout)
            self.assertEqual(done.returncode == 1, "error" in document)
        if done.returncode == 0:
            self.assertEqual(disagreements(document), [])
            said = document["warnings"] + [w for p in document["processes"] for w in p["warnings"]]
            self.assertTrue(said, "damage is said")
        for command in ("report", "dump"):
            other = mallow(command, path, timeout=600)
            self.assertIn(other.returncode, (0, 1))
            self.assertNotIn(b"Sanitizer", other.stderr)

    def test_cut(self):
        for share in (0.1, 0.5, 0.9, 0.999):
            with self.subTest(share):
                self.look(self.damaged(lambda f, size: f.truncate(int(size * share))))

    def test_changed_bytes(self):
        random.seed(20)
        for _ in range(12):
            places = random.sample(range(os.path.getsize(RECORDING)), 3)

            def change(f, _size):
                for place in places:
                    f.seek(place)
                    old = f.read(1)
                    f.seek(place)
                    f.write(bytes([old[0] ^ 0x55]))
            with self.subTest(places):
                self.look(self.damaged(change))

    def test_not_a_recording(self):
        missing = path("missing")
        headless = self.damaged(lambda f, size: f.truncate(40))
        for file, status in (("/dev/null", 2), (path(), 2), (MALLOW, 2), (missing, 1), (headless, 1)):
            for command in ("report", "dump"):
                done = mallow(command, file)
                self.assertEqual((done.returncode, done.stdout), (status, b""), file)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
                self.assertIn(file.encode(), done.stderr)
