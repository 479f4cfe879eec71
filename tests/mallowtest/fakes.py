"""A process that only says that it is watched (fake.c), for tests of the reader. Built as watch/fake."""
import contextlib
import json
import os
import signal
import subprocess

from mallowtest.places import MALLOW, program

PERIOD = 524288


class Fake:
    def __init__(self, *args):
        self.process = subprocess.Popen([program("watch/fake"), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline())

    def tell(self, *lines):
        """Each is done when this returns; what the last one said."""
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
            assert answer.endswith("ok"), answer
        return answer

    def shown(self):
        return [int(n) for n in self.tell("show").split()[:-1]]

    def end(self, how=None):
        if how:
            self.process.send_signal(how)
        elif self.process.poll() is None:
            self.process.stdin.close()
        self.process.wait(600)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(600)
        for name in os.listdir("/dev/shm"):
            if name.startswith(f"mallow-watch-{self.pid}-"):
                with contextlib.suppress(FileNotFoundError):  # a watch that ends removes it, too
                    os.unlink("/dev/shm/" + name)


class Watch:
    """mallow watch --json with its lines as they come."""

    def __init__(self, *args, command="--json", **more):
        self.process = subprocess.Popen([MALLOW, "watch", command, *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **more)

    def next(self, kind):
        """The next object of this kind; others are passed over."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise EOFError(f"no '{kind}' came: {self.process.stderr.read()}")
            found = json.loads(line)
            assert found["schema"] == 1
            if found["kind"] == kind:
                return found

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """The rest, after it was asked to stop; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        # not communicate: it would pass over what readline has read ahead
        out, err = self.process.stdout.read(), self.process.stderr.read()
        self.process.wait(600)
        return [json.loads(line) for line in out.splitlines()], err, self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(600)
        self.process.stdout.close()
        self.process.stderr.close()


def apart(script):
    """In front of a program: with mounts of its own, which are not seen from here, as the script makes them. In a chroot whose
    / is no mount point, /dev alone can be kept apart."""
    return ["unshare", "-m", "--propagation", "unchanged", "/bin/sh", "-c",
            "{ mount --make-rprivate / 2>/dev/null || mount --make-rprivate /dev; } && " + script, "sh"]


# As in a container, with its own /dev/shm.
CONTAINED = apart('mount -t tmpfs none /dev/shm && exec "$@"')
# The same behind a chroot: PLACE/root becomes the root.
CHROOTED = apart('root=$1/root && shift && mkdir "$root" && mount --rbind / "$root" && '
                 'mount -t tmpfs none "$root/dev/shm" && exec chroot "$root" "$@"')


def functions(site):
    return [f["function"] for f in site["frames"]]
