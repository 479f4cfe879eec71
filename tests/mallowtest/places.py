"""Where things are. Environment (set by meson): BUILD_ROOT, the directory of the build; MALLOW, the command, when another build's is
tested; SANITIZE, what the build is sanitized with."""
import atexit
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the sources
BUILD = os.path.abspath(os.environ.get("BUILD_ROOT", os.path.join(ROOT, "build")))
MALLOW = os.path.abspath(os.environ.get("MALLOW", os.path.join(BUILD, "mallow")))
REPLAYER = os.path.join(os.path.dirname(MALLOW), "mallow-replay")
VICTIMS = os.path.join(BUILD, "tests", "victims")
ORACLE = os.path.join(VICTIMS, "liboracle.so")
SANITIZED = os.environ.get("SANITIZE", "none") != "none"
LONG = bool(os.environ.get("MALLOW_LONG"))  # set by `make check-long`
# The other allocators by the files that they have in every release of the systems: mimalloc is 2 or 3.
ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.[23]"}
_folder = []


def path(*names):
    """In a folder of this test, which goes with it."""
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="mallow-test-"))
        atexit.register(_remove, _folder[0], os.getpid())
    return os.path.join(_folder[0], *names)


def _remove(folder, maker):
    if os.getpid() == maker:  # not a child that forgot to leave by os._exit
        shutil.rmtree(folder, True)


def preload(name):
    """The path of a library of ours that goes into programs: "record", "watch", "arenas", "attach"."""
    return os.path.join(os.path.dirname(MALLOW), "lib", f"libmallow-{name}.so")


LIBRARY, WATCH_LIBRARY = preload("record"), preload("watch")


def program(name):
    """The path of a built program of the tests, by area and name: "diff/diff-leaky"."""
    found = os.path.join(BUILD, "tests", name)
    assert os.path.exists(found), f"{found} was not built"
    return found


def library(name):
    """The path of a library of the system."""
    found = glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/lib/*/{name}")
    if not found:
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {name} is not installed")
    return found[0]


def victim(name):
    path = os.path.join(VICTIMS, name)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"SKIPPED, LOUDLY: {name} was not built (no compiler for it here?)")
    return path


def source(name):
    """Of a victim."""
    return os.path.join(ROOT, "tests", "victims", name)


def pythons():
    """Commands of Python 3.12 or later that write a perf map."""
    found = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        versions = os.path.join(root, "versions")
        if root and os.path.isdir(versions):
            found += [os.path.join(versions, v, "bin", "python3") for v in sorted(os.listdir(versions))
                      if re.match(r"3\.(1[2-9])\.", v)]
    check = "import sys; sys.exit(not (sys.version_info >= (3, 12) and sys.is_stack_trampoline_active()))"
    return [p for p in found if p and os.path.exists(p) and
            subprocess.run([p, "-X", "perf", "-c", check], capture_output=True).returncode == 0]
