"""What the tests of `mallow probe` share."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

from mallowtest import MALLOW, Test, program

# The build sets it for victims that are linked with libraries, which find them without; a static
# program allocates when it is there.
os.environ.pop("LD_LIBRARY_PATH", None)
# The test runner sets it; malloc then touches all that it hands out.
os.environ.pop("MALLOC_PERTURB_", None)


def victim(name):
    return program("probe/" + name)


def mallow(*arguments, **more):
    return subprocess.run([MALLOW, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False,
                          env=dict(os.environ, LC_ALL="C", **more.pop("env", {})), **more)


def attached(process):
    """Waits until `mallow probe` or `record -p` waits for events (poll, epoll_wait, epoll_pwait), or has ended."""
    for _ in range(12000):
        if process.poll() is not None:
            return
        with open(f"/proc/{process.pid}/syscall", encoding="ascii") as f:
            if f.read().split()[0] in ("7", "232", "281"):
                return
        time.sleep(0.05)
    raise AssertionError("mallow probe does not attach")


def reads(process):
    """Waits until a victim (or its pid) waits for input: by then it has all its libraries."""
    pid = getattr(process, "pid", process)
    for _ in range(12000):
        with open(f"/proc/{pid}/syscall", encoding="ascii") as f:
            if f.read().split()[:2] in (["0", "0x0"], ["275", "0x0"]):  # read, or splice as Ubuntu 26.04's cat in Rust
                return
        time.sleep(0.05)
    raise AssertionError("the victim does not wait for input")


# that reads, and is itself by any name: Ubuntu 26.04's cat in Rust splices, and is one of many programs in a file
CAT = shutil.which("gnucat") or shutil.which("cat")


@contextlib.contextmanager
def idle():
    """A process that waits for input, which never comes."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as p:
        try:
            reads(p)
            yield p
        finally:
            p.kill()


def for_others(test):
    """Skips a test that runs mallow as another user, who cannot reach it here."""
    folder = os.path.dirname(MALLOW)
    while folder != "/":
        if not os.stat(folder).st_mode & 1:
            test.skipTest(f"SKIPPED, LOUDLY: other users cannot reach {folder}")
        folder = os.path.dirname(folder)


def why_not():
    """Why nothing can be probed here, or None. Asked of the machine, not of what is tested."""
    if os.geteuid() != 0:
        return "not root"
    if not os.access("/sys/kernel/btf/vmlinux", os.R_OK):
        return "no /sys/kernel/btf/vmlinux"
    caps = {c["name"]: c for c in json.loads(mallow("doctor", "--json").stdout)["checks"]}
    if caps["probe-rights"]["status"] != "ok":
        return caps["probe-rights"]["detail"]
    return None


class Case(Test):
    def probe(self, kind, *arguments, status=0, **more):
        """Runs `mallow probe KIND --json`; returns the document. Nothing may be lost."""
        out = mallow("probe", kind, "--json", *arguments, **more)
        self.assertEqual(out.returncode, status, out.stderr[-2000:])
        document = json.loads(out.stdout.splitlines()[-1] if "-i" in arguments else out.stdout)
        self.assertEqual((document["schema"], document["probe"]), (1, kind))
        self.assertEqual((document["lost"], document.get("lost_stacks", 0)), (0, 0))
        self.assertTrue(document["source"])
        self.assertGreater(document["duration_ns"], 0)
        return document


def main():
    """Runs the tests of the calling module; exit status 77 when this machine lets none of them run."""
    reason = why_not()
    if reason:
        print(f"SKIPPED, LOUDLY: nothing can be probed here: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
