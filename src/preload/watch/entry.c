/* entry.c - the interposed symbols.
 *
 * A call that makes a block subtracts its size from what its thread may allocate until the next
 * look; a call that takes one back asks whether the address lies in the range of guarded blocks, or
 * may be that of a sampled one. Nearly always the next instruction is the jump to the allocator
 * behind us. The others go to calls.c, with the stack and frame pointer as two more arguments, so
 * that no frame of ours stands between the caller and the unwinder.
 */
#include "arch/entry.h"
#include "preload/guest/bindings.h"
#include "watcher.h"

_Static_assert(offsetof(struct watch_thread, left) == 0, "the assembly subtracts there");
_Static_assert(offsetof(struct guard_range, start) == 0 && offsetof(struct guard_range, bytes) == 8,
               "the assembly compares with these");
#define OFFSET(result, name, ...) ARCH_ENTRY_NEXT_OFFSET(name)
ARCH_ENTRY_OFFSETS(NEXT_FUNCTIONS(OFFSET));
_Static_assert(sizeof(void (*)(void)) == 8, "so far apart are the functions of `next`");

/* The work of an entry, in two forms (direct.c). The one that is assembled into it is a jump to the
 * general form, which finds everything through memory. The fast form has the thread-local offset,
 * the range and the allocator in its instructions: a template, and the places to fill in. */
ARCH_ENTRY_FORWARDS;
ARCH_ENTRIES_BEGIN;

#define ENTRY(name, real, general, fast, arguments)                                                \
    ARCH_ENTRY_SAMPLED("entry_" #name, general, fast, ARCH_ENTRY_OFFSET(real), "watch_" #real,     \
                       arguments);                                                                 \
    ARCH_ENTRY_SHOWN(name);
#define MAKES(name, size, arguments)                                                               \
    ENTRY(name, name, ARCH_SPEND(size), ARCH_SPEND_FAST(size) ARCH_NOT_LESS, arguments)
#define ENTRY_MAKES_1(name, arguments) MAKES(name, ARCH_ARGUMENT_1, arguments)
#define ENTRY_MAKES_2(name, arguments) MAKES(name, ARCH_ARGUMENT_2, arguments)
#define ENTRY_MAKES_3(name, arguments) MAKES(name, ARCH_ARGUMENT_3, arguments)
#define ENTRY_PRODUCT(name, arguments)                                                             \
    ENTRY(name, name, ARCH_SPEND_PRODUCT, ARCH_SPEND_PRODUCT_FAST ARCH_NOT_LESS, arguments)
#define TAKES(name, real, arguments)                                                               \
    ENTRY(name, real, ARCH_RANGE ARCH_HELD, ARCH_OURS_FAST ARCH_NOT_HELD, arguments)
#define ENTRY_TAKES(name, arguments) TAKES(name, name, arguments)
#define ENTRY_RESIZES(name, arguments)                                                             \
    ENTRY(name, name, ARCH_RANGE ARCH_HELD ARCH_SPEND(ARCH_ARGUMENT_2),                            \
          ARCH_OURS_FAST ARCH_IS_HELD ARCH_SPEND_FAST(ARCH_ARGUMENT_2) ARCH_NOT_LESS, arguments)
#define ENTRY_IN_C(name, arguments)                                                                \
    ARCH_ENTRY_IN_C("entry_" #name, "watch_" #name, arguments);                                    \
    ARCH_ENTRY_SHOWN(name);

#define EXPORTED(result, name, parameters, arguments, kind, ...) ENTRY_##kind(name, arguments)
NEXT_EXPORTED(EXPORTED)
/* glibc's old name for free, which a few old programs use */
TAKES(cfree, free, 1)
ARCH_ENTRIES_END;

/* jemalloc's own functions: not exported, see redirect.c. */
#define REDIRECTED(result, name, parameters, arguments)                                            \
    extern const char entry_##name[] HIDDEN;                                                       \
    ARCH_ENTRY_IN_C("entry_" #name, "watch_" #name, arguments);
NEXT_REDIRECTED(REDIRECTED)

bool entry_jemalloc(void)
{
#define TO_OURS(result, name, ...) {#name, entry_##name, (void **)&next.name},
    static const struct redirection list[] = {NEXT_REDIRECTED(TO_OURS)};
    return redirect(list, sizeof list / sizeof *list) != REDIRECT_REFUSED;
}

NEXT_EXPORTED(ENTRY_ADDRESS_OF)

const struct binding *entry_bindings(unsigned *count)
{
    static const struct binding list[] = {NEXT_EXPORTED(BINDING_OF)};
    *count = sizeof list / sizeof *list;
    return list;
}
