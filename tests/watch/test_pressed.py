"""`mallow watch --dump-when`, and what is left of a process that the kernel killed because memory was short:
by real kills in a control group of this test's own."""
import gzip
import json
import os
import re
import signal
import subprocess
import time

from mallowtest import MALLOW, WATCH_LIBRARY, Test, program, wait_until
from mallowtest.fakes import Watch, functions
from mallowtest.memorygroup import MemoryGroup, filesystem

SERVER, PREFORK = program("watch/server"), program("watch/prefork")
LEAK = "forgets_to_free"
MIB = 1 << 20


class Case(Test):
    def group(self, limit):
        try:
            group = MemoryGroup(limit)
        except OSError as why:
            self.skipTest(f"SKIPPED, LOUDLY: {why}")
        self.addCleanup(group.remove)
        return group

    def watch(self, *args, **more):
        """Its lines go to a file; standard output is the program's."""
        return Watch("--every", "1000h", "--period", "64K", "-o", self.folder + "/lines", *args,
                     stdin=subprocess.PIPE, **more)

    def grow(self, process, mib, answered=True):
        process.stdin.write(f"{mib}\n")
        process.stdin.flush()
        if answered:
            self.assertEqual(process.stdout.readline(), "grown\n")

    def heard(self, watch, number):
        """Until the watch knows so many processes: those that it hears of after a threshold was crossed are not dumped."""
        def known():
            watch.signal(signal.SIGHUP)
            time.sleep(0.05)
            with open(self.folder + "/lines", encoding="utf-8") as f:
                return len({json.loads(line)["pid"] for line in f if line.endswith("\n")}) >= number
        wait_until(known, "a report of each process")

    def dumps(self, ending=".json"):
        return sorted(n for n in os.listdir(self.folder) if n.endswith(ending))

    def dumped(self, number):
        """The dump of that number, once it is there with its profile."""
        wait_until(lambda: len(self.dumps(".pb.gz")) >= number, "a dump")
        with open(os.path.join(self.folder, self.dumps()[number - 1]), encoding="utf-8") as f:
            return json.load(f)

    def check_live(self, report, least, most):
        """The call site that the test's program lost its memory at, in MiB, by five standard errors."""
        site = next(s for s in report["sites"] if functions(s)[0] == LEAK)
        error = 5 * (most * MIB * 65536) ** 0.5
        self.assertGreater(site["estimated_bytes"], least * MIB - error)
        self.assertLess(site["estimated_bytes"], most * MIB + error)

    def finals(self, out=None):
        if out is None:
            with open(self.folder + "/lines", encoding="utf-8") as f:
                out = f.read()
        return [r for r in map(json.loads, out.splitlines()) if r["kind"] == "final"]


