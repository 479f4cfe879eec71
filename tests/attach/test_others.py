"""`mallow record -p` as root, of a process of another user: by the library, as of an own one. What is lent to that user."""
import os
import re
import signal
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, program, wait_until
from test_record import Recorded, calls_of, process_of
from victim import Victim, mallow, present, text_of

NOBODY = 65534
LIBCS_OWN = 3 << 31  # signals 32 and 33, which glibc lets no program set; some parent may have them ignored
TRUTH = [program("attach/attach-truth"), program("attach/libattach-plugin.so")]


def of(user):
    """Options of Popen."""
    return {"user": user, "group": user, "extra_groups": [], "cwd": "/"}


def holders():
    """Process ids of what lends a session."""
    def look(path):
        return int(path.split("/")[2]) if text_of(path).split("\0")[1:2] == ["lend-session"] else 0
    return {pid for pid in present(look, (f"/proc/{n}/cmdline" for n in os.listdir("/proc") if n.isdigit())) if pid}


def ended(pid):
    try:
        return "\nState:\tZ" in text_of(f"/proc/{pid}/status")
    except (FileNotFoundError, ProcessLookupError):
        return True


@unittest.skipUnless(os.geteuid() == 0, "only root can record another user's process")
class Others(unittest.TestCase):
    def victim(self):
        return Victim(command=TRUTH, **of(NOBODY))

    def holder_of(self, recorded):
        held = {pid for pid in holders() if f"\nPPid:\t{recorded.process.pid}\n" in text_of(f"/proc/{pid}/status")}
        self.assertEqual(len(held), 1)
        return held.pop()

    def test_what_it_did(self):
        """Every call of it, of its children, and of the programs that they become. Before: from the kernel's side alone."""
        with self.victim() as v:
            before = v.settled()
            for n in range(2):
                recorded = Recorded(v)
                holder = self.holder_of(recorded)
                v.ask("make")
                v.ask("fork")
                v.ask("exec")
                report = recorded.end()
                self.assertTrue(ended(holder))
                p = process_of(report, v.pid)
                self.assertEqual((report["lost_events"], p["unknown_frees"], p["attached"]), (0, 0, True))
                self.assertGreater(p["before_bytes"], 0)
                self.assertEqual(calls_of(p, "makes_here", "work"), 2000)
                forked, executing, executed = [p for p in report["processes"] if p["pid"] != v.pid]
                for p in (forked, executing):
                    self.assertEqual(calls_of(p, "makes_here", "child"), 7)
                self.assertEqual(calls_of(executed, "makes_here", "main"), 9)
                self.assertEqual(v.settled(), before)
            v.end()

    def test_what_is_lent(self):
        """A process of that user, which that user can trace: it has nothing of root's but the shared memory."""
        os.environ["MALLOW_TEST_SECRET"] = "of root"
        try:
            with self.victim() as v:
                recorded = Recorded(v)
                holder = self.holder_of(recorded)
                status = text_of(f"/proc/{holder}/status")
                for ids in ("Uid", "Gid"):
                    self.assertIn("\t".join([f"\n{ids}:"] + 4 * [str(NOBODY)]), status)
                self.assertRegex(status, r"\nGroups:\s*\n")
                self.assertEqual(set(re.findall(r"\nCap(?:Prm|Eff|Inh|Amb):\t(\w+)", status)), {"0" * 16})
                signals = re.findall(r"\nSig(?:Blk|Ign):\t(\w+)", status)
                self.assertEqual([int(s, 16) & ~LIBCS_OWN for s in signals], [0, 0])
                files = {n: os.readlink(f"/proc/{holder}/fd/{n}") for n in os.listdir(f"/proc/{holder}/fd")}
                self.assertEqual(files, {**dict.fromkeys("012", "/dev/null"), "3": "/memfd:mallow-session (deleted)"})
                self.assertEqual(text_of(f"/proc/{holder}/environ"), "")
                self.assertEqual(os.readlink(f"/proc/{holder}/cwd"), "/")
                fields = text_of(f"/proc/{holder}/stat").rsplit(")", 1)[1].split()
                self.assertEqual((fields[3], fields[4]), (str(holder), "0"))  # a session of its own, no terminal
                recorded.end()
                v.end()
        finally:
            del os.environ["MALLOW_TEST_SECRET"]

    def test_it_ends_with_mallow(self):
        with self.victim() as v:
            recorded = Recorded(v)
            holder = self.holder_of(recorded)
            recorded.process.kill()
            recorded.process.communicate(timeout=600)
            wait_until(lambda: ended(holder))
            v.ask("make")
            status, _, err = mallow("watch", "--detach", str(v.pid))
            self.assertEqual(status, 0, err)
            again = Recorded(v)
            v.ask("make")
            self.assertEqual(calls_of(process_of(again.end(), v.pid), "makes_here", "work"), 2000)
            v.end()

    def test_the_user_ends_the_holder(self):
        """What runs goes on being recorded; what is executed then is not, and is counted."""
        with self.victim() as v:
            recorded = Recorded(v)
            os.kill(self.holder_of(recorded), signal.SIGKILL)
            v.ask("make")
            v.ask("fork")
            v.ask("exec")
            recorded.process.send_signal(signal.SIGINT)
            err = recorded.process.communicate(timeout=600)[1]
            self.assertEqual(recorded.process.returncode, 0, err)
            status, out, err = mallow("report", "--json", recorded.file)
            self.assertEqual(status, 0, err)
            recorded.folder.cleanup()
            v.end()

    def test_it_may_do_more(self):
        """What that user writes to the shared memory must not lead a process that may do more. By the kernel's side, then."""
        with Victim(command=["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=+net_raw",
                             "--ambient-caps=+net_raw", *TRUTH], cwd="/") as v:
            self.assertNotIn("\nCapPrm:\t0000000000000000\n", text_of(f"/proc/{v.pid}/status"))
            with tempfile.TemporaryDirectory() as directory:
                status, out, err = mallow("record", "--how", "inject", "-p", str(v.pid), "-o", os.path.join(directory, "r.mlw"))
                self.assertEqual((status, out), (1, ""), err)
                self.assertIn("has more rights than its user", err)
                self.assertEqual((os.listdir(directory), v.ours()), ([], 0))
            v.end()

    def test_the_command_is_not_one(self):
        p = subprocess.run([MALLOW, "lend-session"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        self.assertEqual((p.returncode, p.stdout), (2, ""))
        self.assertIn("unknown command", p.stderr)
