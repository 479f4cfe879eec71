"""`mallow heap --cold`: which blocks were not written. No test waits for a time: mallow waits until it is interrupted."""
import json
import os
import signal
import subprocess
import time

from mallowtest import MALLOW
from heaptest import HeapTest, tool

COLD, HOT, BYTES = 200, 100, (64 << 10) + 8  # usable bytes
NEITHER = "cannot see what process"


def field(pid, file, name):
    with open(f"/proc/{pid}/{file}", encoding="ascii") as f:
        return [line.split()[1:] for line in f if line.startswith(name)]


def descriptors(pid):
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return sorted(found)


def is_protected(pid):
    return any("uw" in flags for flags in field(pid, "smaps", "VmFlags:"))


class Cold(HeapTest):
    def victim(self, *args):
        env = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}  # writes to every block
        return self.start(tool("victim_cold"), *args, env=env)

    def begin(self, victim, *args, pid=None):
        """Starts mallow, and returns when it sees what the victim writes."""
        pid = pid or victim.pid
        p = subprocess.Popen([MALLOW, "heap", "--cold", "24h", *args, str(pid)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)

        def end():
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()
        self.addCleanup(end)
        # It holds the process by a descriptor while this stands; when this goes on, all has begun.
        while p.poll() is None and not any("pidfd" in d for d in descriptors(p.pid)):
            time.sleep(0.002)
        while p.poll() is None and field(pid, "status", "TracerPid:") != [["0"]]:
            time.sleep(0.002)
        # It listens before the process goes on, unless it has given up.
        if p.poll() is None and not int(field(p.pid, "status", "SigCgt:")[0][0], 16) & 1 << signal.SIGINT - 1:
            p.wait()
        return p

    def finish(self, p):
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=600)
        if NEITHER in err:
            self.skipTest("this kernel sees no writes: " + err)
        self.assertEqual(p.returncode, 0, err)
        return out

    def write_hot(self, victim):
        victim.stdin.write(b"x")
        victim.stdin.flush()
        self.assertEqual(os.read(victim.stdout.fileno(), 5), b"done\n")

    def test_known(self):
        victim = self.victim()
        before = descriptors(victim.pid)
        p = self.begin(victim, "--json")
        self.write_hot(victim)
        document = json.loads(self.finish(p))
        cold = document["cold"]
        self.assertTrue(document["verified"])
        roots = {r["root"]: (r["cold_blocks"], r["cold_bytes"], r["blocks"]) for r in cold["roots"]}
        self.assertEqual(roots["cold_table"], (COLD, COLD * BYTES, COLD))
        self.assertNotIn("hot_table", roots)
        self.assertEqual(roots["large_block"][0], 1)
        self.assertGreaterEqual(roots["large_block"][1], 1 << 20)
        # Its page with the header was written, by malloc; nothing else is in memory.
        self.assertLessEqual(roots.get("unused_block", (0, 0))[1], 4096)
        for table in ("types", "roots"):
            self.assertEqual(sum(r["cold_bytes"] for r in cold[table]), cold["bytes"])
            self.assertEqual(sum(r["cold_blocks"] for r in cold[table]), cold["blocks"])
        self.assertEqual((cold["sees"], cold["swapped_bytes"]), ("writes", 0))
        self.assertEqual(descriptors(victim.pid), before)
        self.assertFalse(is_protected(victim.pid))
        self.write_hot(victim)

    def test_sites(self):
        """With a recording: who allocated what is cold."""
        env = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
        recorder = self.start(MALLOW, "record", "-q", "-o", "it.mlw", "--", tool("victim_cold"), env=env)
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="ascii") as f:
            pid = int(f.read().split()[0])
        self.settle(pid)
        p = self.begin(recorder, "--json", "--recording", os.path.join(self.folder, "it.mlw"), pid=pid)
        self.write_hot(recorder)
        cold = json.loads(self.finish(p))["cold"]
        self.assertEqual(sum(s["cold_bytes"] for s in cold["sites"]), cold["bytes"])
        fill = [s for s in cold["sites"] if s["cold_blocks"] == COLD]  # main calls it for cold_table
        self.assertEqual([(s["blocks"], s["cold_bytes"]) for s in fill], [(COLD, COLD * BYTES)])
        self.assertIn("main", [f["function"] for f in fill[0]["frames"]])

    def test_guarded(self):
        """The kernel says of a guarded page that it is swapped: it holds nothing."""
        victim = self.start(tool("victim_guarded"))
        if victim.line == "ready 0":
            self.skipTest("MADV_GUARD_INSTALL (Linux 6.13)")
        self.assertEqual(field(victim.pid, "status", "VmSwap:"), [["0", "kB"]])
        cold = json.loads(self.finish(self.begin(victim, "--json")))["cold"]
        self.assertEqual(cold["swapped_bytes"], 0)
        self.assertEqual(sum(r["cold_blocks"] for r in cold["roots"] if r["root"] == "(unreachable)"), 0)

    def test_text(self):
        victim = self.victim()
        p = self.begin(victim, "--by", "root")
        self.write_hot(victim)
        out = self.finish(p)
        self.assertRegex(out, r"in memory in [\d,]+ blocks on pages that were not written for ")
        self.assertRegex(out, r"cold\s+own\s+cold blocks\s+root that reaches them first\n.*variable cold_table")
        self.assertNotIn("hot_table", out)

    def test_killed(self):
        """Whatever ends mallow, nothing stays in the process."""
        victim = self.victim()
        before = descriptors(victim.pid)
        p = self.begin(victim)
        if p.poll() is not None:
            self.skipTest("this kernel sees no writes: " + p.stderr.read())
        p.kill()
        p.wait()
        self.write_hot(victim)
        self.assertEqual(descriptors(victim.pid), before)
        self.assertFalse(is_protected(victim.pid))

    def test_ends(self):
        victim = self.victim()
        p = self.begin(victim)
        if p.poll() is None:
            victim.stdin.close()
            victim.wait()
            victim.stdin = open(os.devnull, "wb")  # closed once more at the end
        _, err = p.communicate(timeout=600)
        if NEITHER in err:
            self.skipTest("this kernel sees no writes: " + err)
        self.assertEqual(p.returncode, 1)
        self.assertIn(f"process {victim.pid} ended meanwhile", err)

    def test_behind_a_filter(self):
        """No call is made in it: the soft-dirty bits, or no answer."""
        victim = self.victim("seccomp")
        p = self.begin(victim, "--json")
        if p.poll() is None:
            self.write_hot(victim)
            cold = json.loads(self.finish(p))["cold"]
            self.assertEqual(cold["source"], "soft-dirty")
            self.assertNotIn("hot_table", [r["root"] for r in cold["roots"]])
        else:
            err = p.stderr.read()
            self.assertEqual(p.returncode, 1)
            self.assertRegex(err, NEITHER + r" \d+ writes: userfaultfd: a seccomp filter .*; soft-dirty bits: ")
        self.assertEqual(self.heap_json(victim.pid)["source"], "stopped")

    def test_usage(self):
        victim = self.victim()
        saved = os.path.join(self.folder, "it.mlh")
        self.heap("-o", saved, victim.pid)
        self.assertIn("is a file", self.heap("--cold", "1s", saved, status=1).stderr)
        self.heap("--cold", "0s", victim.pid, status=2)
        self.heap("--cold", "1s", "--leaks", victim.pid, status=2)
        self.heap("--cold", "1s", "--by", "size", victim.pid, status=2)
        self.heap("--diff", "--cold", "1s", saved, saved, status=2)
