"""Outputs of root's that lie, by what root typed, in a directory that another user can change."""
import os
import subprocess
import time
import unittest

import attack
from attack import MALLOW, OTHER, PATIENCE


class Output:
    def record(self, path, *program):
        return self.mallow("record", "-q", "-o", path, "--", *(program or ("/bin/true",)))

    def refused(self, done):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mallow record: ", done.stderr)

    def link(self, to, name):
        os.symlink(to, f"{self.nb}/{name}")
        os.lchown(f"{self.nb}/{name}", OTHER, OTHER)

    def test_link_to_a_file_of_roots(self):
        secret = self.secret()
        self.link(secret, "x.mlw")
        with self.untouched(secret):
            self.refused(self.record(self.nb + "/x.mlw"))

    def test_link_in_a_directory_for_all(self):
        """As /tmp is: sticky, where fs.protected_symlinks protects, or does not."""
        secret, shared = self.secret(), self.base + "/tmp"
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        os.symlink(secret, shared + "/x.mlw")
        os.lchown(shared + "/x.mlw", OTHER, OTHER)
        with self.untouched(secret):
            self.refused(self.record(shared + "/x.mlw"))
        self.assertEqual(self.record(shared + "/y.mlw").returncode, 0)
        self.assertEqual(os.stat(shared + "/y.mlw").st_uid, 0)

    def test_link_to_a_directory_of_roots(self):
        self.link(self.root, "dir")
        with self.untouched():
            self.refused(self.record(self.nb + "/dir/x.mlw"))

    def test_hard_link_to_a_file_of_roots(self):
        secret = self.secret()
        os.link(secret, self.nb + "/x.mlw")
        with self.untouched(secret):
            self.refused(self.record(self.nb + "/x.mlw"))

    def test_file_of_the_other_user(self):
        """It would be the other user's to rewrite what root recorded."""
        path = self.nb + "/x.mlw"
        with open(path, "w", encoding="ascii") as f:
            f.write("theirs")
        os.chown(path, OTHER, OTHER)
        with self.untouched(path):
            self.refused(self.record(path))

    def test_fifo(self):
        os.mkfifo(self.nb + "/x.mlw")
        self.refused(self.record(self.nb + "/x.mlw"))

    def test_path_through_proc(self):
        """The links of /proc/PID lead where their process wants."""
        p = subprocess.Popen(["sleep", "1000"], user=OTHER, group=OTHER, extra_groups=[], cwd=self.nb)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        for name in ("cwd", "root" + self.nb):
            self.refused(self.record(f"/proc/{p.pid}/{name}/x.mlw"))
        self.assertEqual(os.listdir(self.nb), [])

    def test_own_links_are_followed(self):
        os.mkdir(self.base + "/data")
        os.symlink(self.base + "/data", self.base + "/way")
        os.symlink("run.mlw", self.base + "/data/latest.mlw")
        self.assertEqual(self.record(self.base + "/way/latest.mlw").returncode, 0)
        self.assertTrue(os.path.isfile(self.base + "/data/run.mlw"))
        self.assertTrue(os.path.islink(self.base + "/data/latest.mlw"))

    def test_directory_changes_places_while_recording(self):
        """What was begun in a directory ends there."""
        secret = self.secret("x.mlw")
        os.mkdir(self.nb + "/a")
        os.chown(self.nb + "/a", OTHER, OTHER)
        self.link(self.root, "b")
        p = subprocess.Popen([MALLOW, "record", "-q", "-o", self.nb + "/a/x.mlw", "--", "cat"], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with self.untouched(secret):
            while not os.path.exists(self.nb + "/a/x.mlw") or not os.path.getsize(self.nb + "/a/x.mlw"):
                self.assertIsNone(p.poll())
                time.sleep(0.01)
            os.rename(self.nb + "/a", self.nb + "/away")
            os.rename(self.nb + "/b", self.nb + "/a")
            p.stdin.close()
            self.assertEqual(p.wait(PATIENCE), 0, p.stderr.read())
            p.stderr.close()
        with open(self.nb + "/away/x.mlw", "rb") as f:
            self.assertEqual(f.read(4), b"MLS1")

    def test_import_in_a_directory_that_changes_places(self):
        secret = self.secret("x.mlw")
        with open(self.base + "/trace", "w", encoding="ascii") as f:
            f.write("= Start\n@ ./a:[0x1] + 0x4000 0x10\n@ ./a:[0x1] - 0x4000\n= End\n")
        os.mkdir(self.nb + "/a")
        self.link(self.root, "b")
        os.chown(self.nb + "/a", OTHER, OTHER)
        self.other("exchange", "a", "b")
        with self.untouched(secret):
            for _ in range(25):
                self.mallow("import", "-o", self.nb + "/a/x.mlw", self.base + "/trace")


globals().update(attack.places(Output))
if __name__ == "__main__":
    unittest.main()
