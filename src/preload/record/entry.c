/* entry.c - the interposed symbols.
 *
 * Each is a few instructions: one load and one predictable branch when recording is off, then a
 * jump to the allocator behind us; when it is on, a jump to record.c with rsp and rbp as two more
 * arguments, so that no frame of ours stands between the caller and the unwinder. */
#include "recorder.h"

struct wiped_state wiped __attribute__((aligned(4096))) HIDDEN;
static uint8_t wiped_rest[4096 - sizeof(struct wiped_state)] __attribute__((used));

/* A symbol: `active` with rsp and rbp in two argument registers when recording is on, else *next.
 * At the very first call, and at the first in the child of a fork, process_wake runs before. */
#define ENTRY(name, offset, active, sp_register, bp_register)                                      \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " name "\n.type " name ", @function\n.p2align 5\n" name ":\n.cfi_startproc\n"  \
            "  mov wiped(%rip), %rax\n"                                                            \
            "  test %rax, %rax\n"                                                                  \
            "  jz 2f\n"                                                                            \
            "1:testb $4, (%rax)\n" /* MLW_CTL_ACTIVE */                                            \
            "  jz 3f\n"                                                                            \
            "  mov %rsp, %" sp_register "\n"                                                       \
            "  mov %rbp, %" bp_register "\n"                                                       \
            "  jmp " active "\n"                                                                   \
            "2:call entry_wake\n"                                                                  \
            "  mov wiped(%rip), %rax\n"                                                            \
            "  test %rax, %rax\n"                                                                  \
            "  jnz 1b\n"                                                                           \
            "3:jmp *next+" offset "(%rip)\n"                                                       \
            ".cfi_endproc\n.size " name ", .-" name "\n.popsection\n")

/* process_wake with every argument register kept. */
__asm__(".pushsection .text\n"
        ".type entry_wake, @function\n.p2align 4\nentry_wake:\n.cfi_startproc\n"
        "  push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "  mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n"
        "  and $-16, %rsp\n"
        "  call process_wake\n"
        "  lea -48(%rbp), %rsp\n"
        "  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        "  pop %rbp\n.cfi_def_cfa %rsp, 8\n"
        "  ret\n.cfi_endproc\n.size entry_wake, .-entry_wake\n.popsection\n");

_Static_assert(MLW_CTL_ACTIVE == 4, "the assembly tests this bit");
#define AT(field, offset)                                                                          \
    _Static_assert(offsetof(struct next_functions, field) == offset, "the assembly jumps there")

AT(malloc, 0);
AT(calloc, 8);
AT(realloc, 16);
AT(reallocarray, 24);
AT(free, 32);
AT(posix_memalign, 40);
AT(aligned_alloc, 48);
AT(memalign, 56);
AT(valloc, 64);
AT(pvalloc, 72);
AT(free_sized, 80);
AT(free_aligned_sized, 88);
AT(malloc_usable_size, 96);

ENTRY("malloc", "0", "record_malloc", "rsi", "rdx");
ENTRY("calloc", "8", "record_calloc", "rdx", "rcx");
ENTRY("realloc", "16", "record_realloc", "rdx", "rcx");
ENTRY("reallocarray", "24", "record_reallocarray", "rcx", "r8");
ENTRY("free", "32", "record_free", "rsi", "rdx");
ENTRY("posix_memalign", "40", "record_posix_memalign", "rcx", "r8");
ENTRY("aligned_alloc", "48", "record_aligned_alloc", "rdx", "rcx");
ENTRY("memalign", "56", "record_memalign", "rdx", "rcx");
ENTRY("valloc", "64", "record_valloc", "rsi", "rdx");
ENTRY("pvalloc", "72", "record_pvalloc", "rsi", "rdx");
ENTRY("free_sized", "80", "record_free_sized", "rdx", "rcx");
ENTRY("free_aligned_sized", "88", "record_free_aligned_sized", "rcx", "r8");
ENTRY("malloc_usable_size", "96", "record_malloc_usable_size", "rsi", "rdx");
/* glibc's old name for free, which a few old programs use */
ENTRY("cfree", "32", "record_free", "rsi", "rdx");

/* jemalloc's own functions: not exported, see redirect.c. */
AT(mallocx, 144);
AT(rallocx, 152);
AT(xallocx, 160);
AT(dallocx, 176);
AT(sdallocx, 184);
#define JEMALLOC(name, offset, sp_register, bp_register)                                           \
    extern const char entry_##name[] HIDDEN;                                                       \
    __asm__(".hidden entry_" #name);                                                               \
    ENTRY("entry_" #name, offset, "record_" #name, sp_register, bp_register)
JEMALLOC(mallocx, "144", "rdx", "rcx");
JEMALLOC(rallocx, "152", "rcx", "r8");
JEMALLOC(xallocx, "160", "r8", "r9");
JEMALLOC(dallocx, "176", "rdx", "rcx");
JEMALLOC(sdallocx, "184", "rcx", "r8");

bool entry_jemalloc(void)
{
#define TO_OURS(name)                                                                              \
    {                                                                                              \
#name, entry_##name, (void **)&next.name                                                   \
    }
    static const struct redirection list[] = {TO_OURS(mallocx), TO_OURS(rallocx), TO_OURS(xallocx),
                                              TO_OURS(dallocx), TO_OURS(sdallocx)};
    return redirect(list, sizeof list / sizeof *list) != REDIRECT_REFUSED;
}
