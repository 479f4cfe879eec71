/* writer.c - Chooses slots, seats and places for the calls of a workload, and writes its chunks
 * and summary. A thread reuses its own free slots first, so that threads wait for each other
 * only where the program handed a block over. After the first error every function does nothing. */
#include "workload/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/large.h"
#include "workload/writer_impl.h"

#define RECORD_BYTES_MAX 96u /* the most of a record, its run and its pace */

static void writer_no_memory(struct workload_writer *w)
{
    if (!w->failed)
        error_memory_for(&w->error, "while making a workload");
    w->failed = true;
}

static void put_out(struct workload_writer *w, const void *data, size_t n)
{
    const char *p = data;
    while (n && !w->failed) {
        ssize_t k = write(w->whole.draft.fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            error_system(&w->error, "cannot write %s", w->path);
            w->failed = true;
            return;
        }
        p += k;
        n -= (size_t)k;
        w->offset += (uint64_t)k;
    }
}

struct workload_writer *workload_writer_new(const char *path, struct error *err)
{
    struct workload_writer *w = calloc(1, sizeof *w);
    if (!w || !(w->path = strdup(path))) {
        free(w);
        error_memory_for(err, "while making a workload");
        return NULL;
    }
    if (trust_whole_open(&w->whole, w->path, err)) {
        trust_unreachable(err, "cannot create", path);
        free(w->path);
        free(w);
        return NULL;
    }
    w->shared_head = w->shared_tail = w->last_thread = NONE;
    w->base_ns = w->next_end_ns = UINT64_MAX;
    const struct workload_head head = {WORKLOAD_MAGIC, WORKLOAD_VERSION, 0};
    put_out(w, &head, sizeof head);
    return w;
}

static void release_writer(struct workload_writer *w)
{
    for (uint32_t i = 0; i < w->stream_count; i++) {
        free(w->streams[i].ops);
        free(w->streams[i].offsets);
    }
    free(w->streams);
    free(w->slots);
    free(w->seats);
    free(w->path);
    free(w);
}

void workload_writer_abandon(struct workload_writer *w)
{
    struct error ignored;
    trust_whole_close(&w->whole, false, &ignored);
    release_writer(w);
}

/* Grows an array by doubling; false without memory. */
static bool grow_array(struct workload_writer *w, void **array, uint32_t *cap, uint32_t need,
                       size_t each)
{
    if (need <= *cap)
        return true;
    uint32_t n = *cap ? *cap : 64;
    while (n < need)
        n *= 2;
    void *p = large_grow(*array, *cap * each, n * each);
    if (!p) {
        writer_no_memory(w);
        return false;
    }
    *array = p;
    *cap = n;
    return true;
}

uint32_t workload_writer_thread(struct workload_writer *w, bool is_main, bool ended,
                                uint64_t end_ns)
{
    if (!grow_array(w, (void **)&w->streams, &w->stream_cap, w->stream_count + 1,
                    sizeof *w->streams))
        return 0;
    struct stream *s = &w->streams[w->stream_count];
    memset(s, 0, sizeof *s);
    s->own = s->seat = NONE;
    s->flags = (is_main ? WORKLOAD_THREAD_MAIN | WORKLOAD_THREAD_BEGIN : 0u) |
               (ended ? 0u : (unsigned)WORKLOAD_THREAD_STAYS);
    s->ended = ended;
    s->end_ns = end_ns;
    return w->stream_count++;
}

/* --- chunks --- */

static void writer_end_run(struct stream *s)
{
    if (!s->run)
        return;
    uint8_t *p = workload_put(s->runs + s->runs_bytes, s->gap);
    p = workload_put(p, s->run);
    s->runs_bytes = (uint32_t)(p - s->runs);
    s->run = 0;
}

