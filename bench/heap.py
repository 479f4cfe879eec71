#!/usr/bin/env python3
"""What `mallow heap` takes for a heap of many blocks: time of each stage, memory, and that its figures are right.

usage: heap.py BUILD [table|list|shuffled] [BLOCKS] [--memory SIZE] [--limit SIZE] [--stopped] [--rounds N]

Starts a program with so many blocks (default: table 10000000; bench/workload/blocks.c), looks at it, and compares what is
found with what the program made. --memory is the option of `mallow heap`. --limit puts it into a memory control group of
its own (as root), which the kernel enforces: nobody is killed if the bound of --memory holds. --stopped: the process
stands still while it is read, as where no copy can be made."""
import argparse
import os
import re
import subprocess
import sys

VERSION_1 = "/sys/fs/cgroup/memory"


def size(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


class Group:
    """A control group with a limit of memory; nothing of it is left."""

    def __init__(self, limit):
        old = os.path.isdir(VERSION_1)
        self.path = os.path.join(VERSION_1 if old else "/sys/fs/cgroup", f"mallow-bench-heap-{os.getpid()}")
        os.mkdir(self.path)
        self.peak = os.path.join(self.path, "memory.max_usage_in_bytes" if old else "memory.peak")
        with open(os.path.join(self.path, "memory.limit_in_bytes" if old else "memory.max"), "w", encoding="ascii") as f:
            f.write(str(limit))

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as f:
            f.write(str(os.getpid()))

    def leave(self):
        with open(self.peak, encoding="ascii") as f:
            peak = int(f.read())
        os.rmdir(self.path)
        return peak


def look(build, pid, args):
    command = [os.path.join(build, "bench", "heap_stages"), str(pid), "0", str(args.memory or 0), str(int(args.stopped))]
    group = Group(args.limit) if args.limit else None
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    p = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter if group else None, check=False)
    print(p.stdout, end="")
    if group:
        print(f"the control group held at most {group.leave() >> 20} MB of {args.limit >> 20} MB")
    if p.returncode:
        sys.exit(f"heap_stages: status {p.returncode}")
    return p.stdout


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("kind", nargs="?", default="table", choices=("table", "list", "shuffled"))
    parser.add_argument("blocks", nargs="?", type=int, default=10000000)
    parser.add_argument("--memory", type=size)
    parser.add_argument("--limit", type=size)
    parser.add_argument("--stopped", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    leaked = 2 * min(args.blocks // 1000, 500)
    with subprocess.Popen([os.path.join(args.build, "bench", "blocks"), args.kind, str(args.blocks)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as victim:
        try:
            made = int(re.search(r"ready (\d+)", victim.stdout.readline())[1])
            for _ in range(args.rounds):
                said = look(args.build, victim.pid, args)
                blocks, unreachable = (int(re.search(pattern, said)[1])
                                       for pattern in (r"(\d+) blocks", r"unreachable (\d+)"))
                # The output's buffer, the table, and a leak whose address is left in a register.
                if "verified 1" not in said or not 0 <= blocks - made - leaked <= 2 or not 0 <= leaked - unreachable <= 2:
                    sys.exit(f"wrong: the program made {made} blocks and leaked {leaked} more")
                print("as the program says")
        finally:
            victim.kill()
            victim.wait()


if __name__ == "__main__":
    main()
