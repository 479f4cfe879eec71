/* python_pools.c - blocks of CPython's own allocator for small objects; see walk.h.
 *
 * Since 3.7, pools of 4 KB, or 16 KB since 3.10, hold blocks of one size, a multiple of 16, behind
 * a header of 48 bytes. A pool proves itself: blocks in use and blocks in its list of free ones add
 * up to those that were ever handed out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "heap/walk.h"

enum {
    POOL_HEADER = 48,
    POOL_MAX = 16384,
    POOL_UNIT = 16,
    CLASSES = 32,
    WINDOW = 1 << 20,
    BLOCKS_MOST = POOL_MAX / POOL_UNIT
};

struct pool_header { /* in memory */
    uint32_t used, padding;
    uint64_t free_list, next, previous;
    uint32_t arena, size_class, carved_to, last_carve;
};

struct pools {
    struct walk *w;
    struct target *t;
    uint8_t *window;
    uint64_t at; /* the address of the window */
    size_t have;
};

/* The size of the pool by its header; 0: it is none. */
static uint32_t pool_bytes(const struct pool_header *h, uint64_t address)
{
    if (h->size_class >= CLASSES || h->padding || (h->next | h->previous) & 15)
        return 0;
    uint32_t size = (h->size_class + 1) * POOL_UNIT, bytes = h->last_carve + size;
    if ((bytes != POOL_MAX && bytes != TARGET_PAGE_BYTES) || address % bytes ||
        h->carved_to < POOL_HEADER || h->carved_to > bytes || (h->carved_to - POOL_HEADER) % size ||
        h->used > (h->carved_to - POOL_HEADER) / size)
        return 0;
    return bytes;
}

/* Adds the blocks of a pool that are in use. 0: done; 1: its list does not add up; -1: no memory */
static int add_pool(struct pools *p, uint64_t address, const uint8_t *data,
                    const struct pool_header *h)
{
    uint8_t is_free[BLOCKS_MOST] = {0};
    uint32_t size = (h->size_class + 1) * POOL_UNIT, carved = (h->carved_to - POOL_HEADER) / size;
    uint32_t found = 0;
    for (uint64_t at = h->free_list; at; found++) {
        uint64_t offset = at - address;
        if (at < address + POOL_HEADER || offset >= h->carved_to || (offset - POOL_HEADER) % size)
            return 1;
        uint32_t number = (uint32_t)((offset - POOL_HEADER) / size);
        if (is_free[number])
            return 1;
        is_free[number] = 1;
        memcpy(&at, data + offset, sizeof at);
    }
    if (found + h->used != carved)
        return 1;
    for (uint32_t i = 0; i < carved; i++)
        if (!is_free[i] && walk_add_exact(p->w, address + POOL_HEADER + (uint64_t)i * size, size))
            return -1;
    p->w->pool_bytes += h->last_carve + size;
    return 0;
}

static int search(struct pools *p, uint64_t start, uint64_t end)
{
    uint64_t at = (start + TARGET_PAGE_BYTES - 1) & ~(uint64_t)(TARGET_PAGE_BYTES - 1);
    while (at < end && end - at >= TARGET_PAGE_BYTES) {
        uint64_t want = end - at < POOL_MAX ? end - at : POOL_MAX;
        if (at < p->at || at - p->at > p->have || p->have - (at - p->at) < want) {
            at = target_next(p->t, at, end); /* no pool is zeros */
            if (at >= end || end - at < TARGET_PAGE_BYTES)
                break;
            want = end - at < WINDOW ? end - at : WINDOW;
            p->at = at;
            p->have = target_read(p->t, at, p->window, want);
        }
        const uint8_t *data = p->window + (at - p->at);
        size_t have = p->have - (at - p->at);
        struct pool_header h;
        uint32_t bytes = 0;
        if (have >= TARGET_PAGE_BYTES) {
            memcpy(&h, data, sizeof h);
            bytes = pool_bytes(&h, at);
        }
        if (!bytes || bytes > have) {
            at += TARGET_PAGE_BYTES;
            continue;
        }
        int status = add_pool(p, at, data, &h);
        if (status < 0)
            return -1;
        if (status)
            walk_doubt(p->w,
                       "the list of free blocks of the Python pool at 0x%" PRIx64
                       " is being changed, or overwritten",
                       at);
        at += bytes;
    }
    return 0;
}

static int by_base(const void *a, const void *b)
{
    const struct walk_segment *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static bool has_python(const struct modules *modules)
{
    for (size_t i = 0; i < modules->count; i++)
        if (strstr(modules->at[i].name, "python"))
            return true;
    return false;
}

int walk_find_pools(struct walk *w, struct target *t, const struct modules *modules)
{
    if (!has_python(modules))
        return 0;
    size_t count = w->segment_count, next = 0;
    struct pools p = {.w = w, .t = t, .window = malloc(WINDOW)};
    struct walk_segment *known = malloc((count + 1) * sizeof *known);
    int status = p.window && known ? 0 : -1;
    if (!status && count)
        memcpy(known, w->segments, count * sizeof *known);
    if (!status && count > 1)
        qsort(known, count, sizeof *known, by_base);
    for (size_t i = 0; !status && i < t->region_count; i++) {
        const struct target_region *r = &t->regions[i];
        uint64_t at = r->start;
        if (r->file || !(r->flags & REGION_WRITE) ||
            r->flags & (REGION_SHARED | REGION_BREAK | REGION_STACK | REGION_SPECIAL))
            continue;
        while (next < count && known[next].end <= r->start)
            next++;
        for (size_t k = next; !status && k < count && known[k].base < r->end; k++) {
            if (known[k].base > at)
                status = search(&p, at, known[k].base);
            at = known[k].end > at ? known[k].end : at;
        }
        if (!status && at < r->end)
            status = search(&p, at, r->end);
    }
    free(p.window);
    free(known);
    return status;
}
