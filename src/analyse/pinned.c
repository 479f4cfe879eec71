/* pinned.c - Follows the live blocks of a process by address, and computes at chosen moments
 * which free bytes each block keeps resident. The order of blocks at one moment is reused for
 * the next. It also models glibc's caches, fastbins and arenas where the version is known. */
#include "analyse/pinned.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/fastbins.h"
#include "analyse/seen_heaps.h"
#include "analyse/tcache.h"
#include "base/array.h"
#include "base/fetch.h"
#include "glibc/versions.h"

#define ARENA_HEAD_BYTES                                                                           \
    4096u /* about the size of glibc's own data at the start of an arena's heap */
#define HEADER_BYTES PINNED_HEADER_BYTES
#define BLOCKS_AHEAD 16u /* events for which memory is asked early */
#define STACKS_AHEAD 8u

struct place { /* where a block lies */
    uint64_t address;
    uint32_t slot; /* PLACE_CACHED and above: a chunk in a cache */
};
#define PLACE_CACHED 0xf0000000u

struct pinned_reader {
    const struct trace_image *image;
    const uint64_t *times_ns; /* [count] */
    struct pinned *results;   /* [count]; NULL: */
    pinned_visit *visit;      /* NULL, or is called with each; with `now` without results */
    void *visit_arg;
    struct pinned now;
    size_t count, next;
    struct pinned_block *live; /* by slot, [room] */
    uint32_t room;
    struct place *order; /* [order_count] of the moment before */
    size_t order_count, order_room;
    struct place *all, *fresh; /* while a moment is worked out; as all that follows, kept for the
                                  next: touching fresh memory takes longer than the work */
    size_t all_room, fresh_room;
    uint8_t *placed;
    uint32_t placed_room;
    struct tcache_chunk *chunks;
    size_t chunk_room;
    struct pinned_block *list;
    size_t list_room;
    bool glibc;
    struct tcache *caches; /* NULL: there are none, or they are not asked for */
    struct highest *most;
    struct seen_heaps heaps; /* the heaps of other arenas */
    struct fastbins fast;
    bool has_fastbins, unknown_version;
    uint64_t
        main_bottom; /* where the lowest block ever began in the break's heap; 0: there was none */
    uint64_t main_end;    /* where the highest ended */
    uint64_t cached_most; /* the size of the largest chunk at whose free a thread's cache is made;
                             0: it is not */
    uint32_t cache_bytes; /* the bytes of that cache, which is a chunk */
    uint64_t main_cache_end; /* see pinned_heap */
};

unsigned pinned_columns(void)
{
    return TRACE_COL_ADDRESS | TRACE_COL_SIZE | TRACE_COL_USABLE | TRACE_COL_PATH |
           TRACE_COL_STACK | TRACE_COL_TIME | TRACE_COL_THREAD | TRACE_COL_BEGUN |
           TRACE_COL_ARGUMENT;
}

struct pinned_reader *pinned_new(const struct trace_image *image, const uint64_t *times_ns,
                                 struct pinned *results, size_t count, bool caches,
                                 struct error *err)
{
    struct pinned_reader *r = calloc(1, sizeof *r);
    struct highest *most = highest_new(image->stacks);
    bool failed = !r || !most || !seen_heaps_begin(&r->heaps, image->thread_count);
    if (results)
        memset(results, 0, count * sizeof *results);
    if (!failed && caches)
        r->caches = tcache_new(image, &failed);
    if (failed) {
        if (r)
            seen_heaps_release(&r->heaps);
        free(r);
        highest_free(most);
        error_memory(err);
        return NULL;
    }
    r->image = image;
    r->times_ns = times_ns;
    r->results = results;
    r->count = count;
    r->most = most;
    r->glibc = image->allocator && !strncmp(image->allocator, "glibc", 5);
    const struct glibc_version *known = glibc_of(glibc_minor_of(image->allocator));
    r->has_fastbins = known && known->fastbins;
    r->unknown_version = r->glibc && !known;
    if (known && known->late_cache && !image->attached) { /* it had one before */
        r->cached_most = tcache_takes(image);
        r->cache_bytes = known->cache.chunk_bytes;
    }
    return r;
}

struct pinned_reader *pinned_visitor(const struct trace_image *image, const uint64_t *times_ns,
                                     size_t count, pinned_visit *visit, void *arg,
                                     struct error *err)
{
    struct pinned_reader *r = pinned_new(image, times_ns, NULL, count, true, err);
    if (r)
        pinned_watch(r, visit, arg);
    return r;
}

