/* tcache.c - Models glibc's per-thread caches from the recorded calls, version and tunables.
 * When an allocation contradicts the model, the affected list is emptied. */
#include "analyse/tcache.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/tunables.h"
#include "glibc/versions.h"

#define BINS      GLIBC_SMALL_BINS
#define SMALLEST  32u
#define ALIGNMENT 16u

struct bin {
    struct tcache_chunk *chunk; /* [count], the latest last */
    size_t count, room;
};

struct cache {
    struct bin bin[BINS];
};

struct tcache {
    const struct trace_image *image;
    uint64_t depth;        /* chunks of a size that a cache holds */
    uint64_t most_bytes;   /* the size of the largest chunk that a cache takes */
    struct cache **caches; /* [thread_count], NULL: empty */
};

/* A tunable of the recorded environment, where glibc takes it: the last that is set counts. */
static bool find_tunable(const struct trace_image *image, const char *name, uint64_t *value)
{
    const size_t n = strlen(name);
    struct tunable one;
    bool found = false;
    for (const char *const *v = image->settings; v && *v; v++)
        for (const char *at = tunables_of(*v); tunables_next(&at, &one);) {
            if (one.name_bytes != n || memcmp(one.name, name, n) != 0)
                continue;
            char *end;
            const uint64_t number = strtoull(one.value, &end, 0);
            if (end == one.value || (*end && *end != ':'))
                continue;
            *value = number;
            found = true;
        }
    return found;
}

/* The bounds of the caches by version and tunables. False: they hold nothing, or the version is not
 * known. */
static bool bounds(const struct trace_image *image, uint64_t *depth, uint64_t *most_bytes)
{
    const struct glibc_version *known = glibc_of(glibc_minor_of(image->allocator));
    uint64_t n;
    if (!known)
        return false;
    *depth = known->cache.depth;
    *most_bytes = GLIBC_SMALL_MOST;
    if (find_tunable(image, "tcache_count", &n) && n <= known->cache.depth_most)
        *depth = n;
    if (find_tunable(image, "tcache_max", &n)) {
        if (n <= GLIBC_SMALL_MOST - 8) /* in bytes that the program asks for */
            *most_bytes = n + 8 <= SMALLEST ? SMALLEST : (n + 8 + ALIGNMENT - 1) & ~15ull;
        else if (known->large_caches)
            *most_bytes = n;
    }
    return *depth != 0;
}

uint64_t tcache_takes(const struct trace_image *image)
{
    uint64_t depth, most_bytes;
    return bounds(image, &depth, &most_bytes) ? most_bytes : 0;
}

struct tcache *tcache_new(const struct trace_image *image, bool *failed)
{
    uint64_t depth, most_bytes;
    *failed = false;
    /* in bins of many sizes it is not known which chunk comes back */
    if (!bounds(image, &depth, &most_bytes) || most_bytes > GLIBC_SMALL_MOST)
        return NULL;
    struct tcache *t = calloc(1, sizeof *t);
    struct cache **caches = calloc((size_t)image->thread_count + 1, sizeof *caches);
    *failed = !t || !caches;
    if (*failed) {
        free(t);
        free(caches);
        return NULL;
    }
    *t = (struct tcache){image, depth, most_bytes, caches};
    return t;
}

void tcache_free(struct tcache *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->image->thread_count; i++) {
        for (unsigned bin = 0; t->caches[i] && bin < BINS; bin++)
            free(t->caches[i]->bin[bin].chunk);
        free(t->caches[i]);
    }
    free(t->caches);
    free(t);
}

/* The list for chunks of that size; BINS: too large for any. */
static unsigned tcache_bin(const struct tcache *t, uint64_t usable_bytes)
{
    const uint64_t chunk = usable_bytes + 8;
    return chunk < SMALLEST || chunk > t->most_bytes ? BINS : (unsigned)((chunk - 17) / ALIGNMENT);
}

void tcache_allocated(struct tcache *t, uint32_t thread, unsigned op, uint64_t address,
                      uint64_t usable_bytes)
{
    const unsigned number = tcache_bin(t, usable_bytes);
    struct cache *c = thread < t->image->thread_count ? t->caches[thread] : NULL;
    if (!c || number == BINS)
        return;
    struct bin *bin = &c->bin[number];
    for (size_t i = bin->count; i--;)
        if (bin->chunk[i].address == address) { /* the last, unless something is not as we think */
            bin->count--;
            memmove(bin->chunk + i, bin->chunk + i + 1, (bin->count - i) * sizeof *bin->chunk);
            return;
        }
    if (op == MLW_OP_MALLOC)
        bin->count = 0; /* glibc's was not this one: these are gone */
}

bool tcache_freed(struct tcache *t, uint32_t thread, const struct tcache_chunk *chunk)
{
    const unsigned number = tcache_bin(t, chunk->usable_bytes);
    if (number == BINS || thread >= t->image->thread_count || chunk->path & MLW_PATH_MMAPPED)
        return true;
    struct cache **c = &t->caches[thread];
    if (!*c && !(*c = calloc(1, sizeof **c)))
        return false;
    struct bin *bin = &(*c)->bin[number];
    if (bin->count >= t->depth)
        return true;
    if (!ARRAY_ROOM(bin->chunk, bin->count + 1, bin->room))
        return false;
    bin->chunk[bin->count++] = *chunk;
    return true;
}

static bool cache_lives(const struct tcache *t, uint32_t thread, uint64_t time_ns)
{
    const struct trace_thread *of = &t->image->threads[thread];
    return t->caches[thread] && !(of->ended && of->end_ns < time_ns);
}

size_t tcache_count(const struct tcache *t, uint64_t time_ns)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->image->thread_count; i++)
        for (unsigned bin = 0; cache_lives(t, i, time_ns) && bin < BINS; bin++)
            n += t->caches[i]->bin[bin].count;
    return n;
}

void tcache_list(const struct tcache *t, uint64_t time_ns, struct tcache_chunk *list)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->image->thread_count; i++)
        for (unsigned bin = 0; cache_lives(t, i, time_ns) && bin < BINS; bin++)
            for (size_t k = 0; k < t->caches[i]->bin[bin].count; k++)
                list[n++] = t->caches[i]->bin[bin].chunk[k];
}
