/* engine.c - Runs the threads of a workload and keeps their order: turns, stages, starts and
 * seats. Memory comes from mmap before the first call, so that the engine does not disturb the
 * allocator. Threads pass their progress by atomics and sleep in park.h. */
#include "replay/engine.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/clock.h"
#include "arch/page.h"
#include "replay/allocator.h"
#include "replay/execute.h"
#include "replay/pool.h"

#define NONE          UINT32_MAX
#define STACK_BYTES   (128u << 10)
#define STACK_TOUCHED (16u << 10)
#define HUGE_BYTES    (2u << 20)
#define STEP_MIN      (16 << 10)
#define NEAR_SLOTS    (1u << 15) /* so many lie in a processor's own cache */
#define SLICE         1024u      /* records between two checks for due work */
#define IDLE_NS       10e6       /* the longest sleep between two such looks */

void engine_die(const char *what)
{
    static const char intro[] = "mallow-replay: ";
    if (write(2, intro, sizeof intro - 1) < 0 || write(2, what, strlen(what)) < 0 ||
        write(2, "\n", 1) < 0)
        _exit(1);
    _exit(1);
}

static size_t round_to_pages(size_t bytes)
{
    return (bytes + ARCH_PAGE_BYTES - 1) & ~(size_t)(ARCH_PAGE_BYTES - 1);
}

/* Memory of the kernel's, zeroed, its last `touched` bytes touched; counts as the engine's own. */
static void *own_end(struct engine *e, size_t bytes, size_t touched, struct error *err)
{
    bytes = round_to_pages(bytes);
    touched = round_to_pages(touched);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        error_memory_for(err, "%zu bytes for the replay", bytes);
        return NULL;
    }
    /* Large pages only where all of each is touched, so that the counted memory is resident. */
    uintptr_t from =
                  ((uintptr_t)p + bytes - touched + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1),
              to = ((uintptr_t)p + bytes) & ~(uintptr_t)(HUGE_BYTES - 1);
    madvise(p, bytes, MADV_NOHUGEPAGE);
    if (from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    for (size_t i = bytes - touched; i < bytes; i += ARCH_PAGE_BYTES)
        ((volatile uint8_t *)p)[i] = 0;
    e->own_bytes += touched;
    e->own_mapped_bytes += bytes;
    return p;
}

static void *own(struct engine *e, size_t bytes, struct error *err)
{
    bytes = bytes ? bytes : 1;
    return own_end(e, bytes, bytes, err);
}

int engine_init(struct engine *e, const struct workload *w, const struct stages *stages, int fd,
                const struct engine_options *options, struct error *err)
{
    memset(e, 0, sizeof *e);
    e->stages = stages;
    e->bound = stages && stages->count ? stages->cuts[0] : UINT64_MAX;
    e->workload = w;
    e->options = *options;
    e->fd = fd;
    e->many = w->thread_count > 1;
    e->far_away = !e->many && w->facts[WORKLOAD_FACT_SLOTS] > NEAR_SLOTS;
    e->seat_count = (uint32_t)w->facts[WORKLOAD_FACT_SEATS];
    e->overhead_cycles = execute_overhead();
    for (unsigned code = 1; code < ENGINE_CODES; code++) {
        e->nearest[code] = (uint8_t)allocator_nearest(code);
        if (!e->nearest[code] && w->calls[code])
            return error_set(
                err, ERROR_UNSUPPORTED,
                "%s has no %s and no function that can replace it, and the workload calls it",
                allocator_file(), mlw_op_name(code));
    }
    e->slots = own(e, w->facts[WORKLOAD_FACT_SLOTS] * sizeof *e->slots, err);
    e->seats = e->slots ? own(e, e->seat_count * sizeof *e->seats, err) : NULL;
    if (!e->seats)
        return -1;
    if (options->pooled) {
        size_t mapped = 0;
        e->pools = pools_new(&mapped);
        e->own_mapped_bytes += mapped;
        if (!e->pools)
            return error_system(err, "no address space for pools");
    }
    /* Between threads live bytes are summed in steps: at most 1/512 of the peak over all, and not
     * so small that every call would write to a line that all share; with stages the peak is known
     * well enough without. */
    e->step = (int64_t)(w->facts[WORKLOAD_FACT_PEAK_BYTES] / 512 / (e->seat_count + 1));
    if (stages && e->step < STEP_MIN)
        e->step = STEP_MIN;
    for (uint32_t i = 0; i < e->seat_count; i++) {
        struct engine_seat *s = &e->seats[i];
        s->engine = e;
        s->random = 0x9e3779b97f4a7c15u * (i + 1);
        s->countdown = 1 + i % 64;
        s->buffer = own(e, WORKLOAD_PAYLOAD_MAX + 64, err);
        s->stack = s->buffer ? own_end(e, STACK_BYTES, STACK_TOUCHED, err) : NULL;
        if (!s->stack)
            return -1;
    }
    size_t tables = round_to_pages(w->map_bytes) + (stages ? stages->map_bytes : 0);
    e->own_bytes += tables;
    e->own_mapped_bytes += tables;
    for (size_t i = 0; i < w->map_bytes; i += ARCH_PAGE_BYTES)
        (void)((volatile const uint8_t *)w->threads)[i];
    park_init(&e->park, e->seat_count);
    return 0;
}

