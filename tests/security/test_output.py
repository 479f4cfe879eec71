"""Outputs of root's that lie, by what root typed, in a directory that another user can change."""
import os
import subprocess
import time

from mallowtest import LIBRARY, MALLOW, WATCH_LIBRARY
import attack
from attack import OTHER, PATIENCE



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

    # ---- documents ----

    def export(self, path):
        return self.mallow("export", "--format=folded", "-o", path, self.base + "/run.mlw")

    def test_document_behind_a_link(self):
        """To a directory of root's, or to a file of root's."""
        secret = self.secret()
        self.recording(self.base + "/run.mlw")
        self.link(self.root, "dir")
        self.link(secret, "file")
        for name in ("dir/secret", "dir/new", "file"):
            with self.untouched(secret):
                done = self.export(f"{self.nb}/{name}")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("a symbolic link on the way belongs to another user", done.stderr)

    def test_document_in_a_directory_that_changes_places(self):
        secret = self.secret("x")
        self.recording(self.base + "/run.mlw")
        os.mkdir(self.nb + "/a")
        self.link(self.root, "b")
        os.chown(self.nb + "/a", OTHER, OTHER)
        self.other("exchange", "a", "b")
        with self.untouched(secret):
            for _ in range(25):
                self.export(self.nb + "/a/x")

    def test_document_behind_own_links(self):
        self.recording(self.base + "/run.mlw")
        os.mkdir(self.base + "/data")
        os.symlink("data", self.base + "/way")
        os.symlink("x", self.base + "/data/latest")
        for name in ("way/x", "way/latest", "way/x"):
            self.assertEqual(self.export(f"{self.base}/{name}").returncode, 0)
        self.assertEqual(sorted(os.listdir(self.base + "/data")), ["latest", "x"])
        self.assertTrue(os.path.islink(self.base + "/data/latest"))
        self.assertTrue(os.path.isfile(self.base + "/data/x"))

    # ---- what is no stream ----

    def makers(self):
        """What makes a file or a directory at the path that is behind -o; its ending."""
        self.assertEqual(self.record(self.base + "/run.mlw", "ls", "/").returncode, 0)
        yield "", ("workload", "-q", self.base + "/run.mlw")
        yield ".wl", ("workload", "-q", self.base + "/run.mlw")
        yield ".mtrace", ("workload", "-q", self.base + "/run.mlw")
        yield ".mwl.zst", ("workload", "-q", self.base + "/run.mlw")
        for name in ("sqlite", "hdf5", "ctf"):
            yield "", ("export", "--format=" + name, self.base + "/run.mlw")

    def test_files_behind_a_link(self):
        """To a file of root's, to none, to a directory."""
        secret, n = self.secret(), 0
        self.link(self.root, "dir")
        for end, command in self.makers():
            n += 1
            self.link(secret, f"file{n}{end}")
            self.link(self.root + "/new", f"new{n}{end}")
            for name in (f"file{n}{end}", f"new{n}{end}", "dir/secret" + end, "dir/new" + end):
                with self.untouched(secret):
                    before = os.stat(self.root).st_mtime_ns
                    done = self.mallow(*command, "-o", f"{self.nb}/{name}")
                    self.assertEqual(os.stat(self.root).st_mtime_ns, before, (command, name, done.stderr))
                self.assertNotEqual(done.returncode, 0, (command, name))
                self.assertIn("a symbolic link on the way belongs to another user", done.stderr)

    def test_files_behind_own_links(self):
        """The link stays; what it leads to is replaced."""
        os.mkdir(self.base + "/data")
        os.symlink("data", self.base + "/way")
        for i, (end, command) in enumerate(self.makers()):
            os.symlink(f"x{i}{end}", f"{self.base}/data/latest{i}{end}")
            for _ in range(1 if "--format=ctf" in command else 2):
                done = self.mallow(*command, "-o", f"{self.base}/way/latest{i}{end}")
                self.assertEqual(done.returncode, 0, (command, done.stderr))
            self.assertEqual(sorted(n for n in os.listdir(self.base + "/data") if not n.startswith("ok")),
                             sorted([f"latest{i}{end}", f"x{i}{end}"]))
            self.assertTrue(os.path.islink(f"{self.base}/data/latest{i}{end}"))
            os.rename(f"{self.base}/data/x{i}{end}", f"{self.base}/data/ok{i}{end}")
            os.unlink(f"{self.base}/data/latest{i}{end}")

    def test_files_in_a_directory_that_changes_places(self):
        secret = self.secret("x")
        made = list(self.makers())
        os.mkdir(self.nb + "/a")
        self.link(self.root, "b")
        os.chown(self.nb + "/a", OTHER, OTHER)
        self.other("exchange", "a", "b")
        with self.untouched(secret):
            for _ in range(6):
                for end, command in made:
                    self.mallow(*command, "-o", self.nb + "/a/x" + end)

    def test_appended_files_behind_a_link(self):
        """Reports of watch and probe, and figures that compare saves."""
        secret = self.secret()
        self.link(secret, "file")
        self.link(self.root, "dir")
        self.assertEqual(self.record(self.base + "/run.mlw", "ls", "/").returncode, 0)
        self.assertEqual(self.mallow("workload", "-q", "-o", self.base + "/w.mwl", self.base + "/run.mlw").returncode, 0)
        for name in ("file", "dir/secret", "dir/new"):
            with self.untouched(secret):
                for command in (("watch", "-o", f"{self.nb}/{name}", "--", "/bin/true"),
                                ("probe", "faults", "-o", f"{self.nb}/{name}", "--", "/bin/true"),
                                ("compare", "--repeat=2", "--alloc=glibc", "--save", f"{self.nb}/{name}", self.base + "/w.mwl")):
                    done = self.mallow(*command)
                    self.assertIn("a symbolic link on the way belongs to another user", done.stderr, command)

    # ---- what a library in a service of root's makes, where its environment says ----

    def service(self, library, user=0, **env):
        done = subprocess.run(["/bin/true"], env={"PATH": "/bin:/usr/bin", "LD_PRELOAD": library, **env}, cwd=self.base,
                              user=user, group=user, extra_groups=[], capture_output=True, text=True, timeout=PATIENCE,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return done

    def recorded(self, output, user=0):
        return self.service(LIBRARY, user, MALLOW_OUTPUT=output)

    def test_library_behind_a_link(self):
        """Of the other user, to a directory of root's: by itself, and where a link of root's leads."""
        self.link(self.root, "d")
        os.mkdir(self.root + "/sub")
        own = self.secret("own.mlw", "")
        os.symlink(self.nb + "/d/sub", self.base + "/way")
        os.symlink("nb/d", self.base + "/short")
        for path in ("nb/d/cronjob", self.nb + "/d/cronjob", self.nb + "//d/./cronjob", "nb/d/own.mlw",
                     self.nb + "/d/sub/cronjob", self.nb + "/d/sub/../cronjob", "nb/../nb/d/cronjob", "way/cronjob",
                     "short/cronjob"):
            with self.untouched(own):
                self.assertIn("is behind a symbolic link of another user", self.recorded(path).stderr, path)
        self.assertEqual(os.listdir(self.root + "/sub"), [])

    def test_library_behind_links_of_roots(self):
        os.mkdir(self.base + "/data")
        os.symlink(self.base + "/data/", self.base + "/absolute")
        os.symlink("absolute/../data/.", self.base + "/relative")
        os.symlink("/dev/shm/..", self.base + "/dev")
        for i, way in enumerate(("absolute", "relative", "relative/../absolute", self.base + "//relative/", "nb/../data",
                                 "/proc/self/../.." + self.base + "/data", "dev/../" + self.base[1:] + "/data")):
            self.assertEqual(self.recorded(f"{way}/{i}.mlw").stderr, "", way)
            self.assertTrue(os.path.getsize(f"{self.base}/data/{i}.mlw"), way)

    def test_library_of_the_other_user(self):
        """It follows links of that user's and of root's, and of no third one."""
        os.mkdir(self.nb + "/data")
        os.chown(self.nb + "/data", OTHER, OTHER)
        self.link("data", "own")
        os.symlink("nb/own", self.base + "/way")
        self.link("data", "third")
        os.lchown(self.nb + "/third", OTHER - 1, OTHER - 1)
        for i, way in enumerate(("nb/own", "way")):
            self.assertEqual(self.recorded(f"{way}/{i}.mlw", OTHER).stderr, "", way)
            self.assertTrue(os.path.getsize(f"{self.nb}/data/{i}.mlw"), way)
        self.assertIn("of another user", self.recorded("nb/third/x.mlw", OTHER).stderr)
        self.assertFalse(os.path.exists(self.nb + "/data/x.mlw"))

    def test_library_follows_no_circle(self):
        os.symlink("circle", self.base + "/circle")
        os.symlink("x" * 255 + "/" + "y/" * 1800, self.base + "/long")
        for path in ("circle/x.mlw", "long/" + "z/" * 300 + "x.mlw", "y" * 256 + "/x.mlw", self.base + "/", "none/x.mlw",
                     "secret/x.mlw"):
            self.assertIn("this process is not recorded", self.recorded(path).stderr, path)

    def test_library_in_a_directory_of_the_other_user(self):
        """That is where root's environment says; the file is root's own."""
        self.assertEqual(self.recorded(self.nb + "/x.mlw").stderr, "")
        self.assertEqual(os.stat(self.nb + "/x.mlw").st_uid, 0)

    def test_library_in_a_directory_that_changes_places(self):
        secret = self.secret("x.mlw", "")
        os.mkdir(self.nb + "/a")
        self.link(self.root, "b")
        os.chown(self.nb + "/a", OTHER, OTHER)
        other = self.other("exchange", "a", "b")
        with self.untouched(secret):
            for _ in range(60):
                self.recorded(self.nb + "/a/x.mlw")
        other.stdin.close()
        self.assertEqual(other.wait(PATIENCE), 0)

    def test_library_makes_no_segment_behind_a_link(self):
        self.link(self.root, "d")
        before = os.stat(self.root).st_mtime_ns
        self.service(WATCH_LIBRARY, MALLOW_WATCH_SESSION=self.nb + "/d")
        self.assertEqual(os.stat(self.root).st_mtime_ns, before)
        os.symlink(self.root, self.base + "/own")
        self.service(WATCH_LIBRARY, MALLOW_WATCH_SESSION=self.base + "/own")
        self.assertNotEqual(os.stat(self.root).st_mtime_ns, before)


globals().update(attack.places(Output))
