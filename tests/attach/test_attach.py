"""`mallow watch -p` of programs that run without the library: attached to and left, again and again, at
their worst moments; what is seen of them; an attacher that is killed. See victim.py."""
import ctypes
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from mallowtest import LONG, MALLOW, program, wait_until
from victim import Attached, Victim, killed_at_any_moment, mallow, text_of

ROUNDS = 700 if LONG else 12
HOT = ROUNDS if LONG else 4  # of programs that use all processors there are
KILLS = 100 if LONG else 5


def functions(site):
    return [frame.get("function") for frame in site["frames"]]


def site_of(reports, function, pid=None):
    for report in reversed(reports):
        if report["kind"] == "final" and pid in (None, report["pid"]):
            for site in report["sites"]:
                if function in functions(site):
                    return site
    return None


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

    def test_threads_that_end(self):
        """Each thread that is looked at may end just then: the kernel refuses to stop it."""
        with Victim("ending") as v:
            self.rounds(v, HOT)

    @unittest.skipUnless(shutil.which("strace"), "SKIPPED, LOUDLY: strace refuses the first thread")
    def test_a_thread_that_cannot_be_stopped(self):
        """Another is."""
        with Victim("counting", "polling") as v:
            Attached(v).kill()
            for when, status in ("1+", 1), ("1", 0):
                p = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e", "trace=ptrace", "-e",
                                    f"inject=ptrace:error=EPERM:when={when}", MALLOW, "watch", "--detach", str(v.pid)],
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=600)
                self.assertEqual((p.returncode, "may not be traced" in p.stderr), (status, bool(status)), p.stderr)
            v.goes_on()
            v.end()

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
        with Victim(command=[program("attach/attach-throwing")]) as v:
            v.modes = ["throwing"]
            self.rounds(v, HOT)


