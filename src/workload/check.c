/* check.c - Simulates a workload record by record and proves that it is sound, so that the
 * replay can run without checks. A heap of threads by place gives the order of the recording.
 * All memory comes from mmap. */
#include "workload/check.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NONE UINT32_MAX

static int unsound(struct error *err, const char *what, uint64_t where)
{
    return error_set(err, ERROR_FORMAT, "the workload is damaged: %s (at %" PRIu64 ")", what,
                     where);
}

/* Zeroed memory of the kernel's; NULL without. */
static void *map_zeroed(size_t bytes)
{
    void *p =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct reader {
    const uint8_t *p, *end;
    bool bad;
};

static uint64_t take_checked_number(struct reader *r)
{
    uint64_t v = 0;
    if (r->bad || !workload_get_checked(&r->p, r->end, &v))
        r->bad = true;
    return r->bad ? 0 : v;
}

/* The chunk at an offset with its checksum, or NULL. */
static const uint8_t *checked_chunk(const struct workload *w, uint64_t offset, uint32_t kind,
                                    struct workload_chunk *c)
{
    if (offset > w->bytes || w->bytes - offset < sizeof *c)
        return NULL;
    memcpy(c, w->data + offset, sizeof *c);
    uint64_t payload = (uint64_t)c->ops_bytes + c->runs_bytes + c->pace_bytes;
    const uint8_t *p = w->data + offset + sizeof *c;
    if (c->magic != WORKLOAD_CHUNK_MAGIC || c->kind != kind || c->zero ||
        payload > w->bytes - offset - sizeof *c ||
        (kind == WORKLOAD_CHUNK_RECORDS && payload > WORKLOAD_PAYLOAD_MAX) ||
        workload_checksum(c, p, payload) != c->checksum)
        return NULL;
    return p;
}

static int read_summary(struct workload *w, struct reader r, uint64_t at, struct error *err)
{
    uint64_t facts = take_checked_number(&r);
    for (uint64_t i = 0; i < facts && !r.bad; i++) {
        uint64_t tag = take_checked_number(&r), value = take_checked_number(&r);
        if (tag < WORKLOAD_FACT_COUNT)
            w->facts[tag] = value;
    }
    uint64_t codes = take_checked_number(&r);
    for (uint64_t i = 0; i < codes && !r.bad; i++) {
        uint64_t code = take_checked_number(&r), calls = take_checked_number(&r);
        if (code >= WORKLOAD_CODES)
            return unsound(err, "a code that does not exist", at);
        w->calls[code] = calls;
    }
    uint64_t threads = take_checked_number(&r);
    /* a thread takes 4 bytes of the summary, an offset one */
    uint64_t left = (uint64_t)(r.end - r.p);
    if (r.bad || threads > WORKLOAD_THREADS_MAX || threads > left / 4)
        return unsound(err, "the table of threads", at);
    w->thread_count = (uint32_t)threads;
    w->map_bytes = threads * sizeof *w->threads + left * sizeof *w->offsets;
    w->threads = map_zeroed(w->map_bytes);
    if (!w->threads)
        return error_memory_for(err, "%" PRIu64 " threads", threads);
    w->offsets = (uint64_t *)(w->threads + threads);
    for (uint64_t i = 0; i < threads && !r.bad; i++) {
        struct workload_thread *t = &w->threads[i];
        uint64_t seat = take_checked_number(&r), flags = take_checked_number(&r);
        t->records = take_checked_number(&r);
        t->chunks = take_checked_number(&r);
        t->first_chunk = w->offset_count;
        t->seat = (uint32_t)seat;
        t->flags = (uint32_t)flags;
        if (r.bad || seat >= w->facts[WORKLOAD_FACT_SEATS] || flags > 7 ||
            t->chunks > (uint64_t)(r.end - r.p))
            return unsound(err, "a thread of the summary", at);
        uint64_t offset = 0;
        for (uint64_t k = 0; k < t->chunks; k++) {
            offset += take_checked_number(&r);
            w->offsets[w->offset_count++] = offset;
        }
    }
    if (r.bad || r.p != r.end)
        return unsound(err, "the summary's length", at);
    if (w->facts[WORKLOAD_FACT_SLOTS] > WORKLOAD_SLOTS_MAX ||
        w->facts[WORKLOAD_FACT_SLOTS] > w->facts[WORKLOAD_FACT_RECORDS] ||
        w->facts[WORKLOAD_FACT_SEATS] > threads || w->facts[WORKLOAD_FACT_RECORDS] > w->bytes)
        return unsound(err, "the summary's totals", at);
    return 0;
}

int workload_open(int fd, struct workload *w, struct error *err)
{
    memset(w, 0, sizeof *w);
    struct stat st;
    if (fstat(fd, &st))
        return error_system(err, "cannot look at the workload");
    struct workload_head head;
    struct workload_tail tail;
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)(sizeof head + sizeof tail))
        return error_set(err, ERROR_FORMAT, "not a workload file (`mallow workload` makes one)");
    w->bytes = (size_t)st.st_size;
    void *p = mmap(NULL, w->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return error_system(err, "cannot map the workload");
    w->data = p;
    memcpy(&head, w->data, sizeof head);
    memcpy(&tail, w->data + w->bytes - sizeof tail, sizeof tail);
    struct workload_chunk c;
    const uint8_t *payload;
    int bad = 0;
    if (head.magic != WORKLOAD_MAGIC)
        bad = error_set(err, ERROR_FORMAT, "not a workload file (`mallow workload` makes one)");
    else if (head.version != WORKLOAD_VERSION)
        bad = error_set(err, ERROR_FORMAT, "the workload has version %u; this mallow knows %u",
                        head.version, WORKLOAD_VERSION);
    else if (tail.magic != WORKLOAD_END_MAGIC || tail.zero || head.zero)
        bad = unsound(err, "its end is missing", w->bytes);
    else if (!(payload = checked_chunk(w, tail.summary_offset, WORKLOAD_CHUNK_SUMMARY, &c)))
        bad = unsound(err, "its summary", tail.summary_offset);
    else
        bad = read_summary(w, (struct reader){payload, payload + c.ops_bytes, false},
                           tail.summary_offset, err);
    if (bad)
        workload_close(w);
    return bad;
}

