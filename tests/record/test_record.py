"""`mallow record` as a front: the program is what it would be without it, and whatever ends (the program,
its children, mallow itself, the disk), what was recorded is in the file."""
import ctypes
import fcntl
import json
import os
import pty
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys

from mallowtest import MALLOW, Test, chunks, has_ended, program, run, status_of, victim, wait_until

SPLIT, STACKS, PHASES = (program("record/" + name) for name in ("split", "stacks", "phases"))
PR_SET_CHILD_SUBREAPER = 36


class Case(Test):
    def setUp(self):
        self.file = os.path.join(self.folder, "recording.mlw")

    def record(self, *argv, options=(), **kw):
        return run([MALLOW, "record", "--keep-raw", "-o", self.file, *options, "--", *argv], **kw)

    def start(self, *argv, options=(), **kw):
        """A recording that goes on beside the test; killed at its end if it must be."""
        kw.setdefault("stdin", subprocess.PIPE)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        p = subprocess.Popen([MALLOW, "record", "--keep-raw", "-o", self.file, *options, "--", *argv], **kw)

        def end():
            if p.poll() is None:
                p.kill()
            p.wait()
            for f in (p.stdin, p.stdout, p.stderr):
                if f:
                    f.close()
        self.addCleanup(end)
        return p

    def recording(self):
        return chunks.Recording(self.file)

    def only(self, word):
        r = self.recording()
        images = r.image_of(word)
        self.assertEqual(len(images), 1, [c.tlvs()[chunks.T_COMMAND] for c in r.of(chunks.PROCESS)])
        return r, images[0]


class Exit(Case):
    def test_every_exit_status(self):
        for status in list(range(0, 8)) + [63, 64, 100, 124, 125, 126, 127, 128, 129, 137, 200, 254, 255]:
            r = self.record("/bin/sh", "-c", f"exit {status}")
            self.assertEqual(r.rc, status, r.err)
            rec, image = self.only("-c")
            self.assertEqual(rec.ends(image), [(chunks.EXIT, status << 8)])

    def test_signals(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1,
                       signal.SIGPIPE, signal.SIGXFSZ, signal.SIGALRM):
            r = self.record("/bin/sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(r.rc, 128 + number, r.err)
            rec, image = self.only("-c")
            self.assertEqual(rec.ends(image), [(chunks.KILLED, int(number))])

    def test_not_found(self):
        for name in ("no-such-program-at-all", "/no/such/path", os.path.join(self.folder, "nothing")):
            r = self.record(name)
            self.assertEqual(r.rc, 127)
            self.assertEqual(len(r.err.splitlines()), 1)
            self.assertFalse(os.path.exists(self.file), "no file for a program that never ran")

    def test_not_executable(self):
        plain = os.path.join(self.folder, "plain")
        with open(plain, "w", encoding="ascii") as f:
            f.write("echo hello\n")
        for name in (plain, self.folder):
            r = self.record(name)
            self.assertEqual(r.rc, 126, r.err)
            self.assertFalse(os.path.exists(self.file))

    def test_a_script_without_its_interpreter(self):
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="ascii") as f:
            f.write("#!/no/such/interpreter\n")
        os.chmod(script, 0o755)
        r = self.record(script)
        self.assertEqual(r.rc, 127, r.err)
        self.assertIn(b"/no/such/interpreter", r.err)

    def test_scripts(self):
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="ascii") as f:
            f.write('#!/bin/sh\necho "$0|$1"\nexit 9\n')
        os.chmod(script, 0o755)
        r = self.record(script, "a b")
        self.assertEqual((r.rc, r.out), (9, f"{script}|a b\n".encode()))
        without = os.path.join(self.folder, "without")  # no #! line: the shell's own rule, execvp's too
        with open(without, "w", encoding="ascii") as f:
            f.write("echo plain\n")
        os.chmod(without, 0o755)
        r = self.record(without)
        self.assertEqual((r.rc, r.out), (0, b"plain\n"), r.err)

    def test_usage(self):
        for words in (["-p", "1", "true"], ["--with", "sizes", "true"], [], ["--stacks=some", "true"],
                      ["--sample-interval", "0", "true"], ["--nonsense", "true"]):
            r = run([MALLOW, "record", *words], cwd=self.folder)
            self.assertEqual(r.rc, 2, (words, r.err))
            self.assertEqual(len(r.err.splitlines()), 1, r.err)
            self.assertEqual(r.out, b"")
        self.assertEqual(os.listdir(self.folder), [])


