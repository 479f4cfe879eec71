"""Each way by which a call can reach the allocator without passing the preloaded symbol (tests/victims/ways.c), under each
command: the table of docs/design/recorder.md. A cell says what becomes of the 2000 blocks of 12345 bytes that the way makes.

seen    their calls and their releases are, to the last; a sampler has their size, as far as samples tell
named   they are not, and the way is named
alone   they are not; nothing says so, and the program is as alone (reason in the document)

In every cell the program's output and exit status are those that it has alone."""
import ctypes
import json
import os
import struct
import subprocess

from mallowtest import ALLOCATORS, MALLOW, Case, library, run, victim

IN_ACCESS, IN_OPEN = 1, 0x20
BLOCKS, BYTES = 2000, 12345
KEPT = BLOCKS // 2
PLUGINS = {"deepbind": "ways_plugin.so", "namespace": "ways_plugin.so", "symbolic": "ways_plugin_symbolic.so",
           "static": "ways_plugin_own.so", "loader": "plug_a.so"}
# way: record, watch, watch --guard all, record -p, watch -p, heap
WAYS = {
    "plain": "seen seen seen seen seen seen",
    "deepbind": "seen seen seen seen seen seen",
    "handle": "seen seen seen seen seen seen",
    "libc": "seen seen seen seen seen seen",
    "pointer": "seen seen seen alone alone seen",
    "self": "seen seen seen seen seen seen",
    "symbolic": "named alone alone named alone alone",
    "namespace": "named named named named alone named",
    "static": "named alone alone named alone alone",
    "loader": "alone alone alone alone alone alone",
    "child": "seen seen seen seen seen alone",
}
# With another allocator behind: record, watch, watch --guard all, heap. An attached form refuses such a process.
BEHIND = {
    "plain": "seen seen seen refused",
    "deepbind": "named alone alone seen",
    "handle": "named alone alone seen",
    "libc": "seen seen seen refused",
    "pointer": "seen seen seen refused",
    "self": "seen seen seen refused",
    "symbolic": "named alone alone refused",
    "namespace": "named named named seen",
    "static": "named alone alone refused",
    "loader": "alone alone alone refused",
    "child": "named alone alone refused",
}
# jemalloc has no __libc_malloc
# mimalloc 3 is another: its `self` is not seen
TABLES = {"jemalloc": dict(BEHIND, libc=BEHIND["handle"]), "tcmalloc": BEHIND, "mimalloc": BEHIND}
COMMANDS = ("record", "watch", "guard", "record-p", "watch-p", "heap")
REASONS = {"namespace": "namespace", "symbolic": "own-malloc", "static": "own-malloc"}  # others: libc-behind


