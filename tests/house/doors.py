"""Fails when code opens, maps, renames or removes by path by itself, instead of asking src/trust.
Usage: doors.py SOURCE_ROOT

src/trust looks at a file before it opens it, holds directories by their descriptors, and reads without
faults (src/trust/file.h, place.h). docs/security.md tells against whom."""
import os
import re
import sys

# Directories of src/ that are not looked at: the owner of the rule, and what runs inside other programs, which
# has doors of its own (src/preload/sys.h, guest/way.c).
UNGUARDED = ("trust", "preload")

# Functions that take a path, or follow one that they were given earlier.
FUNCTIONS = """
open open64 openat openat2 creat fopen fopen64 freopen opendir scandir ftw nftw glob
rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat remove rmdir
mkdir mkdirat mkfifo mkfifoat mknod mknodat mkdtemp mkstemp mkostemp mkstemps mkostemps tmpfile tempnam
stat lstat statx fstatat access faccessat euidaccess realpath readlink readlinkat
truncate chmod fchmodat chown lchown fchownat utimensat utime utimes setxattr lsetxattr
shm_open shm_unlink sem_open name_to_handle_at open_by_handle_at mount chdir chroot
mmap mmap64 elf_begin dwarf_begin dwfl_report_elf dwfl_report_offline dlopen
execl execlp execle execv execve execvp execvpe posix_spawn posix_spawnp popen system
gzopen gzopen64 json_object_from_file json_object_to_file json_object_to_file_ext scandirat
posix_spawn_file_actions_addopen sqlite3_open sqlite3_open_v2 H5Fopen H5Fcreate
""".split()

CALL = re.compile(r"(?<![\w.>])(" + "|".join(FUNCTIONS) + r")\s*\(")

