"""Programs in pid, user and mount namespaces, with /proc mounted anew, in a root with its own /dev/shm, and
with a first thread that has ended (tests/victims/nested.c): the right process is measured, its end is
reported as it was, mallow ends too, and nothing is left in /dev/shm.

Needs unshare(1), and root for what an ordinary user may not do; what cannot be tried here says SKIPPED."""
import json
import os
import re
import signal
import subprocess
import unittest

from mallowtest import MALLOW, Case, needs_strace, run, slow_opens, victim, wait_until

MIB = 1 << 20
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# A root of its own, as a container has: other /proc, other /dev/shm.
ROOT = ('set -e; mount --rbind / "$0"; mount -t tmpfs none "$0/dev/shm"; mount -t proc proc "$0/proc"; '
        'exec chroot "$0" "$@"')
WRAPPERS = {
    "plain": [],
    "pid": ["unshare", "-p", "-f"],
    "pid and proc": ["unshare", "-p", "-f", "--mount-proc"],
    "user": ["unshare", "-U"],
    "user, pid and proc": ["unshare", "-U", "-r", "-p", "-f", "--mount-proc"],
    "two levels": ["unshare", "-p", "-f", "--mount-proc", "unshare", "-p", "-f", "--mount-proc"],
    "container": ["unshare", "-m", "-p", "-f", "sh", "-c", ROOT, "ROOT"],
}
# Runs its arguments as a child of another thread than the first, as a program in Go does; ends as the child.
THREAD = """import subprocess, sys, threading
def run():
    global status
    status = subprocess.run(sys.argv[1:]).returncode
t = threading.Thread(target=run)
t.start()
t.join()
sys.exit(status if status >= 0 else 128 - status)"""
WRAPPERS["container of a thread"] = ["python3", "-c", THREAD, *WRAPPERS["container"]]

# Ten processes, one after the other, that allocate after all have come.
LATE = """import os, time
for i in range(10):
    if not os.fork():
        time.sleep(0.5)
        b = bytearray(1 << 24)
        os._exit(0)
    time.sleep(0.01)
for i in range(10):
    os.wait()"""


def status_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    except (OSError, ValueError):
        return {}


