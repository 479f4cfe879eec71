/* entry.c - the functions that the program's bindings lead to.
 *
 * As ../watch/entry.c, in two forms: a call that makes a block subtracts its size from what its
 * thread may allocate until the next look, and one that takes a block back looks whether its
 * address may be sampled. Nearly always the next instruction is the jump to the allocator. */
#include "arch/entry.h"
#include "attach.h"

_Static_assert(offsetof(struct watch_thread, left) == 0, "the assembly subtracts there");
#define OFFSET(result, name, ...) ARCH_ENTRY_NEXT_OFFSET(name)
ARCH_ENTRY_OFFSETS(NEXT_FUNCTIONS(OFFSET));
_Static_assert(sizeof(void (*)(void)) == 8, "so far apart are the functions of `next`");

ARCH_ENTRY_FORWARDS;
ARCH_ENTRIES_BEGIN;

#define ENTRY(name, general, fast, arguments)                                                      \
    extern const char entry_##name[] HIDDEN;                                                       \
    ARCH_ENTRY_SAMPLED("entry_" #name, general, fast, ARCH_ENTRY_OFFSET(name), "watch_" #name,     \
                       arguments);
#define MAKES(name, size, arguments)                                                               \
    ENTRY(name, ARCH_SPEND(size), ARCH_SPEND_FAST(size) ARCH_NOT_LESS, arguments)
#define ENTRY_MAKES_1(name, arguments) MAKES(name, ARCH_ARGUMENT_1, arguments)
#define ENTRY_MAKES_2(name, arguments) MAKES(name, ARCH_ARGUMENT_2, arguments)
#define ENTRY_MAKES_3(name, arguments) MAKES(name, ARCH_ARGUMENT_3, arguments)
#define ENTRY_PRODUCT(name, arguments)                                                             \
    ENTRY(name, ARCH_SPEND_PRODUCT, ARCH_SPEND_PRODUCT_FAST ARCH_NOT_LESS, arguments)
#define ENTRY_TAKES(name, arguments) ENTRY(name, ARCH_HELD, ARCH_HELD_FAST ARCH_NOT_HELD, arguments)
#define ENTRY_RESIZES(name, arguments)                                                             \
    ENTRY(name, ARCH_HELD ARCH_SPEND(ARCH_ARGUMENT_2),                                             \
          ARCH_HELD_FAST ARCH_IS_HELD ARCH_SPEND_FAST(ARCH_ARGUMENT_2) ARCH_NOT_LESS, arguments)
#define ENTRY_IN_C(name, arguments)                                                                \
    extern const char entry_##name[] HIDDEN;                                                       \
    ARCH_ENTRY_IN_C("entry_" #name, "watch_" #name, arguments);
#define BOUND(result, name, parameters, arguments, kind, ...) ENTRY_##kind(name, arguments)
NEXT_BLOCKS(BOUND)
ARCH_ENTRIES_END;

GUEST_FUNCTIONS(ENTRY_ADDRESS)

const struct binding *entry_bindings(unsigned *count)
{
    static const struct binding list[] = {NEXT_BLOCKS(BINDING_OF) GUEST_FUNCTIONS(BINDING_OTHER)};
    *count = sizeof list / sizeof *list;
    return list;
}
