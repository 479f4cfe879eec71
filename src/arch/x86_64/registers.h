/* registers.h - rsp, rbp, fs. */
#ifndef MALLOW_ARCH_X86_64_REGISTERS_H
#define MALLOW_ARCH_X86_64_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Numbers in DWARF's tables (System V ABI, AMD64 supplement): frame pointer, stack pointer, return
 * address. */
enum { ARCH_DWARF_FP = 6, ARCH_DWARF_SP = 7, ARCH_DWARF_RA = 16 };

/* By which a thread finds its thread-local memory: the word at fs:0 holds it. */
static inline __attribute__((always_inline, unused)) uint64_t arch_thread_pointer(void)
{
    uint64_t fs;
    __asm__("mov %%fs:0, %0" : "=r"(fs));
    return fs;
}

/* True if the access that faulted was a write. */
static inline __attribute__((unused)) bool arch_fault_was_write(const ucontext_t *context)
{
    return context->uc_mcontext.gregs[REG_ERR] & 2;
}

/* Faults. */
static inline __attribute__((always_inline, unused)) void arch_fault(void)
{
    __asm__ volatile("movb $0, 0" ::: "memory");
}

#endif