class Seen(unittest.TestCase):
    def test_a_leak(self):
        """Blocks made since the attachment, by the function that made them; none of before."""
        with Victim("leaking", "churn") as v:
            wait_until(lambda: v.counts()["leaking"] > 2000)
            earlier = v.counts()["leaking"]
            watch = Attached(v, "--period", "4K")
            first = v.counts()["leaking"]
            wait_until(lambda: v.counts()["leaking"] > first + 6000)
            last = v.counts()["leaking"]
            reports = watch.end()
            after = v.counts()["leaking"]
            site = site_of(reports, "leaks_here")
            self.assertIsNotNone(site, reports)
            self.assertGreater(site["estimated_bytes"], (last - first) * 2000 * 0.7)
            self.assertLess(site["estimated_bytes"], (after - earlier) * 2000 * 1.3)
            self.assertEqual(functions(site)[:2], ["leaks_here", "leaking"])
            v.end()

    def test_libraries_that_are_data(self):
        """Programs map libraries to read them, also their own libc, and copies of it. Before, the thread was sent into one, and
        the program died."""
        script = ("import mmap, sys\nfor path in sys.argv[1:]:\n    with open(path, 'rb') as f:\n"
                  "        globals()[path] = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)\n"
                  "print('ready', flush=True)\nsys.stdin.readline()\nprint('done', flush=True)\n")
        with open("/proc/self/maps", encoding="utf-8") as f:
            libc = next(line.split()[-1] for line in f if line.rstrip().endswith("/libc.so.6"))
        with tempfile.TemporaryDirectory(prefix="mallow-data-") as at:
            copies = [os.path.join(at, name) for name in ("libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2")]
            for path in copies:
                shutil.copy(libc, path)
            for files in ([libc], copies):
                for command in (["watch", "--json"], ["record", "--how", "inject", "-o", os.path.join(at, "r.mlw")]):
                    with self.subTest(command=command, files=files), subprocess.Popen(
                            [sys.executable, "-c", script, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
                        self.assertEqual(p.stdout.readline(), b"ready\n")
                        with subprocess.Popen([MALLOW, *command, "-p", str(p.pid)], stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE) as m:
                            self.assertIn(b"attached to process", m.stderr.readline())
                            self.assertEqual(p.communicate(b"\n")[0], b"done\n")
                            _, err = m.communicate(timeout=600)
                        self.assertEqual((p.returncode, m.returncode), (0, 0), err)
                        self.assertNotIn(b"namespace", err)

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
            wait_until(lambda: all(glob.glob(f"/dev/shm/mallow-watch-{pid}-*") for pid in children))
            wait_until(lambda: "libmallow-attach" not in text_of(f"/proc/{children[1]}/maps"))
            # the reader has seen both once it is the reader of their memory
            wait_until(lambda: all(reader_of(pid) == watch.process.pid for pid in children))
            reports = watch.end()
            self.assertIsNotNone(site_of(reports, "child_holds", children[0]), reports)
            self.assertIsNotNone(site_of(reports, "successor_holds", children[1]), reports)
            # the child of the fork is as it was, too
            self.assertEqual(glob.glob(f"/dev/shm/mallow-watch-{children[0]}-*"), [])
            v.goes_on()


def rewritten(pid):
    """Where in the library's code, as the process has it, bytes are not those of its file."""
    places = []
    for line in text_of(f"/proc/{pid}/maps").splitlines():
        span, rights, offset, _, _, path = (line.split(None, 5) + [""])[:6]
        if "libmallow-attach.so" not in path:
            continue
        assert "wx" not in rights, line
        if "x" in rights:
            start, end = (int(x, 16) for x in span.split("-"))
            with open(f"/proc/{pid}/mem", "rb") as mem, open(path, "rb") as file:
                mem.seek(start)
                file.seek(int(offset, 16))
                there, was = mem.read(end - start), file.read(end - start)
            places += [i for i, (a, b) in enumerate(zip(there, was)) if a != b]
    return places


def refuse_new_code():
    """What systemd's MemoryDenyWriteExecute asks of newer kernels: no page gets executable, or executable and
    writable."""
    set_mdwe, refuse_exec_gain = 65, 1
    if ctypes.CDLL(None).prctl(set_mdwe, refuse_exec_gain, 0, 0, 0):
        raise OSError("PR_SET_MDWE")


def new_code_is_refused():
    try:
        return subprocess.run(["true"], preexec_fn=refuse_new_code, check=False).returncode == 0
    except subprocess.SubprocessError:
        return False


class Entries(unittest.TestCase):
    """The functions that bindings lead to are rewritten with the addresses of the process: in one piece,
    once, and never while the code stays writable. Where that is refused, they do their work as they are."""

    def sampled(self, v):
        watch = Attached(v, "--period", "16K")
        places = rewritten(v.pid)
        v.goes_on()
        reports = watch.end()
        self.assertTrue(any(r["sites"] for r in reports), reports)
        return places

    def test_rewritten(self):
        with Victim("churn", "computing") as v:
            places = self.sampled(v)
            self.assertTrue(places)
            self.assertLess(max(places) // 1024 - min(places) // 1024, 1, places)
            self.assertEqual(self.sampled(v), places)
            v.end()

    @unittest.skipUnless(new_code_is_refused(), "SKIPPED, LOUDLY: this kernel has no PR_SET_MDWE")
    def test_refused(self):
        with Victim("churn", "computing", preexec_fn=refuse_new_code) as v:
            self.assertEqual(self.sampled(v), [])
            v.end()


def reader_of(pid):
    """settings.reader_pid of its segment (src/format/watch.h)."""
    for path in glob.glob(f"/dev/shm/mallow-watch-{pid}-*"):
        with open(path, "rb") as f:
            return int.from_bytes(f.read(300)[296:300], "little")
    return None


class Killed(unittest.TestCase):
    def test_the_attacher_at_any_moment(self):
        """It, or one that detaches, and the process that it borrows the thread with. The program goes on,
        unblocked, untraced; the next one can attach, and leaves it as it was."""
        with Victim("churn", "sleeping", "polling", "computing", "epolling") as v:
            before = v.settled()
            killed_at_any_moment(v, KILLS)
            self.assertEqual((d := mallow("watch", "--detach", str(v.pid)))[0], 0, d)
            self.assertEqual(v.settled(), before)
            Attached(v).end()
            self.assertEqual(v.settled(), before)
            v.end()

    def attacher(self, v, moment, said, *args):
        """A watch that looks when late.c has it look; from its first step on."""
        env = {**os.environ, "LD_PRELOAD": program("attach/libattach-late.so"), "MALLOW_TEST_MOMENT": moment,
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        p = subprocess.Popen([MALLOW, "watch", "-q", *args, str(v.pid)], env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.stderr.readline(), said)
        return p

    def late(self, v, *args):
        """One that looks only after the borrowed thread has stayed as long as it does."""
        return self.attacher(v, "late", "it goes on\n", *args)

    def left(self, v, attacher):
        self.assertEqual(attacher.communicate(timeout=600)[1], "")
        wait_until(lambda: v.traces()["tracer"] == "0")
        return attacher.returncode

    def test_late(self):
        """The attacher looks only after the borrowed thread has gone on by itself, with what it waited for."""
        for mode in "counting", "resting", "polling", "waiting":
            with Victim(mode) as v:
                before = v.settled()
                if LONG:
                    late = self.late(v, "-p")
                    os.kill(wait_until(lambda: reader_of(v.pid)), signal.SIGKILL)
                    self.left(v, late)
                    v.goes_on()
                else:
                    Attached(v).kill()
                self.assertEqual(self.left(v, self.late(v, "--detach")), 0)
                v.goes_on()
                self.assertEqual(v.settled(), before)
                v.end()

    def test_late_for_a_thread_that_ends_or_has_a_signal(self):
        for mode in "passing", "alarmed":
            with Victim(mode) as v:
                before, count = v.settled(), v.counts()[mode]
                Attached(v).kill()
                late = self.late(v, "--detach")
                v.ask("let")
                self.assertEqual(self.left(v, late), 0)
                wait_until(lambda: v.counts()[mode] > count)
                self.assertEqual(v.settled(), before)
                v.end()

    def test_while_a_file_is_open(self):
        """The library looks into /proc for its attacher. A thread that was put back just then would have that file
        open for ever."""
        with Victim("counting") as v:
            before = v.settled()
            for _ in range(3):
                Attached(v).kill()
                self.assertEqual(self.left(v, self.attacher(v, "open", "it has a file open\n", "--detach")), 0)
                v.goes_on()
                self.assertEqual(v.traces(), before)
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
