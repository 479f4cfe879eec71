"""What processes are called: by a link, with an empty argument, with a title and a name that they gave to themselves."""
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

from mallowtest import MALLOW, VICTIMS

TITLE = "server: user db\x1b[2J idle"
SHOWN = r"server: user db\x1b[2J idle"


def reads_of(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as f:
        return int(re.search(r"syscr: (\d+)", f.read()).group(1))


class Called(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.link = folder.name + "/called-so"
        self.recording = folder.name + "/r.mlw"
        os.symlink(VICTIMS + "/titled", self.link)
        self.command = ["--", self.link, "--save", "", "-x", "padding, since titles are no longer than arguments", ""]

    def start(self, *options):
        p = subprocess.Popen([MALLOW, *options, *self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        for f in (p.stdin, p.stdout, p.stderr):
            self.addCleanup(f.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def tell(self, p, *lines):
        for line in lines:
            p.stdin.write(line + "\n")
            p.stdin.flush()
            while p.stdout.readline() != "\n":
                pass

    def report(self, *options):
        done = subprocess.run([MALLOW, "report", *options, self.recording], capture_output=True, text=True, timeout=100,
                              check=True)
        return done.stdout

    def record(self, *lines):
        p = self.start("record", "-q", "-o", self.recording)
        self.tell(p, *lines)
        if lines:
            time.sleep(0.3)  # what was looked at before counts no longer
            then = reads_of(p.pid)
            while reads_of(p.pid) < then + 20:
                time.sleep(0.05)
        p.stdin.close()
        self.assertEqual(p.wait(100), 0)
        process, = json.loads(self.report("--json"))["processes"]
        return process

    def test_a_link_and_empty_arguments(self):
        process = self.record()
        self.assertEqual(process["command"], self.command[1:])
        self.assertEqual((process["name"], process["title"]), ("called-so", None))
        self.assertTrue(process["exe"].endswith("/titled"))
        self.assertIn("called-so --save '' -x padding, since titles are no longer than arguments ''\n", self.report())

    def test_a_title_and_a_name_in_a_recording(self):
        process = self.record("title " + TITLE, "name worker/7")
        self.assertEqual(process["command"], self.command[1:])
        self.assertEqual((process["title"], process["comm"]), (TITLE, "worker/7"))
        text = self.report()
        self.assertIn(SHOWN + " (worker/7)\n", text)
        self.assertNotIn("\x1b[2J", text)

    def test_a_title_and_a_name_in_a_watch(self):
        p = self.start("watch", "--period", "1", "--every", "1s", "--old", "1ms", "--json")
        first = json.loads(p.stdout.readline())
        self.assertEqual((first["name"], first["title"], first["comm"]),
                         ("called-so", None, "called-so"))
        self.assertEqual(first["command"], self.command[1:])
        p.stdin.write(f"title {TITLE}\nname worker/7\n")
        p.stdin.flush()
        for line in p.stdout:
            if line != "\n" and (said := json.loads(line))["comm"] == "worker/7":
                break
        self.assertEqual((said["name"], said["title"]), ("called-so", TITLE))
