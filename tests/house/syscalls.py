"""Fails when a preloaded library can make a system call that its list does not name (guest_calls), or
that does not pass the door of src/preload/sys.h. Usage: syscalls.py SOURCE_ROOT [BUILD_ROOT]

The sources say which calls there are: every sys_NAME( and every SYS_NAME given to sys_call or sys_decided; of
the latter, which passes a closed door, exactly those in DECIDED. The libraries say that there are no others:
the number of each instruction `syscall` in them is on the list, and libc's wrappers are not among what they
need (tests/house/*-needs.txt). tests/host/listed.c holds what is called against the list as programs run."""
import os
import re
import subprocess
import sys

COMMON = ["guest/next.c", "guest/exec.c", "guest/ending.c", "guest/sandbox.c", "guest/say.c", "guest/syscall.c"]
# Library -> its sources besides the common ones (src/preload/meson.build), and where its list stands.
LIBRARIES = {
    "record": (["record/*.c", "guest/bindings.c", "guest/cxx.c", "guest/module.c", "guest/namespace.c", "guest/redirect.c", "guest/way.c", "unwind/*.c"], "record/confine.c"),
    "watch": (["watch/*.c", "guest/clock.c", "guest/bindings.c", "guest/cxx.c", "guest/module.c", "guest/namespace.c", "guest/redirect.c", "guest/way.c", "unwind/unwind_cfi.c",
               "unwind/unwind_generated.c", "unwind/unwind_module.c", "unwind/unwind_region.c", "unwind/unwind_rules.c",
               "unwind/unwind_stack.c"], "watch/confine.c"),
    "arenas": (["arenas/*.c", "guest/clock.c"], "arenas/arenas.c"),
    "attach": (["attach/*.c", "guest/bindings.c", "guest/clock.c", "guest/module.c", "guest/namespace.c", "guest/way.c", "unwind/unwind_cfi.c", "unwind/unwind_generated.c",
                "unwind/unwind_module.c", "unwind/unwind_region.c", "unwind/unwind_rules.c", "unwind/unwind_stack.c",
                "watch/calls.c", "watch/held.c", "watch/joining.c", "watch/draw.c", "watch/left.c", "watch/look.c", "watch/segment.c", "watch/stack.c",
                "watch/tables.c"], "attach/confine.c"),
    "attach-record": (["attach/locked.c", "guest/bindings.c", "guest/module.c", "record/*.c", "guest/namespace.c", "guest/way.c", "unwind/*.c"], "record/confine.c"),
}
# Who enters the kernel behind the closed door: the program's own calls, and what the manuals name.
DECIDED = {"next.c": {"SYS_mmap", "SYS_munmap", "SYS_mremap"}, "ending.c": {"SYS_exit_group"},
           "stream.c": {"SYS_fstat", "SYS_write"}, "sandbox.c": {"SYS_sched_yield"}, "error.c": {"SYS_tgkill", "SYS_gettid"}}
# Where they are the program's own, which it would make without us.
OWN = {"next.c", "ending.c"}
# What libc does for us below a function that is not a wrapper, and that sys.h does not name.
BY_LIBC = {"clock_gettime": "SYS_clock_gettime", "real_sigaction": "SYS_rt_sigaction"}
WRAPPERS = set("""write writev read pread pwrite open openat open64 close fstat stat lstat fcntl ioctl readlink
    unlink mmap64 mprotect madvise getpid getppid gettid kill tgkill raise abort sigprocmask pthread_sigmask
    sigaltstack clock_nanosleep nanosleep usleep sleep sched_yield futex pthread_create pthread_mutex_lock
    ftruncate fallocate flock memfd_create getdents64 opendir readdir fopen printf puts getrlimit uname getcwd
    process_vm_readv sysconf pthread_kill pthread_once sem_wait""".split())


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/|//[^\n]*", " ", f.read(), flags=re.S)


def wrappers(preload):
    """sys_NAME -> SYS_NUMBER, of sys.h."""
    s = text_of(os.path.join(preload, "sys.h"))
    return dict(re.findall(r"SYS_INLINE long (sys_\w+)\([^{]*\{\s*return sys_call\((SYS_\w+)", s))


def made(path, known):
    """The calls that a source makes."""
    s = text_of(path)
    door = "call" if os.path.basename(path) in OWN else "(?:call|decided)"
    calls = set(re.findall(rf"\bsys_{door}\(\s*(SYS_\w+)", s))
    for name in re.findall(r"\b(sys_\w+)\(", s):
        if name in known:
            calls.add(known[name])
    return calls | {number for name, number in BY_LIBC.items() if re.search(rf"\b{name}\(", s)}


def decided(path):
    """The calls that a source makes whether the door is closed or not; and uses of sys_decided without a number."""
    s = text_of(path)
    calls = set(re.findall(r"\bsys_decided\(\s*(SYS_\w+)", s))
    return calls | ({"sys_decided without a number"} if len(re.findall(r"\bsys_decided\b", s)) >
                    len(re.findall(r"\bsys_decided\(\s*SYS_\w+", s)) else set())


