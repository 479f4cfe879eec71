/* scan.c - Reads every used block once and records each word that points into another used
 * block. Threads take pieces of the heap from an atomic counter. A lock orders the pieces'
 * references into one array, so the result does not depend on the number of threads. */
#include "heap/scan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "heap/spill.h"

enum { PIECE_BYTES = 1 << 20, HOLE_BYTES = 1 << 14, BATCH = 64, TEXT_MIN = 4, TEXT_LOOK = 32 };

struct piece { /* blocks whose bytes are read at once; or one large block */
    uint32_t first, end;
    uint32_t *target;
    uint32_t count, room;
    struct sighting *seen;
    size_t seen_count, seen_room;
    bool scanned;
};

struct scanning {
    bool sight;
    struct target *t;
    const struct blocks *b;
    const struct images *images;
    struct scan *s;
    struct piece *pieces;
    size_t piece_count, piece_room;
    struct image_span low, high; /* no block lies outside of these */
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock; /* guards the members below */
    size_t joined;        /* pieces whose references are in s->target */
    uint64_t references;
    size_t target_room, seen_room;
};

struct batch {
    uint64_t value[BATCH];
    uint32_t source[BATCH];
    const uint64_t *word[BATCH]; /* where the value stands, and how many words from there on */
    uint32_t words[BATCH];
    uint64_t shift; /* address in the target less address of a word here */
    unsigned count;
    uint32_t last_source, last_target;
};

/* --- pieces --- */

static int add_piece(struct scanning *g, uint32_t first, uint32_t end)
{
    if (first >= end)
        return 0;
    if (!ARRAY_ROOM(g->pieces, g->piece_count + 1, g->piece_room))
        return -1;
    g->pieces[g->piece_count++] = (struct piece){.first = first, .end = end};
    return 0;
}

/* Runs of blocks of up to PIECE_BYTES, without long stretches of free memory. */
static int cut_segment(struct scanning *g, const struct walk_segment *s)
{
    const struct blocks *b = g->b;
    uint32_t first = s->first_block;
    for (uint32_t i = s->first_block; i < s->end_block; i++) {
        uint64_t whole = blocks_whole_bytes(b, i);
        bool hole = !blocks_is_used(b, i) && whole >= HOLE_BYTES;
        if (hole || b->address[i] + whole - b->address[first] > PIECE_BYTES) {
            if (add_piece(g, first, i))
                return -1;
            first = hole ? i + 1 : i;
        }
    }
    return add_piece(g, first, s->end_block);
}

static void make_spans(struct scanning *g, const struct walk *w)
{
    uint64_t gap = 0;
    size_t cut = 0, n = w->segment_count;
    if (!n)
        return;
    for (size_t i = 1; i < n; i++)
        if (w->segments[i].first > w->segments[i - 1].end &&
            w->segments[i].first - w->segments[i - 1].end > gap) {
            gap = w->segments[i].first - w->segments[i - 1].end;
            cut = i;
        }
    uint64_t start = w->segments[0].first, last = w->segments[n - 1].end;
    uint64_t low_end = cut ? w->segments[cut - 1].end : last, high = w->segments[cut].first;
    g->low = (struct image_span){start, low_end - start};
    g->high = (struct image_span){high, last - high};
}

/* --- references --- */

static int emit(struct scanning *g, struct piece *p, struct batch *k, uint32_t source,
                uint32_t target)
{
    if (source == target || (source == k->last_source && target == k->last_target))
        return 0;
    k->last_source = source;
    k->last_target = target;
    if (!ARRAY_ROOM(p->target, p->count + (size_t)1, p->room))
        return -1;
    p->target[p->count++] = target;
    g->s->first[source]++; /* a count, for now; only this thread has this block */
    return 0;
}

static int sight(const struct scanning *g, struct piece *p, const struct batch *k, unsigned i,
                 uint32_t target)
{
    enum sighting_kind kind = sighting_of(g->b, target, k->word[i], k->words[i]);
    if (!kind)
        return 0;
    if (!ARRAY_ROOM(p->seen, p->seen_count + 1, p->seen_room))
        return -1;
    p->seen[p->seen_count++] = (struct sighting){(uint64_t)k->word[i] + k->shift, target, kind};
    return 0;
}

