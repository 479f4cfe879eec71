/* writer_calls.c - many calls of one thread at once: malloc, calloc and free of blocks, which
 * nearly all calls are.
 *
 * The state that each call would load and store again is kept in local variables. Whether a call is
 * an allocation or a release is the program's choice, which no processor can predict. So there is
 * no branch on it. */
#include "base/fetch.h"
#include "workload/writer_impl.h"

struct hand {   /* the state of the writer and the stream, while the calls are taken */
    uint8_t *p; /* where the next record goes */
    struct slot *slots;
    uint64_t live_bytes, peak_bytes;
    uint64_t stop_ns; /* calls from this time on wait until the pace was written */
    uint32_t own, own_count, own_least, last_slot;
    /* these change seldom */
    const uint8_t *limit;         /* writer_make_ready is to look from here on */
    uint64_t blocks, peak_blocks; /* live ones, and free ones of the thread; live ones at most */
    uint32_t own_most, since_pace;
    uint64_t pace_ns;
    /* numbers of calls: up to the first, all but the pace is in the writer and the stream;
     * since_pace is as it was before the second */
    size_t from, paced;
};

#define PLAIN_BYTES 16u /* the most of a record here */

static uint32_t most_blocks(const struct hand *h)
{
    const uint64_t most = h->blocks - h->own_least;
    return (uint32_t)(most > h->peak_blocks ? most : h->peak_blocks);
}

/* The time of the next entry of the pace, or of a thread's end, as the caller has it. 0: it is due.
 */
static inline uint64_t pace_due_ns(const struct workload_writer *w, uint64_t pace_ns)
{
    const uint64_t due_ns = pace_ns + PACE_STEP_NS;
    const uint64_t stop_ns = w->last_ns >= due_ns ? 0 : w->base_ns + due_ns;
    return stop_ns < w->next_end_ns ? stop_ns : w->next_end_ns + 1;
}

/* Takes up the state before call number i. */
static void take_up(struct hand *h, const struct workload_writer *w, const struct stream *s,
                    size_t i)
{
    h->from = h->paced = i;
    h->p = s->ops + s->ops_bytes;
    h->limit = s->ops + s->ops_room;
    h->slots = w->slots;
    h->live_bytes = w->live_bytes;
    h->peak_bytes = w->facts[WORKLOAD_FACT_PEAK_BYTES];
    h->peak_blocks = w->facts[WORKLOAD_FACT_PEAK_BLOCKS];
    h->own = s->own;
    h->own_count = h->own_least = s->own_count;
    h->own_most = w->active > 1 ? writer_own_most(w) : UINT32_MAX;
    h->blocks = w->live_blocks + s->own_count;
    h->last_slot = s->last_slot;
    h->since_pace = s->since_pace;
    h->pace_ns = s->pace_ns;
    h->stop_ns = pace_due_ns(w, s->pace_ns);
}

/* Puts down what came of the calls before number i. */
static void put_down(const struct hand *h, struct workload_writer *w, struct stream *s,
                     const struct workload_calls *c, size_t i)
{
    const uint32_t records = (uint32_t)(i - h->from);
    if (!records)
        return;
    w->last_ns = ns_of(w, c->time_ns[i - 1]);
    s->ops_bytes = (uint32_t)(h->p - s->ops);
    s->since_pace = h->since_pace + (uint32_t)(i - h->paced);
    s->pace_ns = h->pace_ns;
    s->run += records;
    s->records += records;
    s->run_end = w->place += records;
    s->own = h->own;
    s->own_count = h->own_count;
    s->last_slot = h->last_slot;
    w->live_bytes = h->live_bytes;
    w->live_blocks = h->blocks - h->own_count;
    w->facts[WORKLOAD_FACT_PEAK_BYTES] = h->peak_bytes;
    w->facts[WORKLOAD_FACT_PEAK_BLOCKS] = most_blocks(h);
}

