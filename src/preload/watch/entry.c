/* entry.c - the interposed symbols.
 *
 * A call that makes a block subtracts its size from what its thread may allocate until the next
 * look; a call that takes one back asks whether the address lies in our range. Nearly always the
 * next instruction is the jump to the allocator behind us. The others go to sample.c, with the
 * stack and frame pointer as two more arguments, so that no frame of ours stands between the caller
 * and the unwinder.
 */
#include <string.h>

#include "arch/code.h"
#include "arch/entry.h"
#include "watcher.h"

_Static_assert(offsetof(struct watch_thread, left) == 0, "the assembly subtracts there");
_Static_assert(offsetof(struct block_range, start) == 0 && offsetof(struct block_range, bytes) == 8,
               "the assembly compares with these");
#define OFFSET(result, name, ...) ARCH_ENTRY_NEXT_OFFSET(name)
ARCH_ENTRY_OFFSETS(NEXT_FUNCTIONS(OFFSET));
_Static_assert(sizeof(void (*)(void)) == 8, "so far apart are the functions of `next`");

/* The work of an entry, in two forms. The one that is assembled into it is a jump to the general
 * form, which finds everything through memory. The fast form has the thread-local offset, the range
 * and the allocator in its instructions: a template, and the places to fill in. */
/* All of them in one page, which entry_direct makes writable. */
ARCH_ENTRIES_BEGIN;

#define ENTRY(name, real, general, fast, arguments)                                                \
    ARCH_ENTRY_SAMPLED(#name, general, fast ARCH_NOT_LESS, ARCH_ENTRY_OFFSET(real),                \
                       "watch_" #real, arguments);
#define MAKES(name, size, arguments)                                                               \
    ENTRY(name, name, ARCH_SPEND(size), ARCH_SPEND_FAST(size), arguments)
#define ENTRY_MAKES_1(name, arguments) MAKES(name, ARCH_ARGUMENT_1, arguments)
#define ENTRY_MAKES_2(name, arguments) MAKES(name, ARCH_ARGUMENT_2, arguments)
#define ENTRY_MAKES_3(name, arguments) MAKES(name, ARCH_ARGUMENT_3, arguments)
#define ENTRY_PRODUCT(name, arguments)                                                             \
    ENTRY(name, name, ARCH_SPEND_PRODUCT, ARCH_SPEND_PRODUCT_FAST, arguments)
#define ENTRY_TAKES(name, arguments) ENTRY(name, name, ARCH_RANGE, ARCH_RANGE_FAST, arguments)
#define ENTRY_RESIZES(name, arguments)                                                             \
    ENTRY(name, name, ARCH_RANGE ARCH_SPEND(ARCH_ARGUMENT_2),                                      \
          ARCH_RANGE_FAST ARCH_INSIDE ARCH_SPEND_FAST(ARCH_ARGUMENT_2), arguments)
#define ENTRY_IN_C(name, arguments) ARCH_ENTRY_IN_C(#name, "watch_" #name, arguments);

#define EXPORTED(result, name, parameters, arguments, kind, ...) ENTRY_##kind(name, arguments)
NEXT_EXPORTED(EXPORTED)
/* glibc's old name for free, which a few old programs use */
ENTRY(cfree, free, ARCH_RANGE, ARCH_RANGE_FAST, 1)
ARCH_ENTRIES_END;

/* jemalloc's own functions: not exported, see redirect.c. */
#define REDIRECTED(result, name, parameters, arguments)                                            \
    extern const char entry_##name[] HIDDEN;                                                       \
    __asm__(".hidden entry_" #name);                                                               \
    ARCH_ENTRY_IN_C("entry_" #name, "watch_" #name, arguments);
NEXT_REDIRECTED(REDIRECTED)

bool entry_jemalloc(void)
{
#define TO_OURS(result, name, ...) {#name, entry_##name, (void **)&next.name},
    static const struct redirection list[] = {NEXT_REDIRECTED(TO_OURS)};
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
static bool fix(uint8_t *copy, const uint8_t *at, unsigned where, enum arch_fix kind,
                uint64_t target)
{
    int64_t v = 0;
    switch (kind) {
    case ARCH_FIX_THREAD:
        v = (int64_t)((uint64_t)&watch_thread - (uint64_t)__builtin_thread_pointer());
        break;
    case ARCH_FIX_START: v = (int64_t)(block_range.start / BLOCK_RANGE_UNIT); break;
    case ARCH_FIX_BYTES: v = (int64_t)(block_range.bytes / BLOCK_RANGE_UNIT); break;
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
    if (e->bytes > FAST_MAX || *at != ARCH_ENTRY_JUMP)
        return;
    memcpy(&target, (const uint8_t *)&next + e->next, sizeof target);
    memcpy(copy, at, sizeof copy);
    memcpy(copy, PLACE(e->template), e->bytes);
    for (const uint8_t *f = PLACE(e->fixes); f[1] != ARCH_FIX_END; f += 2)
        if (!fix(bytes, at, f[0], f[1], target))
            return;
    for (unsigned i = (e->bytes + WORD - 1) / WORD; i-- > 0;)
        arch_code_store((uint64_t *)(void *)at + i, copy[i]);
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
