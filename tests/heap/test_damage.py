"""Damaged cores: the stored corpus, and copies of it with words overwritten, under the sanitizers. It proves that reading one ends without a
crash or a hang, and that what is read is whole: the program aborts else (fuzz_core.c, fuzz_saved.c).
Usage: test_damage.py PROGRAM ROUNDS. MALLOW_LONG=1: five times as many."""
import glob
import lzma
import os
import subprocess
import sys
import tempfile

from mallowtest import LONG, program

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    fuzz, rounds = program("heap/" + sys.argv[1]), int(sys.argv[2]) * (5 if LONG else 1)
    with tempfile.TemporaryDirectory() as folder:
        cores = []
        for packed in sorted(glob.glob(os.path.join(HERE, "corpus", "*.xz"))):
            path = os.path.join(folder, os.path.basename(packed)[:-3])
            with lzma.open(packed) as source, open(path, "wb") as to:
                to.write(source.read())
            cores.append(path)
        assert cores, "no corpus"
        done = subprocess.run([fuzz, *cores, str(rounds), "1"], check=False)
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