/* All bits for a release, none for an allocation. */
static inline uint64_t release_mask(unsigned code)
{
    _Static_assert((MLW_OP_FREE & 8) && !((MLW_OP_MALLOC | MLW_OP_CALLOC) & 8), "a bit of its own");
    return -(uint64_t)(code >> 3 & 1);
}
static inline uint64_t choose_masked(uint64_t mask, uint64_t a, uint64_t b)
{
    return b ^ ((a ^ b) & mask);
}

/* True if it is an allocation without a slot of the thread's own, or a release of a block that
 * another touched. */
static inline bool is_of_others(const struct workload_writer *w, const struct stream *s,
                                uint32_t thread, const struct workload_calls *c, size_t i)
{
    if (c->code[i] != MLW_OP_FREE)
        return s->own == NONE;
    const uint32_t slot = c->slots[c->slot[i]];
    return slot != NONE && w->slots[slot].toucher != thread;
}

/* Call number i, and those behind it up to n that are of others' slots. They are not like most: the
 * pace is due, or a thread has ended, or the chunk is full; or the slot is not the thread's own, or
 * others are to have it. Returns the number of the next; i after a failure. */
static __attribute__((noinline)) size_t take_rare(struct hand *h, struct workload_writer *w,
                                                  uint32_t thread, const struct workload_calls *c,
                                                  size_t i, size_t n)
{
    put_down(h, w, &w->streams[thread], c, i);
    h->from = h->paced = i;
    do {
        const unsigned code = c->code[i];
        uint32_t *theirs = &c->slots[c->slot[i]];
        uint8_t *p = begin(w, thread, c->time_ns[i]);
        if (!p)
            return i;
        struct stream *s = &w->streams[thread];
        if (code == MLW_OP_FREE) {
            p = writer_put_release(w, s, p, thread, code, *theirs);
            *theirs = NONE;
        } else {
            const uint32_t slot = writer_take_slot(w, s, &p, code, c->time_ns[i]);
            if (slot == NONE)
                return i;
            begin_life(w, slot, thread, c->size[i]);
            p = workload_put_short(p, c->size[i]);
            *theirs = slot;
        }
        end(w, thread, code, p);
        i++;
    } while (i < n && is_of_others(w, &w->streams[thread], thread, c, i));
    take_up(h, w, &w->streams[thread], i);
    return i;
}

/* With many live blocks no cache has what the caller and we know of each. It is asked for in two
 * steps, this many calls ahead. A number that is no slot does no harm. */
#define FAR  24u
#define NEAR 12u

FETCHES calls_look_ahead(const struct hand *h, const struct workload_calls *c, size_t i)
{
    if (i + FAR >= c->n)
        return;
    const uint32_t far = c->slot[i + FAR], near = c->slot[i + NEAR];
    __builtin_prefetch(&c->slots[far], 1);
    __builtin_prefetch(&h->slots[c->slots[near < c->slot_count ? near : 0]], 1);
}

/* The pace comes to the time of call number i. Returns how many calls behind it have room. */
static inline size_t calls_keep_pace(struct hand *h, const struct workload_writer *w,
                                     struct stream *s, uint64_t time_ns, size_t i)
{
    const uint64_t ns = ns_of(w, time_ns);
    writer_put_pace_entry(s, h->since_pace + (uint32_t)(i - h->paced) + 1, ns - h->pace_ns);
    h->since_pace = 0;
    h->paced = i + 1;
    h->pace_ns = ns;
    h->stop_ns = pace_due_ns(w, ns);
    h->limit = s->ops + s->ops_room;
    return h->p + PLAIN_BYTES < h->limit ? (size_t)(h->limit - h->p) / PLAIN_BYTES - 1 : 0;
}

/* Calls i to to - 1, for whose records there is room. Returns the number of the first that was not
 * taken: it is rare. */
