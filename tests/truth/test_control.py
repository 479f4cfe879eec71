"""The control functions of include/mallow.h and `mallow control` (tests/victims/control.c)."""
import os
import subprocess

from mallowtest import MALLOW, Case, run, victim


class Control(Case):
    def program(self, *argv, **kw):
        return self.process(self.recorded([victim("control"), *argv], **kw), "control")

    def sized(self, p, size):
        return sum(s["calls"] for s in p["sites"] if s["calls"] and s["allocated_bytes"] == size * s["calls"])

    def phases(self, p):
        return tuple(self.sized(p, s) for s in (10, 11, 12))

    def test_without_the_library_each_call_is_nothing(self):
        for mode in ("pause", "stop", "start", "reset", "mark"):
            r = run([victim("control"), mode])
            self.assertEqual((r.rc, r.out, r.err), (0, b"", b""))

    def test_pause(self):
        p = self.program("pause")
        self.assertEqual(self.phases(p), (10, 0, 30))
        self.assertEqual(p["calls"]["malloc"], 40)
        self.assertEqual(p["calls"]["free"], 1)

    def test_stop_and_start(self):
        self.assertEqual(self.phases(self.program("stop")), (10, 0, 30))

    def test_paused_from_the_beginning(self):
        self.assertEqual(self.phases(self.program("start", options=["--paused"])), (0, 0, 30))
        self.assertEqual(self.phases(self.program("start")), (10, 0, 30))

    def test_reset(self):
        p = self.program("reset")
        self.assertEqual(self.phases(p), (0, 0, 30))
        self.assertEqual(p["unknown_frees"], 1)
        self.assertEqual(p["end_live_blocks"], 30)

    def test_mark(self):
        p = self.program("mark")
        self.assertEqual(p["calls"]["malloc"], 3)
        dump = run([MALLOW, "dump", self.file])
        self.assertEqual(dump.rc, 0, dump.err)
        self.assertIn(b"first mark", dump.out)

    def test_pause_holds_for_every_thread(self):
        p = self.program("threads")
        self.assertEqual((self.sized(p, 12), self.sized(p, 13)), (0, 40))

    def number(self, path):
        with open(path) as f:
            return int(f.read())

    def outside(self, pid, *words):
        r = run([MALLOW, "control", str(pid), *words])
        self.assertEqual(r.rc, 0, r.err)

    def test_from_outside(self):
        env = dict(os.environ, LC_ALL="C")
        pidfile = os.path.join(self.folder, "pid")
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", "/bin/sh", "-c",
                              f"echo $$ > {pidfile}; exec {victim('control')} wait"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        try:
            def step():
                p.stdin.write(b"x")
                p.stdin.flush()
                self.assertEqual(p.stdout.read(1), b"x")
            step()                                  # 10 B
            pid = self.number(pidfile)
            self.outside(pid, "pause")
            step()                                  # 11 B, unseen
            self.outside(pid, "unpause")
            step()                                  # 12 B
            self.outside(pid, "mark", "from outside")
            step()                                  # 13 B
            self.outside(pid, "stop")
            step()                                  # 14 B, unseen
            self.outside(pid, "start")
            step()                                  # 15 B
            self.outside(pid, "sync")
            p.stdin.close()
            self.assertEqual(p.wait(600), 0)
        finally:
            p.kill()
            p.stdout.close()
            p.stderr.close()
        c = self.process(self.report(), "control")
        # 10 blocks in each phase, of 10, 12, 13 and 15 B; those of 11 and 14 B were not to be seen
        self.assertEqual((c["calls"]["malloc"], c["requested_bytes"]), (40, 10 * (10 + 12 + 13 + 15)))
        self.assertIn(b"from outside", run([MALLOW, "dump", self.file]).out)

    def test_reset_from_outside(self):
        pidfile = os.path.join(self.folder, "pid")
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", "/bin/sh", "-c",
                              f"echo $$ > {pidfile}; exec {victim('control')} wait"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            p.stdin.write(b"x")
            p.stdin.flush()
            p.stdout.read(1)
            self.outside(self.number(pidfile), "reset")
            p.stdin.write(b"x")
            p.stdin.close()
            self.assertEqual(p.wait(600), 0)
        finally:
            p.kill()
            p.stdout.close()
            p.stderr.close()
        c = self.process(self.report(), "control")
        self.assertEqual([self.sized(c, s) for s in (10, 11)], [0, 10])

    def test_sync_puts_events_into_the_file_of_a_living_program(self):
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", victim("control"), "sync"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.assertEqual(p.stdout.readline(), b"synced\n")
            c = self.process(self.report(), "control")
            self.assertEqual(self.sized(c, 10), 50)
        finally:
            p.stdin.close()
            p.wait(600)
            p.stdout.close()
            p.stderr.close()

    def test_no_such_process(self):
        r = run([MALLOW, "control", "1", "pause"])
        self.assertEqual(r.rc, 1)
        self.assertEqual(len(r.err.splitlines()), 1)
        self.assertEqual(run([MALLOW, "control", "1", "frobnicate"]).rc, 2)
