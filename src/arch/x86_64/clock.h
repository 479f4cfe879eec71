/* clock.h - the time stamp counter. */
#ifndef MALLOW_ARCH_X86_64_CLOCK_H
#define MALLOW_ARCH_X86_64_CLOCK_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

#define ARCH_CLOCK_INLINE static inline __attribute__((always_inline, unused))

ARCH_CLOCK_INLINE uint64_t arch_clock(void) { return __builtin_ia32_rdtsc(); }

/* True if it counts at one rate whatever the processor does. Not whether the kernel trusts it. */
static inline __attribute__((unused)) bool arch_clock_is_invariant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && d & 1u << 8;
}

/* A reading that no later access to memory passes, */
ARCH_CLOCK_INLINE uint64_t arch_clock_ordered(void)
{
    uint32_t lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi)::"memory");
    return (uint64_t)hi << 32 | lo;
}

/* one before the code that is timed, and one behind it: all of that is done, nothing more begun. */
ARCH_CLOCK_INLINE uint64_t arch_clock_before(void)
{
    __asm__ volatile("lfence" ::: "memory");
    return arch_clock_ordered();
}
ARCH_CLOCK_INLINE uint64_t arch_clock_after(void)
{
    uint32_t lo, hi;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(lo), "=d"(hi)::"rcx", "memory");
    return (uint64_t)hi << 32 | lo;
}

/* In a loop that waits for another processor. */
ARCH_CLOCK_INLINE void arch_pause(void) { __builtin_ia32_pause(); }

#endif
