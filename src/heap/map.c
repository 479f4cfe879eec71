/* map.c - the address space of the heap in cells; see heap.h. */
#include <stdlib.h>

#include "heap/heap_impl.h"

enum { HEADER_BYTES = 16 };

struct mapping {
    const struct blocks *b;
    uint64_t cell;           /* bytes */
    struct heap_cell *cells; /* NULL: they are counted only */
    size_t count;
};

/* The cell that holds the address, which is not below that of the last call. */
static struct heap_cell *cell_at(struct mapping *m, uint64_t address, uint64_t *last)
{
    const uint64_t at = address & ~(m->cell - 1);
    if (!m->count || at != *last) {
        *last = at;
        if (m->cells)
            m->cells[m->count].address = at;
        m->count++;
    }
    return m->cells ? &m->cells[m->count - 1] : NULL;
}

static uint64_t overlap(uint64_t start, uint64_t end, uint64_t from, uint64_t to)
{
    start = start < from ? from : start;
    end = end > to ? to : end;
    return start < end ? end - start : 0;
}

/* Stops when there are more than `most`. */
static void look(struct mapping *m, size_t most)
{
    const struct blocks *b = m->b;
    uint64_t last = 0;
    m->count = 0;
    for (uint32_t i = 0; i < b->count && m->count <= most; i++) {
        if (b->kind[i] == BLOCK_GAP)
            continue;
        const bool used = blocks_is_used(b, i) && b->kind[i] != BLOCK_OWN;
        const uint64_t start = b->address[i] - (b->kind[i] == BLOCK_EXACT ? 0 : HEADER_BYTES);
        const uint64_t usable = b->address[i],
                       usable_end = usable + (used ? blocks_bytes(b, i) : 0);
        uint64_t end = b->address[i] - HEADER_BYTES + blocks_whole_bytes(b, i);
        if (end < usable_end) /* its last word is the next one's header */
            end = usable_end;
        for (uint64_t at = start; at < end && m->count <= most; at = (at | (m->cell - 1)) + 1) {
            struct heap_cell *c = cell_at(m, at, &last);
            if (!c)
                continue;
            const uint64_t here = overlap(start, end, c->address, c->address + m->cell);
            const uint64_t of_used = overlap(usable, usable_end, c->address, c->address + m->cell);
            c->used_bytes += of_used;
            c->other_bytes += here - of_used;
        }
    }
}

int heap_map(const struct heap *h, size_t most, struct heap_cell **cells, size_t *count,
             uint64_t *cell_bytes)
{
    struct mapping m = {.b = &h->walk.blocks, .cell = TARGET_PAGE_BYTES};
    for (look(&m, most); m.count > most && m.cell < (uint64_t)1 << 46; look(&m, most))
        m.cell *= 2;
    *cells = m.cells = calloc(m.count + 1, sizeof *m.cells);
    *count = 0;
    if (!m.cells)
        return -1;
    const size_t known = m.count;
    look(&m, known);
    *count = m.count;
    *cell_bytes = m.cell;
    return 0;
}
