"""Programs that install a filter of system calls which kills (tests/victims/filtered.c), under each of
the three libraries: output and status are as alone, whatever the program does with memory afterwards."""
import json
import os

from mallowtest import LIBRARY, LONG, MALLOW, WATCH_LIBRARY, Case, run, victim
from mallowtest.segment import Segment

WATCH = WATCH_LIBRARY
ARENAS = os.path.join(os.path.dirname(WATCH), "libmallow-arenas.so")
ALL = {"MALLOW_WATCH_GUARD": "all", "MALLOW_WATCH_PERIOD": "1K"}
# What a filter lets through, and what the program does then. Where memory that was released before is all
# that there is, only few blocks.
KILLING = [("ours", "all"), ("only", "all"), ("only", "sizes"), ("listed", "all"), ("later", "sizes"), ("threads", "sizes"),
           ("mprotect", "sizes"), ("refused", "sizes"), ("strict", "few"), ("starved", "few")]
# `all` with every block guarded takes seconds. One filter of each kind does it here, another dies of errors below.
GUARDED = KILLING if LONG else \
    [(name, "sizes" if name in ("ours", "only") else work) for name, work in KILLING]


class Filtered(Case):
    PLAIN = {}

    def setUp(self):
        super().setUp()
        self.session = os.path.join(self.folder, f"mallow-watch-session-{os.getpid()}-test")
        os.mkdir(self.session, 0o700)

    def argv(self, *argv):
        return [victim("filtered"), *argv, victim("plug_a.so")]

    def alone(self, *argv):
        """The victim without a library of mallow's, run once."""
        if argv not in self.PLAIN:
            plain = run(self.argv(*argv))
            self.assertEqual((plain.rc, plain.err), (0, b""), f"the victim itself does not work here: {argv}")
            self.assertIn(b"done", plain.out)
            self.PLAIN[argv] = plain
        return self.PLAIN[argv]

    def untouched_by(self, env, filters=KILLING):
        for argv in filters:
            with self.subTest(argv=argv):
                plain = self.alone(*argv)
                r = run(self.argv(*argv), env=env)
                self.assertEqual((r.rc, r.out, r.own_err()), (plain.rc, plain.out, plain.err), r.err)

    def test_watch(self):
        self.untouched_by({"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session})

    def test_watch_guards_all(self):
        self.untouched_by({"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session, **ALL}, GUARDED)

    def test_watch_dies_of_errors(self):
        """Then the pages stay closed, and the program has no use of the slots."""
        self.untouched_by({"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session,
                           "MALLOW_WATCH_ON_ERROR": "die", **ALL}, [("ours", "all"), ("only", "sizes")])

    def test_record_alone(self):
        for i, argv in enumerate(KILLING):
            self.untouched_by({"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": os.path.join(self.folder, f"{i}.mlw")}, [argv])

    def test_record(self):
        for argv in KILLING:
            with self.subTest(argv=argv):
                plain = self.alone(*argv)
                r = self.record(self.argv(*argv))
                self.assertEqual((r.out, r.rc, r.own_err()), (plain.out, plain.status, plain.err), r.err)

    def test_probe_arenas(self):
        for argv in KILLING:
            with self.subTest(argv=argv):
                plain = self.alone(*argv)
                r = run([MALLOW, "probe", "arenas", "--source", "preload", "--json", "-o",
                         os.path.join(self.folder, "arenas.json"), "--", *self.argv(*argv)])
                self.assertEqual((r.out, r.rc, r.own_err()), (plain.out, plain.status, plain.err), r.err)

    def test_exec(self):
        """Under the filter of before, of which the next image is told by its environment."""
        for env in ({"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session}, {"LD_PRELOAD": LIBRARY,
                    "MALLOW_OUTPUT": os.path.join(self.folder, "exec.mlw")}):
            with self.subTest(env=env):
                r = run(self.argv("exec-kill", "exec"), env=env)
                self.assertEqual((r.rc, r.out, r.own_err()), (0, b"before\ndone\n", b""), r.err)

    def test_programs_that_it_starts(self):
        """By every way, with the environment as it is and as it was: they begin under the filter."""
        for env in ({"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session}, {"LD_PRELOAD": LIBRARY,
                    "MALLOW_OUTPUT": os.path.join(self.folder, "some.mlw")}, {"LD_PRELOAD": ARENAS}):
            self.untouched_by(env, [("some", "shell")])
        for command in (["record", "-o", os.path.join(self.folder, "shells.mlw")], ["watch", "--guard", "all"]):
            r = run([MALLOW, *command, "--", *self.argv("some", "shell")])
            self.assertEqual((r.rc, r.out), (0, b"done\n"), r.err)

    def test_the_recorder_writes_what_it_may(self):
        """Alone, under a filter that lets through what mallow-record(1) lists: nothing is lost."""
        file = os.path.join(self.folder, "listed.mlw")
        r = run(self.argv("listed", "sizes"), env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": file})
        self.assertEqual((r.rc, r.out), (0, b"done\n"), r.err)
        doc = json.loads(run([MALLOW, "report", "--json", file]).out)
        self.assertEqual(doc["lost_events"], 0)

    def test_a_question_changes_nothing(self):
        """libseccomp asks for what the kernel refuses: guards and samples stay as they are."""
        r = run(self.argv("asks", "sizes"), env={"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session, **ALL})
        self.assertEqual((r.rc, r.out), (0, b"done\n"), r.err)
        [name] = os.listdir(self.session)
        s = Segment(os.path.join(self.session, name))
        self.assertEqual(s.trouble, 0)

    def test_samples_after_the_filter(self):
        """Smaller classes were made ready: they go on being sampled."""
        totals = []
        for how in ("none", "only"):
            r = run(self.argv(how, "sizes"), env={"LD_PRELOAD": WATCH, "MALLOW_WATCH_SESSION": self.session,
                                                 "MALLOW_WATCH_PERIOD": "16K", "MALLOW_WATCH_GUARD": "off"})
            self.assertEqual(r.rc, 0)
            [name] = os.listdir(self.session)
            path = os.path.join(self.session, name)
            totals.append(Segment(path).counters)
            os.unlink(path)
        self.assertGreater(totals[1]["samples"], totals[0]["samples"] / 2, totals)
