/* direct.c - the fast form of the entries.
 *
 * Jumps through memory are most of what a pair of malloc and free costs here; the loads of the
 * general form are the most of the rest. Where the allocator is lies within 2 GB as a rule, but is
 * known only now, as are the range and where a thread has its part of us. So the fast form is
 * written over the entries, once, while no other thread can be in one: its first word last, by a
 * single store, so that a signal handler finds the one or the other. Whatever speaks against it (a
 * kernel that lets no code be written, a breakpoint, an allocator too far away) leaves the entry as
 * it is. */
#include <string.h>

#include "arch/code.h"
#include "arch/entry.h"
#include "watcher.h"

#define FAST_MAX 64u
#define WORD     8u

struct entry { /* an entry of the table; places are from the word itself */
    int32_t at, template;
    uint32_t bytes;
    int32_t fixes;
    uint32_t next; /* offset in `next` */
};
extern const struct entry entries_first[] HIDDEN, entries_end[] HIDDEN;

#define PLACE(field) ((uint8_t *)(uintptr_t) & (field) + (field))

static bool fits_displacement(int64_t v) { return v == (int32_t)v; }

/* The value for a place; for one that is relative, its target. */
static uint64_t value_of(enum arch_fix kind, const struct entry *e)
{
    uint64_t target;
    switch (kind) {
    case ARCH_FIX_THREAD: return (uint64_t)&watch_thread - (uint64_t)__builtin_thread_pointer();
    case ARCH_FIX_START: /* that of no address where there is no range */
        return guard_range.bytes ? guard_range.start / guard_range.bytes : UINT64_MAX;
    case ARCH_FIX_SHIFT:
        return (guard_range.bytes ? (uint64_t)__builtin_ctzll(guard_range.bytes) : 24) - 4;
    case ARCH_FIX_FILTER: return (uint64_t)held_filter;
    default: memcpy(&target, (const uint8_t *)&next + e->next, sizeof target); return target;
    }
}

static void write_entry(const struct entry *e)
{
    uint64_t copy[FAST_MAX / WORD];
    uint8_t *at = PLACE(e->at), *bytes = (uint8_t *)copy;
    static const uint8_t first[] = ARCH_ENTRY_FIRST;
    if (e->bytes > FAST_MAX || memcmp(at, first, sizeof first) != 0)
        return;
    memcpy(copy, at, sizeof copy);
    memcpy(copy, PLACE(e->template), e->bytes);
    for (const uint8_t *f = PLACE(e->fixes); f[1] != ARCH_FIX_END; f += 2) {
        const enum arch_fix kind = f[1];
        int64_t v = (int64_t)value_of(kind, e);
        if (kind == ARCH_FIX_TARGET || kind == ARCH_FIX_FILTER)
            v -= (int64_t)(at + f[0] + sizeof(int32_t));
        if (!fits_displacement(v))
            return;
        const int32_t word = (int32_t)v;
        memcpy(bytes + f[0], &word, kind == ARCH_FIX_SHIFT ? 1 : sizeof word);
    }
    for (unsigned i = (e->bytes + WORD - 1) / WORD; i-- > 0;)
        arch_code_store((uint64_t *)(void *)at + i, copy[i]);
}

/* A filter of system calls may kill for code that is made writable. */
static bool is_filtered(void)
{
    char status[4096] = "";
    (void)watch_read_file("/proc/thread-self/status", status, sizeof status - 1);
    return !strstr(status, "\nSeccomp:\t0\n");
}

void entries_direct(void)
{
    const struct entry *first = entries_first, *end = entries_end;
    void *page = (void *)((uint64_t)PLACE(first->at) & ~(PAGE - 1));
    if (is_filtered())
        return;
    /* never without PROT_EXEC, which might not be had again */
    if (sys_mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
        return;
    for (const struct entry *e = first; e < end; e++)
        write_entry(e);
    sys_mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}
