"""Every block, exactly: victims write down their own, standing still and running, in processes and cores.

MALLOW_LONG=1 looks 100 times at each shape of the heap.
"""
import os
import resource
import shutil
import signal
import subprocess
import unittest

from mallowtest import LONG, MALLOW
from heaptest import HeapTest, tool
from mallowtest.hugepages import huge_pages
from mallowtest.libcfacts import STATIC_OWN



class Checked(HeapTest):
    def check(self, target, truth_file, threads, own=2, cached_mapped=False):
        known, mallinfo = self.truth(truth_file)
        found, rest = self.blocks(target)
        self.assertTrue(rest["verified"].startswith("1"), rest)
        self.assertEqual([hex(a) for a in known if a not in found], [], "live blocks that were not found")
        self.assertEqual({hex(a): (n, found[a]) for a, n in known.items() if found[a] != n}, {})
        # What glibc has of its own: the FILE, and for each thread the vector of its thread-local storage.
        extra = [n for a, n in found.items() if a not in known]
        self.assertLessEqual(len(extra), threads + own, extra)
        self.assertEqual(int(rest["free"]), mallinfo[1])  # fordblks, to the byte
        mapped = list(map(int, rest["mapped"].split()))
        if cached_mapped:  # since 2.43 a thread's cache may hold blocks with mappings of their own
            self.assertLessEqual(mapped[0], mallinfo[2])
            mapped[0] = mallinfo[2]
        self.assertEqual(mapped, mallinfo[2:4])
        return len(known)

    def victim(self, threads, blocks, *more, program="victim_blocks", **kwargs):
        return self.start(tool(program), os.path.join(self.folder, "truth"), str(threads), str(blocks), *more, **kwargs)


