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
#include "preload/guest/bindings.h"

struct wiped_state wiped __attribute__((aligned(ARCH_PAGE_BYTES))) HIDDEN;
static uint8_t wiped_rest[ARCH_PAGE_BYTES - sizeof(struct wiped_state)] __attribute__((used));

ARCH_ENTRY_WAKE(process_wake);
_Static_assert(MLW_CTL_ACTIVE == ARCH_ENTRY_BIT, "the assembly tests this bit");
#define OFFSET(result, name, ...) ARCH_ENTRY_NEXT_OFFSET(name)
ARCH_ENTRY_OFFSETS(NEXT_FUNCTIONS(OFFSET));
_Static_assert(sizeof(void (*)(void)) == 8, "so far apart are the functions of `next`");

#define ENTRY(name, real, arguments)                                                               \
    ARCH_ENTRY_RECORDED("entry_" #name, ARCH_ENTRY_OFFSET(real), "record_" #real, arguments);      \
    SHOWN(name)
#ifdef MALLOW_ATTACHED
#define SHOWN(name)
#else
#define SHOWN(name) ARCH_ENTRY_SHOWN(name);
#endif
#define EXPORTED(result, name, parameters, arguments, ...) ENTRY(name, name, arguments)
NEXT_EXPORTED(EXPORTED)
/* glibc's old name for free, which a few old programs use */
ENTRY(cfree, free, 1)

#ifndef MALLOW_ATTACHED
/* jemalloc's own functions: not exported, see redirect.c. */
#define REDIRECTED(result, name, parameters, arguments)                                            \
    extern const char entry_##name[] HIDDEN;                                                       \
    ARCH_ENTRY_RECORDED("entry_" #name, ARCH_ENTRY_OFFSET(name), "record_" #name, arguments);
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
#endif
