"""Swap files and control groups that are made for a test, and taken away again."""
import os
import shutil
import subprocess
import tempfile
import unittest

from mallowtest.memorygroup import MemoryGroup


def vmstat():
    with open("/proc/vmstat", encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


def group(case, limit, swap=True):
    """A control group with a limit on memory, while the test runs."""
    try:
        made = MemoryGroup(limit, swap)
    except OSError as problem:
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {problem}") from problem
    case.addCleanup(made.remove)
    return made


def swap_file(case):
    """Swap of 256 MB while the test runs."""
    folder = tempfile.mkdtemp(prefix="mallow-test-", dir="/var/tmp")
    case.addCleanup(shutil.rmtree, folder)
    path = os.path.join(folder, "swap")
    with open(path, "wb") as f:
        os.fchmod(f.fileno(), 0o600)
        os.posix_fallocate(f.fileno(), 0, 256 << 20)
    for command in (["mkswap", path], ["swapon", path]):
        try:
            out = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as missing:
            raise unittest.SkipTest(f"SKIPPED, LOUDLY: no {command[0]} here") from missing
        if out.returncode:
            raise unittest.SkipTest(f"SKIPPED, LOUDLY: no swap can be made here: {out.stderr.strip()}")
    case.addCleanup(subprocess.run, ["swapoff", path], check=True)
