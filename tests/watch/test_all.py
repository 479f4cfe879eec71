"""`mallow watch -a --how preloaded`: all processes that share memory, and which of them are chosen. Names and
groups are this test's own: other processes of the machine are not touched."""
import os
import shutil
import subprocess
import tempfile
import unittest

from mallowtest import WATCH_LIBRARY, fakes, program, wait_until
from mallowtest.fakes import Watch, functions
from mallowtest.memorygroup import MemoryGroup

LEAK, SHARED, PREFIX, OTHER_USER = "forgets_to_free", "/dev/shm", "mallow-watch-", 65534
# Where every user may read.
PLACE = tempfile.TemporaryDirectory(prefix="mallow-test-")
os.chmod(PLACE.name, 0o755)
os.mkdir(os.path.join(PLACE.name, "lib"))
LIBRARY = shutil.copy(WATCH_LIBRARY, os.path.join(PLACE.name, "lib"))
MALLOW = fakes.MALLOW = shutil.copy(fakes.MALLOW, PLACE.name)


def named(name):
    """The server by a name that only this test uses."""
    return shutil.copy(program("watch/server"), os.path.join(PLACE.name, f"{name}-{os.getpid()}"))


ONE, TWO = named("one"), named("two")


class Case(unittest.TestCase):
    def hold(self, program, before=(), **more):
        p = subprocess.Popen([*before, "/usr/bin/env", f"LD_PRELOAD={LIBRARY}", "MALLOW_WATCH_PERIOD=4K", program,
                              "hold", "1000", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p

    def segment(self, p):
        found = [n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}{p.pid}-")]
        self.addCleanup(lambda: [os.unlink(os.path.join(SHARED, n)) for n in found
                                 if os.path.exists(os.path.join(SHARED, n))])
        return os.path.join(SHARED, found[0])

    def watch(self, *args, **more):
        watch = Watch("-a", "--every", "500ms", "--old", "1ms", *args, **more)
        self.addCleanup(watch.__exit__)
        return watch

    def next_of(self, watch, pid, kind="old"):
        """The next report of the process that has its leak; those of others are kept."""
        while True:
            r = watch.next(kind)
            self.seen.add(r["pid"])
            if r["pid"] == pid and any(LEAK in functions(s) for s in r["sites"]):
                return r

    def setUp(self):
        self.seen = set()


class All(Case):
    def test_before_and_after_and_ends(self):
        early, stranger = self.hold(ONE), self.hold(TWO)
        early_segment = self.segment(early)
        watch = self.watch("--how", "preloaded", "--comm", os.path.basename(ONE), "--period", "8K")
        self.next_of(watch, early.pid)
        late = self.hold(ONE)
        self.assertEqual(self.next_of(watch, late.pid)["period_bytes"], 8192)  # settings reach those that come
        early.kill()
        final = self.next_of(watch, early.pid, "final")
        self.assertTrue(final["killed"])
        wait_until(lambda: not os.path.exists(early_segment), "what it left is removed, since it was reported")
        late.stdin.write("\n")
        late.stdin.flush()
        self.next_of(watch, late.pid, "final")
        again = self.hold(ONE)
        self.next_of(watch, again.pid)  # the watch goes on when none is left
        rest, err, status = watch.end()
        self.assertEqual((status, [r["pid"] for r in rest if r["kind"] == "final"]), (0, [again.pid]), err)
        self.assertEqual(self.seen, {early.pid, late.pid, again.pid})
        self.assertNotIn(stranger.pid, self.seen)
        self.assertIsNone(again.poll())

    def test_several_names(self):
        a, b = self.hold(ONE), self.hold(TWO)
        watch = self.watch("--how", "preloaded", "--comm", os.path.basename(ONE), "--comm", os.path.basename(TWO))
        for p in a, b:
            self.next_of(watch, p.pid)
        self.assertEqual(watch.end()[2], 0)

    def test_group(self):
        try:
            group = MemoryGroup(64 << 20)
        except OSError as why:
            self.skipTest(f"SKIPPED, LOUDLY: {why}")
        self.addCleanup(group.remove)
        outside = self.hold(ONE)
        inside = self.hold(ONE, before=group.command())
        for path in group.path, "/" + os.path.basename(group.path):
            watch = self.watch("--how", "preloaded", "--cgroup", path)
            self.next_of(watch, inside.pid)
            self.next_of(watch, inside.pid)
            self.assertEqual(watch.end()[2], 0)
        self.assertEqual(self.seen, {inside.pid})
        self.assertNotIn(outside.pid, self.seen)

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: not root, who may start processes of other users")
    def test_users(self):
        mine, other = self.hold(ONE), self.hold(ONE, user=OTHER_USER, group=OTHER_USER, extra_groups=[])
        for user in str(OTHER_USER), "nobody":
            watch = self.watch("--how", "preloaded", "--comm", os.path.basename(ONE), "--user", user)
            self.next_of(watch, other.pid)
            self.next_of(watch, other.pid)
            self.assertEqual(watch.end()[2], 0)
        self.assertEqual(self.seen, {other.pid})
        # Who is not root watches their own, without probes, and is not silent about that.
        watch = self.watch("--comm", os.path.basename(ONE), user=OTHER_USER, group=OTHER_USER, extra_groups=[])
        self.next_of(watch, other.pid)
        _, err, status = watch.end()
        self.assertEqual((status, self.seen), (0, {other.pid}))
        self.assertIn("as --how preloaded does", err)
        self.assertIsNone(mine.poll())

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: not root, who may look into containers")
    def test_own_shared_memory(self):
        """As in a container: a mount namespace with a /dev/shm that is not seen from here."""
        inside = self.hold(ONE, before=fakes.CONTAINED)
        self.assertEqual([n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}{inside.pid}-")], [])
        watch = self.watch("--how", "preloaded", "--comm", os.path.basename(ONE))
        self.next_of(watch, inside.pid)
        self.assertEqual(watch.end()[2], 0)

    def test_duration(self):
        """It ends by itself with a last report, and the process goes on."""
        mine = self.hold(ONE)
        watch = self.watch("--how", "preloaded", "--comm", os.path.basename(ONE), "--duration", "1s")
        self.assertEqual(watch.next("final")["pid"], mine.pid)
        self.assertEqual(watch.process.wait(600), 0)
        self.assertIsNone(mine.poll())

    def test_usage(self):
        for args, text in ((("-a", "--period", "4K"), "--how preloaded"), (("-a", "--how", "inject"), "does not work with -a"),
                           (("--comm", "x", "/bin/true"), "needs -a"), (("--cgroup", "/x", "-p", "1"), "needs -a"),
                           (("-a", "--cgroup", "x"), "is not a control group"), (("-a", "--cgroup", "/x/"), "is not a control group"),
                           (("-a", "--user", "no-such-user-here"), "no user"), (("-a", "--user", "-1"), "no user"),
                           (("-a", "--user", "4294967295"), "no user"), (("-a", "/bin/true"), "exclude each other"),
                           (("--duration", "1s", "/bin/true"), "--duration needs -p or -a")):
            out = subprocess.run([MALLOW, "watch", *args], capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual((out.returncode, out.stdout), (2, ""), args)
            self.assertIn(text, out.stderr)