def listed(path):
    m = re.search(r"guest_calls\(unsigned \*count\)\s*\{.*?\n\}", text_of(path), re.S)
    return set(re.findall(r"\{(SYS_\w+),", m.group(0))) if m else set()


def sources(preload, patterns):
    import glob
    return sorted(p for pattern in patterns for p in glob.glob(os.path.join(preload, pattern)))


def check_sources(root):
    preload, bad = os.path.join(root, "src", "preload"), []
    known = wrappers(preload)
    if not known:
        return ["sys.h has no wrappers: this check does not understand it any more"]
    for library, (patterns, place) in LIBRARIES.items():
        allowed = listed(os.path.join(preload, place))
        if not allowed:
            bad.append(f"{place}: guest_calls has no list")
        for path in sources(preload, COMMON + patterns):
            here = os.path.relpath(path, root)
            bad += [f"{here}: makes {call}, which guest_calls of {place} does not name"
                    for call in sorted(made(path, known) - allowed)]
    for folder, _, names in os.walk(preload):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith((".c", ".h")) and name != "sys.h":
                bad += [f"{os.path.relpath(path, root)}: {call} passes the closed door"
                        for call in sorted(decided(path) - DECIDED.get(name, set()))]
            if name.endswith((".c", ".h")) and name != "sys.h" and re.search(
                    r'"[^"\n]*\b(syscall|sysenter|int \$0x80)\b[^"\n]*"', text_of(path)) and name not in ("syscall.c", "next.c"):  # names of libc's functions
                bad.append(f"{os.path.relpath(path, root)}: a system call beside the door of sys.h")
    return list(dict.fromkeys(bad))  # two libraries have the recorder, and one list


def check_manuals(root):
    """The section SECCOMP of the manual names what is on the list."""
    bad = []
    for library, page in {"record": "mallow-record.1", "watch": "libmallow-watch.7"}.items():
        with open(os.path.join(root, "docs", "man", page), encoding="utf-8") as f:
            m = re.search(r"each call that the library makes:(.*?)\.\n", f.read(), re.S)
        words = set(re.findall(r"\w+", m.group(1))) if m else set()
        calls = {c[4:] for c in listed(os.path.join(root, "src", "preload", LIBRARIES[library][1]))}
        bad += [f"{page}: does not name the system call {c}" for c in sorted(calls - words)]
    return bad


def check_library(path):
    """No wrapper of libc's is needed, and every path to the kernel looks at the door."""
    needs = subprocess.run(["nm", "-D", "--undefined-only", path], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in needs.splitlines() if line.split()}
    return [f"{os.path.basename(path)} needs {n}, which may enter the kernel beside the door of sys.h"
            for n in sorted(names & WRAPPERS)]


def names_of_numbers():
    out = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"], check=True,
                         capture_output=True, text=True).stdout
    return {int(n): "SYS_" + name for name, n in re.findall(r"#define __NR_(\w+) (\d+)", out)}


def numbers_in(lines):
    """The number of each instruction `syscall`: the constant that rax was given before it, by way of another
    register where need be. None: not found."""
    last = {}  # register -> constant, in this function
    for line in lines:
        if line.endswith(">:"):
            last = {}
            continue
        text = line.split("\t")[-1].strip()
        if text == "syscall":
            yield last.get("a")
            continue
        m = re.fullmatch(r"mov\s+\$0x([0-9a-f]+),%(\w+)", text)
        copied = re.fullmatch(r"mov\s+%(\w+),%[er]ax", text)
        zeroed = re.fullmatch(r"xor\s+%(\w+),%\1", text)
        if m:
            last[register(m.group(2))] = int(m.group(1), 16)
        elif zeroed:
            last[register(zeroed.group(1))] = 0
        elif copied:
            last["a"] = last.get(register(copied.group(1)))


def register(name):
    """One name for all widths of it: eax, rax are a; r14d is r14."""
    return re.sub(r"^[er](?=[abcd]x|[sd]i|[sb]p)|d$", "", name).replace("ax", "a") if name[0] in "er" else name


def check_instructions(root, path, library):
    preload = os.path.join(root, "src", "preload")
    names = names_of_numbers()
    allowed = listed(os.path.join(preload, LIBRARIES[library][1])) | DECIDED["next.c"] | DECIDED["ending.c"]
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True)
    found = list(numbers_in(out.stdout.splitlines()))
    bad = [f"{os.path.basename(path)} makes {names.get(n, n)}, which is not on the list"
           for n in sorted(set(found) - {None}) if names.get(n) not in allowed]
    # a few numbers come in registers that were set in another branch
    if not found or found.count(None) > len(found) / 10:
        bad.append(f"{os.path.basename(path)}: {found.count(None)} of {len(found)} numbers of system calls were not found")
    return bad


def main():
    bad = check_sources(sys.argv[1]) + check_manuals(sys.argv[1])
    if len(sys.argv) > 2:
        for library in LIBRARIES:
            path = os.path.join(sys.argv[2], "lib", f"libmallow-{library}.so")
            bad += check_library(path) + check_instructions(sys.argv[1], path, library)
    for line in bad:
        print(line)
    print(f"syscalls: {len(bad)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
