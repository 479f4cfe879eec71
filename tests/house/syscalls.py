"""Fails when a preloaded library can make a system call that its list does not name (guest_calls), or
that does not pass the door of src/preload/sys.h. Usage: syscalls.py SOURCE_ROOT [BUILD_ROOT]

The sources say which calls there are: every sys_NAME( and every SYS_NAME given to sys_call or sys_decided.
The libraries say that there are no others: an instruction `syscall` of theirs whose number is a constant is
on the list, and libc's wrappers are not among what they need (tests/house/*-needs.txt)."""
import os
import re
import subprocess
import sys

COMMON = ["next.c", "exec.c", "ending.c", "sandbox.c"]
# Library -> its sources besides the common ones (src/preload/meson.build), and where its list stands.
LIBRARIES = {
    "record": (["confine.c", "control.c", "cxx.c", "entry.c", "follow.c", "mapping.c", "own.c", "process.c", "record.c",
                "redirect.c", "settings.c", "stream.c", "unwind*.c"], "confine.c"),
    "watch": (["clock.c", "cxx.c", "redirect.c", "unwind_cfi.c", "unwind_module.c", "unwind_region.c", "unwind_rules.c",
               "unwind_stack.c", "watch/*.c"], "watch/confine.c"),
    "arenas": (["arenas/*.c", "clock.c"], "arenas/arenas.c"),
}
# Where sys_decided makes the program's own calls, which it would make without us.
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
            if name.endswith((".c", ".h")) and name != "sys.h" and re.search(
                    r'"[^"\n]*\b(syscall|sysenter|int \$0x80)\b[^"\n]*"', text_of(path)) and name != "sandbox.c":
                bad.append(f"{os.path.relpath(path, root)}: a system call beside the door of sys.h")
    return bad


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


def main():
    bad = check_sources(sys.argv[1]) + check_manuals(sys.argv[1])
    if len(sys.argv) > 2:
        for library in LIBRARIES:
            bad += check_library(os.path.join(sys.argv[2], "lib", f"libmallow-{library}.so"))
    for line in bad:
        print(line)
    print(f"syscalls: {len(bad)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