void pinned_watch(struct pinned_reader *r, pinned_visit *visit, void *arg)
{
    r->visit = visit;
    r->visit_arg = arg;
}

struct pinned pinned_take(struct pinned_reader *r)
{
    const struct pinned taken = r->now;
    r->now = (struct pinned){0};
    return taken;
}

void pinned_discard(struct pinned_reader *r)
{
    if (!r)
        return;
    pinned_release(&r->now);
    free(r->live);
    free(r->order);
    free(r->all);
    free(r->fresh);
    free(r->placed);
    free(r->chunks);
    free(r->list);
    seen_heaps_release(&r->heaps);
    highest_free(r->most);
    tcache_free(r->caches);
    free(r);
}

static int pinned_room(struct pinned_reader *r, uint32_t slot, struct error *err)
{
    const uint32_t had = r->room;
    if (!ARRAY_ROOM(r->live, (size_t)slot + 1, r->room))
        return error_memory_for(err, "%u live blocks", slot);
    memset(r->live + had, 0, (size_t)(r->room - had) * sizeof *r->live);
    return 0;
}

static int take_next_moment(struct pinned_reader *r, struct error *err);

/* ---- events ---- */

/* True if a block of that path is a chunk in one of glibc's heaps. */
static bool is_on_heap(const struct pinned_reader *r, unsigned path)
{
    return r->glibc && !(path & MLW_PATH_MMAPPED);
}

/* A thread frees a chunk. Its first one makes its cache, out of what lies above all blocks unless
 * there is room below. */
static void note_cache(struct pinned_reader *r, uint32_t thread, uint64_t chunk)
{
    if (chunk > r->cached_most || thread >= r->heaps.threads || r->heaps.thread[thread].cached)
        return;
    struct seen_thread *const t = &r->heaps.thread[thread];
    t->cached = true;
    if (t->heap)
        r->heaps.of[t->heap - 1].cache_end = r->heaps.of[t->heap - 1].end + r->cache_bytes;
    else if (!r->heaps.part_count)
        r->main_cache_end = r->main_end + r->cache_bytes;
}

/* A block ends. False without memory. */
static bool pinned_end_block(struct pinned_reader *r, const struct trace_batch *b, size_t i)
{
    struct pinned_block *const l = &r->live[b->slot[i]];
    if (!l->there)
        return true;
    l->there = false;
    if (!is_on_heap(r, l->path))
        return true;
    const uint64_t chunk = l->usable_bytes + HEADER_BYTES;
    if (r->has_fastbins)
        fastbins_freed(&r->fast, l->path & MLW_PATH_NON_MAIN, chunk);
    highest_end(r->most, l->stack, chunk);
    if (b->kind[i] == TRACE_FREE_INFERRED || mlw_op_is(b->op[i], MLW_CLASS_RESIZE_OLD))
        return true;
    if (r->cached_most)
        note_cache(r, b->thread[i], chunk);
    if (!r->caches)
        return true;
    return tcache_freed(r->caches, b->thread[i],
                        &(struct tcache_chunk){l->address, l->usable_bytes, l->stack, l->path});
}

/* glibc's main arena has a block in [address, end). */
static void note_main(struct pinned_reader *r, uint64_t address, uint64_t end, uint32_t thread)
{
    const uint64_t bottom = address - HEADER_BYTES;
    if (seen_heaps_note_main(&r->heaps, address, end - address, thread))
        return;
    /* The lowest yet comes first: it is seldom so. 0, which stands for none, wraps to the most. */
    if (bottom - 1 < r->main_bottom - 1 && address > HEADER_BYTES)
        r->main_bottom = bottom;
    if (end > r->main_end)
        r->main_end = end;
}

/* Block `made` of those that begin in the batch begins. inherited: a fork handed it on. False
 * without memory. */