/* --- a thread's way through its chunks --- */

static void load_chunk(struct engine_seat *s)
{
    const struct workload *w = s->engine->workload;
    const struct workload_thread *t = &w->threads[s->thread];
    struct workload_chunk *c = &s->chunk;
    s->record = NULL;
    s->records_before = s->next_chunk ? s->records_before + c->records : 0;
    uint64_t at = w->offsets[t->first_chunk + s->next_chunk++];
    size_t payload = 0;
    ssize_t n = pread(s->engine->fd, c, sizeof *c, (off_t)at);
    if (n == (ssize_t)sizeof *c) {
        payload = (size_t)c->ops_bytes + c->runs_bytes + c->pace_bytes;
        n = payload > WORKLOAD_PAYLOAD_MAX
                ? -1
                : pread(s->engine->fd, s->buffer, payload, (off_t)(at + sizeof *c));
    } else {
        n = -1;
    }
    if (n != (ssize_t)payload || workload_checksum(c, s->buffer, payload) != c->checksum)
        engine_die("the workload file changed while it was replayed");
    s->ops = s->buffer;
    s->runs = s->ops + c->ops_bytes;
    s->pace = s->runs + c->runs_bytes;
    s->records_left = c->records;
    s->last_slot = s->last_generation = 0;
}

void engine_wait(struct engine_seat *s, enum engine_sleep why, uint64_t key,
                 bool (*ready)(void *arg), void *arg)
{
    if (park_wait(&s->engine->park, key, ready, arg)) {
        s->sleeps[why]++;
        execute_waited(s);
    }
}

struct turn {
    struct engine *engine;
    uint64_t place;
};

static bool is_turn(void *arg)
{
    const struct turn *t = arg;
    return atomic_load_explicit(&t->engine->turn, memory_order_acquire) == t->place;
}

static void take_turn(struct engine_seat *s, uint64_t place)
{
    struct engine *e = s->engine;
    struct turn t = {e, place};
    if (!is_turn(&t))
        engine_wait(s, ENGINE_SLEEP_TURN, ~place, is_turn, &t);
    s->live = atomic_load_explicit(&e->live, memory_order_relaxed);
    s->high = atomic_load_explicit(&e->peak, memory_order_relaxed);
}

static void publish_live(struct engine_seat *s)
{
    atomic_store_explicit(&s->engine->live, s->live, memory_order_relaxed);
    atomic_store_explicit(&s->engine->peak, s->high, memory_order_relaxed);
}

static void give_turn(struct engine_seat *s, uint64_t place)
{
    publish_live(s);
    atomic_store_explicit(&s->engine->turn, place, memory_order_release);
    park_wake(&s->engine->park, ~place);
}

static inline void do_chores(const struct engine *e)
{
    if (__builtin_expect(atomic_load_explicit(&e->measure->due, memory_order_relaxed) != 0, 0))
        measure_chores(e->measure);
}

