/* entry.c - the interposed symbols.
 *
 * A call that makes a block subtracts its size from what its thread may allocate until the next
 * look; a call that takes one back asks whether the address lies in our range. Nearly always the
 * next instruction is the jump to the allocator behind us. The others go to sample.c, with rsp and
 * rbp as two more arguments, so that no frame of ours stands between the caller and the unwinder.
 */
#include <string.h>

#include "watcher.h"

_Static_assert(offsetof(struct watch_thread, left) == 0, "the assembly subtracts there");
_Static_assert(offsetof(struct block_range, start) == 0 && offsetof(struct block_range, bytes) == 8,
               "the assembly compares with these");
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
AT(malloc_usable_size, 96);

#define ENTRY(name, test, offset, slow, sp_register, bp_register)                                  \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " name "\n.type " name ", @function\n.p2align 5\n" name                        \
            ":\n.cfi_startproc\n" test "3:jmp *next+" offset "(%rip)\n"                            \
            "1:mov %rsp, %" sp_register "\n"                                                       \
            "  mov %rbp, %" bp_register "\n"                                                       \
            "  jmp " slow "\n"                                                                     \
            ".cfi_endproc\n.size " name ", .-" name "\n"                                           \
            ".pushsection .rodata.jumps,\"a\"\n.long 3b - ., " offset                              \
            "\n.popsection\n.popsection\n")

/* Takes the register's value off; goes to 1 when that is more than there is. */
#define SPEND(size_register)                                                                       \
    "  mov watch_thread@gottpoff(%rip), %rax\n"                                                    \
    "  sub %" size_register ", %fs:(%rax)\n"                                                       \
    "  jb 1f\n"
/* Goes to 1 when the address in the register lies in the range. */
#define RANGE(register)                                                                            \
    "  mov %" register ", %rax\n"                                                                  \
                       "  sub block_range(%rip), %rax\n"                                           \
                       "  cmp block_range+8(%rip), %rax\n"                                         \
                       "  jb 1f\n"
/* n * size in rax; what overflows goes on as it is, and fails. */
#define SPEND_PRODUCT                                                                              \
    "  mov %rdi, %rax\n"                                                                           \
    "  mul %rsi\n"                                                                                 \
    "  jo 2f\n"                                                                                    \
    "  mov watch_thread@gottpoff(%rip), %rcx\n"                                                    \
    "  sub %rax, %fs:(%rcx)\n"                                                                     \
    "  jb 1f\n"                                                                                    \
    "2:"

/* All of them in one page. */
__asm__(".pushsection .text\n.p2align 9\n.popsection\n"
        ".pushsection .rodata.jumps,\"a\"\n.p2align 2\njumps_first:\n.popsection\n");

ENTRY("malloc", SPEND("rdi"), "0", "watch_malloc", "rsi", "rdx");
ENTRY("calloc", SPEND_PRODUCT, "8", "watch_calloc", "rdx", "rcx");
ENTRY("realloc", RANGE("rdi") SPEND("rsi"), "16", "watch_realloc", "rdx", "rcx");
ENTRY("free", RANGE("rdi"), "32", "watch_free", "rsi", "rdx");
ENTRY("posix_memalign", SPEND("rdx"), "40", "watch_posix_memalign", "rcx", "r8");
ENTRY("aligned_alloc", SPEND("rsi"), "48", "watch_aligned_alloc", "rdx", "rcx");
ENTRY("memalign", SPEND("rsi"), "56", "watch_memalign", "rdx", "rcx");
ENTRY("valloc", SPEND("rdi"), "64", "watch_valloc", "rsi", "rdx");
ENTRY("pvalloc", SPEND("rdi"), "72", "watch_pvalloc", "rsi", "rdx");
ENTRY("free_sized", RANGE("rdi"), "80", "watch_free_sized", "rdx", "rcx");
ENTRY("free_aligned_sized", RANGE("rdi"), "88", "watch_free_aligned_sized", "rcx", "r8");
ENTRY("malloc_usable_size", RANGE("rdi"), "96", "watch_malloc_usable_size", "rsi", "rdx");
/* glibc's old name for free, which a few old programs use */
ENTRY("cfree", RANGE("rdi"), "32", "watch_free", "rsi", "rdx");
__asm__(".pushsection .rodata.jumps,\"a\"\njumps_end:\n.popsection\n");
/* rare: always in C */
__asm__(".pushsection .text\n"
        ".globl reallocarray\n.type reallocarray, @function\n.p2align 5\nreallocarray:\n"
        ".cfi_startproc\n"
        "  mov %rsp, %rcx\n"
        "  mov %rbp, %r8\n"
        "  jmp watch_reallocarray\n"
        ".cfi_endproc\n.size reallocarray, .-reallocarray\n.popsection\n");

/* ---- direct jumps ----
 *
 * A jump through memory costs 0.3 ns more than a direct one, which is a third of all that a pair of
 * malloc and free costs here. Where the allocator is lies within 2 GB as a rule, but is known only
 * now. So the jumps are rewritten, once, before there is a second thread: each by a single store,
 * so that a signal handler finds the one or the other. Whatever speaks against it (a kernel or a
 * filter that lets no code be written) leaves them as they are. */

#define JUMP_BYTES 6u /* of jmp *disp32(%rip) */

struct jump {      /* of the table that the entries make */
    int32_t at;    /* from this word */
    uint32_t next; /* offset in `next` */
};
extern const struct jump jumps_first[] HIDDEN, jumps_end[] HIDDEN;

static uint8_t *place_of(const struct jump *j) { return (uint8_t *)(uintptr_t)&j->at + j->at; }

static void write_jump(uint8_t *at, uint64_t target)
{
    int64_t distance = (int64_t)(target - (uint64_t)(at + 5));
    uint64_t word;
    if (distance != (int32_t)distance)
        return;
    memcpy(&word, at, sizeof word);
    word = (word & ~0ull << 8 * JUMP_BYTES) | 0xe9 | (uint64_t)(uint32_t)distance << 8 |
           0xccull << 40; /* jmp rel32; int3, never reached */
    __asm__ volatile("movq %1, %0" : "=m"(*(uint64_t *)(void *)at) : "r"(word) : "memory");
}

void entry_direct(void)
{
    const struct jump *first = jumps_first, *end = jumps_end;
    void *page = (void *)((uint64_t)place_of(first) & ~(PAGE - 1));
    /* never without PROT_EXEC, which might not be had again */
    if (sys_mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
        return;
    for (const struct jump *j = first; j < end; j++) {
        uint64_t target;
        memcpy(&target, (const uint8_t *)&next + j->next, sizeof target);
        write_jump(place_of(j), target);
    }
    sys_mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}
