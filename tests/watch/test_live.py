"""`mallow watch` with the library in real processes: a server that leaks while it serves, a small leak
in much churn, ends of every kind of the program and of the reader, children, profiles. Environment
(set by meson): MALLOW, SERVER, VICTIMS (of tests/victims)."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from mallowtest import MALLOW, program, victim, wait_until
from mallowtest.fakes import Watch, functions
from mallowtest.memorygroup import MemoryGroup

SERVER = program("watch/server")
NEVER = "1000h"
LEAK = "forgets_to_free"


def command(*args):
    return ["--", SERVER, *args]


def lines(*args, **more):
    """All objects of a watch that ran to its end; its status; stderr."""
    more.setdefault("stdin", subprocess.DEVNULL)
    with Watch(*args, **more) as watch:
        out, err, status = end_of(watch)
    return out, status, err


def end_of(watch):
    import json
    out, err = watch.process.communicate(timeout=600)
    return [json.loads(l) for l in out.splitlines() if l.startswith("{")], err, watch.process.returncode


def sessions(pid):
    return glob.glob(f"/dev/shm/mallow-watch-session-{pid}-*")


def site_of(report, function=LEAK):
    return next((s for s in report["sites"] if function in functions(s)), None)


class Load:
    """Clients that ask a server without end."""

    def __init__(self, port, clients=2):
        self.stop, self.answers = False, 0
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
        self.threads = [threading.Thread(target=self.ask, args=(s,)) for s in self.sockets]
        for t in self.threads:
            t.start()

    def ask(self, s):
        with s.makefile("rw") as stream:
            while not self.stop:
                stream.write("work\n")
                stream.flush()
                if not stream.readline():
                    return
                self.answers += 1
                time.sleep(0.002)

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join(600)
        self.sockets[0].sendall(b"stop\n")
        for s in self.sockets:
            s.close()


class Server(unittest.TestCase):
    def test_leak_is_found_while_it_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            port_file = os.path.join(folder, "port")
            with Watch("--every", "500ms", "--old", "1500ms", "--period", "32K",
                       *command("serve", port_file)) as watch:
                wait_until(lambda: os.path.exists(port_file) and os.path.getsize(port_file), "the port")
                with open(port_file, encoding="utf-8") as f:
                    load = Load(int(f.read()))
                found = watch.next("old")
                # The cache turns over; only the leak stays, and grows from report to report.
                while not (found["sites"] and functions(found["sites"][0])[0] == LEAK and
                           found["sites"][0]["sampled_blocks"] >= 20 and found["sites"][0]["growth_bytes"] > 0):
                    found = watch.next("old")
                self.assertEqual(functions(found["sites"][0])[:3], [LEAK, "handles_request", "serves_connection"])
                load.end()
                rest, err, status = end_of(watch)
            self.assertEqual(status, 3, err)
            final = rest[-1]
            self.assertEqual((final["kind"], final["exit_status"]), ("final", 3))
            leak = site_of(final)
            truth = load.answers * 2000
            print(f"server: {load.answers} requests, {truth} bytes lost, estimated {leak['estimated_bytes']} "
                  f"({leak['estimated_bytes_low']}..{leak['estimated_bytes_high']}), {final['dropped']} dropped")
            # Five standard errors: a test is no place for bad luck.
            error = 5 * (truth * 32768) ** 0.5 + 200000
            self.assertLess(abs(leak["estimated_bytes"] - truth), error)

    def test_small_leak_in_much_churn(self):
        """1 MB a minute in 500 MB/s, five minutes, in a thirtieth of the time: 5 MB in 15 GB would take
        long on a loaded machine, so that a tenth of the churn goes with it."""
        # 76 samples of the leak are to be expected: not one in 10^33 runs has none
        out, status, err = lines("--every", "1s", "--period", "64K",
                                 *command("churn", "10000", "5000000", "1500000000"))
        self.assertEqual(status, 0, err)
        old = [r for r in out if r["kind"] == "old" and r["sites"]]
        self.assertTrue(old, "nothing was reported")
        self.assertEqual(functions(old[-1]["sites"][0])[:2], [LEAK, "churn"])
        self.assertEqual(old[-1]["older_than_from"], "lifetimes")
        leak = site_of(out[-1])
        print(f"churn: 5000000 bytes lost, estimated {leak['estimated_bytes']} ({leak['estimated_bytes_low']}.."
              f"{leak['estimated_bytes_high']}), first named after {old[0]['time_ns'] / 1e9:.1f} s of 10")


class Ends(unittest.TestCase):
    def check_final(self, final, blocks):
        found = sum(s["estimated_blocks"] for s in final["sites"] if LEAK in functions(s))
        self.assertLess(abs(found - blocks), 5 * (blocks * 4096 / 2000) ** 0.5 + 10)

    def watched(self, how, *more):
        return Watch("--every", NEVER, "--period", "4K", *more, *command("hold", "1000", how),
                     stdin=subprocess.PIPE)

    def ready(self, watch):
        self.assertEqual(watch.process.stdout.readline(), "ready\n")

    def test_own_status_and_last_line(self):
        out, status, err = lines("--period", "4K", *command("hold", "1000", "end"))
        self.assertEqual((status, [r["kind"] for r in out], err), (3, ["final"], ""))
        self.assertEqual((out[0]["process"], out[0]["exit_status"]), ("ended", 3))
        self.check_final(out[0], 1000)

    def test_crash(self):
        out, status, err = lines("--period", "4K", *command("hold", "1000", "crash"))
        self.assertEqual(status, 128 + signal.SIGSEGV, err)
        self.assertEqual([r["kind"] for r in out], ["frees", "final"])
        self.assertEqual(out[-1]["signal"], signal.SIGSEGV)
        self.check_final(out[-1], 1000)

    def test_kill_9(self):
        with self.watched("wait") as watch:
            self.ready(watch)
            pid, = (int(os.path.basename(p).split("-")[0]) for d in sessions(watch.process.pid)
                    for p in glob.glob(d + "/*"))
            os.kill(pid, signal.SIGKILL)
            out, _, status = end_of(watch)
            self.assertEqual((status, out[-1]["signal"]), (128 + signal.SIGKILL, signal.SIGKILL))
            self.check_final(out[-1], 1000)
            self.assertEqual(sessions(watch.process.pid), [])

    def test_out_of_memory(self):
        """Killed by the kernel at the limit of a control group."""
        try:
            group = MemoryGroup(96 << 20)
        except OSError as e:
            self.skipTest(f"SKIPPED, LOUDLY: {e}")
        self.addCleanup(group.remove)
        out, status, err = lines("--period", "64K", "--", *group.command(SERVER, "hold", "1000", "eat"))
        self.assertEqual((status, out[-1]["kind"], out[-1]["signal"]), (137, "final", signal.SIGKILL), err)
        self.assertEqual(functions(out[-1]["sites"][0])[0], LEAK)
        print(f"out of memory: {out[-1]['estimated_bytes'] >> 20} MB live at the kill, of a limit of 96 MB")

    def test_reader_is_killed(self):
        """The program goes on, ends with its own status, and another reader can attach meanwhile."""
        with tempfile.TemporaryDirectory() as folder:
            said = os.path.join(folder, "status")
            with Watch("--every", NEVER, "--period", "4K", "--", "sh", "-c",
                       f'"$0" hold 1000 wait; echo $? > {said}', SERVER, stdin=subprocess.PIPE) as watch:
                self.ready(watch)
                session, = sessions(watch.process.pid)
                try:
                    watch.process.kill()
                    watch.process.wait(600)
                    for name in os.listdir(session):
                        pid = int(name.split("-")[0])
                        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                            if f.read() == "server\n":
                                server = pid
                    with Watch("--every", NEVER, "-p", str(server)) as other:
                        while other.process.poll() is None: # SIGHUP kills who has not begun to listen
                            with open(f"/proc/{other.process.pid}/status", encoding="utf-8") as f:
                                blocked = int(re.search(r"^SigBlk:\s*(\w+)", f.read(), re.M).group(1), 16)
                            if blocked >> signal.SIGUSR2 - 1 & 1:
                                break
                            time.sleep(0.02)
                        other.signal(signal.SIGHUP)
                        self.check_final(other.next("all"), 1000)
                        self.assertEqual(other.end()[2], 0)
                    watch.process.stdin.write("\n")
                    watch.process.stdin.close()
                    wait_until(lambda: os.path.exists(said) and os.path.getsize(said), "the program's end")
                    with open(said, encoding="utf-8") as f:
                        self.assertEqual(f.read(), "3\n")
                    # Nobody was there when it ended: its memory is read afterwards, and then removed.
                    after = subprocess.run([MALLOW, "watch", "--json", "-p", str(server)], capture_output=True,
                                           text=True, timeout=600, check=False)
                    if glob.glob(f"{session}/{server}-*") or after.returncode == 0:
                        self.assertIn('"kind":"final"', after.stdout)
                    self.assertEqual(glob.glob(f"{session}/{server}-*"), [])
                finally:
                    shutil.rmtree(session, ignore_errors=True)

    def test_statuses_of_its_own(self):
        for args, status in ((["/nonexistent"], 127), (["/tmp"], 126), (["sh", "-c", "exit 9"], 9),
                             (["sh", "-c", "kill -TERM $$"], 143)):
            out = subprocess.run([MALLOW, "watch", "-q", "--", *args], capture_output=True, text=True, timeout=600,
                                 check=False)
            self.assertEqual(out.returncode, status, (args, out.stderr))


class Children(unittest.TestCase):
    def test_fork(self):
        out, status, err = lines("--period", "4K", *command("hold", "1000", "fork"))
        self.assertEqual(status, 3, err)
        finals = {r["pid"]: r for r in out if r["kind"] == "final"}
        self.assertEqual(len(finals), 2)
        parent = out[-1]
        child = next(r for pid, r in finals.items() if pid != parent["pid"])
        self.assertEqual((child["process"], child["killed"]), ("ended", False))
        # It may have ended before it was found: then it says so itself.
        self.assertEqual(child.get("ppid", child.get("claimed_ppid")), parent["pid"])
        Ends.check_final(self, parent, 1000)
        Ends.check_final(self, child, 2000)  # what it inherited, and its own

    def test_exec(self):
        out, status, err = lines("--period", "4K", *command("hold", "1000", "exec"))
        self.assertEqual(status, 3, err)
        # A reader that comes late finds both at once, in no order.
        self.assertEqual(sorted((r["kind"], r["process"]) for r in out), [("final", "ended"), ("final", "exec")])
        self.assertEqual(len({r["pid"] for r in out}), 1)
        for r in out:
            Ends.check_final(self, r, 1000)

    def test_who_joins_late(self):
        """When all the rest has ended long ago, for it could not run before: a child of a vfork that becomes what
        nobody sees, and then the server."""
        late = victim("late_static")
        out, status, err = lines("--period", "4K", "--", sys.executable, "-c",
                                 "import os, subprocess, sys\nsubprocess.Popen(sys.argv[1:])\nos._exit(3)",
                                 late, "2", SERVER, "hold", "1000", "end")
        self.assertEqual(status, 3, err)
        Ends.check_final(self, next(r for r in out if site_of(r)), 1000)

    def test_text_of_a_child(self):
        """Under its own process id; of those that hold nothing, nothing is said."""
        out = subprocess.run([MALLOW, "watch", "--period", "4K", "--", "sh", "-c",
                              f"{SERVER} hold 1000 end; {SERVER} hold 0 end; exit 4"], capture_output=True, text=True,
                             timeout=600, check=False)
        self.assertEqual((out.returncode, out.stdout), (4, ""))
        self.assertEqual(len(re.findall(r"server \[\d+\]: .* live when it ended\n", out.stderr)), 1, out.stderr)
        self.assertRegex(out.stderr, r"\[\d+\]: [^\n]* live when it ended with status 4\n")

    def test_name(self):
        """A program is named as it was called, not as the file behind a link."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(SERVER, os.path.join(folder, "called"))
            out = subprocess.run([MALLOW, "watch", "--period", "4K", "--", f"{folder}/called", "hold", "1000", "end"],
                                 capture_output=True, text=True, timeout=600, check=False)
        self.assertRegex(out.stderr, r" called \[\d+\]: .* live when it ended")

    def test_many(self):
        each = " & ".join([f"{SERVER} hold 500 end"] * 8)
        out, status, err = lines("--period", "4K", "--", "sh", "-c", f"{each} & wait")
        self.assertEqual(status, 0, err)
        finals = [r for r in out if r["kind"] == "final" and site_of(r)]
        self.assertEqual(len({r["pid"] for r in finals}), 8)
        for r in finals:
            Ends.check_final(self, r, 500)


class Profile(unittest.TestCase):
    def test_totals(self):
        if not shutil.which("go"):
            self.skipTest("SKIPPED, LOUDLY: no go (golang-go) to read the profile with")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.pb.gz")
            out, status, err = lines("--period", "4K", "--pprof", path, *command("hold", "3000", "end"))
            self.assertEqual(status, 3, err)
            env = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder)
            for index, field in (("inuse_space", "estimated_bytes"), ("inuse_objects", "estimated_blocks")):
                top = subprocess.run(["go", "tool", "pprof", "-top", "-unit=B", f"-sample_index={index}", path],
                                     env=env, capture_output=True, text=True, check=True).stdout
                total = int(re.search(r"of (\d+)B? total", top).group(1))
                self.assertLess(abs(total - out[-1][field]), 20, top)
                self.assertRegex(top, LEAK)
            raw = subprocess.run(["go", "tool", "pprof", "-raw", path], env=env, capture_output=True, text=True,
                                 check=True).stdout
            self.assertIn("Period: 4096", raw)
