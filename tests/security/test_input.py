"""Inputs that root named, in a directory that another user can change: what is no regular file is not opened, what
has no end is not read to it, and what was looked at is what is read."""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from mallowtest import MALLOW
import attack
from attack import OTHER, PATIENCE

NOWHERE = "http://127.0.0.1:9/x"
MOST_MEMORY = 1 << 30
FAILED = (1, 2, 125)  # the latter: of a command that starts a program

# Puts a link to a directory of root's in the place of every directory that appears.
THIEF = """
echo ready
while :; do
    for d in mallow*; do
        if [ -d "$d" ] && [ ! -L "$d" ]; then
            mv "$d" "taken$d" && ln -s "$0" "$d"
        fi
    done
done
"""


class Named:
    def setUp(self):
        super().setUp()
        self.run_path, self.workload = self.root + "/run.mlw", self.root + "/w.mwl"
        subprocess.run([MALLOW, "record", "-q", "-o", self.run_path, "--", "ls", "/"], check=True, timeout=PATIENCE,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.assertEqual(self.mallow("workload", "-q", "-o", self.workload, self.run_path).returncode, 0)


class Kinds(Named):
    """The file system does not matter, nor who may have links followed."""

    def readers(self, path):
        """Every command that reads a file that the user names, and that is neither recording nor program."""
        yield "import", "-o", self.root + "/out", path
        yield "import", "--format=heaptrack", "-o", self.root + "/out", path
        yield "import", "--format=perf", "-o", self.root + "/out", path
        yield "workload", "-o", self.root + "/out", path
        yield "workload", "-o", self.root + "/out.zst", path
        yield "workload", "-o", self.root + "/out", path, path
        yield "replay", path
        yield "compare", "--alloc=glibc", "--repeat=2", path
        yield "compare", "--merge", path
        yield "compare", "--alloc=glibc", "--repeat=2", "--against", path, self.workload
        yield "report", "--suppressions", path, self.run_path
        yield "report", "--json", "--suppressions", path, self.run_path
        yield "watch", "--known", path, "--", "/bin/true"
        yield "push", "--to", NOWHERE, "--retry=0", "--header", "@" + path, self.run_path
        yield "push", "--to", NOWHERE, "--retry=0", path
        yield "advise", path
        yield "diff", path, self.run_path

    def test_fifo_is_not_opened(self):
        """Who waits in open() to write to it would be let go by a reader; also by one that does not wait."""
        path = self.nb + "/fifo"
        os.mkfifo(path)
        os.chown(path, OTHER, OTHER)
        for line in self.readers(path):
            with self.subTest(line=line):
                writer = subprocess.Popen(["sh", "-c", "exec 3>fifo"], user=OTHER, group=OTHER, extra_groups=[], cwd=self.nb)
                try:
                    time.sleep(0.2)
                    self.assertIn(self.mallow(*line).returncode, FAILED, line)
                    self.assertIsNone(writer.poll(), line)
                finally:
                    writer.kill()
                    writer.wait()

    def test_devices_are_not_opened(self):
        for path in ("/dev/zero", "/dev/tty", self.nb):
            for line in self.readers(path):
                self.assertIn(self.mallow(*line).returncode, FAILED, line)

    def test_hole_without_end(self):
        path, size = self.nb + "/hole", 1 << 43
        with open(path, "wb"):
            pass
        os.chown(path, OTHER, OTHER)
        while size:
            try:
                os.truncate(path, size)
                break
            except OSError:
                size //= 2
        for line in self.readers(path):
            if line[0] == "push" and line[-1] == path:
                continue  # it is sent as far as the server takes it
            with self.subTest(line=line):
                p = subprocess.Popen([MALLOW, *line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True)
                killer = threading.Timer(PATIENCE, p.kill)
                killer.start()
                said = p.stderr.read()
                killer.cancel()
                p.stderr.close()
                _, status, used = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
                self.assertIn(p.returncode, FAILED, (line, said))
                self.assertLess(used.ru_maxrss * 1024, MOST_MEMORY, line)

    def test_temporary_files_in_a_directory_of_the_other_user(self):
        """$TMPDIR of the other user: nothing there can be exchanged, and nothing of root's is removed."""
        run = self.base + "/big.mlw"
        subprocess.run([MALLOW, "record", "-q", "-o", run, "--", sys.executable, "-S", "-c",
                        "import time\nx = [bytes(n % 900 + 100) for n in range(200000)]\ndel x[::2]\ntime.sleep(1)"],
                       check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                       env={**os.environ, "PYTHONMALLOC": "malloc"})
        for name in ("calls.mwl", "workload", "new"):
            self.secret(name)
        secrets = [f"{self.root}/{name}" for name in ("calls.mwl", "workload", "new")]
        theirs = tempfile.mkdtemp(prefix="m", dir="/tmp")  # a long TMPDIR might not be used
        self.addCleanup(shutil.rmtree, theirs)
        os.chown(theirs, OTHER, OTHER)
        p = subprocess.Popen(["sh", "-c", THIEF, self.root], user=OTHER, group=OTHER, extra_groups=[],
                             cwd=theirs, stdout=subprocess.PIPE, text=True)
        try:
            p.stdout.readline()
            with self.untouched(*secrets):
                done = [self.mallow(*line, env={**os.environ, "TMPDIR": theirs})
                        for line in (("advise", "--rounds=2", run), ("compare", "--alloc=glibc", "--repeat=2", run))]
            self.assertEqual([p.returncode for p in done], [0, 0], [p.stderr for p in done])
            self.assertEqual(os.listdir(theirs), [])
        finally:
            p.kill()
            p.wait()
            p.stdout.close()


class Exchanged(Named):
    def test_workload_and_fifo_change_places(self):
        """The file that was looked at is the one that is replayed."""
        shutil.copy(self.workload, self.nb + "/w.mwl")
        os.mkfifo(self.nb + "/fifo")
        self.other("exchange", "w.mwl", "fifo")
        for _ in range(15):
            self.mallow("replay", self.nb + "/w.mwl")
            self.mallow("workload", "-q", "-o", self.root + "/out.zst", self.nb + "/w.mwl")
            self.mallow("workload", "-q", "-o", self.root + "/out.wl", self.nb + "/w.mwl")


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
globals().update(attack.places(Exchanged))


class KindsHere(Kinds, attack.Attack):
    where, symlinks = attack.on_disk(), "0"
