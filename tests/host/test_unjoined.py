"""Programs that cannot load the recorder, started by one that is recorded, are named: by `mallow record` and in the
report. Others are not, whatever way they are started."""
import sys

from mallowtest import MALLOW, Case, needs_strace, run, slow_opens, victim

STARTS = "import os, subprocess, sys\nhow, path = sys.argv[1:]\n"
WAYS = {
    "fork and exec": STARTS + "p = os.fork()\nif not p: os.execv(path, [path])\nos.waitpid(p, 0)",
    "exec": STARTS + "os.execv(path, [path])",
    "vfork": STARTS + "subprocess.run([path])",
    "posix_spawn": STARTS + "os.waitpid(os.posix_spawn(path, [path], os.environ), 0)",
}


class Unjoined(Case):
    def said(self, argv):
        r = self.record(argv)
        self.assertIn(r.rc, (0, 33), r.err)  # 33 is of the victim
        lines = [x for x in r.err.decode().splitlines() if "did not load the recorder" in x]
        warnings = [w for p in self.report()["processes"] for w in p["warnings"]]
        return lines, [w for w in warnings if "did not load the recorder" in w]

    def test_each_way(self):
        static, other = victim("hello_static"), victim("hello")
        for how, script in WAYS.items():
            with self.subTest(how=how):
                [line], [warning] = self.said([sys.executable, "-c", script, how, static])
                self.assertIn("1 program did not load", line)
                self.assertIn(static, line)
                self.assertIn("'mallow record -p PID'", line)
                self.assertIn(static, warning)
                self.assertEqual(self.said([sys.executable, "-c", script, how, other]), ([], []))

    def test_a_shell(self):
        """As often as it is, and by name once."""
        static = victim("hello_static")
        [line], warnings = self.said(["/bin/sh", "-c", f"{static}; ls / >/dev/null; {static}; :"])
        self.assertIn("2 programs did not load", line)
        self.assertEqual(line.count(static), 1)
        self.assertGreaterEqual(len(warnings), 1)

    def test_what_was_not_to_be_recorded(self):
        r = self.record(["/bin/sh", "-c", f"{victim('hello_static')}; :"], options=["--no-follow"])
        self.assertNotIn(b"did not load the recorder", r.err)

    def test_not_one_that_is_not_there(self):
        r = self.record(["/bin/sh", "-c", "/nonexistent/program; env true; :"])
        self.assertNotIn(b"did not load the recorder", r.err)

    @needs_strace
    def test_not_one_that_ended_while_mallow_looked(self):
        """Each file of /proc takes 6 ms to open: short programs come, become another and end during one look."""
        short = f"i=0; while [ $i -lt 40 ]; do {victim('hello')} | cat; i=$((i+1)); done"
        for _ in range(3):
            r = run([*slow_opens(6000), MALLOW, "record", "-q", "-o", self.file, "--", "sh", "-c", short])
            self.assertEqual((r.rc, r.err), (0, b""))
