"""`mallow record --to`: the recording leaves the machine while the program runs, which notices nothing; whoever is
killed, nothing is lost, and what comes back is the recording bit for bit."""
import json
import os
import re
import signal
import subprocess
import sys

from mallowtest import LONG, MALLOW, Test, has_ended, main, wait_until
from store import Store

KILLS = 20 if LONG else 5
SIZE = 64 << 10
ENV = {**os.environ, "no_proxy": "*", "HOME": "/nonexistent", "PYTHONMALLOC": "malloc"}
# Allocates, says so, and waits for a line before it allocates once more.
PROGRAM = """
import os
import sys
kept = [str(i) for i in range(30000)]
print("there", os.getpid(), flush=True)
sys.stdin.readline()
kept += [str(i) for i in range(30000)]
print("done")
sys.exit(7)
"""


def mallow(*arguments, **more):
    return subprocess.run([MALLOW, *arguments], env=ENV, capture_output=True, text=True, check=False, **more)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


class To(Test):
    def setUp(self):
        self.file = os.path.join(self.folder, "run.mlw")
        self.back = os.path.join(self.folder, "back.mlw")
        self.store = Store()
        self.addCleanup(lambda: self.store.close())
        self.url = self.store.url + "/here"

    def start(self, *more, to=None):
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--to", to or self.url, "--segment-size", str(SIZE),
                              *more, "--", sys.executable, "-c", PROGRAM], env=ENV, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        there, self.program = p.stdout.readline().split()
        self.assertEqual(there, "there")
        return p

    def finish(self, p, status=7):
        out, said = p.communicate("go\n")
        self.assertEqual(p.returncode, status, said)
        self.assertEqual(out, "done\n")
        return said

    def pull(self, *more, url=None):
        out = mallow("pull", url or self.url, "-o", self.back, *more)
        self.assertEqual(out.returncode, 0, out.stderr)

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def some(self, n=1):
        wait_until(lambda: len(self.store.segments("/here/")) >= n)

    def the_uploader(self, p):
        """The other child of `mallow record`."""
        found = []

        def look():
            found[:] = [c for c in children(p.pid) if c != int(self.program) and not has_ended(c)]
            return found
        wait_until(look)
        return found[0]

    def test_bit_for_bit(self):
        p = self.start("--keep-raw")
        self.some(3)  # while it runs
        self.assertIsNone(p.poll())
        self.assertNotIn("/here/manifest.sha256", self.store.objects)
        wait_until(lambda: "/here/progress.sha256" in self.store.objects)
        self.pull("--partial", "-q")
        part = self.read(self.back)
        said = self.finish(p)
        self.assertIn("it is at " + self.url + "/", said)
        whole = self.read(self.file)
        self.pull("-q")
        self.assertEqual(self.read(self.back), whole)
        self.assertEqual(part, whole[:len(part)])
        self.assertGreaterEqual(len(part), SIZE)
        self.assertEqual([path for method, path in self.store.asked if method == "PUT"][-1], "/here/manifest.sha256")

    def test_sealed_here_and_there(self):
        self.finish(self.start())
        self.pull("-q")
        self.assertEqual(self.read(self.file)[:4], b"MLS1")
        self.assertEqual(self.read(self.back)[:4], b"MLC1")
        for path in (self.file, self.back):
            found = json.loads(mallow("report", "--json", path).stdout)
            self.assertTrue(found["processes"][0]["complete"])
        self.assertEqual(self.read(self.back), self.read(self.file))

    def test_a_name_of_its_own(self):
        said = self.finish(self.start(to=self.store.url + "/all/"))
        [name] = {path.split("/")[2] for path in self.store.objects}
        self.assertRegex(name, rf"^[\w.-]+\.{re.escape(os.path.basename(sys.executable))}\.\d+\.\d+\.mlw$")
        self.assertIn(f"it is at {self.store.url}/all/{name}/", said)

    def test_remove(self):
        said = self.finish(self.start("--remove"))
        self.assertEqual(os.listdir(self.folder), [])
        self.assertIn("removed here", said)
        self.pull("-q")
        found = json.loads(mallow("report", "--json", self.back).stdout)
        self.assertGreater(found["events"], 60000)

    def test_not_removed_where_the_server_forgets(self):
        self.store.fault = lambda h, path, body: h.command == "HEAD" and (h.answer(404) or True)
        said = self.finish(self.start("--remove"))
        self.assertIn("has no object of its size", said)
        self.assertGreater(json.loads(mallow("report", "--json", self.file).stdout)["events"], 60000)

    def test_a_server_that_is_away_for_a_while(self):
        self.store.fault = lambda h, path, body: h.answer(503) or True
        p = self.start()
        wait_until(lambda: self.store.asked)
        self.store.fault = None
        said = self.finish(p)
        self.assertIn("it is tried again while the recording goes on", said)
        self.pull("-q")
        mallow("report", self.back)
        self.assertEqual(self.read(self.back), self.read(self.file))

    def test_a_server_that_stays_away(self):
        p = self.start()
        wait_until(lambda: "/here/progress.sha256" in self.store.objects)
        self.store.fault = lambda h, path, body: h.answer(403) or True
        said = self.finish(p)
        self.assertIn("403", said)
        self.assertIn(f"mallow push --segments run.mlw --to {self.url}/".replace("run.mlw", self.file), said)
        raw = self.read(self.file)
        self.assertEqual(raw[:4], b"MLC1")
        self.store.fault = None
        out = mallow("push", "--segments", "--json", self.file, "--to", self.url)
        found = json.loads(out.stdout)
        self.assertLess(found["sent_segments"], found["segments"])  # where it stopped
        self.pull("-q")
        self.assertEqual(self.read(self.back), raw)

    def test_another_recording_is_there(self):
        self.finish(self.start())
        before = dict(self.store.objects)
        self.assertIn("another recording", self.finish(self.start()))
        self.assertEqual(self.store.objects, before)
        self.assertGreater(json.loads(mallow("report", "--json", self.file).stdout)["events"], 60000)

    def test_the_uploader_killed(self):
        for i in range(KILLS):
            self.store.objects.clear()
            self.store.asked.clear()
            p = self.start("--keep-raw")
            wait_until(lambda i=i: len(self.store.asked) >= i + 1)
            os.kill(self.the_uploader(p), signal.SIGKILL)
            self.finish(p)
            self.pull("-q")
            self.assertEqual(self.read(self.back), self.read(self.file))

    def test_mallow_killed(self):
        p = self.start()
        self.some(2)
        uploader = self.the_uploader(p)
        p.kill()
        out, _ = p.communicate("go\n")
        self.assertEqual(out, "done\n")  # the program went on
        wait_until(lambda: has_ended(uploader))
        self.assertNotIn("/here/manifest.sha256", self.store.objects)
        raw = self.read(self.file)
        out = mallow("push", "--segments", "-q", "--remove", self.file, "--to", self.url)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.pull("-q")
        self.assertEqual(self.read(self.back), raw)

    def test_the_program_is_what_it_would_be(self):
        out = mallow("record", "-q", "-o", self.file, "--to", self.url, "--", "sh", "-c",
                     "ls -l /proc/self/fd | grep -c socket; kill -9 $$")
        self.assertEqual((out.returncode, out.stdout), (137, "0\n"))
        self.assertEqual(out.stderr, "")

    def test_usage(self):
        for arguments in (["--remove"], ["--s3", "x"], ["--segment-size=1M"], ["--header=A: b"], ["--ca=x"]):
            out = mallow("record", *arguments, "--", "true")
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn("--to", out.stderr)
        out = mallow("record", "--to", self.url, "--last=5m", "--", "true")
        self.assertEqual(out.returncode, 2)
        self.assertIn("--last", out.stderr)
        for url in ("ftp://127.0.0.1/x", "nothing"):
            self.assertEqual(mallow("record", "-o", self.file, "--to", url, "--", "true").returncode, 2)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    have = [c for c in json.loads(mallow("doctor", "--json").stdout)["checks"] if c["name"] == "push"]
    if have[0]["status"] != "ok":
        print("SKIPPED, LOUDLY: this build has no libcurl")
    else:
        main()
