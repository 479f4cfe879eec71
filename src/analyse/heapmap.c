/* heapmap.c - Fills the cells of a heap map for each moment, and doubles the cell size when the
 * rows would exceed their bound. Blocks that overlap in a damaged file count only once. */
#include "analyse/heapmap.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BITS    12u
#define COLUMN_BITS  6u
#define HEADER_BYTES 8u /* glibc: of a chunk in use */
#define SITES_MAX    ((size_t)UINT16_MAX + 1)

_Static_assert(1u << COLUMN_BITS == HEAPMAP_COLUMNS, "columns");
_Static_assert(1u << PAGE_BITS == PINNED_PAGE_BYTES, "pages");

struct row {
    uint64_t number;            /* address >> (cell_bits + COLUMN_BITS) */
    struct heapmap_cell *cells; /* [moments][HEAPMAP_COLUMNS] */
};

struct heapmap {
    size_t moments;
    unsigned cell_bits;
    struct row rows[HEAPMAP_ROWS]; /* [count], by number */
    size_t count;
    uint64_t *bytes_of; /* [SITES_MAX] live in the cell that is being filled */
    uint16_t *touched;  /* sites of them, [touched_count] */
    size_t touched_count;
};

struct heapmap *heapmap_new(size_t moments, struct error *err)
{
    struct heapmap *h = calloc(1, sizeof *h);
    if (h) {
        h->moments = moments;
        h->cell_bits = PAGE_BITS;
        h->bytes_of = calloc(SITES_MAX, sizeof *h->bytes_of);
        h->touched = malloc(SITES_MAX * sizeof *h->touched);
    }
    if (h && h->bytes_of && h->touched)
        return h;
    heapmap_free(h);
    error_memory_for(err, "the map of the heap");
    return NULL;
}

void heapmap_free(struct heapmap *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->count; i++)
        free(h->rows[i].cells);
    free(h->bytes_of);
    free(h->touched);
    free(h);
}

/* ---- sites of a cell ---- */

/* Puts a site where it belongs among the largest. */
static void rank_site(struct heapmap_cell *c, uint16_t site, uint64_t bytes)
{
    unsigned at = HEAPMAP_SITES;
    while (at && (!c->site[at - 1] || c->site_bytes[at - 1] < bytes))
        at--;
    if (at == HEAPMAP_SITES)
        return;
    for (unsigned i = HEAPMAP_SITES - 1; i > at; i--) {
        c->site[i] = c->site[i - 1];
        c->site_bytes[i] = c->site_bytes[i - 1];
    }
    c->site[at] = site;
    c->site_bytes[at] = bytes;
}

static void add_to_site(struct heapmap *h, uint16_t site, uint64_t bytes)
{
    if (!h->bytes_of[site])
        h->touched[h->touched_count++] = site;
    h->bytes_of[site] += bytes;
}

static void close_cell(struct heapmap *h, struct heapmap_cell *c)
{
    for (size_t i = 0; i < h->touched_count; i++) {
        const uint16_t site = h->touched[i];
        if (c)
            rank_site(c, site, h->bytes_of[site]);
        h->bytes_of[site] = 0;
    }
    h->touched_count = 0;
}

/* b's figures into a: two halves of one cell. */
static void join_cells(struct heapmap_cell *a, const struct heapmap_cell *b)
{
    struct heapmap_cell sum = {.used_bytes = a->used_bytes + b->used_bytes,
                               .pages = a->pages + b->pages};
    for (unsigned i = 0; i < HEAPMAP_SITES; i++) {
        uint64_t both = a->site_bytes[i];
        for (unsigned k = 0; k < HEAPMAP_SITES; k++)
            both += b->site[k] == a->site[i] ? b->site_bytes[k] : 0;
        if (a->site[i])
            rank_site(&sum, a->site[i], both);
    }
    for (unsigned k = 0; k < HEAPMAP_SITES; k++) {
        bool new = b->site[k] != 0;
        for (unsigned i = 0; i < HEAPMAP_SITES; i++)
            new &= a->site[i] != b->site[k];
        if (new)
            rank_site(&sum, b->site[k], b->site_bytes[k]);
    }
    *a = sum;
}

/* ---- rows ---- */

/* The cells of a row of half the size become the left or the right half of the row of another. */
static void halve(struct heapmap_cell *to, const struct heapmap_cell *from, size_t moments,
                  bool right)
{
    for (size_t m = 0; m < moments; m++)
        for (unsigned i = 0; i < HEAPMAP_COLUMNS / 2; i++) {
            const struct heapmap_cell *pair = &from[m * HEAPMAP_COLUMNS + 2 * (size_t)i];
            struct heapmap_cell *cell =
                &to[m * HEAPMAP_COLUMNS + (right ? HEAPMAP_COLUMNS / 2 : 0) + i];
            *cell = pair[0];
            join_cells(cell, &pair[1]);
        }
}

int heapmap_coarsen(struct heapmap *h, struct error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->count; i++) {
        struct row *to = kept ? &h->rows[kept - 1] : NULL;
        const struct row from = h->rows[i];
        if (!to || to->number != from.number >> 1) {
            struct heapmap_cell *cells = calloc(h->moments * HEAPMAP_COLUMNS, sizeof *cells);
            if (!cells) {
                memmove(&h->rows[kept], &h->rows[i], (h->count - i) * sizeof *h->rows);
                h->count -= i - kept;
                return error_memory_for(err, "the map of the heap");
            }
            to = &h->rows[kept++];
            *to = (struct row){from.number >> 1, cells};
        }
        halve(to->cells, from.cells, h->moments, from.number & 1);
        free(from.cells);
    }
    h->count = kept;
    h->cell_bits++;
    return 0;
}

