"""Where an export goes: onto a full disk, and after a death in the middle."""
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from mallowtest import MALLOW, Test, program
import readers

VICTIM, NO_UNNAMED = program("export/export-victim"), program("export/libno_unnamed.so")
FORMATS = ("pprof", "folded", "speedscope", "heaptrack", "ctf", "chrome", "massif", "sqlite", "hdf5", "series", "csv",
           "mtrace")
LIBRARIES = {"hdf5": "h5dump", "sqlite": "sqlite3"}  # their packages have what the format needs
made = None


def setUpModule():
    global made
    made = readers.Recordings()


def tearDownModule():
    made.folder.cleanup()


def formats():
    return [f for f in FORMATS if f not in LIBRARIES or shutil.which(LIBRARIES[f])]


def export(form, output, before=None, preload=None):
    env = dict(os.environ, **({"LD_PRELOAD": preload} if preload else {}))
    return subprocess.run([MALLOW, "export", "--format", form, "-o", output, made.single], capture_output=True,
                          text=True, env=env, stdin=subprocess.DEVNULL, check=False, preexec_fn=before)


def few_bytes():
    """The process dies at the first byte beyond, as by SIGKILL: nothing of it runs any more."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))


class FullDisk(unittest.TestCase):
    def setUp(self):
        if os.geteuid():
            self.skipTest("mounts need root")
        self.folder = tempfile.mkdtemp(prefix="mallow-full-")
        self.addCleanup(os.rmdir, self.folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", self.folder], check=True)
        self.addCleanup(subprocess.run, ["umount", self.folder], check=True)
        with open(self.folder + "/fills", "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def fails(self, form):
        done = export(form, f"{self.folder}/out")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"\Amallow export: .*(No space left on device|disk is full)")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_every_format_says_so(self):
        for form in formats():
            with self.subTest(form):
                self.fails(form)
                if form == "ctf":  # a directory, made as it goes
                    shutil.rmtree(f"{self.folder}/out")
                self.assertEqual(os.listdir(self.folder), ["fills"])

    def test_a_disk_that_becomes_full(self):
        """The libraries have files open that they cannot finish."""
        for pages in (1, 2, 4, 8, 12):
            os.truncate(self.folder + "/fills", 65536 - 4096 * pages)
            for form in set(LIBRARIES) & set(formats()):
                with self.subTest(form, pages=pages):
                    self.fails(form)
                    self.assertEqual(os.listdir(self.folder), ["fills"])

    def test_the_device_that_is_full(self):
        """Text of one buffer fails where the file is closed, more of it before, in another thread."""
        larger = made.record("larger", os.path.realpath(sys.executable), "-S", "-c", "pass")
        full = open("/dev/full", "wb")
        self.addCleanup(full.close)
        for form in formats():
            if form in LIBRARIES or form == "ctf":
                continue
            ways = (["-o", "/dev/full"], subprocess.DEVNULL), ([], full), (["--threads", "4"], full)
            for recording, (arguments, out) in itertools.product((made.single, larger), ways):
                with self.subTest(form, recording=recording, arguments=arguments):
                    done = subprocess.run([MALLOW, "export", "--format", form, *arguments, recording], stdout=out,
                                          stderr=subprocess.PIPE, text=True, env=os.environ, check=False)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("No space left on device", done.stderr)


class Killed(Test):
    def test_leaves_nothing(self):
        for form in formats():
            if form == "ctf":
                continue
            with self.subTest(form):
                self.assertEqual(export(form, f"{self.folder}/out", few_bytes).returncode, -signal.SIGXFSZ)
                self.assertEqual(os.listdir(self.folder), [])

    def test_without_unnamed_files_the_next_takes_it_away(self):
        for form in formats():
            if form == "ctf":
                continue
            with self.subTest(form):
                names = []
                for _ in range(2):
                    done = export(form, f"{self.folder}/out", few_bytes, preload=NO_UNNAMED)
                    self.assertEqual(done.returncode, -signal.SIGXFSZ)
                    names.append(os.listdir(self.folder))
                    self.assertEqual(len(names[-1]), 1)
                    self.assertRegex(names[-1][0], r"\Aout\.writing-[0-9a-f]{16}\Z")
                self.assertNotEqual(*names)
                # names of somebody's own are left alone
                mine = ("out.writing-", "out.writing-0123456789abcde", "other.writing-0123456789abcdef")
                for name in mine:
                    with open(f"{self.folder}/{name}", "wb"):
                        pass
                os.mkdir(f"{self.folder}/out.writing-0123456789abcdef")
                done = export(form, f"{self.folder}/out", preload=NO_UNNAMED)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(os.listdir(self.folder)), sorted((*mine, "out", "out.writing-0123456789abcdef")))
                os.rmdir(f"{self.folder}/out.writing-0123456789abcdef")
                for name in (*mine, "out"):
                    os.remove(f"{self.folder}/{name}")
