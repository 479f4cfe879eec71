/* cold_tables.c - blocks that were not written: marking them, and sums by type, root and call site.
 * See heap.h and heap_impl.h. */
#include <stdlib.h>
#include <string.h>

#include "heap/cold.h"
#include "heap/heap_impl.h"
#include "heap/spill.h"

enum { UNIT_BYTES = 8 };

#define PAGE ((uint64_t)TARGET_PAGE_BYTES)

static bool is_program_block(const struct blocks *b, uint32_t block)
{
    return blocks_is_used(b, block) && b->kind[block] != BLOCK_OWN;
}

/* Bytes of a block in memory; those in swap are added to *swapped. */
static uint64_t bytes_here(struct target *t, uint64_t start, uint64_t end, uint64_t *swapped)
{
    uint64_t here = 0;
    while ((start = target_next(t, start, end)) < end) {
        uint64_t next = (start & ~(PAGE - 1)) + PAGE, bytes = (next < end ? next : end) - start;
        enum resident_state state = target_page(t, start);
        if (state == RESIDENT_HERE)
            here += bytes;
        else if (state == RESIDENT_SWAPPED)
            *swapped += bytes;
        start += bytes;
    }
    return here;
}

int cold_mark(struct heap *h, struct target *t, const struct cold *c)
{
    const struct blocks *b = &h->walk.blocks;
    struct heap_facts *f = &h->facts;
    h->cold = spill_zeros((size_t)b->count + 1, sizeof *h->cold);
    if (!h->cold)
        return -1;
    for (uint32_t i = 0; i < b->count; i++) {
        uint64_t start = b->address[i], end = start + blocks_bytes(b, i);
        if (!is_program_block(b, i) || cold_touched(c, start & ~(PAGE - 1), end))
            continue;
        uint64_t here = bytes_here(t, start, end, &f->cold_swapped_bytes);
        uint64_t units = here / UNIT_BYTES;
        h->cold[i] = units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
        f->cold_bytes += here;
        f->cold_blocks += here != 0;
    }
    return 0;
}

/* --- tables --- */

static int by_cold(const void *a, const void *b)
{
    const struct heap_cold *x = a, *y = b;
    if (x->cold_bytes != y->cold_bytes)
        return x->cold_bytes > y->cold_bytes ? -1 : 1;
    int by_name = strcmp(x->group.name, y->group.name);
    return by_name ? by_name
                   : (x->group.stack > y->group.stack) - (x->group.stack < y->group.stack);
}

/* -1 when out of memory. */
static int make_rows(struct heap *h, enum heap_by by, uint32_t groups,
                     uint32_t (*group_of)(const struct heap *, const uint32_t *, uint32_t),
                     const uint32_t *of)
{
    const struct blocks *b = &h->walk.blocks;
    struct heap_cold *rows = calloc((size_t)groups + 1, sizeof *rows);
    size_t kept = 0;
    if (!rows)
        return -1;
    for (uint32_t i = 0; i < b->count; i++) {
        if (!is_program_block(b, i))
            continue;
        struct heap_cold *row = &rows[group_of(h, of, i)];
        row->blocks++;
        row->bytes += blocks_bytes(b, i);
        row->cold_blocks += h->cold[i] != 0;
        row->cold_bytes += (uint64_t)h->cold[i] * UNIT_BYTES;
    }
    for (uint32_t i = 0; i < groups; i++) {
        const struct heap_cold sums = rows[i];
        if (!sums.cold_blocks)
            continue;
        struct heap_cold *row = &rows[kept++];
        row->group = heap_group_of(h, by, i);
        row->blocks = sums.blocks;
        row->bytes = sums.bytes;
        row->cold_blocks = sums.cold_blocks;
        row->cold_bytes = sums.cold_bytes;
    }
    qsort(rows, kept, sizeof *rows, by_cold);
    h->cold_rows[by] = rows;
    h->cold_count[by] = kept;
    return 0;
}

static uint32_t type_of(const struct heap *h, const uint32_t *unused, uint32_t block)
{
    (void)unused;
    return heap_type_of(h, block);
}

static uint32_t group_in(const struct heap *h, const uint32_t *of, uint32_t block)
{
    (void)h;
    return of[block];
}

static int make_table(struct heap *h, enum heap_by by)
{
    if (by == HEAP_BY_TYPE)
        return make_rows(h, by, h->types.count, type_of, NULL);
    if (by == HEAP_BY_SITE)
        return make_rows(h, by, h->recorded.image->stacks + 1, group_in, h->stack);
    uint32_t *roots = heap_first_roots(h);
    int status = roots ? make_rows(h, by, h->roots.count + 2, group_in, roots) : -1;
    spill_free(roots);
    return status;
}

const struct heap_cold *heap_cold(struct heap *h, enum heap_by by, size_t *count, struct error *err)
{
    *err = (struct error){.kind = ERROR_NONE};
    *count = 0;
    if (!h->cold || by == HEAP_BY_SIZE || (by == HEAP_BY_SITE && !h->stack))
        return NULL;
    if (!h->cold_rows[by] && make_table(h, by)) {
        error_memory(err);
        return NULL;
    }
    *count = h->cold_count[by];
    return h->cold_rows[by];
}
