"""What the attacks need: two users, two file systems, fs.protected_symlinks, attackers that end."""
import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from mallowtest import BUILD, MALLOW

ATTACKERS = os.path.join(BUILD, "tests", "security")
OTHER = 65534
PATIENCE = 120  # seconds after which something hangs
SYSCTL = "/proc/sys/fs/protected_symlinks"
LOCK = "/run/mallow-security-tests.lock"


def loudly(why):
    """Skips, and says so where it is seen."""
    print(f"NOT TESTED: {why}", file=sys.stderr, flush=True)
    raise unittest.SkipTest(why)


@contextlib.contextmanager
def protected_symlinks(value):
    """The setting has this value inside. One test run at a time; what a killed one left is put right."""
    with open(SYSCTL, encoding="ascii") as f:
        now = f.read().strip()
    if not os.access(SYSCTL, os.W_OK):
        if now == value:
            yield
            return
        loudly(f"fs.protected_symlinks={value}: it is {now} and cannot be set")
    with open(LOCK, "a+", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        left = lock.read().strip()  # by one that was killed
        if left:
            set_sysctl(left)
        with open(SYSCTL, encoding="ascii") as f:
            before = f.read().strip()

        def restore():
            set_sysctl(before)
            lock.truncate(0)
            lock.flush()

        lock.write(before)
        lock.flush()
        atexit.register(restore)
        try:
            set_sysctl(value)
        except OSError:
            atexit.unregister(restore)
            lock.truncate(0)
            loudly(f"fs.protected_symlinks={value}: cannot be set")
        try:
            yield
        finally:
            restore()
            atexit.unregister(restore)


def set_sysctl(value):
    with open(SYSCTL, "w", encoding="ascii") as f:
        f.write(value)


def on_term(_number, _frame):
    sys.exit(1)  # with everything that is to be restored


signal.signal(signal.SIGTERM, on_term)


def kind_of(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], check=True, capture_output=True, text=True).stdout.strip()


class Attack(unittest.TestCase):
    """Each test has a directory of root's (0755) with `nb`, a directory of the other user, and `root`, one
    that only root may enter. Subclasses say where."""
    where = None
    symlinks = None

    def setUp(self):
        if os.geteuid() != 0:
            loudly("the attacks need root, as whom mallow is attacked")
        if self.where == "/dev/shm" and kind_of(self.where) != "tmpfs":
            loudly("/dev/shm is no tmpfs")
        if self.where != "/dev/shm" and kind_of(self.where) == "tmpfs":
            loudly(f"{self.where} is no file system on disk")
        context = protected_symlinks(self.symlinks)
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        self.base = tempfile.mkdtemp(prefix="test-security-", dir=self.where)
        self.addCleanup(shutil.rmtree, self.base)
        os.chmod(self.base, 0o755)
        self.nb, self.root = self.base + "/nb", self.base + "/root"
        os.mkdir(self.nb)
        os.chown(self.nb, OTHER, OTHER)
        os.mkdir(self.root, 0o700)
        self.bin = self.base + "/bin"
        os.mkdir(self.bin)
        for name in os.listdir(ATTACKERS):
            if name in ("false_session", "false_recording", "false_segment", "exchange", "mapped", "claims"):
                shutil.copy(os.path.join(ATTACKERS, name), self.bin)

    # ---- who does something ----

    def other(self, *argv, **more):
        """A process of the other user; it ends with the test."""
        p = subprocess.Popen([os.path.join(self.bin, argv[0]), *argv[1:]], user=OTHER, group=OTHER, extra_groups=[],
                             cwd=self.nb, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)

        def end():
            p.kill()
            p.wait()
            p.stdin.close()
            p.stdout.close()
        self.addCleanup(end)
        line = p.stdout.readline()
        self.assertTrue(line, f"{argv} did not begin")
        return p

    def mallow(self, *argv, cwd=None, **more):
        """As root. Never dies of a signal, never hangs, and says nothing that is not UTF-8."""
        p = subprocess.run([MALLOW, *argv], cwd=cwd or self.base, capture_output=True, encoding="utf-8", timeout=PATIENCE,
                           errors="strict", stdin=subprocess.DEVNULL, check=False, **more)
        self.assertIn(p.returncode, (0, 1, 2, 125), (argv, p.returncode, p.stderr))
        return p

    # ---- what there is ----

    def secret(self, name="secret", text="root:x:0:0\n"):
        path = f"{self.root}/{name}"
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def recording(self, path, owner=0):
        """A raw recording of a small program."""
        subprocess.run([MALLOW, "record", "-q", "--keep-raw", "-o", path, "--", "/bin/true"], check=True,
                       timeout=PATIENCE, stdin=subprocess.DEVNULL)
        os.chown(path, owner, owner)
        return path

    @contextlib.contextmanager
    def untouched(self, *paths):
        """These files stay what they are: content, inode, owner; and no file comes or goes beside root's."""
        before = {p: self.look(p) for p in paths}
        names = sorted(os.listdir(self.root))
        yield
        for p in paths:
            self.assertEqual(before[p], self.look(p), p)
        self.assertEqual(names, sorted(os.listdir(self.root)))

    @staticmethod
    def look(path):
        st = os.lstat(path)
        with open(path, "rb") as f:
            return f.read(), st.st_ino, st.st_uid, st.st_mode, st.st_mtime_ns


def on_disk():
    return next((d for d in (os.environ.get("TMPDIR"), "/var/tmp", "/tmp") if d and kind_of(d) != "tmpfs"), "/var/tmp")


def places(*mixins):
    """A class for each mixin, file system and setting, for unittest to find."""
    made = {}
    for mixin in mixins:
        for where, name in ((on_disk(), "Disk"), ("/dev/shm", "Tmpfs")):
            for symlinks in "01":
                title = f"{mixin.__name__}{name}Symlinks{symlinks}"
                made[title] = type(title, (mixin, Attack), {"where": where, "symlinks": symlinks,
                                                            "__module__": "__main__"})
    return made
