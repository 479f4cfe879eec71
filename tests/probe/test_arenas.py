"""`probe arenas`: on an eight-thread program against its own malloc_info, and on a library that has
all of glibc's static probes with arguments of every form."""
import json
import os
import re
import subprocess
import tempfile

from probing import MALLOW, Case, main, mallow, victim

LIBRARY = victim("libnotes_victim.so")
ARENA = 0x7f1000000030


class Notes(Case):
    """The 29 probes, read from notes."""

    def events(self):
        document = self.probe("arenas", "--lib", LIBRARY, "--", victim("notes_main"), status=1)
        return document, [(e["event"], e["arguments"]) for e in document["events"]]

    def test_every_probe_and_every_form_of_argument(self):
        document, events = self.events()
        self.assertIn("30 static probes of", document["source"])
        heap = 0x7f1000000000
        [wait] = [a for name, a in events if name == "arena_reuse_wait"]
        self.assertEqual(events, [
            ("heap_new", [heap, 135168]), ("heap_new", [heap + (64 << 20), 200704]), ("heap_more", [heap, 139264]),
            ("heap_less", [heap, 135168]), ("heap_free", [heap + (64 << 20), 0x31000]), ("arena_new", [ARENA, 136]),
            ("arena_reuse", [ARENA, 0]), ("arena_reuse_free_list", [ARENA]),
            ("arena_reuse_wait", [wait[0], ARENA, 0]), ("arena_retry", [77, ARENA]), ("sbrk_more", [heap, 266240]),
            ("sbrk_less", [heap, 4096]), ("malloc_retry", [0x2345, 0]), ("realloc_retry", [0x45, ARENA]),
            ("memalign_retry", [-2, 65534]), ("calloc_retry", [-9]), ("tcache_double_free", [ARENA, events[16][1][1]]),
            ("mallopt", [-3, 262144]), ("mallopt_free_dyn_thresholds", [65536, 131072]), ("mallopt_mxfast", [-1, 128]),
            ("mallopt_trim_threshold", [500000, 131072, 0]), ("mallopt_top_pad", [7, 0, 1]),
            ("mallopt_mmap_threshold", [heap, 65536, 1]), ("mallopt_mmap_max", [9, 65536, 1]),
            ("mallopt_perturb", [1, 0]), ("mallopt_arena_test", [2, 8]), ("mallopt_arena_max", [4, 0]),
            ("tunable_tcache_max_bytes", [1032, 1040]), ("tunable_tcache_count", [7, 7]),
            ("tunable_tcache_unsorted_limit", [0, 3])])

    def test_what_they_amount_to(self):
        document, _ = self.events()
        self.assertEqual(document["sbrk_bytes"], 266240 - 4096)
        self.assertEqual(document["heaps"], [{"address": "0x7f1000000000", "bytes": 135168}])
        self.assertEqual([(a["address"], a["main"], len(a["threads"])) for a in document["arenas"]],
                         [(hex(ARENA), False, 1)])
        self.assertEqual([w["count"] for w in document["waits"]], [1])
        self.assertEqual((document["mmap_threshold_bytes"], document["trim_threshold_bytes"]),
                         (0x7f1000000000, 500000))

    def test_the_summary_of_the_founding_script(self):
        out = mallow("probe", "arenas", "--lib", LIBRARY, "--", victim("notes_main"))
        self.assertEqual(out.returncode, 1, out.stderr)
        text = re.sub(r"\b\d{2,6}\b(?=:| ->)", "TID", out.stdout)
        self.assertIn("TID: New heap\nTID: New heap\nTID: Created new arena\n", text)
        self.assertIn("TID: New thresholds:: mmap: 65536 bytes, trim: 131072 bytes\n", text)
        self.assertTrue(text.endswith("Contention:\n\tTID: 1 waits\nActive arenas:\n\tTID -> 0x7f1000000030\n"
                                      "Allocated heaps:\n\t0x7f1000000000 -> 135168 bytes\n"
                                      "Total sbrk: 262144 bytes\n"
                                      f"Mmap threshold in the end: {0x7f1000000000 // 1024} kb\n"), text)


class Symbols(Case):
    """The functions of the C library that its debug symbols name."""

    def compare(self, **env):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            out = subprocess.run([MALLOW, "probe", "arenas", "--json", "-o", path, "--", victim("arenas_victim")],
                                 capture_output=True, text=True, check=False, env=dict(os.environ, **env))
            if "neither glibc's static probes nor debug symbols" in out.stderr:
                self.assertIn("apt-get install libc6-dbg", out.stderr)
                self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg)")
            self.assertEqual(out.returncode, 0, out.stderr)
            with open(path, encoding="utf-8") as f:
                document = json.load(f)
        self.assertEqual(document["lost"], 0)
        total, info = out.stdout.split("\n", 1)
        # Of each arena its "current" system bytes; the last is the sum.
        sizes = [int(n) for n in re.findall(r'<system type="current" size="(\d+)"/>', info)]
        self.assertEqual(document["sbrk_bytes"], sizes[0])
        self.assertEqual(sorted(h["bytes"] for h in document["heaps"]), sorted(sizes[1:-1]))
        self.assertEqual(document["sbrk_bytes"] + sum(h["bytes"] for h in document["heaps"]), int(total))
        self.assertEqual(document["mmap_threshold_bytes"], 1200128)
        self.assertEqual(document["trim_threshold_bytes"], 2 * 1200128)
        return document

    def test_it_agrees_with_malloc_info(self):
        document = self.compare()
        names = [e["event"] for e in document["events"]]
        self.assertEqual((names.count("heap_new"), names.count("arena_new")), (8, 8))
        self.assertEqual([e["arguments"] for e in document["events"] if e["event"] == "mallopt_free_dyn_thresholds"],
                         [[303104, 606208], [602112, 1204224], [1200128, 2400256]])
        self.assertEqual([a["main"] for a in document["arenas"]].count(True), 1)

    def test_with_few_arenas(self):
        document = self.compare(MALLOC_ARENA_MAX="3")
        names = [e["event"] for e in document["events"]]
        self.assertEqual(names.count("arena_new"), 2)
        self.assertGreaterEqual(names.count("arena_reuse"), 6)
        self.assertEqual(len(document["arenas"]), 3)


if __name__ == "__main__":
    main()
