"""A process id is another process as soon as the first has ended, and another image at any moment: below src/cli no function takes
one where a handle (src/remote/handle.h) is meant. The functions that take one are in a table, with the reason; memory of another process is
read and written through a handle alone."""
import os
import re
import sys

sys.dont_write_bytecode = True
from processor import plain, without_texts  # noqa: E402

# Rooms whose code is not below src/cli: what runs in other programs, the kernel's, and headers without functions.
NOT_BELOW = {"cli", "preload", "bpf", "arch", "format"}
# Rooms that stop processes: their own functions count, too.
STOPPING = {"inject", "heap", "remote"}
PARAMETER = re.compile(r"\b(?:pid_t|uint32_t|int)\s+(?:\w+_)?pid\b")
MEMORY = re.compile(r'\bprocess_vm_(?:readv|writev)\b|"(?:[^"\n]*/)?mem"')

# Reason -> file -> functions.
BY_ID = {
    "it makes the handle, or what holds one, of the process that the user named": {
        "remote/handle.h": "handle_open",
        "remote/image.h": "injected_hold",
        "inject/inject.h": "inject_begin inject_end inject_check inject_is_there",
        "inject/inject.c": "inject",
        "watch/reach/attach.h": "watch_detach",
        "remote/target.h": "target_look target_stop",
        "probe/arenas_now.h": "arenas_now",
    },
    "files of /proc as text, which is a claim and is checked against the handle": {
        "base/proc.h": "proc_open proc_open_memory proc_stream proc_link proc_read proc_called proc_maps_open proc_stat proc_proportional_bytes proc_environ proc_has_ended "
                       "proc_is_zombie proc_is_hidden",
        "base/present.h": "present_open",
        "record/smaps.h": "smaps_read",
        "watch/maps.h": "maps_read maps_has",
        "probe/code.h": "code_open",
        "limit/groups.h": "limit_groups_of",
        "launch/launch.h": "launch_cpu_ns launch_is_starting",
    },
    "who the process is, with the time at which it started": {
        "trust/process.h": "trust_credentials_of trust_process trust_process_writes trust_process_maps trust_process_maps_at",
    },
    "for a message, or why there is no handle": {
        "inject/reasons.h": "reasons_refuse",
        "inject/reasons.c": "put",
        "inject/refuse.h": "refuse_process refuse_trace",
        "inject/refuse.c": "refuse_class refuse_limits refuse_state refuse_user",
        "record/unseen.h": "unseen_look unseen_why_process",
    },
    "the number under which a recording, a segment, a table or the kernel's events know it": {
        "heap/heap.h": "recording sampled",
        "heap/show/sampled.h": "heap_samples_read",
        "heap/show/sampled.c": "look",
        "heap/recorded.h": "recorded_read",
        "heap/recorded.c": "choose",
        "launch/launch.h": "known",
        "probe/arenas.h": "arenas_forget arenas_name_main arenas_process",
        "probe/probe.h": "moment",
        "probe/stacks.h": "stacks_fill stacks_learn_all stacks_locate",
        "record/control.h": "control_run",
        "record/flight.h": "flight_look",
        "record/image.h": "image_wait_status",
        "record/loop.h": "leave size",
        "record/record.h": "begin record_output size",
        "record/save_heap.h": "record_heap_size",
        "record/shm.h": "shm_find",
        "record/slots.h": "slots_thread_pointers",
        "watch/follow.h": "follow_below follow_pid",
    },
    "the kernel takes a process id": {
        "probe/attach.h": "attach_link",
        "heap/idle.h": "idle_open",
    },
    "paths of files below /proc/PID, opened and compared with the mapping's device and inode, or build-id": {
        "probe/files.h": "files_of_process files_reach",
        "record/programs.h": "programs_hold_program",
        "symbol/locate.h": "locate_module",
        "symbol/perfmap.h": "perfmap_read perfmap_changed",
        "symbol/symbol.h": "symbols_lookup symbols_renew",
        "heap/variables.h": "variables_new",
    },
}
# File -> how often, and why.
MEMORY_IS_OPENED = {
    "remote/handle.c": (3, "the handle itself"),
    "import/perf.c": (1, "a name in a foreign format"),
}


def function_of(code, at):
    """The name of the function whose parameter is at `at`, or None."""
    depth = 0
    for i in range(at - 1, -1, -1):
        c = code[i]
        depth += (c == ")") - (c == "(")
        if depth < 0:
            before = code[:i].rstrip()
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)$", before)
            name = pointer or re.search(r"(\w+)$", before)
            return name.group(1) if name else None
        if c in ";{}" and depth == 0:
            return None
    return None


def functions(text):
    code = without_texts(plain(text))
    return {f for m in PARAMETER.finditer(code) if (f := function_of(code, m.start()))}


def opened(text):
    return len(MEMORY.findall(plain(text)))


def listed(table):
    return {(where, name) for places in table.values() for where, names in places.items() for name in names.split()}


def check(root, by_id=None, memory=None):
    by_id = listed(BY_ID if by_id is None else by_id)
    memory = MEMORY_IS_OPENED if memory is None else memory
    bad, seen, declared, inside, src = [], 0, set(), set(), os.path.join(root, "src")
    for directory, _, names in sorted(os.walk(src)):
        for name in sorted(names):
            here = os.path.relpath(os.path.join(directory, name), src)
            room = here.split(os.sep)[0]
            if room in NOT_BELOW - {"cli"} or not name.endswith((".c", ".h")):
                continue
            seen += 1
            with open(os.path.join(directory, name), encoding="utf-8") as f:
                text = f.read()
            if room != "cli" and name.endswith(".h"):
                declared |= {(here, f) for f in functions(text)}
            elif room in STOPPING:
                inside |= {(here, f) for f in functions(text)}
            if opened(text) != memory.get(here, (0, ""))[0]:
                bad.append(f"src/{here}: opens or reads the memory of a process {opened(text)} times, {memory.get(here, (0, ''))[0]} are "
                           "known: a handle does (remote/handle.h)")
    public = {f for _, f in declared}
    there = declared | {(here, f) for here, f in inside if f not in public}
    bad += [f"src/{here}: {f} takes a process id: it is a handle that is meant, or the table of handles.py has a reason"
            for here, f in sorted(there - by_id)]
    bad += [f"src/{here}: {f} is on the list of exceptions and needs not to be" for here, f in sorted(by_id - there)]
    return bad if seen else ["no sources"]


def check_itself():
    assert functions("int f(struct x *y, pid_t pid);") == {"f"}
    assert functions("void (*each)(void *arg, uint32_t pid);") == {"each"}
    assert functions("struct x { pid_t pid; }; int g(const struct handle *h); /* int f(pid_t pid) */") == set()
    assert functions("static bool k(pid_t pid)\n{ return g(h(1), 2); }") == {"k"}
    assert opened('openat(d, "mem", 0); f("/proc/%d/mem"); process_vm_readv(1); "member"') == 3


if __name__ == "__main__":
    check_itself()
    problems = check(sys.argv[1])
    print("\n".join(problems + [f"handles: {len(problems)} complaints"]))
    sys.exit(1 if problems else 0)