# (file, function): (how many calls, why that is no matter of trust).
ALLOWED = {
    ("record/record.c", "execvp"): (1, "the program that the user asked for, in our place"),
    ("record/unseen.c", "stat"): (2, "the installed library and the directories above it, which are only looked at"),
    ("record/programs.c", "stat"): (1, "a name, which is only looked at"),
    ("record/shm.c", "mmap"): (2, "a session: sealed or the caller's own, else only in a child that may die; "
                                  "and its windows"),
    ("record/sink.c", "open"): (1, "a file of /sys"),
    ("record/loop.c", "open"): (1, "/proc/loadavg"),
    ("watch/maps.c", "fstatat"): (1, "a descriptor in /proc/PID/fd, which is only looked at"),
    ("watch/follow.c", "fstatat"): (1, "an entry, which is only looked at"),
    ("watch/follow.c", "opendir"): (1, "the directory /proc"),
    ("watch/held.c", "stat"): (1, "a file of /proc/self"),
    ("watch/left.c", "fstatat"): (1, "an entry, which is only looked at"),
    ("watch/run.c", "mkdtemp"): (1, "a directory of a new name, for the caller alone"),
    ("watch/written.c", "open"): (2, "a file of /proc; a new file of the caller's (O_EXCL)"),
    ("watch/written.c", "readlink"): (1, "a link of /proc, which is only read"),
    ("watch/written.c", "mmap"): (1, "the new file"),
    ("watch/written.c", "unlink"): (1, "the new file, which no other user can remove"),
    ("symbol/locate.c", "dlopen"): (1, "a library of the system's"),
    ("symbol/locate.c", "elf_begin"): (2, "a file of program_open, read and never mapped"),
    ("symbol/locate.c", "access"): (2, "a name, which is only looked at, to say why"),
    ("symbol/locate.c", "stat"): (1, "a name, which is only looked at"),
    ("symbol/locate.c", "realpath"): (1, "a name, beside which is searched"),
    ("symbol/functions.c", "elf_begin"): (2, "a file of program_open, read; one of locate.h, to be mapped"),
    ("symbol/notes.c", "elf_begin"): (1, "a file of program_open, read and never mapped"),
    ("symbol/symbols.c", "elf_begin"): (2, "the kernel's vdso, copied to memory; a file of program_to_map, by its descriptor"),
    ("symbol/symbols.c", "dwfl_report_elf"): (1, "a file of program_to_map, by its descriptor"),
    ("symbol/declared.c", "dwarf_begin"): (1, "a file of program_to_map, by its descriptor"),
    ("inspect/inspect.c", "stat"): (1, "a name, which is only looked at"),
    ("inspect/inspect.c", "access"): (1, "a name, which is only looked at"),
    ("inspect/inspect.c", "elf_begin"): (1, "a file of program_open, read and never mapped"),
    ("inspect/library.c", "readlink"): (1, "/proc/self/exe"),
    ("inspect/library.c", "access"): (1, "where mallow is installed"),
    ("inspect/library.c", "realpath"): (1, "where mallow is installed"),
    ("inspect/machine.c", "open"): (1, "files of /proc and /sys"),
    ("inspect/machine.c", "access"): (8, "names of the system's, which are only looked at"),
    ("inspect/machine.c", "dlopen"): (1, "a library of the system's"),
    ("probe/arenas_now.c", "stat"): (1, "a name, which is only looked at"),
    ("probe/bystanders.c", "opendir"): (1, "the directory /proc"),
    ("probe/bystanders.c", "stat"): (1, "names, which are only looked at"),
    ("probe/code.c", "stat"): (1, "names, which are only looked at"),
    ("probe/kind_rss.c", "opendir"): (1, "a directory of /proc"),
    ("probe/caps.c", "access"): (1, "a file of /sys"),
    ("probe/caps.c", "stat"): (1, "a file of /proc/self"),
    ("probe/caps.c", "fopen"): (1, "/proc/swaps"),
    ("probe/engine.c", "opendir"): (1, "the directory /proc"),
    ("probe/files.c", "open"): (1, "the device /dev/null"),
    ("probe/files.c", "execl"): (1, "the loader of the program that the user asked for, which runs next"),
    ("probe/files.c", "access"): (3, "names, which are only looked at"),
    ("probe/files.c", "stat"): (2, "names, which are only looked at"),
    ("probe/files.c", "realpath"): (1, "a name, which is read by program_open"),
    ("probe/files.c", "glob"): (1, "the system's directories of libraries"),
    ("probe/inside.c", "mkostemp"): (1, "a file of a new name, for the caller alone"),
    ("probe/inside.c", "mmap"): (1, "the file of a new name"),
    ("probe/inside.c", "unlink"): (1, "that file, which no other user can remove"),
    ("probe/samples.c", "stat"): (1, "a name, which is only looked at"),
    ("probe/samples.c", "opendir"): (1, "the directory /proc"),
    ("probe/stacks.c", "stat"): (1, "a name, which is only looked at"),
    ("probe/stacks.c", "mmap"): (1, "a table of the kernel's (BPF)"),
    ("probe/stacks.c", "fopen"): (1, "a file of /proc"),
    ("inject/inject.c", "stat"): (2, "names, which are only looked at"),
    ("remote/handle.c", "open"): (1, "the directory /proc/PID"),
    ("remote/handle.c", "openat"): (4, "files of /proc, in that directory"),
    ("inject/refuse.c", "open"): (1, "a file of /proc/sys"),
    ("heap/cold.c", "open"): (1, "a file of /proc/PID"),
    ("heap/idle.c", "open"): (1, "a file of /sys or /proc"),
    ("heap/spill.c", "mmap"): (2, "a nameless file of the caller's"),
    ("remote/thread.c", "opendir"): (1, "a directory of /proc"),
    ("base/library.c", "dlopen"): (1, "a library of the system's"),
    ("base/proc.c", "fopen"): (1, "a file of /proc/PID"),
    ("base/proc.c", "open"): (2, "/proc/PID, and a file of it"),
    ("base/proc.c", "openat"): (5, "files and directories of /proc/PID"),
    ("base/proc.c", "readlink"): (1, "a link of /proc/PID, which is only read"),
    ("cli/fleet_load.c", "lstat"): (1, "a name, which is only looked at, to choose what opens it"),
    ("cli/fleet_load.c", "stat"): (1, "a name, which is only looked at, to choose what opens it"),
    ("cli/fleet_load.c", "scandir"): (1, "a directory and nothing else, whose names are only read"),
    ("show/output.c", "stat"): (3, "names, which are only looked at, to refuse early"),
    ("cli/cmd_push.c", "stat"): (1, "a name, which is only looked at, to say why"),
    ("record/save_heap.c", "posix_spawn"): (1, "mallow itself, by /proc/self/exe"),
    ("record/save_heap.c", "posix_spawn_file_actions_addopen"): (1, "the device /dev/null"),
    ("cli/view.c", "realpath"): (1, "the name that the user typed, below which trust_open_below opens"),
    ("watch/out/dump.c", "access"): (2, "names, which are only looked at, to choose one and to refuse early"),
    ("compare/baseline.c", "mkdirat"): (1, "a name in a directory held by trust_place_open"),
    ("compare/corpus.c", "opendir"): (1, "where mallow is installed"),
    ("compare/corpus.c", "readlink"): (1, "/proc/self/exe"),
    ("export/sqlite.c", "sqlite3_open_v2"): (1, "a file in a directory of trust_room_open, by descriptor"),
    ("fleet/sqlite.c", "sqlite3_open"): (1, "a database in memory"),
    ("fleet/sqlite.c", "sqlite3_open_v2"): (1, "a file that trust_open looked at; SQLite opens it, and its journal, by path"),
    ("launch/launch.c", "execvp"): (1, "the program that the user asked for"),
    ("launch/launch.c", "opendir"): (1, "the directory /proc"),
    ("push/spool.c", "fstatat"): (1, "an entry of the spool, held by descriptor, which is only looked at"),
    ("push/spool.c", "mkdirat"): (1, "a name in a directory held by trust_place_open"),
    ("push/spool.c", "unlinkat"): (2, "an entry of the spool, held by descriptor, that no other user can change"),
    ("record/lend.c", "chdir"): (1, "the root directory"),
    ("record/lend.c", "execve"): (1, "mallow itself, by /proc/self/exe"),
    ("record/lend.c", "open"): (1, "the device /dev/null"),
    ("replay/main.c", "open"): (1, "the workload that mallow holds, by its descriptor (workload/pack.h)"),
    ("replay/measure.c", "open"): (3, "files of /proc/self"),
    ("replay/run.c", "access"): (1, "where mallow is installed"),
    ("replay/run.c", "execve"): (1, "mallow-replay, where mallow is installed"),
    ("replay/run.c", "readlink"): (1, "/proc/self/exe"),
    ("replay/run.c", "realpath"): (4, "allocators that the user asked for or the system has; where mallow is installed"),
    ("watch/view/view.c", "access"): (1, "a name, which is only looked at, to see whether there is a file"),
    ("tune/spaces.c", "open"): (1, "a file of /sys"),
    ("workload/check.c", "mmap"): (1, "a file of trust_stable, or in the replayer alone one of workload/pack.h"),
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


def guarded(root):
    """The directories of src/ that are looked at: all that there are, so that a new one is not forgotten."""
    src = os.path.join(root, "src")
    return [n for n in sorted(os.listdir(src)) if n not in UNGUARDED] if os.path.isdir(src) else []


def check(root, allowed=None):
    """Returns a list of complaints."""
    allowed = ALLOWED if allowed is None else allowed
    bad, seen, count = [], {}, 0
    for folder in guarded(root):
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
        if len(lines) > most:
            bad.append(f"src/{here}:{lines[-1]}: calls {function}() {len(lines)} times, {most} allowed; "
                       "src/trust opens, maps, replaces and removes")
    for (here, function), (most, _) in sorted(allowed.items()):
        found = len(seen.get((here, function), []))
        if found < most:
            bad.append(f"src/{here}: {most} calls of {function}() are allowed, {found} are there: shorten the list")
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
