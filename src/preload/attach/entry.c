/* entry.c - the functions that the program's bindings lead to.
 *
 * As ../watch/entry.c, in its general form: a call that makes a block subtracts its size from what
 * its thread may allocate until the next look, and one that takes a block back looks whether its
 * address may be sampled. Nearly always the next instruction is the jump to the allocator. */
#include "arch/entry.h"
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

ARCH_ENTRY_BOUND(malloc, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_1), "watch_malloc", "0", 1);
ARCH_ENTRY_BOUND(calloc, ARCH_SPEND_PRODUCT_AHEAD, "watch_calloc", "8", 2);
ARCH_ENTRY_BOUND(realloc, ARCH_HELD ARCH_SPEND_AHEAD(ARCH_ARGUMENT_2), "watch_realloc", "16", 2);
ARCH_ENTRY_BOUND(free, ARCH_HELD, "watch_free", "32", 1);
ARCH_ENTRY_BOUND(posix_memalign, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_3), "watch_posix_memalign", "40",
                 3);
ARCH_ENTRY_BOUND(aligned_alloc, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_2), "watch_aligned_alloc", "48", 2);
ARCH_ENTRY_BOUND(memalign, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_2), "watch_memalign", "56", 2);
ARCH_ENTRY_BOUND(valloc, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_1), "watch_valloc", "64", 1);
ARCH_ENTRY_BOUND(pvalloc, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_1), "watch_pvalloc", "72", 1);
ARCH_ENTRY_BOUND(free_sized, ARCH_HELD, "watch_free_sized", "80", 2);
ARCH_ENTRY_BOUND(free_aligned_sized, ARCH_HELD, "watch_free_aligned_sized", "88", 3);
/* Always in C. */
ARCH_ENTRY_BOUND(reallocarray, ARCH_ALWAYS, "watch_reallocarray", "24", 3);

const struct binding *entry_bindings(unsigned *count)
{
    static const struct binding list[] = {BINDING_NEEDED(free),
                                          BINDING_NEEDED(realloc),
                                          BINDING_NEEDED(calloc),
                                          BINDING_NEEDED(malloc),
                                          {"reallocarray", entry_reallocarray, 0, false},
                                          BINDING_TAKEN(free_sized),
                                          BINDING_TAKEN(free_aligned_sized),
                                          BINDING_TAKEN(posix_memalign),
                                          BINDING_TAKEN(aligned_alloc),
                                          BINDING_TAKEN(memalign),
                                          BINDING_TAKEN(valloc),
                                          BINDING_TAKEN(pvalloc),
                                          BINDINGS_OF_GUEST};
    *count = sizeof list / sizeof *list;
    return list;
}
