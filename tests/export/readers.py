"""Readers of foreign formats that are not ours, and what is done when one of them is missing."""
import os
import shutil
import subprocess
import sys


def need(program, package):
    """Ends the test as skipped when the program is not installed."""
    if not shutil.which(program):
        print(f"SKIPPED: {program} is not installed (package {package}); nothing was tested")
        sys.exit(77)


def pprof(*arguments):
    """What `go tool pprof` says."""
    env = dict(os.environ, HOME=os.environ.get("HOME", "/tmp"), PPROF_BINARY_PATH="/nonexistent")
    done = subprocess.run(["go", "tool", "pprof", *arguments], capture_output=True, text=True, env=env,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
