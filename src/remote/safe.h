/* safe.h - whether a stopped thread may be borrowed. Reads the process; changes nothing. One
 * thread, that of thread.h. */
#ifndef MALLOW_REMOTE_SAFE_H
#define MALLOW_REMOTE_SAFE_H

#include "remote/image.h"
#include "remote/thread.h"

/* True if a thread that is in this system call, and waits, can be inside the allocator or the
 * dynamic linker: neither ever waits so under a lock. */
bool safe_call(long number);

/* NULL when the thread can be made to do something at all: it has room on an ordinary stack, no
 * signal is on its way to it, and it can go on where it is; else why not. */
const char *safe_to_call(const struct target *t, const struct thread *k);

/* The same; and it holds no lock that loading a library needs, as far as its stack shows. Asks for
 * unwind tables (injected_learn). */
const char *safe_to_load(struct injected *t, const struct thread *k);

#endif