/* Looks up the candidates together, so that their memory is fetched together. */
static int flush(struct scanning *g, struct piece *p, struct batch *k)
{
    const struct blocks_page *page[BATCH] = {NULL};
    for (unsigned i = 0; i < k->count; i++) {
        page[i] = blocks_page_of(g->b, k->value[i] - BLOCK_GRANULE);
        if (page[i]) {
            __builtin_prefetch(page[i]);
            __builtin_prefetch((const uint8_t *)page[i] + sizeof *page[i] - 1);
        }
    }
    for (unsigned i = 0; i < k->count; i++) {
        uint32_t target = page[i] ? blocks_pointed_on(g->b, page[i], k->value[i]) : BLOCK_NONE;
        if (target == BLOCK_NONE)
            continue;
        if (emit(g, p, k, k->source[i], target) || (g->sight && sight(g, p, k, i, target)))
            return -1;
    }
    k->count = 0;
    return 0;
}

static int scan_words(struct scanning *g, struct piece *p, struct batch *k, uint32_t source,
                      const uint64_t *words, size_t n)
{
    const uint64_t low = g->low.start, low_bytes = g->low.bytes;
    const uint64_t high = g->high.start, high_bytes = g->high.bytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = words[i];
        if (__builtin_expect(v - low >= low_bytes && v - high >= high_bytes, 1))
            continue;
        k->value[k->count] = v;
        k->word[k->count] = &words[i];
        k->words[k->count] = n - i < SIGHTING_WORDS ? (uint32_t)(n - i) : SIGHTING_WORDS;
        k->source[k->count++] = source;
        if (k->count == BATCH && flush(g, p, k))
            return -1;
    }
    return 0;
}

static bool is_text(const uint8_t *bytes, size_t n)
{
    size_t i = 0, look = n < TEXT_LOOK ? n : TEXT_LOOK;
    while (i < look && ((bytes[i] >= 0x20 && bytes[i] < 0x7f) || bytes[i] == '\n' ||
                        bytes[i] == '\t' || bytes[i] == '\r'))
        i++;
    return i >= TEXT_MIN && (i == look || !bytes[i]);
}

/* The first sign of what a block is: a pointer into a module's data among its first words, as
 * virtual tables, type objects and tables of functions are pointed to; or text. */
static uint32_t mark_of(const struct scanning *g, const uint64_t *words, size_t n)
{
    static const uint8_t order[] = {1, 3, 2, 5};
    uint32_t mark = n ? images_mark(g->images, words[0]) : MARK_NONE;
    if (mark)
        return mark;
    if (is_text((const uint8_t *)words, n * 8))
        return MARK_TEXT;
    for (size_t i = 0; i < sizeof order; i++)
        if (order[i] < n && (mark = images_mark(g->images, words[order[i]])))
            return mark;
    return MARK_NONE;
}

static int scan_small(struct scanning *g, struct piece *p, struct batch *k, uint8_t *room)
{
    const struct blocks *b = g->b;
    uint64_t start = b->address[p->first];
    uint64_t end = b->address[p->end - 1] + blocks_whole_bytes(b, p->end - 1);
    if (b->kind[p->end - 1] != BLOCK_EXACT) /* its neighbor's size stands behind */
        end -= 8;
    size_t have = target_read_past(g->t, start, room, end - start);
    k->shift = start - (uint64_t)room;
    for (uint32_t i = p->first; i < p->end; i++) {
        uint64_t at = b->address[i] - start, bytes = blocks_bytes(b, i);
        if (!blocks_is_used(b, i) || at >= have)
            continue;
        if (bytes > have - at)
            bytes = have - at;
        const uint64_t *words = (const uint64_t *)(room + at);
        g->s->mark[i] = mark_of(g, words, bytes / 8);
        if (scan_words(g, p, k, i, words, bytes / 8))
            return -1;
    }
    return flush(g, p, k);
}

static int scan_large(struct scanning *g, struct piece *p, struct batch *k, uint8_t *room)
{
    uint64_t at = g->b->address[p->first], end = at + blocks_bytes(g->b, p->first);
    bool first = true;
    if (!blocks_is_used(g->b, p->first))
        return 0;
    while ((at = first ? at : target_next(g->t, at, end)) < end) {
        uint64_t want = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
        size_t have = target_read_past(g->t, at, room, want);
        if (have / 8 && first)
            g->s->mark[p->first] = mark_of(g, (const uint64_t *)room, have / 8);
        first = false;
        k->shift = at - (uint64_t)room;
        if (scan_words(g, p, k, p->first, (const uint64_t *)room, have / 8) || flush(g, p, k))
            return -1;
        at += want;
    }
    return 0;
}