class Untouched(Case):
    def test_arguments(self):
        words = ["", " ", "a b", "--help", "-o", "x", "--", "\n", "ü", "%p", "$HOME", "'", '"', "\\", "x" * 50000]
        r = self.record(sys.executable, "-c",
                        "import sys, os; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))",
                        *words)
        self.assertEqual(r.rc, 0, r.err)
        self.assertEqual(r.out.split(b"\0"), [w.encode() for w in words])

    def test_options_end_at_the_program(self):
        r = run([MALLOW, "record", "--keep-raw", "-o", self.file, "echo", "-o", "--help", "-q"])
        self.assertEqual(r.out, b"-o --help -q\n")

    def test_streams(self):
        data = os.urandom(3_000_000) + b"\0\r\n\x1a\xff"
        r = self.record("cat", stdin=data)
        self.assertEqual(r.out, data)
        r = self.record("sh", "-c", "cat >&2", stdin=b"words\0\xff")
        self.assertTrue(r.err.startswith(b"words\0\xff"))
        self.assertEqual(r.out, b"")

    def test_nothing_is_said_before_the_end(self):
        p = self.start("sh", "-c", "echo out; echo err >&2; read x")
        self.assertEqual(p.stdout.readline(), b"out\n")
        self.assertEqual(p.stderr.readline(), b"err\n")
        self.assertEqual(select.select([p.stderr, p.stdout], [], [], 0.3)[0], [])
        p.stdin.write(b"\n")
        p.stdin.close()
        lines = p.stderr.read().splitlines()
        self.assertTrue(lines and all(l.startswith(b"mallow record: ") for l in lines), lines)

    def test_quiet(self):
        self.assertEqual(self.record("true", options=["-q"]).err, b"")

    def test_environment(self):
        e = {"LD_PRELOAD": "", "SOME": "thing", "EMPTY": ""}
        plain = run(["env", "-0"], env=e).out.split(b"\0")
        mine = self.record("env", "-0", env=e).out.split(b"\0")

        def others(entries):
            return [v for v in entries if not v.startswith((b"LD_PRELOAD=", b"MALLOW_"))]
        self.assertEqual(others(mine), others(plain))
        names = {v.split(b"=")[0]: v.split(b"=", 1)[1] for v in mine if b"=" in v}
        self.assertTrue(names[b"LD_PRELOAD"].endswith(b"/libmallow-record.so"))
        self.assertEqual(names[b"MALLOW_OUTPUT"], self.file.encode())

    def test_what_is_preloaded_stays(self):
        with open("/proc/self/maps", encoding="ascii") as maps:
            libc = next(l.split()[-1] for l in maps if "libc.so" in l)
        libdl = os.path.join(os.path.dirname(libc), "libdl.so.2")
        out = self.record("env", env={"LD_PRELOAD": libdl}).out
        line = next(l for l in out.splitlines() if l.startswith(b"LD_PRELOAD="))
        self.assertTrue(line.endswith(b"/libmallow-record.so:" + libdl.encode()), line)

    def test_signals_limits_and_descriptors(self):
        script = ("grep -E '^(Sig(Blk|Ign)|ShdPnd|NoNewPrivs|Umask)' /proc/self/status; ulimit -a; "
                  "cd /proc/self/fd && for f in *; do test -e $f && echo $f; done; pwd -P > /dev/null; nice")

        def before():
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
            resource.setrlimit(resource.RLIMIT_NOFILE, (512, 1000))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        plain = run(["bash", "-c", script], preexec_fn=before)
        mine = self.record("bash", "-c", script, preexec_fn=before)
        # The library keeps two descriptors of its own, high up: grep and the shell may see them.
        self.assertEqual([l for l in mine.out.splitlines() if not (l.isdigit() and int(l) >= 40)],
                         [l for l in plain.out.splitlines() if not (l.isdigit() and int(l) >= 40)])

    def test_process_group_and_parent(self):
        p = self.start("sh", "-c", "echo $$; read x")
        state = status_of(int(p.stdout.readline()))
        self.assertEqual([int(v) for v in state[1:4]], [p.pid, os.getpgid(0), os.getsid(0)])

    def terminal(self, *argv):
        """A recording in the foreground of a terminal; (process, our end)."""
        ours, theirs = pty.openpty()

        def before():
            for number in (signal.SIGINT, signal.SIGQUIT):  # the tests may run in the background
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            fcntl.ioctl(0, 0x540E, 0)  # TIOCSCTTY
        p = self.start(*argv, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=before)
        os.close(theirs)
        self.addCleanup(os.close, ours)
        return p, ours

    def expect(self, fd, word):
        text = b""

        def more():
            nonlocal text
            if select.select([fd], [], [], 0)[0]:
                try:
                    text += os.read(fd, 4096)
                except OSError:
                    pass
            return word in text
        wait_until(more)
        return text

    def test_interrupt_key_is_the_programs(self):
        for key in (b"\x03", b"\x1c"):
            with self.subTest(key=key):
                p, tty = self.terminal("sh", "-c", "trap 'echo caught' INT QUIT; echo up; read x; read x; exit 5")
                self.expect(tty, b"up")
                os.write(tty, key)
                self.expect(tty, b"caught")
                os.write(tty, b"\n\n")
                self.assertEqual(p.wait(600), 5)
                self.assertEqual(self.recording().damaged, 0)

    def test_interrupt_key_kills_a_program_that_does_not_catch_it(self):
        p, tty = self.terminal("sleep", "100")
        wait_until(lambda: os.path.exists(self.file) and self.recording().image_of("sleep"))
        os.write(tty, b"\x03")
        self.assertEqual(p.wait(600), 130)
        rec, image = self.only("sleep")
        self.assertEqual(rec.ends(image), [(chunks.KILLED, 2)])

    def test_signals_sent_to_mallow_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                p = self.start("sh", "-c", f"trap 'echo caught; exit 6' {int(number)}; echo up; "
                               "for i in $(seq 6000); do read x || sleep 0.05; done",  # five minutes, if it is never caught
                               preexec_fn=os.setpgrp)
                self.assertEqual(p.stdout.readline(), b"up\n")
                p.send_signal(number)
                p.stdin.close()  # a shell that finishes its read first gets on, too
                self.assertEqual(p.stdout.readline(), b"caught\n")
                self.assertEqual(p.wait(600), 6)


