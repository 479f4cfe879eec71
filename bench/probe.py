#!/usr/bin/env python3
"""What `mallow probe` costs, beside bpftrace and bcc's memleak where they are installed: ratios in one run.

usage: probe.py BUILD [--rounds N]

Needs root. Each round runs every variant once, in an order that changes; figures are medians, of the CPU time
that the traced loop itself takes (bench/workload/hits.c), of a whole `find`, or of the wall clock for attaching
and detaching. Exits 0 whatever the figures are, 1 when something could not be run."""
import argparse
import glob
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def run(command, **more):
    out = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **more)
    if out.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {out.returncode}: {out.stderr[-500:]}")
    return out.stdout


def number(text):
    """The figure that hits prints stands alone on its line."""
    for line in text.splitlines():
        try:
            return float(line)
        except ValueError:
            continue
    raise RuntimeError(f"no figure in {text[-300:]!r}")


def cpu_of_find(*before):
    """User and system seconds of the find alone, as bash's times tells."""
    out = run([*before, "/bin/bash", "-c", "find /usr > /dev/null; times"])
    spans = out.splitlines()[-1].split()
    return sum(float(span.split("m")[0]) * 60 + float(span.split("m")[1].rstrip("s")) for span in spans)


def headers(folder):
    """Where bcc finds a kernel's headers: those of the running one (None: it looks there by itself), else any
    installed ones put together, because memleak uses nothing of the kernel's own. Raises when there are none."""
    release = os.uname().release
    if os.path.isdir(f"/lib/modules/{release}/build/include"):
        return None
    for own in sorted(glob.glob("/usr/src/linux-headers-*/include/generated"), reverse=True):
        own = own.removesuffix("/include/generated")
        common = own.removesuffix("-" + own.rsplit("-", 1)[1]) + "-common"  # Debian's other half
        for source in (common, own):
            for part in ("include", "arch/x86/include"):
                if os.path.isdir(os.path.join(source, part)):
                    os.makedirs(os.path.join(folder, part), exist_ok=True)
                    subprocess.run(["cp", "-rsf", os.path.join(source, part, "."), os.path.join(folder, part)],
                                   check=True)
        return folder
    raise FileNotFoundError("no kernel's headers are installed (apt-get install linux-headers-amd64)")


