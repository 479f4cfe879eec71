"""`mallow record --with`: what the kernel tells beside the calls, against a program whose memory is known."""
import json
import os
import shutil
import subprocess
import sys

from mallowtest import MALLOW
from probing import Case, main, mallow, victim
from swapping import group, swap_file, vmstat

PAGE = 4096


class Record(Case):
    def setUp(self):
        self.file = os.path.join(self.folder, "out.mlw")

    def record(self, *arguments, status=0):
        """Records; returns what the program printed."""
        out = mallow("record", "-q", "-o", self.file, *arguments)
        if "libc6-dbg" in out.stderr:
            self.skipTest("SKIPPED, LOUDLY: no debug symbols of glibc (libc6-dbg) here")
        err = [line for line in out.stderr.splitlines() if "no swap is configured" not in line]
        self.assertEqual((out.returncode, err), (status, []))
        return out.stdout

    def report(self, *arguments):
        out = mallow("report", "--json", *arguments, self.file)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def dump(self):
        out = mallow("dump", "--json", "--names", self.file)
        self.assertEqual(out.returncode, 0, out.stderr)
        return [json.loads(line) for line in out.stdout.splitlines()]

    @staticmethod
    def sites(process):
        found = {}
        for site in process["sites"]:
            for frame in site["frames"]:
                if frame["function"].startswith("make_"):
                    found[frame["function"]] = (site["minor_faults"], site["major_faults"])
        return found

    def test_faults_by_site(self):
        before, minor, _ = map(int, self.record("--with", "faults", "--", victim("blocks_victim")).split())
        document = self.report()
        self.assertEqual(document["kernel"], {"kinds": ["faults"], "lost_events": 0})
        [process] = document["processes"]
        found = self.sites(process)
        # The first page of a large block is touched by malloc itself, before the block is there.
        self.assertEqual(found["make_touched"], (600, 0))
        self.assertEqual(found["make_untouched"], (1, 0))
        # Chunks of 2048 bytes, one behind the other, in a heap of which some pages were there.
        self.assertTrue(996 <= found["make_small"][0] <= 1001, found)
        faults = process["page_faults"]
        self.assertEqual(faults["minor"] + faults["major"], sum(p["minor"] + p["major"] for p in faults["places"]))
        self.assertEqual(faults["minor"], sum(p["minor"] for p in faults["accesses"]))
        places = {p["place"]: p["minor"] for p in faults["places"]}
        self.assertEqual(places["mapping"], 50)
        self.assertEqual(places["block"], sum(s["minor_faults"] for s in process["sites"]))
        # Before main there are those from the exec on, and getrusage has some from before it.
        self.assertTrue(minor - before <= faults["minor"] <= minor + 100, (before, minor, faults))

        # Faults belong to no block: a filter of blocks, whichever, leaves them out.
        for options in (["--size", "1.."], ["--time", "1ns..", "--only-new"], ["--function", "make_*"]):
            [filtered] = self.report(*options)["processes"]
            self.assertNotIn("page_faults", filtered, options)

    def test_faults_of_a_child(self):
        self.record("--with", "faults", "--", victim("blocks_victim"), "fork")
        parent, child = self.report()["processes"]
        self.assertEqual(child["ppid"], parent["pid"])
        # The child's blocks are its parent's: 70 pages are copied when it writes to them.
        copied = {a["access"]: a["minor"] for a in child["page_faults"]["accesses"]}["copy on write"]
        self.assertGreaterEqual(copied, 70)
        blocks = {p["place"]: p["minor"] for p in child["page_faults"]["places"]}["block"]
        self.assertEqual(blocks, 70)

    def test_dump(self):
        self.record("--with", "faults,rss", "--", victim("blocks_victim"))
        events = self.dump()
        times = [e["time_ns"] for e in events]
        self.assertEqual(times, sorted(times))
        faults = [e for e in events if e["kind"] in ("minor-fault", "major-fault")]
        faults = [f for f in faults if "make_touched" in " ".join(f.get("frames", []))]
        self.assertEqual(len(faults), 600)
        self.assertEqual({f["place"] for f in faults}, {"block"})
        pages = {int(f["address"], 16) // PAGE for f in faults}
        self.assertEqual((len(pages), max(pages) - min(pages)), (600, 599))
        levels = [e["resident_bytes"] for e in events if e["kind"] == "resident"]
        self.assertGreater(len(levels), 10)
        text = mallow("dump", self.file).stdout
        self.assertEqual(text.count("-fault: "), len([e for e in events if e["kind"].endswith("-fault")]))

    def test_rss(self):
        *_, anonymous = map(int, self.record("--with", "rss", "--", victim("blocks_victim")).split())
        [process] = self.report()["processes"]
        largest = max(s["anonymous_bytes"] for s in process["resident_exact"])
        self.assertLessEqual(abs(largest - anonymous), 16 * PAGE)
        levels = [s["resident_bytes"] for s in process["resident_exact"]]
        self.assertEqual(max(levels), process["peak_resident_bytes"])
        self.assertEqual([s["rss_bytes"] for s in process["resident"]], levels)
        times = [s["time_ns"] for s in process["resident_exact"]]
        self.assertEqual(times, sorted(times))

    def test_text(self):
        self.record("--with", "faults,rss", "--", victim("blocks_victim"))
        text = mallow("report", self.file).stdout
        self.assertRegex(text, r"Page faults: [0-9,]+ minor, 0 major")
        self.assertRegex(text, r"\n +600 +make_touched ")
        self.assertRegex(text, r"\n +50 +in mappings of the program")
        self.assertIn("Resident size, as the kernel counted it", text)
        self.assertNotIn("Page faults", mallow("report", "--function", "main", self.file).stdout)

    def test_window_of_time(self):
        self.record("--with", "faults", "--", victim("blocks_victim"))
        [whole] = self.report()["processes"]
        [part] = self.report("--time", "0..100us")["processes"]
        self.assertLess(part["page_faults"]["minor"], whole["page_faults"]["minor"])

    def test_slices_of_time(self):
        # What allocates and touches a tenth of a second apart is in many slices even when the machine stands still
        # for some seconds.
        self.record("--with", "faults,swapin", "--", sys.executable, "-c",
                    "import time\nx = []\nfor i in range(9):\n    time.sleep(0.1)\n    x.append(b'x' * 300000)")
        [process] = self.report()["processes"]
        slices = process["page_timeline"]
        self.assertEqual([s["time_ns"] for s in slices], [s["time_ns"] for s in process["timeline"]])
        self.assertEqual((sum(s["minor_faults"] for s in slices), sum(s["major_faults"] for s in slices)),
                         (process["page_faults"]["minor"], process["page_faults"]["major"]))
        self.assertEqual(sum(s["swapped_in_pages"] for s in slices),
                         sum(e["pages"] for e in process["kernel_events"] if e["event"] == "swap-in"))
        self.assertGreater(len([s for s in slices if s["minor_faults"]]), 3)
        # A slice is what a report of its time says; the first and the last have what lies outside.
        start = process["start_ns"]
        most = max(range(1, len(slices) - 1), key=lambda i: slices[i]["minor_faults"])
        [part] = self.report("--time", f"{start + slices[most - 1]['time_ns']}ns.."
                             f"{start + slices[most]['time_ns'] - 1}ns")["processes"]
        self.assertEqual(part["page_faults"]["minor"], slices[most]["minor_faults"])
        self.assertNotIn("page_timeline", self.report("--function", "main")["processes"][0])
        self.record("--with", "rss", "--", victim("blocks_victim"))
        self.assertNotIn("page_timeline", self.report()["processes"][0])

    def test_pages_from_swap(self):
        limited = group(self, 48 << 20)
        swap_file(self)
        before = vmstat()
        majors = int(self.record("--with", "swapin,faults", "--", *limited.command(victim("memory_victim"), "swapped")))
        machine = {name: value - before[name] for name, value in vmstat().items()}
        document = self.report()
        self.assertEqual(document["kernel"], {"kinds": ["faults", "swapin"], "lost_events": 0})
        process = document["processes"][-1]  # the first is the shell that it was
        self.assertEqual(process["command"][1:], ["swapped"])
        events, pages = {}, {}
        for e in process["kernel_events"]:
            events[e["event"]] = events.get(e["event"], 0) + 1
            pages[e["event"]] = pages.get(e["event"], 0) + e["pages"]
        # Before and after its main, and in its code, there are some more.
        places = {p["place"]: p["major"] for p in process["page_faults"]["places"]}
        self.assertTrue(0 <= majors - places["mapping"] <= 100, (majors, process["page_faults"]))
        self.assertTrue(0 <= process["page_faults"]["major"] - majors <= 100, (majors, process["page_faults"]))
        self.assertEqual(events["major-fault-wait"], process["page_faults"]["major"])
        # A major fault brings in its page and some around it. Others of this machine may swap as well.
        self.assertTrue(places["mapping"] <= pages["swap-in"] <= machine["pswpin"], (pages, machine))
        self.assertTrue((96 - 48) * 256 <= pages["swap-out"] <= machine["pswpout"], (pages, machine))
        self.assertEqual(sum(s["swapped_in_pages"] for s in process["page_timeline"]), pages["swap-in"])
        self.assertEqual(sum(s["major_faults"] for s in process["page_timeline"]), process["page_faults"]["major"])
        self.assertIn("Pages from and to swap", mallow("report", self.file).stdout)

    def test_arenas(self):
        self.record("--with", "arenas", "--", victim("blocks_victim"))
        document = self.report()
        self.assertEqual(document["kernel"]["kinds"], ["arenas"])
        events = [e["event"] for e in document["processes"][0]["kernel_events"]]
        # 2000 chunks of 2048 bytes make the heap grow from 132 KB to over 4 MB, in steps of as much.
        self.assertGreaterEqual(events.count("sbrk_more"), 30)
        self.assertIn("glibc's allocator from inside", mallow("report", self.file).stdout)

    def test_raw_and_sealed_say_the_same(self):
        self.record("--with", "faults,rss", "--keep-raw", "--", victim("blocks_victim"))
        copy = self.file + ".raw"
        shutil.copy(self.file, copy)
        out = subprocess.run([MALLOW, "dump", copy], capture_output=True, text=True, check=True)
        # The clock's rate is known better later: the times may differ in the last digits.
        self.assertEqual([line[20:] for line in out.stdout.splitlines()],
                         [line[20:] for line in mallow("dump", self.file).stdout.splitlines()])

    def test_status_is_the_program_s(self):
        self.record("--with", "rss", "--", "/bin/sh", "-c", "exit 7", status=7)

    def test_program_that_is_not_there(self):
        out = mallow("record", "-o", self.file, "--with", "rss", "--", "/nowhere/at/all")
        self.assertEqual(out.returncode, 127)
        self.assertFalse(os.path.exists(self.file))


if __name__ == "__main__":
    main()
