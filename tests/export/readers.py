"""Readers of foreign formats that are not ours, what is done when one of them is missing, and the
recordings that the tests export."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from mallowtest import MALLOW, program



def need(program, package):
    """Ends the test as skipped when the program is not installed."""
    if not shutil.which(program):
        print(f"SKIPPED: {program} is not installed (package {package}); nothing was tested")
        sys.exit(77)


def run(*command, status=0, **more):
    """What a program prints."""
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, **more)
    text = done.stderr.decode(errors="replace")
    assert done.returncode == status, f"{command}: status {done.returncode}\n{text[-2000:]}"
    return done.stdout.decode("utf-8", errors="strict") if status == 0 else text


def pprof(*arguments):
    """What `go tool pprof` says."""
    env = dict(os.environ, HOME=os.environ.get("HOME", "/tmp"), PPROF_BINARY_PATH="/nonexistent")
    done = subprocess.run(["go", "tool", "pprof", *arguments], capture_output=True, text=True, env=env,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Recordings:
    """Recordings of the victim, and what report says of them."""

    def __init__(self):
        victim = program("export/export-victim")
        self.folder = tempfile.TemporaryDirectory(prefix="mallow-export-")
        self.single = self.record("single", victim)
        self.forked = self.record("forked", victim, "fork")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def record(self, name, *program):
        path = self.path(name + ".mlw")
        run(MALLOW, "record", "-q", "-o", path, "--", *program)
        return path

    def report(self, recording, *options):
        return json.loads(run(MALLOW, "report", "--json", "-n", "0", *options, recording))

    def export(self, recording, form, *options, output=None):
        """Path of the exported file."""
        output = output or self.path(os.path.basename(recording) + "." + form)
        run(MALLOW, "export", "--format", form, "-o", output, *options, recording)
        return output

    def totals(self, recording, *options):
        """Sums over the processes, by the names that the formats use."""
        sums = {}
        for p in self.report(recording, *options)["processes"]:
            for key in ("allocations", "requested_bytes", "peak_live_bytes", "peak_live_blocks", "end_live_bytes",
                        "end_live_blocks", "temporary_allocations", "events", "unknown_frees", "null_frees"):
                sums[key] = sums.get(key, 0) + p[key]
            for site in p["sites"]:
                for key in ("calls", "allocated_bytes", "peak_bytes", "peak_blocks", "end_live_bytes",
                            "end_live_blocks", "temporary"):
                    sums["sites_" + key] = sums.get("sites_" + key, 0) + site[key]
        return sums