static inline __attribute__((always_inline)) size_t
take_some(struct hand *into, struct workload_writer *w, uint32_t thread,
          const struct workload_calls *c, size_t i, size_t to, const bool far_away)
{
    struct hand h = *into; /* which is in no memory */
    const struct workload_calls k = *c;
    struct stream *s = &w->streams[thread];
    const uint64_t toucher = (uint64_t)thread << 32;
    for (; i < to; i++) {
        const unsigned code = k.code[i];
        const uint64_t size_bytes = k.size[i], time_ns = k.time_ns[i], frees = release_mask(code);
        uint32_t *theirs = &k.slots[k.slot[i]];
        const uint32_t slot = (uint32_t)choose_masked(frees, *theirs, h.own);
        if (__builtin_expect(slot == NONE, 0))
            break;
        struct slot *b = &h.slots[slot];
        const uint64_t before =
            b->size_bytes; /* the slot of the block that ends, or the next free slot */
        /* A slot of the thread's own was touched by it. */
        if (__builtin_expect((slot_state(b) - toucher >= WORKLOAD_GENERATIONS - 1) |
                                 (h.own_count > h.own_most),
                             0))
            break;
        if (__builtin_expect(time_ns >= h.stop_ns, 0)) {
            if (time_ns > w->next_end_ns || ns_of(w, time_ns) - h.pace_ns < PACE_STEP_NS)
                break;
            const size_t room = calls_keep_pace(&h, w, s, time_ns, i);
            to = to - i - 1 < room ? to : i + 1 + room;
        }
        if (far_away)
            calls_look_ahead(&h, &k, i);
        const uint32_t d = slot - h.last_slot;
        const uint32_t difference = (uint32_t)(d << 1) ^ (uint32_t)((int32_t)d >> 31);
        w->calls[code]++;
        *theirs = (uint32_t)choose_masked(frees, NONE, slot);
        b->size_bytes = choose_masked(frees, h.own, size_bytes);
        b->generation += 1 + (uint32_t)frees;
        h.own = (uint32_t)choose_masked(frees, slot, before);
        h.own_count -= 1 + 2 * (uint32_t)frees;
        h.own_least = h.own_count < h.own_least ? h.own_count : h.own_least;
        h.live_bytes += choose_masked(frees, -before, size_bytes);
        h.peak_bytes = h.live_bytes > h.peak_bytes ? h.live_bytes : h.peak_bytes;
        h.last_slot = slot;
        *h.p = (uint8_t)code;
        h.p = workload_put_short(h.p + 1, choose_masked(frees, difference, size_bytes));
    }
    *into = h;
    return i;
}

/* How many of the calls are of the same thread as the first, and need no care. */
static size_t count_plain(const struct workload_calls *c)
{
    const uint32_t of = c->thread[0];
    size_t n = 0;
    while (n < c->n && c->code[n] && c->thread[n] == of)
        n++;
    return n;
}

size_t workload_writer_calls(struct workload_writer *w, uint32_t thread,
                             const struct workload_calls *c)
{
    const size_t n = count_plain(c);
    size_t i = 0;
    struct hand h;
    take_up(&h, w, &w->streams[thread], 0);
    while (i < n) {
        struct stream *s = &w->streams[thread];
        if (h.p < h.limit && s->run_end == w->place) {
            const size_t room = ((size_t)(h.limit - h.p) + PLAIN_BYTES - 1) / PLAIN_BYTES;
            const size_t to = n - i < room ? n : i + room;
            i = c->far_away ? take_some(&h, w, thread, c, i, to, true)
                            : take_some(&h, w, thread, c, i, to, false);
            if (i == to || h.p >= h.limit)
                continue;
        }
        if (c->code[i] == MLW_OP_FREE && c->slots[c->slot[i]] == NONE)
            break; /* it is of no block: the caller is to say so */
        const size_t next = take_rare(&h, w, thread, c, i, n);
        if (next == i)
            break;
        i = next;
    }
    put_down(&h, w, &w->streams[thread], c, i);
    w->last_thread = thread;
    return i;
}
