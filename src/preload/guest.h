/* guest.h - what the preloaded libraries have in common: the allocator behind them, and calls of
 * the program that a guest must hear of.
 *
 *   guest/functions.h  the functions that we stand before
 *   guest/next.c       the allocator behind us, and what must work before it is known
 *   guest/exec.c       exec, posix_spawn: what becomes another program
 *   guest/ending.c     the end of a process without destructors
 *   guest/sandbox.c    seccomp: which calls of ours a program's filter would kill it for
 *   guest/syscall.c    syscall(2), and which of its calls we must hear of
 *   guest/say.c        a line on standard error
 *   guest/way.c        the way to a file that the environment names
 *   guest/cxx.c        C++'s new and delete, seen once whatever library has them
 *   guest/redirect.c   functions of the allocator that must not be exported
 *   guest/bindings.c   the ways past us to those that are (bindings.h)
 *   guest/module.c     loaded modules: their symbols and bindings (module.h)
 *   guest/module_write.c  changes of them
 *   guest/namespace.c  the pid namespace of this process, and the linker's
 *   guest/text.c       memcpy, strlen and their like, which a program may define
 *   guest/time.c       the kernel's clocks
 *   guest/clock.c      the clock, also where it may not be asked
 *
 * The first six are linked into each library; module.c, text.c and
 * time.c too; way.c, bindings.c and module_write.c
 * into all but libmallow-arenas.so; cxx.c, redirect.c and namespace.c into libmallow-record.so and
 * libmallow-watch.so, clock.c into libmallow-watch.so and libmallow-arenas.so. What they need of
 * the library that they are in, they ask through the guest_* functions below. Any thread, any
 * signal handler may be inside any of them.
 */
#ifndef MALLOW_PRELOAD_GUEST_H
#define MALLOW_PRELOAD_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "preload/guest/functions.h"

#define HIDDEN      __attribute__((visibility("hidden")))
#define EXPORT      __attribute__((visibility("default")))
#define TLS         __thread __attribute__((tls_model("initial-exec")))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- what the program's calls lead to ---- */

/* The head of a function that stands before one of the program's. Inside the library it is
 * entry_NAME, which no program can define; NAME is an alias of it that a preloaded library shows
 * and that no code of ours uses. A library that is attached shows none. */
