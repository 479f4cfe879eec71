"""`mallow watch -p` against processes whose shared memory is known to the byte: estimates, ages,
growth, known blocks, errors, settings, ends, damage, the screen. No library takes part."""
import glob
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from mallowtest import MALLOW, wait_until
from mallowtest.fakes import PERIOD, Fake, Watch, functions

NEVER = "1000h"
LEAK = ["leaks_here", "serves_requests", "runs_the_server"]
CACHE = ["caches_here", "serves_requests", "runs_the_server"]


def run(*args):
    return subprocess.run([MALLOW, "watch", *args], capture_output=True, text=True, timeout=600, check=False,
                          stdin=subprocess.DEVNULL)


def attached(fake, watch):
    wait_until(lambda: fake.shown()[4] == watch.process.pid, "the reader entered itself")


class Reports(unittest.TestCase):
    def test_old_blocks_by_site(self):
        with Fake() as fake:
            fake.tell("alloc 30 1000 525000 60000 0 5", "alloc 300 100 524338 0 1 6",
                      "alloc 2 2000000 2045000 70000 2 7", "dropped 4")
            with Watch("--every", "100ms", "--old", "50s", "-p", str(fake.pid)) as watch:
                old = watch.next("old")
                self.assertEqual((old["pid"], old["period_bytes"], old["dropped"]), (fake.pid, PERIOD, 4))
                self.assertEqual((old["older_than_ns"], old["older_than_from"]), (50 * 10**9, "given"))
                self.assertEqual([functions(s) for s in old["sites"]],
                                 [LEAK, ["xmalloc", "leaks_here", "runs_the_server"]])
                leak, large = old["sites"]
                self.assertEqual((leak["sampled_blocks"], leak["estimated_blocks"], leak["estimated_bytes"]),
                                 (30, 15750, 30 * 525000))
                self.assertLess(leak["estimated_bytes_low"], 30 * 525000 * 0.8)
                self.assertGreater(leak["estimated_bytes_high"], 30 * 525000 * 1.2)
                self.assertEqual(large["estimated_bytes"], 2 * 2045000)
                self.assertGreaterEqual(large["estimated_bytes_low"], 4000000)
                self.assertGreaterEqual(leak["oldest_age_ns"], 60 * 10**9)
                self.assertEqual(old["estimated_bytes"], 30 * 525000 + 2 * 2045000)
                fake.tell("alloc 4 1000 525000 60000 0 5")
                blocks = 30  # a report may come between the four
                while blocks < 34:
                    grown = watch.next("old")
                    more = grown["sites"][0]["sampled_blocks"] - blocks
                    self.assertEqual(grown["sites"][0]["growth_bytes"], more * 525000)
                    self.assertEqual(grown["growth_bytes"], more * 525000)
                    blocks += more

    def test_signals(self):
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5", "alloc 5 1000 525000 0 1 6")
            with Watch("--every", NEVER, "--old", "50s", "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                watch.signal(signal.SIGHUP)
                everything = watch.next("all")
                self.assertEqual({tuple(functions(s)): s["sampled_blocks"] for s in everything["sites"]},
                                 {tuple(LEAK): 10, tuple(CACHE): 5})
                watch.signal(signal.SIGUSR1)
                self.assertEqual(watch.next("old")["sites"][0]["sampled_blocks"], 10)
                fake.tell("alloc 3 1000 525000 55000 0 5")  # older than the mark: as if it had been there
                fake.tell("alloc 2 1000 525000 0 0 5")
                watch.signal(signal.SIGUSR1)
                known = watch.next("old")
                self.assertEqual((known["sites"], known["marked_blocks"]), ([], 13))
                fake.tell("free 2 0 30 9", "free 1 1 5000 5")
                watch.signal(signal.SIGUSR2)
                frees = watch.next("frees")["frees"]
                self.assertEqual([f["call"] for f in frees], ["free", "free", "realloc"])
                self.assertEqual([f["function"] for f in frees[0]["release"]][0], "frees_here")
                self.assertEqual([f["function"] for f in frees[0]["allocation"]], LEAK)
                self.assertEqual((frees[2]["size_bytes"], frees[2]["new_size_bytes"]), (1000, 2000))
                self.assertGreaterEqual(frees[2]["age_ns"], 5 * 10**9)
                rest, _, status = watch.end()
                self.assertEqual(([r["kind"] for r in rest], status), (["final"], 0))
                self.assertEqual(rest[0]["process"], "running")
            wait_until(lambda: fake.shown()[4] == 0, "the reader left its name behind")

    def test_what_was_marked_has_not_shrunk(self):
        """Blocks that are marked as known were not freed: the site grows by what came since."""
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5")
            with Watch("--every", NEVER, "--old", "1ns", "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                watch.signal(signal.SIGUSR1)
                self.assertEqual(watch.next("old")["sites"][0]["sampled_blocks"], 10)
                fake.tell("alloc 2 1000 525000 0 0 5")
                watch.signal(signal.SIGUSR1)
                (site,) = watch.next("old")["sites"]
                self.assertEqual((site["sampled_blocks"], site["growth_bytes"]), (2, 2 * 525000))

    def test_age_is_chosen_by_lifetimes(self):
        with Fake() as fake:
            fake.tell("alloc 3 1000 525000 50000 0 5", "alloc 199 1000 525000 0 1 5", "free 199 0 10000 5")
            with Watch("--every", NEVER, "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                watch.signal(signal.SIGUSR1)  # an old report, now
                first = watch.next("old")
                self.assertEqual((first["older_than_from"], first["older_than_ns"]), ("default", 300 * 10**9))
                self.assertEqual(first["sites"], [])
                fake.tell("alloc 1 1000 525000 0 1 5", "free 1 0 10000 5")
                watch.signal(signal.SIGUSR1)
                second = watch.next("old")
                self.assertEqual(second["older_than_from"], "lifetimes")
                self.assertTrue(20 * 10**9 <= second["older_than_ns"] <= 23 * 10**9, second["older_than_ns"])
                self.assertEqual([functions(s) for s in second["sites"]], [LEAK])

    def test_high_water(self):
        with Fake() as fake:
            with Watch("--every", NEVER, "--high-water", "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                fake.tell("alloc 10 1000 525000 0 0 5")
                self.assertEqual(watch.next("high-water")["estimated_bytes"], 5250000)
                fake.tell("free 10 0 1 5", "alloc 11 1000 525000 0 1 5")  # too little more
                fake.tell("alloc 9 1000 525000 0 0 5")
                top = watch.next("high-water")
                self.assertEqual(top["sites"][0]["estimated_bytes"] + top["sites"][1]["estimated_bytes"],
                                 top["estimated_bytes"])
                self.assertEqual(top["estimated_bytes"], 20 * 525000)

    def test_orders(self):
        with Fake() as fake:
            fake.tell("alloc 2 1000 525000 1000 0 5", "alloc 90 1000 525000 0 1 6", "free 89 0 60000 7")
            for order, first in (("bytes", LEAK), ("byte-seconds", CACHE), ("allocated", CACHE),
                                 ("other-thread", CACHE), ("age", LEAK)):
                with Watch("--every", NEVER, "--by", order, "-p", str(fake.pid)) as watch:
                    attached(fake, watch)
                    watch.signal(signal.SIGHUP)
                    self.assertEqual(functions(watch.next("all")["sites"][0]), first, order)
                    site = watch.end()[0][-1]["sites"][0]
                    if first == CACHE:
                        self.assertEqual((site["freed_by_other_thread"], site["freed_samples"]), (89, 89))
                        self.assertEqual(site["allocated_bytes"], 90 * 525000)
                        self.assertGreaterEqual(site["byte_seconds"], 89 * 525000 * 60)

    def test_errors(self):
        with Fake() as fake:
            fake.tell("error 1 100")
            with Watch("--every", NEVER, "-p", str(fake.pid)) as watch:
                over = watch.next("error")
                self.assertEqual((over["error"], over["address"], over["size_bytes"], over["offset_bytes"]),
                                 ("heap-buffer-overflow", "0x20000000", 100, 100))
                self.assertEqual([f["function"] for f in over["access"]], CACHE)
                self.assertEqual([f["function"] for f in over["allocation"]], LEAK)
                self.assertEqual(over["release"], [])
                for kind, name in ((2, "heap-buffer-underflow"), (3, "heap-use-after-free"), (4, "double-free"),
                                   (5, "invalid-free")):
                    fake.tell(f"error {kind} -8")
                    error = watch.next("error")
                    self.assertEqual((error["error"], error["offset_bytes"]), (name, -8))
                self.assertEqual(error["release"][0]["function"], "frees_here")
        with Fake() as fake:
            fake.tell("error 3 4")
            fake.end()
            text = run("--plain", "-p", str(fake.pid)).stdout
            for part in ("heap-use-after-free at 0x20000004 by thread 11", "4 bytes inside the block of 100 bytes",
                         "freed 500.0 ms before, by thread 13:", "allocated 1.00 s before, by thread 12:"):
                self.assertIn(part, text)

    def test_text(self):
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 2 5", "state 2 7")
            fake.end()
            text = run("--plain", "-p", str(fake.pid)).stdout
        self.assertRegex(text, r"fake \[\d+\]: 5\.0 MB \(95% between [\d.]+ MB and [\d.]+ MB\) live when it ended "
                               r"with status 7")
        self.assertIn("in about 5,250 blocks, 10 sampled", text)
        self.assertIn("\n    leaks_here (fake.c:", text)
        self.assertNotIn("xmalloc", text)  # machinery of allocation


class Known(unittest.TestCase):
    def test_list_is_written_and_read(self):
        with tempfile.TemporaryDirectory() as folder, Fake() as fake:
            path = os.path.join(folder, "known.supp")
            args = ("--every", NEVER, "--old", "50s", "--known", path, "-p", str(fake.pid))
            fake.tell("alloc 10 1000 525000 60000 0 5", "alloc 4 1000 525000 60000 1 5")
            with Watch(*args) as watch:
                attached(fake, watch)
                watch.signal(signal.SIGUSR1)
                self.assertEqual(len(watch.next("old")["sites"]), 2)
            with open(path, encoding="utf-8") as f:
                written = f.read()
            self.assertIn("stack:" + ";".join(LEAK) + "\n", written)
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(line for line in written.splitlines() if "caches_here" not in line) + "\n")
            with Watch(*args) as watch:
                attached(fake, watch)
                watch.signal(signal.SIGUSR1)
                old = watch.next("old")
                self.assertEqual([functions(s) for s in old["sites"]], [CACHE])
                self.assertEqual((old["known_blocks"], old["known_bytes"]), (10, 10 * 525000))
                self.assertEqual(old["estimated_bytes"], 4 * 525000)

    def test_suppressions_of_leaksanitizer(self):
        with tempfile.NamedTemporaryFile("w", suffix=".supp") as f, Fake() as fake:
            f.write("# known\nleak:^caches_\n")
            f.flush()
            fake.tell("alloc 10 1000 525000 60000 0 5", "alloc 4 1000 525000 60000 1 5")
            with Watch("--every", "100ms", "--old", "50s", "--known", f.name, "-p", str(fake.pid)) as watch:
                self.assertEqual([functions(s) for s in watch.next("old")["sites"]], [LEAK])

    def test_damaged_list(self):
        with tempfile.NamedTemporaryFile("w", suffix=".supp") as f, Fake() as fake:
            f.write("leak:x\nwhat is this\n")
            f.flush()
            out = run("--known", f.name, "-p", str(fake.pid))
            self.assertEqual(out.returncode, 1)
            self.assertIn(":2: 'what is this' is not a suppression", out.stderr)


class Settings(unittest.TestCase):
    def test_are_changed_and_left(self):
        with Fake() as fake:
            with Watch("--every", NEVER, "--period", "64K", "--guard", "10%", "--on-error", "die", "-p",
                       str(fake.pid)) as watch:
                attached(fake, watch)
                # Each setting is a write of its own: what was read between two of them is no fault.
                wanted = (65536, 1, 6554, 1, watch.process.pid)
                wait_until(lambda: tuple(fake.shown()) == wanted, wanted)
            fake.tell("period 1000000")
            with Watch("--every", NEVER, "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                self.assertEqual(fake.shown()[0], 1000000)  # what is not given is left alone


class Ends(unittest.TestCase):
    def test_crash_under_watch(self):
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5", "alloc 1 1000 525000 0 1 5", "free 1 0 1 5")
            with Watch("--every", NEVER, "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                fake.end(signal.SIGKILL)
                self.assertEqual(len(watch.next("frees")["frees"]), 1)
                final = watch.next("final")
                self.assertEqual((final["process"], final["killed"], final["estimated_bytes"]),
                                 ("ended", True, 5250000))
                self.assertEqual(watch.process.wait(600), 0)  # by itself: nobody is left
            self.assertEqual(glob.glob(f"/dev/shm/mallow-watch-{fake.pid}-*"), [])

    def test_found_after_death(self):
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5", "torn")
            fake.end(signal.SIGKILL)
            out = run("--plain", "-p", str(fake.pid))
            self.assertIn("live when it was killed", out.stdout)
            self.assertIn("1 records were torn when the process died", out.stdout)
            again = run("--plain", "-p", str(fake.pid))
            self.assertEqual(again.returncode, 1)
            self.assertIn("none left its memory behind", again.stderr)

    def test_reader_is_killed(self):
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5")
            with Watch("--every", NEVER, "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                watch.process.kill()
                watch.process.wait(600)
            fake.tell("alloc 10 1000 525000 60000 0 5")  # goes on
            with Watch("--every", "100ms", "--old", "1s", "-p", str(fake.pid)) as watch:
                self.assertEqual(watch.next("old")["sites"][0]["sampled_blocks"], 20)


class Damage(unittest.TestCase):
    def test_table_outside_the_file(self):
        with Fake("", "damaged") as fake:
            out = run("-p", str(fake.pid))
            self.assertEqual(out.returncode, 1)
            self.assertIn("is damaged: a table lies outside the file", out.stderr)

    def test_any_byte(self):
        """Whatever stands in the file, the reader says something and ends."""
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5", "alloc 1 1000 525000 0 1 5", "free 1 0 1 5", "error 1 5")
            fake.end(signal.SIGKILL)
            path, = glob.glob(f"/dev/shm/mallow-watch-{fake.pid}-*")
            with open(path, "rb") as f:
                whole = f.read()
            for seed in range(40):
                data = bytearray(whole[:1 << 16])
                state = seed * 2654435761 + 1
                for _ in range(200):
                    state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
                    at = (state >> 33) % (len(data) if seed % 2 else 8192)
                    if at >= 16 or seed % 5 == 0:
                        data[at] = state >> 24 & 0xff
                with open(path, "wb") as f:
                    f.write(data if seed % 3 == 0 else bytes(data) + whole[1 << 16:])
                out = run("--json", "-p", str(fake.pid))
                self.assertIn(out.returncode, (0, 1), out.stderr)
                self.assertEqual(out.returncode == 0, not out.stderr.strip(), out.stderr)


class Usage(unittest.TestCase):
    def test_refusals(self):
        for args, words in (((), "nothing to watch"), (("-p", "1", "true"), "exclude each other"),
                            (("-p", "x"), "'x' is not a process id"), (("-p", "0"), "not a process id"),
                            (("--guard", "2", "-p", "1"), "not off, all"),
                            (("--period", "0", "-p", "1"), "out of range"), (("--colour", "-p", "1"), "unknown option")):
            out = run(*args)
            self.assertEqual(out.returncode, 2, args)
            self.assertIn(words, out.stderr)

    def test_process_without_the_library(self):
        with subprocess.Popen(["sleep", "60"]) as sleep:
            try:
                def command():
                    with open(f"/proc/{sleep.pid}/cmdline", encoding="utf-8") as f:
                        return f.read()
                wait_until(lambda: command() == "sleep\x0060\0", "the exec of sleep")
                out = run("--how", "preloaded", "-p", str(sleep.pid))
            finally:
                sleep.kill()
        self.assertEqual(out.returncode, 1)
        self.assertIn("runs without libmallow-watch.so", out.stderr)
        self.assertRegex(out.stderr, r"'mallow record -p \d+' records .*'mallow probe calls -p \d+' counts")
        self.assertIn("mallow watch -- sleep 60", out.stderr)


class Profile(unittest.TestCase):
    def test_pprof(self):
        with tempfile.TemporaryDirectory() as folder, Fake() as fake:
            path = os.path.join(folder, "p.%p.pb.gz")
            fake.tell("alloc 30 1000 525000 60000 0 5", "alloc 8 1000 525000 0 1 6", "free 4 0 1 6")
            with Watch("--every", NEVER, "--pprof", path, "-p", str(fake.pid)) as watch:
                attached(fake, watch)
                watch.end()
            path = path.replace("%p", str(fake.pid))
            self.assertEqual(os.listdir(folder), [os.path.basename(path)])
            if not shutil.which("go"):
                self.skipTest("SKIPPED, LOUDLY: no go (golang-go) to read the profile with")
            env = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder)
            for index, total, of_leak in (("inuse_space", 34 * 525000, 30 * 525000), ("inuse_objects", 17850, 15750),
                                          ("alloc_space", 38 * 525000, 30 * 525000),
                                          ("alloc_objects", 19950, 15750)):
                out = subprocess.run(["go", "tool", "pprof", "-top", "-unit=B", f"-sample_index={index}", path], env=env,
                                     capture_output=True, text=True, check=True).stdout
                self.assertIn(f"of {total}", out)
                self.assertRegex(out, rf"\b{of_leak}B? .*leaks_here")


class Screen(unittest.TestCase):
    def open(self, fake):
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(MALLOW, [MALLOW, "watch", "--old", "50s", "-p", str(fake.pid)])
        return pid, fd

    def read_until(self, fd, pattern):
        """What the terminal was sent, up to a match."""
        text = ""
        end = time.monotonic() + 600
        while not re.search(pattern, text):
            ready, _, _ = select.select([fd], [], [], 60)
            assert ready and time.monotonic() < end, f"never came: {pattern}: {text[-2000:]!r}"
            try:
                more = os.read(fd, 65536)
            except OSError:
                more = b""
            assert more, f"the end before: {pattern}: {text[-2000:]!r}"
            text += more.decode("utf-8", "replace")
        return text

    def test_keys(self):
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5", "alloc 90 1000 525000 0 1 5")
            pid, fd = self.open(fake)
            first = self.read_until(fd, r"leaks_here")
            self.assertIn("\033[?1049h", first)
            self.assertNotIn("caches_here", first)
            os.write(fd, b"a")
            self.read_until(fd, r"45\.1 MB.*caches_here")
            os.write(fd, b"p")
            self.read_until(fd, "PAUSED")
            self.assertEqual(fake.shown()[1], 0)
            os.write(fd, b"pom")
            self.read_until(fd, "0 B in blocks older than")
            self.assertEqual(fake.shown()[1], 1)
            fake.tell("error 1 100")
            os.write(fd, b"q")
            last = self.read_until(fd, r"live \(still running\)[\s\S]*leaks_here")
            self.assertIn("\033[?1049l", last)
            self.assertGreater(last.index("live (still"), last.index("\033[?1049l"))
            os.waitpid(pid, 0)
            os.close(fd)

    def test_stop_key(self):
        """Ctrl-Z gives the terminal back, and SIGCONT (or that there is no shell to go on) takes it again."""
        with Fake() as fake:
            fake.tell("alloc 10 1000 525000 60000 0 5")
            pid, fd = self.open(fake)
            self.read_until(fd, r"leaks_here")
            os.write(fd, b"\x1a")
            self.read_until(fd, r"\033\[\?25h\033\[\?1049l")
            os.kill(pid, signal.SIGCONT)
            self.read_until(fd, r"\033\[\?1049h[\s\S]*leaks_here")
            os.write(fd, b"q")
            self.read_until(fd, r"live \(still running\)")
            os.waitpid(pid, 0)
            os.close(fd)

    def test_terminal_is_given_back(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGABRT, signal.SIGSEGV):
            with Fake() as fake:
                fake.tell("alloc 10 1000 525000 60000 0 5")
                pid, fd = self.open(fake)
                self.read_until(fd, r"leaks_here")
                os.kill(pid, number)
                self.read_until(fd, r"\033\[\?25h\033\[\?1049l")
                _, status = os.waitpid(pid, 0)
                self.assertEqual(os.WIFSIGNALED(status), number in (signal.SIGABRT, signal.SIGSEGV))
                os.close(fd)
