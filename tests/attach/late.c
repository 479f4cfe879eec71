/* late.c - an attacher that looks at the wrong moment. Preloaded into mallow; MALLOW_TEST_MOMENT:
 *
 * late  once the borrowed thread goes on, in the library, that is said, and nothing is done for
 *       longer than the thread stays.
 * open  the thread is stopped again when it has just opened a file. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long trace(long request, pid_t tid, void *data)
{
    return syscall(SYS_ptrace, request, tid, 0, data);
}

/* From a stop at which it stays, to the way out of openat. 0: it has left. */
static int to_open(pid_t tid)
{
    for (int entry = 1, call = -1;; entry = !entry) {
        struct user_regs_struct r;
        int status;
        if (trace(PTRACE_SYSCALL, tid, 0) || waitpid(tid, &status, __WALL) != tid ||
            !WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80) ||
            trace(PTRACE_GETREGS, tid, &r))
            return 0;
        if (entry)
            call = (int)r.orig_rax;
        else if (call == SYS_openat)
            return 1;
        if (call == SYS_rt_sigreturn)
            return 0;
    }
}

static long interrupt_when_open(pid_t tid)
{
    int status;
    if (trace(PTRACE_INTERRUPT, tid, 0) || waitpid(tid, &status, __WALL) != tid)
        return -1;
    if (to_open(tid))
        dprintf(2, "it has a file open\n");
    return trace(PTRACE_INTERRUPT, tid, 0) || trace(PTRACE_CONT, tid, 0) ? -1 : 0;
}

long ptrace(enum __ptrace_request request, ...)
{
    static int goes_on, interrupted;
    const int late = !strcmp(getenv("MALLOW_TEST_MOMENT"), "late");
    va_list more;
    va_start(more, request);
    const pid_t tid = va_arg(more, pid_t);
    void *const address = va_arg(more, void *), *const data = va_arg(more, void *);
    va_end(more);
    if (request == PTRACE_INTERRUPT && goes_on && !interrupted++ && !late)
        return interrupt_when_open(tid);
    const long result = syscall(SYS_ptrace, request, tid, address, data);
    const int error = errno;
    if (request == PTRACE_CONT && !goes_on++ && late) {
        const struct timespec stay = {2, 0};
        dprintf(2, "it goes on\n");
        nanosleep(&stay, 0);
    }
    errno = error;
    return result;
}
