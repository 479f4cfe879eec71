/* redirect.h - what libmallow-attach.so and libmallow-attach-record.so have in common: a library in
 * a process that runs already makes the program's calls lead to its own functions, and back.
 *
 *   redirect.c  the bindings: those of all modules, and those to come
 *   locked.c    work that is done under the dynamic linker's lock
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

/* ---- redirect.c ---- */

struct binding {
    const char *name;
    const void *to;  /* ours */
    void **original; /* gets the program's; may be NULL */
    bool needed;     /* without it nothing is changed */
};

/* Asked of the library: two names may be one function; the first of them is what its callers are
 * led to. */
HIDDEN const struct binding *entry_bindings(unsigned *count);

/* Elements of that list. */
#define BINDING_OF(result, name, parameters, arguments, kind, found, boot, missing)                \
    {#name, entry_##name, (found) == NEXT_NEVER ? 0 : (void **)&next.name, (found) == NEXT_FIRST},
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

/* Finds what the program's calls lead to. False: a needed one is missing. */
HIDDEN bool redirect_find(void);
/* Makes them lead to ours, or back. How many bindings were changed; -1: some could not be. The
 * caller holds the dynamic linker's lock. */
HIDDEN long redirect_all(bool to_ours);
/* What the program's calls of that name led to; NULL: not one of ours. */
HIDDEN void *redirect_original(const char *name);

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