class Threshold(Case):
    def test_once_until_it_is_below(self):
        with self.watch("--dump-when", "psi>100%,rss>60M", "--dump-to", self.folder,
                        "--", SERVER, "hold", "10", "grow") as watch:
            p = watch.process
            self.assertEqual(p.stdout.readline(), "ready\n")
            self.grow(p, 30)
            self.assertEqual(self.dumps(), [])
            self.grow(p, 50)
            dump = self.dumped(1)
            self.grow(p, 20)
            _, err = p.communicate(timeout=600)
        self.assertEqual(p.returncode, 3, err)
        self.assertEqual(len(self.dumps()), 1)
        final, = self.finals()
        name = f"server.{final['pid']}.1"
        self.assertEqual(self.dumps(""), ["lines", f"{name}.json", f"{name}.pb.gz"])
        self.assertEqual((dump["schema"], dump["kind"], dump["report"]["kind"]), (1, "dump", "all"))
        self.assertIn("rss>60.0 MB", dump["because"])
        self.assertIn(f"wrote {self.folder}/{name}.json", err)
        self.check_live(dump["report"], 50, 80)  # it may still have grown
        # Page by page, as the kernel counts: the parts are the whole.
        parts = sum(dump[k] for k in ("rss_anonymous_bytes", "rss_file_bytes", "rss_shared_bytes"))
        self.assertEqual(dump["rss_bytes"], parts)
        self.assertGreater(dump["rss_bytes"], 55 * MIB)
        with gzip.open(os.path.join(self.folder, name + ".pb.gz")) as f:
            self.assertIn(LEAK.encode(), f.read())

    def test_processes_of_a_group_count_together(self):
        """Two of 40 MiB are above 60 MiB, and each is dumped."""
        script = '"$0" hold 10 grow <&3 & "$0" hold 10 grow <&4; wait'
        a, b = os.pipe(), os.pipe()
        with self.watch("--dump-when", "rss>60M", "--dump-to", self.folder, "--", "/bin/sh", "-c",
                        f"exec 3<&{a[0]} 4<&{b[0]}; {script}", SERVER, pass_fds=(a[0], b[0])) as watch:
            for end in a[0], b[0]:
                os.close(end)
            for end in a[1], b[1]:
                self.assertEqual(watch.process.stdout.readline(), "ready\n")
            for end in a[1], b[1]:
                self.assertEqual(self.dumps(), [])
                os.write(end, b"40\n")
                self.assertEqual(watch.process.stdout.readline(), "grown\n")
            wait_until(lambda: len([n for n in self.dumps(".pb.gz") if n.startswith("server.")]) == 2, "two dumps")
            for end in a[1], b[1]:
                os.close(end)
            watch.process.communicate(timeout=600)

    def test_pages_that_processes_share_count_once(self):
        """Seven processes, each with the same 40 MiB: 280 MiB by their resident sizes, 40 MiB of memory."""
        group = self.group(150 * MIB)
        for rule, because in (("rss>80%", r"its control group uses (.*) MB \(rss>80%, which is 120.0 MB\)"),
                              ("rss>100M", r"the resident size is (.*) MB, shared pages counted once \(rss>100.0 MB\)")):
            with self.subTest(rule), self.watch("--dump-when", rule, "--dump-to", self.folder, "--",
                                                *group.command(PREFORK)) as watch:
                p = watch.process
                self.assertEqual(p.stdout.readline(), "ready\n")
                self.heard(watch, 7)
                self.grow(p, 20)
                self.grow(p, 75)
                wait_until(lambda: len(self.dumps(".pb.gz")) == 7, "a dump of each process")
                _, err = p.communicate(timeout=600)
            self.assertEqual(p.returncode, 0, err)
            for name in self.dumps():
                with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                    used = float(re.search(because, json.load(f)["because"]).group(1))
                self.assertTrue(100 < used < 150, used)
            for name in self.dumps(""):
                os.remove(os.path.join(self.folder, name))

    def test_what_cannot_be_written(self):
        """It is said; the watch and the program go on."""
        gone = os.path.join(self.folder, "gone")
        os.mkdir(gone)
        with self.watch("--dump-when", "rss>40M", "--dump-to", gone, "--", SERVER, "hold", "10", "grow") as watch:
            p = watch.process
            self.assertEqual(p.stdout.readline(), "ready\n")
            os.rmdir(gone)
            self.grow(p, 60)
            said = ""
            while "no dump could be written" not in said:
                said = p.stderr.readline()
                self.assertTrue(said)
            _, err = p.communicate(timeout=600)
        self.assertEqual(p.returncode, 3, err)
        self.check_live(self.finals()[0], 60, 60)

    def test_usage(self):
        for args, text in ((("--dump-when", "rss"), "not a threshold"), (("--dump-when", "rss>0"), "not a threshold"),
                           (("--dump-when", "rss>1G,psi>200%"), "not a threshold"),
                           (("--dump-to", self.folder), "--dump-when"),
                           (("--dump-when", "rss>1G", "--dump-to", self.folder + "/none"), "cannot write")):
            out = subprocess.run([MALLOW, "watch", *args, "--", "/bin/true"], capture_output=True, text=True,
                                 check=False, timeout=600)
            self.assertEqual((out.returncode, out.stdout), (2, ""), args)
            self.assertIn(text, out.stderr)