void workload_unmap(struct workload *w)
{
    if (w->data)
        munmap((void *)w->data, w->bytes);
    w->data = NULL;
}

void workload_close(struct workload *w)
{
    workload_unmap(w);
    if (w->threads)
        munmap(w->threads, w->map_bytes);
    w->threads = NULL;
}

/* --- the check --- */

enum { SLOT_NEW = 0, SLOT_FULL = 1, SLOT_OWN = 2, SLOT_DONATED = 3, SLOT_GONE = 4 };

struct slot {
    uint64_t size_bytes;
    uint32_t generation_state; /* generation << 3 | state */
    uint32_t toucher;
    uint32_t next;
};

struct line { /* a thread's position */
    struct reader ops, runs, pace;
    uint64_t next_chunk, place, first_ns;
    uint32_t chunk_records, records_left,
        run_left; /* records of the chunk; left in it; left in the run */
    uint64_t records;
    uint32_t last_slot, last_generation, own;
    bool started, over;
};

struct check {
    const struct workload *w;
    struct slot *slots;
    struct line *lines;
    uint32_t *heap, heap_count; /* started threads with records left, by place */
    uint32_t *seats;            /* who sits there, NONE before */
    uint32_t slot_count;
    uint64_t calls[WORKLOAD_CODES];
    uint64_t live_bytes, live_blocks, peak_bytes, place;
    uint64_t begun;              /* threads that have executed a record */
    struct workload_event event; /* the record at hand */
    void (*visit)(void *arg, const struct workload_event *event);
    void *arg;
    struct error *err;
};

static int fault(struct check *c, const char *what) { return unsound(c->err, what, c->place); }