class Refused(Case):
    def check(self, program, word, status=125):
        mark = os.path.join(self.folder, "ran")
        r = self.record(program, mark)
        self.assertEqual(r.rc, status, r.err)
        self.assertIn(word, r.err)
        self.assertFalse(os.path.exists(self.file))
        self.assertEqual(r.out, b"")

    def test_static(self):
        self.check(victim("hello_static"), b"static")

    def test_force(self):
        plain = run([victim("hello_static")])
        r = self.record(victim("hello_static"), options=["--force"])
        self.assertEqual((r.rc, r.out), (plain.rc, plain.out))
        self.assertIn(b"nothing was recorded", r.err)

    def test_setuid(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED, LOUDLY: a setuid program can only be made by root")
        copy = os.path.join(self.folder, "hello")
        shutil.copy(victim("hello"), copy)
        os.chown(copy, 65534, 65534)
        os.chmod(copy, 0o6755)
        self.check(copy, b"setuid")

    def test_own_malloc(self):
        r = self.record(victim("own_malloc"))
        self.assertIn(b"malloc", r.err)

    def test_unwritable_folder(self):
        r = run([MALLOW, "record", "-o", "/proc/recording.mlw", "sh", "-c", f"touch {self.folder}/ran"])
        self.assertEqual(r.rc, 125, r.err)
        self.assertEqual(len(r.err.splitlines()), 1)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_is_no_file(self):
        for name in ("/dev/null", self.folder, "/no/such/folder/x.mlw"):
            r = run([MALLOW, "record", "-o", name, "sh", "-c", f"touch {self.folder}/ran"])
            self.assertEqual(r.rc, 125, r.err)
            self.assertEqual(len(r.err.splitlines()), 1)
        self.assertEqual(os.listdir(self.folder), [])

    def test_two_recordings_into_one_file(self):
        p = self.start("sh", "-c", "echo up; read x")
        self.assertEqual(p.stdout.readline(), b"up\n")
        r = self.record("true")
        self.assertEqual(r.rc, 125)
        self.assertIn(b"another recording", r.err)
        p.stdin.close()
        p.wait(600)
        self.assertEqual(self.recording().damaged, 0)
        self.assertEqual(len(self.recording().images()), 1)


class Output(Case):
    def test_default_name(self):
        r = run([MALLOW, "record", "--keep-raw", "sh", "-c", "echo $$"], cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), [f"mallow.sh.{int(r.out)}.mlw"])
        self.assertIn(os.listdir(self.folder)[0].encode(), r.err)

    def test_pattern(self):
        r = run([MALLOW, "record", "--keep-raw", "-o", "a.%p.%%.mlw", "sh", "-c", "echo $$"], cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), [f"a.{int(r.out)}.%.mlw"])

    def test_overwrites(self):
        with open(self.file, "wb") as f:
            f.write(b"x" * 100000)
        self.record("true")
        self.assertEqual(self.recording().damaged, 0)

    def test_environment_only_if_asked(self):
        self.record("true", env={"SECRET": "abcdefgh-1234"})
        with open(self.file, "rb") as f:
            self.assertNotIn(b"abcdefgh-1234", f.read())
        self.record("true", env={"SECRET": "abcdefgh-1234"}, options=["--env"])
        with open(self.file, "rb") as f:
            self.assertIn(b"SECRET=abcdefgh-1234", f.read())

    def test_settings_of_allocators_always(self):
        """Whole, whatever stands around them; nothing else, not even a part of a long variable."""
        settings = {"MALLOC_PERTURB_": "7", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=3", "MALLOC_ARENA_MAX": "2" + " " * 3000, "MALLOC_CONF": ""}
        others = {f"{name}{i}": "x" * size for i, size in enumerate((0, 1, 15, 16, 511, 70000)) for name in ("A", "NO_MALLOC_", "MALLO")}
        self.record("true", env={**others, **settings})
        rec, image = self.only("true")
        pieces, = rec.images()[image].tlvs()[chunks.T_SETTINGS]
        self.assertEqual(sorted(pieces.decode().split("\0")), sorted(["", *(f"{k}={v}" for k, v in settings.items())]))
        self.record("true", options=["--env"])
        rec, image = self.only("true")
        self.assertNotIn(chunks.T_SETTINGS, rec.images()[image].tlvs())

    def test_children_only_if_followed(self):
        self.record("sh", "-c", "ls / > /dev/null; true")
        self.assertEqual(len(self.recording().images()), 2)
        r = self.record("sh", "-c", "ls / > /dev/null; true", options=["--no-follow"])
        self.assertEqual(len(self.recording().images()), 1)
        self.assertNotIn(b"could not be recorded", r.err)


class Beside(Case):
    """For tests that go on while the program lives."""

    def control_program(self, *options):
        p = self.start(victim("control"), "wait", options=list(options))
        return p

    def step(self, p):
        p.stdin.write(b"x")
        p.stdin.flush()
        self.assertEqual(p.stdout.read(1), b"x")

    @staticmethod
    def child_of(p, name):
        def find():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as f:
                        comm = f.read()
                except OSError:
                    continue
                if comm == f"{name}\n" and status_of(pid)[1:2] == [str(p.pid)]:
                    return int(pid)
            return None
        return wait_until(find)


class Living(Beside):
    """Ends of every kind."""

    def test_killed_program_is_recovered(self):
        p = self.control_program()
        for _ in range(3):
            self.step(p)
        os.kill(self.child_of(p, "control"), signal.SIGKILL)
        self.assertEqual(p.wait(600), 137)
        rec, image = self.only("wait")
        self.assertEqual([rec.sizes(image, n) for n in (10, 11, 12, 13)], [10, 10, 10, 0])
        self.assertEqual(rec.ends(image), [(chunks.KILLED, 9)])
        self.assertTrue(any(c.flags & chunks.RECOVERED for c in rec.of(chunks.EVENTS)))

    def test_killed_mallow(self):
        p = self.control_program()
        self.step(p)
        child = self.child_of(p, "control")
        p.kill()
        p.wait()
        self.step(p)  # the program neither died nor waits
        p.stdin.close()
        wait_until(lambda: has_ended(child))
        rec, image = self.only("wait")
        self.assertEqual(rec.sizes(image, 10), 10)
        self.assertEqual(rec.sizes(image, 11), 10, "its own way out is enough")

    def test_interim_copies(self):
        p = self.control_program()
        self.step(p)
        wait_until(lambda: (r := self.recording()).image_of("wait") and r.sizes(r.image_of("wait")[0], 10) == 10)
        self.assertTrue(all(c.flags & chunks.INTERIM for c in self.recording().of(chunks.EVENTS)))
        self.step(p)
        p.stdin.close()
        p.wait(600)
        rec, image = self.only("wait")
        self.assertEqual([rec.sizes(image, n) for n in (10, 11)], [10, 10])

    def test_background_processes_are_waited_for(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        p = self.start("sh", "-c", f"{victim('control')} wait < {fifo} > /dev/null 2>&1 & exit 3")
        with open(fifo, "wb") as f:
            self.assertIn(b"waiting for 1", p.stderr.readline())
            self.assertIsNone(p.poll())
            f.write(b"xx")
        self.assertEqual(p.wait(600), 3)
        rec, image = self.only("wait")
        self.assertEqual([rec.sizes(image, n) for n in (10, 11, 12)], [10, 10, 0])
        self.assertEqual([how for how, _ in rec.ends(image)], [chunks.EXIT])

    def test_who_joins_late_is_waited_for(self):
        """What the recorder cannot see runs long after all the rest has ended, for it could not before: as an
        image that became it, and as a child of a vfork, which never was one."""
        late = [victim("late_static"), "2", victim("api"), "peak"]
        for argv in (["sh", "-c", '"$@" & exit 3', "sh", *late],
                     [sys.executable, "-c", "import os, subprocess, sys\nsubprocess.Popen(sys.argv[1:])\nos._exit(3)",
                      *late]):
            p = self.start(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertEqual(p.wait(600), 3)
            rec = self.recording()
            (image,) = [i for i, c in rec.images().items()
                        if c.tlvs()[chunks.T_COMMAND] == [f"{victim('api')}\0peak\0".encode()]]
            self.assertEqual(rec.ends(image), [(chunks.EXIT, 0)])

    def test_interrupted_while_it_waits(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        p = self.start("sh", "-c", f"exec 9<>{fifo}; {victim('control')} wait <&9 > {self.folder}/out 2>&1 & "
                       f"echo $! > {self.folder}/pid; exit 3", preexec_fn=os.setpgrp)
        self.assertIn(b"waiting for 1", p.stderr.readline())
        with open(fifo, "wb") as f:
            f.write(b"x")
            f.flush()
            wait_until(lambda: os.path.getsize(os.path.join(self.folder, "out")) == 1)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(600), 3)
            self.assertIn(b"still running", p.stderr.read())
            rec, image = self.only("wait")
            self.assertEqual(rec.sizes(image, 10), 10)
            self.assertEqual(rec.ends(image), [(0, 0)])
            size = os.path.getsize(self.file)
            f.write(b"x")  # the process lives, and is not recorded any more
            f.flush()
            wait_until(lambda: os.path.getsize(os.path.join(self.folder, "out")) == 2)
        with open(os.path.join(self.folder, "pid"), encoding="ascii") as f:
            pid = int(f.read())
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: has_ended(pid))
        self.assertEqual(os.path.getsize(self.file), size)

    def test_daemons(self):
        r = self.record(victim("process"), "daemon")
        self.assertEqual(r.rc, run([victim("process"), "daemon"]).status, r.err)
        rec = self.recording()
        self.assertGreater(len(rec.images()), 1)
        for image in rec.images():
            self.assertEqual(len(rec.ends(image)), 1)

    def test_exec_chain(self):
        self.record("sh", "-c", "exec sh -c 'exec ls /'")
        rec = self.recording()
        self.assertEqual(len(rec.images()), 3)
        hows = sorted(rec.ends(i)[0][0] for i in rec.images())
        self.assertEqual(hows, [chunks.EXIT, chunks.EXEC, chunks.EXEC])

    def test_exec_of_what_cannot_be_recorded(self):
        plain = run([victim("hello_static")])
        r = self.record("sh", "-c", f"exec {victim('hello_static')}")
        self.assertEqual((r.rc, r.out), (plain.rc, plain.out))
        rec, image = self.only("-c")
        self.assertEqual([how for how, _ in rec.ends(image)], [chunks.EXEC])

    def test_entries_are_given_back(self):
        """More processes than the table has room for at once would take too long; their memory is what
        counts: it must not grow with the number of processes that ended."""
        p = self.start("sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; echo done; read x")
        self.assertEqual(p.stdout.readline(), b"done\n")
        session = f"/proc/{p.pid}/fd/{self.session_fd(p.pid)}"
        # mallow may be a little behind
        wait_until(lambda: os.stat(session).st_blocks * 512 < 4 << 20, "the buffers of processes that ended are given back")
        p.stdin.close()
        p.wait(600)
        self.assertEqual(len(self.recording().images()), 301)

    def session_fd(self, pid):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if "mallow-session" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                return fd
        raise AssertionError("no session")

    def test_few_descriptors(self):
        """Fewer than there are processes; and fewer than it takes to see when one ends, which is said."""
        script = "for i in 1 2 3 4 5 6 7 8 9; do /bin/sleep 0.5 & done; exit 3"
        begun = 0
        for files in range(9, 20):
            def before(files=files):
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            r = self.record("sh", "-c", script, preexec_fn=before)
            if not begun and b"Too many open files" in r.err:
                self.assertEqual((r.rc, r.err.count(b"\n")), (125, 1), r.err)
                continue
            begun += 1
            self.assertEqual(r.rc, 3, r.err)
            rec = self.recording()
            self.assertGreater(len(rec.image_of("0.5")), 5)
            for image in rec.images():
                self.assertEqual(len(rec.ends(image)), 1, f"{files} descriptors")
        self.assertGreater(begun, 4)

    def test_full_disk(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", disk], capture_output=True,
                          check=False).returncode:
            self.skipTest("SKIPPED, LOUDLY: no right to mount a small disk (needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        self.file = os.path.join(disk, "recording.mlw")
        plain = run([victim("loop"), "1"])
        r = self.record(victim("loop"), "1")
        self.assertEqual((r.rc, r.out), (plain.rc, plain.out), r.err)
        self.assertIn(b"No space left", r.err)
        rec, image = self.only("1")
        self.assertEqual(rec.ends(image), [(chunks.EXIT, 0)], "the end must arrive on a full disk")
        self.assertEqual(len(rec.rows(image)) + rec.lost(image), 1_001_000 + self.extra(rec, image))

    def extra(self, rec, image):
        """Calls beyond those of the loop: stdio's buffer and the like, which the same program without the
        loop has."""
        mine = self.file
        self.file = os.path.join(self.folder, "none.mlw")
        try:
            self.record(victim("loop"), "0")
            r, i = self.only("0")
            return len(r.rows(i)) - 1000
        finally:
            self.file = mine

    def test_file_size_limit(self):
        plain = run([victim("loop"), "1"])
        small = 100 << 10
        for inside in (False, True):
            with self.subTest(inside=inside):
                if inside:
                    r = self.record("bash", "-c", f"ulimit -f 100; exec {victim('loop')} 1")
                else:
                    r = self.record(victim("loop"), "1",
                                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (small, -1)))
                self.assertEqual((r.rc, r.out), (plain.rc, plain.out), r.err)
                rec, image = self.only("1")
                self.assertEqual(rec.lost(image), 0, "mallow itself is not limited: it writes for the program")
                self.assertEqual(len(rec.rows(image)), 1_001_000 + self.extra(rec, image))

    def test_hard_file_size_limit_of_a_user(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED, LOUDLY: only root may become somebody else")
        mark = os.path.join(self.folder, "ran")
        os.chmod(self.folder, 0o777)

        def before():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
            os.setuid(65534)
        try:
            plain = run(["sh", "-c", "echo hello; exit 4"], preexec_fn=before)
            r = self.record("sh", "-c", f"touch {mark}; echo hello; exit 4", preexec_fn=before)
        except (PermissionError, subprocess.SubprocessError):
            self.skipTest("SKIPPED, LOUDLY: nobody may not read the build folder")
        self.assertEqual((r.rc, r.out), (plain.rc, plain.out), r.err)
        self.assertTrue(os.path.exists(mark))
        self.assertIn(b"nothing is recorded", r.err)
        self.assertIn(b"ulimit -f", r.err)


class Resident(Beside):
    def hold(self, *options):
        p = self.start(SPLIT, options=list(options))
        self.assertEqual(p.stdout.readline(), b"ready\n")
        return p

    def finish(self, p, program=SPLIT):
        p.stdin.close()
        self.assertEqual(p.wait(600), 0)
        return self.only(program)

    def splits(self, rec, image):
        names = "clock heap arenas anonymous stacks files shared recorder other swapped".split()
        # An answer that was kept back for a while stands behind a later one in the file.
        return sorted((dict(zip(names, struct.unpack_from("<10Q", c.tlvs()[chunks.T_SPLIT][0])))
                       for c in rec.of(chunks.SPLIT) if c.image == image), key=lambda s: s["clock"])

    def samples(self, rec, image):
        return [struct.unpack_from("<4Q", c.payload, at) for c in rec.of(chunks.RESIDENT) if c.image == image
                for at in range(0, len(c.payload), 32)]

    def test_split(self):
        p = self.hold()
        pid = self.child_of(p, os.path.basename(SPLIT))
        self.assertEqual(run([MALLOW, "control", pid, "snapshot"]).rc, 0)
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            rss = next(int(l.split()[1]) << 10 for l in f if l.startswith("Rss:"))
        rec, image = self.finish(p)
        split = self.splits(rec, image)[-1]
        mib = 1 << 20
        # Pages of files can be taken away at any time: some kernels reclaim those that nothing has used of late.
        for kind, least, most in (("heap", 19.5, 21), ("arenas", 11.5, 13), ("anonymous", 30, 31.5),
                                  ("stacks", 6, 6.5), ("shared", 8, 8), ("files", 0, 8), ("other", 0, 0.1)):
            self.assertTrue(least * mib <= split[kind] <= most * mib, (kind, split))
        self.assertTrue(0 < split["recorder"] < 8 * mib, split)
        total = sum(v for k, v in split.items() if k not in ("clock", "swapped"))
        self.assertLess(abs(total - rss), mib, (split, rss))

    def test_stacks_side_by_side(self):
        """Stacks that have no mapping of their own, as none has since glibc 2.43: each by the bounds that its thread has,
        also of threads that make no call; of stacks that wait for new threads glibc gives the pages back."""
        p = self.start(STACKS)
        self.assertGreaterEqual(int(p.stdout.readline().split()[1]), 5)
        pid = self.child_of(p, os.path.basename(STACKS))
        self.assertEqual(run([MALLOW, "control", pid, "snapshot"]).rc, 0)
        rec, image = self.finish(p, STACKS)
        split = self.splits(rec, image)[-1]
        mib = 1 << 20
        for kind, least, most in (("stacks", 8, 8.4), ("anonymous", 4, 4.6)):
            self.assertTrue(least * mib <= split[kind] <= most * mib, (kind, split))

    def test_samples(self):
        p = self.hold("--sample-interval", "1ms")

        def seen():
            rec, image = self.only(SPLIT)
            samples = self.samples(rec, image)
            return self.splits(rec, image) and samples and max(s[2] for s in samples) >= 76 << 20
        wait_until(seen, "a sample of what it holds, and a split at a peak")
        rec, image = self.finish(p)
        samples = self.samples(rec, image)
        clocks = [s[0] for s in samples]
        self.assertEqual(clocks, sorted(clocks))
        peak = max(s[2] for s in samples)
        self.assertTrue(76 << 20 <= peak <= 100 << 20, peak)
        for clock, vmsize, rss, shared in samples:
            self.assertTrue(shared <= rss <= vmsize)


class Moments(Beside):
    """When the kernel is asked for the split: at new peaks of what is resident, of what is live and of the gap, at
    marks, and so late that the end is explained."""

    def begin(self):
        p = self.start(PHASES)
        self.pid = self.child_of(p, "phases")
        return p

    def order(self, p, line):
        p.stdin.write(line.encode() + b"\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"done\n")

    def splits(self):
        names = "clock heap arenas anonymous stacks files shared recorder other swapped".split()
        rec = self.recording()
        image, = rec.image_of(PHASES)
        # An answer that was kept back for a while stands behind a later one in the file.
        return sorted((dict(zip(names, struct.unpack_from("<10Q", c.tlvs()[chunks.T_SPLIT][0])))
                       for c in rec.of(chunks.SPLIT) if c.image == image), key=lambda s: s["clock"])

    def heap(self):
        """The heap as the kernel sees it now."""
        with open(f"/proc/{self.pid}/smaps", encoding="ascii") as f:
            lines = f.read().splitlines()
        at = next(i for i, line in enumerate(lines) if line.endswith("[heap]"))
        return next(int(line.split()[1]) << 10 for line in lines[at:] if line.startswith("Rss:"))

    def settled(self, what):
        """Waits for a split in the file that says what the heap is, within a fiftieth."""
        heap = self.heap()
        wait_until(lambda: any(abs(s["heap"] - heap) <= heap / 50 for s in self.splits()), what)

    def test_gap_and_live(self):
        p = self.begin()
        self.order(p, "small 300000 96")
        self.settled("the peak of the resident size")
        n, heap = len(self.splits()), self.heap()
        self.order(p, "thin 37")  # what is resident stays, what is live goes: only the gap has a new peak
        wait_until(lambda: len(self.splits()) > n, "the peak of the gap")
        self.assertGreater(self.splits()[-1]["heap"], heap * 0.9)
        n = len(self.splits())
        self.order(p, "large 100000000")  # live and not resident: a new peak of what is live, and of no other figure
        wait_until(lambda: len(self.splits()) > n, "the peak of what is live")
        n = len(self.splits())
        self.order(p, "mark here")
        wait_until(lambda: len(self.splits()) > n, "the mark")
        self.assertEqual(run([MALLOW, "control", str(self.pid), "mark", "outside"]).rc, 0)
        self.assertGreater(len(self.splits()), n + 1)
        self.assertLess(len(self.splits()), 200)
        p.stdin.close()
        self.assertEqual(p.wait(600), 0)

    def test_in_between(self):
        """Also when no figure has a new peak, so that the end is never far from an answer."""
        p = self.begin()
        self.order(p, "large 60000000")
        self.order(p, "touch 60000000")
        wait_until(lambda: any(s["anonymous"] > 55e6 for s in self.splits()), "the peak of the resident size")
        self.order(p, "drop")
        wait_until(lambda: self.splits()[-1]["anonymous"] < 5e6, "what is left")
        p.stdin.close()
        self.assertEqual(p.wait(600), 0)


class Sealing(Beside):
    """Without --keep-raw."""

    def seal(self, *argv, **kw):
        return run([MALLOW, "record", "-o", self.file, "--", *argv], **kw)

    def report(self, file=None):
        r = run([MALLOW, "report", "--json", "-n", "1", file or self.file])
        self.assertEqual(r.rc, 0, r.err)
        return json.loads(r.out)

    def is_sealed(self):
        with open(self.file, "rb") as f:
            return f.read(4) != b"MLC1"


class Sealed(Sealing):
    """The file is sealed when the recording ends."""

    def test_sealed(self):
        r = self.seal(victim("loop"), "1")
        self.assertEqual(r.rc, 0)
        self.assertTrue(self.is_sealed())
        self.assertEqual(os.listdir(self.folder), ["recording.mlw"])
        doc = self.report()
        self.assertIn(f"{doc['events']:,} calls of 1 program".encode(), r.err)
        self.assertTrue(doc["processes"][0]["complete"])
        self.assertEqual(doc["lost_events"], 0)

    def test_the_mode_is_what_open_makes_it(self):
        self.seal("true", preexec_fn=lambda: os.umask(0o027))
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o640)

    def test_reader_of_a_living_recording_leaves_it_alone(self):
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", victim("control"), "wait"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.step(p)
            self.assertEqual(run([MALLOW, "control", self.child_of(p, "control"), "sync"]).rc, 0)
            doc = self.report()
            self.assertEqual(doc["events"], 10)
            self.assertFalse(doc["processes"][0]["complete"])
            self.assertFalse(self.is_sealed())
            self.step(p)
            p.stdin.close()
            self.assertEqual(p.wait(600), 0)
        finally:
            p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()
        self.assertTrue(self.is_sealed())
        doc = self.report()
        self.assertEqual((doc["events"], doc["processes"][0]["complete"]), (20, True))

    def test_killed_mallow_is_made_good_by_the_reader(self):
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", victim("control"), "wait"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.step(p)
        child = self.child_of(p, "control")
        p.kill()
        p.wait()
        self.step(p)
        p.stdin.close()
        wait_until(lambda: has_ended(child))
        p.stdout.close()
        p.stderr.close()
        self.assertEqual(self.report()["events"], 20)
        self.assertTrue(self.is_sealed())

    def test_zombie(self):
        """Whose parent (this test, instead of the first process) does not wait for it: it is dead all the same."""
        subreaper = ctypes.CDLL(None).prctl
        self.assertEqual(subreaper(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0)
        self.addCleanup(subreaper, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        with subprocess.Popen([MALLOW, "record", "-o", self.file, "--", victim("control"), "wait"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            self.step(p)
            child = self.child_of(p, "control")
            p.kill()
            p.wait()
            p.stdin.close()
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            self.assertEqual(self.report()["events"], 10)
            self.assertTrue(self.is_sealed())
            os.waitpid(child, 0)

    def test_full_disk(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", disk], capture_output=True,
                          check=False).returncode:
            self.skipTest("SKIPPED, LOUDLY: no right to mount a small disk (needs root)")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        self.file = os.path.join(disk, "recording.mlw")
        r = self.seal(victim("loop"), "1")
        self.assertEqual((r.rc, r.out), (0, b"500000\n"))
        self.assertIn(b"could not be sealed", r.err)
        self.assertIn(b"calls could not be recorded: No space left", r.err)
        self.assertFalse(self.is_sealed())
        self.assertEqual(os.listdir(disk), ["recording.mlw"])
        doc = self.report()
        self.assertEqual(doc["events"] + doc["lost_events"], 1_001_001)
        self.assertGreater(doc["events"], 1000)


class Drafted(Sealing):
    """The file is sealed while the program runs."""
    RAW_BYTES, DRAFT_BYTES = 64 << 20, 2 << 20

    def draft_of(self, pid):
        """Its size; it has no name."""
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(self.folder + "/#"):
                    return os.stat(f"/proc/{pid}/fd/{fd}").st_size
            except OSError:
                pass
        return 0

    def until_drafted(self):
        """A program that is stopped for good after many calls, mallow beside it, which has sealed the first of them, and
        the raw file."""
        p = subprocess.Popen([MALLOW, "record", "-o", self.file, "--", victim("loop"), "1000000"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close(), p.stderr.close()))
        child = self.child_of(p, "loop")
        self.addCleanup(lambda: has_ended(child) or os.kill(child, signal.SIGKILL))
        wait_until(lambda: os.path.exists(self.file) and os.stat(self.file).st_size > self.RAW_BYTES)
        os.kill(child, signal.SIGSTOP)
        raw = open(self.file, "rb")
        self.addCleanup(raw.close)
        wait_until(lambda: self.draft_of(p.pid) > self.DRAFT_BYTES)
        return p, child, raw

    def test_the_same_as_at_the_end(self):
        p, child, raw = self.until_drafted()
        os.kill(child, signal.SIGKILL)
        self.assertEqual(p.wait(600), 137)
        self.assertTrue(self.is_sealed())
        self.assertEqual(os.listdir(self.folder), ["recording.mlw"])
        again = os.path.join(self.folder, "again.mlw")
        with open(again, "wb") as f:
            shutil.copyfileobj(raw, f)
        with open(again, "rb") as f:
            self.assertEqual(f.read(4), b"MLC1")
        self.report(again)
        with open(self.file, "rb") as f, open(again, "rb") as g:
            sealed = f.read()
            self.assertTrue(sealed == g.read(len(sealed)), "byte for byte")

    def test_a_child_frees_the_written_file(self):
        """It keeps none of mallow's pipes open, and ends."""
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        self.addCleanup(prctl, PR_SET_CHILD_SUBREAPER, 0)
        self.assertEqual(prctl(PR_SET_CHILD_SUBREAPER, 1), 0)
        p, child, raw = self.until_drafted()
        os.kill(child, signal.SIGKILL)
        self.assertEqual(p.wait(600), 137)
        p.stdout.read()
        p.stderr.read()
        self.assertEqual(os.fstat(raw.fileno()).st_nlink, 0)
        self.assertGreater(os.fstat(raw.fileno()).st_size, self.RAW_BYTES)
        pid, status = os.waitpid(-1, 0)
        self.assertNotEqual(pid, p.pid)
        self.assertEqual(status, 0)

    def test_killed_while_it_seals(self):
        p, child, _ = self.until_drafted()
        p.kill()
        p.wait()
        self.assertEqual(os.listdir(self.folder), ["recording.mlw"])
        self.assertFalse(self.is_sealed())
        before = sum(c.calls for c in self.recording().of(chunks.EVENTS) if not c.flags & chunks.INTERIM)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: has_ended(child))
        doc = self.report()
        self.assertTrue(self.is_sealed())
        self.assertEqual(doc["lost_events"], 0)
        self.assertGreaterEqual(doc["events"], before)
        self.assertGreater(before, 1_000_000)


class Control(Beside):
    def control(self, pid, *words):
        return run([MALLOW, "control", pid, *words])

    def test_everything(self):
        p = self.control_program("--paused")
        pid = self.child_of(p, "control")
        self.step(p)                                          # 10 B, unseen
        for action, seen in (("unpause", True), ("pause", False), ("start", True), ("stop", False), ("start", True)):
            r = self.control(pid, action)
            self.assertEqual((r.rc, r.out, r.err), (0, b"", b""))
            self.step(p)
        r = self.control(pid, "mark", "here we are")
        self.assertEqual(r.rc, 0, r.err)
        self.assertEqual(self.control(pid, "sync").rc, 0)
        rec, image = self.only("wait")
        self.assertEqual([rec.sizes(image, n) for n in range(10, 16)], [0, 10, 0, 10, 0, 10])
        mark = rec.of(chunks.MARK)[0]
        self.assertEqual((mark.image, mark.tlvs()[chunks.T_LABEL]), (image, [b"here we are"]))
        self.assertEqual(self.control(p.pid, "pause").rc, 0, "all of a recording, by the pid of mallow record")
        self.step(p)
        p.stdin.close()
        self.assertEqual(p.wait(600), 0)
        rec, image = self.only("wait")
        self.assertEqual([rec.sizes(image, n) for n in range(10, 17)], [0, 10, 0, 10, 0, 10, 0])

    def test_programs_that_are_yet_to_come(self):
        """By the pid of mallow record: a program that begins afterwards begins as the recording stands by then."""
        p = self.start("/bin/sh", "-c", f"echo; read go; exec '{victim('control')}' wait", options=["--paused"])
        self.assertEqual(p.stdout.read(1), b"\n")
        self.assertEqual(self.control(p.pid, "unpause").rc, 0)
        p.stdin.write(b"\n")
        self.step(p)
        p.stdin.close()
        self.assertEqual(p.wait(600), 0)
        rec, image = self.only("wait")
        self.assertEqual(rec.sizes(image, 10), 10)

    def test_without_mallow_beside_it(self):
        p = self.control_program()
        self.step(p)
        pid = self.child_of(p, "control")
        p.kill()
        p.wait()
        r = self.control(pid, "sync")
        if os.geteuid() == 0:
            self.assertEqual(r.rc, 0, r.err)
            rec, image = self.only("wait")
            self.assertEqual(rec.sizes(image, 10), 10)

    def test_not_recorded(self):
        with subprocess.Popen(["sleep", "100"]) as sleep:
            r = self.control(sleep.pid, "pause")
            self.assertEqual(r.rc, 1)
            self.assertIn(b"is not recorded", r.err)
            sleep.kill()
        r = self.control(sleep.pid, "pause")
        self.assertEqual(r.rc, 1)
        self.assertIn(b"no process", r.err)

    def test_usage(self):
        for words in (["x", "pause"], ["1", "jump"], ["1", "mark"], ["1", "pause", "x"], ["1"], ["0", "pause"], []):
            r = self.control(*words) if words else run([MALLOW, "control"])
            self.assertEqual(r.rc, 2, words)
            self.assertEqual(len(r.err.splitlines()), 1, r.err)
