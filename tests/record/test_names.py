"""Names are those of the program that ran: rebuilt, removed or replaced files, a program that the dynamic linker was
started to run."""
import os
import re
import shutil
import signal
import subprocess
import time

from mallowtest import LIBRARY, MALLOW, Test, mallow, program, record, report

FIRST, EXCHANGED, WITH_ID = (program("record/named" + how) for how in ("", "_exchanged", "_with_id"))
LINKER = re.search(r"interpreter: (\S+?)\]", subprocess.run(["readelf", "-l", FIRST], capture_output=True, text=True,
                                                           check=True).stdout).group(1)


def links_of(pid):
    """What a process has open."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    return found


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(k) for k in f.read().split()]


class Names(Test):
    def setUp(self):
        self.program, self.recording = self.folder + "/prog", self.folder + "/r.mlw"

    def sites(self):
        """The functions that allocated, with their calls."""
        process = report(self.recording)["processes"][0]
        return {s["frames"][s["call_site"]].get("function"): s["calls"] for s in process["sites"]}

    def start(self, *command):
        p = subprocess.Popen([*command, "serve"], stdout=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.read(1), b"\n")
        return str(p.pid)

    def watched(self, *options):
        """What a watch says of the program's blocks once it says anything of them."""
        with open(self.folder + "/said", "w+b") as said:
            w = subprocess.Popen([MALLOW, "watch", "--period", "1", "--every", "1s", "--old", "1ms", "--json", "-o", said.name,
                                  *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.addCleanup(w.stderr.close)
            until = time.monotonic() + 60
            while not re.search(rb'"sites":\[\{', text := said.read()) and w.poll() is None and time.monotonic() < until:
                said.seek(0)
                time.sleep(0.05)
            w.send_signal(signal.SIGINT)
            self.assertIsNotNone(w.wait(60))
            return text.decode()

    def test_a_program_without_build_id_that_is_rebuilt(self):
        shutil.copy(FIRST, self.program)
        os.utime(self.program, ns=(1, 1700000000123456789))
        record(self.recording, self.program)
        self.assertEqual(self.sites(), {"first_fn": 100, "second_fn": 1})
        os.rename(self.program, self.program + ".kept")
        shutil.copy(EXCHANGED, self.program)
        self.assertEqual(os.path.getsize(self.program), os.path.getsize(self.program + ".kept"))
        for time_ns in (None, 1700000000123456789):  # also with the time of the one that ran: before, with its names then
            if time_ns:
                os.utime(self.program, ns=(1, time_ns))
            self.assertFalse({"first_fn", "second_fn"} & set(self.sites()))
            self.assertIn("has no build-id, as many bytes, and other contents", " ".join(mallow("report", self.recording).stdout.split()))
        with open(self.program, "ab") as f:
            f.write(b"x")
        os.utime(self.program, ns=(1, 1700000000123456789))
        self.assertFalse({"first_fn", "second_fn"} & set(self.sites()))
        self.assertIn("is another file than the recorded one", mallow("report", self.recording).stdout)
        # the file as it was, also where an archive has kept whole seconds
        os.rename(self.program + ".kept", self.program)
        self.assertEqual(self.sites(), {"first_fn": 100, "second_fn": 1})
        for time_ns in (1700000000000000000, 5):  # nor does another time make another file of it
            os.utime(self.program, ns=(1, time_ns))
            self.assertEqual(self.sites(), {"first_fn": 100, "second_fn": 1})

    def test_a_long_program_without_build_id(self):
        """Not all of it is looked at: its beginning and its end are."""
        def copy(more):
            shutil.copy(FIRST, self.program)
            os.truncate(self.program, os.path.getsize(FIRST) + more)
        for more in (1, 7 << 20, 9 << 20, 100 << 20):
            with self.subTest(more=more):
                copy(more)
                record(self.recording, self.program)
                self.assertEqual(self.sites(), {"first_fn": 100, "second_fn": 1})
                time_ns = os.stat(self.program).st_mtime_ns
                for at in (9, os.path.getsize(self.program) - 1):  # no reader of ELF looks at these
                    with open(self.program, "r+b") as f:
                        f.seek(at)
                        f.write(b"\1")
                    os.utime(self.program, ns=(1, time_ns))
                    self.assertFalse({"first_fn", "second_fn"} & set(self.sites()))
                    copy(more)
                os.remove(self.recording)

    def test_by_the_library_alone(self):
        """Without `mallow record` nobody has read the file: it is known by its size and its time."""
        shutil.copy(FIRST, self.program)
        subprocess.run([self.program], check=True, env={"LD_PRELOAD": LIBRARY, "MALLOW_OUTPUT": self.recording})
        self.assertEqual(self.sites(), {"first_fn": 100, "second_fn": 1})
        os.utime(self.program, ns=(1, 1700000000123456789))
        self.assertFalse({"first_fn", "second_fn"} & set(self.sites()))
        self.assertIn("was changed since it was recorded, and has no build-id", " ".join(mallow("report", self.recording).stdout.split()))

    def test_while_it_runs(self):
        """Replaced by another build: what watches, records and reads the process has the names of its own."""
        for name, other in ((FIRST, EXCHANGED), (WITH_ID, EXCHANGED), (FIRST, None), (WITH_ID, None)):
            with self.subTest(name, other=other):
                shutil.copy(name, self.program)
                pid = self.start(self.program)
                os.remove(self.program)
                if other:
                    shutil.copy(other, self.program)
                for text in (self.watched("-p", pid), mallow("heap", pid).stdout):
                    self.assertNotIn("second_fn", text.split("first_fn")[0])
                    self.assertTrue("first_fn" in text or "table_of_program" in text, text)
                mallow("record", "-q", "-p", pid, "-d", "300ms", "-o", self.recording)
                self.assertEqual(list(self.sites()), ["first_fn"])
                os.remove(self.recording)

    def test_removed_before_it_is_sealed(self):
        """What was removed, or replaced by another build, when the recording is sealed has the names of the file that ran."""
        for name, other, how in ((FIRST, None, []), (WITH_ID, None, []), (FIRST, EXCHANGED, []), (WITH_ID, EXCHANGED, []),
                                 (WITH_ID, None, ["sh", "-c", '"$0" "$1" & wait']), (WITH_ID, None, [LINKER])):
            with self.subTest(name, other=other, how=how):
                shutil.copy(name, self.program)
                p = subprocess.Popen([MALLOW, "record", "-q", "-o", self.recording, "--", *how, self.program, "serve"],
                                     stdout=subprocess.PIPE)
                self.addCleanup(p.stdout.close)
                self.addCleanup(p.kill)
                self.assertEqual(p.stdout.read(1), b"\n")
                until = time.monotonic() + 60
                while self.program not in links_of(p.pid) and time.monotonic() < until:
                    time.sleep(0.01)
                self.assertIn(self.program, links_of(p.pid))
                os.remove(self.program)
                if other:
                    shutil.copy(other, self.program)
                for pid in children_of(p.pid):
                    for child in children_of(pid) or [pid]:
                        os.kill(child, signal.SIGTERM)
                p.wait(60)
                processes = report(self.recording)["processes"]
                sites = [s["frames"][s["call_site"]] for k in processes for s in k["sites"] if k["exe"] == self.program]
                self.assertEqual({s.get("function") for s in sites} - {"main"}, {"first_fn", "second_fn"})
                self.assertEqual({s["module"] for s in sites}, {"prog"})
                self.assertNotIn("prog:", mallow("report", self.recording).stdout)
                os.remove(self.recording)
                if other:
                    os.remove(self.program)

    def test_started_by_the_linker(self):
        for name in (FIRST, WITH_ID):
            for how in ([], ["--argv0", "other"]):
                with self.subTest(name, how=how):
                    shutil.copy(name, self.program)
                    command = [LINKER, *how, "./prog"]
                    done = subprocess.run([MALLOW, "record", "-q", "-o", self.recording, "--", *command], cwd=self.folder,
                                          capture_output=True, text=True, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(self.sites(), {"first_fn": 100, "second_fn": 1})
                    process = report(self.recording)["processes"][0]
                    self.assertEqual(process["exe"], self.program)
                    os.remove(self.recording)
                    pid = self.start(*command)
                    self.assertIn("first_fn", self.watched("-p", pid))
                    mallow("record", "-q", "-p", pid, "-d", "300ms", "-o", self.recording)
                    self.assertEqual(list(self.sites()), ["first_fn"])
                    self.assertIn("table_of_program", mallow("heap", pid).stdout)
                    os.remove(self.recording)

    def test_watched_from_the_linker_on(self):
        shutil.copy(FIRST, self.program)
        done = subprocess.run([MALLOW, "watch", "--period", "1", "--json", "--", LINKER, self.program], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("first_fn", done.stdout)
        self.assertNotIn("elf_", done.stdout)
