"""The live view of `mallow watch`, driven by tmux: what is shown at once, chosen, filtered, sorted, scrolled;
and that the terminal is given back. No library takes part."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from mallowtest import MALLOW, main, program, wait_until
from mallowtest.fakes import Fake


class Terminal:
    """A terminal in which a command runs."""

    def __init__(self, command, columns=110, lines=30):
        self.folder = tempfile.TemporaryDirectory(prefix="mallow-screen-")
        self.env = dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm-256color", HOME=self.folder.name, SHELL="/bin/sh",
                        PS1="ready$ ", HISTFILE="/dev/null", DEBUGINFOD_URLS="")
        self.env.pop("TMUX", None)
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), command)

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-u", "-f", "/dev/null", "-S", os.path.join(self.folder.name, "s"), *arguments],
                              capture_output=True, text=True, env=self.env, check=False)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def screen(self, *how):
        return self.tmux("capture-pane", "-p", *how)

    def wait(self, pattern, without=None):
        """The screen, once it matches."""
        seen = [""]

        def there():
            seen[0] = self.screen()
            return re.search(pattern, seen[0]) and not (without and re.search(without, seen[0]))
        try:
            wait_until(there, pattern, 60)
        except AssertionError:
            raise AssertionError(f"never: {pattern} without {without}:\n{seen[0]}") from None
        return seen[0]

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def state(self, name):
        return self.tmux("display-message", "-p", "#{" + name + "}").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")
        self.folder.cleanup()


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


def watching(*fakes):
    return [MALLOW, "watch", "--old", "50s"] + [word for f in fakes for word in ("-p", str(f.pid))]


def view(*fakes, **size):
    return Terminal(" ".join(watching(*fakes)) + "; echo status=$?; exec cat", **size)


TWO = ("alloc 10 1000 525000 60000 0 5", "alloc 90 1000 525000 0 1 6")


class Table(unittest.TestCase):
    def test_at_once_with_intervals_and_graphs(self):
        with Fake() as fake:
            fake.tell(*TWO)
            with view(fake) as t:
                text = t.wait(r"leaks_here")
                self.assertNotIn("caches_here", text)
                self.assertRegex(text, rf"^fake \[{fake.pid}\]  up ")
                self.assertRegex(text, r"5\.0 MB in blocks older than 50\.00 s, 1 call site")
                self.assertRegex(text, r"BYTES▾ +95 % between +BLOCKS +GROWTH +OLDEST  CALL SITE")
                self.assertRegex(text, r"5\.0 MB +\d\.\d MB\.\.\d\.\d MB +5,250 .* leaks_here \(fake\.c:\d+\) < serves_requests")
                with open(f"/proc/{fake.pid}/statm", encoding="ascii") as f:
                    self.assertGreater(int(f.read().split()[1]), 0)
                t.wait(r"live +[\d.]+ MB, peak .*[▁▂▃▄▅▆▇█]{2}")
                t.wait(r"RSS +[\d.]+ [KM]B .*[▁▂▃▄▅▆▇█]{2}")
                t.keys("a")
                t.wait(r"50\.1 MB live, 2 call sites")

    def test_pages_that_processes_share_count_once(self):
        """Seven processes, each with the same 40 MiB."""
        with subprocess.Popen([MALLOW, "watch", "--", program("watch/prefork")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as watch:
            self.assertEqual(watch.stdout.readline(), b"ready\n")
            parent, = children_of(watch.pid)
            pids = [parent, *children_of(parent)]
            with Terminal(f"{MALLOW} watch {' '.join(f'-p {pid}' for pid in pids)}; exec cat", columns=150) as t:
                text = t.wait(r"7 processes of prefork[\s\S]*RSS +[\d.]+ MB")
                self.assertTrue(40 < float(re.search(r"RSS +([\d.]+) MB", text).group(1)) < 120, text)
            watch.communicate()

    def test_rows_are_chosen_and_shown_whole(self):
        with Fake() as fake:
            fake.tell(*TWO)
            with view(fake) as t:
                t.wait("leaks_here")
                t.keys("a")
                t.wait("caches_here")
                t.keys("Down", "Enter")
                text = t.wait("Stack, innermost first")
                self.assertIn("Call site 2 of 2", text)
                self.assertRegex(text, r"about 5,250 blocks \(95% between [\d,]+ and [\d,]+\), 10 sampled")
                self.assertRegex(text, r"the oldest by thread 5")
                stack = text.split("innermost first:")[1].split()
                self.assertEqual([w for w in stack if w.endswith(("_here", "_requests", "_server"))],
                                 ["leaks_here", "serves_requests", "runs_the_server"])
                t.wait("┤")  # its past
                t.keys("Escape")
                t.wait("BYTES▾")
                t.keys("Up", "Enter")
                t.wait(r"Call site 1 of 2[\s\S]*> caches_here")
                t.keys("q")
                t.wait("BYTES▾")
                fake.tell("free 90 0 1 6")
                t.wait(r"live, 1 call site\n[\s\S]* leaks_here", without="caches_here")

    def test_a_row_is_a_call_site(self):
        """Of all its stacks: one of them lets a row pass the filter, whose figures are the row's."""
        with Fake() as fake:
            fake.tell(*TWO, "alloc 20 1000 525000 70000 2 6")
            with view(fake) as t:
                t.wait(r"15\.0 MB in blocks older than 50\.00 s, 1 call site\n[\s\S]* 15\.0 MB .* leaks_here \(fake\.c:\d+\)  \(2 stacks\)\n")
                t.keys("Enter")
                text = t.wait(r"The largest of 2 stacks, 10\.0 MB, innermost first:")
                self.assertRegex(text, r"  xmalloc [^\n]*\n> leaks_here [^\n]*\n  runs_the_server ")
                self.assertIn("the oldest by thread 6 (others, too)", text)
                t.keys("Escape", "/")
                t.type("serves")
                t.wait(r"1 call site, 1 of them with 'serves'[\s\S]* 15\.0 MB ")

    def test_sort(self):
        """Each order has its column, which is marked."""
        with Fake() as fake:
            fake.tell(*TWO)
            with view(fake) as t:
                t.wait("leaks_here")
                t.keys("a")
                t.wait(r"caches_here[\s\S]*leaks_here")
                for key, title in ((">", "GROWTH▾"), ("F6", "OLDEST▾"), (">", "BYTES x S▾"), (">", "ALLOCATED▾"),
                                   (">", "OTHER THREAD▾"), (">", "BYTES▾"), ("<", "OTHER THREAD▾")):
                    t.keys(key)
                    text = t.wait(title)
                    self.assertEqual(text.count("▾"), 1)
                    if title == "OLDEST▾":
                        self.assertRegex(text, r"leaks_here[\s\S]*caches_here")

    def test_filter(self):
        with Fake() as fake:
            fake.tell(*TWO)
            with view(fake) as t:
                t.wait("leaks_here")
                t.keys("a")
                t.wait("caches_here")
                t.keys("/")
                t.type("CACHEsq")
                t.wait("filter: CACHEsq_")
                t.keys("BSpace")
                t.wait(r"2 call sites, 1 of them with 'CACHEs'", without="leaks_here")
                t.keys("Enter")
                t.wait(r"1 of them with[\s\S]*Enter stack")
                t.keys("Escape")
                t.wait("leaks_here", without="of them with")

    def test_scrolling(self):
        with Fake() as fake:
            for site in (0, 1, *range(3, 17)):  # 2 is another stack of 0
                fake.tell(f"alloc {20 - site} 1000 525000 60000 {site} 5")
            with view(fake, lines=14) as t:
                t.wait(r"16 call sites")
                first = t.wait(r"\n +10\.0 MB")
                self.assertEqual(len(re.findall(r"\d\) < ", first)), 8)
                t.keys("G")
                t.wait(r"\n +2\.5 MB", without=r"\n +10\.0 MB")
                t.keys("Enter")
                t.wait("Call site 16 of 16")
                t.keys("Escape", "g", "Enter")
                t.wait("Call site 1 of 16")
                t.keys("Escape", "PageDown", "Enter")
                t.wait("Call site 8 of 16")
                # a text that is longer than the screen, once there is a past
                t.wait("┤")
                t.keys("G")
                t.wait("runs_the_server|serves_requests", without="Call site 8")
                t.keys("g")
                t.wait("Call site 8")

    def test_help(self):
        with Fake() as fake:
            fake.tell(*TWO)
            with view(fake) as t:
                t.wait("leaks_here")
                for key in ("?", "F1"):
                    t.keys(key)
                    t.wait("filter by part of a", without="BYTES▾")
                    t.keys("Escape")
                    t.wait("BYTES▾")

    def test_processes_together_and_apart(self):
        with Fake() as one, Fake() as other:
            one.tell("alloc 10 1000 525000 60000 0 5")
            other.tell("alloc 20 1000 525000 60000 0 5", "alloc 4 1000 525000 60000 1 5")
            with view(one, other) as t:
                t.wait(r"2 processes of fake")
                t.wait(r"15\.0 MB +\S+ MB\.\.\S+ MB +15,750 .*leaks_here[\s\S]*caches_here")
                t.keys("Enter")
                t.wait("Call site 1 of 2, in 2 processes")
                t.keys("Escape", "t")
                t.wait(rf"fake \[{one.pid}\] \(1 of 2\)[\s\S]* 5\.0 MB", without="caches_here")
                t.keys("Tab")
                t.wait(rf"fake \[{other.pid}\] \(2 of 2\)[\s\S]*10\.0 MB[\s\S]*caches_here")
                t.keys("t")
                t.wait("2 processes of fake")
                t.keys("P")
                t.wait(rf"2 processes; Enter[\s\S]*{one.pid} +[\s\S]*{other.pid} +")
                t.keys("Down", "Enter")
                t.wait(rf"fake \[{other.pid}\] \(2 of 2\)")

    def test_what_the_process_says_commands_no_terminal(self):
        with Fake() as fake:
            fake.tell("name evil\033]2;owned\007\033[2Jname", *TWO)
            with view(fake) as t:
                text = t.wait("leaks_here")
                self.assertIn("evil", text)
                self.assertNotEqual(t.state("pane_title"), "owned")
                t.keys("P")
                t.wait(r"PROGRAM[\s\S]*evil")
                t.keys("/")
                t.type("\u202e\u009b2Jx")
                t.wait("of them with '.+x'")
                self.assertNotEqual(t.state("pane_title"), "owned")

    def test_size_changes(self):
        with Fake() as fake:
            fake.tell(*TWO)
            with view(fake) as t:
                t.wait("95 % between")
                t.tmux("resize-window", "-x", "70", "-y", "12")
                text = t.wait("leaks_here", without="95 % between")
                self.assertTrue(all(len(line) <= 70 for line in text.splitlines()), text)
                t.tmux("resize-window", "-x", "140", "-y", "40")
                t.wait("95 % between")


