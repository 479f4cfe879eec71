"""The commands of docs/guide/ do what the guide says. Each ```console block is run in order, in a directory
with the examples; what is printed is compared line by line. Numbers, sizes and addresses may differ; a line
of three dots stands for any lines."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW, ROOT
from mallowtest.libcfacts import FASTBINS

GUIDE = os.path.join(ROOT, "docs", "guide")
BLOCK = re.compile(r"```console\n(.*?)```", re.S)


def plain(line):
    """The line without what differs from run to run."""
    line = re.sub(r"0x[0-9a-f]+", "#", line)
    line = re.sub(r"(?<!\w)[-+±]?\d[\d,.:]*(?:\s?(?:B|KB|MB|GB|ns|us|ms|s|%)(?!\w))?", "#", line)
    return " ".join(line.replace("#", " # ").split())


def steps(text):
    """(command, expected lines) of each block."""
    for block in BLOCK.findall(text):
        command, expected = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, expected
                command, expected = line[2:], []
            else:
                expected.append(line)
        if command:
            yield command, expected


def differs(expected, printed):
    """None, or the expected line that is not there. Lines are compared by their beginnings."""
    printed = [plain(line) for line in printed if line.strip()]
    at, anywhere = 0, False
    for line in expected:
        if not line.strip():
            continue
        if line.strip() == "...":
            anywhere = True
            continue
        wanted = plain(line)
        while at < len(printed) and not (printed[at].startswith(wanted) or (anywhere and wanted in printed[at])):
            if not anywhere:
                return line
            at += 1
        if at == len(printed):
            return line
        at += 1
        anywhere = False
    return None if anywhere or at == len(printed) or not expected else f"only so far, but there is: {printed[at]}"


class Guide(unittest.TestCase):
    def chapter(self, path):
        folder = tempfile.mkdtemp(prefix="mallow-guide-")
        self.addCleanup(shutil.rmtree, folder)
        for example in glob.glob(os.path.join(GUIDE, "examples", "*.c")):
            shutil.copy(example, folder)
        env = dict(os.environ, PATH=os.path.dirname(MALLOW) + ":" + os.environ["PATH"], LC_ALL="C.UTF-8")
        with open(path, encoding="utf-8") as f:
            todo = list(steps(f.read()))
        self.assertTrue(todo)
        for command, expected in todo:
            done = subprocess.run(["bash", "-c", command + "\nstatus=$?; wait; exit $status"], cwd=folder, env=env, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                                  check=False)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")
            # glibc 2.43's own cache may lie above all that is free: then what a pool saves is a bound, and said in more words
            expected = [line for line in expected if FASTBINS or "from a pool of their own" not in line]
            missing = differs(expected, done.stdout.splitlines())
            self.assertIsNone(missing, f"{command}\nexpected: {missing}\nprinted:\n{done.stdout}")

    def test_the_comparison_can_fail(self):
        self.assertIsNone(differs(["a 1 KB", "...", "z"], ["a 2.5 MB", "b", "z"]))
        self.assertIsNone(differs([], ["anything"]))
        self.assertEqual(differs(["a", "c"], ["a", "b"]), "c")
        self.assertEqual(differs(["...", "x"], ["a", "b"]), "x")
        self.assertIsNotNone(differs(["a"], ["a", "b"]))
        self.assertIsNotNone(differs(["a"], []))


def add(path):
    name = os.path.basename(path)[:-3]
    setattr(Guide, f"test_{name}", lambda self: self.chapter(path))


for chapter in sorted(glob.glob(os.path.join(GUIDE, "*.md"))):
    if os.path.basename(chapter) != "README.md":
        add(chapter)
