"""Each header compiles alone, and the public one in C99 and C++ as well. Usage: headers.py SOURCE_ROOT"""
import concurrent.futures
import os
import shutil
import subprocess
import sys

CHECKS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def compiles(root, header, *options):
    """The compiler's complaints about a file that only includes the header, twice."""
    text = f'#include "{header}"\n' * 2
    out = subprocess.run([*options, *CHECKS, "-I", os.path.join(root, "src"), "-I", os.path.join(root, "include"),
                          "-"], input=text, capture_output=True, text=True, check=False)
    return out.stderr if out.returncode else ""


def main():
    root = sys.argv[1]
    c = ["cc", "-x", "c", "-std=gnu11", "-D_GNU_SOURCE"]
    assert compiles(root, "no/such/header.h", *c), "the check cannot fail"
    jobs = []
    for folder, _, names in os.walk(os.path.join(root, "src")):
        jobs += [(os.path.relpath(os.path.join(folder, n), os.path.join(root, "src")), c)
                 for n in names if n.endswith(".h")]
    jobs.append(("mallow.h", ["cc", "-x", "c", "-std=c99", "-pedantic"]))
    if shutil.which("c++"):
        jobs.append(("mallow.h", ["c++", "-x", "c++", "-std=c++11", "-pedantic"]))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: (job[0], compiles(root, job[0], *job[1])), jobs))
    bad = [(header, text) for header, text in results if text]
    for header, text in bad:
        print(f"{header} does not compile alone:\n{text}")
    print(f"headers: {len(bad)} of {len(jobs)} do not compile alone")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
