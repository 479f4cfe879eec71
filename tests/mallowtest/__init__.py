"""What the tests in Python share. A whole test, tests/truth/test_twice.py:

    \"\"\"A program that allocates once is told of as it is.\"\"\"
    from mallowtest import Case, victim


    class Twice(Case):
        def test_hello(self):
            p = self.process(self.recorded([victim("hello")], status=33), "hello")  # runs, records, reports
            self.calls(p, malloc=2, free=1)  # what the victim does: one block of its own, one of stdio

and its row in tests/truth/meson.build:

    'truth-twice': {},

The row's name says the suite and the file; tests/meson.build has the keys that a row may have. A program of a test stands beside it, in
the list of programs of its area, and program("truth/NAME") finds it. __main__.py runs the file. By hand, on the build in build/:

    PYTHONPATH=tests python3 -m mallowtest tests/truth/test_twice.py -k hello

Standard library only. Each module says what it is for:

    places      where the build, the command, its libraries, victims and other programs are
    running     to run programs and mallow, and to wait for a state
    case        a test that records and reports, and the second counter
    ports, memorygroup, hugepages, libcfacts   what tests need of the machine
    golden      texts that must be as a file has them
    chunks, read_mallow, segment               second readers of the formats
    fakes, mutate                              false processes, damaged files
"""
from mallowtest.case import Case, Oracle, Test, function_names, main
from mallowtest.places import (ALLOCATORS, BUILD, LIBRARY, LONG, MALLOW, ORACLE, REPLAYER, ROOT, SANITIZED, VICTIMS, WATCH_LIBRARY,
                               library, path, preload, program, pythons, source, victim)
from mallowtest.running import (TIMEOUT, Run, has_ended, mallow, needs_strace, record, report, run, slow_opens, status_of,
                                wait_until)

__all__ = ["ALLOCATORS", "BUILD", "Case", "LIBRARY", "LONG", "MALLOW", "ORACLE", "Oracle", "REPLAYER", "ROOT", "Run", "SANITIZED",
           "TIMEOUT", "Test", "VICTIMS", "WATCH_LIBRARY", "function_names", "has_ended", "library", "main", "mallow", "needs_strace", "path",
           "preload", "program", "pythons", "record", "report", "run", "slow_opens", "source", "status_of", "victim", "wait_until"]
