/* entry.c - the functions that the program's bindings lead to.
 *
 * As ../watch/entry.c, in its general form: a call that makes a block subtracts its size from what
 * its thread may allocate until the next look, and one that takes a block back looks whether its
 * address may be sampled. Nearly always the next instruction is the jump to the allocator. */
#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "attach.h"

_Static_assert(offsetof(struct watch_thread, left) == 0, "the assembly subtracts there");
#define AT(field, offset)                                                                          \
    _Static_assert(offsetof(struct next_functions, field) == offset, "the assembly jumps there")
AT(malloc, 0);
AT(calloc, 8);
AT(realloc, 16);
AT(free, 32);
AT(posix_memalign, 40);
AT(aligned_alloc, 48);
AT(memalign, 56);
AT(valloc, 64);
AT(pvalloc, 72);
AT(free_sized, 80);
AT(free_aligned_sized, 88);

#define ENTRY(name, work, slow, offset, sp_register, bp_register)                                  \
    extern const char entry_##name[] HIDDEN;                                                       \
    __asm__(".pushsection .text\n.hidden entry_" #name "\n.globl entry_" #name                     \
            "\n.type entry_" #name ", @function\n.p2align 5\nentry_" #name                         \
            ":\n.cfi_startproc\n" work "3:jmp *next+" offset "(%rip)\n"                            \
            "1:mov %rsp, %" sp_register "\n"                                                       \
            "  mov %rbp, %" bp_register "\n"                                                       \
            "  jmp " slow "\n"                                                                     \
            ".cfi_endproc\n.size entry_" #name ", .-entry_" #name "\n.popsection\n")

/* Takes the register's value off; goes to 1 when that is more than there is. */
#define SPEND(size_register)                                                                       \
    "  mov watch_thread@gottpoff(%rip), %rax\n"                                                    \
    "  sub %" size_register ", %fs:(%rax)\n"                                                       \
    "  jb 1f\n"
/* n * size in rax; what overflows goes on as it is, and fails. */
#define SPEND_PRODUCT                                                                              \
    "  mov %rdi, %rax\n"                                                                           \
    "  mul %rsi\n"                                                                                 \
    "  jo 3f\n"                                                                                    \
    "  mov watch_thread@gottpoff(%rip), %rcx\n"                                                    \
    "  sub %rax, %fs:(%rcx)\n"                                                                     \
    "  jb 1f\n"
/* Goes to 1 when the address in rdi may be a sampled block's. */
#define HELD                                                                                       \
    "  mov %rdi, %rax\n"                                                                           \
    "  shr $4, %rax\n"                                                                             \
    "  movzwl %ax, %eax\n"                                                                         \
    "  lea held_filter(%rip), %r11\n"                                                              \
    "  cmpb $0, (%r11,%rax)\n"                                                                     \
    "  jne 1f\n"

ENTRY(malloc, SPEND("rdi"), "watch_malloc", "0", "rsi", "rdx");
ENTRY(calloc, SPEND_PRODUCT, "watch_calloc", "8", "rdx", "rcx");
ENTRY(realloc, HELD SPEND("rsi"), "watch_realloc", "16", "rdx", "rcx");
ENTRY(free, HELD, "watch_free", "32", "rsi", "rdx");
ENTRY(posix_memalign, SPEND("rdx"), "watch_posix_memalign", "40", "rcx", "r8");
ENTRY(aligned_alloc, SPEND("rsi"), "watch_aligned_alloc", "48", "rdx", "rcx");
ENTRY(memalign, SPEND("rsi"), "watch_memalign", "56", "rdx", "rcx");
ENTRY(valloc, SPEND("rdi"), "watch_valloc", "64", "rsi", "rdx");
ENTRY(pvalloc, SPEND("rdi"), "watch_pvalloc", "72", "rsi", "rdx");
ENTRY(free_sized, HELD, "watch_free_sized", "80", "rdx", "rcx");
ENTRY(free_aligned_sized, HELD, "watch_free_aligned_sized", "88", "rcx", "r8");
/* Always in C. */
ENTRY(reallocarray, "  jmp 1f\n", "watch_reallocarray", "24", "rcx", "r8");

int dlclose(void *handle);
long syscall(long number, ...);

const struct binding *entry_bindings(unsigned *count)
{
#define TAKEN(f)                                                                                   \
    {                                                                                              \
#f, entry_##f, (void **)&next.f, false                                                     \
    }
#define NEEDED(f)                                                                                  \
    {                                                                                              \
#f, entry_##f, (void **)&next.f, true                                                      \
    }
#define OTHER(f)                                                                                   \
    {                                                                                              \
#f, (const void *)(uintptr_t)f, 0, false                                                   \
    }
    static const struct binding list[] = {
        /* two names may be one function: the first of them is what its callers are led to */
        NEEDED(free),
        NEEDED(realloc),
        NEEDED(calloc),
        NEEDED(malloc),
        {"reallocarray", entry_reallocarray, 0, false},
        TAKEN(free_sized),
        TAKEN(free_aligned_sized),
        TAKEN(posix_memalign),
        TAKEN(aligned_alloc),
        TAKEN(memalign),
        TAKEN(valloc),
        TAKEN(pvalloc),
        /* the end of an image, and its successors */
        OTHER(_exit),
        OTHER(_Exit),
        OTHER(quick_exit),
        OTHER(execl),
        OTHER(execle),
        OTHER(execlp),
        OTHER(execv),
        OTHER(execve),
        OTHER(execvp),
        OTHER(execvpe),
        OTHER(execveat),
        OTHER(fexecve),
        OTHER(posix_spawn),
        OTHER(posix_spawnp),
        /* modules vanish; system calls become forbidden */
        OTHER(dlclose),
        OTHER(prctl),
        OTHER(syscall)};
    *count = sizeof list / sizeof *list;
    return list;
}
