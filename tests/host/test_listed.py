"""Each system call of the three libraries is on its list (guest_calls), with the flags that filters look at:
victims of other suites under libraries that look (tests/host/listed.c). And those same libraries with a
door that does not close die in tests/victims/filtered.c: what host-filtered shows can fail."""
import os
import shutil
import signal

from mallowtest import MALLOW, VICTIMS, Case, program, run, victim

RECORD, WATCH, ARENAS = (program(f"host/libmallow-{name}-listed.so") for name in ("record", "watch", "arenas"))
PROGRAMS = [["api", "counts"], ["threads", "waves", "3", "6"], ["process", "fork"], ["process", "fork-exec"],
            ["process", "spawn"], ["process", "brood", "3"], ["dl", VICTIMS, "3"], ["signals", "recursion", "300"],
            ["ends", "quick_exit"], ["ends", "abort"], ["ends", "thread"], ["confine", "only"], ["confine", "eperm"],
            ["confine", "files"], ["confine", "fsize"], ["confine", "space"], ["leader"], ["maps"],
            ["filtered", "some", "shell"], ["filtered", "none", "sizes"], ["loop", "1"]]


class Listed(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.folder, "lib"))
        os.symlink(ARENAS, os.path.join(self.folder, "lib", "libmallow-arenas.so"))
        shutil.copy2(MALLOW, os.path.join(self.folder, "mallow"))

    def libraries(self):
        """Name, the command before the program, the environment."""
        session = os.path.join(self.folder, f"mallow-watch-session-{os.getpid()}-test")
        os.makedirs(session, 0o700, exist_ok=True)
        watch = {"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": session}
        probe = [os.path.join(self.folder, "mallow"), "probe", "arenas", "--source", "preload", "-o",
                 os.path.join(self.folder, "arenas"), "--"]
        return [("record", [], {"LD_PRELOAD": RECORD, "MALLOW_OUTPUT": os.path.join(self.folder, "%p.mlw")}),
                ("watch", [], watch), ("watch, left", [], {"LD_PRELOAD": WATCH}),
                ("watch --guard all", [], {**watch, "MALLOW_WATCH_GUARD": "all", "MALLOW_WATCH_PERIOD": "1K"}),
                ("arenas", probe, {})]

    def test_every_call_is_listed(self):
        for program in PROGRAMS:
            argv = [victim(program[0]), *program[1:]]
            plain = run(argv)
            for name, command, env in self.libraries():
                with self.subTest(program=program, library=name):
                    r = run(command + argv, env=env)
                    self.assertNotIn(b"not on the list", r.err)
                    self.assertEqual((r.status, r.out), (plain.status, plain.out), r.err)

    def test_a_door_that_does_not_close(self):
        for name, command, env in self.libraries()[:-1]:  # that of arenas looks at sys_closed before its one call
            # one thread of a watched program makes no call in any case: its blocks are the allocator's
            for how, work in [(how, "all" if "watch" in name else "sizes") for how in ("ours", "only")]:
                with self.subTest(library=name, filter=how, work=work):
                    argv = [*command, victim("filtered"), how, work, victim("plug_a.so")]
                    self.assertEqual(run(argv, env=env).status, 0)
                    self.assertEqual(run(argv, env={**env, "MALLOW_DOOR": "open"}).status, 128 + signal.SIGSYS)