/* The next run of the chunk, or the first of the next chunk. 1, 0 at the end, -1. */
static int check_next_run(struct check *c, uint32_t thread)
{
    struct line *l = &c->lines[thread];
    const struct workload_thread *t = &c->w->threads[thread];
    bool first = false;
    if (!l->records_left) {
        if (l->next_chunk) {
            if (l->ops.p != l->ops.end || l->runs.p != l->runs.end)
                return fault(c, "a chunk has more bytes than records");
            uint64_t paced = 0, ns = l->first_ns;
            while (l->pace.p < l->pace.end && !l->pace.bad) {
                uint64_t records = take_checked_number(&l->pace),
                         more = take_checked_number(&l->pace);
                if (!records || records > WORKLOAD_PAYLOAD_MAX ||
                    more > c->w->facts[WORKLOAD_FACT_DURATION_NS])
                    return fault(c, "a chunk's pace");
                paced += records;
                ns += more;
            }
            if (l->pace.bad || paced >= l->chunk_records ||
                ns > c->w->facts[WORKLOAD_FACT_DURATION_NS])
                return fault(c, "a chunk's pace");
        }
        if (l->next_chunk == t->chunks)
            return 0;
        struct workload_chunk k;
        const uint8_t *p = checked_chunk(c->w, c->w->offsets[t->first_chunk + l->next_chunk],
                                         WORKLOAD_CHUNK_RECORDS, &k);
        if (!p || k.thread != thread || !k.records || k.records > k.ops_bytes ||
            (l->next_chunk && k.first_place < l->place))
            return fault(c, "a chunk");
        l->next_chunk++;
        l->ops = (struct reader){p, p + k.ops_bytes, false};
        l->runs = (struct reader){l->ops.end, l->ops.end + k.runs_bytes, false};
        l->pace = (struct reader){l->runs.end, l->runs.end + k.pace_bytes, false};
        l->records_left = k.records;
        l->place = k.first_place;
        l->last_slot = l->last_generation = 0;
        l->chunk_records = k.records;
        l->first_ns = k.first_ns;
        if (k.first_ns > c->w->facts[WORKLOAD_FACT_DURATION_NS])
            return fault(c, "a time");
        first = true;
    }
    uint64_t gap = take_checked_number(&l->runs), length = take_checked_number(&l->runs);
    if (l->runs.bad || (first && gap) || gap > c->w->bytes || !length || length > l->records_left)
        return fault(c, "a chunk's runs");
    l->place += gap;
    l->run_left = (uint32_t)length;
    return 1;
}

static void check_sift(struct check *c, uint32_t i)
{
    uint32_t *h = c->heap, v = h[i];
    for (;;) {
        uint32_t k = 2 * i + 1;
        if (k >= c->heap_count)
            break;
        if (k + 1 < c->heap_count && c->lines[h[k + 1]].place < c->lines[h[k]].place)
            k++;
        if (c->lines[h[k]].place >= c->lines[v].place)
            break;
        h[i] = h[k];
        i = k;
    }
    h[i] = v;
}