#define INTERPOSED(result, name, ...)                                                              \
    HIDDEN result entry_##name(__VA_ARGS__);                                                       \
    SHOWN_AS(name, entry_##name)                                                                   \
    result entry_##name(__VA_ARGS__)
#ifdef MALLOW_ATTACHED
#define SHOWN_AS(name, function)
#else
#define SHOWN_AS(name, function)                                                                   \
    extern __typeof__(function) shown_##name __asm__(#name)                                        \
        __attribute__((alias(#function), visibility("default")));
#endif

/* ---- next.c ---- */

struct next_functions {
#define NEXT_MEMBER(result, name, parameters, ...) result(*name) parameters;
    NEXT_FUNCTIONS(NEXT_MEMBER)
#undef NEXT_MEMBER
};

/* Before next_resolve has run these point to a small allocator of our own (never freed). */
extern HIDDEN struct next_functions next;

/* Finds the functions behind us. Safe to be re-entered: calls that come in while it runs are served
 * by the small allocator. Returns true once they are known. */
HIDDEN bool next_resolve(void);

/* Facts about the allocator behind us. */
struct next_facts {
    bool glibc;           /* blocks have glibc's chunk headers */
    bool glibc_behind;    /* the allocator is glibc's, though some blocks may be of before it */
    unsigned glibc_minor; /* MINOR of glibc 2.MINOR */
    bool huge_heaps;      /* glibc: heaps may be of huge pages: their words are to be checked */
    uint64_t heap_bytes;  /* glibc: of the heaps of arenas but the main one, which begin at
                             multiples of it; 0: not known */
    uint64_t start, end;  /* where its code is: its own mmap calls are not the program's */
    void *const *curbrk;  /* glibc's __curbrk */
    void *dl_find_object;
    void *stack_end; /* value of __libc_stack_end */
    char name[64];   /* "glibc 2.36", "jemalloc", or the file's name */
};
extern HIDDEN struct next_facts next_facts;

/* True if the block is of before the allocator behind us was known: see glibc_behind. */
HIDDEN bool next_is_early(const void *p);
/* The function that was found for that member of `next`: `next` itself may lead to a function of
 * ours that also knows blocks of the small allocator. */
HIDDEN void *next_behind(void **member);
/* The result of dlsym(RTLD_NEXT, name), for functions that we forward; dlerror is left alone. */
HIDDEN void *next_symbol(const char *name);
/* The same, of the names that were searched for at the beginning; NULL: not that one, or not yet.
 */
HIDDEN void *next_later(const char *name);
/* The same in a library that is loaded already, wherever; NULL when it is not. */
HIDDEN void *next_loaded(const char *library, const char *name);

/* ---- redirect.c ---- */

struct redirection {
    const char *name;
    const void *to; /* ours */
    void **from;    /* gets the allocator's, when it has one; not NULL */
};
#define REDIRECTIONS_MAX 64u

enum redirected {
    REDIRECT_NOTHING, /* the allocator behind us has none of them */
    REDIRECT_DONE,
    REDIRECT_REFUSED /* some calls may still reach the allocator directly */
};

/* Makes the program call ours instead of functions of the allocator that cannot be exported,
 * whatever way it finds them: of those that it has, and sets their *from. Changes the allocator's
 * symbol table and its bindings; for the start of a process, after next_resolve. */
HIDDEN enum redirected redirect(const struct redirection *list, unsigned count);

/* ---- asked of the library ---- */

struct sock_fprog;

/* exec.c: whether children and successors are to be followed: the process has joined, and its
 * settings do not say otherwise. */
HIDDEN bool guest_follows(void);
/* The variables that an exec must carry over, "NAME=" each, LD_PRELOAD= first; count entries. */
HIDDEN const char *const *guest_carried(unsigned *count);
#define GUEST_CARRIED_MAX 12u
/* Part of the library's file name, by which LD_PRELOAD is known to have it. */
HIDDEN const char *guest_library(void);
/* An exec of this file ("": not by its name) is about to be tried; it failed. */
HIDDEN void guest_exec(const char *path);
HIDDEN void guest_exec_failed(void);
/* A program was started from this file, by posix_spawn. */
HIDDEN void guest_spawned(const char *path);
/* Before an exec or a spawn: what the new program must find in its environment besides, a variable
 * that replaces one of its name; or NULL. Afterwards, if the caller goes on: guest_not_handed. */
HIDDEN const char *guest_hand_on(void);
HIDDEN void guest_not_handed(void);

/* sandbox.c: every system call that the library makes, with the arguments that filters look at. A
 * number may stand there more than once. */
struct guest_call {
    int number;
    uint64_t argument[4];
};
HIDDEN const struct guest_call *guest_calls(unsigned *count);
/* A filter (NULL: strict mode) is about to be installed under which one of those calls would harm
 * the program. After this function has returned none is made any more (sys.h): the last chance to
 * prepare. Also called for further filters, when the door is closed already. */
HIDDEN void guest_confine(const struct sock_fprog *program);
/* The kernel refused the filter that guest_confine was called for; the door is as it was. */
HIDDEN void guest_not_confined(void);
/* Any other system call is about to be made by way of syscall(2), with these arguments. */
HIDDEN void guest_asks(long number, long a, long b, long c);
/* mmap, munmap, mremap or brk by way of syscall(2): made by `real`, whose result it gives. Only a
 * library that follows the program's mappings has one of its own. sp, bp: see NEXT_GOES_ON. */
typedef long guest_real_syscall(long, ...);
HIDDEN long guest_maps(guest_real_syscall *real, long number, const long a[6], uint64_t sp,
                       uint64_t bp);
/* The time stamp counter is about to be withheld. */
HIDDEN void guest_clock_withheld(void);
/* seccomp, prctl, execve or execveat by way of syscall(2), made by `real`. */
HIDDEN long sandbox_syscall(guest_real_syscall *real, long number, const long a[6]);

/* ending.c: the process is about to end without destructors; handlers: those of quick_exit are
 * still to run. */
HIDDEN void guest_ending(int status, bool handlers);

/* ---- say.c ---- */

/* Writes n bytes to standard error as far as possible without blocking; raises no signal. */
HIDDEN void guest_say(const char *text, size_t n);

/* ---- way.c ---- */

/* The directory in which the last component of an absolute path stands, as a descriptor that serves
 * openat and the like, and is the caller's; *name is that component, in the path. -errno; -ELOOP: a
 * symbolic link of another user than root and the effective one is on the way, or one of /proc. The
 * last component is not looked at: open it with O_NOFOLLOW. */
HIDDEN long guest_way(const char *path, const char **name);
#define GUEST_WAY_FLAGS (O_PATH | O_NOFOLLOW | O_CLOEXEC)

/* ---- exec.c, for the library ---- */

/* From now on programs that are started get this assignment of the i-th carried variable, which
 * stays where it is; "": none. For a library that the environment did not bring. */
HIDDEN void exec_keep(unsigned i, char *assignment);

/* The value of a variable of the environment, or NULL; the environment's own text. */
HIDDEN const char *guest_setting(const char *name);

/* The door of sys.h is about to close: takes this library out of LD_PRELOAD in the program's
 * environment, in place, since the loader of a program that is started then, by whatever way, makes
 * the library begin under the filter. The other: puts it back. */
HIDDEN void guest_leave_environment(void);
HIDDEN void guest_return_to_environment(void);
/* execve and execveat by way of syscall(2), whose number and arguments these are. */
HIDDEN long guest_exec_syscall(guest_real_syscall *real, long number, const long a[6]);

/* ---- sandbox.c, for the library ---- */

/* True if a system call with these arguments leaves the program alone under the filter: it is made,
 * or fails. NULL, strict mode: never. */
HIDDEN bool sandbox_harmless(const struct sock_fprog *program, int number,
                             const uint64_t argument[4]);
/* An exec from a process whose door was closed leads here, under a filter that is otherwise
 * unknown: the library stays off. Closes the door then. To be asked before the first system
 * call. */
HIDDEN bool sandbox_inherited(void);
#define GUEST_CONFINED "MALLOW_CONFINED=1" /* put into the environment of such an exec */

/* ---- time.c: a clock of the kernel's; 0 where it cannot be asked. No system call, where the
 * machine's clock can be read, and no function of libc. Any thread. ---- */

HIDDEN void guest_gettime(clockid_t clock, struct timespec *to);

/* ---- clock.c, of the libraries that sample: CLOCK_MONOTONIC in ns, without a system call ---- */

HIDDEN uint64_t guest_clock(void);
HIDDEN void guest_clock_begin(void);   /* once, at the start */
HIDDEN void guest_clock_confine(void); /* before the door closes to clock_gettime */
HIDDEN void guest_clock_freeze(void);  /* before the time stamp counter is withheld */
HIDDEN void guest_clock_restore(void); /* neither came to be */

/* ---- cxx.c: rsp and rbp of the caller of new and delete ---- */

HIDDEN void *guest_new(size_t size, uint64_t sp, uint64_t bp);
HIDDEN void *guest_new_aligned(size_t align, size_t size, uint64_t sp, uint64_t bp);
HIDDEN void guest_delete(void *p, uint64_t sp, uint64_t bp);

/* ---- namespace.c ---- */

/* The linker's namespaces behind the program's own (dlmopen, an auditor): before NULL: the first of
 * them; NULL: there is no further one, or glibc is older than 2.35. Read without the linker's lock:
 * what r_map leads to may go at any moment. guest_namespaces_begin once before. */
struct r_debug;
HIDDEN void guest_namespaces_begin(void);
HIDDEN const struct r_debug *guest_next_namespace(const struct r_debug *before);

/* The number of the pid namespace in which this process's id is its own, by which readers know
 * whether ids are theirs; 0: it cannot be seen. */
HIDDEN uint64_t guest_pid_namespace(void);

#endif
