"""Messages and exit statuses: one line on stderr that says what was wrong, exit 2; help on stdout."""
import os
import pty
import subprocess
import unittest

from mallowtest import MALLOW
from cli import commands, help_options, mallow


class Usage(unittest.TestCase):
    def wrong(self, *arguments):
        """Runs what is a usage error; returns the line."""
        out = mallow(*arguments)
        self.assertEqual(out.returncode, 2, (arguments, out.stderr))
        self.assertEqual(out.stdout, "")
        self.assertEqual(out.stderr.count("\n"), 1, out.stderr)
        self.assertTrue(out.stderr.startswith("mallow"), out.stderr)
        return out.stderr

    def test_nothing(self):
        self.assertIn("mallow help", self.wrong())

    def test_version(self):
        for spelling in ("--version", "-V"):
            out = mallow(spelling)
            self.assertEqual((out.returncode, out.stderr), (0, ""))
            self.assertRegex(out.stdout, r"^mallow \d+\.\d+\.\d+\n$")

    def test_mistyped_commands(self):
        self.assertIn("did you mean 'doctor'?", self.wrong("docter"))
        self.assertIn("did you mean 'help'?", self.wrong("hepl"))
        self.assertIn("lists the commands", self.wrong("frobnicate"))
        self.assertIn("did you mean 'doctor'?", self.wrong("help", "docter"))
        self.assertIn("the command comes first", self.wrong("--json", "doctor"))

    def test_every_command_refuses_what_it_does_not_know(self):
        for name in commands():
            with self.subTest(command=name):
                self.assertIn("--no-such-option", self.wrong(name, "--no-such-option"))
                self.assertIn("unknown option -Z", self.wrong(name, "-Z"))
                self.assertIn(f"mallow {name}:", self.wrong(name, "--no-such-option=3"))

    def test_empty_operands(self):
        for arguments in (["report", ""], ["diff", "old.mlw", ""], ["replay", ""], ["workload", "-o", "x.mwl", ""],
                          ["heap", ""], ["control", str(os.getpid()), "mark", ""]):
            with self.subTest(arguments):
                self.assertIn(f"argument {arguments[1:].index('') + 1 - 2 * ('-o' in arguments)} is empty",
                              self.wrong(*arguments))

    def test_a_label_that_is_too_long(self):
        self.assertIn("4000 bytes at most", self.wrong("control", str(os.getpid()), "mark", "x" * 4001))

    def test_a_long_option_that_is_nearly_right(self):
        self.assertIn("did you mean --json?", self.wrong("doctor", "--jsn"))
        self.assertIn("did you mean --json?", self.wrong("doctor", "--js"))
        self.assertIn("takes no value", self.wrong("doctor", "--json=yes"))

    def test_help_of_every_command(self):
        for name in commands():
            with self.subTest(command=name):
                long, short, helped = mallow(name, "--help"), mallow(name, "-h"), mallow("help", name)
                self.assertEqual((long.returncode, long.stderr), (0, ""))
                self.assertTrue(long.stdout.startswith(f"usage: mallow {name} "), long.stdout)
                self.assertEqual(long.stdout, short.stdout)
                self.assertEqual(long.stdout, helped.stdout)
                self.assertLessEqual({"-h", "--help"}, help_options(long.stdout))
                for line in long.stdout.splitlines():
                    self.assertLessEqual(len(line), 80, line)

    def test_help_lists_the_commands(self):
        for arguments in (("help",), ("--help",), ("-h",)):
            out = mallow(*arguments)
            self.assertEqual(out.returncode, 0)
            self.assertIn("doctor", out.stdout)
            self.assertLessEqual(max(map(len, out.stdout.splitlines())), 80)

    def test_a_full_disk_is_a_failure(self):
        for arguments in (("help",), ("doctor",), ("doctor", "--json"), ("doctor", "--help")):
            with open("/dev/full", "w", encoding="utf-8") as full:
                out = mallow(*arguments, stdout=full)
            self.assertEqual(out.returncode, 1, arguments)
            self.assertIn("No space left on device", out.stderr)


class Colour(unittest.TestCase):
    def on_terminal(self, **env):
        """The output of `mallow doctor` on a terminal of its own."""
        master, slave = pty.openpty()
        process = subprocess.Popen([MALLOW, "doctor"], stdin=slave, stdout=slave, stderr=slave,
                                   env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"},
                                        "TERM": "xterm", **env})
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # EIO: the other side is closed
                break
            if not piece:
                break
            text += piece
        process.wait(600)
        os.close(master)
        self.assertIn(b"kernel", text)
        return text

    def test_colour_only_where_it_is_wanted(self):
        self.assertIn(b"\033[3", self.on_terminal())
        self.assertIn(b"\033[3", self.on_terminal(NO_COLOR=""))
        self.assertNotIn(b"\033[", self.on_terminal(NO_COLOR="1"))
        self.assertNotIn(b"\033[", self.on_terminal(TERM="dumb"))
        self.assertNotIn("\033[", mallow("doctor").stdout)