static void writer_flush(struct workload_writer *w, struct stream *s)
{
    if (!s->records)
        return;
    writer_end_run(s);
    struct workload_chunk c = {.magic = WORKLOAD_CHUNK_MAGIC,
                               .kind = WORKLOAD_CHUNK_RECORDS,
                               .thread = (uint32_t)(s - w->streams),
                               .records = s->records,
                               .ops_bytes = s->ops_bytes,
                               .runs_bytes = s->runs_bytes,
                               .pace_bytes = s->pace_bytes,
                               .first_place = s->first_place,
                               .first_ns = s->first_ns};
    uint8_t *p = w->out + sizeof c;
    memcpy(p, s->ops, s->ops_bytes);
    p += s->ops_bytes;
    memcpy(p, s->runs, s->runs_bytes);
    p += s->runs_bytes;
    memcpy(p, s->pace, s->pace_bytes);
    p += s->pace_bytes;
    size_t n = (size_t)(p - w->out) - sizeof c;
    c.checksum = workload_checksum(&c, w->out + sizeof c, n);
    memcpy(w->out, &c, sizeof c);
    if (!ARRAY_ROOM(s->offsets, s->offset_count + 1, s->offset_cap)) {
        writer_no_memory(w);
        return;
    }
    s->offsets[s->offset_count++] = w->offset;
    put_out(w, w->out, sizeof c + n);
    w->ops_bytes += s->ops_bytes;
    w->order_bytes += s->runs_bytes;
    w->pace_bytes += s->pace_bytes;
    s->total_records += s->records;
    s->records = s->ops_bytes = s->runs_bytes = s->pace_bytes = s->ops_room = 0;
    s->last_slot = s->last_generation = 0;
}

/* --- threads --- */

static void put_start(struct workload_writer *w, uint32_t starter, uint32_t thread,
                      uint64_t time_ns);

/* The slots of threads that ended are everybody's. */
static void reclaim(struct workload_writer *w, struct stream *s)
{
    if (s->own == NONE)
        return;
    uint32_t last = s->own;
    for (;;) {
        uint32_t next = w->slots[last].next;
        if (next == NONE)
            break;
        last = next;
    }
    if (w->shared_tail == NONE)
        w->shared_head = s->own;
    else
        w->slots[w->shared_tail].next = s->own;
    w->shared_tail = last;
    w->shared_count += s->own_count;
    s->own = NONE;
    s->own_count = 0;
}

static bool stream_is_over(const struct stream *s, uint64_t time_ns)
{
    return s->started && s->ended && s->end_ns < time_ns;
}

static void reclaim_all(struct workload_writer *w, uint64_t time_ns)
{
    for (uint32_t i = 0; i < w->seat_count; i++) {
        struct stream *s = &w->streams[w->seats[i]];
        if (stream_is_over(s, time_ns))
            reclaim(w, s);
    }
}

/* The starter of a thread: the one that acted last, or another that is still there. */
static uint32_t find_starter(const struct workload_writer *w)
{
    uint32_t starter = w->last_thread;
    if (starter == NONE || !w->streams[starter].end_written)
        return starter;
    for (uint32_t i = 0; i < w->seat_count; i++)
        if (!w->streams[w->seats[i]].end_written)
            return w->seats[i];
    return starter;
}

static void start_thread(struct workload_writer *w, uint32_t thread, uint64_t time_ns)
{
    struct stream *s = &w->streams[thread];
    uint32_t starter = find_starter(w), seat = NONE;
    s->started = true;
    w->begun++;
    if (s->ended && s->end_ns < w->next_end_ns)
        w->next_end_ns = s->end_ns;
    bool first = starter == NONE;
    if (first)
        s->flags |= WORKLOAD_THREAD_BEGIN;
    uint32_t active = 0;
    for (uint32_t i = 0; i < w->seat_count; i++) {
        struct stream *old = &w->streams[w->seats[i]];
        if (!stream_is_over(old, time_ns)) {
            active++;
            continue;
        }
        reclaim(w, old);
        if (old->ops && !old->records) {
            free(old->ops);
            old->ops = NULL;
        }
        if (seat == NONE && !(s->flags & WORKLOAD_THREAD_BEGIN) && w->seats[i] != starter &&
            !(old->flags & WORKLOAD_THREAD_MAIN))
            seat = i;
    }
    w->active = active + 1;
    if (seat == NONE) {
        if (!grow_array(w, (void **)&w->seats, &w->seat_cap, w->seat_count + 1, sizeof *w->seats))
            return;
        seat = w->seat_count++;
    } else {
        struct stream *old = &w->streams[w->seats[seat]];
        writer_flush(w, old);
        free(old->ops);
        old->ops = NULL;
    }
    w->seats[seat] = thread;
    s->seat = seat;
    if (!(s->flags & WORKLOAD_THREAD_BEGIN))
        put_start(w, starter, thread, time_ns);
}