def descendants(pid):
    """Of pid, by /proc."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parents[int(name)] = int(status_of(name).get("PPid", 0))
    found = []
    for p in parents:
        q = p
        while q in parents and q != pid:
            q = parents[q]
        if q == pid and p != pid:
            found.append(p)
    return found


def open_files(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass  # closed meanwhile


def sleeps(pid):
    return int(status_of(pid).get("voluntary_ctxt_switches", 0))


def left():
    return sorted(n for n in os.listdir("/dev/shm") if n.startswith("mallow"))


class Namespaces(Case):
    def setUp(self):
        super().setUp()
        self.assertEqual(left(), [], "of before")

    def wrapper(self, name, options=(), user=()):
        # "own": the program makes a user namespace, which the kernel refuses to a program in a chroot.
        if "own" in options and self.wrapper("user", user=user) is None:
            return None
        argv = [a.replace("ROOT", os.path.join(self.folder, "root")) if a == "ROOT" else a for a in WRAPPERS[name]]
        os.makedirs(os.path.join(self.folder, "root"), exist_ok=True)
        alone = subprocess.run([*user, *argv, "true"], capture_output=True, timeout=600)
        if alone.returncode:
            print(f"SKIPPED, LOUDLY: {name}: not possible here: {alone.stderr.decode(errors='replace').strip()}")
            return None
        return argv

    def nested(self, mallow):
        """The process that has said that it is ready: the child of another."""
        def look():
            for p in descendants(mallow):
                s = status_of(p)
                if s.get("Name") == status_of(s["PPid"]).get("Name") == "nested":
                    return p
            return None
        return wait_until(look, "the program did not come up")

    def start(self, command, argv, user=()):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MALLOW_")}
        p = subprocess.Popen([*user, MALLOW, *command, "--", *argv], env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def one(self, name, options=(), kill=False, user=()):
        wrapper = self.wrapper(name, options, user)
        if wrapper is None:
            return
        context = f"{name} {options} {'killed' if kill else ''} {user}"
        if os.path.exists(self.file):
            os.unlink(self.file)
        p = self.start(["record", "-o", self.file], [*wrapper, victim("nested"), *options], user)
        self.assertEqual(p.stdout.readline(), b"ready 0\n", context)
        pid = self.nested(p.pid)

        # mallow has its size open, so it is the one that is measured; and it has slept since, so it was
        wait_until(lambda: any(name.startswith(f"/proc/{pid}/") and name.endswith("/statm") for name in open_files(p.pid)),
                   context + ": never looked at")
        slept = sleeps(p.pid)
        wait_until(lambda: sleeps(p.pid) >= slept + 2, context + ": mallow does not go on")
        if kill:
            os.kill(pid, signal.SIGKILL)
        out, err = p.communicate(timeout=600)
        self.assertEqual(out, b"", context)
        # unshare -f says of a child that was killed with which signal, or, in some versions, 1
        self.assertIn(p.returncode, [137, 1] if kill and "-f" in wrapper else [137] if kill else [7],
                      context + err.decode(errors="replace"))
        self.assertNotIn(b"no longer recorded", err, context)
        self.assertEqual(left(), [], context)
        doc = self.report()
        [it] = [q for q in doc["processes"] if os.path.basename(q["exe"]) == "nested"
                and q["requested_bytes"] < 64 * MIB and q["end"] != "exec"]
        self.assertEqual((it["complete"], it["end"]), (not kill, "killed" if kill else "exit"), context)
        self.assertEqual((it.get("signal"), it.get("exit_status")), (9, None) if kill else (None, 7), context)
        self.assertGreaterEqual(it["peak_rss_bytes"] or 0, 64 * MIB, context)
        self.assertLess(it["peak_rss_bytes"], 96 * MIB, context)
        self.assertEqual(doc["lost_events"], 0, context)
        return doc

    def test_exit(self):
        for name in WRAPPERS:
            self.one(name)

    def test_killed(self):
        for name in WRAPPERS:
            self.one(name, kill=True)

    def test_own(self):
        self.one("plain", ["own"])
        self.one("plain", ["own"], kill=True)

    def test_leader_ended(self):
        for name in ("plain", "pid and proc", "container"):
            self.one(name, ["leader"])
            self.one(name, ["leader"], kill=True)

    def watched(self, name, options=(), period="1K"):
        """Killed under `mallow watch`: it is watched, its end is what it was, and nothing stays."""
        wrapper = self.wrapper(name, options)
        if wrapper is None:
            return
        context = f"{name} {options}"
        file = os.path.join(self.folder, f"watched {context} {period}")
        p = self.start(["watch", "--json", "-o", file, "--period", period], [*wrapper, victim("nested"), *options])
        self.assertRegex(p.stdout.readline(), rb"^ready [0-9]+\n$", context)
        pid = self.nested(p.pid)
        if name.startswith("container"):  # where it is looked for once in a while
            wait_until(lambda: sum(bool(re.search(r"/mallow-watch-[0-9]+-[0-9]+$", n)) for n in open_files(p.pid)) > 1,
                       context + ": never found")
            slept = sleeps(p.pid)
            wait_until(lambda: sleeps(p.pid) >= slept + 4, context + ": mallow does not go on")
        os.kill(pid, signal.SIGKILL)
        out, err = p.communicate(timeout=600)
        self.assertEqual(out, b"", context + err.decode(errors="replace"))
        self.assertIn(p.returncode, [137, 1] if "-f" in wrapper else [137], context)
        self.assertEqual(left(), [], context)
        with open(file, encoding="utf-8") as f:
            reports = [json.loads(line) for line in f]
        ends = [r for r in reports if r["kind"] == "final" and os.path.basename(r["exe"]) == "nested"
                and r["process"] == "ended"]
        self.assertEqual([r["killed"] for r in ends if r.get("killed")], [True], f"{context}: {reports}")
        [it] = [r for r in ends if r.get("killed")]
        self.assertGreaterEqual(it["estimated_bytes"], 65 * MIB, context)

    def test_watched(self):
        for name in WRAPPERS:
            self.watched(name)
        self.watched("pid and proc", ["leader"])
        self.watched("plain", ["leader"], period="64K")  # the first thread is gone before the first sample
        self.watched("plain", ["own"])

    def test_session_out_of_reach(self):
        """It makes a session of its own in /dev/shm; killed, it leaves it to mallow."""
        p = self.start(["record", "-o", self.file],
                       ["env", "MALLOW_SESSION=/proc/0/fd/0", victim("nested")])
        self.assertEqual(p.stdout.readline(), b"ready 2\n")
        self.assertEqual(len(left()), 2)
        os.kill(self.nested(p.pid), signal.SIGKILL)
        out, err = p.communicate(timeout=600)
        self.assertEqual((p.returncode, out, left()), (137, b"", []), err)
        for it in self.report()["processes"]:
            if os.path.basename(it["exe"]) == "nested":
                self.assertEqual((it["complete"], it["end"]), (False, "killed"))
                self.assertNotIn("exit_status", it)
                self.assertGreaterEqual(it["requested_bytes"], MIB)

    def test_the_namespace_ends(self):
        """Its first process ends, and the kernel kills the others, several at one moment."""
        if self.wrapper("user") is None:
            return
        for _ in range(3):
            if os.path.exists(self.file):
                os.unlink(self.file)
            p = self.start(["record", "-o", self.file], [victim("orphans")])
            out, err = p.communicate(timeout=600)
            self.assertEqual((p.returncode, out, left()), (0, b"", []), err)
            self.assertNotIn(b"no longer recorded", err)
            doc = self.report()
            ends = sorted((it["end"], it["complete"], it.get("exit_status"), it["requested_bytes"] >= 48 * MIB)
                          for it in doc["processes"])
            self.assertEqual(ends, [("exit", True, 0, False)] * 2 + [("killed", False, None, True)] * 3)
            # The kernel lets nobody wait for them: that it was SIGKILL is seen, or not known.
            self.assertLessEqual({it.get("signal") for it in doc["processes"]}, {9, None})
            self.assertEqual(doc["lost_events"], 0)

    @needs_strace
    def test_one_that_comes_while_mallow_looks(self):
        """Each file of /proc takes 0.2 ms more to open. Processes that are younger than a list of them are not taken for
        gone: what they allocate later is recorded."""
        wrapper = self.wrapper("pid")
        if wrapper is None:
            return
        r = run([*slow_opens(200), MALLOW, "record", "-q", "-o", self.file, "--", *wrapper, "python3", "-c", LATE])
        self.assertEqual((r.rc, r.err), (0, b""))
        late = [p for p in self.report(options=["-n1"])["processes"] if p["requested_bytes"] >= 16 * MIB]
        self.assertEqual([(p["end"], p["exit_status"]) for p in late], [("exit", 0)] * 10)

    @unittest.skipIf(os.geteuid(), "SKIPPED, LOUDLY: only root can become somebody else")
    def test_of_another_user(self):
        os.chmod(self.folder, 0o777)
        for name in ("plain", "user", "user, pid and proc"):
            self.one(name, kill=True, user=NOBODY)

    @unittest.skipIf(os.geteuid(), "SKIPPED, LOUDLY: only root can mount /proc, and become somebody else")
    def test_of_another_user_and_hidden(self):
        """By the option hidepid of /proc: the process is there, and what was said is that there is none."""
        p = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        hidden = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && cd / && exec setpriv --reuid 65534 --regid 65534 '
                  '--clear-groups "$@"', "sh"]
        shown = [*hidden]
        shown[4] = shown[4].replace("hidepid=2", "hidepid=0")
        for command in (["watch", "-p", p.pid], ["record", "--how", "inject", "-o", self.file, "-p", p.pid], ["heap", p.pid],
                        ["control", p.pid, "sync"]):
            r = run([*hidden, MALLOW, *command])
            self.assertEqual(r.rc, 1, r.err)
            self.assertIn(b"process %d is there, and /proc hides it" % p.pid, r.err, command)
            self.assertNotIn(b"no process", r.err)
            self.assertNotIn(b"hides it", run([*shown, MALLOW, *command]).err, command)
        p.kill()
        p.wait()
        self.assertIn(b"there is no process", run([*hidden, MALLOW, "heap", p.pid]).err)
