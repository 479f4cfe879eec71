"""`mallow control PID`, run by root, where PID is another user's and lies about what it is."""
import os
import subprocess
import tempfile

from mallowtest import LIBRARY, VICTIMS
import attack
from attack import OTHER, PATIENCE

ACTIONS = (("sync",), ("mark", "x"), ("snapshot",))


class Control:
    def session(self):
        """A name that a session may have."""
        name = tempfile.mktemp(prefix="mallow-test-", dir="/dev/shm")

        def remove():
            if os.path.lexists(name):
                os.unlink(name)
        self.addCleanup(remove)
        return name

    def liar(self, output, *more, **options):
        self.named = self.session()
        p = self.other("false_session", self.named, output, *more, **options)
        self.assertEqual(os.stat(self.named).st_uid, OTHER)
        return p

    def refused(self, p, *targets):
        for action in ACTIONS:
            with self.untouched(*targets):
                done = self.mallow("control", str(p.pid), *action)
            self.assertEqual(done.returncode, 1, (action, done.stderr))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_output_is_a_file_of_roots(self):
        secret = self.secret()
        self.refused(self.liar(secret), secret)

    def test_output_is_a_recording_of_roots(self):
        """It begins as a recording does: but nobody records to it."""
        recording = self.recording(self.root + "/run.mlw")
        self.refused(self.liar(recording), recording)

    def test_output_is_a_link_to_a_file_of_roots(self):
        secret = self.secret()
        os.symlink(secret, self.nb + "/link.mlw")
        self.refused(self.liar(self.nb + "/link.mlw"), secret)

    def test_output_is_a_hard_link_to_a_file_of_roots(self):
        secret = self.secret()
        os.link(secret, self.nb + "/hard.mlw")  # as where fs.protected_hardlinks is 0
        self.refused(self.liar(self.nb + "/hard.mlw"), secret)

    def test_output_is_a_fifo(self):
        os.mkfifo(self.nb + "/fifo")
        os.chown(self.nb + "/fifo", OTHER, OTHER)
        self.refused(self.liar(self.nb + "/fifo"))

    def test_output_is_a_device(self):
        self.refused(self.liar("/dev/null"))

    def test_output_is_no_recording(self):
        path = self.nb + "/plain"
        with open(path, "w", encoding="ascii") as f:
            f.write("MLC0 and so on")
        os.chown(path, OTHER, OTHER)
        self.refused(self.liar(path), path)

    def test_output_changes_places(self):
        """A recording of the liar's own and a link to one of root's."""
        roots = self.recording(self.root + "/run.mlw")
        self.recording(self.nb + "/a.mlw", OTHER)
        os.symlink(roots, self.nb + "/b.mlw")
        os.lchown(self.nb + "/b.mlw", OTHER, OTHER)
        p = self.liar(self.nb + "/a.mlw")
        self.other("exchange", "a.mlw", "b.mlw")
        with self.untouched(roots):
            for _ in range(40):
                self.mallow("control", str(p.pid), "mark", "x")

    def test_session_loses_its_memory(self):
        """Whatever comes of it, it is no signal."""
        p = self.liar(self.recording(self.nb + "/a.mlw", OTHER), "cut")
        for i in range(60):
            self.mallow("control", str(p.pid), *(("pause",), ("start",), ("sync",), ("reset",))[i % 4])

    def test_session_is_a_path_of_roots(self):
        """What the environment names is none of ours unless it is in /dev/shm or a descriptor."""
        for path in (self.secret(), f"/proc/{os.getpid()}/root{self.root}/secret", "/dev/shm/mallow-../../etc/passwd"):
            p = self.other("false_session", "-", path)
            with self.untouched(self.root + "/secret"):
                done = self.mallow("control", str(p.pid), "sync")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("is not recorded", done.stderr)

    def test_session_elsewhere(self):
        """Where no library makes one."""
        secret = self.secret()
        p = self.other("false_session", self.nb + "/session", secret)
        with self.untouched(secret):
            self.assertEqual(self.mallow("control", str(p.pid), "mark", "x").returncode, 1)

    def test_session_is_a_fifo(self):
        fifo = self.session()
        os.mkfifo(fifo)
        p = self.other("false_session", "-", fifo)
        self.assertEqual(self.mallow("control", str(p.pid), "sync").returncode, 1)

    def test_session_of_a_third_user(self):
        session = self.session()
        self.other("false_session", session, self.nb + "/none")
        os.chown(session, 4242, 4242)
        p = self.other("false_session", "-", session)
        with self.untouched(session):
            self.assertNotEqual(self.mallow("control", str(p.pid), "pause").returncode, 0)

    def test_sparse_session_of_terabytes(self):
        p = self.liar(self.recording(self.nb + "/a.mlw", OTHER))
        size = 1 << 43
        while size:
            try:
                os.truncate(self.named, size)
                break
            except OSError:
                size //= 2
        self.assertEqual(self.mallow("control", str(p.pid), "pause").returncode, 0)

    def test_process_of_the_session_is_roots(self):
        """What root may see of its own processes does not come into another user's recording."""
        victim = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(victim.wait)
        self.addCleanup(victim.kill)
        recording = self.recording(self.nb + "/a.mlw", OTHER)
        with open(recording, "ab") as held:  # as its standard error: it may be written on its behalf
            p = self.liar(recording, "all", f"pid={victim.pid}", stderr=held)
        with self.untouched(recording):
            done = self.mallow("control", str(p.pid), "snapshot")
        self.assertEqual(done.returncode, 1, done.stderr)
        # It has not mapped the session, or belongs to another user: either is enough.
        self.assertRegex(done.stderr, "another user's|has ended")

    def test_what_is_true_works(self):
        """Another user's lone recording is controlled by root: the bytes go to that user's file."""
        out, pipe = self.nb + "/true.mlw", subprocess.PIPE
        env = {"PATH": "/bin:/usr/bin", "LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": out}
        if subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "test", "-r", LIBRARY], check=False).returncode:
            attack.loudly("the library cannot be read by the other user")
        p = subprocess.Popen([VICTIMS + "/control", "wait"], user=OTHER, group=OTHER, extra_groups=[], stdin=pipe,
                             stdout=pipe, text=True, env=env)
        try:
            p.stdin.write("x")
            p.stdin.flush()
            self.assertEqual(p.stdout.read(1), "x")
            before = os.path.getsize(out)
            done = self.mallow("control", str(p.pid), "mark", "seen by root")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertGreater(os.path.getsize(out), before)
            self.assertEqual(os.stat(out).st_uid, OTHER)
            for action in ("sync", "snapshot", "pause", "unpause"):
                done = self.mallow("control", str(p.pid), action)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        finally:
            p.stdin.close()
            p.wait(PATIENCE)
            p.stdout.close()


globals().update(attack.places(Control))