static void put_end(struct workload_writer *w, uint32_t thread, uint64_t time_ns);

/* Writes down which threads have ended since, before anything later. */
static void end_threads(struct workload_writer *w, uint64_t time_ns)
{
    uint32_t last = w->last_thread;
    w->next_end_ns = UINT64_MAX;
    for (uint32_t i = 0; i < w->seat_count; i++) {
        struct stream *s = &w->streams[w->seats[i]];
        if (!s->started || !s->ended || s->end_written)
            continue;
        if (stream_is_over(s, time_ns)) {
            s->end_written = true;
            if (!(s->flags & WORKLOAD_THREAD_MAIN))
                put_end(w, w->seats[i], s->end_ns);
        } else if (s->end_ns < w->next_end_ns) {
            w->next_end_ns = s->end_ns;
        }
    }
    w->last_thread = last;
}

static bool make_buffers(struct workload_writer *w, struct stream *s)
{
    s->ops = malloc(3 * (size_t)WORKLOAD_PAYLOAD_MAX);
    if (!s->ops) {
        writer_no_memory(w);
        return false;
    }
    s->runs = s->ops + WORKLOAD_PAYLOAD_MAX;
    s->pace = s->runs + WORKLOAD_PAYLOAD_MAX;
    return true;
}

/* --- records --- */

/* Others had the places since this thread's last record. */
void writer_skip_places(const struct workload_writer *w, struct stream *s)
{
    const uint32_t before = s->runs_bytes;
    writer_end_run(s);
    s->gap = w->place - s->run_end;
    take_room(s, s->runs_bytes - before);
}

void writer_put_pace(struct stream *s, uint64_t ns)
{
    writer_put_pace_entry(s, s->since_pace, ns - s->pace_ns);
    s->pace_ns = ns;
    s->since_pace = 0;
}

/* Rare work before a record: threads that ended, a thread's first record, a chunk that is full or
 * begins. False after a failure. */
bool writer_make_ready(struct workload_writer *w, uint32_t thread, uint64_t time_ns)
{
    if (w->failed)
        return false;
    if (time_ns > w->next_end_ns)
        end_threads(w, time_ns);
    if (!w->streams[thread].started) {
        if (w->base_ns == UINT64_MAX)
            w->base_ns = time_ns;
        start_thread(w, thread, time_ns);
    }
    struct stream *s = &w->streams[thread];
    if (!s->ops && !make_buffers(w, s))
        return false;
    if (s->ops_bytes + s->runs_bytes + s->pace_bytes + RECORD_BYTES_MAX > WORKLOAD_PAYLOAD_MAX)
        writer_flush(w, s);
    if (!s->records) {
        s->first_place = s->run_end = w->place;
        s->first_ns = s->pace_ns = ns_of(w, time_ns);
        s->gap = 0;
        s->since_pace = UINT32_MAX; /* so that it is 0 behind the first record */
    }
    s->ops_room = WORKLOAD_PAYLOAD_MAX - RECORD_BYTES_MAX - s->runs_bytes - s->pace_bytes;
    return true;
}

static void put_start(struct workload_writer *w, uint32_t starter, uint32_t thread,
                      uint64_t time_ns)
{
    uint8_t *p = begin(w, starter, time_ns);
    if (!p)
        return;
    *p++ = WORKLOAD_START;
    p = workload_put(p, thread);
    end(w, starter, WORKLOAD_START, p);
}

static void put_end(struct workload_writer *w, uint32_t thread, uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    *p++ = WORKLOAD_END;
    p = workload_put(p, w->begun);
    end(w, thread, WORKLOAD_END, p);
}

void workload_writer_pool(struct workload_writer *w, uint32_t thread, unsigned pool,
                          uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    *p++ = WORKLOAD_POOL;
    p = workload_put(p, pool);
    end(w, thread, WORKLOAD_POOL, p);
}

