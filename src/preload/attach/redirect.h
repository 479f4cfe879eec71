/* redirect.h - what libmallow-attach.so and libmallow-attach-record.so have in common: a library in
 * a process that runs already makes the program's calls lead to its own functions, and back
 * (guest/bindings.h).
 *
 *   locked.c  work that is done under the dynamic linker's lock, in which bindings are changed
 *
 * For the one thread that src/inject has borrowed, at a point where it holds no lock of the
 * allocator's or the dynamic linker's. */
#ifndef MALLOW_PRELOAD_ATTACH_REDIRECT_H
#define MALLOW_PRELOAD_ATTACH_REDIRECT_H

#include "format/attach.h"
#include "preload/guest.h"
#include "preload/guest/bindings.h"

/* Elements of the list of entry_bindings. */
#define BINDING_OTHER(name) {#name, entry_##name, 0, false},
/* The end of an image, and its successors; modules vanish; system calls become forbidden. */
#define GUEST_FUNCTIONS(X)                                                                         \
    X(_exit)                                                                                       \
    X(_Exit)                                                                                       \
    X(quick_exit)                                                                                  \
    X(execl)                                                                                       \
    X(execle)                                                                                      \
    X(execlp)                                                                                      \
    X(execv)                                                                                       \
    X(execve)                                                                                      \
    X(execvp)                                                                                      \
    X(execvpe)                                                                                     \
    X(execveat)                                                                                    \
    X(fexecve)                                                                                     \
    X(posix_spawn)                                                                                 \
    X(posix_spawnp)                                                                                \
    X(dlclose)                                                                                     \
    X(prctl)                                                                                       \
    X(syscall)

/* ---- locked.c ---- */

/* Does the work for the request under the dynamic linker's lock, which other threads may take again
 * and again: it is waited for once. The answer is in request->result. */
HIDDEN void locked_do(void (*work)(struct mlw_attach *), struct mlw_attach *request);
/* The thread does nothing for so long. */
HIDDEN void locked_wait(unsigned ms);
/* All is done: the thread stays so that the injector can stop it here, and put it back. It need not
 * stop it at each system call before, then. Returns request->result. */
HIDDEN int64_t locked_answer(const struct mlw_attach *request);

#endif
