/* restart.h - system calls that a stop interrupted, in the frame of a signal handler.
 *
 * Owns: how a thread goes on by such a frame, which it does when we die while it is borrowed. */
#ifndef MALLOW_REMOTE_RESTART_H
#define MALLOW_REMOTE_RESTART_H

#include <stdint.h>
#include <sys/user.h>

#include "arch/sigframe.h"
#include "remote/handle.h"

/* The registers of a stopped thread as a signal handler's return restores them. mask: its blocked
 * signals; fpstate: the address of its floating-point state. A call that was interrupted begins
 * again, with its arguments: what the kernel keeps of the rest of a sleep (restart_syscall) is void
 * behind a signal return. Where the call is not known, it returns EINTR. */
struct arch_signal_frame restart_frame(const struct handle *process,
                                       const struct user_regs_struct *r, uint64_t mask,
                                       uint64_t fpstate);

#endif
