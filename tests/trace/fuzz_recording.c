#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "every.h"
#include "fuzz.h"
#include "trace/trace.h"

#define REQUIRE(x)                                                                                 \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "not so: %s\n", #x);                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_image(const struct trace_info *info, uint32_t index)
{
    const struct trace_image *m = &info->images[index];
    REQUIRE(m->forked_from == UINT32_MAX || m->forked_from < info->image_count);
    for (uint32_t i = 1; i <= m->stacks; i++) {
        REQUIRE(m->nodes[i].parent <= m->stacks);
        REQUIRE(m->nodes[i].module <= m->module_count);
    }
    /* from every 64th node, its callers come to an end */
    for (uint32_t i = 1; i <= m->stacks; i += 64) {
        uint32_t depth = 0;
        for (uint32_t k = i; k; k = m->nodes[k].parent)
            REQUIRE(depth++ <= m->stacks);
    }
    for (uint32_t i = 0; i < m->fault_count; i++)
        REQUIRE(m->faults[i].stack <= m->stacks && m->faults[i].place < MLW_PLACES);
    for (uint32_t i = 0; i < m->moment_count; i++)
        REQUIRE(m->moments[i].values <= MLW_KERNEL_VALUES);
    size_t text = strlen(m->exe) + strlen(m->allocator);
    for (size_t i = 0; m->command[i]; i++)
        text += strlen(m->command[i]);
    for (size_t i = 0; m->notes[i]; i++)
        text += strlen(m->notes[i]);
    for (uint32_t i = 0; i < m->module_count; i++)
        text += strlen(m->modules[i].path);
    for (uint32_t i = 0; i < m->thread_count; i++)
        text += strlen(m->threads[i].name);
    for (uint32_t i = 0; i < m->note_count; i++)
        text += strlen(m->event_notes[i].label);
    REQUIRE(text < (size_t)1 << 40);
}

/* FNV-1a */
static uint64_t hash(uint64_t h, const void *data, size_t n)
{
    for (const uint8_t *p = data; n; n--)
        h = (h ^ *p++) * 0x100000001b3u;
    return h;
}

static uint64_t hash_batch(uint64_t h, const struct trace_batch *b)
{
    h = hash(h, &b->image, sizeof b->image);
    h = hash(h, &b->n, sizeof b->n);
    h = hash(h, &b->first_event, sizeof b->first_event);
    const struct {
        const void *data;
        size_t bytes;
    } columns[] = {{b->kind, 1},    {b->op, 1},     {b->slot, 4},     {b->thread, 4},
                   {b->size, 8},    {b->stack, 4},  {b->path, 1},     {b->time_ns, 8},
                   {b->address, 8}, {b->usable, 8}, {b->argument, 8}, {b->route, 1}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns[i].data)
            h = hash(h, columns[i].data, columns[i].bytes * b->n);
    return h;
}

static uint64_t hash_findings(uint64_t h, const struct trace_info *info)
{
    h = hash(h, &info->damaged_runs, sizeof info->damaged_runs);
    for (uint32_t i = 0; i < info->image_count; i++) {
        h = hash(h, &info->images[i].lost_calls, sizeof info->images[i].lost_calls);
        h = hash(h, &info->images[i].complete, sizeof info->images[i].complete);
    }
    return h;
}

/* How many there are; *sum is a hash of them and of what reading them found. */
static uint64_t read_events(struct trace *t, uint64_t *sum, struct error *err)
{
    struct every all = {.trace = t};
    const struct trace_info *info = trace_info(t);
    struct trace_batch b;
    uint8_t *live = NULL;
    uint32_t image = UINT32_MAX;
    uint64_t events = 0, time = 0;
    int k;
    while ((k = every_next(&all, &b, err)) > 0) {
        REQUIRE(b.image < info->image_count);
        const struct trace_image *m = &info->images[b.image];
        if (b.image != image) {
            free(live);
            live = calloc((size_t)m->max_slots + 1, 1);
            REQUIRE(live);
            image = b.image;
            time = 0;
        }
        REQUIRE(b.n);
        for (size_t i = 0; i < b.n; i++) {
            REQUIRE(b.kind[i] <= TRACE_OTHER);
            if (b.kind[i] == TRACE_FREE_UNKNOWN || b.kind[i] == TRACE_OTHER)
                REQUIRE(b.slot[i] == TRACE_NO_SLOT);
            else
                REQUIRE(b.slot[i] < m->max_slots);
            if (b.thread)
                REQUIRE(b.thread[i] < m->thread_count || !m->thread_count);
            if (b.stack)
                REQUIRE(b.stack[i] <= m->stacks);
            if (b.time_ns) {
                REQUIRE(b.time_ns[i] >= time);
                time = b.time_ns[i];
            }
        }
        events += b.n;
        *sum = hash_batch(*sum, &b);
    }
    every_rewind(&all);
    free(live);
    REQUIRE(k == 0 || err->text[0]);
    *sum = hash_findings(*sum, info);
    return events;
}

