/* syscall.c - syscall(2) as the program calls it.
 *
 * A call that we need not hear of jumps on to libc's, as from the program itself: after a clone or
 * a vfork no frame of ours is on a stack that two processes use. Compiled with frame pointers,
 * which is how the caller's stack is found. */
#include <sys/syscall.h>

#include "arch/stack.h"
#include "preload/guest.h"

__attribute__((weak)) long guest_maps(guest_real_syscall *real, long number, const long a[6],
                                      uint64_t sp, uint64_t bp)
{
    (void)sp, (void)bp;
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Apart, for its array: a function with one does not jump on. */
static ARCH_ALIGNS_STACK long heard(guest_real_syscall *real, long number, long a, long b, long c,
                                    long d, long e, long f, uint64_t sp, uint64_t bp)
{
    const long all[6] = {a, b, c, d, e, f};
    switch (number) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_brk: return guest_maps(real, number, all, sp, bp);
    default: return sandbox_syscall(real, number, all);
    }
}

static guest_real_syscall *libc_syscall(void)
{
    static guest_real_syscall *real;
    if (!real)
        real = (guest_real_syscall *)(uintptr_t)next_symbol("syscall");
    return real;
}

/* A program may make its first such call in a signal handler, where dlsym must not be asked. */
static __attribute__((constructor(102))) void begin(void) { (void)libc_syscall(); }

INTERPOSED(long, syscall, long number, long a, long b, long c, long d, long e, long f)
{
    guest_real_syscall *real = libc_syscall();
    switch (number) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_brk:
    case SYS_execve:
    case SYS_execveat:
    case SYS_prctl:
    case SYS_seccomp:
        return heard(real, number, a, b, c, d, e, f, (uint64_t)__builtin_frame_address(0) + 8,
                     *(const uint64_t *)__builtin_frame_address(0));
    default: guest_asks(number, a, b, c); return real(number, a, b, c, d, e, f);
    }
}
