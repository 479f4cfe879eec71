"""Swap files and control groups that are made for a test, and taken away again."""
import os
import shutil
import subprocess
import tempfile
import unittest

from probing import victim


def vmstat():
    with open("/proc/vmstat", encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


class Group:
    """A control group with a limit on memory (version 1 or 2)."""

    def __init__(self, case, limit, swap=True):
        # What to write where. Version 1's second limit is on memory and swap together.
        roots = [("/sys/fs/cgroup/memory", {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}),
                 ("/sys/fs/cgroup", {"memory.max": limit, "memory.swap.max": 0})]
        for root, limits in roots:
            self.path = os.path.join(root, f"mallow-test-{os.getpid()}")
            try:
                os.mkdir(self.path)
                for name, value in list(limits.items())[:1 if swap else 2]:
                    with open(os.path.join(self.path, name), "w", encoding="ascii") as f:
                        f.write(str(value))
            except OSError:
                if os.path.isdir(self.path):
                    os.rmdir(self.path)
                continue
            case.addCleanup(self.remove)
            return
        raise unittest.SkipTest("SKIPPED, LOUDLY: no control group with a memory limit can be made here")

    def command(self, *arguments):
        """The victim in the group, and nothing else."""
        return ["/bin/sh", "-c", f'echo $$ > {self.path}/cgroup.procs; exec "$@"', "sh", victim("memory_victim"),
                *arguments]

    def remove(self):
        os.rmdir(self.path)


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
