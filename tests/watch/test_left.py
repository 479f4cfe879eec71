"""What watched processes that died leave in /dev/shm: listed, read, removed, and bounded. Environment
(set by meson): MALLOW, SERVER, WATCH_LIBRARY."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from mallowtest import MALLOW, WATCH_LIBRARY, has_ended, program, wait_until

SERVER = program("watch/server")
SHARED, PREFIX, MOST = "/dev/shm", "mallow-watch-", 33
NOBODY = 2147483646  # no process has this id


def mallow(*args):
    return subprocess.run([MALLOW, *args], capture_output=True, text=True, check=False, timeout=600)


def crash(**more):
    """A process that dies under the library; its segment's path."""
    with subprocess.Popen([SERVER, "hold", "100", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=dict(os.environ, LD_PRELOAD=WATCH_LIBRARY, MALLOW_WATCH_PERIOD="4K", **more)) as p:
        p.stdout.readline()
        (name,) = [n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}{p.pid}-")]
        p.send_signal(signal.SIGKILL)
        p.wait(600)
    return p.pid, os.path.join(SHARED, name)


def listed():
    out = mallow("watch", "--left", "list", "--json")
    return {r["path"]: r for r in map(json.loads, out.stdout.splitlines())}


class Left(unittest.TestCase):
    def remove(self, path):
        if os.path.exists(path):
            os.unlink(path)

    def test_listed_and_said_by_doctor_and_read(self):
        pid, path = crash()
        self.addCleanup(self.remove, path)
        found = listed()[path]
        self.assertEqual((found["pid"], found["schema"], found["kind"]), (pid, 1, "left"))
        self.assertEqual(found["exe"], os.path.realpath(SERVER))
        self.assertGreater(found["bytes"], 4096)
        self.assertIn(str(pid), mallow("watch", "--left", "list").stdout)
        checks = {c["name"]: c for c in json.loads(mallow("doctor", "--json").stdout)["checks"]}
        self.assertEqual((checks["watch-left"]["status"], checks["watch-left"]["remedy"]),
                         ("limited", "mallow watch --left clear"))
        out = mallow("watch", "-p", str(pid), "--json")
        self.assertEqual((out.returncode, json.loads(out.stdout.splitlines()[-1])["kind"]), (0, "final"), out.stderr)
        self.assertNotIn(path, listed())

    @unittest.skipIf(os.geteuid(), "SKIPPED, LOUDLY: only root can make a pid namespace without /proc")
    def test_one_out_of_sight(self):
        """In a pid namespace that it cannot name, under an id that no process has here: it holds its memory, so it has not ended, and
        its memory stays."""
        here, before = {int(n) for n in os.listdir("/proc") if n.isdigit()}, os.listdir(SHARED)
        script = ("import os, sys\nhere = set(map(int, sys.argv[1].split(',')))\n"
                  "while (p := os.fork()) in here: os.waitpid(p, 0)\n"
                  "if p: os.waitpid(p, 0)\n"
                  "elif os.getpid() not in here: os.environ['LD_PRELOAD'] = sys.argv[2]; os.execv(sys.argv[3], sys.argv[3:])\n")
        with subprocess.Popen(["unshare", "-p", "-f", "-m", "--kill-child", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh",
                               sys.executable, "-c", script, ",".join(map(str, sorted(here))), WATCH_LIBRARY, SERVER, "hold", "100", "wait"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, MALLOW_WATCH_PERIOD="4K")) as p:
            self.addCleanup(p.kill)
            if not p.stdout.readline():
                self.skipTest("SKIPPED, LOUDLY: there are no pid namespaces here")
            (path,) = [n for n in os.listdir(SHARED) if n.startswith(PREFIX) and n not in before]
            pid = path[len(PREFIX):].split("-")[0]
            path = os.path.join(SHARED, path)
            out = mallow("watch", "-p", pid)
            self.assertEqual((out.returncode, out.stdout), (1, ""))
            self.assertIn(f"no process {pid} here, but a watched one is called so", out.stderr)
            self.assertTrue(os.path.exists(path))
            self.assertNotIn(path, listed())
            p.kill()
            p.communicate()
        wait_until(lambda: not os.path.exists(path) or path in listed(), "its end", 60)  # at the end of its input it removes it
        self.remove(path)

    def test_cleared_but_for_the_living(self):
        _, path = crash()
        session = f"{SHARED}/{PREFIX}session-{NOBODY}-test"
        os.mkdir(session, 0o700)
        with open(f"{session}/{NOBODY}-1", "wb"):
            pass
        with subprocess.Popen([SERVER, "hold", "100", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=dict(os.environ, LD_PRELOAD=WATCH_LIBRARY, MALLOW_WATCH_PERIOD="4K")) as p:
            p.stdout.readline()
            (mine,) = [n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}{p.pid}-")]
            out = mallow("watch", "--left", "clear")
            self.assertEqual(out.returncode, 0, out.stderr)
            self.assertTrue(os.path.exists(os.path.join(SHARED, mine)))
            p.communicate("\n", timeout=600)
        self.assertFalse(os.path.exists(path))
        self.assertFalse(os.path.exists(session))

    def test_watch_that_was_killed(self):
        """Its directory stays as long as a program that it was made for runs; then it is removed with what is
        in it."""
        with subprocess.Popen([MALLOW, "watch", "-q", "--period", "4K", "--", SERVER, "hold", "100", "wait"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
            watch.stdout.readline()
            (session,) = [os.path.join(SHARED, n) for n in os.listdir(SHARED)
                          if n.startswith(f"{PREFIX}session-{watch.pid}-")]
            (name,) = os.listdir(session)
            pid = int(name.split("-")[0])
            self.addCleanup(lambda: os.path.exists(session) and shutil.rmtree(session))
            os.kill(watch.pid, signal.SIGKILL)
            watch.wait(600)
            self.assertEqual([p for p in listed() if p.startswith(session)], [])
            self.assertEqual(mallow("watch", "--left", "clear").returncode, 0)
            self.assertEqual(os.listdir(session), [name])
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: has_ended(pid), "the program has ended")  # with its pipe, not all of its files are closed
        self.assertEqual(sorted(p for p in listed() if p.startswith(session)), [session, f"{session}/{name}"])
        out = mallow("watch", "--left", "clear")
        self.assertEqual((out.returncode, os.path.exists(session)), (0, False), out.stderr)
        self.assertIn("what 1 process had left", out.stdout)
        self.assertIn("1 directory of", out.stdout)

    def test_watch_that_was_killed_beside_nothing(self):
        """Of a program without the library: its directory is empty, and goes once it is too old to be about to be used."""
        session = f"{SHARED}/{PREFIX}session-{NOBODY}-empty"
        os.mkdir(session, 0o700)
        self.addCleanup(lambda: os.path.exists(session) and os.rmdir(session))
        for _ in range(600):
            if session in listed():
                break
            time.sleep(0.1)
        out = mallow("watch", "--left", "clear")
        self.assertEqual((out.returncode, os.path.exists(session)), (0, False), out.stderr)
        self.assertIn("1 directory of", out.stdout)

    def test_end_by_a_system_call(self):
        """As Go's, at every end: nothing tells it from one that was killed. It is listed, bounded and cleared."""
        command, paths = [SERVER, "hold", "100", "raw-end"], []
        for _ in range(MOST + 3):
            p = subprocess.Popen(command, env=dict(os.environ, LD_PRELOAD=WATCH_LIBRARY, MALLOW_WATCH_PERIOD="4K"),
                                 stdout=subprocess.DEVNULL)
            self.assertEqual(p.wait(600), 3)
            (name,) = [n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}{p.pid}-")]
            paths.append(os.path.join(SHARED, name))
            self.addCleanup(self.remove, paths[-1])
        self.assertEqual([os.path.exists(p) for p in paths], [False] * 3 + [True] * MOST)
        self.assertEqual(sorted(p for p in listed() if p in paths), sorted(paths[3:]))
        self.assertEqual(mallow("watch", "--left", "clear").returncode, 0)
        self.assertFalse(any(map(os.path.exists, paths)))
        out = mallow("watch", "--json", "--period", "4K", "--", *command)  # who is there to read it removes it
        self.assertEqual((out.returncode, json.loads(out.stdout.splitlines()[-1])["kind"]), (3, "final"), out.stderr)
        self.assertEqual([n for n in os.listdir(SHARED) if n.startswith(PREFIX)], [])

    def test_bounded(self):
        """A service that crashes again and again leaves a bounded number, the latest ones."""
        paths = [crash()[1] for _ in range(MOST + 7)]
        for p in paths:
            self.addCleanup(self.remove, p)
        self.assertEqual(sum(os.path.exists(p) for p in paths), MOST)
        self.assertTrue(os.path.exists(paths[-1]))
        self.assertFalse(os.path.exists(paths[0]))

    def test_usage(self):
        for args in (("--left", "list", "-p", "1"), ("--left", "list", "true"), ("--left", "all")):
            out = mallow("watch", *args)
            self.assertEqual((out.returncode, out.stdout), (2, ""), args)


class Elsewhere(unittest.TestCase):
    """Processes of another pid namespace that share /dev/shm: what they are called there is nobody's id here."""
    UNSHARE = ["unshare", "-pf", "--mount-proc", "--kill-child"]

    def setUp(self):
        if subprocess.run([*self.UNSHARE, "/bin/sh", "-c", "echo 100 > /proc/sys/kernel/ns_last_pid"],
                          capture_output=True, check=False).returncode:
            self.skipTest("SKIPPED, LOUDLY: no pid namespace can be made here, or no id chosen in it")
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as f:
            self.pid = min(int(f.read()), 1 << 22) - 700
        while os.path.exists(f"/proc/{self.pid}"):
            self.pid -= 1
        inner = f'exec 3<&0; echo {self.pid - 1} > /proc/sys/kernel/ns_last_pid; "$@" <&3 & wait'
        self.process = subprocess.Popen(
            [*self.UNSHARE, "/bin/sh", "-c", inner, "sh", "env", f"LD_PRELOAD={WATCH_LIBRARY}", "MALLOW_WATCH_PERIOD=4K",
             SERVER, "hold", "100", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.process.stdout.readline()
        (name,) = [n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}{self.pid}-")]
        self.path = os.path.join(SHARED, name)

    def end(self):
        self.process.kill()
        self.process.communicate(timeout=600)
        if os.path.exists(self.path):
            os.unlink(self.path)

    def test_the_living_are_not_left(self):
        self.assertNotIn(self.path, listed())
        out = mallow("watch", "--left", "clear")
        self.assertEqual((out.returncode, os.path.exists(self.path)), (0, True), out.stderr)
        out = mallow("watch", "-p", str(self.pid))
        self.assertEqual((out.returncode, os.path.exists(self.path)), (1, True), out.stderr)
        self.assertIn("another pid namespace", out.stderr)
        self.process.kill()  # and with it what is in the namespace
        self.process.wait(600)
        for _ in range(6000):  # which the kernel does in its own time
            if self.path in listed():
                break
            time.sleep(0.1)
        self.assertEqual(mallow("watch", "--left", "clear").returncode, 0)
        self.assertFalse(os.path.exists(self.path))

    def test_the_living_do_not_make_room(self):
        """Processes of ours die and leave more than may stay: the oldest is not theirs to remove."""
        left = [crash()[1] for _ in range(MOST + 3)]
        for path in left:
            self.addCleanup(lambda p=path: os.path.exists(p) and os.unlink(p))
        self.assertFalse(os.path.exists(left[0]))
        self.assertTrue(os.path.exists(self.path))

    def test_watched_through_its_session(self):
        out = mallow("watch", "--json", "--period", "4K", "--", *self.UNSHARE, SERVER, "hold", "1000", "end")
        self.assertEqual(out.returncode, 3, out.stderr)  # the server's
        finals = {r["pid"]: r for r in map(json.loads, out.stdout.splitlines()) if r["kind"] == "final"}
        self.assertTrue(finals[1]["other_pid_namespace"])
        self.assertEqual(finals[1]["exe"], os.path.realpath(SERVER))
        self.assertGreater(sum(s["sampled_blocks"] for s in finals[1]["sites"]), 0)
        self.assertFalse([n for n in os.listdir(SHARED) if n.startswith(f"{PREFIX}session-")])


def main():
    """In a /dev/shm of its own, where what others left is none of this test's business, and in a pid namespace of
    its own, where nobody gets the ids of our dead: who has one is not dead."""
    if os.environ.get("OWN_SHARED_MEMORY"):
        unittest.main(verbosity=2)
    inner = f'mount -t tmpfs none {SHARED} && OWN_SHARED_MEMORY=1 exec "$@"'
    options = ["-mpf", "--mount-proc", "--kill-child"] + ([] if os.geteuid() == 0 else ["-r"])
    if subprocess.run(["unshare", *options, "mount", "-t", "tmpfs", "none", SHARED], capture_output=True,
                      check=False).returncode:
        print("SKIPPED, LOUDLY: no mount and pid namespace with a /dev/shm of its own can be had here")
        sys.exit(77)
    os.execvp("unshare", ["unshare", *options, "/bin/sh", "-c", inner, "sh", sys.executable, *sys.argv])


if __name__ == "__main__":
    main()
