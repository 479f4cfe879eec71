/* safe.h - whether a stopped thread may be borrowed. One thread. */
#ifndef MALLOW_REMOTE_SAFE_H
#define MALLOW_REMOTE_SAFE_H

#include <sys/user.h>

#include "remote/image.h"

/* Whether a thread that is in this system call, and waits, can be inside the allocator or the
 * dynamic linker: neither ever waits so under a lock. */
bool safe_call(long number);

/* The same of a thread that was interrupted in one, by its registers. */
bool safe_wait(const struct user_regs_struct *r);

/* NULL when the thread with these registers holds no lock that loading a library needs, as far as
 * its stack shows; else why it may. waits: it was interrupted in a system call. */
const char *safe_not(struct injected *t, const struct user_regs_struct *r, bool waits);

#endif
