/* jemalloc.c - jemalloc's own functions, to which the program's calls were redirected (entry.c).
 *
 * Its blocks are sampled as malloc's are. Those of arenas other than the thread's may have memory
 * of a special kind: they are not guarded. */
#include <string.h>

#include "format/op.h"
#include "watcher.h"

static struct call call_of_flags(size_t size, int flags, uint64_t sp, uint64_t bp)
{
    return (struct call){.size = size,
                         .align = MLW_JEMALLOC_ALIGNMENT(flags),
                         .sp = sp,
                         .bp = bp,
                         .zero = (flags & MLW_JEMALLOC_ZERO) != 0};
}

static void *made(size_t size, int flags, struct call *c)
{
    const bool yes = call_spend(size) && call_hit(c);
    void *p = yes && !MLW_JEMALLOC_ARENA(flags) ? guarded_make(c) : 0;
    if (p)
        return p;
    p = next.mallocx(size, flags);
    if (yes && p)
        calls_enter(p, c);
    return p;
}

void *watch_mallocx(size_t size, int flags, uint64_t sp, uint64_t bp)
{
    struct call c = call_of_flags(size, flags, sp, bp);
    return made(size, flags, &c);
}

/* A guarded block becomes another. */
static void *from_guarded(void *old, size_t have, size_t size, int flags, struct call *c)
{
    void *p = made(size, flags, c);
    if (p) {
        memcpy(p, old, have < size ? have : size);
        guarded_replaced(old, size, c->sp, c->bp);
    }
    return p;
}

void *watch_rallocx(void *old, size_t size, int flags, uint64_t sp, uint64_t bp)
{
    struct call c = call_of_flags(size, flags, sp, bp);
    size_t have;
    uint32_t index;
    c.flags = MLW_WATCH_SAMPLE_REALLOC;
    if (guard_maybe(old) && guarded_usable(old, &have))
        return from_guarded(old, have, size, flags, &c);
    const bool yes = call_spend(size) && call_hit(&c);
    struct sample *s = calls_take(old, &index);
    void *p = next.rallocx(old, size, flags);
    if (s && !p)
        calls_stays(index, s, old);
    else if (s)
        calls_taken(index, s, old, MLW_WATCH_REALLOC, size, sp, bp);
    if (yes && p)
        calls_enter(p, &c);
    return p;
}

/* A guarded block keeps its size: the answer says that it could not be changed in place. */
size_t watch_xallocx(void *p, size_t size, size_t extra, int flags, uint64_t sp, uint64_t bp)
{
    size_t have;
    uint32_t index;
    if (guard_maybe(p) && guarded_usable(p, &have))
        return have;
    have = next.sallocx(p, 0);
    const size_t now = next.xallocx(p, size, extra, flags);
    struct call c = call_of_flags(now, flags, sp, bp);
    c.flags = MLW_WATCH_SAMPLE_REALLOC;
    if (now == have)
        return now;
    struct sample *s = calls_take(p, &index);
    if (s)
        calls_taken(index, s, p, MLW_WATCH_REALLOC, now, sp, bp);
    if (call_spend(now) && call_hit(&c))
        calls_enter(p, &c);
    return now;
}

size_t watch_sallocx(const void *p, int flags, uint64_t sp, uint64_t bp)
{
    size_t bytes;
    (void)sp, (void)bp;
    return guard_maybe(p) && guarded_usable(p, &bytes) ? bytes : next.sallocx(p, flags);
}

void watch_dallocx(void *p, int flags, uint64_t sp, uint64_t bp)
{
    if (!calls_release(p, sp, bp))
        next.dallocx(p, flags);
}

void watch_sdallocx(void *p, size_t size, int flags, uint64_t sp, uint64_t bp)
{
    if (!calls_release(p, sp, bp))
        next.sdallocx(p, size, flags);
}
