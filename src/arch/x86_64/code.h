/* code.h - calls and jumps in machine code. */
#ifndef MALLOW_ARCH_X86_64_CODE_H
#define MALLOW_ARCH_X86_64_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/x86_64/page.h"

/* True if the instruction before this return address, which lies in code, is a call. Bytes of the
 * page before are not read: it may not be there. */
static inline __attribute__((unused)) bool arch_follows_call(uint64_t pc)
{
    const uint8_t *c = (const uint8_t *)pc;
    if ((pc & (ARCH_PAGE_BYTES - 1)) < 7)
        return true;
    if (c[-5] == 0xe8)
        return true;
    for (int i = 2; i <= 7; i++) /* call by register or memory: ff /2 */
        if (c[-i] == 0xff && (c[-i + 1] & 0x38) == 0x10)
            return true;
    return false;
}

/* True of code at a return address that only ends the process, as Boost.Context puts below the
 * first function of each of its stacks: xor %rdi, %rdi; call _exit; hlt. */
#define ARCH_ENDING_CODE 9 /* bytes */
static inline __attribute__((unused)) bool arch_only_ends(const uint8_t code[ARCH_ENDING_CODE])
{
    return code[0] == 0x48 && code[1] == 0x31 && code[2] == 0xff && code[3] == 0xe8 &&
           code[8] == 0xf4;
}

/* The number of the system call that this code, which ends behind its instruction, makes; -1: the
 * number is not loaded right before it. */
#define ARCH_CALL_CODE 7 /* bytes */
static inline __attribute__((unused)) int32_t arch_call_number(const uint8_t code[ARCH_CALL_CODE])
{
    if (code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05) /* mov $N, %eax; syscall */
        return -1;
    return (int32_t)((uint32_t)code[1] | (uint32_t)code[2] << 8 | (uint32_t)code[3] << 16 |
                     (uint32_t)code[4] << 24);
}

/* Where that code takes the number from instead: so many bytes above the stack pointer; 0: it does
 * not. */
static inline __attribute__((unused)) uint32_t
arch_call_number_at(const uint8_t code[ARCH_CALL_CODE])
{
    static const uint8_t load[] = {0x48, 0x8b, 0x44, 0x24}; /* mov N(%rsp), %rax */
    for (unsigned i = 0; i < sizeof load; i++)
        if (code[i] != load[i])
            return 0;
    return code[5] == 0x0f && code[6] == 0x05 && code[4] < 0x80 ? code[4] : 0;
}

/* True of the end of glibc's own entry for calls that may be canceled (since 2.41): it has the
 * number as an argument, in a register that it writes over. */
static inline __attribute__((unused)) bool
arch_call_may_be_canceled(const uint8_t code[ARCH_CALL_CODE])
{
    static const uint8_t end[] = {0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05};
    for (unsigned i = 0; i < sizeof end; i++)
        if (code[i] != end[i])
            return false;
    return true;
}

/* True of code before a return address, if the call there is of a function at a fixed distance. */
static inline __attribute__((unused)) bool arch_ends_with_call(const uint8_t code[ARCH_CALL_CODE])
{
    return code[2] == 0xe8;
}

/* Code of libc's, by its bytes: a system call that returns; the return from a signal handler; two
 * that end a process. */
static const uint8_t arch_code_call[] __attribute__((unused)) = {0x0f, 0x05, 0xc3};
static const uint8_t arch_code_sigreturn[]
    __attribute__((unused)) = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
static const uint8_t arch_code_ends[2][7] __attribute__((unused)) = {
    {0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05}, {0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05}};

/* Replaces eight bytes of code that other threads may run, by one store. */
static inline __attribute__((always_inline, unused)) void arch_code_store(uint64_t *at,
                                                                          uint64_t word)
{
    __asm__ volatile("movq %1, %0" : "=m"(*at) : "r"(word) : "memory");
}

#endif