/* Until the time of a record, at the chosen pace. */
static void wait_for_pace(const struct engine *e, uint64_t recorded_ns)
{
    double due_ns = (double)recorded_ns / e->options.pace;
    for (;;) {
        double now_ns = (double)(engine_clock() - e->start_tsc) / e->cycles_per_ns;
        double left = due_ns - now_ns;
        if (left <= 0)
            return;
        if (left < 60000) {
            arch_pause();
            continue;
        }
        do_chores(e);
        double sleep_ns = left - 50000 < IDLE_NS ? left - 50000 : IDLE_NS;
        struct timespec t = {.tv_sec = (time_t)(sleep_ns / 1e9)};
        t.tv_nsec = (long)(sleep_ns - (double)t.tv_sec * 1e9);
        nanosleep(&t, NULL);
    }
}

/* --- stages --- */

#define STAGE_KEY (1ull << 61) /* slots are below 2^32, seats above 2^62, places complements */

struct bound {
    struct engine *engine;
    uint64_t place;
};

static bool is_open(void *arg)
{
    const struct bound *b = arg;
    return atomic_load_explicit(&b->engine->bound, memory_order_acquire) > b->place;
}

/* Adds what the thread has done to what all have done. The thread that completes the stage opens
 * the next; all others wait or have ended then, so the sum of live bytes is exact. */
static void report_seat(struct engine_seat *s)
{
    struct engine *e = s->engine;
    if (!s->undone)
        return;
    atomic_fetch_add(&e->live, s->live);
    uint64_t done = atomic_fetch_add(&e->done, s->undone) + s->undone;
    s->live = 0;
    s->undone = 0;
    if (done != atomic_load_explicit(&e->bound, memory_order_relaxed))
        return;
    int64_t live = atomic_load(&e->live);
    if (live > atomic_load(&e->peak))
        atomic_store(&e->peak, live);
    uint32_t stage = ++e->stage;
    atomic_store_explicit(&e->bound, stage < e->stages->count ? e->stages->cuts[stage] : UINT64_MAX,
                          memory_order_release);
    park_wake(&e->park, STAGE_KEY);
}

static void seat_next_run(struct engine_seat *s)
{
    s->place += workload_get(&s->runs);
    s->run_left = workload_get(&s->runs);
}

/* How many records, at most `most`, the thread may execute; waits until it is one at least. */
static uint64_t within_stage(struct engine_seat *s, uint64_t most)
{
    struct engine *e = s->engine;
    uint64_t bound = atomic_load_explicit(&e->bound, memory_order_acquire), n = 0;
    if (bound == UINT64_MAX)
        return most;
    while (n < most) {
        if (!s->run_left)
            seat_next_run(s);
        if (s->place >= bound) {
            if (n)
                break;
            struct bound b = {e, s->place};
            report_seat(s);
            if (!is_open(&b))
                engine_wait(s, ENGINE_SLEEP_STAGE, STAGE_KEY, is_open, &b);
            return within_stage(s, most);
        }
        uint64_t k = bound - s->place < s->run_left ? bound - s->place : s->run_left;
        k = most - n < k ? most - n : k;
        s->place += k;
        s->run_left -= k;
        n += k;
    }
    s->undone += n;
    return n;
}

/* --- threads that begin --- */

#define BEGUN_KEY (1ull << 60)

struct begun {
    struct engine *engine;
    uint32_t threads;
};

static bool have_begun(void *arg)
{
    const struct begun *b = arg;
    return atomic_load_explicit(&b->engine->begun, memory_order_acquire) >= b->threads;
}

void engine_began(struct engine *e)
{
    atomic_fetch_add(&e->begun, 1);
    park_wake(&e->park, BEGUN_KEY);
}

void engine_await_begun(struct engine_seat *s, uint32_t threads)
{
    struct begun b = {s->engine, threads};
    if (!have_begun(&b))
        engine_wait(s, ENGINE_SLEEP_THREAD, BEGUN_KEY, have_begun, &b);
}

/* --- a thread's way --- */

struct pacing {                     /* through a chunk */
    uint64_t now_ns, step_ns, left; /* time; until the next time; records until then */
    const uint8_t *end;
};

