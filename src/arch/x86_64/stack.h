/* stack.h - the System V ABI wants a stack pointer that is a multiple of 16 at each call, and the
 * direction flag clear; a caller may come otherwise. */
#ifndef MALLOW_ARCH_X86_64_STACK_H
#define MALLOW_ARCH_X86_64_STACK_H

#include <stdbool.h>

/* A function that aligns the stack for itself and for all that it calls. Its frame address is not
 * its caller's stack any more. */
#define ARCH_ALIGNS_STACK __attribute__((force_align_arg_pointer, noinline))

/* Lets string instructions go forwards, which C counts on. Whether they went backwards:
 * arch_backwards(true) then puts that back. */
static inline __attribute__((always_inline, unused)) bool arch_forwards(void)
{
    if (__builtin_expect(!(__builtin_ia32_readeflags_u64() & 0x400), 1))
        return false;
    __asm__ volatile("cld" ::: "memory");
    return true;
}

static inline __attribute__((always_inline, unused)) void arch_backwards(bool was)
{
    if (__builtin_expect(was, 0))
        __asm__ volatile("std" ::: "memory");
}

#endif