class Killed(Case):
    """Killed by the kernel at the limit of 96 MiB."""

    def test_before_and_after(self):
        group = self.group(96 * MIB)
        with self.watch("--dump-when", "rss>50%", "--dump-to", self.folder, "--",
                        *group.command(SERVER, "hold", "10", "grow")) as watch:
            p = watch.process
            self.assertEqual(p.stdout.readline(), "ready\n")
            self.grow(p, 30)
            self.assertEqual(self.dumps(), [])
            self.grow(p, 30)
            dump = self.dumped(1)
            self.grow(p, 512, answered=False)
            _, err = p.communicate(timeout=600)
        self.assertEqual(p.returncode, 128 + signal.SIGKILL, err)
        self.assertEqual(dump["limit_bytes"], 96 * MIB)
        self.assertIn("rss>50%, which is 48.0 MB", dump["because"])
        self.check_live(dump["report"], 40, 60)
        final = self.finals()[-1]
        self.assertTrue(final["out_of_memory"])
        self.assertGreater(final["estimated_bytes"], dump["report"]["estimated_bytes"])
        self.assertEqual(functions(final["sites"][0])[0], LEAK)
        print(f"dumped at {dump['rss_bytes'] >> 20} MiB, killed with {final['estimated_bytes'] >> 20} MiB live")

    def test_text_says_who_did_it(self):
        group = self.group(64 * MIB)
        with Watch("--period", "64K", "--dump-when", "rss>20M", "--dump-to", self.folder, "--",
                   *group.command(SERVER, "hold", "10", "grow"), command="--plain", stdin=subprocess.PIPE) as watch:
            p = watch.process
            self.assertEqual(p.stdout.readline(), "ready\n")
            self.grow(p, 30)
            self.dumped(1)
            self.grow(p, 512, answered=False)
            _, err = p.communicate(timeout=600)
        self.assertEqual(p.returncode, 128 + signal.SIGKILL, err)
        self.assertIn("by the kernel because memory was short", err)
        # By another than the kernel it is not.
        out = subprocess.run([MALLOW, "watch", "--", "/bin/sh", "-c", '"$0" hold 10 end; kill -9 $$', SERVER],
                             text=True, capture_output=True, check=False, timeout=600)
        self.assertEqual(out.returncode, 128 + signal.SIGKILL, out.stderr)
        self.assertNotIn("memory was short", out.stderr)

    def left_of(self, pid):
        out = subprocess.run([MALLOW, "watch", "--left", "list", "--json"], capture_output=True, text=True,
                             check=True, timeout=600)
        self.assertIn(pid, [r["pid"] for r in map(json.loads, out.stdout.splitlines())])
        out = subprocess.run([MALLOW, "watch", "-p", str(pid), "--json"], capture_output=True, text=True,
                             check=False, timeout=600)
        self.assertEqual(out.returncode, 0, out.stderr)
        final = self.finals(out.stdout)[-1]
        self.assertEqual(functions(final["sites"][0])[0], LEAK)
        self.assertGreater(final["estimated_bytes"], 20 * MIB)
        return final

    def test_nobody_watched(self):
        """The library alone: what it kept is read after the kill."""
        group = self.group(64 * MIB)
        with subprocess.Popen(group.command("/usr/bin/env", f"LD_PRELOAD={WATCH_LIBRARY}", "MALLOW_WATCH_PERIOD=64K",
                                            SERVER, "hold", "10", "eat"), stdout=subprocess.DEVNULL) as p:
            p.wait(600)
        self.assertEqual(p.returncode, -signal.SIGKILL)
        self.left_of(p.pid)

    def test_watch_was_killed_as_well(self):
        """What stays when the kernel kills the watch with the program, or before it."""
        group = self.group(64 * MIB)
        with self.watch("-q", "--", *group.command(SERVER, "hold", "10", "grow")) as watch:
            p = watch.process
            self.assertEqual(p.stdout.readline(), "ready\n")
            with open(os.path.join(group.path, "cgroup.procs"), encoding="ascii") as f:
                pid = int(f.read())
            p.kill()
            p.wait(600)
            self.grow(p, 512, answered=False)
            self.assertEqual(p.stdout.read(), "")  # until it is gone
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the program")
            self.left_of(pid)

    def test_group_is_killed_as_one(self):
        """memory.oom.group: the watch is in the group, and dies with the program."""
        if filesystem("/sys/fs/cgroup") != "cgroup2":
            self.skipTest("SKIPPED, LOUDLY: memory.oom.group needs control groups of version 2")
        group = self.group(128 * MIB)
        with open(os.path.join(group.path, "memory.oom.group"), "w", encoding="ascii") as f:
            f.write("1")
        argv = [MALLOW, "watch", "-q", "--period", "64K", "--", SERVER, "hold", "10", "grow"]
        with subprocess.Popen(group.command(*argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            self.assertEqual(p.stdout.readline(), "ready\n")
            with open(os.path.join(group.path, "cgroup.procs"), encoding="ascii") as f:
                pid, = {int(n) for n in f.read().split()} - {p.pid}
            self.grow(p, 512, answered=False)
            p.wait(600)
            self.assertEqual(p.returncode, -signal.SIGKILL)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the program")
            self.left_of(pid)
