/* reasons.h - why a process is not attached to, and what works instead: one table, which the
 * messages, mallow-watch(1) and tests/attach/test_refused.py share. Any thread; no state. */
#ifndef MALLOW_INJECT_REASONS_H
#define MALLOW_INJECT_REASONS_H

#include <sys/types.h>

#include "base/error.h"

#define PROBE_RECORDS "'mallow record -p PID --how probe' records it from the kernel's side"
#define PROBE_COUNTS  "'mallow probe calls -p PID' counts its calls from the kernel's side"
#define START_AGAIN   "start it again under 'mallow watch' or 'mallow record'"

/* name, the reason ("process PID ..."), the way that works instead. PID is replaced. */
#define INJECT_REASONS(X)                                                                          \
    X(SELF, "is this very mallow", "give the id of another process")                               \
    X(ENDED, "has ended (it is a zombie)", "'mallow watch -- PROGRAM' watches its next run")       \
    X(LEADER, "goes on without its first thread, by which its memory is seen", START_AGAIN)        \
    X(KERNEL, "has no memory: it is one of the kernel's, or has just ended",                       \
      "only a program has a heap; 'mallow probe' sees what the kernel does for one")               \
    X(STOPPED, "is stopped by a signal", "continue it first (kill -CONT PID)")                     \
    X(TRACED, "is traced already, by a debugger or by strace", "end that first")                   \
    X(FILTERED, "has a seccomp filter, which may kill it for a system call of the library's",      \
      PROBE_RECORDS ", or " START_AGAIN)                                                           \
    X(SHADOWED, "has a shadow stack, on which a borrowed thread would not return", START_AGAIN)    \
    X(USER, "belongs to another user", "be that user, or root")                                    \
    X(RIGHTS, "has more rights than its user: capabilities, or other ids to change to",            \
      "be that user, or " PROBE_RECORDS)                                                           \
    X(HIDDEN, "may not be traced: it is not dumpable (it changed its user, or prctl)", "be root")  \
    X(FORBIDDEN, "may not be traced here (kernel.yama.ptrace_scope)",                              \
      "be root, or set that to 0 for the moment")                                                  \
    X(MACHINE, "is no 64-bit x86 program",                                                         \
      "'mallow probe faults -p PID' shows what touches memory for the first time")                 \
    X(STATIC, "is linked statically: no dynamic linker is in it that could load the library",      \
      "if it has symbols, " PROBE_RECORDS)                                                         \
    X(BEGINS, "has no C library: its dynamic linker is about to load it, or never does",           \
      "try again later, or " PROBE_RECORDS)                                                        \
    X(MUSL, "runs on musl, and the library needs glibc", PROBE_COUNTS)                             \
    X(OLD_LIBC, "has a C library without dlopen (glibc before 2.34)", PROBE_RECORDS)               \
    X(SPACE, "has less than 32 MB of address space left below its limit (RLIMIT_AS)",              \
      PROBE_COUNTS ", or raise the limit (prlimit --as)")                                          \
    X(GROUP, "is in a control group with less than 16 MB left below its limit",                    \
      PROBE_COUNTS ", or raise the limit: the library might bring on the OOM killer")              \
    X(RECORDED, "is recorded already",                                                             \
      "'mallow control PID mark' and 'snapshot' work on it; 'mallow watch --detach PID' ends "     \
      "what a killed mallow left")                                                                 \
    X(WATCHED, "runs under 'mallow watch'", "'mallow watch -p PID' shows it; " PROBE_RECORDS)      \
    X(ATTACHED, "is attached to already by the other of 'mallow watch' and 'mallow record'",       \
      "end that first, or 'mallow watch --detach PID'")                                            \
    X(BUILT_IN, "has an allocator linked into the program, whose calls go through no binding",     \
      PROBE_RECORDS)                                                                               \
    X(FOREIGN, "runs with an allocator whose own functions would bypass the library",              \
      PROBE_RECORDS ", or start it again under 'mallow watch', which knows them")                  \
    X(OWN, "has a malloc that is not glibc's, or something stands before it",                      \
      PROBE_RECORDS ", or " START_AGAIN)                                                           \
    X(CONTAINER, "does not see the library: it runs in a container or a chroot",                   \
      "run mallow there, or have that directory mounted there")                                    \
    X(LINKER,                                                                                      \
      "could not load the library: it may not read it, or memory or room for thread-local "        \
      "variables is used up",                                                                      \
      START_AGAIN)                                                                                 \
    X(MEMORY, "could not get 4 MB of memory for the library's tables", PROBE_COUNTS)               \
    X(SHARED, "could not make memory to share with readers",                                       \
      "make room in /dev/shm, or " PROBE_RECORDS)                                                  \
    X(BINDINGS, "does not let its bindings be changed (mprotect is refused)", START_AGAIN)         \
    X(WIPE, "runs on a kernel that refuses MADV_WIPEONFORK (Linux 4.14 has it)", START_AGAIN)      \
    X(VERSION, "has the library of another version of mallow in it",                               \
      "use that version, or " START_AGAIN)                                                         \
    X(CALLS, "is still in the middle of a call that an earlier recording began",                   \
      "try again later")                                                                           \
    X(STUCK, "has a thread that does not stop (it waits in the kernel)", "try again later")        \
    X(POINT, "has no thread that reached a point where it could be borrowed",                      \
      "try again later, or " PROBE_RECORDS)

enum inject_reason {
#define REASON(name, why, instead) INJECT_##name,
    INJECT_REASONS(REASON)
#undef REASON
};

/* Sets the error; detail is put behind the reason, in parentheses; NULL: none. Returns -1. */
int reasons_refuse(pid_t pid, enum inject_reason reason, const char *detail, struct error *err);

#endif
