#!/usr/bin/python3
"""Real programs under a preload library that compares every 16th stack with backtrace().

usage: oracle.py LIBRARY SOURCE.c
"""
import os
import shutil
import subprocess
import sys
import tempfile

PYTHON = """
import json, re, decimal, argparse
text = json.dumps([re.sub('a', 'b', str(i)) for i in range(20000)])
print(len(text), len(json.loads(text)), decimal.Decimal(2).sqrt())
"""


def main():
    library, source = (os.path.abspath(p) for p in sys.argv[1:3])
    include = os.path.dirname(os.path.dirname(os.path.dirname(source)))  # src/
    programs = {
        "python3": ["/usr/bin/python3", "-c", PYTHON],
        "cc1": ["gcc", "-O2", "-D_GNU_SOURCE", "-I" + include, "-c", source, "-o", "/dev/null"],
        "clang": ["clang", "-O2", "-D_GNU_SOURCE", "-I" + include, "-c", source, "-o", "/dev/null"],
        "git": ["git", "--version"],
    }
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out")
        env = dict(os.environ, LD_PRELOAD=library, ORACLE_OUT=out, PYTHONMALLOC="malloc")
        for name, command in programs.items():
            if not shutil.which(command[0]):
                print(f"{name}: not here")
                continue
            if subprocess.run(command, env=env, stdout=subprocess.DEVNULL).returncode != 0:
                print(f"{name}: failed")
                failed = True
        seen = set()
        with open(out, encoding="utf-8") as lines:
            for line in lines:
                name, *numbers = line.split()
                calls, compared, wrong, truncated, nodes = map(int, numbers)
                print(f"{name}: {calls} calls, {compared} compared, {wrong} wrong, "
                      f"{truncated} truncated, {nodes} nodes")
                failed |= wrong > 0 or truncated > 0 or compared < calls // 17
                if compared > 5000:
                    seen.add(name)
    if not {"python3", "cc1"} <= seen:
        print("too few stacks compared to show anything")
        failed = True
    return failed


sys.exit(main())
