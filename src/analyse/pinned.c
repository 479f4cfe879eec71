#include "analyse/pinned.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES   ((uint64_t)64 << 20) /* glibc: HEAP_MAX_SIZE on 64-bit machines */
#define HEADER_BYTES 8u                   /* of a chunk in use: the rest lies in its neighbours */

struct live { /* 24 bytes */
    uint64_t address, usable_bytes;
    uint32_t stack;
    uint8_t path;
    bool there;
};

struct pinned_reader {
    const struct trace_image *image;
    uint64_t time_ns;
    struct live *live; /* by slot, [room] */
    uint32_t room;
    bool glibc;
};

unsigned pinned_columns(void)
{
    return TRACE_COL_ADDRESS | TRACE_COL_SIZE | TRACE_COL_USABLE | TRACE_COL_PATH |
           TRACE_COL_STACK | TRACE_COL_TIME;
}

struct pinned_reader *pinned_new(const struct trace_image *image, uint64_t time_ns,
                                 struct error *err)
{
    struct pinned_reader *r = calloc(1, sizeof *r);
    if (!r) {
        error_set(err, ERROR_MEMORY, "out of memory");
        return NULL;
    }
    r->image = image;
    r->time_ns = time_ns;
    r->glibc = image->allocator && !strncmp(image->allocator, "glibc", 5);
    return r;
}

void pinned_discard(struct pinned_reader *r)
{
    if (r)
        free(r->live);
    free(r);
}

static int room_for(struct pinned_reader *r, uint32_t slot, struct error *err)
{
    uint32_t room = r->room ? r->room : 1024;
    while (room <= slot)
        room = room > UINT32_MAX / 2 ? UINT32_MAX : room * 2;
    struct live *live = realloc(r->live, room * sizeof *live);
    if (!live)
        return error_set(err, ERROR_MEMORY, "no memory for %u live blocks", slot);
    memset(live + r->room, 0, (room - r->room) * sizeof *live);
    r->live = live;
    r->room = room;
    return 0;
}

int pinned_add(struct pinned_reader *r, const struct trace_batch *b, struct error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        const unsigned kind = b->kind[i];
        /* what a fork handed on is there from the start */
        if (b->time_ns[i] >= r->time_ns && b->first_event + i >= r->image->inherited)
            return 0;
        if (slot == TRACE_NO_SLOT)
            continue;
        if (slot >= r->image->max_slots || b->stack[i] > r->image->stacks)
            return error_set(err, ERROR_FORMAT, "an event of a block or stack that does not exist");
        if (slot >= r->room && room_for(r, slot, err))
            return -1;
        if (kind == TRACE_ALLOC)
            r->live[slot] =
                (struct live){.address = b->address[i],
                              .usable_bytes = b->usable[i] > b->size[i] ? b->usable[i] : b->size[i],
                              .stack = b->stack[i],
                              .path = b->path[i],
                              .there = true};
        else
            r->live[slot].there = false;
    }
    return 1;
}

static enum pinned_kind kind_of(const struct pinned_reader *r, const struct live *l)
{
    return !r->glibc ? PINNED_OTHER : l->path & MLW_PATH_NON_MAIN ? PINNED_ARENA : PINNED_MAIN;
}

static int by_address(const void *a, const void *b)
{
    const struct live *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* Keeps the blocks that lie in heaps, by address; returns how many. */
static size_t sort(struct pinned_reader *r)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->room; i++) {
        const struct live *l = &r->live[i];
        if (l->there && l->address && !(r->glibc && l->path & MLW_PATH_MMAPPED))
            r->live[n++] = *l;
    }
    if (n)
        qsort(r->live, n, sizeof *r->live, by_address);
    return n;
}

/* A walk over the blocks of a heap: the page that is being filled, and the blocks on it. */
struct walk {
    struct pinned *p;
    struct pinned_heap *heap;
    const struct live *live;
    size_t first;              /* block on the page */
    uint64_t page, used_bytes; /* of it */
};

/* The page is complete: what is free on it belongs to the blocks [first, end). */
static void close_page(struct walk *w, size_t end)
{
    uint64_t left = w->used_bytes < PINNED_PAGE_BYTES ? PINNED_PAGE_BYTES - w->used_bytes : 0;
    w->heap->pinned_bytes += left;
    for (size_t i = w->first; i < end; i++) {
        uint64_t share = left / (end - i);
        w->p->stacks[w->live[i].stack].pinned_bytes += share;
        left -= share;
    }
}

