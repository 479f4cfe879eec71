"""Programs that lock themselves in (tests/victims/confine.c): untouched, and recorded through."""
import os
import unittest

from mallowtest import LIBRARY, Case, run, victim


class Confine(Case):
    def sized(self, p, size):
        return sum(s["calls"] for s in p["sites"] if s["calls"] and s["allocated_bytes"] == size * s["calls"])

    def confined(self, *argv, complete=True):
        argv = [victim("confine"), *argv]
        plain = run(argv)
        self.assertEqual(plain.rc, 5, "the victim itself does not work here")
        r = self.record(argv)
        self.assertEqual((r.out, r.rc, r.own_err()), (plain.out, plain.status, plain.err), r.err)
        doc = self.report()
        p = [x for x in doc["processes"] if self.sized(x, 20)] or [x for x in doc["processes"]]
        self.assertEqual(self.sized(p[0], 10), 1000)
        self.assertEqual(self.sized(p[0], 20) + doc["lost_events"], 30000)
        if complete:
            self.assertEqual(self.sized(p[0], 20), 30000)
            self.assertEqual(doc["lost_events"], 0)
        return doc

    def alone(self, *argv):
        """Without the command beside it, whatever is recorded: untouched."""
        argv = [victim("confine"), *argv]
        plain = run(argv)
        file = os.path.join(self.folder, "alone.mlw")
        r = run(argv, env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": file})
        self.assertEqual((r.out, r.rc, r.own_err()), (plain.out, plain.rc, plain.err), r.err)

    def test_seccomp_refuses_new_files(self):
        self.confined("eperm")
        self.confined("eperm-syscall")
        self.alone("eperm")

    def test_seccomp_kills_for_new_files(self):
        self.confined("kill-files")
        self.alone("kill-files")

    def test_seccomp_allows_little(self):
        self.confined("only")
        self.confined("only-syscall")
        self.alone("only")

    def test_seccomp_without_write(self):
        self.confined("silent")
        self.confined("silent-syscall")
        self.alone("silent")

    def test_strict_seccomp(self):
        argv = [victim("confine"), "strict"]
        plain = run(argv)
        r = self.record(argv)
        self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err)
        doc = self.report()
        p = self.process(doc, "confine")
        self.assertEqual(self.sized(p, 10), 1000)
        self.assertEqual(p["calls"]["malloc"] + doc["lost_events"], 1000 + 30100 + 1 + 30000)
        self.alone("strict")

    def test_time_stamp_counter_withheld(self):
        doc = self.confined("no-clock")
        self.assertEqual(sorted(self.sized(p, 30) for p in doc["processes"]), [0, 77])
        self.alone("no-clock")

    def test_fork_under_a_filter(self):
        self.confined("eperm-fork")
        self.alone("eperm-fork")

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: chroot needs root")
    def test_chroot(self):
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        doc = self.confined("chroot", empty)
        self.assertEqual(sorted(self.sized(p, 30) for p in doc["processes"]), [0, 77])
        self.alone("chroot", empty)

    def test_chdir_with_a_relative_output(self):
        plain = run([victim("confine"), "chdir"])
        r = self.record([victim("confine"), "chdir"], file="relative.mlw", cwd=self.folder)
        self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err)
        p = self.process(self.report(os.path.join(self.folder, "relative.mlw")), "confine")
        self.assertEqual(self.sized(p, 20), 30000)

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED, LOUDLY: changing the user needs root")
    def test_change_of_user(self):
        os.chmod(self.folder, 0o700)
        doc = self.confined("nobody")
        self.assertEqual(sorted(self.sized(p, 30) for p in doc["processes"]), [0, 77])
        self.alone("nobody")

    def test_program_that_limits_its_own_files(self):
        self.confined("fsize", complete=False)
        self.confined("fsize-handler", complete=False)
        self.alone("fsize")

    def test_program_that_uses_up_descriptors(self):
        self.confined("files")
        self.alone("files")

    def test_descriptors_are_numbered_as_without(self):
        self.confined("first-file")
        self.alone("first-file")

    def test_program_without_address_space(self):
        plain = run([victim("confine"), "space"])
        r = self.record([victim("confine"), "space"])
        self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err)
        self.report()