static bool pinned_begin_block(struct pinned_reader *r, const struct trace_batch *b, size_t i,
                               size_t made, bool inherited)
{
    struct pinned_block *const l = &r->live[b->slot[i]];
    const uint64_t size = b->begun_size[made],
                   usable = b->begun_usable[made] > size ? b->begun_usable[made] : size,
                   address = b->begun_address[made], chunk = usable + HEADER_BYTES;
    const uint32_t stack = b->begun_stack[made];
    const unsigned path = b->path[i];
    const bool late = highest_passed(r->most);
    if (l->there && is_on_heap(r, l->path)) /* its end was lost */
        highest_end(r->most, l->stack, l->usable_bytes + HEADER_BYTES);
    *l = (struct pinned_block){.address = address,
                               .usable_bytes = usable,
                               .size_bytes = size,
                               .stack = stack,
                               .path = (uint8_t)path,
                               .there = true,
                               .late = late};
    if (r->caches && !inherited)
        tcache_allocated(r->caches, b->thread[i], b->op[i], address, usable);
    if (!is_on_heap(r, path))
        return true;
    const bool other = path & MLW_PATH_NON_MAIN;
    if (mlw_heap_says(b->op[i], path, b->argument[i]) && !inherited &&
        !seen_heaps_said(&r->heaps, address, other, b->argument[i]))
        return false;
    if (r->has_fastbins)
        fastbins_taken(&r->fast, other, chunk);
    highest_begin(r->most, stack, chunk);
    /* no thread of this process made a block that a fork handed on */
    const uint32_t thread = inherited ? UINT32_MAX : b->thread[i];
    if (other)
        return seen_heaps_note(&r->heaps, address, usable, thread);
    if (r->heaps.part_count || usable > GLIBC_SMALL_MOST ||
        address - HEADER_BYTES < r->main_bottom || address + usable > r->main_end)
        note_main(r, address, address + usable, thread);
    return true;
}

/* Fetches the memory that the events behind i will touch: their blocks, and the sums of the stacks
 * of those nearer. */
FETCHES pinned_look_ahead(const struct pinned_reader *r, const struct trace_batch *b, size_t i,
                          size_t made, uint32_t there)
{
    if (i + BLOCKS_AHEAD < b->n && b->slot[i + BLOCKS_AHEAD] < there)
        __builtin_prefetch(&r->live[b->slot[i + BLOCKS_AHEAD]], 1);
    if (i + STACKS_AHEAD < b->n && b->slot[i + STACKS_AHEAD] < there)
        __builtin_prefetch(&r->most->stacks[r->live[b->slot[i + STACKS_AHEAD]].stack], 1);
    if (made + STACKS_AHEAD < b->begun && b->begun_stack[made + STACKS_AHEAD] <= r->image->stacks)
        __builtin_prefetch(&r->most->stacks[b->begun_stack[made + STACKS_AHEAD]], 1);
}

/* How many slots have a place in r->live. */
static uint32_t slots_there(const struct pinned_reader *r, uint32_t slots)
{
    return r->room < slots ? r->room : slots;
}

int pinned_add(struct pinned_reader *r, const struct trace_batch *b, struct error *err)
{
    const uint32_t stacks = r->image->stacks,
                   slots = r->image->max_slots < PLACE_CACHED ? r->image->max_slots : PLACE_CACHED;
    /* blocks that a fork handed on are there from the start */
    const uint64_t handed_on =
        r->image->inherited > b->first_event ? r->image->inherited - b->first_event : 0;
    uint32_t there = slots_there(r, slots);
    if (b->n && r->next == r->count)
        return 0;
    uint64_t due_ns = r->next < r->count ? r->times_ns[r->next] : UINT64_MAX;
    size_t made = 0; /* blocks that began in this batch */
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        const size_t begun = made;
        made += b->kind[i] == TRACE_ALLOC;
        pinned_look_ahead(r, b, i, made, there);
        const bool inherited = i < handed_on;
        if (b->time_ns[i] >= due_ns && !inherited) {
            while (r->next < r->count && b->time_ns[i] >= r->times_ns[r->next])
                if (take_next_moment(r, err))
                    return -1;
            if (r->next == r->count)
                return 0;
            due_ns = r->times_ns[r->next];
        }
        if (slot >= there) {
            if (slot == TRACE_NO_SLOT)
                continue;
            if (slot < slots && pinned_room(r, slot, err))
                return -1;
            there = slots_there(r, slots);
        }
        if (slot >= slots || (begun < made && b->begun_stack[begun] > stacks))
            return error_set(err, ERROR_FORMAT, "an event of a block or stack that does not exist");
        if (b->kind[i] != TRACE_ALLOC) {
            if (!pinned_end_block(r, b, i))
                return error_memory_for(err, "the caches of threads");
        } else if (!pinned_begin_block(r, b, i, begun, inherited))
            return error_memory_for(err, "%u heaps", r->heaps.count);
    }
    return 1;
}