static void add_block(struct walk *w, size_t i)
{
    const uint64_t header = w->p->glibc ? HEADER_BYTES : 0;
    const struct live *l = &w->live[i];
    const uint64_t from = l->address - header, to = l->address + l->usable_bytes;
    const uint64_t page = from / PINNED_PAGE_BYTES;
    const uint64_t last = to > from ? (to - 1) / PINNED_PAGE_BYTES : page;
    struct pinned_heap *h = w->heap;
    struct pinned_stack *s = &w->p->stacks[l->stack];
    h->live_blocks++;
    h->live_bytes += l->usable_bytes;
    h->header_bytes += header;
    s->live_blocks++;
    s->live_bytes += l->usable_bytes;
    if (h->live_blocks == 1) {
        w->page = page;
        w->used_bytes = 0;
        w->first = i;
    } else if (page > w->page) {
        close_page(w, i);
        if (h->kind != PINNED_OTHER) {
            h->between_bytes += (page - w->page - 1) * PINNED_PAGE_BYTES;
            s->below_bytes += (page - w->page - 1) * PINNED_PAGE_BYTES;
        }
        w->page = page;
        w->used_bytes = 0;
        w->first = i;
    }
    if (last > w->page) { /* up to the end of this page, then whole ones, then the rest */
        w->used_bytes += (w->page + 1) * PINNED_PAGE_BYTES - from;
        close_page(w, i + 1);
        w->page = last;
        w->used_bytes = to - last * PINNED_PAGE_BYTES;
        w->first = i;
    } else {
        w->used_bytes += to - from;
    }
}

static void add_to_sum(struct pinned *p, const struct pinned_heap *h)
{
    struct pinned_heap *s = &p->sum[h->kind];
    s->kind = h->kind;
    s->address++;
    s->live_blocks += h->live_blocks;
    s->live_bytes += h->live_bytes;
    s->header_bytes += h->header_bytes;
    s->span_bytes += h->span_bytes;
    s->pinned_bytes += h->pinned_bytes;
    s->between_bytes += h->between_bytes;
}

/* Blocks [from, to) are those of one heap. */
static void add_heap(struct pinned *p, const struct live *live, size_t from, size_t to,
                     enum pinned_kind kind)
{
    struct pinned_heap *h = &p->heaps[p->count++];
    struct walk w = {.p = p, .heap = h, .live = live};
    const uint64_t start = live[from].address;
    *h = (struct pinned_heap){.kind = kind,
                              .address = kind == PINNED_ARENA
                                             ? start & ~(HEAP_BYTES - 1)
                                             : start & ~(uint64_t)(PINNED_PAGE_BYTES - 1)};
    for (size_t i = from; i < to; i++)
        add_block(&w, i);
    close_page(&w, to);
    h->span_bytes = (w.page + 1) * PINNED_PAGE_BYTES - (start & ~(uint64_t)(PINNED_PAGE_BYTES - 1));
    add_to_sum(p, h);
}

/* Whether block i begins another heap than the one before it. */
static bool begins_heap(const struct pinned_reader *r, size_t i)
{
    const struct live *l = &r->live[i];
    const enum pinned_kind kind = kind_of(r, l);
    return i == 0 || kind != kind_of(r, l - 1) ||
           (kind == PINNED_ARENA && (l->address ^ l[-1].address) >= HEAP_BYTES);
}

int pinned_finish(struct pinned_reader *r, struct pinned *p, struct error *err)
{
    const size_t n = sort(r);
    size_t heaps = 0;
    *p = (struct pinned){.time_ns = r->time_ns, .glibc = r->glibc};
    for (size_t i = 0; i < n; i++)
        heaps += begins_heap(r, i);
    p->heaps = calloc(heaps + 1, sizeof *p->heaps);
    p->stacks = calloc((size_t)r->image->stacks + 1, sizeof *p->stacks);
    if (!p->heaps || !p->stacks) {
        pinned_release(p);
        pinned_discard(r);
        return error_set(err, ERROR_MEMORY, "no memory for what lies between live blocks");
    }
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && !begins_heap(r, to);)
            to++;
        add_heap(p, r->live, from, to, kind_of(r, &r->live[from]));
    }
    pinned_discard(r);
    return 0;
}

void pinned_release(struct pinned *p)
{
    free(p->heaps);
    free(p->stacks);
    memset(p, 0, sizeof *p);
}
