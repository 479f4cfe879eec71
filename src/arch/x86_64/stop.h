/* stop.h - what a stop by ptrace does to the system call that it interrupts. */
#ifndef MALLOW_ARCH_X86_64_STOP_H
#define MALLOW_ARCH_X86_64_STOP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/user.h>

/* A stop by ptrace makes some calls return EINTR that a plain stop and continue would not show.
 * Whether this call is one. */
static inline __attribute__((unused)) bool arch_stop_ends(long call)
{
    enum { EPOLL_PWAIT2 = 441 };
    static const short ended[] = {SYS_epoll_wait, SYS_epoll_pwait,     SYS_semop,
                                  SYS_semtimedop, SYS_rt_sigtimedwait, SYS_io_getevents,
                                  SYS_msgrcv,     SYS_msgsnd,          EPOLL_PWAIT2};
    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++)
        if (ended[i] == call)
            return true;
    return false;
}

/* The program expects of a stop what the kernel does for ERESTARTNOHAND: a handler that runs makes
 * it EINTR, otherwise the call begins again. Changes the registers of a thread that was stopped so,
 * not by a signal; false: nothing is to be changed. */
static inline __attribute__((unused)) bool arch_stop_undo(struct user_regs_struct *r)
{
    enum { RESTARTNOHAND = -514 };
    if ((long)r->rax != -EINTR || !arch_stop_ends((long)r->orig_rax))
        return false;
    r->rax = (unsigned long long)(long long)RESTARTNOHAND;
    return true;
}

#endif