static enum pinned_kind pinned_kind_of(const struct pinned_reader *r, const struct pinned_block *l)
{
    return !r->glibc ? PINNED_OTHER : l->path & MLW_PATH_NON_MAIN ? PINNED_ARENA : PINNED_MAIN;
}

static int compare_block_addresses(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* A chunk that overlaps a live block, or is there twice, is in no cache after all. */
static size_t drop_overlaps(struct pinned_block *list, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct pinned_block *l = &list[i], *before = kept ? &list[kept - 1] : NULL;
        const bool below = before && before->address + before->usable_bytes > l->address,
                   above = i + 1 < n && !list[i + 1].cached &&
                           l->address + l->usable_bytes > list[i + 1].address;
        if (!l->cached || !(below || above))
            list[kept++] = *l;
    }
    return kept;
}

static bool pinned_in_heap(const struct pinned_reader *r, const struct pinned_block *l)
{
    return l->there && l->address && !(r->glibc && l->path & MLW_PATH_MMAPPED);
}

static void add_to_stack(struct pinned_stack *s, const struct pinned_block *l, bool glibc)
{
    s->all_blocks++;
    s->all_bytes += l->size_bytes;
    if (glibc && l->path & MLW_PATH_MMAPPED) {
        s->mapped_blocks++;
        s->mapped_bytes += l->size_bytes;
    }
}

/* Adds up all blocks, and finds their stacks; returns how many of them lie in heaps. */
static size_t add_up_blocks(const struct pinned_reader *r, struct pinned *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->room; i++) {
        const struct pinned_block *l = &r->live[i];
        if (!l->there)
            continue;
        p->live_blocks++;
        p->requested_bytes += l->size_bytes;
        pinned_stacks_mark(&p->stacks, l->stack);
        p->usable_bytes[r->glibc ? l->path >> 1 & (PINNED_PLACES - 1) : 0] += l->usable_bytes;
        n += pinned_in_heap(r, l);
    }
    return n;
}

static bool is_heap_chunk(const struct pinned_reader *r, const struct tcache_chunk *c)
{
    return c->address && c->stack <= r->image->stacks;
}

/* The figures of the stacks that were marked, and of those of cached chunks. */
static bool add_marked_stacks(struct pinned_reader *r, struct pinned *p, size_t cached)
{
    for (size_t i = 0; i < cached; i++)
        if (is_heap_chunk(r, &r->chunks[i]))
            pinned_stacks_mark(&p->stacks, r->chunks[i].stack);
    if (!pinned_stacks_make(&p->stacks))
        return false;
    for (uint32_t i = 0; i < r->room; i++)
        if (r->live[i].there)
            add_to_stack(pinned_stacks_at(&p->stacks, r->live[i].stack), &r->live[i], r->glibc);
    for (uint32_t i = 0; i < p->stacks.count; i++)
        p->stacks.of[i].most_bytes = r->most->stacks[p->stacks.of[i].stack].most_bytes;
    return true;
}

/* Drops blocks that are gone from the order of the moment before; marks the rest. */
static void keep_order(struct pinned_reader *r)
{
    uint8_t *placed = r->placed;
    size_t kept = 0;
    memset(placed, 0, r->room);
    for (size_t i = 0; i < r->order_count; i++) {
        const struct place at = r->order[i];
        if (at.slot >= PLACE_CACHED || r->live[at.slot].address != at.address ||
            !pinned_in_heap(r, &r->live[at.slot]) || placed[at.slot])
            continue;
        placed[at.slot] = true;
        r->order[kept++] = at;
    }
    r->order_count = kept;
}

/* Those that are missing in the order: new blocks, and chunks in the caches of threads. */
static size_t find_fresh(const struct pinned_reader *r, size_t cached)
{
    struct place *fresh = r->fresh;
    size_t n = 0;
    for (uint32_t i = 0; i < r->room; i++)
        if (pinned_in_heap(r, &r->live[i]) && !r->placed[i])
            fresh[n++] = (struct place){r->live[i].address, i};
    for (size_t i = 0; i < cached; i++)
        if (is_heap_chunk(r, &r->chunks[i]))
            fresh[n++] = (struct place){r->chunks[i].address, PLACE_CACHED + (uint32_t)i};
    if (n)
        qsort(fresh, n, sizeof *fresh, compare_block_addresses);
    return n;
}

