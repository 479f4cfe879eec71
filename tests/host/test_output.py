"""What MALLOW_OUTPUT and MALLOW_SESSION may name (libmallow-record.so alone): nothing of another user's,
nothing behind a link of theirs, nothing that waits or is a device; the program runs on untouched. tests/security/
has the attacks on it."""
import glob
import os
import shutil
import unittest

from mallowtest import LIBRARY, WATCH_LIBRARY, Case, run, victim

NOBODY = 65534


class Output(Case):
    def setUp(self):
        super().setUp()
        self.target = os.path.join(self.folder, "target")
        self.path = os.path.join(self.folder, "out.mlw")

    def refused(self, words, content=None):
        r = run([victim("api"), "peak"], env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.path})
        self.assertEqual((r.rc, r.out), (0, b""))
        self.assertEqual(len(r.err.splitlines()), 1, r.err)
        self.assertIn(words, r.err)
        if content is not None:
            with open(self.target, "rb") as f:
                self.assertEqual(f.read(), content)

    def write(self, path, content=b""):
        with open(path, "wb") as f:
            f.write(content)

    def test_symbolic_link(self):
        self.write(self.target)
        os.symlink(self.target, self.path)
        self.refused(b"is a symbolic link", b"")

    def test_dangling_link(self):
        os.symlink(self.target, self.path)
        self.refused(b"is a symbolic link")
        self.assertFalse(os.path.exists(self.target))

    def test_own_links_on_the_way(self):
        os.makedirs(os.path.join(self.folder, "data", "sub"))
        os.symlink("data/sub/", os.path.join(self.folder, "way"))
        os.symlink(os.path.join(self.folder, "way"), os.path.join(self.folder, "data", "again"))
        path = os.path.join(self.folder, "data/./again/../../way//out.mlw")
        r = run([victim("api"), "peak"], env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": path})
        self.assertEqual((r.rc, r.out, r.err), (0, b"", b""))
        self.assertEqual(len(self.report(os.path.join(self.folder, "data", "sub", "out.mlw"))["processes"]), 1)

    def test_circle_on_the_way(self):
        os.symlink("circle", os.path.join(self.folder, "circle"))
        self.path = os.path.join(self.folder, "circle", "out.mlw")
        self.refused(b"is behind a symbolic link")

    def test_file_on_the_way(self):
        self.write(self.target)
        self.path = os.path.join(self.target, "out.mlw")
        self.refused(b"cannot be opened", b"")

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: links of another user need root to make")
    def test_link_of_another_user_on_the_way(self):
        os.mkdir(self.target)
        os.symlink(self.target, os.path.join(self.folder, "way"))
        os.lchown(os.path.join(self.folder, "way"), NOBODY, NOBODY)
        self.path = os.path.join(self.folder, "way", "out.mlw")
        self.refused(b"is behind a symbolic link of another user")
        self.assertEqual(os.listdir(self.target), [])

    def test_hard_link(self):
        self.write(self.target)
        os.link(self.target, self.path)
        self.refused(b"not a regular file", b"")

    def test_fifo(self):
        os.mkfifo(self.path)
        self.refused(b"not a regular file")

    def test_directory(self):
        os.mkdir(self.path)
        self.refused(b"cannot be opened")

    def test_device(self):
        self.path = "/dev/null"
        self.refused(b"not a regular file")

    def test_file_that_is_no_recording(self):
        self.write(self.path, b"MLW")
        self.refused(b"something else")

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: files of another user need root to make")
    def test_file_of_another_user(self):
        self.write(self.path)
        os.chown(self.path, NOBODY, NOBODY)
        self.refused(b"not a regular file of this user's")
        self.assertEqual(os.stat(self.path).st_size, 0)

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: files of another user need root to make")
    def test_session_of_another_user(self):
        """Whose owner could shorten it, and name any file in it."""
        session = os.path.join(self.folder, "session")
        # a killed process leaves its session, which is one that the library believes
        r = run([victim("ends"), "kill"], env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.path})
        [left] = [n for n in glob.glob("/dev/shm/mallow-[0-9]*") if self.belongs(n, self.path)]
        shutil.move(left, session)
        with open(session, "rb") as f:
            before = f.read(4096)
        os.chown(session, NOBODY, NOBODY)
        r = run([victim("api"), "peak"], env={"LD_PRELOAD": LIBRARY, "MALLOW_SESSION": session})
        self.assertEqual((r.rc, r.out), (0, b""))
        with open(session, "rb") as f:
            self.assertEqual(f.read(4096), before)

    def belongs(self, name, output):
        try:
            with open(name, "rb") as f:
                return output.encode() in f.read(8192)
        except FileNotFoundError:  # another test's, gone by now
            return False

    def test_two_processes_append(self):
        for _ in range(2):
            r = run([victim("api"), "peak"], env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.path})
            self.assertEqual((r.rc, r.out, r.err), (0, b"", b""))
        self.assertEqual(len(self.report(self.path)["processes"]), 2)


class Left(Case):
    """A process that makes a segment in /dev/shm counts, and removes, its own user's alone."""

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: files of another user need root to make")
    def test_segments_of_another_user_stay(self):
        watch = WATCH_LIBRARY
        names = [f"/dev/shm/mallow-watch-{2 ** 30 + os.getpid() * 64 + i}-{i}" for i in range(40)]
        try:
            for name in names:
                self.write_empty(name)
                os.chown(name, NOBODY, NOBODY)
            r = run([victim("api"), "peak"], env={"LD_PRELOAD": watch})
            self.assertEqual(r.rc, 0, r.err)
            self.assertEqual([n for n in names if not os.path.exists(n)], [])
        finally:
            for name in names:
                if os.path.exists(name):
                    os.unlink(name)

    def write_empty(self, name):
        with open(name, "xb"):
            pass
