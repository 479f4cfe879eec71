"""A program that is attached to (hostile.c, throwing.cpp), and the watch that does it."""
import glob
import json
import os
import random
import re
import signal
import subprocess

from mallowtest import MALLOW, program, wait_until

HOSTILE = program("attach/attach-hostile")
PLUGIN = program("attach/libattach-plugin.so")


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def present(look, paths):
    """What is there yet: threads and descriptors come and go."""
    for path in paths:
        try:
            yield look(path)
        except (FileNotFoundError, ProcessLookupError):
            pass


class Victim:
    def __init__(self, *modes, command=None, **more):
        self.modes = [m for m in modes if m != "writing"]
        self.process = subprocess.Popen(command or [HOSTILE, PLUGIN, *modes], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, **more)
        self.pid = self.process.pid
        self.line = self.process.stdout.readline
        assert self.line() == "ready\n"

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said before it ended is read
        answer = self.line()
        assert answer and "WRONG" not in answer, answer or f"ended: {self.process.wait()}"
        return answer.strip()

    def last_words(self):
        """Whether it runs, and what it wrote that nobody has read: for a message."""
        ended, fd = self.process.poll(), self.process.stdout.fileno()
        os.set_blocking(fd, False)
        try:
            text = os.read(fd, 65536).decode(errors="replace")
        except BlockingIOError:
            text = ""
        os.set_blocking(fd, True)
        return f"the program {'runs' if ended is None else f'ended with {ended}'}; it wrote {text!r}"

    def counts(self):
        return {k: int(v) for k, v in (word.split("=") for word in self.ask("count").split())}

    def goes_on(self):
        """Every mode has done something since this was called."""
        before = self.counts()
        def still():
            return [m for m, n in self.counts().items() if m in self.modes and n <= before[m]]
        try:
            wait_until(lambda: not still())
        except AssertionError:
            raise AssertionError(f"nothing more of {still()}; {self.threads()}") from None

    def threads(self):
        """What each thread does, for a message."""
        def look(task):
            facts = re.findall(r"(?:State|TracerPid|SigPnd|SigBlk):\t(\S+)", text_of(f"{task}/status"))
            return f"{os.path.basename(task)}: {' '.join(facts)} in {text_of(f'{task}/syscall').strip()}"
        return "; ".join(present(look, glob.glob(f"/proc/{self.pid}/task/*")))

    def text(self, name):
        with open(f"/proc/{self.pid}/{name}") as f:
            return f.read()

    def traces(self):
        """What attaching may change of the process and must not: a dict of facts."""
        statuses = "".join(present(text_of, glob.glob(f"/proc/{self.pid}/task/*/status")))
        blocked = sorted(set(re.findall(r"SigBlk:\t(\w+)", statuses)))
        return {"fds": sorted(present(os.readlink, glob.glob(f"/proc/{self.pid}/fd/*"))),
                # of any thread: a tracer that was killed leaves them one by one
                "tracer": max(re.findall(r"TracerPid:\t(\d+)", statuses), key=int),
                "blocked": blocked,
                "shared": [l.split(None, 5)[5].strip() for l in self.text("maps").splitlines() if "/dev/shm/" in l],
                "files": glob.glob(f"/dev/shm/mallow-watch-{self.pid}-*")}

    def settled(self):
        """The same when no thread is in the middle of a fork or of starting another, which block signals, or
        has the plugin or a file of /proc open: glibc's malloc reads some."""
        def still():
            t = self.traces()
            passing = [f for f in t["fds"] if f == PLUGIN or f.startswith("/proc/")]
            return t if t["blocked"] == ["0" * 16] and not passing else None
        return wait_until(still)

    def ours(self):
        """How many mappings are the library's, or memory that it made."""
        return sum("libmallow" in line for line in self.text("maps").splitlines())

    def end(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert rest.endswith("bye\n"), rest
        assert self.process.wait(600) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(600)
        self.process.stdout.close()


def leave_in_time(said):
    """A signal ends a command within two seconds: on a busy machine a process may not be left by then, which is said. It is left
    now. (Whether there was one, and what else was said)."""
    lines = said.splitlines(keepends=True)
    late = [l for l in lines if re.search(r"until 'mallow watch --detach \d+'", l)]
    for line in late:
        status, _, err = mallow("watch", "--detach", re.search(r"--detach (\d+)'", line).group(1))
        assert status == 0, err
    return bool(late), "".join(l for l in lines if l not in late)


class Attached:
    """`mallow watch -p`, from the moment on at which the process is attached to."""

    def __init__(self, victim, *args):
        self.process = subprocess.Popen([MALLOW, "watch", "--json", "-p", str(victim.pid), *args],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said = self.process.stderr.readline()
        assert "attached to process" in self.said, self.said + self.process.stderr.read()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=600)
        left, err = leave_in_time(err)
        assert self.process.returncode == left and not err, (self.process.returncode, err)
        return [json.loads(line) for line in out.splitlines()]

    def kill(self):
        self.process.kill()
        self.process.communicate()


def mallow(*args, **more):
    p = subprocess.run([MALLOW, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, **more)
    return p.returncode, p.stdout, p.stderr


def children_of(pid):
    try:
        return [int(n) for n in text_of(f"/proc/{pid}/task/{pid}/children").split()]
    except FileNotFoundError:
        return []


def killed_at_any_moment(victim, times):
    """kill -9 of a watch that attaches or detaches, and of the process that it borrows the thread with. The
    program goes on each time, unblocked and untraced."""
    for _ in range(times):
        attached = bool(victim.traces()["shared"])
        watch = subprocess.Popen([MALLOW, "watch", "-q", "--detach" if attached else "-p", str(victim.pid)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # it has begun, or is done already
        wait_until(lambda: children_of(watch.pid) or watch.poll() is not None or bool(victim.traces()["shared"]) != attached)
        for _ in range(random.randrange(1000)):
            text_of(f"/proc/{victim.pid}/maps")
        for worker in children_of(watch.pid):
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass
        watch.kill()
        watch.wait()
        wait_until(lambda: victim.traces()["tracer"] == "0")
        victim.settled()
        victim.goes_on()