class Exact(Checked):
    def test_threads_and_arenas(self):
        for threads, blocks in ((1, 0), (1, 50), (1, 30000), (4, 10000), (40, 100)):
            with self.subTest(threads=threads, blocks=blocks):
                p = self.victim(threads, blocks)
                self.check(p.pid, os.path.join(self.folder, "truth"), threads)

    def test_again_and_again(self):
        p = self.victim(6, 300)
        for _ in range(100 if LONG else 8):
            self.check(p.pid, os.path.join(self.folder, "truth"), 6)

    @unittest.skipUnless(LONG, "MALLOW_LONG=1 looks at each shape of the heap 100 times")
    def test_every_shape_100_times(self):
        for threads, blocks, more in ((1, 30000, ()), (4, 5000, ()), (40, 100, ()), (2, 100000, ("small",))):
            with self.subTest(threads=threads, blocks=blocks):
                p = self.victim(threads, blocks, *more)
                for _ in range(100):
                    self.check(p.pid, os.path.join(self.folder, "truth"), threads)

    def test_a_million(self):
        p = self.victim(2, 1000000, "small")
        self.assertGreater(self.check(p.pid, os.path.join(self.folder, "truth"), 2), 900000)

    @unittest.skipUnless(LONG, "MALLOW_LONG=1 compares 10 million blocks")
    def test_ten_million(self):
        p = self.victim(2, 10000000, "small")
        self.assertGreater(self.check(p.pid, os.path.join(self.folder, "truth"), 2), 9900000)

    def test_static(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}  # libc keeps those
        p = self.victim(3, 3000, program="victim_blocks_static", env=clean)
        self.check(p.pid, os.path.join(self.folder, "truth"), 3, own=STATIC_OWN)

    def test_settings(self):
        """Other shapes of the heap: no caches, one arena, everything mapped, another top."""
        for tunables in ("glibc.malloc.tcache_count=0", "glibc.malloc.arena_max=1", "glibc.malloc.mmap_threshold=4096",
                         "glibc.malloc.tcache_count=100:glibc.malloc.mxfast=0", "glibc.malloc.perturb=165",
                         "glibc.malloc.tcache_max=100", "glibc.malloc.tcache_max=0:glibc.malloc.mmap_max=7",
                         "glibc.malloc.mmap_max=0:glibc.malloc.top_pad=0"):
            with self.subTest(tunables=tunables):
                p = self.victim(3, 2000, env=dict(os.environ, GLIBC_TUNABLES=tunables))
                self.check(p.pid, os.path.join(self.folder, "truth"), 3)

    def test_foreign_breaks(self):
        """Another part of the program moves the break between, and brk stops working."""
        p = self.start(tool("victim_breaks"), os.path.join(self.folder, "truth"))
        self.check(p.pid, os.path.join(self.folder, "truth"), 1)

    def test_a_wall(self):
        """The break cannot grow: the main arena goes on in mappings, and is contiguous no more."""
        for how in ("walled", "wall"):
            with self.subTest(how):
                p = self.start(tool("victim_breaks"), os.path.join(self.folder, "truth"), how)
                self.check(p.pid, os.path.join(self.folder, "truth"), 1)

    def test_every_rest_of_a_part(self):
        """The old top has 16 bytes to spare behind its last chunk, or none, or a chunk's worth: by brk and in mappings."""
        for kind in 0, 2:
            with self.subTest(kind=kind):
                p = self.start(tool("victim_breaks"), os.path.join(self.folder, "truth"), "rests",
                               env=dict(os.environ, GLIBC_TUNABLES=f"glibc.malloc.hugetlb={kind}"))
                self.check(p.pid, os.path.join(self.folder, "truth"), 1)

    def test_huge_pages(self):
        """Heaps of other sizes, and a main arena of mappings alone. One in eight heaps of 8 MiB begins where one of 64 MiB would."""
        for kind in 1, 2:
            for threads in (1, 3) if kind == 1 else (3, *[1] * 16):
                with self.subTest(kind=kind, threads=threads):
                    p = self.victim(threads, 2000 if threads > 1 else 30000,
                                    env=dict(os.environ, GLIBC_TUNABLES=f"glibc.malloc.hugetlb={kind}"))
                    self.check(p.pid, os.path.join(self.folder, "truth"), threads)

    def test_hugetlb_pages(self):
        """Heaps and blocks in pages of the kernel's pool, which have a name; a copy could take the last of them."""
        with huge_pages(60):
            p = self.victim(3, 2000, env=dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=2"))
            with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
                self.assertNotIn("HugetlbPages:\t       0 kB", f.read())
            self.check(p.pid, os.path.join(self.folder, "truth"), 3)
            self.assertEqual(self.heap_json(p.pid)["source"], "stopped")
            self.stop(p)

    def test_a_maze(self):
        """What looks like blocks from every address on: the search for the main heap's next part gives up."""
        p = self.start(tool("victim_breaks"), os.path.join(self.folder, "truth"), "maze")
        _, rest = self.blocks(p.pid)
        self.assertRegex(rest["verified"], "^0 where the main heap goes on behind 0x[0-9a-f]+ is not known")
        saved = os.path.join(self.folder, "maze.mlh")
        self.heap("-o", saved, str(p.pid))
        document = self.heap_json(saved)  # nothing is missing
        self.assertEqual((document["verified"], document["read_whole"]), (False, True))

    def test_guarded(self):
        """Pages of blocks are guarded, as those of coroutines' stacks: what lies above them is read."""
        p = self.start(tool("victim_guarded"))
        blocks = int(p.line.split()[1])
        if not blocks:
            self.skipTest("MADV_GUARD_INSTALL (Linux 6.13)")
        document = self.heap_json(p.pid)
        self.assertTrue(document["verified"], document.get("reason"))
        self.assertGreaterEqual(document["blocks"], blocks)
        self.assertEqual((document["unreachable_blocks"], document["unreachable_bytes"]), (0, 0))

    def test_while_it_runs(self):
        p = self.victim(3, 3000, "churn")
        known, _ = self.truth(os.path.join(self.folder, "truth"))
        for _ in range(20):
            found, rest = self.blocks(p.pid)
            self.assertTrue(rest["verified"].startswith(("1", "0")), rest)
            if rest["verified"].startswith("0"):
                continue  # stopped inside malloc; the command tries again, see below
            self.assertLessEqual(abs(len(found) - len(known)), 3 + 3 + 3)
        for _ in range(5):
            document = self.heap_json(p.pid)
            self.assertTrue(document["verified"])
            self.assertLessEqual(abs(document["blocks"] - len(known)), 3 + 3 + 3)
        self.assertIsNone(p.poll())


class Cores(Checked):
    def test_gcore(self):
        if not shutil.which("gcore"):
            self.skipTest("no gcore on this machine")
        p = self.victim(4, 2000)
        core = os.path.join(self.folder, "core")
        subprocess.run(["gcore", "-o", core, str(p.pid)], check=True, capture_output=True)
        self.check(f"{core}.{p.pid}", os.path.join(self.folder, "truth"), 4)
        live, dead = self.heap_json(p.pid), self.heap_json(f"{core}.{p.pid}")
        self.assertEqual(dead["source"], "core")
        self.assertEqual(dead["pid"], p.pid)
        for name in ("blocks", "used_bytes", "free_bytes", "cached_bytes", "unreachable_bytes"):
            self.assertEqual(live[name], dead[name], name)
        self.assertEqual([r["root"] for r in live["roots"] if r["kind"] == "variable"],
                         [r["root"] for r in dead["roots"] if r["kind"] == "variable"])

    def kernel_core(self, *command, coredump_filter=0x33):
        """A core of the kernel, or a skip that says why there is none."""
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
            pattern = f.read().strip()
        if pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"the kernel gives cores to {pattern}, not to a file here")
        limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        try:
            p = self.start(*command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limits))
        except subprocess.SubprocessError:
            self.skipTest("may not raise the limit of core files")
        with open(f"/proc/{p.pid}/coredump_filter", "w", encoding="ascii") as f:
            f.write(hex(coredump_filter))
        os.kill(p.pid, signal.SIGABRT)
        p.wait()
        cores = [n for n in os.listdir(self.folder) if n.startswith("core")]
        if not cores:
            self.skipTest(f"the kernel wrote no core here (core_pattern is {pattern})")
        return os.path.join(self.folder, cores[0])

    def test_kernel_core(self):
        truth = os.path.join(self.folder, "truth")
        core = self.kernel_core(tool("victim_blocks"), truth, "4", "2000")
        self.check(core, truth, 4)
        document = self.heap_json(core)
        self.assertTrue(document["verified"])
        self.assertEqual(document["threads"], 5)

    def test_cut_off(self):
        truth = os.path.join(self.folder, "truth")
        core = self.kernel_core(tool("victim_blocks"), truth, "2", "2000")
        whole = os.path.getsize(core)
        for share in (0.999, 0.9, 0.5, 0.1, 0.001):
            os.truncate(core, int(whole * share))
            p = subprocess.run([MALLOW, "heap", "--json", core], capture_output=True, text=True, check=False)
            self.assertIn(p.returncode, (0, 1))
            if p.returncode == 0:
                self.assertIn('"note":"the core file is cut off', p.stdout)
            else:
                self.assertRegex(p.stderr, "^mallow heap: ")

    def test_a_core_without_memory(self):
        core = self.kernel_core(tool("victim_leaks"), "3", coredump_filter=0)
        self.assertRegex(self.heap(core, status=1).stderr, "leaves out memory .* set bit 0 of /proc/PID/coredump_filter")
