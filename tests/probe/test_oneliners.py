"""One-liners of DTrace and bpftrace about memory, each as one line of `mallow probe`: both look at the same
run of the same process, and say the same numbers."""
import collections
import json
import os
import shutil
import subprocess

from mallowtest import MALLOW
from probing import Case, attached, main, reads, victim
from swapping import group, swap_file

LIBC = next(os.path.realpath(f"/{d}/x86_64-linux-gnu/libc.so.6") for d in ("lib", "usr/lib")
            if os.path.exists(f"/{d}/x86_64-linux-gnu/libc.so.6"))


def by(key, figure, rows="stacks"):
    """A figure of each value of a key that has one."""
    def found(document):
        sums = collections.Counter()
        for row in document[rows]:
            sums[str(row[key])] += row[figure]
        return {k: v for k, v in sums.items() if v}
    return found


def top(key):
    return lambda d: d[key]


def classes(figure="calls"):
    return lambda d: {h.get("min_bytes", h.get("min_ns")): h[figure] for h in d["histogram"]}


LIMITED, DOOMED = ["memory_victim", "large", "swap"], ["memory_victim", "large", "no swap"]
BRK, PURGE, FAULTS, CALLS = ["memory_victim", "brk"], ["memory_victim", "purge"], ["memory_victim", "faults"], ["calls_victim", "wait"]
# What is asked, the victim, mallow's line, its answer, bpftrace's line with its one map.
LINES = [
    ("how often is malloc called", CALLS, "calls --function malloc --no-follow", top("calls"), "uprobe:LIBC:malloc /MINE/ { @ = count(); }"),
    ("how many bytes is malloc asked for", CALLS, "sizes --function malloc --no-follow", top("bytes"), "uprobe:LIBC:malloc /MINE/ { @ = sum(arg0); }"),
    ("the distribution of malloc's sizes", CALLS, "sizes --function malloc --no-follow", classes(),
     "uprobe:LIBC:malloc /MINE/ { @ = hist(arg0); }"),
    ("large requests alone", CALLS, "sizes --function malloc --no-follow --where bytes>=1000", top("calls"),
     "uprobe:LIBC:malloc /MINE && arg0 >= 1000/ { @ = count(); }"),
    ("malloc by thread", CALLS, "sizes --function malloc --no-follow --by thread", by("tid", "calls", "groups"),
     "uprobe:LIBC:malloc /MINE/ { @[tid] = count(); }"),
    ("who calls free, by command", CALLS, "calls --function free --no-follow --by command", by("comm", "calls", "functions"),
     "uprobe:LIBC:free /MINE/ { @[comm] = count(); }"),
    ("which call of brk moves the end of the heap", BRK, "brk", top("calls"), "tracepoint:syscalls:sys_enter_brk /MINE && args->brk/ { @ = count(); }"),
    ("anonymous mappings", BRK, 'brk --mmap --where function=="mmap"', top("calls"),
     "tracepoint:syscalls:sys_enter_mmap /MINE && (args->flags & 0x20)/ { @ = count(); }"),
    ("how large are they", BRK, 'brk --mmap --by none --hist grown_bytes --where function=="mmap"', classes(),
     "tracepoint:syscalls:sys_enter_mmap /MINE && (args->flags & 0x20)/ { @ = hist(args->len); }"),
    ("how much is unmapped", PURGE, 'purge --where function=="munmap"', top("purged_bytes"),
     "tracepoint:syscalls:sys_enter_munmap /MINE/ { @ = sum((args->len + 4095) / 4096 * 4096); }"),
    ("what is purged, by parent", PURGE, 'purge --by parent --where function=="madvise(MADV_FREE)"', by("ppid", "calls"),
     "tracepoint:syscalls:sys_enter_madvise /MINE && args->behavior == 8/ { @[curtask->real_parent->tgid] = count(); }"),
    ("calls of madvise that fail", PURGE, "purge --where failed_calls", top("calls"),
     "tracepoint:syscalls:sys_exit_madvise /MINE && args->ret < 0/ { @ = count(); }"),
    ("page faults", FAULTS, "faults --no-follow --where minor", top("minor"), "software:minor-faults:1 /MINE/ { @ = count(); }"),
    ("major faults by command", FAULTS, "faults --no-follow --by command --where major", by("comm", "major", "processes"),
     "software:major-faults:1 /MINE/ { @[comm] = count(); }"),
    ("faults that write", FAULTS, 'faults --no-follow --where access=="first_write"'.replace("_", " "), top("minor"),
     "tracepoint:exceptions:page_fault_user /MINE && (args->error_code & 3) == 2/ { @ = count(); }"),
    ("copies on write of children", FAULTS, 'faults --where access=="copy on write"&&ppid==PID', top("minor"),
     "tracepoint:exceptions:page_fault_user /curtask->real_parent->tgid == PID && (args->error_code & 3) == 3/ { @ = count(); }"),
    ("blocks of the kernel's caches", BRK, 'slab --by none --where cache=="vm_area_struct"', top("calls"),
     'tracepoint:kmem:kmem_cache_alloc /MINE && str(args->name) == "vm_area_struct"/ { @ = count(); }'),
    ("kmalloc by size", BRK, 'slab --by none --where cache~"kmalloc-*"&&requested>=32', top("calls"),
     "tracepoint:kmem:kmalloc /MINE && args->bytes_req >= 32/ { @ = count(); }"),
    ("changes of the resident size", FAULTS, "rss --no-follow", lambda d: sum(p["changes"] for p in d["processes"]),
     "tracepoint:kmem:rss_stat /MINE && args->curr/ { @ = count(); }"),
    ("how often the limit of its group makes it reclaim", LIMITED, 'reclaim --where function=="reclaim at the group\'s limit"', top("count"),
     "tracepoint:vmscan:mm_vmscan_memcg_reclaim_begin /MINE/ { @ = count(); }"),
    ("how many pages that brings", LIMITED, 'reclaim --where function=="reclaim at the group\'s limit"&&count', top("reclaimed_pages"),
     "tracepoint:vmscan:mm_vmscan_memcg_reclaim_end /MINE/ { @ = sum(args->nr_reclaimed); }"),
    ("who is killed for want of memory", DOOMED, 'reclaim --by none --where function=="killed: out of memory"', top("count"),
     "tracepoint:oom:mark_victim /args->pid == PID/ { @ = count(); }"),
]


