"""`mallow watch -p` of programs that run without the library: attached to and left, again and again, at
their worst moments; what is seen of them; who is refused; an attacher that is killed. See victim.py."""
import ctypes
import glob
import os
import random
import signal
import subprocess
import unittest

from victim import Attached, MALLOW, Victim, mallow, text_of, until

LONG = os.environ.get("MALLOW_LONG") == "1"
ROUNDS = 700 if LONG else 20
HOT = ROUNDS if LONG else 6  # of programs that use all processors there are
KILLS = 100 if LONG else 8
SEIZE, DETACH = 0x4206, 17


def functions(site):
    return [frame.get("function") for frame in site["frames"]]


def site_of(reports, function, pid=None):
    for report in reversed(reports):
        if report["kind"] == "final" and pid in (None, report["pid"]):
            for site in report["sites"]:
                if function in functions(site):
                    return site
    return None


def kernel_thread():
    try:
        with open("/proc/2/comm") as f:
            return f.read() == "kthreadd\n"
    except FileNotFoundError:
        return False


class Rounds(unittest.TestCase):
    def rounds(self, victim, count=ROUNDS):
        before = victim.settled()
        for i in range(count):
            Attached(victim, "--period", "16K").end()
            victim.goes_on()
            if not i:
                ours = victim.ours()
        self.assertEqual(victim.settled(), before)
        self.assertEqual(victim.ours(), ours)
        victim.end()

    def test_allocation(self):
        with Victim("churn", "threading") as v:
            self.rounds(v, HOT)

    def test_modules_and_forks(self):
        with Victim("loading", "forking", "churn") as v:
            self.rounds(v, HOT)

    def test_system_calls(self):
        """nanosleep, poll, epoll_wait, read, timed waits: no error, no early return."""
        with Victim("sleeping", "polling", "epolling", "reading", "writing", "waiting", "failing") as v:
            self.rounds(v)

    def test_signals_stacks_registers(self):
        with Victim("signaled", "recursing", "jumping", "executing") as v:
            self.rounds(v, HOT)

    def test_only_running_threads(self):
        """No thread waits: one is borrowed in the middle of its work, errno and registers included."""
        with Victim("computing", "recursing") as v:
            self.rounds(v, HOT)

    def test_exceptions(self):
        with Victim(command=[os.environ["THROWING"]]) as v:
            v.modes = ["throwing"]
            self.rounds(v, HOT)


class Seen(unittest.TestCase):
    def test_a_leak(self):
        """Blocks made since the attachment, by the function that made them; none of before."""
        with Victim("leaking", "churn") as v:
            until(lambda: v.counts()["leaking"] > 2000)
            earlier = v.counts()["leaking"]
            watch = Attached(v, "--period", "4K")
            first = v.counts()["leaking"]
            until(lambda: v.counts()["leaking"] > first + 6000)
            last = v.counts()["leaking"]
            reports = watch.end()
            after = v.counts()["leaking"]
            site = site_of(reports, "leaks_here")
            self.assertIsNotNone(site, reports)
            self.assertGreater(site["estimated_bytes"], (last - first) * 2000 * 0.7)
            self.assertLess(site["estimated_bytes"], (after - earlier) * 2000 * 1.3)
            self.assertEqual(functions(site)[:2], ["leaks_here", "leaking"])
            v.end()

    def test_bindings(self):
        """dlsym finds the library while it is attached, and the program's own function otherwise."""
        with Victim("sleeping") as v:
            libc = v.ask("where")
            for _ in range(2):
                watch = Attached(v)
                self.assertIn("libmallow-attach.so", v.ask("where"))
                watch.end()
                self.assertEqual(v.ask("where"), libc)

    def test_children_and_successors(self):
        with Victim("churn") as v:
            watch = Attached(v, "--period", "16K")
            children = []
            self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in children])
            for line in ("fork", "exec"):
                children.append(int(v.ask(line).split()[1]))
            until(lambda: all(glob.glob(f"/dev/shm/mallow-watch-{pid}-*") for pid in children))
            until(lambda: "libmallow-attach" not in text_of(f"/proc/{children[1]}/maps"))
            # the reader has seen both once it is the reader of their memory
            until(lambda: all(reader_of(pid) == watch.process.pid for pid in children))
            reports = watch.end()
            self.assertIsNotNone(site_of(reports, "child_holds", children[0]), reports)
            self.assertIsNotNone(site_of(reports, "successor_holds", children[1]), reports)
            # the child of the fork is as it was, too
            self.assertEqual(glob.glob(f"/dev/shm/mallow-watch-{children[0]}-*"), [])
            v.goes_on()


def reader_of(pid):
    """settings.reader_pid of its segment (src/format/watch.h)."""
    for path in glob.glob(f"/dev/shm/mallow-watch-{pid}-*"):
        with open(path, "rb") as f:
            return int.from_bytes(f.read(300)[296:300], "little")
    return None


