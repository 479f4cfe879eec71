"""Each way by which a call can reach the allocator without passing the preloaded symbol (tests/victims/ways.c), under each
command: the table of docs/design/recorder.md. A cell says what becomes of the 2000 blocks of 12345 bytes that the way makes.

seen    their calls and their releases are, to the last; a sampler has their size, as far as samples tell
named   they are not, and the way is named
alone   they are not; nothing says so, and the program is as alone (reason in the document)

In every cell the program's output and exit status are those that it has alone."""
import json
import os
import subprocess
import unittest

from mallowtest import MALLOW, Case, main, run, victim

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
    "namespace": "named alone named named alone named",
    "static": "named alone alone named alone alone",
    "loader": "alone alone alone alone alone alone",
    "child": "seen seen seen seen seen alone",
}
COMMANDS = ("record", "watch", "guard", "record-p", "watch-p", "heap")
REASONS = {"namespace": "namespace", "symbolic": "own-malloc", "static": "own-malloc"}


@unittest.skipUnless(os.environ.get("MALLOW_LONG"), "SKIPPED, LOUDLY: cells depend on when modules and children are looked at")
class Ways(Case):
    def argv(self, way):
        if way == "child": # of a process that is watched; it goes the way that is no binding of ours
            return [victim("ways"), "child", "handle"]
        return [victim("ways"), way, victim(PLUGINS[way]) if way in PLUGINS else "-", "hold"]

    def start(self, argv):
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(os.environ, LC_ALL="C"))
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def until(self, p, word):
        self.assertEqual(p.stdout.readline(), word + b"\n", "it ended early")

    def go(self, p, way):
        """The work is done; a process holds what it made."""
        for line in range(2 if way == "child" else 1):
            p.stdin.write(b"\n")
            p.stdin.flush()
            self.until(p, b"ready" if way == "child" and not line else b"done")

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
        self.assertEqual([u["reason"] for u in unseen], [REASONS[way]])
        self.assertIn(os.path.basename(PLUGINS[way]), unseen[0]["module"])
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
        self.go(p, way)
        return self.of_recording(way, self.leave(p))

    def attached(self, way, *command):
        p = self.start(self.argv(way))
        self.until(p, b"ready")
        with subprocess.Popen([MALLOW, *command, "-p", str(p.pid)], stderr=subprocess.PIPE) as m:
            line = m.stderr.readline() # it is attached, or says why not
            self.assertIn(b"attached to", line)
            self.go(p, way)
            self.leave(p)
            _, err = m.communicate(timeout=600)
            self.assertEqual(m.returncode, 0, err)
            return err.decode(errors="replace")

    def under_record_p(self, way):
        return self.of_recording(way, self.attached(way, "record", "-o", self.file))

    def of_samples(self):
        """Sampled at every 4 KiB, nearly every block of 12 KB is: a way that is seen has their bytes, and their releases."""
        with open(os.path.join(self.dir, "watch.json"), encoding="utf-8") as f:
            documents = [json.loads(x) for x in f.read().splitlines() if x.strip()]
        seen = [d for d in documents if d["allocated_bytes"] > BLOCKS * BYTES * 0.7]
        for d in seen:
            self.assertGreater(d["freed_samples"], d["samples"] * 0.3)
        if seen:
            return "seen"
        return "named" if any("namespace" in d["unguarded"] for d in documents) else "alone"

    def samples(self):
        return ["--json", "-o", os.path.join(self.dir, "watch.json"), "--period", "4K"]

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
        self.assertEqual(r.rc, 0, r.err)
        doc = json.loads(r.out)
        self.assertTrue(doc["verified"], r.err)
        if doc["used_bytes"] >= KEPT * BYTES:
            return "seen"
        return "named" if b"dlmopen" in r.out else "alone"

    def column(self, number):
        under = getattr(self, "under_" + COMMANDS[number].replace("-", "_"))
        for way, cells in WAYS.items():
            with self.subTest(way=way, command=COMMANDS[number]):
                for name in ("recording.mlw", "watch.json"):
                    if os.path.exists(os.path.join(self.dir, name)):
                        os.unlink(os.path.join(self.dir, name))
                self.assertEqual(under(way), cells.split()[number])

    def test_record(self):
        self.column(0)

    def test_watch(self):
        self.column(1)

    def test_guard(self):
        self.column(2)

    def test_record_p(self):
        self.column(3)

    def test_watch_p(self):
        self.column(4)

    def test_heap(self):
        self.column(5)


if __name__ == "__main__":
    main()
