#!/usr/bin/env python3
"""How long after a program's end `mallow record` returns, with the recording sealed.

usage: returns.py BUILD [MILLIONS [CHURN]]

The program is bench/churn, or another build's at CHURN: one thread, full stacks, 100 million calls unless asked for
others. Prints how long it ran, the processor time of the program and, by its end, of mallow (mostly for sealing beside
it), and the time until mallow returned. Sealing beside a program gives way: on a busy machine little is done before the
end."""
import os
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")


def stat(pid):
    """State and processor time, or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return fields[0], (int(fields[11]) + int(fields[12])) / TICK


def child_of(pid):
    while True:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = f.read().split()
        if children:
            return int(children[0])
        time.sleep(0.001)


def main():
    build, millions = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    churn = sys.argv[3] if len(sys.argv) > 3 else os.path.join(build, "bench", "churn")
    with tempfile.TemporaryDirectory(dir=".") as work:
        began = time.monotonic()
        mallow = subprocess.Popen([os.path.join(build, "mallow"), "record", "-q", "-o", os.path.join(work, "churn.mlw"), "--",
                                   churn, str(millions * 500000), "2000"])
        program, used = child_of(mallow.pid), 0
        while (now := stat(program)) and now[0] != "Z":
            used = now[1]
            time.sleep(0.002)
        ended, beside = time.monotonic(), stat(mallow.pid)[1]
        if mallow.wait():
            sys.exit("returns: the program failed")
        returned = time.monotonic()
        print(f"{millions} million calls, load {os.getloadavg()[0]:.0f} on {len(os.sched_getaffinity(0))} processors")
        print(f"the program ran for {ended - began:.2f} s ({used:.2f} s of processor time; mallow {beside:.2f} s)")
        print(f"mallow returned {returned - ended:.2f} s after its end")


if __name__ == "__main__":
    main()