class Program(unittest.TestCase):
    def test_how_to_see_it_live(self):
        """A program has the terminal; who looks at it learns at once how to see more."""
        server = program("watch/server")
        with Terminal(f"{MALLOW} watch --period 1 -- {server} hold 100 wait; echo status=$?; exec cat", columns=200) as t:
            said = t.wait(r"mallow watch: watching server \[\d+\]; the first report comes after 1m00s, and "
                          r"'mallow watch -p \d+' in another terminal shows it live")
            os.kill(int(re.search(r"-p (\d+)", said).group(1)), signal.SIGKILL)
            t.wait("status=137")


class Given(unittest.TestCase):
    """The terminal is given back as it was."""
    looks = 0

    def begin(self, t, fake, before="", behind=""):
        t.wait(r"ready\$\s*$")
        t.type(f"stty -a > {t.path('before')}; {before}{' '.join(watching(fake))}{behind}; echo status=$?")
        t.keys("Enter")
        t.wait("BYTES▾")
        self.assertEqual((t.state("alternate_on"), t.state("cursor_flag")), ("1", "0"))

    def given(self, t, modes=True):
        """The shell has the terminal again."""
        wait_until(lambda: t.state("alternate_on") == "0", "the first screen")
        self.assertEqual(t.state("cursor_flag"), "1")
        self.looks += 1  # what an earlier look printed may be on the screen yet
        t.type(f"stty -a > {t.path('after')}; echo look {self.looks}: $?")
        t.keys("Enter")
        t.wait(rf"\nlook {self.looks}: 0")
        if modes:
            with open(t.path("before"), encoding="ascii") as a, open(t.path("after"), encoding="ascii") as b:
                self.assertEqual(a.read(), b.read())

    def shell(self):
        return Terminal("exec bash --noprofile --norc -i")

    def test_quit_and_signals(self):
        for how in ("q", "C-c", signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV):
            with Fake() as fake, self.shell() as t:
                fake.tell(*TWO)
                self.begin(t, fake)
                if isinstance(how, str):
                    t.keys(how)
                elif how == signal.SIGHUP:  # asks for a report; the view stays
                    os.kill(fake.shown()[4], how)
                    t.keys("F10")
                else:
                    os.kill(fake.shown()[4], how)
                t.wait(r"status=139" if how == signal.SIGSEGV else r"status=0")
                self.given(t)

    def test_stopped_and_going_on(self):
        with Fake() as fake, self.shell() as t:
            fake.tell(*TWO)
            self.begin(t, fake)
            t.keys("C-z")
            t.wait("Stopped")
            self.given(t)
            t.type("fg")
            t.keys("Enter")
            t.wait("BYTES▾")
            t.keys("a")
            t.wait("caches_here")
            t.keys("q")
            t.wait("status=")
            self.given(t)

    def test_who_started_it_is_killed(self):
        with Fake() as fake, self.shell() as t:
            fake.tell(*TWO)
            self.begin(t, fake, before="sh -c 'echo $$ > " + t.path("sh") + "; ", behind="; true'")
            reader = fake.shown()[4]
            with open(t.path("sh"), encoding="ascii") as f:
                os.kill(int(f.read()), signal.SIGKILL)
            t.wait("status=137")
            wait_until(lambda: not os.path.exists(f"/proc/{reader}/exe"), "the end of the view")
            self.given(t)


if __name__ == "__main__":
    if not shutil.which("tmux"):
        print("SKIPPED: tmux is not installed; nothing was tested")
        sys.exit(77)
    main()
