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

/* The work of an entry, in two forms. The one that is assembled into it is a jump to the general
 * form, which finds everything through memory. The fast form has the thread-local offset, the range
 * and the allocator in its instructions: a template, and the places to fill in. */
enum fix { FIX_END = 0, FIX_THREAD = 1, FIX_START = 2, FIX_BYTES = 3, FIX_TARGET = 4 };
#define FIX(kind, back)                                                                            \
    "6:.pushsection .rodata.fixes,\"a\"\n.byte 6b - " back " - 7b, " kind "\n.popsection\n"

#define ENTRY(name, general, fast, offset, slow, sp_register, bp_register)                         \
    __asm__(".pushsection .rodata.fixes,\"a\"\n5:\n.popsection\n"                                  \
            ".pushsection .rodata.fast,\"a\"\n7:\n" fast "8:\n.popsection\n"                       \
            ".pushsection .rodata.fixes,\"a\"\n.byte 0, 0\n.popsection\n"                          \
            ".pushsection .text\n"                                                                 \
            ".globl " name "\n.type " name ", @function\n.p2align 5\n" name                        \
            ":\n.cfi_startproc\n4:.byte 0xe9\n.long 2f - . - 4\n.skip 8b - 7b - 5, 0xcc\n"         \
            "1:mov %rsp, %" sp_register "\n"                                                       \
            "  mov %rbp, %" bp_register "\n"                                                       \
            "  jmp " slow "\n"                                                                     \
            ".cfi_endproc\n.size " name ", .-" name "\n"                                           \
            ".pushsection .text.general,\"ax\"\n.p2align 4\n2:.cfi_startproc\n" general            \
            "3:jmp *next+" offset "(%rip)\n.cfi_endproc\n.popsection\n"                            \
            ".pushsection .rodata.entries,\"a\"\n"                                                 \
            ".long 4b - ., 7b - ., 8b - 7b, 5b - ., " offset "\n.popsection\n.popsection\n")

/* Takes the register's value off; goes to 1 when that is more than there is. */
#define SPEND(size_register)                                                                       \
    "  mov watch_thread@gottpoff(%rip), %rax\n"                                                    \
    "  sub %" size_register ", %fs:(%rax)\n"                                                       \
    "  jb 1b\n"
#define SPEND_FAST(size_register) "  sub %" size_register ", %fs:0\n" FIX("1", "4")
#define NOT_LESS                  "  .byte 0x0f, 0x83\n  .long 0\n" FIX("4", "4") /* jae */
/* Goes to 1 when the address in the register lies in the range. */
#define RANGE                                                                                      \
    "  mov %rdi, %rax\n"                                                                           \
    "  sub block_range(%rip), %rax\n"                                                              \
    "  cmp block_range+8(%rip), %rax\n"                                                            \
    "  jb 1b\n"
#define RANGE_FAST /* of units, 32 bits of which an address fits into */                           \
    "  mov %rdi, %rax\n"                                                                           \
    "  shr $16, %rax\n"                                                                            \
    "  sub $0x7fffffff, %eax\n" FIX("2", "4") "  cmp $0x7fffffff, %eax\n" FIX("3", "4")
#define INSIDE "  jb 8f\n"
/* n * size in rax; what overflows goes on as it is, and fails. */
#define SPEND_PRODUCT                                                                              \
    "  mov %rdi, %rax\n"                                                                           \
    "  mul %rsi\n"                                                                                 \
    "  jo 3f\n"                                                                                    \
    "  mov watch_thread@gottpoff(%rip), %rcx\n"                                                    \
    "  sub %rax, %fs:(%rcx)\n"                                                                     \
    "  jb 1b\n"
#define SPEND_PRODUCT_FAST                                                                         \
    "  mov %rdi, %rax\n"                                                                           \
    "  mul %rsi\n"                                                                                 \
    "  .byte 0x0f, 0x80\n  .long 0\n" FIX("4", "4") /* jo */ SPEND_FAST("rax")

/* All of them in one page, which entry_direct makes writable: 1024 bytes, which .org holds to. */
__asm__(".pushsection .text\n.p2align 10\nentries_code:\n.popsection\n"
        ".pushsection .rodata.entries,\"a\"\n.p2align 2\nentries_first:\n.popsection\n");

#define MAKES(name, size, offset, slow, sp, bp)                                                    \
    ENTRY(name, SPEND(size), SPEND_FAST(size) NOT_LESS, offset, slow, sp, bp)
#define TAKES(name, offset, slow, sp, bp)                                                          \
    ENTRY(name, RANGE, RANGE_FAST NOT_LESS, offset, slow, sp, bp)
MAKES("malloc", "rdi", "0", "watch_malloc", "rsi", "rdx");
TAKES("free", "32", "watch_free", "rsi", "rdx");
ENTRY("calloc", SPEND_PRODUCT, SPEND_PRODUCT_FAST NOT_LESS, "8", "watch_calloc", "rdx", "rcx");
ENTRY("realloc", RANGE SPEND("rsi"), RANGE_FAST INSIDE SPEND_FAST("rsi") NOT_LESS, "16",
      "watch_realloc", "rdx", "rcx");
