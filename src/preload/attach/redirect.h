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

#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "format/attach.h"
#include "preload/guest.h"
#include "preload/guest/bindings.h"

/* Elements of the list of entry_bindings. */
#define BINDING_OTHER(f)                                                                           \
    {                                                                                              \
#f, (const void *)(uintptr_t)f, 0, false                                                   \
    }
int dlclose(void *handle);
long syscall(long number, ...);
/* The end of an image, and its successors; modules vanish; system calls become forbidden. */
#define BINDINGS_OF_GUEST                                                                          \
    BINDING_OTHER(_exit), BINDING_OTHER(_Exit), BINDING_OTHER(quick_exit), BINDING_OTHER(execl),   \
        BINDING_OTHER(execle), BINDING_OTHER(execlp), BINDING_OTHER(execv), BINDING_OTHER(execve), \
        BINDING_OTHER(execvp), BINDING_OTHER(execvpe), BINDING_OTHER(execveat),                    \
        BINDING_OTHER(fexecve), BINDING_OTHER(posix_spawn), BINDING_OTHER(posix_spawnp),           \
        BINDING_OTHER(dlclose), BINDING_OTHER(prctl), BINDING_OTHER(syscall)

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
