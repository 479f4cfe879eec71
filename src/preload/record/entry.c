/* entry.c - the interposed symbols; in libmallow-attach-record.so (MALLOW_ATTACHED), what the
 * program's bindings are made to lead to: the same under names that nothing binds to.
 *
 * Each is a few instructions: one load and one predictable branch when recording is off, then a
 * jump to the allocator behind us; when it is on, a jump to record.c with the stack and frame
 * pointer as two more arguments, so that no frame of ours stands between the caller and the
 * unwinder. */
#include "recorder.h"

#include "arch/entry.h"
#include "arch/page.h"

struct wiped_state wiped __attribute__((aligned(ARCH_PAGE_BYTES))) HIDDEN;
static uint8_t wiped_rest[ARCH_PAGE_BYTES - sizeof(struct wiped_state)] __attribute__((used));

ARCH_ENTRY_WAKE(process_wake);
_Static_assert(MLW_CTL_ACTIVE == ARCH_ENTRY_BIT, "the assembly tests this bit");
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

#ifdef MALLOW_ATTACHED
#define ENTRY(name, offset, active, arguments)                                                     \
    __asm__(".hidden entry_" #name);                                                               \
    ARCH_ENTRY_RECORDED("entry_" #name, offset, active, arguments)
#else
#define ENTRY(name, offset, active, arguments) ARCH_ENTRY_RECORDED(#name, offset, active, arguments)
#endif
ENTRY(malloc, "0", "record_malloc", 1);
ENTRY(calloc, "8", "record_calloc", 2);
ENTRY(realloc, "16", "record_realloc", 2);
ENTRY(reallocarray, "24", "record_reallocarray", 3);
ENTRY(free, "32", "record_free", 1);
ENTRY(posix_memalign, "40", "record_posix_memalign", 3);
ENTRY(aligned_alloc, "48", "record_aligned_alloc", 2);
ENTRY(memalign, "56", "record_memalign", 2);
ENTRY(valloc, "64", "record_valloc", 1);
ENTRY(pvalloc, "72", "record_pvalloc", 1);
ENTRY(free_sized, "80", "record_free_sized", 2);
ENTRY(free_aligned_sized, "88", "record_free_aligned_sized", 3);
ENTRY(malloc_usable_size, "96", "record_malloc_usable_size", 1);
/* glibc's old name for free, which a few old programs use */
ENTRY(cfree, "32", "record_free", 1);

#ifndef MALLOW_ATTACHED
/* jemalloc's own functions: not exported, see redirect.c. */
AT(mallocx, 144);
AT(rallocx, 152);
AT(xallocx, 160);
AT(dallocx, 176);
AT(sdallocx, 184);
#define JEMALLOC(name, offset, arguments)                                                          \
    extern const char entry_##name[] HIDDEN;                                                       \
    __asm__(".hidden entry_" #name);                                                               \
    ARCH_ENTRY_RECORDED("entry_" #name, offset, "record_" #name, arguments)
JEMALLOC(mallocx, "144", 2);
JEMALLOC(rallocx, "152", 3);
JEMALLOC(xallocx, "160", 4);
JEMALLOC(dallocx, "176", 2);
JEMALLOC(sdallocx, "184", 3);

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
#endif
