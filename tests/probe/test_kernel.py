"""The kinds that look at the kernel's own events, on a program whose memory is known, against what the
kernel tells elsewhere: getrusage, smaps, /proc/vmstat. Swap files and control groups that are made here
are taken away again."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from mallowtest import MALLOW
from probing import Case, attached, idle, main, reads, victim
from swapping import group, swap_file, vmstat

PAGE = 4096


class Kernel(Case):
    def beside(self, kind, options, argument, talk):
        """Probes a running victim; talk(victim) lets it go on. Returns (document, its output)."""
        with subprocess.Popen([victim("memory_victim"), *argument.split()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              cwd="/var/tmp") as p:
            reads(p)
            with subprocess.Popen([MALLOW, "probe", kind, "--json", *options, "-p", str(p.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
                attached(probe)
                talk(p, probe)
                text, err = probe.communicate(timeout=600)
            self.assertEqual(probe.returncode, 0, err)
            return json.loads(text), p.stdout.read().decode()

    @staticmethod
    def go(p, _probe):
        p.stdin.write(b"g")
        p.stdin.flush()

    @staticmethod
    def functions(group):
        return [f["function"] for f in group["frames"]]

    def by_function(self, groups, names, value):
        found = dict.fromkeys(names, 0)
        for group in groups:
            for name in names:
                if name in self.functions(group):
                    found[name] += group[value]
        return found

    def test_brk(self):
        document = self.probe("brk", "--", victim("memory_victim"), "brk")
        self.assertEqual((document["grown_bytes"], document["released_bytes"]), (10 * 65536 + 5 * 4096, 2 * 32768))
        names = ["grow_a", "grow_b", "shrink", "map_some"]
        self.assertEqual(self.by_function(document["stacks"], names, "grown_bytes"),
                         {"grow_a": 655360, "grow_b": 20480, "shrink": 0, "map_some": 0})
        self.assertEqual(self.by_function(document["stacks"], names, "released_bytes")["shrink"], 65536)
        for group in document["stacks"]:
            self.assertIn("_start", self.functions(group)[-1])

    def test_mmap(self):
        document = self.probe("brk", "--mmap", "--", victim("memory_victim"), "brk")
        grown = self.by_function(document["stacks"], ["grow_a", "map_some"], "grown_bytes")
        self.assertEqual(grown, {"grow_a": 655360, "map_some": 20 << 20})
        self.assertEqual(self.by_function(document["stacks"], ["map_some"], "released_bytes"), {"map_some": 10 << 20})

    def test_purge(self):
        document = self.probe("purge", "--", victim("memory_victim"), "purge")
        names = ["purge_dontneed", "purge_free", "purge_unmap", "shrink"]
        page = 4096
        self.assertEqual(self.by_function(document["stacks"], names, "purged_bytes"),
                         {"purge_dontneed": 56 * page, "purge_free": 48 * page, "purge_unmap": 250 * page, "shrink": 65536})
        self.assertEqual(self.by_function(document["stacks"], names, "calls"),
                         {"purge_dontneed": 11, "purge_free": 3, "purge_unmap": 2, "shrink": 2})
        self.assertEqual(self.by_function(document["stacks"], names, "failed_calls")["purge_dontneed"], 4)
        self.assertTrue(all(g["time_ns"] > 0 for g in document["stacks"]))

    def test_faults(self):
        document, out = self.beside("faults", ["--by", "process,stack"], "faults", self.go)
        minor, major = map(int, out.split())
        names = ["touch_write", "touch_read", "touch_copy", "touch_file"]
        stacks = [s for p in document["processes"] for s in p["stacks"]]
        found = self.by_function(stacks, names, "minor")
        # Pages of the file that were read ahead after all are minor faults.
        self.assertEqual(found.pop("touch_file"), minor - 1200)
        self.assertEqual(found, {"touch_write": 1000, "touch_read": 200, "touch_copy": 100})
        self.assertEqual(self.by_function(stacks, ["touch_file"], "major"), {"touch_file": major})
        self.assertEqual(document["minor"], sum(p["minor"] for p in document["processes"]))

    def test_faults_of_a_name(self):
        """Of every process only those of the name."""
        name = "memory_victim"
        with idle():  # another process there is
            document = self.only(name)
        self.assertEqual({p["comm"] for p in document["processes"]}, {name})
        self.assertGreaterEqual(sum(p["minor"] for p in document["processes"]), 1300)
        self.assertEqual(self.only("memory_victi")["processes"], [])

    def only(self, name):
        with subprocess.Popen([victim("memory_victim"), "faults"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              cwd="/var/tmp") as p:
            reads(p)
            with subprocess.Popen([MALLOW, "probe", "faults", "--json", "-a", "--comm", name, "--by", "process"],
                                  stdout=subprocess.PIPE, text=True) as probe:
                attached(probe)
                p.communicate(b"g")
                probe.send_signal(signal.SIGINT)
                document = json.loads(probe.communicate(timeout=600)[0])
        self.assertEqual(document["lost"], 0)
        return document

    def test_faults_with_few_frames(self):
        document, _ = self.beside("faults", ["--by", "process,stack", "--frames", "1"], "faults", self.go)
        stacks = [s for p in document["processes"] for s in p["stacks"]]
        found = self.by_function(stacks, ["touch_write", "touch_read", "touch_copy", "family", "main"], "minor")
        self.assertLess(found.pop("main"), 100)  # its own, of its code
        self.assertEqual(found, {"touch_write": 1000, "touch_read": 200, "touch_copy": 100, "family": 0})
        for s in stacks:
            self.assertLessEqual(len([f for f in s["frames"] if not f["inlined"]]), 1, s)

    def test_faults_against_perf_stat(self):
        if not shutil.which("perf"):
            self.skipTest("SKIPPED, LOUDLY: no perf (linux-perf)")
        why = subprocess.run(["perf", "--version"], capture_output=True, text=True, check=False)
        if why.returncode:  # Ubuntu's is a script that looks for the one of this kernel
            self.skipTest(f"SKIPPED, LOUDLY: perf does not run here: {why.stderr.strip()[:100]}")
        counts = os.path.join(tempfile.mkdtemp(prefix="mallow-test-"), "counts")
        self.addCleanup(shutil.rmtree, os.path.dirname(counts))
        stat = []

        def talk(p, probe):
            stat.append(subprocess.Popen(["perf", "stat", "-x,", "-e", "minor-faults,major-faults", "-o", counts,
                                          "-p", str(p.pid)]))
            attached(stat[0])
            self.go(p, probe)
            p.wait(600)
            stat[0].wait(600)  # it ends when the process is gone

        document, _ = self.beside("faults", ["--by", "process"], "faults", talk)
        self.assertEqual(stat[0].returncode, 0)
        with open(counts, encoding="ascii") as f:
            rows = [line.split(",") for line in f if "-faults" in line]
        told = {row[2].split(":")[0]: int(row[0]) for row in rows}
        self.assertGreaterEqual(told["minor-faults"], 1300)
        self.assertEqual({"minor-faults": document["minor"], "major-faults": document["major"]}, told)

    def test_faults_by_access_and_mapping(self):
        document, _ = self.beside("faults", ["--by", "access"], "faults", self.go)
        found = {s["access"]: s["minor"] for p in document["processes"] for s in p["stacks"]}
        self.assertTrue(1000 <= found["first write"] < 1300, found)
        self.assertTrue(200 <= found["first read"] < 500, found)
        self.assertTrue(100 <= found["copy on write"] < 400, found)
        document, _ = self.beside("faults", ["--by", "mapping"], "faults", self.go)
        found = {s["mapping"]: s["minor"] for p in document["processes"] for s in p["stacks"]}
        self.assertGreaterEqual(found["[anonymous]"] + found.get("[busy]", 0), 1300)

    def test_rows_that_found_no_room_are_counted(self):
        """More pages than there are rows: what is not in a row is counted as lost."""
        whole = self.probe("faults", "--by", "process", "--", victim("memory_victim"), "large")["processes"][0]["minor"]
        out = subprocess.run([MALLOW, "probe", "faults", "--json", "--by", "process,address", "--",
                              victim("memory_victim"), "large"], capture_output=True, text=True, check=True)
        document = json.loads(out.stdout)
        told = sum(p["minor"] for p in document["processes"])
        self.assertGreater(document["lost"], 1000)
        self.assertLessEqual(abs(told + document["lost"] - whole), 200)

    def test_rss(self):
        target = os.path.join(tempfile.mkdtemp(prefix="mallow-test-"), "out")
        self.addCleanup(shutil.rmtree, os.path.dirname(target))
        out = subprocess.run([MALLOW, "probe", "rss", "--json", "-o", target, "--", victim("memory_victim"), "rss"],
                             capture_output=True, text=True, check=True)
        smaps = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in out.stdout.splitlines() if "kB" in line}
        with open(target, encoding="utf-8") as f:
            document = json.load(f)
        self.assertEqual(document["lost"], 0)
        [process] = document["processes"]
        self.assertEqual(process["comm"], "memory_victim")
        self.assertLessEqual(abs(process["anonymous_bytes"] - smaps["Anonymous"]), 16 * PAGE)
        self.assertLessEqual(abs(process["resident_bytes"] - smaps["Rss"]), 64 * PAGE)
        self.assertEqual(process["peak_anonymous_bytes"] - process["anonymous_bytes"] >= (2560 - 16) * PAGE, True)
        times = [s["time_ns"] for s in document["timeline"]]
        self.assertGreater(len(times), 20)
        self.assertEqual(times, sorted(times))
        # A step of less than a thirty-second is not in the timeline if nothing happens later.
        self.assertGreaterEqual(max(s["resident_bytes"] for s in document["timeline"]), (40 << 20) * 31 // 32)

    def test_rss_as_text(self):
        """The changes of a process stand once, and what is nothing does not stand there."""
        out = subprocess.run([MALLOW, "probe", "rss", "--", "/bin/true"], capture_output=True, text=True, timeout=600,
                             check=True)
        head, *rows = out.stdout.split("\n\n")[1].splitlines()
        self.assertRegex(head, r"^ +changes +size +peak$")
        self.assertRegex(rows[0], r"^ +[0-9,]+ +[0-9.]+ [KM]B +[0-9.]+ [KM]B  true pid \d+ resident$")
        self.assertGreater(len(rows), 1)
        for row in rows[1:]:
            self.assertRegex(row, r"^ {14,}[0-9.]+ [KM]?B +[0-9.]+ [KM]?B  true pid \d+ \w+$")
            self.assertNotIn(" 0 B ", row)

    def test_rss_of_a_process_that_does_nothing(self):
        with idle() as p:
            document = self.probe("rss", "-d", "200ms", "-p", p.pid)
            with open(f"/proc/{p.pid}/statm", encoding="ascii") as f:
                resident = int(f.read().split()[1]) * PAGE
            self.assertLessEqual(abs(document["processes"][0]["resident_bytes"] - resident), 256 * PAGE)

    def test_rss_of_all_lists_who_does_nothing(self):
        """And of a name, or of a process with the children that it has."""
        with idle() as p, subprocess.Popen(["sh", "-c", "cat; :"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as shell:
            self.addCleanup(shell.kill)
            for _ in range(12000):
                with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as f:
                    child = f.read().split()
                if child:
                    break
            child = int(child[0])
            reads(child)
            for options, listed, others in ((["-a"], {p.pid, shell.pid, child}, set()), (["-a", "--comm", "cat"], {p.pid, child}, {shell.pid}),
                                            (["-p", str(shell.pid)], {shell.pid, child}, {p.pid})):
                found = {row["pid"]: row for row in self.probe("rss", "-d", "100ms", *options)["processes"]}
                self.assertLessEqual(listed, set(found))
                self.assertEqual(others & set(found), set())
                for pid in listed:
                    with open(f"/proc/{pid}/status", encoding="ascii") as f:
                        status = dict(line.split(":", 1) for line in f)
                    self.assertEqual(found[pid]["comm"], status["Name"].strip())
                    self.assertEqual(found[pid]["anonymous_bytes"] + found[pid]["swap_bytes"],
                                     (int(status["RssAnon"].split()[0]) + int(status["VmSwap"].split()[0])) * 1024)
            shell.stdin.close()

    def test_slab(self):
        def talk(p, probe):
            self.go(p, probe)
            self.assertEqual(p.stdout.readline(), b"open\n")
            self.go(p, probe)

        def files(document):
            return sum(c["calls"] for c in document["callers"] if c["cache"] == "filp" and c["comm"] == "memory_victim")

        document, _ = self.beside("slab", [], "files", talk)
        self.assertEqual(files(document), 300)
        for row in document["callers"]:
            self.assertGreaterEqual(row["allocated_bytes"], row["requested_bytes"])
            self.assertTrue(row["function"])

    def test_slab_that_lives(self):
        def talk(p, probe):
            self.go(p, probe)
            self.assertEqual(p.stdout.readline(), b"open\n")
            probe.send_signal(2)
            probe.wait(600)
            self.go(p, probe)

        def files(document):
            return sum(c["calls"] for c in document["callers"] if c["cache"] == "filp" and c["comm"] == "memory_victim")

        document, _ = self.beside("slab", ["--live"], "files", talk)
        self.assertEqual(files(document), 300)
        names = sum(c["calls"] for c in document["callers"] if c["cache"] == "names_cache")
        self.assertEqual(names, 0)  # each open takes one and gives it back

    def test_slab_against_the_kernels_table(self):
        """Objects that are there afterwards against what /proc/slabinfo says came. Its rows count a processor's own
        slabs as if they were full, and the files of all processes: one look in which no others came or went will do."""
        def objects():
            with open("/proc/slabinfo", encoding="ascii") as f:
                rows = [line.split() for line in f]
            return {row[0]: (int(row[1]), int(row[3])) for row in rows[2:]}

        try:
            if "filp" not in objects():
                self.skipTest("SKIPPED, LOUDLY: /proc/slabinfo has no row for filp")
        except OSError as problem:
            self.skipTest(f"SKIPPED, LOUDLY: {problem}")
        looks = []

        def talk(p, probe):
            looks.append(objects()["filp"])
            self.go(p, probe)
            self.assertEqual(p.stdout.readline(), b"open\n")
            looks.append(objects()["filp"])
            probe.send_signal(2)
            probe.wait(600)
            self.go(p, probe)

        came = 0
        while abs(came - 12000) > 600:
            self.assertLess(len(looks), 2 * 20, looks)
            document, _ = self.beside("slab", ["--live"], "files 12000", talk)
            rows = [c for c in document["callers"] if c["cache"] == "filp" and c["comm"] == "memory_victim"]
            self.assertEqual(sum(c["calls"] for c in rows), 12000)
            came = looks[-1][0] - looks[-2][0]
        size = looks[-1][1]
        self.assertLessEqual(abs(sum(c["allocated_bytes"] for c in rows) - came * size), 600 * size)

    def test_swapin(self):
        limited = group(self, 48 << 20)
        swap_file(self)
        before = vmstat()
        document = self.probe("swapin", "--", *limited.command(victim("memory_victim"), "large"))
        after = vmstat()
        # Others of this machine may swap as well.
        self.assertGreater(document["pages_in"], 1000)
        self.assertLessEqual(document["pages_in"], after["pswpin"] - before["pswpin"])
        self.assertTrue(0 < document["major_faults"] <= after["pgmajfault"] - before["pgmajfault"])
        self.assertGreater(document["major_fault_ns"], 0)
        # One read of each fault that waits is its own; the rest came ahead.
        demanded = document["pages_in"] - document["readahead_pages_in"]
        self.assertTrue(document["major_faults"] * 9 // 10 <= demanded <= document["major_faults"], document)
        # The histogram of waiting is of the same faults, and each class holds what belongs there.
        histogram = document["histogram"]
        self.assertEqual(sum(h["major_faults"] for h in histogram), document["major_faults"])
        self.assertEqual(sum(h["major_fault_ns"] for h in histogram), document["major_fault_ns"])
        for h in histogram:
            mean = h["major_fault_ns"] / h["major_faults"]
            self.assertTrue(h["min_ns"] <= mean <= h["max_ns"], h)
        # Those of the processes add up to it: the shell that becomes the victim may wait for a page, too.
        sums = {}
        for h in [h for p in document["processes"] for h in p["histogram"]]:
            of = sums.setdefault((h["min_ns"], h["max_ns"]), {"major_faults": 0, "major_fault_ns": 0})
            for key in of:
                of[key] += h[key]
        self.assertEqual(sums, {(h["min_ns"], h["max_ns"]): {"major_faults": h["major_faults"], "major_fault_ns": h["major_fault_ns"]}
                                for h in histogram})
        self.assertLessEqual(document["pages_out"], after["pswpout"] - before["pswpout"])

    def test_zeros_from_swap(self):
        """Pages of zeros come back without being read; newer kernels count them apart."""
        limited = group(self, 48 << 20)
        swap_file(self)
        before = vmstat()
        if "swpin_zero" not in before:
            self.skipTest("SKIPPED, LOUDLY: this kernel keeps pages of zeros like others")
        document = self.probe("swapin", "--", *limited.command(victim("memory_victim"), "zeros"))
        after = vmstat()
        self.assertGreater(document["zero_pages_in"], 1000)
        self.assertLessEqual(document["zero_pages_in"], after["swpin_zero"] - before["swpin_zero"])
        self.assertEqual(document["zero_pages_in"], sum(p["zero_pages_in"] for p in document["processes"]))
        self.assertGreaterEqual(document["zero_pages_in"] + document["pages_in"], document["major_faults"] * 9 // 10)

    def test_reclaim_at_a_limit(self):
        limited = group(self, 48 << 20)
        swap_file(self)
        document = self.probe("reclaim", "--", *limited.command(victim("memory_victim"), "large"))
        rows = [e for e in document["events"] if e["function"] == "reclaim at the group's limit"
                and e["comm"] == "memory_victim"]
        self.assertEqual(len(rows), 1)
        self.assertGreaterEqual(rows[0]["reclaimed_pages"], (96 - 48) * 256)
        self.assertGreaterEqual(rows[0]["scanned_pages"], rows[0]["reclaimed_pages"] // 2)
        self.assertGreater(rows[0]["stalled_ns"], 0)

    def test_killed_for_lack_of_memory(self):
        limited = group(self, 48 << 20, swap=False)
        document = self.probe("reclaim", "--", *limited.command(victim("memory_victim"), "large"), status=137)
        rows = [e for e in document["events"] if e["function"] == "killed: out of memory"]
        self.assertEqual([(r["count"], r["comm"]) for r in rows], [(1, "memory_victim")])


if __name__ == "__main__":
    main()
