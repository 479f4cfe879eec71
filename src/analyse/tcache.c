#include "analyse/tcache.h"

#include <stdlib.h>
#include <string.h>

#define BINS        64u
#define DEPTH       7u /* glibc.malloc.tcache_count */
#define FIRST_MINOR 26
#define LAST_MINOR  41
#define TUNABLE     "glibc.malloc.tcache_count="

struct cache {
    uint8_t count[BINS];
    struct tcache_chunk chunk[BINS][DEPTH]; /* the latest last */
};

struct tcache {
    const struct trace_image *image;
    unsigned depth;
    struct cache **caches; /* [thread_count], NULL: empty */
};

/* How many chunks of a size a cache holds, by the recorded environment. */
static unsigned depth_of(const struct trace_image *image)
{
    for (const char *const *v = image->environment; v && *v; v++) {
        const char *set = strncmp(*v, "GLIBC_TUNABLES=", 15) ? NULL : strstr(*v, TUNABLE);
        if (set) {
            const unsigned long n = strtoul(set + sizeof TUNABLE - 1, NULL, 10);
            return n < DEPTH ? (unsigned)n : DEPTH;
        }
    }
    return DEPTH;
}

struct tcache *tcache_new(const struct trace_image *image, bool *failed)
{
    static const char name[] = "glibc 2.";
    *failed = false;
    if (!image->allocator || strncmp(image->allocator, name, sizeof name - 1) != 0)
        return NULL;
    const long minor = strtol(image->allocator + sizeof name - 1, NULL, 10);
    const unsigned depth = depth_of(image);
    if (minor < FIRST_MINOR || minor > LAST_MINOR || !depth)
        return NULL;
    struct tcache *t = calloc(1, sizeof *t);
    struct cache **caches = calloc((size_t)image->thread_count + 1, sizeof *caches);
    *failed = !t || !caches;
    if (*failed) {
        free(t);
        free(caches);
        return NULL;
    }
    *t = (struct tcache){image, depth, caches};
    return t;
}

void tcache_free(struct tcache *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->image->thread_count; i++)
        free(t->caches[i]);
    free(t->caches);
    free(t);
}

/* The list for chunks of that size; BINS: too large for any. */
static unsigned bin_of(uint64_t usable_bytes)
{
    const uint64_t chunk = usable_bytes + 8;
    return chunk < 32 || chunk > 1040 ? BINS : (unsigned)((chunk - 17) / 16);
}

void tcache_allocated(struct tcache *t, uint32_t thread, unsigned op, uint64_t address,
                      uint64_t usable_bytes)
{
    const unsigned bin = bin_of(usable_bytes);
    struct cache *c = thread < t->image->thread_count ? t->caches[thread] : NULL;
    if (!c || bin == BINS)
        return;
    struct tcache_chunk *list = c->chunk[bin];
    for (unsigned i = c->count[bin]; i--;)
        if (list[i].address == address) { /* the last, unless something is not as we think */
            c->count[bin]--;
            memmove(list + i, list + i + 1, (c->count[bin] - i) * sizeof *list);
            return;
        }
    if (op == MLW_OP_MALLOC && c->count[bin])
        c->count[bin] = 0; /* glibc's was not this one: these are gone */
}

bool tcache_freed(struct tcache *t, uint32_t thread, const struct tcache_chunk *chunk)
{
    const unsigned bin = bin_of(chunk->usable_bytes);
    if (bin == BINS || thread >= t->image->thread_count || chunk->path & MLW_PATH_MMAPPED)
        return true;
    struct cache **c = &t->caches[thread];
    if (!*c && !(*c = calloc(1, sizeof **c)))
        return false;
    if ((*c)->count[bin] < t->depth)
        (*c)->chunk[bin][(*c)->count[bin]++] = *chunk;
    return true;
}

static bool lives(const struct tcache *t, uint32_t thread, uint64_t time_ns)
{
    const struct trace_thread *of = &t->image->threads[thread];
    return t->caches[thread] && !(of->ended && of->end_ns < time_ns);
}

size_t tcache_count(const struct tcache *t, uint64_t time_ns)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->image->thread_count; i++)
        for (unsigned bin = 0; lives(t, i, time_ns) && bin < BINS; bin++)
            n += t->caches[i]->count[bin];
    return n;
}

void tcache_list(const struct tcache *t, uint64_t time_ns, struct tcache_chunk *list)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->image->thread_count; i++)
        for (unsigned bin = 0; lives(t, i, time_ns) && bin < BINS; bin++)
            for (unsigned k = 0; k < t->caches[i]->count[bin]; k++)
                list[n++] = t->caches[i]->chunk[bin][k];
}
