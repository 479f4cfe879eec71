"""What the tests of the command line share."""
import os
import re
import subprocess

from mallowtest import MALLOW



def mallow(*arguments, env=None, **more):
    e = dict(os.environ, LC_ALL="C", TERM="xterm")
    e.pop("NO_COLOR", None)
    e.update(env or {})
    more.setdefault("stdin", subprocess.DEVNULL)
    if "stdout" not in more:
        more.update(stdout=subprocess.PIPE)
    return subprocess.run([MALLOW, *arguments], stderr=subprocess.PIPE, text=True, env=e, timeout=600,
                          check=False, **more)


def commands():
    out = mallow("help")
    assert out.returncode == 0, out.stderr
    part = out.stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in part.splitlines()]


def help_options(text):
    """The options, as spelled ("-o", "--output"), that a --help text lists."""
    part = text.split("\nOptions:\n")[1]
    found = set()
    for line in part.splitlines():
        match = re.match(r"^  (?:(-\w)(?:, )?)? *(--[\w-]+)?", line)
        if match and line.startswith(("  -", "      --")):
            found.update(spelling for spelling in match.groups() if spelling)
    return found
