/* past.c - the C library's own malloc, where another allocator stands before it.
 *
 * A module that binds to it directly has its blocks from another heap than the program. They are no
 * part of the recording: the functions behind us are the other allocator's. So the first call of
 * one that makes a block is noted, and each goes on to the C library. */
#include "recorder.h"
#include "preload/guest/bindings.h"

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
} libc;

static void note(void)
{
    struct mlw_process *p = recorder.process;
    const uint32_t bit = 1u << MLW_UNSEEN_LIBC_BEHIND;
    if (wiped.control && !recorder.off && p &&
        !(__atomic_load_n(&p->unseen, __ATOMIC_RELAXED) & bit))
        __atomic_fetch_or(&p->unseen, bit, __ATOMIC_RELEASE);
}

static void *past_malloc(size_t size)
{
    note();
    return libc.malloc(size);
}

static void *past_calloc(size_t n, size_t size)
{
    note();
    return libc.calloc(n, size);
}

static void *past_realloc(void *p, size_t size)
{
    note();
    return libc.realloc(p, size);
}

static void *past_memalign(size_t align, size_t size)
{
    note();
    return libc.memalign(align, size);
}

static void *past_aligned_alloc(size_t align, size_t size)
{
    note();
    return libc.aligned_alloc(align, size);
}

static int past_posix_memalign(void **to, size_t align, size_t size)
{
    note();
    return libc.posix_memalign(to, align, size);
}

void past_begin(void)
{
#define PAST(name)                                                                                 \
    {                                                                                              \
#name, (const void *)past_##name, (void **)&libc.name, true                                \
    }
    static const struct binding list[] = {PAST(malloc),        PAST(calloc),
                                          PAST(realloc),       PAST(memalign),
                                          PAST(aligned_alloc), PAST(posix_memalign)};
#undef PAST
    if (!next_facts.glibc)
        bindings_lead_libc(list, sizeof list / sizeof *list);
}
