"""Reading a recording as root that another user owns, changes or names things in."""
import os
import shutil
import signal
import stat
import subprocess
import sys

from mallowtest import LIBRARY, MALLOW, victim
import attack
from attack import OTHER, PATIENCE

READERS = (("report",), ("dump",), ("workload", "--dry-run"))


def containers():
    """Whether a process runs in a pid namespace below this one."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
                if any(line.startswith("NSpid:") and len(line.split()) > 2 for line in f):
                    return True
        except OSError:
            pass
    return False


class Recording:
    def test_directory_changes_places(self):
        """nb/a and a link to a directory of root's, which has a file of the same name."""
        secret = self.secret("run.mlw")
        os.mkdir(self.nb + "/a")
        os.symlink(self.root, self.nb + "/link")
        for name in ("a", "link"):
            os.chown(f"{self.nb}/{name}", OTHER, OTHER, follow_symlinks=False)
        raw = self.recording(self.nb + "/whole.mlw")
        other = self.other("exchange", "a", "link")
        with self.untouched(secret):
            for i in range(60):
                with open(raw, "rb") as f:
                    data = f.read()
                fresh = f"{self.nb}/fresh.mlw"
                with open(fresh, "wb") as f:
                    f.write(data)
                os.chown(fresh, *((OTHER, OTHER) if i % 2 else (0, 0)))
                self.put(fresh)
                self.mallow("report", self.nb + "/a/run.mlw")
        other.stdin.close()
        self.assertEqual(other.wait(PATIENCE), 0)

    def put(self, fresh):
        """Into the directory, by whichever name it has now: it is the one that is no link."""
        while True:
            for name in ("a", "link"):
                try:
                    fd = os.open(f"{self.nb}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                except OSError:
                    continue
                os.rename(fresh, "run.mlw", dst_dir_fd=fd)
                os.close(fd)
                return

    def test_another_users_recording_stays_as_it_is(self):
        raw = self.recording(self.nb + "/run.mlw", OTHER)
        for reader in (("report",), ("dump",), ("report", "--json")):
            names = sorted(os.listdir(self.nb))
            with self.untouched(raw):
                self.assertEqual(self.mallow(*reader, raw).returncode, 0)
            self.assertEqual(names, sorted(os.listdir(self.nb)))

    def test_own_recording_is_sealed(self):
        raw = self.recording(self.root + "/run.mlw")
        before = os.stat(raw).st_ino
        self.assertEqual(self.mallow("report", raw).returncode, 0)
        self.assertNotEqual(os.stat(raw).st_ino, before)

    def test_link_of_another_user_is_read_but_nothing_is_replaced(self):
        raw = self.recording(self.root + "/run.mlw")
        os.symlink(raw, self.nb + "/link.mlw")
        os.lchown(self.nb + "/link.mlw", OTHER, OTHER)
        with self.untouched(raw):
            self.assertEqual(self.mallow("report", self.nb + "/link.mlw").returncode, 0)

    def sealed(self, path):
        raw = self.recording(path)
        self.assertEqual(self.mallow("report", raw).returncode, 0)
        with open(raw, "rb") as f:
            self.assertEqual(f.read(4), b"MLS1")
        return raw

    def indexed(self, path):
        self.assertEqual(self.mallow("report", "--index=always", path).returncode, 0)

    def test_no_index_through_a_link_of_another_user(self):
        """To the file, or to its directory, or further on the way of a link of root's."""
        own = self.sealed(self.root + "/run.mlw")
        for to, name in ((own, "link.mlw"), (self.root, "dir")):
            os.symlink(to, f"{self.nb}/{name}")
            os.lchown(f"{self.nb}/{name}", OTHER, OTHER)
        os.symlink(self.nb + "/link.mlw", self.base + "/way.mlw")
        for path in (self.nb + "/link.mlw", self.nb + "/dir/run.mlw", self.base + "/way.mlw"):
            with self.untouched(own):
                self.indexed(path)

    def test_no_index_in_a_file_of_roots_that_has_a_name_of_another_user(self):
        """A hard link, as where fs.protected_hardlinks is 0."""
        own = self.sealed(self.root + "/run.mlw")
        os.link(own, self.nb + "/hard.mlw")
        with self.untouched(own):
            self.indexed(self.nb + "/hard.mlw")

    def test_index_of_an_own_recording(self):
        """By its name, a link of root's, and a second name in a directory of root's."""
        own = self.sealed(self.root + "/run.mlw")
        os.symlink(own, self.root + "/link.mlw")
        os.link(own, self.root + "/hard.mlw")
        for path in (own, self.root + "/link.mlw", self.root + "/hard.mlw"):
            copy = self.look(own)[0]
            self.indexed(path)
            self.assertGreater(os.path.getsize(own), len(copy))
            with open(own, "r+b") as f:
                f.write(copy)
                f.truncate()

    def test_file_is_cut_while_it_is_read(self):
        for seal in (False, True):
            path = self.recording(f"{self.nb}/run{seal}.mlw")
            if seal:
                self.assertEqual(self.mallow("report", path).returncode, 0)
            os.chown(path, OTHER, OTHER)
            p = self.other("exchange", "cut", path)
            for _ in range(30):
                self.mallow("report", path)
            p.stdin.close()
            p.wait(PATIENCE)

    def test_workload_is_cut_while_it_is_read(self):
        """Plain, packed, and in dj/malloc's format: what is replayed, converted and imported."""
        plain, packed, foreign = (f"{self.nb}/w.{suffix}" for suffix in ("mwl", "mwl.zst", "wl"))
        source = self.root + "/run.mlw"
        subprocess.run([MALLOW, "record", "-q", "-o", source, "--", sys.executable, "-S", "-c", "pass"], check=True, timeout=PATIENCE,
                       stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONMALLOC": "malloc"})
        for name in (plain, packed, foreign):
            self.assertEqual(self.mallow("workload", "-o", name, source).returncode, 0, name)
        for name in (plain, packed, foreign):
            os.chown(name, OTHER, OTHER)
            p = self.other("exchange", "cut", name)
            for _ in range(8):
                for line in (("replay", name), ("workload", "-o", f"{self.root}/out.{'mwl' if name == foreign else 'wl'}", name)):
                    done = self.mallow(*line)
                    self.assertNotRegex(done.stderr, "(?i)signal|bus error")
            p.stdin.close()
            p.wait(PATIENCE)

    def test_fifos_and_devices_are_not_opened(self):
        os.mkfifo(self.nb + "/fifo")
        os.mknod(self.nb + "/socket", stat.S_IFSOCK | 0o666)
        for path in (self.nb + "/fifo", self.nb + "/socket", "/dev/zero", "/dev/tty", self.nb):
            for line in (("report",), ("workload", "-o", self.root + "/out.mwl"), ("replay",), ("tune", "--budget=1")):
                self.assertIn(self.mallow(*line, path).returncode, (1, 2))

    def test_program_is_something_else_by_now(self):
        """Names come from the program's file: its owner put a FIFO, a device, a hole or a file of root's there."""
        program, path = self.nb + "/program", self.nb + "/run.mlw"
        shutil.copy("/bin/true", program)
        subprocess.run([attack.MALLOW, "record", "-q", "-o", path, "--", program], check=True, timeout=PATIENCE,
                       stdin=subprocess.DEVNULL)
        os.chown(path, OTHER, OTHER)
        secret = self.secret(text="a secret line\n")

        def hole():
            with open(program, "wb") as f:
                f.write(b"\x7fELF\2\1\1")
                f.truncate(1 << 33)
        for make in (lambda: os.mkfifo(program), lambda: os.mknod(program, stat.S_IFSOCK | 0o666), lambda: os.symlink("/dev/zero", program), lambda: os.mkdir(program),
                     lambda: os.symlink(secret, program), lambda: os.link(secret, program), hole):
            os.unlink(program)
            make()
            with self.untouched(secret):
                for line in (("report", path), ("export", "--format=folded", "-o", self.root + "/out", path)):
                    done = self.mallow(*line)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertNotIn("secret line", done.stdout + done.stderr)
                os.unlink(self.root + "/out")
            if os.path.isdir(program) and not os.path.islink(program):
                os.rmdir(program)
                with open(program, "wb"):
                    pass

    def test_sparse_file_of_a_terabyte(self):
        """A raw recording with a hole behind it is read as far as there is something."""
        raw = self.recording(self.nb + "/run.mlw", OTHER)
        size = 1 << 40
        while size:
            try:
                os.truncate(raw, size)
                break
            except OSError:
                size //= 2
        self.assertEqual(self.mallow("report", raw).returncode, 0)  # and ends

    # ---- sessions that a file names ----

    def lone(self, output, user=0):
        """A program that records alone, and the file of its session."""
        p = subprocess.Popen([victim("control"), "wait"], user=user, group=user, extra_groups=[],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={"PATH": "/bin:/usr/bin", "LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": output})

        def end():
            p.kill()
            p.wait()
            p.stdin.close()
            p.stdout.close()
            for left in self.sessions(p.pid):
                os.unlink(left)
        self.addCleanup(end)
        p.stdin.write("x")
        p.stdin.flush()
        self.assertEqual(p.stdout.read(1), "x")
        (session,) = self.sessions(p.pid)
        return p, session

    @staticmethod
    def sessions(pid):
        return [f"/dev/shm/{n}" for n in os.listdir("/dev/shm") if n.startswith(f"mallow-{pid}-")]

    @staticmethod
    def dead_pid():
        p = subprocess.Popen(["/bin/true"])
        p.wait()
        return p.pid

    def test_session_of_roots_that_lives(self):
        """A file of another user names it, with the image of a process that is gone."""
        _, session = self.lone(self.root + "/own.mlw")
        for image in (1, self.image_of(session)):
            self.other("false_recording", "named.mlw", session, str(self.dead_pid()), str(image))
            with self.untouched(session):
                self.mallow("report", self.nb + "/named.mlw")

    def test_session_of_roots_that_lives_in_a_file_of_roots(self):
        """As before, but root has copied the file, so that it is its own."""
        _, session = self.lone(self.root + "/own.mlw")
        self.other("false_recording", "named.mlw", session, str(self.dead_pid()), str(self.image_of(session)))
        os.rename(self.nb + "/named.mlw", self.root + "/named.mlw")
        os.chown(self.root + "/named.mlw", 0, 0)
        st = os.stat(session)
        self.mallow("report", self.root + "/named.mlw")
        self.assertEqual(st.st_ino, os.stat(session).st_ino)
        self.assertEqual(self.image_of(session) != 0, True)

    def test_session_of_roots_that_is_dead(self):
        """It is root's to recover, into root's own recording, by nobody else's file."""
        p, session = self.lone(self.root + "/own.mlw")
        image = self.image_of(session)
        p.send_signal(signal.SIGKILL)
        p.wait()
        self.other("false_recording", "named.mlw", session, str(p.pid), str(image))
        with self.untouched(session, self.root + "/own.mlw"):
            self.mallow("report", self.nb + "/named.mlw")
        self.assertEqual(self.mallow("report", self.root + "/own.mlw").returncode, 0)
        self.assertEqual(self.sessions(p.pid), [])

    def test_session_of_roots_that_is_dead_in_a_file_of_roots(self):
        """As before, but root has copied the file, so that only its device and inode tell it from the session's own."""
        p, session = self.lone(self.root + "/own.mlw")
        image = self.image_of(session)
        p.send_signal(signal.SIGKILL)
        p.wait()
        self.other("false_recording", "named.mlw", session, str(p.pid), str(image))
        shutil.copyfile(self.nb + "/named.mlw", self.root + "/named.mlw")
        with self.untouched(session, self.root + "/own.mlw"):
            self.mallow("report", self.root + "/named.mlw")
        self.assertEqual(self.mallow("report", self.root + "/own.mlw").returncode, 0)
        self.assertEqual(self.sessions(p.pid), [])

    def test_session_of_a_dead_process_of_another_user(self):
        """Root reads what it left, and leaves it and the file as they are."""
        p, session = self.lone(self.nb + "/own.mlw", OTHER)
        p.send_signal(signal.SIGKILL)
        p.wait()
        with self.untouched(session, self.nb + "/own.mlw"):
            done = self.mallow("report", "--json", self.nb + "/own.mlw")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"complete": false', done.stdout.replace('":', '": ').replace(":  ", ": "))
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", MALLOW, "report",
                               self.nb + "/own.mlw"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode == 0:  # else the other user cannot run what was built here
            # The other user cannot see whether a container's process has it mapped: it stays then.
            if self.sessions(p.pid) and containers():
                self.skipTest("a process in a pid namespace of its own runs on this machine")
            self.assertEqual(self.sessions(p.pid), [])

    def test_session_of_the_dead_has_two_names(self):
        """It may be a file that stands elsewhere, too: it is neither read nor removed, and the recording says what it holds."""
        p, session = self.lone(self.root + "/own.mlw")
        p.send_signal(signal.SIGKILL)
        p.wait()
        second = f"/dev/shm/{os.path.basename(self.base)}-second"
        os.link(session, second)
        self.addCleanup(os.unlink, second)
        with self.untouched(session):
            self.assertEqual(self.mallow("report", self.root + "/own.mlw").returncode, 0)

    def test_session_of_the_dead_is_cut_while_it_is_read(self):
        p, session = self.lone(self.nb + "/own.mlw", OTHER)
        p.send_signal(signal.SIGKILL)
        p.wait()
        cutter = self.other("exchange", "cut", session)
        with self.untouched(self.nb + "/own.mlw"):
            for _ in range(30):
                self.assertEqual(self.mallow("report", self.nb + "/own.mlw").returncode, 0)
        cutter.stdin.close()
        cutter.wait(PATIENCE)

    @staticmethod
    def image_of(session):
        with open(session, "rb") as f:
            f.seek(4096 + 16)
            return int.from_bytes(f.read(8), "little")


globals().update(attack.places(Recording))