/* The pieces' references as one array, in the order of blocks. Few pieces wait for their turn. */
static int join(struct scanning *g, struct piece *scanned)
{
    struct scan *s = g->s;
    int status = 0;
    pthread_mutex_lock(&g->lock);
    scanned->scanned = true;
    for (; !status && g->joined < g->piece_count && g->pieces[g->joined].scanned; g->joined++) {
        struct piece *p = &g->pieces[g->joined];
        const uint64_t sum = g->references + p->count;
        if (sum >= UINT32_MAX || !SPILL_ROOM(s->target, sum, g->target_room)) {
            status = -1;
            break;
        }
        if (p->count)
            memcpy(s->target + g->references, p->target, p->count * sizeof *p->target);
        g->references = sum;
        free(p->target);
        p->target = NULL;
        if (p->seen_count && !SPILL_ROOM(s->seen, s->seen_count + p->seen_count, g->seen_room)) {
            status = -1;
            break;
        }
        if (p->seen_count)
            memcpy(s->seen + s->seen_count, p->seen, p->seen_count * sizeof *p->seen);
        s->seen_count += p->seen_count;
        free(p->seen);
        p->seen = NULL;
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}

static void *work(void *arg)
{
    struct scanning *g = arg;
    uint8_t *room = aligned_alloc(64, PIECE_BYTES + TARGET_PAGE_BYTES);
    while (room && !g->failed) {
        size_t i = g->next++;
        if (i >= g->piece_count)
            break;
        struct piece *p = &g->pieces[i];
        struct batch k = {.last_source = BLOCK_NONE};
        bool large = p->end == p->first + 1 && blocks_whole_bytes(g->b, p->first) > PIECE_BYTES;
        if ((large ? scan_large(g, p, &k, room) : scan_small(g, p, &k, room)) || join(g, p))
            g->failed = true;
    }
    if (!room)
        g->failed = true;
    free(room);
    return NULL;
}

static void run(struct scanning *g, unsigned threads)
{
    enum { THREADS_MAX = 64 };
    pthread_t other[THREADS_MAX];
    unsigned started = 0;
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    while (started + 1 < threads && !pthread_create(&other[started], NULL, work, g))
        started++;
    work(g);
    for (unsigned i = 0; i < started; i++)
        pthread_join(other[i], NULL);
}

/* Where each block's references begin, of how many it has. */
static int add_up(struct scanning *g)
{
    struct scan *s = g->s;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < g->b->count; i++) {
        uint32_t n = s->first[i];
        s->first[i] = sum;
        sum += n;
    }
    s->first[g->b->count] = s->references = sum;
    uint32_t *fit =
        spill_grow(s->target, g->target_room * sizeof *fit, (sum ? sum : 1) * sizeof *fit);
    s->target = fit ? fit : s->target;
    return s->target ? 0 : -1;
}

int scan_heap(struct scan *s, struct target *t, const struct walk *w, const struct images *images,
              bool sight_containers, unsigned threads, struct error *err)
{
    struct scanning g = {
        .sight = sight_containers, .t = t, .b = &w->blocks, .images = images, .s = s};
    *s = (struct scan){0};
    pthread_mutex_init(&g.lock, NULL);
    s->first = spill_zeros((size_t)w->blocks.count + 1, sizeof *s->first);
    s->mark = spill_zeros((size_t)w->blocks.count + 1, sizeof *s->mark);
    int status = s->first && s->mark ? 0 : -1;
    for (size_t i = 0; !status && i < w->segment_count; i++)
        status = cut_segment(&g, &w->segments[i]);
    make_spans(&g, w);
    spill_hold();
    if (!status)
        run(&g, threads);
    spill_release();
    if (!status && !g.failed)
        status = add_up(&g);
    for (size_t i = 0; i < g.piece_count; i++) {
        free(g.pieces[i].target);
        free(g.pieces[i].seen);
    }
    free(g.pieces);
    pthread_mutex_destroy(&g.lock);
    if (status || g.failed) {
        scan_release(s);
        return error_memory_for(err, "more references than this machine holds");
    }
    return 0;
}

void scan_release(struct scan *s)
{
    spill_free(s->first);
    spill_free(s->target);
    spill_free(s->mark);
    spill_free(s->weak);
    spill_free(s->seen);
    *s = (struct scan){0};
}