static int check_start_thread(struct check *c, uint32_t thread)
{
    struct line *l = &c->lines[thread];
    const struct workload_thread *t = &c->w->threads[thread];
    if (l->started)
        return fault(c, "a thread starts twice");
    uint32_t before = c->seats[t->seat];
    if (before != NONE &&
        (!c->lines[before].over || t->flags & WORKLOAD_THREAD_BEGIN ||
         c->w->threads[before].flags & (WORKLOAD_THREAD_STAYS | WORKLOAD_THREAD_MAIN)))
        return fault(c, "a thread takes a seat that is taken");
    if (before != NONE && before > thread)
        return fault(c, "a thread takes the seat of one with a higher number");
    c->seats[t->seat] = thread;
    l->started = true;
    l->own = NONE;
    int more = check_next_run(c, thread);
    if (more <= 0) {
        l->over = true;
        return more;
    }
    uint32_t i = c->heap_count++;
    while (i && c->lines[c->heap[(i - 1) / 2]].place > l->place) {
        c->heap[i] = c->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    c->heap[i] = thread;
    return 0;
}

static struct slot *check_named_slot(struct check *c, struct line *l)
{
    uint64_t z = take_checked_number(&l->ops);
    if (l->ops.bad || z > UINT32_MAX)
        return NULL;
    l->last_slot += (uint32_t)(z >> 1) ^ (uint32_t) - (int32_t)(z & 1);
    return l->last_slot < c->slot_count ? &c->slots[l->last_slot] : NULL;
}

static bool generation_is(struct line *l, const struct slot *s)
{
    uint64_t z = take_checked_number(&l->ops);
    if (l->ops.bad || z > UINT32_MAX)
        return false;
    l->last_generation += (uint32_t)(z >> 1) ^ (uint32_t) - (int32_t)(z & 1);
    return l->last_generation == s->generation_state >> 3;
}

/* A slot that must be full: named, and waited for when `handed`. NULL when the file is wrong. */
static struct slot *full_slot(struct check *c, struct line *l, uint32_t thread, bool handed)
{
    struct slot *s = check_named_slot(c, l);
    if (!s || (s->generation_state & 7) != SLOT_FULL ||
        (handed ? !generation_is(l, s) : s->toucher != thread))
        return NULL;
    c->event.waits = handed;
    c->event.toucher = s->toucher;
    s->toucher = thread;
    return s;
}

static int check_begin_life(struct check *c, struct slot *s, uint32_t thread, uint64_t size_bytes)
{
    uint32_t generation = (s->generation_state >> 3) + 1;
    if (generation >= WORKLOAD_GENERATIONS)
        return fault(c, "a slot has too many lives");
    s->generation_state = generation << 3 | SLOT_FULL;
    s->toucher = thread;
    s->size_bytes = size_bytes;
    c->live_bytes += size_bytes;
    c->live_blocks++;
    if (c->live_bytes > c->peak_bytes)
        c->peak_bytes = c->live_bytes;
    return 0;
}

static void end_life(struct check *c, struct slot *s, unsigned state)
{
    c->live_bytes -= s->size_bytes;
    c->live_blocks--;
    s->size_bytes = 0;
    s->generation_state = (s->generation_state & ~7u) | state;
}

/* Donated, or left behind on the stack of a thread that has ended. */
static bool may_be_taken(const struct check *c, const struct slot *s)
{
    unsigned state = s->generation_state & 7;
    return state == SLOT_DONATED || (state == SLOT_OWN && c->lines[s->toucher].over);
}

static int allocation(struct check *c, struct line *l, uint32_t thread, unsigned code,
                      unsigned variant)
{
    struct slot *s = NULL;
    switch (variant) {
    case WORKLOAD_OWN:
        if (l->own == NONE)
            return fault(c, "no slot on the stack");
        l->last_slot = l->own;
        s = &c->slots[l->own];
        l->own = s->next;
        break;
    case WORKLOAD_NEW:
        s = check_named_slot(c, l);
        if (!s || s->generation_state)
            return fault(c, "a new slot");
        break;
    case WORKLOAD_TAKEN:
        s = check_named_slot(c, l);
        if (!s || !generation_is(l, s) || !may_be_taken(c, s))
            return fault(c, "a taken slot");
        c->event.waits = true;
        c->event.toucher = s->toucher;
        break;
    case WORKLOAD_FAILED: break;
    default: return fault(c, "a variant that does not exist");
    }
    if (workload_aligned(code))
        c->event.alignment = take_checked_number(&l->ops);
    uint64_t size = c->event.size_bytes = take_checked_number(&l->ops);
    if (l->ops.bad)
        return fault(c, "a number");
    c->event.has_slot = s != NULL;
    return s ? check_begin_life(c, s, thread, size) : 0;
}

static int check_release(struct check *c, struct line *l, uint32_t thread, unsigned code,
                         unsigned variant)
{
    if (variant > WORKLOAD_NULL || (variant == WORKLOAD_NULL && code == WORKLOAD_VANISH))
        return fault(c, "a variant that does not exist");
    if (variant != WORKLOAD_NULL) {
        struct slot *s = full_slot(c, l, thread, variant & WORKLOAD_FROM_OTHER);
        if (!s)
            return fault(c, "a release");
        c->event.has_slot = true;
        end_life(c, s, variant & WORKLOAD_DONATE ? SLOT_DONATED : SLOT_OWN);
        if (!(variant & WORKLOAD_DONATE)) {
            s->next = l->own;
            l->own = l->last_slot;
        }
    }
    if (workload_release_aligned(code))
        take_checked_number(&l->ops);
    if (workload_release_sized(code))
        take_checked_number(&l->ops);
    return l->ops.bad ? fault(c, "a number") : 0;
}

static int reallocation(struct check *c, struct line *l, uint32_t thread, unsigned variant)
{
    struct slot *s =
        full_slot(c, l, thread, variant == WORKLOAD_HANDED || variant == WORKLOAD_ZERO_HANDED);
    if (!s)
        return fault(c, "a reallocation");
    c->event.has_slot = true;
    end_life(c, s, SLOT_DONATED);
    if (variant == WORKLOAD_ZERO || variant == WORKLOAD_ZERO_HANDED)
        return 0;
    uint64_t size = c->event.size_bytes = take_checked_number(&l->ops);
    return l->ops.bad ? fault(c, "a number") : check_begin_life(c, s, thread, size);
}

static int check_move(struct check *c, struct line *l, uint32_t thread, bool handed)
{
    struct slot *s = full_slot(c, l, thread, handed);
    c->event.size_bytes = l->last_slot;
    struct slot *to = s ? check_named_slot(c, l) : NULL;
    if (!to || to->generation_state)
        return fault(c, "a move");
    *to = *s;
    to->generation_state = 1u << 3 | SLOT_FULL;
    s->generation_state = (s->generation_state & ~7u) | SLOT_GONE;
    return 0;
}

static int check_record(struct check *c, struct line *l, uint32_t thread)
{
    if (l->ops.p >= l->ops.end)
        return fault(c, "a chunk has fewer bytes than records");
    uint8_t first = *l->ops.p++;
    unsigned code = workload_code(first), variant = workload_variant(first);
    c->calls[code]++;
    c->event = (struct workload_event){.thread = thread, .code = code, .variant = variant};
    if (workload_allocates(code))
        return allocation(c, l, thread, code, variant);
    if (workload_releases(code))
        return check_release(c, l, thread, code, variant);
    if (workload_reallocates(code))
        return variant >= WORKLOAD_LOCAL ? reallocation(c, l, thread, variant)
                                         : allocation(c, l, thread, code, variant);
    if (code == WORKLOAD_START) {
        uint64_t who = take_checked_number(&l->ops);
        if (variant || l->ops.bad || who >= c->w->thread_count)
            return fault(c, "a start");
        c->event.size_bytes = who;
        return check_start_thread(c, (uint32_t)who);
    }
    if (code == WORKLOAD_END) {
        uint64_t begun = take_checked_number(&l->ops);
        return variant || l->ops.bad || begun > c->begun ? fault(c, "an end") : 0;
    }
    if (code == WORKLOAD_POOL) {
        uint64_t pool = take_checked_number(&l->ops);
        return variant || l->ops.bad || pool - 1 >= WORKLOAD_POOLS ? fault(c, "a pool") : 0;
    }
    if (variant & ~(unsigned)WORKLOAD_FROM_OTHER)
        return fault(c, "a variant that does not exist");
    if (code == WORKLOAD_MOVE)
        return check_move(c, l, thread, variant);
    if (code == WORKLOAD_EARLY) {
        struct slot *s = full_slot(c, l, thread, variant);
        if (!s)
            return fault(c, "an early end");
        c->live_bytes -= s->size_bytes;
        s->size_bytes = 0;
        return 0;
    }
    return fault(c, "a code that does not exist");
}

static int check_walk(struct check *c)
{
    for (uint32_t i = 0; i < c->w->facts[WORKLOAD_FACT_SEATS]; i++)
        c->seats[i] = NONE;
    unsigned mains = 0;
    for (uint32_t i = 0; i < c->w->thread_count; i++) {
        mains += c->w->threads[i].flags & WORKLOAD_THREAD_MAIN;
        if ((c->w->threads[i].flags & 3) == WORKLOAD_THREAD_MAIN)
            return fault(c, "a main thread that is not there from the beginning");
        if (c->w->threads[i].flags & WORKLOAD_THREAD_BEGIN && check_start_thread(c, i))
            return -1;
    }
    if (mains > 1)
        return fault(c, "two main threads");
    while (c->heap_count) {
        uint32_t thread = c->heap[0];
        struct line *l = &c->lines[thread];
        if (l->place != c->place)
            return fault(c, "a place that no record has, or two have");
        for (; l->run_left; l->run_left--) {
            if (check_record(c, l, thread))
                return -1;
            if (c->visit) {
                c->event.slot = l->last_slot;
                c->event.live_bytes = c->live_bytes;
                c->visit(c->arg, &c->event);
            }
            l->records_left--;
            c->begun += !l->records++;
            l->place = ++c->place;
        }
        if (c->heap[0] != thread) /* a thread that started in this run comes before its start */
            return fault(c, "a thread that runs before its start");
        int more = check_next_run(c, thread);
        if (more < 0)
            return -1;
        if (!more) {
            l->over = true;
            c->heap[0] = c->heap[--c->heap_count];
        }
        if (c->heap_count)
            check_sift(c, 0);
    }
    return 0;
}

/* The summary must say what the records say. */
static int compare_totals(struct check *c)
{
    const struct workload *w = c->w;
    uint64_t operations = 0;
    for (unsigned i = 0; i < WORKLOAD_CODES; i++) {
        if (workload_is_call(i))
            operations += c->calls[i];
        if (w->calls[i] != (workload_is_call(i) ? c->calls[i] : 0))
            return fault(c, "the summary's calls");
    }
    for (uint32_t i = 0; i < w->thread_count; i++)
        if (!c->lines[i].over || c->lines[i].records != w->threads[i].records)
            return fault(c, "a thread's records");
    if (operations != w->facts[WORKLOAD_FACT_OPERATIONS] ||
        c->place != w->facts[WORKLOAD_FACT_RECORDS] ||
        c->peak_bytes != w->facts[WORKLOAD_FACT_PEAK_BYTES] ||
        c->live_bytes != w->facts[WORKLOAD_FACT_END_BYTES] ||
        c->live_blocks != w->facts[WORKLOAD_FACT_END_BLOCKS])
        return fault(c, "the summary's totals");
    return 0;
}

int workload_check(const struct workload *w, struct error *err)
{
    return workload_visit(w, NULL, NULL, err);
}

int workload_visit(const struct workload *w,
                   void (*visit)(void *arg, const struct workload_event *event), void *arg,
                   struct error *err)
{
    struct check c = {.w = w,
                      .err = err,
                      .visit = visit,
                      .arg = arg,
                      .slot_count = (uint32_t)w->facts[WORKLOAD_FACT_SLOTS]};
    size_t slots = c.slot_count * sizeof *c.slots, lines = w->thread_count * sizeof *c.lines,
           heap = w->thread_count * sizeof *c.heap,
           seats = w->facts[WORKLOAD_FACT_SEATS] * sizeof *c.seats;
    size_t bytes = slots + lines + heap + seats;
    char *p = map_zeroed(bytes);
    if (!p)
        return error_memory_for(err, "checking a workload of %u slots", c.slot_count);
    c.slots = (struct slot *)(void *)p;
    c.lines = (struct line *)(void *)(p + slots);
    c.heap = (uint32_t *)(void *)(p + slots + lines);
    c.seats = (uint32_t *)(void *)(p + slots + lines + heap);
    int bad = check_walk(&c);
    if (!bad)
        bad = compare_totals(&c);
    munmap(p, bytes ? bytes : 1);
    return bad;
}