/* Cursors that are closed before their end, and several at once. */
static void read_begins(struct trace *t)
{
    struct error err = {.text = ""};
    struct trace_batch b;
    struct trace_cursor *open[4] = {NULL};
    for (uint32_t i = 0; i < 4 && trace_info(t)->image_count; i++) {
        open[i] = trace_cursor_open(t, i / 2 % trace_info(t)->image_count, &err);
        REQUIRE(open[i]);
    }
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = i; open[i] && k && trace_cursor_next(open[i], &b, &err) > 0; k--)
            REQUIRE(b.n);
    for (uint32_t i = 0; i < 4; i++)
        trace_cursor_close(open[i]);
}

/* The columns of the ALLOCs alone are those of each event, and hold for the other events as well.
 */
static void compare_batches(const struct trace_batch *a, const struct trace_batch *b)
{
    size_t k = 0;
    REQUIRE(a->n == b->n && a->first_event == b->first_event);
    for (size_t i = 0; i < a->n; i++) {
        const bool other = a->kind[i] == TRACE_OTHER || a->kind[i] == TRACE_FREE_UNKNOWN;
        REQUIRE(a->kind[i] == b->kind[i] && a->op[i] == b->op[i] && a->slot[i] == b->slot[i]);
        REQUIRE(a->thread[i] == b->thread[i] && a->time_ns[i] == b->time_ns[i]);
        REQUIRE(a->path[i] == b->path[i] && a->argument[i] == b->argument[i] &&
                a->route[i] == b->route[i]);
        if (a->kind[i] == TRACE_ALLOC) {
            REQUIRE(k < b->begun && a->size[i] == b->begun_size[k]);
            REQUIRE(a->stack[i] == b->begun_stack[k] && a->usable[i] == b->begun_usable[k]);
            REQUIRE(a->address[i] == b->begun_address[k]);
            k++;
        } else if (other) {
            REQUIRE(a->size[i] == b->size[i] && a->stack[i] == b->stack[i]);
            REQUIRE(a->usable[i] == b->usable[i] && a->address[i] == b->address[i]);
        }
    }
    REQUIRE(k == b->begun);
}

static void compare_begun(struct trace *t)
{
    struct error err = {.text = ""};
    struct trace_batch a, b;
    for (uint32_t i = 0; i < trace_info(t)->image_count; i++) {
        struct trace_cursor *x = trace_cursor_open(t, i, &err);
        struct trace_cursor *y =
            trace_cursor_open_columns(t, i, TRACE_COL_ALL | TRACE_COL_BEGUN, &err);
        REQUIRE(x && y);
        int more;
        while ((more = trace_cursor_next(x, &a, &err)) > 0) {
            REQUIRE(trace_cursor_next(y, &b, &err) == more);
            compare_batches(&a, &b);
        }
        REQUIRE(trace_cursor_next(y, &b, &err) == more);
        trace_cursor_close(x);
        trace_cursor_close(y);
    }
}

/* A thread that reads all events; sum: a hash of them. read: how many batches so far; UINT32_MAX at
 * the end. */
struct reader {
    struct trace *trace;
    pthread_t thread;
    uint64_t sum;
    uint32_t read;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    struct every all = {.trace = r->trace};
    struct trace_batch b;
    struct error err = {.text = ""};
    while (every_next(&all, &b, &err) > 0) {
        r->sum = hash_batch(r->sum, &b);
        __atomic_fetch_add(&r->read, 1, __ATOMIC_RELAXED);
    }
    every_rewind(&all);
    __atomic_store_n(&r->read, UINT32_MAX, __ATOMIC_RELAXED);
    return NULL;
}

