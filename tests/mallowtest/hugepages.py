"""Huge pages of the kernel's pool, for tests that need real ones."""
import contextlib
import fcntl
import unittest

SETTING = "/proc/sys/vm/nr_hugepages"


def free_pages():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next((int(line.split()[1]) for line in f if line.startswith("HugePages_Free")), 0)


@contextlib.contextmanager
def huge_pages(wanted):
    """So many are free, made for the test where they are not, and given back behind it. One test at a time. The test is skipped where
    the kernel does not give them."""
    try:
        with open(SETTING, "r+", encoding="ascii") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            before = int(f.read())
            try:
                if free_pages() < wanted:
                    with open(SETTING, "w", encoding="ascii") as setting:
                        setting.write(str(before + wanted))
                if free_pages() < wanted:
                    raise unittest.SkipTest(f"SKIPPED, LOUDLY: the kernel makes no {wanted} huge pages (vm.nr_hugepages)")
                yield
            finally:
                with open(SETTING, "w", encoding="ascii") as setting:
                    setting.write(str(before))
    except OSError as e:
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: vm.nr_hugepages cannot be set: {e}") from e
