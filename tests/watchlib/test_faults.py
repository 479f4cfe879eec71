"""Every system call of libmallow-watch.so is made to fail, by injection (tests/host/fault.c): the
program is untouched. The N-th call of each image fails, for N from 1 until no N is reached any more;
then everything from the N-th on."""
import glob
import os
import struct

from mallowtest import LONG, program, run, victim
from watchtest import WatchCase

FAULTS = program("watchlib/libmallow-watch-faults.so")
EACH = 1000 if LONG else 30  # after so many calls N grows in steps: they are the same ones, repeated

PROGRAMS = [["api", "peak"], ["threads", "hammer", "2", "500"], ["process", "fork"], ["process", "fork-exec"],
            ["process", "spawn"], ["misuse", "none", "50"], ["signals", "recursion", "50"]]
SETTINGS = [{"period": 1, "guard": "off"}, {"period": 1, "guard": "all"}, {"period": "4K", "guard": "50%"}]


class Faults(WatchCase):
    def once(self, argv, plain, settings, fault):
        log = os.path.join(self.folder, "faults")
        with open(log, "wb") as f:
            f.write(bytes(4096))
        r = self.watched(argv, library=FAULTS, settings=settings, broken=True,
                         env={"MALLOW_FAULT": fault, "MALLOW_FAULT_LOG": log})
        with open(log, "rb") as f:
            words = struct.unpack("<1024I", f.read())
        for pid in words[2:2 + min(words[1], 1022)]:  # where even unlink was made to fail
            for name in glob.glob(f"/dev/shm/mallow-watch-{pid}-*"):
                os.unlink(name)
        context = f"{argv}, {settings}, MALLOW_FAULT={fault}, hit system call {words[0] - 1}"
        if argv[0] != victim("signals"):
            self.assertEqual(r.out, plain.out, context)
        self.assertEqual(r.rc, plain.rc, f"{context}: {r.err[-1000:]!r}")
        self.assertEqual(r.own_err(), plain.err, context)
        self.assertNotIn(b"heap-", r.err, context)
        return words[0] != 0

    def every(self, settings, later):
        for name, *arguments in PROGRAMS:
            argv = [victim(name), *arguments]
            plain = run(argv)
            n, step, reached = 1, 1, True
            while reached and n < 100000:
                reached = self.once(argv, plain, settings, f"{n}{later}")
                if n >= EACH:
                    step = max(step + 1, n // 4)
                n += step
            self.assertGreater(n, 10, "no system call was ever reached")

    def test_one_fails(self):
        for settings in SETTINGS if LONG else SETTINGS[1:]:
            with self.subTest(settings=settings):
                self.every(settings, "")

    def test_everything_fails_from_there_on(self):
        for settings in SETTINGS if LONG else SETTINGS[:2]:
            with self.subTest(settings=settings):
                self.every(settings, "+")