MAKES("posix_memalign", "rdx", "40", "watch_posix_memalign", "rcx", "r8");
MAKES("aligned_alloc", "rsi", "48", "watch_aligned_alloc", "rdx", "rcx");
MAKES("memalign", "rsi", "56", "watch_memalign", "rdx", "rcx");
MAKES("valloc", "rdi", "64", "watch_valloc", "rsi", "rdx");
MAKES("pvalloc", "rdi", "72", "watch_pvalloc", "rsi", "rdx");
TAKES("free_sized", "80", "watch_free_sized", "rdx", "rcx");
TAKES("free_aligned_sized", "88", "watch_free_aligned_sized", "rcx", "r8");
TAKES("malloc_usable_size", "96", "watch_malloc_usable_size", "rsi", "rdx");
/* glibc's old name for free, which a few old programs use */
TAKES("cfree", "32", "watch_free", "rsi", "rdx");
__asm__(".pushsection .rodata.entries,\"a\"\nentries_end:\n.popsection\n"
        ".pushsection .text\n.org entries_code + 1024, 0xcc\n.popsection\n");
/* Always in C. */
#define IN_C(name, slow, sp_register, bp_register)                                                 \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " name "\n.type " name ", @function\n.p2align 5\n" name ":\n.cfi_startproc\n"  \
            "  mov %rsp, %" sp_register "\n"                                                       \
            "  mov %rbp, %" bp_register "\n"                                                       \
            "  jmp " slow "\n"                                                                     \
            ".cfi_endproc\n.size " name ", .-" name "\n.popsection\n")
IN_C("reallocarray", "watch_reallocarray", "rcx", "r8");

/* jemalloc's own functions: not exported, see redirect.c. */
#define JEMALLOC(name, sp_register, bp_register)                                                   \
    extern const char entry_##name[] HIDDEN;                                                       \
    __asm__(".hidden entry_" #name);                                                               \
    IN_C("entry_" #name, "watch_" #name, sp_register, bp_register)
JEMALLOC(mallocx, "rdx", "rcx");
JEMALLOC(rallocx, "rcx", "r8");
JEMALLOC(xallocx, "r8", "r9");
JEMALLOC(sallocx, "rdx", "rcx");
JEMALLOC(dallocx, "rdx", "rcx");
JEMALLOC(sdallocx, "rcx", "r8");

bool entry_jemalloc(void)
{
#define TO_OURS(name)                                                                              \
    {                                                                                              \
#name, entry_##name, (void **)&next.name                                                   \
    }
    static const struct redirection list[] = {TO_OURS(mallocx), TO_OURS(rallocx),
                                              TO_OURS(xallocx), TO_OURS(sallocx),
                                              TO_OURS(dallocx), TO_OURS(sdallocx)};
    return redirect(list, sizeof list / sizeof *list) != REDIRECT_REFUSED;
}

/* ---- the fast form ----
 *
 * Jumps through memory are most of what a pair of malloc and free costs here; the loads of the
 * general form are the most of the rest. Where the allocator is lies within 2 GB as a rule, but is
 * known only now, as are the range and where a thread has its part of us. So the fast form is
 * written over the entries, once, before there is a second thread: its first word last, by a single
 * store, so that a signal handler finds the one or the other. Whatever speaks against it (a kernel
 * or a filter that lets no code be written, a breakpoint) leaves the entry as it is. */

#define JUMP     0xe9 /* the first byte of an entry, unless a debugger put a breakpoint there */
#define FAST_MAX 48u
#define WORD     8u

struct entry { /* of the table that the entries make; places are from the word itself */
    int32_t at, template;
    uint32_t bytes;
    int32_t fixes;
    uint32_t next; /* offset in `next` */
};
extern const struct entry entries_first[] HIDDEN, entries_end[] HIDDEN;

#define PLACE(field) ((uint8_t *)(uintptr_t) & (field) + (field))

static bool fits(int64_t v) { return v == (int32_t)v; }

/* Writes the value of a fix into the template's copy, which will stand at `at`. False: it cannot be
 * had. */
static bool fix(uint8_t *copy, const uint8_t *at, unsigned where, enum fix kind, uint64_t target)
{
    int64_t v = 0;
    switch (kind) {
    case FIX_THREAD:
        v = (int64_t)((uint64_t)&watch_thread - (uint64_t)__builtin_thread_pointer());
        break;
    case FIX_START: v = (int64_t)(block_range.start / BLOCK_RANGE_UNIT); break;
    case FIX_BYTES: v = (int64_t)(block_range.bytes / BLOCK_RANGE_UNIT); break;
    default: v = (int64_t)(target - (uint64_t)(at + where + 4)); break;
    }
    int32_t word = (int32_t)v;
    memcpy(copy + where, &word, sizeof word);
    return fits(v);
}

static void write_entry(const struct entry *e)
{
    uint64_t copy[FAST_MAX / WORD], target;
    uint8_t *at = PLACE(e->at), *bytes = (uint8_t *)copy;
    if (e->bytes > FAST_MAX || *at != JUMP)
        return;
    memcpy(&target, (const uint8_t *)&next + e->next, sizeof target);
    memcpy(copy, at, sizeof copy);
    memcpy(copy, PLACE(e->template), e->bytes);
    for (const uint8_t *f = PLACE(e->fixes); f[1] != FIX_END; f += 2)
        if (!fix(bytes, at, f[0], f[1], target))
            return;
    for (unsigned i = (e->bytes + WORD - 1) / WORD; i-- > 0;)
        __asm__ volatile("movq %1, %0"
                         : "=m"(((uint64_t *)(void *)at)[i])
                         : "r"(copy[i])
                         : "memory");
}

void entry_direct(void)
{
    const struct entry *first = entries_first, *end = entries_end;
    void *page = (void *)((uint64_t)PLACE(first->at) & ~(PAGE - 1));
    /* never without PROT_EXEC, which might not be had again */
    if (sys_mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
        return;
    for (const struct entry *e = first; e < end; e++)
        write_entry(e);
    sys_mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}
