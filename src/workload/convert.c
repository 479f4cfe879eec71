/* convert.c - Turns the events of one process of a recording into calls of a workload. A realloc
 * has two events, and other events may come between them. A recording that lost calls is
 * refused, because its replay would be of another program. */
#include "workload/convert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fetch.h"
#include "base/large.h"

#define NONE   UINT32_MAX
#define NESTED 4u

#define FEW_SLOTS (1u << 14) /* so many entries stay in a cache */

/* A realloc whose old half has come and whose new half has not. A signal handler may begin another
 * in its middle. */
struct pending {
    uint32_t slot[NESTED];
    bool early[NESTED];
    unsigned depth;
};

struct converter {
    struct workload_writer *writer;
    const struct trace_image *image;
    uint64_t happened; /* calls that were seen or lost, as said before the events are read */
    uint32_t *slots;   /* slots of the trace -> slots of the workload */
    uint32_t slot_cap;
    uint32_t
        *threads; /* threads of the trace -> threads of the writer, NONE before its first call */
    struct pending *pending;
    uint32_t open_thread; /* thread of the trace in a realloc that was not interrupted, or NONE */
    bool synthesise;
    uint64_t to_ns; /* UINT64_MAX: to the end */
    const uint8_t *pools;
};

static uint32_t writer_thread(struct converter *c, uint32_t thread)
{
    if (c->threads[thread] == NONE) {
        const struct trace_thread *t = &c->image->threads[thread];
        const bool ended = t->ended && t->end_ns < c->to_ns;
        c->threads[thread] = workload_writer_thread(c->writer, t->tid == c->image->pid, ended,
                                                    ended ? t->end_ns : UINT64_MAX);
    }
    return c->threads[thread];
}

/* Something happens that is not the new half of the realloc under way. */
static void interrupt(struct converter *c, uint64_t time_ns)
{
    struct pending *p = &c->pending[c->open_thread];
    if (p->depth && !p->early[p->depth - 1]) {
        workload_writer_early(c->writer, c->threads[c->open_thread], p->slot[p->depth - 1],
                              time_ns);
        p->early[p->depth - 1] = true;
    }
    c->open_thread = NONE;
}

static void begin_realloc(struct converter *c, uint32_t trace_thread, uint32_t thread,
                          uint32_t slot, uint64_t time_ns)
{
    struct pending *p = &c->pending[trace_thread];
    if (p->depth == NESTED) { /* deeper than any program goes: a free and a malloc */
        workload_writer_release(c->writer, thread, MLW_OP_FREE, slot, 0, 0, time_ns);
        return;
    }
    p->slot[p->depth] = slot;
    p->early[p->depth++] = false;
    c->open_thread = trace_thread;
}

static bool converter_room(struct converter *c, uint32_t slot)
{
    if (slot < c->slot_cap)
        return true;
    uint32_t n = c->slot_cap ? c->slot_cap : 1024;
    while (n <= slot)
        n = n > UINT32_MAX / 2 ? UINT32_MAX : n * 2;
    uint32_t *p = large_grow(c->slots, c->slot_cap * sizeof *p, (size_t)n * sizeof *p);
    if (!p)
        return false;
    memset(p + c->slot_cap, 0xff, (size_t)(n - c->slot_cap) * sizeof *p);
    c->slots = p;
    c->slot_cap = n;
    return true;
}

/* The call that a replay makes for this one; code 0: none. */
struct replayed {
    unsigned code;
    uint64_t alignment;
};

/* jemalloc's own functions, whose argument is flags, become those of C that do the same. */
static __attribute__((noinline)) struct replayed replayed_jemalloc(unsigned standard,
                                                                   uint64_t flags)
{
    struct replayed r = {standard, MLW_JEMALLOC_ALIGNMENT(flags)};
    if (standard == MLW_OP_MALLOC && r.alignment)
        r.code = MLW_OP_MEMALIGN;
    else if (standard == MLW_OP_MALLOC && flags & MLW_JEMALLOC_ZERO)
        r.code = MLW_OP_CALLOC;
    else if (standard == MLW_OP_FREE_SIZED && r.alignment)
        r.code = MLW_OP_FREE_ALIGNED_SIZED;
    return r;
}

