"""`probe sizes` and `probe calls` on a program whose calls are known, from its first instruction on."""
import json
import os
import shutil
import signal
import subprocess

from mallowtest import MALLOW
from probing import Case, attached, for_others, idle, main, mallow, reads, victim

# What calls_victim asks for: its constructor runs in it and in the program that its child executes.
CONSTRUCTOR, MAIN, THREADS, CHILD, LEAF, FAMILY = 2 * 12345, 655, 4 * 250, 500, 77, 10
# glibc's own calls for each thread (calloc of its TLS descriptors, in the class of 272 bytes).
BY_SIZE = {16: CONSTRUCTOR, 32: LEAF, 64: MAIN, 512: THREADS, 2048: FAMILY, 4096: CHILD,
           65536: 2 * FAMILY, 131072: FAMILY, 262144: 2 * FAMILY}
OWN_CLASS = 256


class Sizes(Case):
    def histogram(self, document):
        for row in document["histogram"]:
            self.assertTrue(row["min_bytes"] * row["calls"] <= row["bytes"] <= row["max_bytes"] * row["calls"], row)
            self.assertTrue(row["max_bytes"] == 2 * row["min_bytes"] - 1 or row["max_bytes"] == 0)
        return {row["min_bytes"]: row["calls"] for row in document["histogram"]}

    def test_every_call_from_the_first_instruction(self):
        document = self.probe("sizes", "--", victim("calls_victim"))
        found = self.histogram(document)
        self.assertLessEqual(found.pop(OWN_CLASS, 0), 4)
        self.assertEqual(found, BY_SIZE)
        self.assertEqual(document["calls"], sum(r["calls"] for r in document["histogram"]))
        self.assertEqual(document["bytes"], sum(r["bytes"] for r in document["histogram"]))

    def test_without_children(self):
        found = self.histogram(self.probe("sizes", "--no-follow", "--", victim("calls_victim")))
        found.pop(OWN_CLASS, 0)
        self.assertEqual(found, {16: 12345, 64: MAIN, 512: THREADS, 2048: FAMILY, 65536: 2 * FAMILY,
                                 131072: FAMILY, 262144: 2 * FAMILY})

    def test_a_static_program(self):
        program = victim("calls_victim_static")
        found = self.histogram(self.probe("sizes", "--", program))
        expected = {k: BY_SIZE[k] for k in (16, 64, 512, 2048, 4096)}
        # A static glibc keeps the name of the program's folder, in each of the two programs.
        origin = 1 << (len(os.path.dirname(program)) + 2).bit_length() - 1  # a slash and a NUL
        if origin in expected:
            expected[origin] += 2
        self.assertEqual({k: found[k] for k in expected}, expected)

    def test_by_process(self):
        document = self.probe("sizes", "--by", "process", "--", victim("calls_victim"))
        groups = sorted(document["groups"], key=lambda g: g["calls"])
        # The executed program has the child's id, so its rows are the child's, under another name.
        self.assertEqual(len({g["pid"] for g in groups}), 2)
        self.assertEqual(sum(g["calls"] for g in groups), document["calls"])
        child = min({g["pid"] for g in groups}, key=lambda pid: sum(g["calls"] for g in groups if g["pid"] == pid))
        self.assertEqual(sum(g["calls"] for g in groups if g["pid"] == child), 12345 + CHILD + LEAF)

    def test_in_the_order_of_a_figure(self):
        orders = []
        for field in ("calls", "bytes"):
            groups = self.probe("sizes", "--by", "function", "--order", field, "--", victim("calls_victim"))["groups"]
            self.assertEqual([g[field] for g in groups], sorted((g[field] for g in groups), reverse=True))
            orders.append([g["function"] for g in groups])
        self.assertEqual(sorted(orders[0]), sorted(orders[1]))
        self.assertNotEqual(*orders)

    def test_by_thread(self):
        document = self.probe("sizes", "--by", "thread", "--", victim("calls_victim"))
        calls = sorted(g["calls"] for g in document["groups"])
        self.assertEqual(calls.count(250), 4)

    def test_whole_stacks_without_frame_pointers(self):
        document = self.probe("sizes", "--by", "stack", "--", victim("calls_victim"))
        self.assertEqual(document["cut_stacks"], 0)
        found = {}
        for group in document["groups"]:
            names = [f["function"] for f in group["frames"]]
            self.assertIn(names[-1], ("_start", "clone3", "__clone3", "__clone"), names)
            if "some" in names:
                key = tuple(n for n in names[1:] if n in ("some", "main", "thread"))
                found[key] = found.get(key, 0) + group["calls"]
        self.assertEqual(found, {("some",): CONSTRUCTOR, ("some", "main"): MAIN + CHILD + LEAF,
                                 ("some", "thread"): THREADS})

    def test_whole_stacks_while_the_memory_map_changes(self):
        """When the kernel cannot be asked what lies at an address, it is known already."""
        with subprocess.Popen([victim("mapping_victim")], stdin=subprocess.PIPE) as p:
            reads(p)
            with subprocess.Popen([MALLOW, "probe", "sizes", "--json", "--by", "stack", "-p", str(p.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
                attached(probe)
                p.communicate(b"g")
                text, err = probe.communicate(timeout=600)
        self.assertEqual((p.returncode, probe.returncode), (0, 0), err)
        document = json.loads(text)
        self.assertEqual((document["calls"], document["cut_stacks"]), (64, 0))
        found = {f["function"] for g in document["groups"] for f in g["frames"] if f["function"].startswith("make_")}
        self.assertEqual(found, {f"make_{a}{b}" for a in range(1, 9) for b in range(8)})
        self.assertEqual({g["frames"][2]["function"] for g in document["groups"]}, {"main"})

    def test_folded(self):
        out = mallow("probe", "sizes", "--folded", "--by", "stack", "--", victim("calls_victim"))
        self.assertEqual(out.returncode, 0, out.stderr)
        lines = dict(line.rsplit(" ", 1) for line in out.stdout.splitlines())
        self.assertEqual(sum(int(n) for key, n in lines.items() if key.endswith(";thread;some;__GI___libc_malloc")
                             or key.endswith(";thread;some;malloc")), THREADS)

    def test_intervals_add_up(self):
        # One document a line; the last has the sums, which what came after the last interval belongs to.
        with subprocess.Popen([MALLOW, "probe", "sizes", "--json", "-i", "20ms", "--", victim("calls_victim"), "wait"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as probe:
            documents = [json.loads(probe.stdout.readline())]
            # until the victim has done its first part, and waits
            while documents[-1]["calls"] or not any(d["calls"] for d in documents):
                documents.append(json.loads(probe.stdout.readline()))
            probe.stdin.write("g")
            probe.stdin.close()
            rest = probe.stdout.read()  # not communicate: it would pass over what readline has read ahead
            probe.wait(600)
            self.assertEqual(probe.returncode, 0)
        documents += [json.loads(line) for line in rest.splitlines()]
        told = sum(d["calls"] for d in documents[:-1])
        self.assertTrue(0 < told <= documents[-1]["calls"], (told, documents[-1]["calls"]))
        # each says how long it was itself, and which it is; the last is of all and has no number
        times = [d["duration_ns"] for d in documents]
        self.assertLessEqual(sum(times[:-1]), times[-1])
        self.assertEqual([d.get("interval") for d in documents], [*range(1, len(documents)), None])

    def test_a_running_process(self):
        with subprocess.Popen([victim("calls_victim"), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            reads(p)
            with subprocess.Popen([MALLOW, "probe", "sizes", "--json", "-p", str(p.pid)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as probe:
                attached(probe)
                p.stdin.write(b"g")
                p.stdin.flush()
                text, err = probe.communicate(timeout=600)
            self.assertEqual(probe.returncode, 0, err)
        self.assertIn(f'"min_bytes":64,"max_bytes":127,"calls":{MAIN},', text)
        self.assertNotIn('"min_bytes":16,"max_bytes":31,"calls":24690,', text)


class Calls(Case):
    def functions(self, document):
        return {f["function"]: f["calls"] for f in document["functions"]}

    def test_the_allocator(self):
        found = self.functions(self.probe("calls", "--", victim("calls_victim")))
        # glibc's realloc(NULL) goes to malloc, and its reallocarray to realloc: two calls each.
        self.assertEqual(found["malloc"], CONSTRUCTOR + LEAF + MAIN + THREADS + CHILD + 2 * FAMILY)
        self.assertEqual(found["realloc"], 3 * FAMILY)
        self.assertEqual((found["posix_memalign"], found["reallocarray"]), (FAMILY, FAMILY))
        self.assertGreaterEqual(found["free"], CONSTRUCTOR + LEAF + MAIN + THREADS + CHILD + 6 * FAMILY)

    def test_named_functions_by_a_glob(self):
        found = self.functions(self.probe("calls", "--function", "posix_mem*", "--function", "pthread_create", "--",
                                          victim("calls_victim")))
        self.assertEqual((found["posix_memalign"], found["pthread_create"]), (FAMILY, 4))

    def test_another_allocator(self):
        library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
        if not os.access(library, os.R_OK):
            self.skipTest("SKIPPED, LOUDLY: libjemalloc2 is not installed")
        found = self.functions(self.probe("calls", "--lib", "jemalloc", "--", victim("calls_victim"),
                                          env={"LD_PRELOAD": library}))
        self.assertEqual(found["posix_memalign"], FAMILY)
        self.assertGreaterEqual(found["malloc"], CONSTRUCTOR + LEAF + MAIN + THREADS + CHILD)

    def test_every_function_of_the_c_library(self):
        document = self.probe("calls", "--lib", "libc.so.6", "--no-follow", "--", "/bin/true")
        self.assertIn("of ", document["source"])
        self.assertGreater(int(document["source"].split(": ")[1].split()[0]), 1500)


class Capabilities(Case):
    """A user with CAP_BPF and CAP_PERFMON needs no root."""

    def test_without_root(self):
        if not shutil.which("setpriv"):
            self.skipTest("SKIPPED, LOUDLY: no setpriv (util-linux) here")
        for_others(self)
        for kind in ("sizes", "calls", "brk", "faults", "slab", "reclaim", "rss"):
            out = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                  "--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon", MALLOW, "probe", kind,
                                  "--json", "--by", "process", "--", victim("calls_victim")],
                                 capture_output=True, text=True, check=False, timeout=600)
            if "perf events only" in out.stderr:
                self.skipTest("SKIPPED, LOUDLY: this kernel has no uprobe_multi")
            self.assertEqual(out.returncode, 0, (kind, out.stderr))
            document = json.loads(out.stdout)
            self.assertEqual(document["lost"], 0)
            if kind == "sizes":
                self.assertEqual(sum(r["calls"] for r in document["histogram"] if r["min_bytes"] == 16), CONSTRUCTOR)


class Ends(Case):
    def test_the_status_is_the_program_s(self):
        self.probe("sizes", "--", "/bin/sh", "-c", "exit 42", status=42)
        self.probe("sizes", "--", "/bin/sh", "-c", "kill -9 $$", status=137)

    def test_a_duration(self):
        with idle() as p:
            document = self.probe("sizes", "-d", "200ms", "-p", p.pid)
            self.assertGreaterEqual(document["duration_ns"], 200_000_000)
            self.assertIsNone(p.poll())

    def test_ctrl_c_ends_it_and_prints(self):
        with idle() as p:
            with subprocess.Popen([MALLOW, "probe", "calls", "--json", "--lib", "libc.so.6", "-p", str(p.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
                attached(probe)
                probe.send_signal(signal.SIGINT)
                out, err = probe.communicate(timeout=600)
                self.assertEqual(probe.returncode, 0, err)
                self.assertIn('"probe":"calls"', out)
            self.assertIsNone(p.poll())


if __name__ == "__main__":
    main()