static uint32_t new_slot(struct workload_writer *w)
{
    if (w->slot_count >= WORKLOAD_SLOTS_MAX) {
        error_set(&w->error, ERROR_UNSUPPORTED, "more than 2^31 blocks are live at once");
        w->failed = true;
        return NONE;
    }
    if (!grow_array(w, (void **)&w->slots, &w->slot_cap, w->slot_count + 1, sizeof *w->slots))
        return NONE;
    w->slots[w->slot_count].generation = 0;
    return w->slot_count++;
}

uint32_t writer_take_slot(struct workload_writer *w, struct stream *s, uint8_t **at, unsigned code,
                          uint64_t time_ns)
{
    uint8_t *p = *at;
    uint32_t slot = s->own;
    if (slot != NONE) {
        *p++ = (uint8_t)(code | WORKLOAD_OWN << 5);
        s->own = w->slots[slot].next;
        s->own_count--;
        s->last_slot = slot;
        *at = p;
        return slot;
    }
    const uint32_t slack = 8 * w->active + w->slot_count / 64;
    if (w->shared_count <= slack && !w->until_reclaim--) {
        w->until_reclaim = 1024 + w->seat_count;
        reclaim_all(w, time_ns);
    }
    if (w->shared_count > slack) {
        slot = w->shared_head;
        w->shared_head = w->slots[slot].next;
        if (w->shared_head == NONE)
            w->shared_tail = NONE;
        w->shared_count--;
        *p++ = (uint8_t)(code | WORKLOAD_TAKEN << 5);
        p = put_slot(s, p, slot);
        p = put_generation(s, p, w->slots[slot].generation);
    } else {
        slot = new_slot(w);
        if (slot == NONE)
            return NONE;
        *p++ = (uint8_t)(code | WORKLOAD_NEW << 5);
        p = put_slot(s, p, slot);
    }
    *at = p;
    return slot;
}

uint32_t workload_writer_allocate(struct workload_writer *w, uint32_t thread, unsigned code,
                                  uint64_t size_bytes, uint64_t alignment, uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return 0;
    struct stream *s = &w->streams[thread];
    const uint32_t slot = writer_take_slot(w, s, &p, code, time_ns);
    if (slot == NONE)
        return 0;
    begin_life(w, slot, thread, size_bytes);
    if (workload_aligned(code))
        p = workload_put(p, alignment);
    p = workload_put_short(p, size_bytes);
    end(w, thread, code, p);
    return slot;
}

void workload_writer_failed(struct workload_writer *w, uint32_t thread, unsigned code,
                            uint64_t size_bytes, uint64_t alignment, uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    *p++ = (uint8_t)(code | WORKLOAD_FAILED << 5);
    if (workload_aligned(code))
        p = workload_put(p, alignment);
    p = workload_put(p, size_bytes);
    end(w, thread, code, p);
}

static uint8_t *put_sizes(uint8_t *p, unsigned code, uint64_t size_bytes, uint64_t alignment)
{
    if (workload_release_aligned(code))
        p = workload_put(p, alignment);
    if (workload_release_sized(code))
        p = workload_put(p, size_bytes);
    return p;
}

void workload_writer_null(struct workload_writer *w, uint32_t thread, unsigned code,
                          uint64_t size_bytes, uint64_t alignment, uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    *p++ = (uint8_t)(code | WORKLOAD_NULL << 5);
    end(w, thread, code, put_sizes(p, code, size_bytes, alignment));
}

void workload_writer_expect(const struct workload_writer *w, uint32_t slot)
{
    if (slot < w->slot_count)
        __builtin_prefetch(&w->slots[slot], 1);
}

/* A slot that is free again goes to other threads, unless it has had all its lives. */
void writer_donate(struct workload_writer *w, uint32_t slot)
{
    struct slot *b = &w->slots[slot];
    if (b->generation >= WORKLOAD_GENERATIONS - 1)
        return;
    b->next = NONE;
    if (w->shared_tail == NONE)
        w->shared_head = slot;
    else
        w->slots[w->shared_tail].next = slot;
    w->shared_tail = slot;
    w->shared_count++;
}

/* The head of an operation on a block that there is, `local` or, where another thread touched it
 * last, `handed`; its slot, and the generation that the other thread must have come to. The thread
 * touched it last now. */