static size_t first_not_below(const struct heapmap *h, uint64_t number)
{
    size_t from = 0, to = h->count;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        if (h->rows[middle].number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The row of an address; NULL without memory. */
static struct row *map_row(struct heapmap *h, uint64_t address, struct error *err)
{
    for (;;) {
        const uint64_t number = address >> h->cell_bits >> COLUMN_BITS;
        const size_t at = first_not_below(h, number);
        if (at < h->count && h->rows[at].number == number)
            return &h->rows[at];
        if (h->count == HEAPMAP_ROWS) {
            if (heapmap_coarsen(h, err))
                return NULL;
            continue;
        }
        struct heapmap_cell *cells = calloc(h->moments * HEAPMAP_COLUMNS, sizeof *cells);
        if (!cells) {
            error_memory_for(err, "the map of the heap");
            return NULL;
        }
        memmove(&h->rows[at + 1], &h->rows[at], (h->count - at) * sizeof *h->rows);
        h->rows[at] = (struct row){number, cells};
        h->count++;
        return &h->rows[at];
    }
}

/* ---- blocks ---- */

struct fill {
    size_t moment;
    uint64_t cell;       /* number of the cell whose sites are being added up */
    uint64_t pages_from; /* pages below have been counted */
};

/* Where a block's bytes lie, behind those of the blocks before it: a damaged file has blocks that
 * overlap, and cells would be looked at for each. False when nothing is left. */
static bool extent_of(const struct pinned *p, const struct pinned_block *b, uint64_t *from,
                      uint64_t *to)
{
    const uint64_t header = p->glibc && b->address > HEADER_BYTES ? HEADER_BYTES : 0;
    const uint64_t begin = b->address - header, end = b->address + b->usable_bytes;
    if (end <= begin || end <= *to)
        return false;
    *from = begin > *to ? begin : *to;
    *to = end;
    return true;
}

/* Rows for all blocks, so that none moves while they are filled. */
static int make_map_rows(struct heapmap *h, const struct pinned *p,
                         const struct pinned_block *blocks, size_t count, struct error *err)
{
    uint64_t from, to = 0;
    for (size_t i = 0; i < count; i++) {
        if (!extent_of(p, &blocks[i], &from, &to))
            continue;
        while ((to - from) >> h->cell_bits >> COLUMN_BITS >= HEAPMAP_ROWS - 1)
            if (heapmap_coarsen(h, err))
                return -1;
        for (uint64_t at = from;;) {
            if (!map_row(h, at, err))
                return -1;
            const uint64_t next = ((at >> h->cell_bits >> COLUMN_BITS) + 1)
                                  << h->cell_bits << COLUMN_BITS;
            if (next <= at || next >= to)
                break;
            at = next;
        }
    }
    return 0;
}

static struct heapmap_cell *map_cell(const struct heapmap *h, size_t moment, uint64_t cell)
{
    const size_t at = first_not_below(h, cell >> COLUMN_BITS);
    return &h->rows[at].cells[moment * HEAPMAP_COLUMNS + (cell & (HEAPMAP_COLUMNS - 1))];
}

static void fill_block(struct heapmap *h, struct fill *f, const struct pinned_block *b,
                       uint64_t from, uint64_t to, uint16_t site)
{
    const uint64_t last_cell = (to - 1) >> h->cell_bits, last_page = (to - 1) >> PAGE_BITS;
    const unsigned page_shift = h->cell_bits - PAGE_BITS;
    for (uint64_t cell = from >> h->cell_bits;; cell++) {
        struct heapmap_cell *c = map_cell(h, f->moment, cell);
        const uint64_t start = cell << h->cell_bits;
        const uint64_t begin = from > start ? from : start;
        const uint64_t left = ((uint64_t)1 << h->cell_bits) - (begin - start);
        const uint64_t bytes = to - begin < left ? to - begin : left;
        uint64_t page = begin >> PAGE_BITS, end = (cell + 1) << page_shift;
        page = page > f->pages_from ? page : f->pages_from;
        end = end - 1 < last_page ? end : last_page + 1;
        if (cell != f->cell) {
            close_cell(h, h->touched_count ? map_cell(h, f->moment, f->cell) : NULL);
            f->cell = cell;
        }
        if (end > page) {
            c->pages += (uint32_t)(end - page);
            f->pages_from = end;
        }
        if (!b->cached) {
            c->used_bytes += bytes;
            add_to_site(h, site, bytes);
        }
        if (cell == last_cell)
            return;
    }
}

int heapmap_add(struct heapmap *h, size_t moment, const struct pinned *p,
                const struct pinned_block *blocks, size_t count, const uint16_t *site_of,
                struct error *err)
{
    struct fill f = {.moment = moment};
    uint64_t from, to = 0;
    if (make_map_rows(h, p, blocks, count, err))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (extent_of(p, &blocks[i], &from, &to)) {
            const uint16_t number = site_of[blocks[i].stack];
            fill_block(h, &f, &blocks[i], from, to, number == UINT16_MAX ? number : number + 1);
        }
    close_cell(h, h->touched_count ? map_cell(h, moment, f.cell) : NULL);
    return 0;
}

/* ---- results ---- */

uint64_t heapmap_cell_bytes(const struct heapmap *h) { return (uint64_t)1 << h->cell_bits; }

const struct heapmap_cell *heapmap_row(const struct heapmap *h, size_t row, size_t moment,
                                       uint64_t *address)
{
    if (row >= h->count)
        return NULL;
    *address = h->rows[row].number << h->cell_bits << COLUMN_BITS;
    return &h->rows[row].cells[moment * HEAPMAP_COLUMNS];
}
