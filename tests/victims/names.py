# names.py - memory that a Python developer knows by the function that asked for it.
# Truth: tests/truth/test_names.py finds the lines by the words behind "SITE".
import json
import os
import sys

keep = []


class Parser:
    """def row(self): is no definition of it."""

    def rows(self, n):
        for i in range(n):
            keep.append(self.row(i))

    def row(self, i):  # SITE Parser.row
        return bytearray(30000 + i)


def outer():
    def inner(n):  # SITE outer.<locals>.inner
        return bytes(n)
    return [inner(50000) for _ in range(10)]


def through_library():  # SITE through_library
    return json.loads("[" + ",".join(str(i) for i in range(100000, 130000)) + "]")


def twice():
    return bytes(70000)


keep.append(twice())


def twice():
    return bytes(80000)


keep.append(twice())
Parser().rows(20)
keep.append(outer())
keep.append(through_library())
if "STAY" in os.environ:
    sys.stdin.read(1)
