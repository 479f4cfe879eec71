/* syscall.h - the instruction `syscall`. */
#ifndef MALLOW_ARCH_X86_64_SYSCALL_H
#define MALLOW_ARCH_X86_64_SYSCALL_H

#define ARCH_AUDIT AUDIT_ARCH_X86_64 /* the value of seccomp_data.arch */

/* Returns the kernel's result: -errno on failure. */
static inline __attribute__((always_inline, unused)) long
arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

#endif