/* Waits for the next record's time; returns how many records, at most `most`, share it. */
static uint64_t seat_keep_pace(struct engine_seat *s, struct pacing *p, uint64_t most)
{
    if (!p->left) {
        p->now_ns += p->step_ns;
        wait_for_pace(s->engine, p->now_ns);
        if (s->pace < p->end) {
            p->left = workload_get(&s->pace);
            p->step_ns = workload_get(&s->pace);
        } else {
            p->left = UINT64_MAX;
        }
    }
    return p->left < most ? p->left : most;
}

static void play(struct engine_seat *s)
{
    struct engine *e = s->engine;
    const struct workload_thread *t = &e->workload->threads[s->thread];
    bool recorded = e->options.order == ENGINE_RECORDED && e->many, paced = e->options.pace > 0;
    bool exact = recorded || !e->many, first = true;
    execute_begin(s);
    s->next_chunk = 0;
    s->own = NONE;
    s->low = exact ? INT64_MIN : -e->step;
    s->high = exact ? 0 : e->step;
    s->live = 0;
    s->undone = 0;
    while (s->next_chunk < t->chunks) {
        load_chunk(s);
        struct pacing pacing = {.now_ns = s->chunk.first_ns, .end = s->pace + s->chunk.pace_bytes};
        s->place = s->chunk.first_place;
        s->run_left = 0;
        while (s->records_left) {
            uint64_t n = s->records_left < SLICE ? s->records_left : SLICE;
            if (first)
                n = 1;
            do_chores(e);
            if (recorded) {
                if (!s->run_left) {
                    seat_next_run(s);
                    take_turn(s, s->place);
                }
                n = s->run_left < n ? s->run_left : n;
            }
            if (paced)
                n = seat_keep_pace(s, &pacing, n);
            if (e->stages)
                n = within_stage(s, n);
            pacing.left -= n;
            execute_records(s, (uint32_t)n);
            if (first) {
                first = false;
                engine_began(e);
            }
            s->records_left -= n;
            if (recorded) {
                s->place += n;
                if (!(s->run_left -= n))
                    give_turn(s, s->place);
            }
        }
    }
    if (!e->many)
        publish_live(s);
    execute_end(s);
    if (e->stages)
        report_seat(s);
    if (!exact) {
        atomic_fetch_add_explicit(&e->live, s->live, memory_order_relaxed);
        s->live = 0;
    }
}

/* --- threads --- */

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void finish_seat(struct engine_seat *s)
{
    struct engine *e = s->engine;
    atomic_fetch_add(&e->finished, 1);
    futex_wake(&e->finished);
    if (e->workload->threads[s->thread].flags & WORKLOAD_THREAD_MAIN)
        return;
    while (e->workload->threads[s->thread].flags & WORKLOAD_THREAD_STAYS && !atomic_load(&e->end))
        futex_wait(&e->end, 0);
}

static void *thread_main(void *arg)
{
    struct engine_seat *s = arg;
    while (!atomic_load_explicit(&s->engine->go, memory_order_acquire))
        futex_wait(&s->engine->go, 0);
    play(s);
    finish_seat(s);
    return NULL;
}

/* Seats wait under keys of their own: slots are below 2^32, places are complements. */
static uint64_t seat_key(const struct engine *e, const struct engine_seat *s)
{
    return 1ull << 62 | (uint64_t)(s - e->seats);
}

struct seat_wait {
    struct engine_seat *seat;
    uint32_t thread;
};

static bool has_sat_down(void *arg)
{
    const struct seat_wait *w = arg;
    return atomic_load_explicit(&w->seat->occupant, memory_order_acquire) == w->thread + 1;
}

/* Threads on one seat follow each other in the order of their numbers, but in dependent order the
 * later one may be started first: it waits for the thread before it on this seat, not for the one
 * that sits there now. */
static void await_former(struct engine *e, struct engine_seat *starter, struct engine_seat *s,
                         uint32_t thread)
{
    const struct workload_thread *t = e->workload->threads;
    for (uint32_t before = thread; before-- > 0;) {
        if (t[before].seat != t[thread].seat)
            continue;
        struct seat_wait w = {s, before};
        if (!has_sat_down(&w)) /* then a thread starts others: there is a starter */
            engine_wait(starter, ENGINE_SLEEP_THREAD, seat_key(e, s), has_sat_down, &w);
        pthread_join(s->pthread, NULL);
        return;
    }
}

