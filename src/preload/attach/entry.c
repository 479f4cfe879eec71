/* entry.c - the functions that the program's bindings lead to.
 *
 * As ../watch/entry.c, in its general form: a call that makes a block subtracts its size from what
 * its thread may allocate until the next look, and one that takes a block back looks whether its
 * address may be sampled. Nearly always the next instruction is the jump to the allocator. */
#include "arch/entry.h"
#include "attach.h"

_Static_assert(offsetof(struct watch_thread, left) == 0, "the assembly subtracts there");
#define OFFSET(result, name, ...) ARCH_ENTRY_NEXT_OFFSET(name)
ARCH_ENTRY_OFFSETS(NEXT_FUNCTIONS(OFFSET));
_Static_assert(sizeof(void (*)(void)) == 8, "so far apart are the functions of `next`");

#define ENTRY(name, work, arguments)                                                               \
    ARCH_ENTRY_BOUND(name, work, "watch_" #name, ARCH_ENTRY_OFFSET(name), arguments);
#define ENTRY_MAKES_1(name, arguments) ENTRY(name, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_1), arguments)
#define ENTRY_MAKES_2(name, arguments) ENTRY(name, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_2), arguments)
#define ENTRY_MAKES_3(name, arguments) ENTRY(name, ARCH_SPEND_AHEAD(ARCH_ARGUMENT_3), arguments)
#define ENTRY_PRODUCT(name, arguments) ENTRY(name, ARCH_SPEND_PRODUCT_AHEAD, arguments)
#define ENTRY_TAKES(name, arguments)   ENTRY(name, ARCH_HELD, arguments)
#define ENTRY_RESIZES(name, arguments)                                                             \
    ENTRY(name, ARCH_HELD ARCH_SPEND_AHEAD(ARCH_ARGUMENT_2), arguments)
#define ENTRY_IN_C(name, arguments)                           ENTRY(name, ARCH_ALWAYS, arguments)
#define BOUND(result, name, parameters, arguments, kind, ...) ENTRY_##kind(name, arguments)
NEXT_BLOCKS(BOUND)

const struct binding *entry_bindings(unsigned *count)
{
    static const struct binding list[] = {NEXT_BLOCKS(BINDING_OF) BINDINGS_OF_GUEST};
    *count = sizeof list / sizeof *list;
    return list;
}