def opened(path):
    """An iterator that has an entry for each time that the file is opened from now on, by whatever name."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    # Reads stand between two openings: equal events in a row are one.
    if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(path), IN_OPEN | IN_ACCESS) < 0:
        raise OSError(ctypes.get_errno(), "inotify", path)

    def entries():
        with open(fd, "rb", buffering=0) as f:
            while True:
                for _, mask, _, _ in struct.iter_unpack("iIII", f.read(4096)):  # of a file: without a name
                    if mask & IN_OPEN:
                        yield path

    return entries()


class Ways(Case):
    def argv(self, way):
        if way == "child": # of a process that is watched; it goes the way that is no binding of ours
            return [victim("ways"), "child", "handle"]
        return [victim("ways"), way, victim(PLUGINS[way]) if way in PLUGINS else "-", "hold"]

    def setUp(self):
        super().setUp()
        self.behind = {}  # in the environment

    def start(self, argv):
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(os.environ, LC_ALL="C", **self.behind))
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def until(self, p, word):
        self.assertEqual(p.stdout.readline(), word + b"\n", "it ended early")

    def go(self, p, way, looked=False):
        """The work is done; a process holds what it made. looked: its plugin's file was opened by the linker, and by mallow."""
        looks = opened(victim(PLUGINS[way])) if looked else None
        for line in range(2 if way == "child" else 1):
            p.stdin.write(b"\n")
            p.stdin.flush()
            self.until(p, b"ready" if way == "child" and not line else b"done")
        if looked:
            next(looks), next(looks)

    def leave(self, p):
        """Lets it end as alone."""
        out, err = p.communicate(b"\n", timeout=600)
        self.assertEqual((p.returncode, out), (0, b""), err)
        return err.decode(errors="replace")

    def recorded_calls(self, way, doc):
        """Whether the report has every block, and every release."""
        sites = [s for q in doc["processes"] for s in q["sites"]
                 if s["calls"] and s["allocated_bytes"] == s["calls"] * BYTES]
        calls, live = sum(s["calls"] for s in sites), sum(s["end_live_blocks"] for s in sites)
        unseen = [u for q in doc["processes"] for u in q["not_seen"]]
        if (calls, live) == (BLOCKS, KEPT):
            self.assertEqual(unseen, [], way)
            return "seen"
        self.assertEqual(calls, 0, (way, calls, live))
        if not unseen:
            return "alone"
        self.assertEqual([u["reason"] for u in unseen], [REASONS.get(way, "libc-behind")])
        self.assertIn(os.path.basename(PLUGINS[way]) if way in REASONS else "libc.so.6", unseen[0]["module"])
        for q in doc["processes"]:
            for u in q["not_seen"]:
                self.assertIn(u["text"], q["warnings"])
        return "named"

    def of_recording(self, way, err):
        cell = self.recorded_calls(way, self.report(options=["-n0"]))
        self.assertEqual("is not recorded" in err or "are not recorded" in err, cell == "named", err)
        return cell

    def under_record(self, way):
        p = self.start([MALLOW, "record", "-q", "-o", self.file, "--", *self.argv(way)])
        self.until(p, b"ready")
        self.go(p, way, looked=REASONS.get(way) == "own-malloc")
        return self.of_recording(way, self.leave(p))

    def attached(self, way, *command, looked=False):
        p = self.start(self.argv(way))
        self.until(p, b"ready")
        with subprocess.Popen([MALLOW, *command, "-p", str(p.pid)], stderr=subprocess.PIPE) as m:
            line = m.stderr.readline() # it is attached, or says why not
            self.assertIn(b"attached to", line)
            self.go(p, way, looked)
            self.leave(p)
            _, err = m.communicate(timeout=600)
            self.assertEqual(m.returncode, 0, err)
            return err.decode(errors="replace")

    def under_record_p(self, way):
        return self.of_recording(way, self.attached(way, "record", "-o", self.file, looked=REASONS.get(way) == "own-malloc"))

    def of_samples(self):
        """Sampled at every 4 KiB, nearly every block of 12 KB is: a way that is seen has their bytes, and their releases."""
        with open(os.path.join(self.folder, "watch.json"), encoding="utf-8") as f:
            documents = [json.loads(x) for x in f.read().splitlines() if x.strip()]
        seen = [d for d in documents if d["allocated_bytes"] > BLOCKS * BYTES * 0.7]
        for d in seen:
            self.assertGreater(d["freed_samples"], d["samples"] * 0.3)
        if seen:
            return "seen"
        return "named" if any("namespace" in d["unguarded"] for d in documents) else "alone"

    def samples(self):
        return ["--json", "-o", os.path.join(self.folder, "watch.json"), "--period", "4K"]

    def under_watch(self, way, *options):
        p = self.start([MALLOW, "watch", *self.samples(), *options, "--", *self.argv(way)])
        self.until(p, b"ready")
        self.go(p, way)
        self.leave(p)
        return self.of_samples()

    def under_guard(self, way):
        return self.under_watch(way, "--guard", "all")

    def under_watch_p(self, way):
        self.attached(way, "watch", *self.samples())
        return self.of_samples()

    def under_heap(self, way):
        p = self.start(self.argv(way))
        self.until(p, b"ready")
        self.go(p, way)
        r = run([MALLOW, "heap", "--json", "--by=size", str(p.pid)])
        self.leave(p)
        if self.behind and r.rc == 1:
            self.assertIn(b"no heap of glibc: the allocator is ", r.err)
            return "refused"
        self.assertEqual(r.rc, 0, r.err)
        doc = json.loads(r.out)
        self.assertTrue(doc["verified"], r.err)
        if doc["used_bytes"] >= KEPT * BYTES:
            return "seen"
        return "named" if b"dlmopen" in r.out else "alone"

    def column(self, command, table, number):
        under = getattr(self, "under_" + command.replace("-", "_"))
        for way, cells in table.items():
            with self.subTest(way=way, command=command, **self.behind):
                for name in ("recording.mlw", "watch.json"):
                    if os.path.exists(os.path.join(self.folder, name)):
                        os.unlink(os.path.join(self.folder, name))
                self.assertEqual(under(way), cells.split()[number])

    def test_each(self):
        for number, command in enumerate(COMMANDS):
            self.column(command, WAYS, number)

    def test_behind(self):
        for allocator, table in TABLES.items():
            self.behind = {"LD_PRELOAD": library("libmimalloc.so.2" if allocator == "mimalloc" else ALLOCATORS[allocator])}
            for number, command in enumerate(("record", "watch", "guard", "heap")):
                self.column(command, table, number)
            for command in (["watch"], ["record", "--how", "inject", "-o", self.file]):
                p = self.start([victim("ways"), "plain", "-", "hold"])
                self.until(p, b"ready")
                r = run([MALLOW, *command, "-p", str(p.pid)])
                self.assertEqual(r.rc, 1, (allocator, command, r.err))
                self.assertRegex(r.err, b"a malloc that is not glibc's, or something stands before it|"
                                 b"an allocator whose own functions would bypass the library")
                self.go(p, "plain")
                self.leave(p)

    def test_one_that_starts(self):
        """An allocator that maps its memory in its constructor cannot serve then: nothing is allocated in that mapping."""
        env = {"LD_PRELOAD": victim("unready.so")}
        alone = run([victim("hello")], env=env)
        self.assertEqual((alone.rc, alone.err), (33, b""))
        for command in (["record", "-o", self.file], ["watch"], ["watch", "--guard", "all"]):
            r = run([MALLOW, *command, "--", victim("hello")], env=env)
            self.assertEqual(r.rc, 33, (command, r.err))
            self.assertIn(alone.out, r.out)
            self.assertNotIn(b"unready", r.err)