void engine_start_thread(struct engine *e, struct engine_seat *starter, uint32_t thread)
{
    struct engine_seat *s = &e->seats[e->workload->threads[thread].seat];
    if (starter)
        await_former(e, starter, s, thread);
    s->used = true;
    s->thread = thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, s->stack, STACK_BYTES);
    int failed = pthread_create(&s->pthread, &attributes, thread_main, s);
    if (failed) {
        errno = failed;
        engine_die(failed == EAGAIN ? "no more threads can be made (see ulimit -u)"
                                    : "a thread cannot be made");
    }
    pthread_attr_destroy(&attributes);
    atomic_store_explicit(&s->occupant, thread + 1, memory_order_release);
    park_wake(&e->park, seat_key(e, s));
}

void engine_prepare(struct engine *e)
{
    for (uint32_t i = 0; i < e->workload->thread_count; i++) {
        const struct workload_thread *t = &e->workload->threads[i];
        if (t->flags & WORKLOAD_THREAD_BEGIN && !(t->flags & WORKLOAD_THREAD_MAIN))
            engine_start_thread(e, NULL, i);
    }
}

void engine_run(struct engine *e)
{
    const struct workload *w = e->workload;
    e->start_tsc = engine_clock();
    atomic_store_explicit(&e->go, 1, memory_order_release);
    futex_wake(&e->go);
    for (uint32_t i = 0; i < w->thread_count; i++)
        if (w->threads[i].flags & WORKLOAD_THREAD_MAIN) {
            struct engine_seat *s = &e->seats[w->threads[i].seat];
            s->thread = i;
            play(s);
            finish_seat(s);
        }
    for (;;) {
        uint32_t n = atomic_load(&e->finished);
        if (n == w->thread_count)
            break;
        futex_wait(&e->finished, n);
    }
    /* A thread that ends gives its allocator something back: that is part of the workload. */
    for (uint32_t i = 0; i < e->seat_count; i++) {
        struct engine_seat *s = &e->seats[i];
        if (s->used && !(w->threads[s->thread].flags & WORKLOAD_THREAD_STAYS)) {
            pthread_join(s->pthread, NULL);
            s->used = false;
        }
    }
}

void engine_end(struct engine *e)
{
    atomic_store(&e->end, 1);
    futex_wake(&e->end);
    for (uint32_t i = 0; i < e->seat_count; i++)
        if (e->seats[i].used)
            pthread_join(e->seats[i].pthread, NULL);
}

int64_t engine_live(const void *engine)
{
    const struct engine *e = engine;
    int64_t live = e->many ? atomic_load_explicit(&e->live, memory_order_relaxed) : 0;
    if (!e->many || e->options.order == ENGINE_DEPENDENT)
        for (uint32_t i = 0; i < e->seat_count; i++)
            live += __atomic_load_n(&e->seats[i].live, __ATOMIC_RELAXED);
    return live;
}

void engine_sum(const struct engine *e, unsigned code, struct engine_times *into)
{
    for (uint32_t i = 0; i < e->seat_count; i++) {
        const struct engine_times *t = &e->seats[i].times[code];
        into->count += t->count;
        into->failed += t->failed;
        into->timed += t->timed;
        into->preempted += t->preempted;
        into->cycles += t->cycles;
        if (t->max_cycles > into->max_cycles)
            into->max_cycles = t->max_cycles;
        for (unsigned k = 0; k < ENGINE_BUCKETS; k++)
            into->buckets[k] += t->buckets[k];
    }
}

uint64_t engine_percentile(const struct engine_times *t, double share)
{
    uint64_t below = 0, want = (uint64_t)((double)t->timed * share);
    for (unsigned i = 0; i < ENGINE_BUCKETS; i++) {
        below += t->buckets[i];
        if (below > want) {
            if (i < 32)
                return i;
            unsigned e = (i - 32) / 16 + 5;
            uint64_t top = ((uint64_t)(16 + (i - 32) % 16 + 1) << (e - 4)) - 1;
            return top < t->max_cycles ? top : t->max_cycles;
        }
    }
    return t->max_cycles;
}