def beside(tracer, program, **environment):
    """What the program prints while a tracer, attached to it, looks at it: [PID] stands for its process."""
    with subprocess.Popen([*program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        command = [word.replace("[PID]", str(p.pid)) for word in tracer]
        with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
                command, stdout=said, stderr=said, env={**os.environ, **environment}) as t:
            for _ in range(300):  # attached: it waits for events
                time.sleep(0.1)
                if t.poll() is not None:
                    break
                with open(f"/proc/{t.pid}/syscall", encoding="ascii") as f:
                    if f.read().split()[0] in ("7", "35", "230", "232", "270", "271", "281"):  # poll, sleep, epoll
                        break
            time.sleep(0.5)
            out = p.communicate("g")[0] if t.poll() is None else (p.kill(), None)[1]
            if t.poll() is None:
                t.send_signal(signal.SIGINT)
            t.wait(timeout=60)
            said.seek(0)
            if out is None:
                raise RuntimeError(f"{' '.join(command)}: status {t.returncode}: {said.read()[-1500:]}")
    return out


# What memleak does, by bpftrace: pairs each block with its release, by call stack.
PAIRED = """uprobe:LIBC:malloc { @size[tid] = arg0; }
uretprobe:LIBC:malloc /@size[tid]/ { @bytes[retval] = @size[tid]; @stack[retval] = ustack; delete(@size[tid]); }
uprobe:LIBC:free /@bytes[arg0]/ { delete(@bytes[arg0]); delete(@stack[arg0]); }""".replace("LIBC", LIBC)


def wall(command):
    start = time.monotonic()
    run(command)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("probes: left out, because programs are loaded into the kernel, which needs root")
        return 0
    with tempfile.TemporaryDirectory(prefix="mallow-bench-") as folder:
        return measure(options, folder)


def measure(options, folder):
    mallow = os.path.join(options.build, "mallow")
    hits = os.path.join(options.build, "bench", "hits")
    malloc, fault = [hits, "malloc", "40000", "16"], [hits, "fault", "20000", "16"]

    def probe(kind, *arguments):
        return [mallow, "probe", kind, "-o", "/dev/null", *arguments, "--"]

    def trace(script, program):
        return ["bpftrace", "-q", "-e", script, "-c", " ".join(program)]

    variants = {
        "malloc plain": lambda: number(run(malloc)),
        "malloc sizes": lambda: number(run(probe("sizes", "--no-follow", "--function", "malloc") + malloc)),
        "malloc sizes, children": lambda: number(run(probe("sizes", "--function", "malloc") + malloc)),
        "malloc sizes by stack": lambda: number(run(probe("sizes", "--no-follow", "--function", "malloc", "--by",
                                                          "stack") + malloc)),
        "fault plain": lambda: number(run(fault)),
        "fault counted": lambda: number(run(probe("faults", "--by", "process") + fault)),
        "fault by stack": lambda: number(run(probe("faults", "--by", "process,stack") + fault)),
        "find plain": cpu_of_find,
        "find slab": lambda: cpu_of_find(*probe("slab")),
        "attach 1 function": lambda: wall(probe("calls", "--function", "malloc", "--lib", LIBC) + ["/bin/true"]),
        "attach all of libc": lambda: wall(probe("calls", "--lib", LIBC) + ["/bin/true"]),
        "attach all of libc, no children": lambda: wall(probe("calls", "--no-follow", "--lib", LIBC) + ["/bin/true"]),
    }
    left_out = []
    tried = subprocess.run([mallow, "record", "-q", "-o", os.path.join(folder, "r.mlw"), "--how", "probe", "-p", str(2 ** 31 - 2)],
                           capture_output=True, text=True, check=False)
    if "cannot be recorded" in tried.stderr:
        left_out.append("malloc and free paired: this mallow does not record running processes (record -p)")
    else:
        record = [mallow, "record", "-q", "-o", os.path.join(folder, "[PID].mlw"), "--how", "probe", "-p", "[PID]"]
        variants["malloc paired, record -p"] = lambda: number(beside(record, malloc))
        variants["malloc paired, no children"] = lambda: number(beside([*record, "--no-follow"], malloc))
    memleak = shutil.which("memleak-bpfcc")
    try:
        source = headers(os.path.join(folder, "headers")) if memleak else None
        if memleak:
            where = {"BCC_KERNEL_SOURCE": source} if source else {}
            variants["malloc paired, memleak"] = lambda: number(beside([memleak, "-p", "[PID]", "3600"], malloc,
                                                                       **where))
        else:
            left_out.append("malloc and free paired, memleak: not installed (apt-get install bpfcc-tools)")
    except OSError as missing:
        left_out.append(f"malloc and free paired, memleak: {missing}")
    if os.path.exists(JEMALLOC):
        variants["attach all of jemalloc"] = lambda: wall(probe("calls", "--lib", JEMALLOC) + ["/bin/true"])
    if shutil.which("bpftrace"):
        at = f"uprobe:{LIBC}:malloc"
        variants["malloc bpftrace, empty"] = lambda: number(run(trace(at + " { }", malloc)))
        variants["malloc bpftrace hist"] = lambda: number(run(trace(at + " { @ = hist(arg0); }", malloc)))
        variants["malloc paired, bpftrace"] = lambda: number(beside(["bpftrace", "-q", "-e", PAIRED, "-p", "[PID]"],
                                                                    malloc))
        variants["malloc bpftrace hist by ustack"] = lambda: number(
            run(trace(at + " { @[ustack] = hist(arg0); }", malloc)))
    figures = {name: [] for name in variants}
    broken = {}
    for number_of_round in range(options.rounds):
        order = list(variants)
        random.Random(number_of_round).shuffle(order)
        for name in order:
            for attempt in range(3 if name not in broken else 0):
                try:
                    figures[name].append(variants[name]())
                    break
                except (RuntimeError, subprocess.TimeoutExpired, OSError) as trouble:
                    # The kernel refuses bcc's probes now and then (EINVAL) while others are being detached.
                    if attempt == 2:
                        broken[name] = trouble
    median = {name: statistics.median(v) for name, v in figures.items() if v}

    def added(name, plain):
        return median[name] - median[plain]

    print(f"medians of {options.rounds} rounds; ns of CPU time each, seconds where it says so\n")
    for name in variants:
        if name in median:
            print(f"{name:32} {median[name]:10.2f}" + (" s" if name.startswith(("find", "attach")) else " ns"))
    print()
    ratios = [
        ("sizes, a hit: to an empty uprobe of bpftrace", 1.15, "malloc sizes", "malloc bpftrace, empty",
         "malloc plain"),
        ("sizes, a hit: to bpftrace's hist", 1.0, "malloc sizes", "malloc bpftrace hist", "malloc plain"),
        ("by stack, a hit: to bpftrace's ustack", 1.0, "malloc sizes by stack", "malloc bpftrace hist by ustack",
         "malloc plain"),
        ("malloc and free paired: to bcc's memleak", 0.25, "malloc paired, record -p", "malloc paired, memleak",
         "malloc plain"),
        ("the same without children, as memleak looks", 0.25, "malloc paired, no children", "malloc paired, memleak",
         "malloc plain"),
        ("malloc and free paired: to bpftrace doing so", 0.25, "malloc paired, record -p", "malloc paired, bpftrace",
         "malloc plain"),
        ("faults with stacks: to a plain fault", 1.7, "fault by stack", "fault plain", None),
        ("slab on find: to a plain find", 1.2, "find slab", "find plain", None),
    ]
    for title, bar, ours, theirs, plain in ratios:
        if ours in median and theirs in median:
            ratio = (added(ours, plain) / added(theirs, plain) if plain else median[ours] / median[theirs])
            print(f"{title:48} {ratio:6.2f}   bar {bar:.2f}   {'met' if ratio <= bar else 'NOT met'}")
    for title, bar, name in (("all of jemalloc, attach and detach", 0.2, "attach all of jemalloc"),
                             ("all of libc, attach and detach", 2.0, "attach all of libc"),
                             ("all of libc, the program alone", 2.0, "attach all of libc, no children")):
        if name in median:
            seconds = median[name] - median["attach 1 function"]
            print(f"{title:48} {seconds:5.2f} s  bar {bar:.1f} s  {'met' if seconds <= bar else 'NOT met'}")
    for line in left_out:
        print(f"left out: {line}")
    for name, trouble in broken.items():
        print(f"{name}: could not be run: {trouble}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