/* The second begins when the first has read so many batches. */
static void read_at_once(struct trace *t, struct reader r[2], uint32_t behind)
{
    for (int i = 0; i < 2; i++) {
        r[i] = (struct reader){.trace = t};
        while (i && __atomic_load_n(&r[0].read, __ATOMIC_RELAXED) < behind)
            sched_yield();
        REQUIRE(!pthread_create(&r[i].thread, NULL, read_all, &r[i]));
    }
    for (int i = 0; i < 2; i++)
        REQUIRE(!pthread_join(r[i].thread, NULL));
}

/* Two threads that read at once find out what one does, and both read the same. */
static void compare_at_once(const char *path, const struct trace_open_options *o, uint32_t behind)
{
    struct error err = {.text = ""};
    struct reader one = {.trace = trace_open(path, o, &err)}, two[2];
    struct trace *t = trace_open(path, o, &err);
    REQUIRE(one.trace && t);
    read_all(&one);
    read_at_once(t, two, behind);
    REQUIRE(hash_findings(0, trace_info(t)) == hash_findings(0, trace_info(one.trace)));
    REQUIRE(two[0].sum == two[1].sum);
    REQUIRE(trace_take_threads(t, 4) == 3 && trace_take_threads(t, 1) == 0);
    trace_give_threads(t, 3);
    trace_close(t);
    trace_close(one.trace);
}

/* The sum of all events and findings, where threads become free when `late` batches were read. */
static uint64_t read_late(const char *path, const struct trace_open_options *o, uint32_t late)
{
    struct error err = {.text = ""};
    struct trace *t = trace_open(path, o, &err);
    struct every all = {.trace = t};
    struct trace_batch b;
    uint64_t sum = 0;
    REQUIRE(t);
    unsigned taken = trace_take_threads(t, 4);
    REQUIRE(taken == 3);
    for (uint32_t k = 0; every_next(&all, &b, &err) > 0; k++) {
        sum = hash_batch(sum, &b);
        if (k == late)
            trace_give_threads(t, taken);
        taken = k >= late ? 0 : taken;
    }
    every_rewind(&all);
    sum = hash_findings(sum, trace_info(t));
    trace_give_threads(t, taken);
    REQUIRE(trace_take_threads(t, 4) == 3);
    trace_close(t);
    return sum;
}

/* What one thread reads, several read, and find out the same about damage. */
static void compare_threads(const char *path, bool sealed, uint64_t one)
{
    const struct trace_open_options o = {.no_seal_in_place = true, .threads = 4};
    struct error err = {.text = ""};
    struct trace *t = trace_open(path, &o, &err);
    uint64_t sum = 0;
    REQUIRE(t);
    read_events(t, &sum, &err);
    REQUIRE(sum == one || !sealed); /* the clock of a raw file is set by the clock of today */
    sum = 0;
    read_events(t, &sum, &err);
    REQUIRE(sum == one || !sealed);
    read_begins(t);
    trace_close(t);
    compare_at_once(path, &o, 0);
    compare_at_once(path, &o, 3);
    for (uint32_t late = 0; late < 5; late += 2)
        REQUIRE(read_late(path, &o, late) == one || !sealed);
}

static void read_recording(const uint8_t *data, size_t n, bool threads)
{
    char path[64];
    int fd = memfd_create("fuzz", 0);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct trace_open_options o = {.no_seal_in_place = true, .threads = 1};
    struct error err = {.text = ""};
    struct trace *t = trace_open(path, &o, &err);
    if (t) {
        uint64_t one = 0, two = 0;
        const bool sealed = trace_info(t)->sealed;
        for (uint32_t i = 0; i < trace_info(t)->image_count; i++)
            check_image(trace_info(t), i);
        uint64_t events = read_events(t, &one, &err);
        uint64_t again = read_events(t, &two, &err);
        REQUIRE(again == events && two == one); /* what the first pass found changes nothing */
        compare_begun(t);
        trace_close(t);
        if (threads)
            compare_threads(path, sealed, one);
        /* a part of the columns: the others are not looked at */
        o.columns = TRACE_COL_SIZE | TRACE_COL_STACK | TRACE_COL_TIME | TRACE_COL_THREAD;
        if ((t = trace_open(path, &o, &err))) {
            read_events(t, &one, &err);
            trace_close(t);
        }
    } else {
        REQUIRE(err.text[0]);
    }
    close(fd);
}

/* Threads take as long as all the rest: each fourth input has them. */
void fuzz_recording(const uint8_t *data, size_t n)
{
    read_recording(data, n, (hash(0xcbf29ce484222325u, data, n) >> 32) % 4 == 0);
}

void fuzz_threads(const uint8_t *data, size_t n) { read_recording(data, n, true); }