static void merge_places(const struct place *a, size_t a_count, const struct place *b,
                         size_t b_count, struct place *all)
{
    size_t i = 0, k = 0;
    while (i < a_count || k < b_count)
        if (k == b_count || (i < a_count && a[i].address <= b[k].address))
            *all++ = a[i++];
        else
            *all++ = b[k++];
}

static void list_order(struct pinned_reader *r)
{
    for (size_t i = 0; i < r->order_count; i++) {
        const uint32_t slot = r->order[i].slot;
        const struct tcache_chunk *c =
            slot >= PLACE_CACHED ? &r->chunks[slot - PLACE_CACHED] : NULL;
        r->list[i] = c ? (struct pinned_block){.address = c->address,
                                               .usable_bytes = c->usable_bytes,
                                               .stack = c->stack,
                                               .path = c->path,
                                               .cached = true}
                       : r->live[slot];
    }
}

static bool room_to_sort(struct pinned_reader *r, size_t blocks)
{
    return ARRAY_ROOM(r->all, blocks + 1, r->all_room) &&
           ARRAY_ROOM(r->fresh, blocks + 1, r->fresh_room) &&
           ARRAY_ROOM(r->list, blocks + 1, r->list_room) &&
           ARRAY_ROOM(r->placed, (size_t)r->room + 1, r->placed_room);
}

/* Lists the blocks that lie in heaps, by address, and their cached chunks, and adds up all; *n of
 * them. Most blocks of a moment were there at the one before, in the same order. False without
 * memory. */
static bool sort_blocks(struct pinned_reader *r, struct pinned *p, size_t *n)
{
    const size_t there = r->caches ? tcache_count(r->caches, p->time_ns) : 0;
    const size_t cached = there < UINT32_MAX - PLACE_CACHED ? there : 0;
    if (!ARRAY_ROOM(r->chunks, cached + 1, r->chunk_room))
        return false;
    if (cached)
        tcache_list(r->caches, p->time_ns, r->chunks);
    const size_t blocks = add_up_blocks(r, p);
    if (!room_to_sort(r, blocks + cached) || !add_marked_stacks(r, p, cached))
        return false;
    keep_order(r);
    const size_t more = find_fresh(r, cached);
    merge_places(r->order, r->order_count, r->fresh, more, r->all);
    struct place *const old = r->order;
    const size_t old_room = r->order_room;
    r->order = r->all;
    r->order_room = r->all_room;
    r->all = old;
    r->all_room = old_room;
    r->order_count += more;
    list_order(r);
    *n = cached ? drop_overlaps(r->list, r->order_count) : r->order_count;
    return true;
}

/* A walk over the blocks of a heap: the page that is being filled, and the blocks on it. */
struct walk {
    struct pinned *p;
    struct pinned_heap *heap;
    const struct pinned_block *live;
    bool begun;                /* there was a block */
    size_t first;              /* block on the page */
    uint64_t page, used_bytes; /* its bytes */
};

/* The page is complete: its free bytes belong to the blocks [first, end). */
static void close_walk_page(struct walk *w, size_t end)
{
    uint64_t left = w->used_bytes < PINNED_PAGE_BYTES ? PINNED_PAGE_BYTES - w->used_bytes : 0;
    w->heap->pinned_bytes += left;
    for (size_t i = w->first; i < end; i++) {
        uint64_t share = left / (end - i);
        pinned_stacks_at(&w->p->stacks, w->live[i].stack)->pinned_bytes += share;
        left -= share;
    }
}