static uint8_t *put_touched(struct stream *s, uint8_t *p, struct slot *b, uint32_t slot,
                            uint32_t thread, unsigned local, unsigned handed)
{
    const bool other = b->toucher != thread;
    *p++ = (uint8_t)(other ? handed : local);
    p = put_slot(s, p, slot);
    b->toucher = thread;
    return other ? put_generation(s, p, b->generation) : p;
}

uint8_t *writer_put_release(struct workload_writer *w, struct stream *s, uint8_t *p,
                            uint32_t thread, unsigned code, uint32_t slot)
{
    struct slot *b = &w->slots[slot];
    const bool handed = b->toucher != thread;
    bool give = b->generation >= WORKLOAD_GENERATIONS - 1;
    if (w->active > 1)
        give |= handed || s->own_count > writer_own_most(w);
    const unsigned head = code | (give ? WORKLOAD_DONATE << 5 : 0);
    p = put_touched(s, p, b, slot, thread, head, head | WORKLOAD_FROM_OTHER << 5);
    w->live_bytes -= b->size_bytes;
    w->live_blocks--;
    if (give) {
        writer_donate(w, slot);
    } else {
        b->next = s->own;
        s->own = slot;
        s->own_count++;
    }
    return p;
}

void workload_writer_release(struct workload_writer *w, uint32_t thread, unsigned code,
                             uint32_t slot, uint64_t size_bytes, uint64_t alignment,
                             uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    p = writer_put_release(w, &w->streams[thread], p, thread, code, slot);
    end(w, thread, code, put_sizes(p, code, size_bytes, alignment));
}

uint32_t workload_writer_reallocate(struct workload_writer *w, uint32_t thread, unsigned code,
                                    uint32_t slot, uint64_t size_bytes, uint64_t time_ns)
{
    if (!w->failed && w->slots[slot].generation >= WORKLOAD_GENERATIONS - 1) {
        uint32_t to = new_slot(w);
        uint8_t *p = to == NONE ? NULL : begin(w, thread, time_ns);
        if (!p)
            return slot;
        struct stream *s = &w->streams[thread];
        p = put_touched(s, p, &w->slots[slot], slot, thread, WORKLOAD_MOVE,
                        WORKLOAD_MOVE | WORKLOAD_FROM_OTHER << 5);
        p = put_slot(s, p, to);
        w->slots[to] = w->slots[slot];
        w->slots[to].generation = 1;
        slot = to;
        end(w, thread, WORKLOAD_MOVE, p);
    }
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return slot;
    struct stream *s = &w->streams[thread];
    struct slot *b = &w->slots[slot];
    p = put_touched(s, p, b, slot, thread, code | WORKLOAD_LOCAL << 5, code | WORKLOAD_HANDED << 5);
    w->live_bytes -= b->size_bytes;
    w->live_blocks--;
    b->generation++;
    b->size_bytes = size_bytes;
    comes_alive(w, size_bytes);
    end(w, thread, code, workload_put(p, size_bytes));
    return slot;
}

void workload_writer_reallocate_zero(struct workload_writer *w, uint32_t thread, unsigned code,
                                     uint32_t slot, uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    struct stream *s = &w->streams[thread];
    struct slot *b = &w->slots[slot];
    p = put_touched(s, p, b, slot, thread, code | WORKLOAD_ZERO << 5,
                    code | WORKLOAD_ZERO_HANDED << 5);
    w->live_bytes -= b->size_bytes;
    w->live_blocks--;
    writer_donate(w, slot);
    end(w, thread, code, p);
}

void workload_writer_early(struct workload_writer *w, uint32_t thread, uint32_t slot,
                           uint64_t time_ns)
{
    uint8_t *p = begin(w, thread, time_ns);
    if (!p)
        return;
    struct stream *s = &w->streams[thread];
    struct slot *b = &w->slots[slot];
    p = put_touched(s, p, b, slot, thread, WORKLOAD_EARLY,
                    WORKLOAD_EARLY | WORKLOAD_FROM_OTHER << 5);
    w->live_bytes -= b->size_bytes;
    b->size_bytes = 0;
    end(w, thread, WORKLOAD_EARLY, p);
}

void workload_writer_count(struct workload_writer *w, enum workload_fact fact, uint64_t n)
{
    w->facts[fact] += n;
}

/* --- the end --- */

