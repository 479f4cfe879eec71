"""Runs a file of tests: python3 -m mallowtest FILE [--write] [OPTION OF unittest...]

A file that ends in a main of its own is run as it is. --write makes the golden files anew that tests compare with."""
import importlib
import os
import runpy
import sys
import unittest

from mallowtest import golden


def run(file, arguments):
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    sys.argv = [file, *arguments]
    with open(file, encoding="utf-8") as f:
        own = "\nif __name__ == " in f.read()
    if own:
        runpy.run_path(file, run_name="__main__")
        return
    if "--write" in sys.argv:
        sys.argv.remove("--write")
        golden.WRITE = True
    ran = unittest.main(importlib.import_module(os.path.basename(file)[:-3]), verbosity=2, exit=False).result
    if not ran.testsRun and not ran.skipped:
        sys.exit(f"{file} has no such test")
    sys.exit(not ran.wasSuccessful())


run(sys.argv[1], sys.argv[2:])
