"""Fails when code that deals with what other users can influence opens, maps, renames or removes by path
by itself, instead of asking src/trust. Usage: doors.py SOURCE_ROOT

src/trust looks at a file before it opens it, holds directories by their descriptors, and reads without
faults (src/trust/file.h, place.h). docs/security.md tells against whom."""
import os
import re
import sys

# Folders of src/ that other users' files, segments and sessions reach.
GUARDED = ("record", "watch", "limit", "trace", "symbol")

# Functions that take a path, or follow one that they were given earlier.
FUNCTIONS = """
open open64 openat openat2 creat fopen fopen64 freopen opendir scandir ftw nftw glob
rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat remove rmdir
mkdir mkdirat mkfifo mkfifoat mknod mknodat mkdtemp mkstemp mkostemp mkstemps mkostemps tmpfile tempnam
stat lstat statx fstatat access faccessat euidaccess realpath readlink readlinkat
truncate chmod fchmodat chown lchown fchownat utimensat utime utimes setxattr lsetxattr
shm_open shm_unlink sem_open name_to_handle_at open_by_handle_at mount chdir chroot
mmap mmap64 elf_begin dwfl_report_elf dwfl_report_offline dlopen
execl execlp execle execv execve execvp execvpe posix_spawn posix_spawnp popen system
""".split()

CALL = re.compile(r"(?<![\w.>])(" + "|".join(FUNCTIONS) + r")\s*\(")

# (file, function): (how many calls, why that is no matter of trust).
ALLOWED = {
    ("record/record.c", "execvp"): (1, "the program that the user asked for, in our place"),
    ("record/shm.c", "mmap"): (2, "a session: sealed or the caller's own, else only in a child that may die; "
                                  "and its windows"),
    ("record/sink.c", "open"): (1, "a file of /sys"),
    ("record/loop.c", "open"): (1, "/proc/loadavg"),
    ("watch/maps.c", "fstatat"): (1, "a descriptor in /proc/PID/fd, which is only looked at"),
}

# Files that still have to go through src/trust. Nothing may be added.
LATER = {
    "symbol/functions.c", "symbol/locate.c", "symbol/notes.c", "symbol/symbols.c",
    "symbol/unwindrows.c",
    "watch/follow.c", "watch/held.c", "watch/left.c", "watch/run.c",
    "watch/written.c",
}

COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
ANONYMOUS = re.compile(r"\bMAP_ANON(YMOUS)?\b")


def plain(text):
    """The code without comments and texts; the lines stay where they are."""
    return COMMENT_OR_TEXT.sub(lambda m: "\n" * m.group().count("\n") or " ", text)


def arguments(code, start):
    """What stands between the parenthesis at start and its partner."""
    depth = 0
    for i in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return code[start + 1:i]
    return code[start + 1:]


def calls(text):
    """(function, line) of every call."""
    code = plain(text)
    for m in CALL.finditer(code):
        if m.group(1) in ("mmap", "mmap64") and ANONYMOUS.search(arguments(code, m.end() - 1)):
            continue
        yield m.group(1), code.count("\n", 0, m.start()) + 1


def check(root, allowed=None, later=None):
    """Returns a list of complaints."""
    allowed = ALLOWED if allowed is None else allowed
    later = LATER if later is None else later
    bad, seen, count = [], {}, 0
    for folder in GUARDED:
        for where, _, names in sorted(os.walk(os.path.join(root, "src", folder))):
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".inc")):
                    continue
                path = os.path.join(where, name)
                here = os.path.relpath(path, os.path.join(root, "src"))
                count += 1
                with open(path, encoding="utf-8") as f:
                    for function, line in calls(f.read()):
                        seen.setdefault((here, function), []).append(line)
    for (here, function), lines in sorted(seen.items()):
        most = allowed.get((here, function), (0, ""))[0]
        if here not in later and len(lines) > most:
            bad.append(f"src/{here}:{lines[-1]}: calls {function}() {len(lines)} times, {most} allowed; "
                       "src/trust opens, maps, replaces and removes")
    for (here, function), (most, _) in sorted(allowed.items()):
        found = len(seen.get((here, function), []))
        if found < most:
            bad.append(f"src/{here}: {most} calls of {function}() are allowed, {found} are there: shorten the list")
    bad += [f"src/{here} is on the list of what comes later and needs not to be"
            for here in sorted(later) if not any(k[0] == here for k in seen)]
    if count == 0:
        bad.append(f"no sources under {root}/src")
    return bad


def main():
    bad = check(sys.argv[1])
    for line in bad:
        print(line)
    print(f"doors: {len(bad)} passed by")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
