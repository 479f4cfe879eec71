#!/usr/bin/env python3
"""mallow's figures of one program under several versions of glibc and several of its settings, against the truth.

Usage: versions.py BUILD FOLDER [VERSION...]

BUILD: a build directory of mallow. FOLDER/VERSION: an unpacked package of that glibc (scripts/systems libc), or a link to a root that
has it (scripts/systems make; / for this system's own); without versions, all that are there. ledger.c runs through that version's loader and writes what is true: its own sums,
mallinfo2, malloc_info. Each line is one version under one setting; each column is "ok", "least" (a lower bound, as
documented), the difference, or "-": that cannot be had, with the reason below the table. The exit status is 1 when a figure is false.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from mallowtest.hugepages import huge_pages  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SETTINGS = [("none", ""), ("tcache_count", "tcache_count=2"), ("tcache_max", "tcache_max=600"), ("hugetlb=1", "hugetlb=1"),
            ("hugetlb=2", "hugetlb=2"), ("arena_max", "arena_max=1"), ("mxfast", "mxfast=64"), ("huge pages", "hugetlb=2"), ("large caches", "tcache_max=4000")]
COLUMNS = "heap arenas free caches live rss parts stacks tcache advice sized replay tune".split()
ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")
STACK_SLACK = 256 << 10  # what libc itself uses of five stacks, in pages
OWN_SLACK = 24 << 10  # of its arenas, what libc keeps for itself


class Glibc:
    def __init__(self, folder, name):
        self.name = name
        self.minor = int(name.split(".")[1])
        path = os.path.realpath(os.path.join(folder, name))
        at = sorted(glob.glob(path + "/lib/x86_64-linux-gnu/libc.so.6") + glob.glob(path + "/usr/lib/x86_64-linux-gnu/libc.so.6"))
        if not at:
            raise SystemExit(f"versions: {path} has no libc.so.6")
        self.libraries = os.path.dirname(at[0])
        self.loader = os.path.join(self.libraries, "ld-linux-x86-64.so.2")
        self.command = [self.loader, "--library-path", self.libraries]
        self.is_own = path == "/"

    def tunables(self):
        """The names that this version knows; None: it cannot list them."""
        done = subprocess.run([self.loader, "--list-tunables"], capture_output=True, text=True, check=False)
        return None if done.returncode else {line.split(":")[0] for line in done.stdout.splitlines()}


def read_truth(path):
    with open(path, encoding="ascii") as f:
        text = f.read()
    truth = {k: int(v) for k, v in re.findall(r"^(\w+) (\d+)$", text, re.M)}
    truth["arenas"] = text.count("<heap nr=")
    truth["system"] = int(re.findall(r'<system type="current" size="(\d+)"', text)[-1])
    return truth


class Table:
    def __init__(self, build, folder):
        self.mallow = os.path.join(build, "mallow")
        self.folder = folder
        self.work = tempfile.mkdtemp(prefix="mallow-versions-")
        self.victims = {}
        self.notes = []

    def victim(self, glibc):
        """Programs of glibc 2.34 and later do not load on earlier ones, nor do their libraries."""
        old = glibc.minor < 34
        if old not in self.victims:
            path = os.path.join(self.work, f"ledger{'-old' if old else ''}")
            how = ["-pthread"]
            if old:
                at = os.path.join(os.path.realpath(os.path.join(self.folder, glibc.name)), "usr/lib/x86_64-linux-gnu")
                how = ["-nostdlib", *(f"{at}/{n}" for n in ("Scrt1.o", "crti.o")),
                       *(f"{glibc.libraries}/{n}" for n in ("libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2")),
                       *(f"{at}/{n}" for n in ("libc_nonshared.a", "crtn.o"))]
            subprocess.run(["gcc", "-O1", "-g", "-fno-builtin", os.path.join(HERE, "ledger.c"), "-o", path, *how], check=True)
            self.victims[old] = path
        return self.victims[old]

    def start(self, before, glibc, settings, name):
        truth = os.path.join(self.work, name + ".truth")
        env = dict(os.environ, LC_ALL="C")
        if settings:
            env["GLIBC_TUNABLES"] = f"glibc.malloc.{settings}"
        process = subprocess.Popen([*before, *glibc.command, self.victim(glibc), truth], env=env, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"versions: the program does not run under glibc {glibc.name}")
        return process, read_truth(truth)

    def json(self, *argv):
        done = subprocess.run([self.mallow, *argv], capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise SystemExit(f"versions: mallow {' '.join(argv)}: {done.stderr}")
        return json.loads(done.stdout)

    def check_heap(self, glibc, settings, name, row):
        process, truth = self.start([], glibc, settings, name)
        try:
            heap = self.json("heap", "--json", str(process.pid))
        finally:
            process.communicate()
        if not heap["verified"]:
            row["heap"] = f"not verified: {heap['reason']}"
            return
        # libc has blocks of its own: a stream, and a table for each thread.
        own = heap["blocks"] - truth["blocks"]
        own_bytes = heap["used_bytes"] - truth["usable"]
        mapped = heap["mapped_blocks"], heap["mapped_bytes"]
        row["heap"] = "ok" if 0 <= own <= 16 and 0 <= own_bytes < 8192 and mapped == (
            truth["mapped_blocks"], truth["mapped_usable"]) else f"{own:+} blocks, {own_bytes:+} B, mapped {mapped}"
        system = sum(a["system_bytes"] for a in heap["arenas"])
        row["arenas"] = "ok" if (len(heap["arenas"]), system) == (truth["arenas"], truth["system"]) else (
            f"{len(heap['arenas'])} of {truth['arenas']}, {system - truth['system']:+} B")
        if "fordblks" not in truth:
            self.notes.append("free, caches: glibc has mallinfo2 since 2.33")
            return
        # Its chunks are both used and free to mallinfo2: those of fast bins are free, those of a thread's cache used.
        row["free"] = "ok" if heap["free_bytes"] == truth["fordblks"] else f"{heap['free_bytes'] - truth['fordblks']:+}"
        of_arenas = truth["usable"] - truth["mapped_usable"] + own_bytes + 8 * (heap["blocks"] - truth["mapped_blocks"])
        cached = truth["uordblks"] - of_arenas
        # A cache is a chunk itself, of each thread; and fences count as used.
        off = heap["cached_bytes"] - cached
        row["caches"] = "ok" if -OWN_SLACK < off <= 0 else f"{off:+}"

    def check_report(self, glibc, settings, name, row):
        output = os.path.join(self.work, name + ".mlw")
        process, truth = self.start([self.mallow, "record", "--no-follow", "-o", output, "--"], glibc, settings, name)
        time.sleep(2)  # resident memory is measured ten times a second while nothing changes
        process.communicate()
        report, = self.json("report", "--json", "--at", "end", output)["processes"]
        end, = report["explained"]
        parts = {p["name"]: p["bytes"] for p in end["parts"]}
        off = end["live_bytes"] - truth["requested"], end["live_blocks"] - truth["blocks"]
        row["live"] = "ok" if 0 <= off[0] < 16384 and 0 <= off[1] <= 24 else f"{off[0]:+} B, {off[1]:+} blocks"
        measured = truth["resident"]
        row["rss"] = "ok" if abs(end["rss_bytes"] - measured) < measured // 50 else f"{end['rss_bytes'] - measured:+}"
        whole = sum(parts.values())
        missing = {k: v for k, v in parts.items() if v < 0}
        row["parts"] = "ok" if whole == end["rss_bytes"] and not missing else f"{whole - end['rss_bytes']:+} {missing or ''}"
        off = parts.get("stacks", 0) - truth["stacks"]
        row["stacks"] = "ok" if 0 <= off < STACK_SLACK else f"{off:+}"
        if len(end["arenas"]) != truth["arenas"]:
            row["arenas"] = f"report: {len(end['arenas'])} of {truth['arenas']}"
        if "uordblks" in truth:
            own = end["live_bytes"] - truth["requested"]
            cached = truth["uordblks"] - (truth["usable"] - truth["mapped_usable"] + 8 * (truth["blocks"] - truth["mapped_blocks"])) - own
            off = parts.get("tcache", 0) - cached
            row["tcache"] = "ok" if abs(off) < OWN_SLACK else f"{off:+}"
            if "tcache" not in parts:
                row["tcache"] = "-"
                self.notes.append(f"{name}: the report leaves out what caches hold: of bins for many sizes it is not known")
            elif -cached // 4 < off <= -OWN_SLACK and "arena_max" in settings:
                row["tcache"] = "least"  # malloc moves chunks there that other threads freed into the arena
        known = glibc.tunables()
        if known is not None:
            said = set(re.findall(r"glibc\.malloc\.\w+", json.dumps(end["advice"])))
            wrong = sorted(said - known)
            if glibc.minor >= 43 and "glibc.malloc.mxfast" in said:
                wrong.append("mxfast, which has no effect")
            row["advice"] = "ok" if not wrong else ", ".join(wrong)
        return output

    def check_sized(self, glibc, name, row):
        """free_sized of the C library calls free by its public name: each release is recorded once, with another allocator as well."""
        program, wrong = os.path.join(self.work, "sized"), []
        if not os.path.exists(program):
            subprocess.run(["gcc", "-O1", "-fno-builtin", "-D_GNU_SOURCE", os.path.join(HERE, "sized.c"), "-o", program], check=True)
        here = glob.glob("/usr/lib/*-linux-gnu/libc.so.6")[0].rsplit("/", 1)[0]
        for allocator in ("", *ALLOCATORS):
            path, output = os.path.join(here, allocator), os.path.join(self.work, f"{name}-sized.mlw")
            if not os.path.exists(path):
                self.notes.append(f"sized: {allocator} is not installed")
                continue
            done = subprocess.run([self.mallow, "record", "-q", "-o", output, "--", glibc.loader, "--library-path",
                                   f"{glibc.libraries}:{here}", program], capture_output=True, text=True, check=True,
                                  env=dict(os.environ, LD_PRELOAD=path if allocator else ""))
            calls = self.json("report", "--json", output)["processes"][-1]["calls"]
            got = tuple(calls.get(n, 0) for n in ("free", "free_sized", "free_aligned_sized"))
            if done.stdout != "has\n" or got != (0, 100, 50):
                wrong.append(f"{allocator} {got}")
        row["sized"] = "; ".join(wrong) or "ok"

    def check_replay(self, glibc, settings, name, row, recording):
        """In the version's own root: the replayer is one of its programs."""
        root = os.path.realpath(os.path.join(self.folder, glibc.name))
        workload = os.path.join(self.work, name + ".mwl")
        subprocess.run([self.mallow, "workload", recording, "-o", workload], check=True, capture_output=True)
        within = [] if glibc.is_own else ["unshare", "-m", "sh", "-c", "\n".join((
            'set -e; r=$1; b=$2; w=$3; shift 3', 'mkdir -p "$r$b" "$r$w"', 'mount --bind "$b" "$r$b"', 'mount --bind "$w" "$r$w"',
            'mount -t proc proc "$r/proc"', 'exec chroot "$r" "$@"')), "sh", root, os.path.dirname(self.mallow), self.work]
        for column, argv in ("replay", ["replay", "--json", *(["--set", f"glibc.malloc.{settings}"] if settings else [])]), (
                "tune", ["tune", "--json", "--runs", "12"]):
            if column == "tune" and settings:
                row[column] = "-"
                continue
            done = subprocess.run([*within, self.mallow, *argv, workload], capture_output=True, text=True, check=False, timeout=900)
            if "mxfast" in settings and glibc.minor >= 43 and "does nothing" in done.stderr:
                row[column] = "-"
                self.notes.append(f"{glibc.name}: replay refuses mxfast, which does nothing there")
                continue
            if done.returncode:
                row[column] = f"{done.returncode}: {done.stderr.strip()[:160]}"
                continue
            out = json.loads(done.stdout)
            if column == "replay":
                wrong = out["unexpected_results"], sum(c["failed"] for c in out["calls"].values())
                row[column] = "ok" if wrong == (0, 0) else f"{wrong[0]} unexpected, {wrong[1]} failed"
            else:
                said = set(re.findall(r"glibc\.malloc\.\w+", done.stdout))
                wrong = sorted(said - (glibc.tunables() or said))
                row[column] = "ok" if said and not wrong else f"names {wrong}"

    def line(self, glibc, label, settings):
        row = dict.fromkeys(COLUMNS, "-")
        name = f"{glibc.name}-{label}"
        known = glibc.tunables()
        if settings and known is not None and f"glibc.malloc.{settings.split('=')[0]}" not in known:
            self.notes.append(f"{glibc.name} has no tunable {settings.split('=')[0]}")
            return row
        if label == "huge pages":
            try:
                with huge_pages(100):
                    return self.figures(glibc, label, settings, name, row)
            except unittest.SkipTest as e:
                self.notes.append(f"huge pages: {e}")
                return row
        if "=4000" in settings and glibc.minor < 42:
            self.notes.append(f"{glibc.name}: caches take no blocks above 1,032 bytes before 2.42")
            return row
        return self.figures(glibc, label, settings, name, row)

    def figures(self, glibc, label, settings, name, row):
        self.check_heap(glibc, settings, name, row)
        if glibc.minor < 34:
            self.notes.append(f"{glibc.name}: libraries that are built for 2.34 or later do not load there; a build of that system is needed")
            return row
        recording = self.check_report(glibc, settings, name, row)
        if label == "huge pages":
            return row  # a replay of it is that of hugetlb=2
        if glibc.minor >= 43 and not settings:  # those before have no free_sized
            self.check_sized(glibc, name, row)
        if glibc.is_own or os.path.exists(os.path.join(self.folder, glibc.name, "usr/bin/env")):
            self.check_replay(glibc, settings, name, row, recording)
        else:
            self.notes.append(f"{glibc.name}: replay and tune need a root, not the package alone")
        return row


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    build, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    names = sys.argv[3:] or sorted((n for n in os.listdir(folder) if re.fullmatch(r"2\.\d+", n)), key=lambda n: int(n[2:]))
    table = Table(build, folder)
    failed = 0
    print("| glibc | setting | " + " | ".join(COLUMNS) + " |\n" + "| --- " * (len(COLUMNS) + 2) + "|")
    for name in names:
        glibc = Glibc(folder, name)
        for label, settings in SETTINGS:
            row = table.line(glibc, label, settings)
            failed += sum(v not in ("ok", "least", "-") for v in row.values())
            print(f"| {name} | {label} | " + " | ".join(row.values()) + " |", flush=True)
    for note in dict.fromkeys(table.notes):
        print(f"- {note}")
    print(f"{failed} figures are false")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
