"""A control group with a limit on memory, for tests of what happens at one.

The programs that are put into it want more than there is. They bound what they take themselves, too: where
no group can be had, they must not take the machine's memory."""
import ctypes
import os
import time

MAGIC = {0x27E0EB: "cgroup", 0x63677270: "cgroup2"}  # statfs(2)
PLACES = {
    "cgroup": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "cgroup2": ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
}


def filesystem(path):
    """Which kind of control groups is mounted there; None: none is."""
    about = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None).statfs(os.fsencode(path), about):
        return None
    return MAGIC.get(ctypes.c_long.from_buffer(about).value)


class MemoryGroup:
    """Raises OSError when no group can be made here. To be removed when all in it has ended."""

    def __init__(self, limit, swap=False):
        """limit: in bytes. swap: what is more may go to swap."""
        why = "no control groups are mounted"
        for kind, (root, memory, both) in PLACES.items():
            if filesystem(root) != kind:
                continue
            self.path = os.path.join(root, f"mallow-test-{os.getpid()}-{time.monotonic_ns()}")
            try:
                os.mkdir(self.path)
                self._set(memory, limit)
                if not swap:
                    # of version 1 it is memory and swap together, where the kernel counts swap
                    self._set(both, limit if kind == "cgroup" else 0, needed=False)
                    self._set("memory.swappiness", 0, needed=False)
                return
            except OSError as problem:
                why = str(problem)
                if os.path.isdir(self.path):
                    os.rmdir(self.path)
        raise OSError(f"no control group with a limit on memory can be made here: {why}")

    def _set(self, name, value, needed=True):
        try:
            fd = os.open(os.path.join(self.path, name), os.O_WRONLY)  # the kernel's file, or none
        except FileNotFoundError:
            if needed:
                raise
            return
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)

    def command(self, *argv):
        """argv in the group, or nothing at all."""
        return ["/bin/sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh", *argv]

    def remove(self):
        end = time.monotonic() + 600
        while True:
            try:
                os.rmdir(self.path)
                return
            except OSError:  # what was killed there is still on its way out
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
