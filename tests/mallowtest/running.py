"""Runs programs and mallow, and waits for states."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from mallowtest.places import MALLOW

TIMEOUT = 600  # seconds for one program; nothing here takes a hundredth of it


class Run:
    """One finished program: rc as subprocess gives it (negative: a signal), out, err (bytes)."""

    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    @property
    def status(self):
        """As a shell, and mallow record, report it."""
        return 128 - self.rc if self.rc < 0 else self.rc

    def own_err(self):
        """Standard error without mallow's own lines."""
        return b"".join(l for l in self.err.splitlines(keepends=True) if not l.startswith(b"mallow"))


def run(argv, env=None, cwd=None, stdin=None, timeout=TIMEOUT, preexec_fn=None, pass_fds=()):
    e = dict(os.environ)
    for k in list(e):
        if k.startswith("MALLOW_"):
            del e[k]
    e["LC_ALL"] = "C"
    e.update(env or {})
    p = subprocess.Popen([str(a) for a in argv], env=e, cwd=cwd, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=preexec_fn,
                         pass_fds=pass_fds, start_new_session=True)
    try:
        out, err = p.communicate(stdin or b"", timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, err = p.communicate()
        raise AssertionError(f"hung for {timeout} s: {argv}\nstdout: {out[-2000:]!r}\nstderr: {err[-2000:]!r}")
    return Run(p.returncode, out, err)


def slow_opens(microseconds):
    """What stands before a command so that each file that it opens takes so much longer. needs_strace: a test of it."""
    return ["strace", "-o", "/dev/null", "-e", "trace=openat", "-e", f"inject=openat:delay_exit={microseconds}"]


needs_strace = unittest.skipUnless(shutil.which("strace"), "SKIPPED, LOUDLY: strace is not installed")


def status_of(pid):
    """The fields of /proc/PID/stat behind the name: state, parent, process group, session; [] for who is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def has_ended(pid):
    """Or waits for a parent that does not ask: not every first process of a container does."""
    return status_of(pid)[:1] in ([], ["Z"], ["X"])


def mallow(*arguments, status=0, env=None, **more):
    """Runs mallow; what it wrote is text. status: its exit status; None when the caller looks at it. env: beside the test's own."""
    if "input" not in more:
        more.setdefault("stdin", subprocess.DEVNULL)
    more = {"text": True, "timeout": TIMEOUT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    done = subprocess.run([MALLOW, *map(_argument, arguments)], env={**os.environ, "LC_ALL": "C", **(env or {})}, check=False, **more)
    assert status is None or done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def _argument(a):
    return a if isinstance(a, (str, bytes)) else str(a)


def record(file, *command, options=(), env=None):
    """Records a program that ends well; the path of the recording."""
    mallow("record", "-q", *options, "-o", file, "--", *command, env=env)
    return file


def report(file, *options, env=None):
    """The report of a recording in JSON, with every row, unless an option says how many."""
    document = json.loads(mallow("report", "--json", "-n0", *options, file, env=env).stdout)
    assert document["schema"] == 1
    return document


def wait_until(true, what="it never came to be", seconds=300):
    """Waits for a state, and returns what is true then. The bound ends what hangs."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.005)
    return value