def arguments(line, pid):
    """The words of a line of mallow; conditions may have blanks."""
    words = line.replace("PID", str(pid)).split(" ")
    for i, word in enumerate(words):
        if word == "--where":
            rest = " ".join(words[i + 1:])
            end = rest.find(" --")
            condition, left = (rest, "") if end < 0 else (rest[:end], rest[end + 1:])
            return words[:i + 1] + [condition] + left.split()
    return words


# tracefs is mounted for it alone
BPFTRACE = ["unshare", "-m", "sh", "-c", '[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec "$0" "$@"',
            "bpftrace"]


def reads_strings():
    """bpftrace 0.23.2 (Debian 13) takes each string of a tracepoint for an empty one. It allocates for itself while it is asked."""
    script = 'tracepoint:kmem:kmem_cache_alloc /str(args->name) != ""/ { printf("read\\n"); exit(); } interval:s:10 { exit(); }'
    return "read" in subprocess.run([*BPFTRACE, "-e", script], capture_output=True, text=True, check=False).stdout


class OneLiners(Case):
    def ask(self, run, line, script):
        """Both answers about one run."""
        command = [victim(run[0]), run[1]]
        if run in (LIMITED, DOOMED):
            command = group(self, 48 << 20, swap=run is LIMITED).command(*command)
        with subprocess.Popen(["sh", "-c", 'read x; exec "$0" "$@"', *command], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, cwd="/var/tmp") as p:
            reads(p)
            script = script.replace("LIBC", LIBC).replace("MINE", f"pid == {p.pid}").replace("PID", str(p.pid))
            with subprocess.Popen([*BPFTRACE, "-f", "json", "-e",
                                   'BEGIN { printf("attached\\n"); } ' + script],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as peer:
                for said in peer.stdout:
                    if '"printf"' in said:
                        break
                else:
                    p.stdin.close()
                    return None, None, peer.communicate()[1]
                with subprocess.Popen([MALLOW, "probe", *arguments(line, p.pid), "--json", "-p", str(p.pid)],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
                    attached(probe)
                    p.stdin.write(b"go\ngo\n")
                    p.stdin.flush()
                    text, err = probe.communicate(timeout=600)
                peer.send_signal(2)
                said = peer.communicate(timeout=600)[0]
        self.assertEqual(probe.returncode, 0, err)
        return json.loads(text), said, None

    @staticmethod
    def answer(said):
        """The one map, as bpftrace tells it."""
        for line in said.splitlines():
            document = json.loads(line) if line.startswith("{") else {}
            data = document.get("data")
            if isinstance(data, dict) and "@" in data:
                value = data["@"]
                if document["type"] == "hist":
                    return {max(h.get("min", 0), 0): h["count"] for h in value if h["count"]}
                return value
        return None

    def test_lines(self):
        if not shutil.which("bpftrace"):
            self.skipTest("SKIPPED, LOUDLY: bpftrace is not installed")
        swap_file(self)
        compared, refused = 0, []
        for what, run, line, found, script in LINES:
            with self.subTest(what):
                document, said, why = self.ask(run, line, script)
                if why is not None:
                    refused.append(why.strip().splitlines()[-1])
                    print(f"{what}: bpftrace cannot: {refused[-1]}")
                    continue
                mine, other = found(document), self.answer(said)
                if other is None:
                    other = {} if isinstance(mine, dict) else 0
                if not other and "str(args->" in script and not reads_strings():
                    print(f"{what}: this bpftrace cannot: it reads strings of tracepoints as empty")
                    continue
                print(f"{what}: mallow {mine}, bpftrace {other}")
                self.assertEqual(mine, other, line)
                compared += 1
        if len(refused) == len(LINES):  # 0.25 wants /proc/modules, which a kernel without modules lacks
            self.skipTest(f"SKIPPED, LOUDLY: bpftrace attaches to nothing here: {refused[-1]}")
        self.assertGreater(compared, 0, "bpftrace answered nothing")


if __name__ == "__main__":
    main()
