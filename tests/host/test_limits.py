"""A 1 MB disk, a 100 KB file-size limit, little memory, no descriptors: the program's output and exit
status are what they are without mallow."""
import os
import resource
import subprocess

from mallowtest import LIBRARY, MALLOW, Case, run, victim


def limited(what, value):
    """For preexec_fn: mallow and the program both live under the limit."""
    return lambda: resource.setrlimit(what, (value, value))


class Limits(Case):
    """Programs whose events are far more than what fits."""
    PROGRAMS = (["loop", "2"], ["threads", "hammer", "2", "200000"], ["process", "brood", "10"])

    def each(self, check):
        for argv in self.PROGRAMS:
            with self.subTest(argv=argv):
                check([victim(argv[0]), *argv[1:]])

    def small_disk(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", disk], capture_output=True)
        if r.returncode:
            self.skipTest("SKIPPED, LOUDLY: no right to mount a small disk (needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        return disk

    def reported_or_said(self, file):
        """A report of the part that fitted, or an error in words; never a crash."""
        r = run([MALLOW, "report", "--json", "-n", "1", file])
        self.assertIn(r.rc, (0, 1), r.err)
        if r.rc == 0:
            import json
            doc = json.loads(r.out)
            self.assertGreater(doc["events"], 0)
            return doc
        self.assertTrue(r.err)
        return None

    def test_full_disk(self):
        disk = self.small_disk()
        self.file = os.path.join(disk, "recording.mlw")

        def check(argv):
            plain = run(argv)
            r = self.record(argv)
            self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err)
            self.assertEqual(r.own_err(), plain.err)
            doc = self.reported_or_said(self.file)
            self.assertIsNotNone(doc, "what fitted must be readable")
            if argv[0].endswith("loop"):
                self.assertGreater(doc["lost_events"], 0, "loss is data: it must be shown")
                self.assertEqual(doc["events"] + doc["lost_events"], 2001001)  # and printf's buffer
            os.unlink(self.file)
        self.each(check)

    def test_full_disk_without_parent(self):
        disk = self.small_disk()
        file = os.path.join(disk, "recording.mlw")

        def check(argv):
            plain = run(argv)
            r = run(argv, env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": file})
            self.assertEqual((r.out, r.rc), (plain.out, plain.rc), r.err)
            self.assertEqual(r.own_err(), plain.err)
            self.assertLessEqual(len(r.err.splitlines()), 1, "said once")
            self.reported_or_said(file)
            os.unlink(file)
        self.each(check)

    def test_file_size_limit(self):
        def check(argv):
            plain = run(argv)
            r = self.record(argv, preexec_fn=limited(resource.RLIMIT_FSIZE, 100 * 1024))
            self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err)
            self.assertEqual(r.own_err(), plain.err)
            if os.path.exists(self.file):
                self.reported_or_said(self.file)
                os.unlink(self.file)
        self.each(check)

    def test_file_size_limit_of_the_program_only(self):
        def check(argv):
            shell = ["/bin/sh", "-c", "ulimit -f 100; exec \"$@\"", "sh", *argv]
            plain = run(shell)
            r = self.record(shell)
            self.assertEqual((r.out, r.rc), (plain.out, plain.status), r.err)
            self.assertEqual(r.own_err(), plain.err)
            self.reported_or_said(self.file)
            os.unlink(self.file)
        self.each(check)

    def test_file_size_limit_without_parent(self):
        def check(argv):
            plain = run(argv)
            r = run(argv, env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.file},
                    preexec_fn=limited(resource.RLIMIT_FSIZE, 100 * 1024))
            self.assertEqual((r.out, r.rc), (plain.out, plain.rc), r.err)
            if os.path.exists(self.file):
                self.assertLessEqual(os.path.getsize(self.file), 100 * 1024)
                self.reported_or_said(self.file)
                os.unlink(self.file)
        self.each(check)

    def test_program_that_meets_the_limit_itself(self):
        """SIGXFSZ that the program earns is the program's; none may come from us."""
        shell = ["/bin/sh", "-c", f"ulimit -f 100; head -c 300000 /dev/zero > {self.folder}/big; echo $?"]
        plain = run(shell)
        r = self.record(shell)
        self.assertEqual((r.out, r.rc), (plain.out, plain.status))

    def test_address_space(self):
        for megabytes in (3000, 300, 120, 60, 30, 20):
            def check(argv, mb=megabytes):
                shell = ["/bin/sh", "-c", f"ulimit -v {mb * 1024}; exec \"$@\"", "sh", *argv]
                plain = run(shell)
                if plain.status:
                    return  # it does not run under this limit by itself either
                r = self.record(shell)
                self.assertEqual((r.out, r.rc), (plain.out, plain.status), (mb, r.err))
            check([victim("loop"), "1"])
            check([victim("threads"), "waves", "2", "4"])
            check([victim("process"), "children", "3"])

    def test_address_space_of_both(self):
        for megabytes in (400, 150):
            argv = [victim("loop"), "1"]
            plain = run(argv, preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20))
            r = self.record(argv, preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20))
            self.assertEqual((r.out, r.rc), (plain.out, plain.status), (megabytes, r.err))

    def test_descriptors(self):
        for n in (3, 4, 5, 8, 16):
            argv = ["/bin/sh", "-c", f"ulimit -n {n}; exec \"$@\"", "sh", victim("api"), "counts"]
            plain = run(argv)
            r = self.record(argv)
            self.assertEqual((r.out, r.rc), (plain.out, plain.status), (n, r.err))

    def test_output_that_cannot_be_written_is_refused_before_the_program_runs(self):
        marker = os.path.join(self.folder, "ran")
        for bad in ("/proc/nonexistent/x.mlw", os.path.join(self.folder, "no", "folder", "x.mlw"), self.folder):
            r = run([MALLOW, "record", "-o", bad, "--", "/usr/bin/touch", marker])
            self.assertEqual(r.rc, 125, (bad, r.err))
            self.assertTrue(r.err.startswith(b"mallow"), r.err)
            self.assertFalse(os.path.exists(marker))

    def test_no_program(self):
        self.assertEqual(run([MALLOW, "record", "-o", self.file, "--", "/nonexistent/x"]).rc, 127)
        plain = os.path.join(self.folder, "plain.txt")
        with open(plain, "w") as f:
            f.write("not a program\n")
        self.assertEqual(run([MALLOW, "record", "-o", self.file, "--", plain]).rc, 126)