static void writer_put_summary(struct workload_writer *w)
{
    size_t cap = 4096;
    for (uint32_t i = 0; i < w->stream_count; i++)
        cap += 64 + 10 * w->streams[i].offset_count;
    uint8_t *data = malloc(cap), *p = data;
    if (!data) {
        writer_no_memory(w);
        return;
    }
    p = workload_put(p, WORKLOAD_FACT_COUNT - 1);
    for (unsigned i = 1; i < WORKLOAD_FACT_COUNT; i++) {
        p = workload_put(p, i);
        p = workload_put(p, w->facts[i]);
    }
    unsigned codes = 0;
    for (unsigned i = 1; i < WORKLOAD_CODES; i++)
        codes += w->calls[i] && workload_is_call(i);
    p = workload_put(p, codes);
    for (unsigned i = 1; i < WORKLOAD_CODES; i++)
        if (w->calls[i] && workload_is_call(i)) {
            p = workload_put(p, i);
            p = workload_put(p, w->calls[i]);
        }
    p = workload_put(p, w->stream_count);
    for (uint32_t i = 0; i < w->stream_count; i++) {
        const struct stream *s = &w->streams[i];
        p = workload_put(p, s->seat);
        p = workload_put(p, s->flags);
        p = workload_put(p, s->total_records);
        p = workload_put(p, s->offset_count);
        for (size_t k = 0; k < s->offset_count; k++)
            p = workload_put(p, s->offsets[k] - (k ? s->offsets[k - 1] : 0));
    }
    size_t n = (size_t)(p - data);
    if (n > UINT32_MAX) {
        error_set(&w->error, ERROR_UNSUPPORTED, "the workload has too many chunks for its summary");
        w->failed = true;
    }
    struct workload_chunk c = {
        .magic = WORKLOAD_CHUNK_MAGIC, .kind = WORKLOAD_CHUNK_SUMMARY, .ops_bytes = (uint32_t)n};
    c.checksum = workload_checksum(&c, data, n);
    const struct workload_tail tail = {w->offset, WORKLOAD_END_MAGIC, 0};
    put_out(w, &c, sizeof c);
    put_out(w, data, n);
    put_out(w, &tail, sizeof tail);
    free(data);
}

int workload_writer_finish(struct workload_writer *w, struct workload_written *written,
                           struct error *err)
{
    for (uint32_t i = 0; i < w->stream_count; i++) {
        struct stream *s = &w->streams[i];
        if (!s->started) { /* without a call: the process's first thread, or none */
            s->seat = w->seat_count;
            if (!grow_array(w, (void **)&w->seats, &w->seat_cap, w->seat_count + 1,
                            sizeof *w->seats))
                break;
            w->seats[w->seat_count++] = i;
            s->flags |= WORKLOAD_THREAD_BEGIN;
        }
        if (s->records)
            writer_flush(w, s);
    }
    w->facts[WORKLOAD_FACT_SLOTS] = w->slot_count;
    w->facts[WORKLOAD_FACT_SEATS] = w->seat_count;
    w->facts[WORKLOAD_FACT_RECORDS] = w->place;
    w->facts[WORKLOAD_FACT_DURATION_NS] = w->last_ns;
    w->facts[WORKLOAD_FACT_PRESENT] = w->calls[WORKLOAD_PRESENT];
    w->facts[WORKLOAD_FACT_END_BYTES] = w->live_bytes;
    w->facts[WORKLOAD_FACT_END_BLOCKS] = w->live_blocks;
    w->facts[WORKLOAD_FACT_OPERATIONS] = 0;
    for (unsigned i = 0; i < WORKLOAD_CODES; i++)
        if (workload_is_call(i))
            w->facts[WORKLOAD_FACT_OPERATIONS] += w->calls[i];
    if (!w->failed)
        writer_put_summary(w);
    if (trust_whole_close(&w->whole, !w->failed, &w->error))
        w->failed = true;
    int result = 0;
    if (w->failed) {
        *err = w->error;
        result = -1;
    } else if (written) {
        memcpy(written->facts, w->facts, sizeof w->facts);
        written->file_bytes = w->offset;
        written->ops_bytes = w->ops_bytes;
        written->order_bytes = w->order_bytes;
        written->pace_bytes = w->pace_bytes;
        written->threads = w->stream_count;
    }
    release_writer(w);
    return result;
}
