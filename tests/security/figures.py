"""The figures of docs/security.md: what a command may take. Tests run it in a control group that kills it for more."""
import contextlib
import os
import re
import resource
import subprocess
import sys
import tempfile

from attack import loudly
from mallowtest.memorygroup import MemoryGroup

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "security.md")
HEAD = "| command |"
SECONDS = 60  # of a processor: of a command that takes 3 s at most


def read():
    """The rows of the tables that have a limit: {first cell, without what is in parentheses: bytes}."""
    found = {}
    with open(PAGE, encoding="utf-8") as f:
        limit = None
        for line in f:
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            if line.startswith(HEAD) and "limit of the test" in cells:
                limit = cells.index("limit of the test")
            elif not line.startswith("|"):
                limit = None
            elif limit is not None and not line.startswith("| ---"):
                number = re.fullmatch(r"(\d+) MiB", cells[limit]).group(1)
                found[cells[0].split(" (")[0].replace("`", "")] = int(number) << 20
    return found


LIMITS = read()
LARGEST = {}  # row: (MiB, seconds, case)


def group_of(test, row):
    try:
        group = MemoryGroup(LIMITS[row])
    except OSError as why:
        loudly(str(why))
    test.addCleanup(group.remove)
    return group


def most(group):
    for name in ("memory.max_usage_in_bytes", "memory.peak"):
        with contextlib.suppress(FileNotFoundError), open(f"{group.path}/{name}", encoding="ascii") as f:
            return int(f.read())
    return 0


def note(row, case, group, seconds=0.0):
    mib = most(group) >> 20
    LARGEST[row] = max(LARGEST.get(row, (0, 0, "")), (mib, round(seconds, 1), case))


def patient():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


class Done:
    def __init__(self, status, out, err):
        self.returncode, self.stdout, self.stderr = status, out, err


def run(test, row, case, *argv, **more):
    """argv in a group with the limit of this row. Its end, what it printed; killed by none."""
    group = group_of(test, row)
    env = {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"}  # which writes to all that is allocated
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # on a disk
        p = subprocess.Popen(group.command(*argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=patient, env=env,
                             **more)
        try:
            _, status, used = os.wait4(p.pid, 0)
        except BaseException:
            p.kill()
            raise
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        done = Done(p.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace"))
    note(row, case, group, used.ru_utime + used.ru_stime)
    test.assertIn(done.returncode, (0, 1, 2), (row, case, done.stderr))
    return done


def show():
    for row, (mib, seconds, case) in sorted(LARGEST.items()):
        print(f"{row}: {mib} MiB of {LIMITS[row] >> 20}, {seconds} s, of {case}", file=sys.stderr)