class Killed(unittest.TestCase):
    def workers(self, pid):
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                return [int(n) for n in f.read().split()]
        except FileNotFoundError:
            return []

    def test_the_attacher_at_any_moment(self):
        """It, or one that detaches, and the process that it borrows the thread with. The program goes on,
        unblocked, untraced; the next one can attach, and leaves it as it was."""
        with Victim("churn", "sleeping", "polling", "computing", "epolling") as v:
            before = v.settled()
            for _ in range(KILLS):
                attached = bool(v.traces()["shared"])
                watch = subprocess.Popen([MALLOW, "watch", "-q", "--detach" if attached else "-p", str(v.pid)],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                # it has begun, or is done already
                until(lambda: self.workers(watch.pid) or watch.poll() is not None or
                      bool(v.traces()["shared"]) != attached)
                for _ in range(random.randrange(1000)):
                    text_of(f"/proc/{v.pid}/maps")
                for worker in self.workers(watch.pid):
                    try:
                        os.kill(worker, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                watch.kill()
                watch.wait()
                until(lambda: v.traces()["tracer"] == "0")
                v.settled()
                v.goes_on()
            self.assertEqual(mallow("watch", "--detach", str(v.pid))[0], 0)
            self.assertEqual(v.settled(), before)
            Attached(v).end()
            self.assertEqual(v.settled(), before)
            v.end()

    def test_detach(self):
        with Victim("churn") as v:
            before = v.settled()
            Attached(v).kill()
            self.assertNotEqual(v.traces(), before)
            status, out, err = mallow("watch", "--detach", str(v.pid))
            self.assertEqual((status, out), (0, ""))
            self.assertIn("detached from process", err)
            self.assertEqual(v.settled(), before)
            status, out, err = mallow("watch", "--detach", str(v.pid))
            self.assertEqual(status, 0)
            self.assertIn("is not attached to", err)
            v.end()


class Refused(unittest.TestCase):
    def refused(self, pid, *words, how=()):
        status, out, err = mallow("watch", "-p", str(pid), *how)
        self.assertEqual((status, out), (1, ""), err)
        for word in words:
            self.assertIn(word, err)
        self.assertEqual(len(err.splitlines()), 1, err)

    def unchanged(self, victim, before):
        self.assertEqual(victim.settled(), before)
        self.assertEqual(victim.ours(), 0)

    def test_stopped(self):
        with Victim("sleeping") as v:
            before = v.settled()
            os.kill(v.pid, signal.SIGSTOP)
            until(lambda: "\nState:\tT" in v.text("status"))
            self.refused(v.pid, "is stopped by a signal", "kill -CONT")
            self.assertIn("\nState:\tT", v.text("status"))
            os.kill(v.pid, signal.SIGCONT)
            v.goes_on()
            self.unchanged(v, before)

    def test_traced(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with Victim("sleeping") as v:
            if libc.ptrace(SEIZE, v.pid, None, None):
                self.skipTest("tracing is refused here")
            self.refused(v.pid, f"traced by process {os.getpid()} already")

    def test_filtered(self):
        with Victim("sleeping") as v:
            before = v.settled()
            v.ask("filter")
            self.refused(v.pid, "has a seccomp filter", "record -p")
            self.unchanged(v, before)

    def test_static(self):
        with Victim(command=[os.environ["FIXED"]]) as v:
            before = v.settled()
            self.refused(v.pid, "is linked statically")
            self.unchanged(v, before)

    def test_zombie_kernel_and_nothing(self):
        p = subprocess.Popen(["/bin/true"])
        until(lambda: text_of(f"/proc/{p.pid}/stat").split()[2] == "Z")
        self.refused(p.pid, "zombie")
        p.wait()
        if os.geteuid() == 0 and kernel_thread():
            self.refused(2, "one of the kernel's")

    def test_preloaded_only(self):
        with Victim("sleeping") as v:
            before = v.settled()
            self.refused(v.pid, "runs without libmallow-watch.so", how=("--how", "preloaded"))
            self.refused(v.pid, "none can be guarded", how=("--guard", "all"))
            self.unchanged(v, before)

    def test_another_allocator(self):
        found = glob.glob("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
        if not found:
            self.skipTest("no jemalloc")
        with Victim("churn", env={**os.environ, "LD_PRELOAD": found[0]}) as v:
            before = v.settled()
            self.refused(v.pid, "runs with libjemalloc", "record -p")
            self.unchanged(v, before)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_another_user(self):
        with Victim("sleeping") as v:
            p = subprocess.run([MALLOW, "watch", "-p", str(v.pid)], capture_output=True, text=True, user=65534, group=65534,
                               stdin=subprocess.DEVNULL)
            if p.returncode == 126:
                self.skipTest("mallow is not to be reached by another user here")
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertRegex(p.stderr, "belongs to another user|not allowed")

    def test_little_address_space(self):
        import resource
        with Victim("sleeping") as v:
            size = int(v.text("statm").split()[0]) * 4096
            resource.prlimit(v.pid, resource.RLIMIT_AS, (size + (8 << 20), size + (8 << 20)))
            self.refused(v.pid, "RLIMIT_AS")


if __name__ == "__main__":
    unittest.main()