static inline struct replayed replayed_as(unsigned op, uint64_t argument)
{
#define STANDARD_BIT(sym, num, name, fields, class_, standard)                                     \
    | (MLW_OP_##standard == (num) ? 1u << (num) : 0)
    const unsigned themselves = 0 MLW_OPS(STANDARD_BIT);
#undef STANDARD_BIT
    if (themselves >> (op & 31) & 1)
        return (struct replayed){op, argument};
    const unsigned standard = mlw_op_standard(op);
    return standard ? replayed_jemalloc(standard, argument)
                    : (struct replayed){MLW_OP_NONE, argument};
}

/* A release, or the old half of a realloc, of a block whose allocation was not seen. */
static void unknown_release(struct converter *c, const struct trace_batch *b, size_t i,
                            uint32_t thread)
{
    workload_writer_count(c->writer, WORKLOAD_FACT_UNKNOWN_FREES, 1);
    if (!c->synthesise)
        return;
    uint64_t size = mlw_op_has(b->op[i], MLW_F_SIZE) ? b->size[i] : workload_unknown_bytes;
    uint32_t slot =
        workload_writer_allocate(c->writer, thread, WORKLOAD_PRESENT, size, 0, b->time_ns[i]);
    const struct replayed as = replayed_as(b->op[i], b->argument[i]);
    if (mlw_op_is(b->op[i], MLW_CLASS_RESIZE_OLD))
        begin_realloc(c, b->thread[i], thread, slot, b->time_ns[i]);
    else
        workload_writer_release(c->writer, thread, as.code, slot, b->size[i], as.alignment,
                                b->time_ns[i]);
}

/* Events of kind OTHER. */
static void convert_other(struct converter *c, const struct trace_batch *b, size_t i)
{
    const struct replayed as = replayed_as(b->op[i], b->argument[i]);
    const uint64_t size = b->size[i], argument = as.alignment, ns = b->time_ns[i];
    const unsigned op = as.code;
    if (!op) {
        if (mlw_op_is_call(b->op[i]))
            workload_writer_count(c->writer, WORKLOAD_FACT_NOT_REPLAYED, 1);
        return;
    }
    uint32_t thread = writer_thread(c, b->thread[i]);
    if (workload_releases(op)) {
        workload_writer_null(c->writer, thread, op, size, argument, ns);
    } else if (workload_reallocates(op)) {
        struct pending *p = &c->pending[b->thread[i]];
        if (p->depth) { /* its old half ended the block: realloc(p, 0) */
            workload_writer_reallocate_zero(c->writer, thread, op, p->slot[--p->depth], ns);
            c->open_thread = NONE;
        } else {
            workload_writer_failed(c->writer, thread, op, size, argument, ns);
        }
    } else {
        workload_writer_failed(c->writer, thread, op, size, argument, ns);
    }
}

/* With many live blocks each release looks at memory that no cache holds: it is asked for in two
 * steps, this many events ahead. */
#define FAR  24
#define NEAR 12

FETCHES converter_look_ahead(const struct converter *c, const struct trace_batch *b, size_t i)
{
    if (i + FAR >= b->n)
        return;
    uint32_t far = b->slot[i + FAR], near = b->slot[i + NEAR];
    if (far < c->slot_cap)
        __builtin_prefetch(&c->slots[far], 1);
    if (near < c->slot_cap && b->kind[i + NEAR] != TRACE_ALLOC)
        workload_writer_expect(c->writer, c->slots[near]);
}

/* A block is about to be made: of a pool, if its call site has one. */
static inline void put_pool(const struct converter *c, const struct trace_batch *b, size_t i,
                            uint32_t thread)
{
    if (c->pools && b->stack[i] <= c->image->stacks && c->pools[b->stack[i]])
        workload_writer_pool(c->writer, thread, c->pools[b->stack[i]], b->time_ns[i]);
}

/* --- calls that need no care --- */

#define PLAIN_MOST 8192u /* records of a batch; more than any has */

/* The code of each event that is malloc, calloc or free of a block, and 0 of all others. Returns
 * the number of the event behind the last. */
static size_t find_plain(const struct trace_batch *b, size_t from, uint32_t slot_cap,
                         uint8_t *plain)
{
    const size_t to = b->n - from < PLAIN_MOST ? b->n : from + PLAIN_MOST;
    for (size_t i = from; i < to; i++) {
        const uint8_t kind = b->kind[i], op = b->op[i];
        const bool made = (kind == TRACE_ALLOC) & ((op == MLW_OP_MALLOC) | (op == MLW_OP_CALLOC));
        const bool freed = ((kind == TRACE_FREE) | (kind == TRACE_FREE_TEMP)) & (op == MLW_OP_FREE);
        plain[i - from] = ((made | freed) & (b->slot[i] < slot_cap)) ? op : 0;
    }
    return to;
}

static size_t take_plain(struct converter *c, const struct trace_batch *b, size_t i,
                         const uint8_t *plain, size_t to, bool far_away)
{
    const struct workload_calls calls = {.n = to - i,
                                         .code = plain,
                                         .thread = b->thread + i,
                                         .slot = b->slot + i,
                                         .size = b->size + i,
                                         .time_ns = b->time_ns + i,
                                         .slots = c->slots,
                                         .slot_count = c->slot_cap,
                                         .far_away = far_away};
    return workload_writer_calls(c->writer, writer_thread(c, b->thread[i]), &calls);
}

static int take_batch(struct converter *c, const struct trace_batch *b, struct error *err)
{
    size_t i = 0;
    for (; i < b->n && b->first_event + i < c->image->inherited; i++) { /* before the fork */
        uint32_t thread = writer_thread(c, b->thread[i]);
        if (b->slot[i] == NONE || !converter_room(c, b->slot[i]))
            return error_memory_for(err, "the live blocks");
        put_pool(c, b, i, thread);
        c->slots[b->slot[i]] = workload_writer_allocate(c->writer, thread, WORKLOAD_PRESENT,
                                                        b->size[i], 0, b->time_ns[i]);
    }
    const bool far_away = c->slot_cap > FEW_SLOTS;
    uint8_t plain[PLAIN_MOST];
    const size_t plain_from = i, plain_to = c->pools ? i : find_plain(b, i, c->slot_cap, plain);
    for (; i < b->n; i++) {
        if (i < plain_to && plain[i - plain_from] && c->open_thread == NONE) {
            const size_t n = take_plain(c, b, i, plain + (i - plain_from), plain_to, far_away);
            if (n) {
                i += n - 1;
                continue;
            }
        }
        if (far_away)
            converter_look_ahead(c, b, i);
        const unsigned kind = b->kind[i], op = b->op[i];
        const struct replayed as = replayed_as(op, b->argument[i]);
        const unsigned code = as.code;
        uint32_t slot = b->slot[i];
        uint64_t ns = b->time_ns[i];
        if (c->open_thread != NONE &&
            (c->open_thread != b->thread[i] || !workload_reallocates(code)))
            interrupt(c, ns);
        switch (kind) {
        case TRACE_ALLOC: {
            if (slot == NONE || !converter_room(c, slot))
                return error_memory_for(err, "the live blocks");
            uint32_t thread = writer_thread(c, b->thread[i]);
            struct pending *p = &c->pending[b->thread[i]];
            put_pool(c, b, i, thread);
            if (workload_reallocates(code) && p->depth) {
                c->slots[slot] = workload_writer_reallocate(c->writer, thread, code,
                                                            p->slot[--p->depth], b->size[i], ns);
                c->open_thread = NONE;
            } else {
                c->slots[slot] =
                    workload_writer_allocate(c->writer, thread, code, b->size[i], as.alignment, ns);
            }
            break;
        }
        case TRACE_FREE:
        case TRACE_FREE_TEMP:
        case TRACE_FREE_INFERRED: {
            uint32_t thread = writer_thread(c, b->thread[i]);
            uint32_t mine = slot < c->slot_cap ? c->slots[slot] : NONE;
            if (mine == NONE)
                return error_set(err, ERROR_FORMAT, "event %" PRIu64 " releases a slot in no use",
                                 b->first_event + i);
            c->slots[slot] = NONE;
            if (mlw_op_is(op, MLW_CLASS_RESIZE_OLD))
                begin_realloc(c, b->thread[i], thread, mine, ns);
            else
                workload_writer_release(c->writer, thread,
                                        kind == TRACE_FREE_INFERRED ? WORKLOAD_VANISH : code, mine,
                                        b->size[i], as.alignment, ns);
            break;
        }
        case TRACE_FREE_UNKNOWN: unknown_release(c, b, i, writer_thread(c, b->thread[i])); break;
        default: convert_other(c, b, i); break;
        }
    }
    return 0;
}

/* -1 when something keeps the recording from being the whole truth. happened: how many calls there
 * were, seen or lost, as the recording says before its events are read. */
static int refuse_losses(const struct trace_info *info, const struct trace_image *image,
                         uint64_t happened, struct error *err)
{
    if (image->lost_calls)
        return error_set(err, ERROR_USAGE,
                         "the recording lost %" PRIu64 " of %" PRIu64
                         " calls of process %u; --lossy takes it anyway",
                         image->lost_calls, happened, image->pid);
    if (info->torn)
        return error_set(err, ERROR_USAGE,
                         "the end of the recording is missing; --lossy takes the rest");
    if (info->damaged_bytes || info->damaged_runs)
        return error_set(err, ERROR_USAGE,
                         "the recording is damaged (%" PRIu64 " bytes, %" PRIu64
                         " blocks); --lossy takes the rest",
                         info->damaged_bytes, info->damaged_runs);
    return 0;
}

/* Drops the events that come too late; what a fork handed on is there from the start. Whether there
 * were any. */
static bool cut_batch(const struct converter *c, struct trace_batch *b)
{
    if (!b->n || b->time_ns[b->n - 1] < c->to_ns) /* they are in the order of time */
        return false;
    for (size_t i = 0; i < b->n; i++)
        if (b->time_ns[i] >= c->to_ns && b->first_event + i >= c->image->inherited) {
            b->n = i;
            return true;
        }
    return false;
}

static int convert_image(struct converter *c, struct trace *t, uint32_t index,
                         const struct workload_options *options,
                         void (*progress)(void *, uint64_t, uint64_t), void *progress_arg,
                         struct error *err)
{
    const struct trace_image *image = c->image;
    struct trace_cursor *cursor = trace_cursor_open(t, index, err);
    if (!cursor)
        return -1;
    /* The process's first thread is there, whether it calls or not. */
    for (uint32_t i = 0; i < image->thread_count; i++)
        if (image->threads[i].tid == image->pid) {
            writer_thread(c, i);
            break;
        }
    struct trace_batch b;
    uint64_t done = 0, last_ns = image->start_ns;
    int more = 1;
    bool cut = false;
    while (!cut && (more = trace_cursor_next(cursor, &b, err)) > 0) {
        cut = cut_batch(c, &b);
        if (take_batch(c, &b, err)) {
            more = -1;
            break;
        }
        done += b.n;
        if (b.n)
            last_ns = b.time_ns[b.n - 1];
        if (progress)
            progress(progress_arg, done, image->events);
    }
    trace_cursor_close(cursor);
    if (more < 0)
        return -1;
    if (!options->lossy &&
        refuse_losses(trace_info(t), image, c->happened, err)) /* seen only as it was read */
        return -1;
    if (c->open_thread != NONE) /* died in the middle of a realloc */
        interrupt(c, last_ns);
    return 0;
}

int workload_convert(struct trace *t, uint32_t image, const char *path,
                     const struct workload_options *options, struct workload_written *written,
                     void (*progress)(void *arg, uint64_t done, uint64_t total), void *progress_arg,
                     struct error *err)
{
    const struct trace_info *info = trace_info(t);
    struct converter c = {.image = &info->images[image],
                          .open_thread = NONE,
                          .synthesise = options->synthesise,
                          .to_ns = options->to_ns ? options->to_ns : UINT64_MAX,
                          .pools = options->pools};
    c.happened = c.image->calls + c.image->lost_calls;
    if (!options->lossy && refuse_losses(info, c.image, c.happened, err))
        return -1;
    size_t threads = c.image->thread_count ? c.image->thread_count : 1;
    c.threads = malloc(threads * sizeof *c.threads);
    c.pending = calloc(threads, sizeof *c.pending);
    if (!c.threads || !c.pending) {
        error_memory_for(err, "%zu threads", threads);
        free(c.threads);
        free(c.pending);
        return -1;
    }
    memset(c.threads, 0xff, threads * sizeof *c.threads);
    c.writer = workload_writer_new(path, err);
    int result = -1;
    if (c.writer) {
        if (convert_image(&c, t, image, options, progress, progress_arg, err)) {
            workload_writer_abandon(c.writer);
        } else {
            workload_writer_count(c.writer, WORKLOAD_FACT_LOST_CALLS, c.image->lost_calls);
            result = workload_writer_finish(c.writer, written, err);
        }
    }
    free(c.threads);
    free(c.pending);
    free(c.slots);
    return result;
}