static void add_walk_block(struct walk *w, size_t i)
{
    const uint64_t header = w->p->glibc ? HEADER_BYTES : 0;
    const struct pinned_block *l = &w->live[i];
    const uint64_t from = l->address - header, to = l->address + l->usable_bytes;
    const uint64_t page = from / PINNED_PAGE_BYTES;
    const uint64_t last = to > from ? (to - 1) / PINNED_PAGE_BYTES : page;
    struct pinned_heap *h = w->heap;
    struct pinned_stack *s = pinned_stacks_at(&w->p->stacks, l->stack);
    if (l->cached) {
        h->cached_bytes += l->usable_bytes + header;
    } else {
        h->live_blocks++;
        h->live_bytes += l->usable_bytes;
        h->header_bytes += header;
        s->live_blocks++;
        s->live_bytes += l->usable_bytes;
    }
    if (!w->begun) {
        w->begun = true;
        w->page = page;
        w->used_bytes = 0;
        w->first = i;
    } else if (page > w->page) {
        close_walk_page(w, i);
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
        close_walk_page(w, i + 1);
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
    s->before_bytes += h->before_bytes;
    s->cached_bytes += h->cached_bytes;
    s->above_bytes += h->above_bytes;
    s->held_bytes += h->held_bytes;
}

/* Where blocks of a heap ever were: [bottom, end), 0: not known. */
struct reach {
    uint64_t bottom, end;
    uint64_t cache_end; /* see pinned_heap */
};

/* A fact of glibc's heap that the block lies in. One of another arena begins with its head, and all
 * in it are blocks, which were seen unless they were made before the recording. */
static struct reach reach_of(const struct pinned_reader *r, const struct pinned_block *l)
{
    const enum pinned_kind kind = pinned_kind_of(r, l);
    const struct seen_part *const part =
        kind == PINNED_MAIN ? seen_heaps_part(&r->heaps, l->address) : NULL;
    if (part)
        return (struct reach){part->start, part->high, 0};
    if (kind == PINNED_MAIN)
        return (struct reach){r->main_bottom, r->main_end, r->main_cache_end};
    const uint32_t i = kind == PINNED_ARENA ? seen_heaps_find(&r->heaps, l->address) : UINT32_MAX;
    if (i == UINT32_MAX)
        return (struct reach){0};
    const struct seen_heap *h = &r->heaps.of[i];
    return (struct reach){r->image->attached ? h->begin
                                             : (h->number << r->heaps.shift) + ARENA_HEAD_BYTES,
                          h->end, h->cache_end};
}

/* How much of the `above` bytes from an address on lies below a cache. */
static uint64_t held_below_cache(uint64_t cache_end, uint64_t from, uint64_t above)
{
    const uint64_t begin = pinned_page_up(from), end = pinned_page_up(cache_end);
    return end <= begin ? 0 : end - begin < above ? end - begin : above;
}

/* Heaps without a block, as far as there ever were some. */
static void add_empty(const struct pinned_reader *r, struct pinned *p)
{
    bool brk = false; /* the memory that brk made has blocks */
    uint64_t held_bytes;
    for (size_t i = 0; i < p->count; i++)
        brk |= p->heaps[i].kind == PINNED_MAIN && !seen_heaps_part(&r->heaps, p->heaps[i].end - 1);
    if (!brk && r->main_end) {
        const uint64_t all = pinned_page_up(r->main_end) - pinned_page_up(r->main_bottom);
        p->sum[PINNED_MAIN].above_bytes += all;
        p->sum[PINNED_MAIN].held_bytes += held_below_cache(r->main_cache_end, r->main_bottom, all);
    }
    p->sum[PINNED_MAIN].above_bytes += seen_heaps_empty_parts(&r->heaps, p);
    p->sum[PINNED_ARENA].above_bytes += seen_heaps_empty(&r->heaps, p, &held_bytes);
    p->sum[PINNED_ARENA].held_bytes += held_bytes;
}

/* Blocks [from, to) are those of one heap. */
static void add_heap(const struct pinned_reader *r, struct pinned *p, size_t from, size_t to)
{
    const struct pinned_block *const live = r->list;
    const enum pinned_kind kind = pinned_kind_of(r, &live[from]);
    const struct reach reach_is = reach_of(r, &live[from]), *const reach = &reach_is;
    struct pinned_heap *h = &p->heaps[p->count++];
    struct walk w = {.p = p, .heap = h, .live = live};
    const uint64_t start = live[from].address;
    *h = (struct pinned_heap){.kind = kind,
                              .address = kind == PINNED_ARENA
                                             ? start >> r->heaps.shift << r->heaps.shift
                                             : start & ~(uint64_t)(PINNED_PAGE_BYTES - 1)};
    for (size_t i = from; i < to; i++)
        add_walk_block(&w, i);
    close_walk_page(&w, to);
    h->end = live[to - 1].address + live[to - 1].usable_bytes;
    const uint64_t low = (start - HEADER_BYTES) / PINNED_PAGE_BYTES,
                   first = pinned_page_up(reach->bottom) / PINNED_PAGE_BYTES,
                   above = (w.page + 1) * PINNED_PAGE_BYTES;
    if (pinned_page_up(reach->end) > above)
        h->above_bytes = pinned_page_up(reach->end) - above;
    h->cache_end = reach->cache_end;
    h->held_bytes = held_below_cache(h->cache_end, above, h->above_bytes);
    if (reach->bottom && first < low) {
        h->before_bytes = (low - first) * PINNED_PAGE_BYTES;
        pinned_stacks_at(&p->stacks, live[from].stack)->below_bytes += h->before_bytes;
    }
    h->span_bytes = (w.page + 1) * PINNED_PAGE_BYTES - (start & ~(uint64_t)(PINNED_PAGE_BYTES - 1));
    add_to_sum(p, h);
}

/* True if block i begins another heap than the one before it. */
static bool begins_heap(const struct pinned_reader *r, const struct pinned_block *list, size_t i)
{
    const struct pinned_block *l = &list[i];
    const enum pinned_kind kind = pinned_kind_of(r, l);
    return i == 0 || kind != pinned_kind_of(r, l - 1) ||
           (kind == PINNED_ARENA && (l->address ^ l[-1].address) >> r->heaps.shift) ||
           (kind == PINNED_MAIN &&
            seen_heaps_part(&r->heaps, l->address) != seen_heaps_part(&r->heaps, l[-1].address));
}

static bool take_highest(const struct pinned_reader *r, struct pinned *p)
{
    p->heap_most_bytes = r->most->all.most_bytes;
    p->small_most_bytes = r->most->sized[0].most_bytes;
    p->large_most_bytes = r->most->sized[1].most_bytes;
    p->large_bytes = r->most->sized[1].now_bytes;
    if (!p->highest)
        p->highest = malloc(PINNED_RANKED * sizeof *p->highest);
    if (p->highest && r->glibc)
        p->highest_count = highest_rank(r->most, p->highest, PINNED_RANKED);
    return p->highest != NULL;
}

/* Keeps only the memory of the moment before. */
static void clear_moment(struct pinned *p)
{
    const struct pinned_stacks stacks = p->stacks;
    struct highest_stack *const highest = p->highest;
    free(p->heaps);
    free(p->arenas);
    free(p->arena_of);
    *p = (struct pinned){.stacks = stacks, .highest = highest};
}

/* The next moment has come. */
static int take_next_moment(struct pinned_reader *r, struct error *err)
{
    const size_t moment = r->next;
    struct pinned *p = r->results ? &r->results[moment] : &r->now;
    size_t n = 0, heaps = 0;
    clear_moment(p);
    p->time_ns = r->times_ns[r->next++];
    p->glibc = r->glibc;
    p->unknown_version = r->unknown_version;
    p->fast_bytes = r->fast.most_bytes;
    bool done = pinned_stacks_clear(&p->stacks, r->image->stacks) && take_highest(r, p) &&
                sort_blocks(r, p, &n);
    const struct pinned_block *list = r->list;
    for (size_t i = 0; done && i < n; i++)
        heaps += begins_heap(r, list, i);
    p->heaps = calloc(heaps + 1, sizeof *p->heaps);
    done = done && p->heaps;
    for (size_t from = 0, to; done && from < n; from = to) {
        for (to = from + 1; to < n && !begins_heap(r, list, to);)
            to++;
        add_heap(r, p, from, to);
    }
    if (done && r->glibc) {
        add_empty(r, p);
        done = seen_heaps_arenas(&r->heaps, r->image, p);
    }
    int status = done ? 0 : error_memory_for(err, "what lies between live blocks");
    if (done && r->visit)
        status = r->visit(r->visit_arg, moment, p, list, n, err);
    return status;
}

int pinned_finish(struct pinned_reader *r, struct error *err)
{
    int status = 0;
    while (r->next < r->count && !status)
        status = take_next_moment(r, err);
    pinned_discard(r);
    return status;
}

void pinned_release(struct pinned *p)
{
    free(p->heaps);
    pinned_stacks_release(&p->stacks);
    free(p->highest);
    free(p->arenas);
    free(p->arena_of);
    memset(p, 0, sizeof *p);
}

int pinned_read(struct pinned_reader *r, struct trace *t, uint32_t image, struct error *err)
{
    struct trace_batch batch;
    struct trace_cursor *c = r ? trace_cursor_open_columns(t, image, pinned_columns(), err) : NULL;
    int more = c ? 1 : -1;
    while (more > 0 && (more = trace_cursor_next(c, &batch, err)) > 0)
        more = pinned_add(r, &batch, err);
    trace_cursor_close(c);
    if (more >= 0)
        return pinned_finish(r, err);
    pinned_discard(r);
    return -1;
}
