/* pool.c - Allocates blocks of chosen call sites from pools in memory of its own, with a free
 * list for each size class. One lock guards all pools. */
#include "replay/pool.h"

#include <pthread.h>
#include <sys/mman.h>

#define CHUNK_BYTES  ((size_t)64 << 10)
#define REGION_BYTES ((size_t)1 << 36)
#define CHUNKS       (REGION_BYTES / CHUNK_BYTES)
#define FINE_BYTES   1024u
#define FINE         (FINE_BYTES / 16) /* classes up to there */
#define CLASSES      (FINE + 8 * 5)    /* and 8 an octave up to 32 KiB */

_Static_assert(POOL_BLOCK_MAX == FINE_BYTES << 5, "the last class is of the largest block");

struct chunk_of {
    uint8_t pool, class; /* pool 0: not in use */
};

struct list {
    void *free;     /* each holds the next */
    uint8_t *fresh; /* the part of the newest chunk that is not given out yet */
    size_t fresh_blocks;
};

struct pools {
    uint8_t *region;
    pthread_mutex_t lock;
    size_t chunks; /* in use */
    struct list lists[WORKLOAD_POOLS][CLASSES];
    struct chunk_of chunk[CHUNKS];
};

static unsigned class_of(size_t size_bytes)
{
    if (size_bytes <= FINE_BYTES)
        return size_bytes ? (unsigned)((size_bytes - 1) / 16) : 0;
    const unsigned octave = 63 - (unsigned)__builtin_clzll(size_bytes - 1);
    return FINE + (octave - 10) * 8 + (unsigned)((size_bytes - 1) >> (octave - 3) & 7);
}

static size_t class_bytes(unsigned class)
{
    if (class < FINE)
        return ((size_t) class + 1) * 16;
    const unsigned octave = (class - FINE) / 8 + 10;
    return ((size_t)1 << octave) + (((size_t)(class - FINE) % 8 + 1) << (octave - 3));
}

static void *map_pool_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct pools *pools_new(size_t *mapped_bytes)
{
    struct pools *p = map_pool_memory(sizeof *p);
    *mapped_bytes = sizeof *p + REGION_BYTES;
    if (!p || !(p->region = map_pool_memory(REGION_BYTES)))
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

/* Under the lock. */
static void *take_from_pool(struct pools *p, unsigned pool, unsigned class)
{
    struct list *l = &p->lists[pool - 1][class];
    void *block = l->free;
    if (block) {
        l->free = *(void **)block;
        return block;
    }
    if (!l->fresh_blocks) {
        if (p->chunks == CHUNKS)
            return NULL;
        p->chunk[p->chunks] = (struct chunk_of){(uint8_t)pool, (uint8_t) class};
        l->fresh = p->region + p->chunks++ * CHUNK_BYTES;
        l->fresh_blocks = CHUNK_BYTES / class_bytes(class);
    }
    block = l->fresh;
    l->fresh += class_bytes(class);
    l->fresh_blocks--;
    return block;
}

void *pools_allocate(struct pools *p, unsigned pool, size_t size_bytes)
{
    if (size_bytes > POOL_BLOCK_MAX)
        return NULL;
    pthread_mutex_lock(&p->lock);
    void *block = take_from_pool(p, pool, class_of(size_bytes));
    pthread_mutex_unlock(&p->lock);
    return block;
}

static const struct chunk_of *pool_chunk(const struct pools *p, const void *block)
{
    const size_t at = (size_t)((uintptr_t)block - (uintptr_t)p->region);
    return at < REGION_BYTES ? &p->chunk[at / CHUNK_BYTES] : NULL;
}

size_t pools_usable(const struct pools *p, const void *block)
{
    const struct chunk_of *c = pool_chunk(p, block);
    return c ? class_bytes(c->class) : 0;
}

void pools_free(struct pools *p, void *block)
{
    const struct chunk_of *c = pool_chunk(p, block);
    struct list *l = &p->lists[c->pool - 1][c->class];
    pthread_mutex_lock(&p->lock);
    *(void **)block = l->free;
    l->free = block;
    pthread_mutex_unlock(&p->lock);
}
