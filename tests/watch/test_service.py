"""The unit, the drop-in and the image recipe of packaging/: they are valid, and the unit's command works with what
the unit allows it."""
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

from mallowtest import BUILD, MALLOW, ROOT, WATCH_LIBRARY, program, wait_until
from mallowtest.fakes import CHROOTED, CONTAINED, Watch, functions

PACKAGED, CONTAINERFILE = os.path.join(BUILD, "packaging"), os.path.join(ROOT, "packaging", "container", "Containerfile")
OTHER_USER, LEAK, SHARED = 65534, "forgets_to_free", "/dev/shm"


def settings(name):
    """All NAME=VALUE lines of a unit file, in order."""
    with open(os.path.join(PACKAGED, name), encoding="utf-8") as f:
        return [tuple(l.rstrip("\n").split("=", 1)) for l in f if "=" in l and l[0] not in "#["]


def setting(name, key):
    (found,) = [v for k, v in settings(name) if k == key]
    return found


class Unit(unittest.TestCase):
    def test_it_is_valid(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("SKIPPED, LOUDLY: no systemd-analyze")
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "mallow-watch.service")
            with open(os.path.join(PACKAGED, "mallow-watch.service"), encoding="utf-8") as f:
                text = f.read()
            program = setting("mallow-watch.service", "ExecStart").split()[0]
            with open(path, "w", encoding="utf-8") as f:  # where it will be, there is nothing yet
                f.write(text.replace(program, os.path.realpath(MALLOW)))
            out = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True,
                                 check=False, timeout=300)
        complaints = [l for l in (out.stdout + out.stderr).splitlines() if "mallow" in l]
        self.assertEqual((complaints, out.returncode), ([], 0), out.stderr)

    def test_the_drop_in(self):
        found = dict(v.split("=", 1) for k, v in settings("preload.conf") if k == "Environment")
        self.assertRegex(found["LD_PRELOAD"], r"^/.*/mallow/libmallow-watch\.so$")
        library = WATCH_LIBRARY
        out = subprocess.run(["/bin/echo", "ran"], env={**os.environ, **found, "LD_PRELOAD": library},
                             capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual((out.stdout, out.stderr), ("ran\n", ""))


class Command(unittest.TestCase):
    """The command of the unit, with its capabilities alone."""

    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("SKIPPED, LOUDLY: needs root and setpriv")
        place = tempfile.TemporaryDirectory(prefix="mallow-test-")
        self.addCleanup(place.cleanup)
        os.chmod(place.name, 0o755)
        self.place = place.name
        self.server = shutil.copy(program("watch/server"), os.path.join(self.place, f"service-{os.getpid()}"))
        self.library = shutil.copy(WATCH_LIBRARY, self.place)

    def hold(self, before=(), **more):
        p = subprocess.Popen([*before, "/usr/bin/env", f"LD_PRELOAD={self.library}", "MALLOW_WATCH_PERIOD=64K", self.server,
                              "hold", "10", "grow"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), "ready\n")
        p.stdin.write("20\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), "grown\n")
        return p

    def command(self):
        """argv behind the program, and setpriv with the unit's capabilities."""
        argv = shlex.split(setting("mallow-watch.service", "ExecStart").replace("%%", "%").replace("$MALLOW_WATCH_OPTIONS", ""))
        self.assertEqual((os.path.basename(argv[0]), argv[1]), ("mallow", "watch"))
        state = os.path.join(self.place, "state")
        os.mkdir(state, 0o700)
        wanted = setting("mallow-watch.service", "CapabilityBoundingSet").split()
        caps = "-all," + ",".join("+" + c.removeprefix("CAP_").lower() for c in wanted)
        return (["setpriv", f"--bounding-set={caps}", "--inh-caps=-all", "--no-new-privs"],
                [a.replace("${STATE_DIRECTORY}", state) for a in argv[2:]], state)

    def test_with_what_it_may(self):
        other, contained = self.hold(user=OTHER_USER, group=OTHER_USER, extra_groups=[]), self.hold(before=CONTAINED)
        chrooted = self.hold(before=[*CHROOTED, self.place])
        watched = {other.pid, contained.pid, chrooted.pid}
        before, argv, state = self.command()
        argv = [a.replace("rss>90%", "rss>10M") for a in argv]
        comm = os.path.basename(self.server)
        with subprocess.Popen([*before, MALLOW, "watch", *argv, "--json", "--comm", comm, "--every", "500ms", "--old", "1ms",
                               "--period", "32K"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            try:
                waited = set(watched)
                end = time.monotonic() + 600
                while waited:
                    self.assertLess(time.monotonic(), end, f"the watch does not see {waited}")
                    line = p.stdout.readline()
                    self.assertTrue(line, "the watch ended")
                    r = json.loads(line)
                    if any(LEAK in functions(s) for s in r["sites"]) and r["period_bytes"] == 32768:
                        waited.discard(r["pid"])
                for pid in watched:
                    wait_until(lambda n=f"{comm}.{pid}.1.pb.gz": n in os.listdir(state), "a dump of each")
                (segment,) = [n for n in os.listdir(SHARED) if n.startswith(f"mallow-watch-{other.pid}-")]
                other.kill()  # what it leaves is another user's, in a sticky directory
                wait_until(lambda: segment not in os.listdir(SHARED), "it is removed")
            finally:
                p.terminate()
                err = p.communicate(timeout=300)[1]
        self.assertEqual(p.returncode, 0, err)

    def test_the_image_runs_the_same(self):
        with open(CONTAINERFILE, encoding="utf-8") as f:
            text = f.read()
        (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
        argv = json.loads(command)
        self.assertEqual(argv[0], "watch")
        caps = sorted("CAP_" + c for c in re.findall(r"--cap-add=(\w+)", text))
        self.assertEqual(caps, sorted(setting("mallow-watch.service", "CapabilityBoundingSet").split()))
        argv = [a if a != "/dumps" else self.place for a in argv[1:]]
        held = self.hold()
        watch = Watch(*argv, "--comm", os.path.basename(self.server), "--every", "500ms", "--old", "1ms")
        self.addCleanup(watch.__exit__)
        while not any(LEAK in functions(s) for s in watch.next("old")["sites"]):
            pass
        self.assertEqual(watch.end()[2], 0)
        self.assertIsNone(held.poll())
