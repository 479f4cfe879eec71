/* seal.c - a raw recording becomes a sealed one.
 *
 * Images are sealed in the order of their starts, but one that was forked from another is sealed
 * at that moment of the other, whose live blocks, nodes and modules are then at hand: memory is
 * that of the live blocks along one line of descent. */
#include "seal.h"

#include <sys/stat.h>

#include "carry_out.h"
#include "image.h"
#include "trace/raw/carried.h"

struct sealing {
    struct raw *raw;
    struct timebase time;
    struct seal_writer writer;
    struct block_writer *blocks;
    uint32_t *children;    /* images in the order of their starts, by image forked from */
    uint32_t *first_child; /* range of children by image */
    uint32_t placed;       /* of children[] */
    uint32_t images;
    uint64_t bytes_done; /* of the images that are finished */
    struct image_totals totals;
    const struct seal_how *how;
    enum image_fate *fates; /* by image */
    uint64_t cut;           /* clock where the window of a flight recorder begins; 0: everything */
    bool may_read;          /* a thread may read rows, and none does */
    struct carry_out *fold; /* rows before `cut` are folded into it; nothing is sealed */
};

struct child {
    uint64_t start;
    uint32_t parent, image;
};

static int by_parent(const void *a, const void *b)
{
    const struct child *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->image < y->image ? -1 : x->image > y->image;
}

static uint64_t start_of(const struct raw_image *m)
{
    return m->start_clock ? m->start_clock : m->first_clock;
}

/* An image and those forked from it are on this stack while they are worked on. */
struct level {
    struct image_work *work;
    uint32_t image, next, end; /* children still to come */
    bool beside;               /* its rows are read by a thread of their own */
};

/* Whether following parents from the image comes to an end (a damaged file may have a ring). */
static bool has_root(const struct raw *r, uint32_t image)
{
    uint32_t slow = image, fast = image;
    for (;;) {
        for (int i = 0; i < 2; i++) {
            fast = r->images[fast].parent;
            if (fast == UINT32_MAX)
                return true;
        }
        slow = r->images[slow].parent;
        if (slow == fast)
            return false;
    }
}

#define ROWS_AT_ONCE (1u << 18) /* between two signs of progress */

/* The images on the stack are done in part. */
static void report_progress(const struct sealing *s, const struct level *levels, size_t depth)
{
    uint64_t done = s->bytes_done;
    for (size_t i = 0; i < depth; i++)
        done += image_bytes_done(levels[i].work);
    if (s->how->progress)
        s->how->progress(s->how->arg,
                         s->raw->file_bytes / RAW_SCAN_SHARE + done - done / RAW_SCAN_SHARE,
                         s->raw->file_bytes);
}

static int finish_image(struct sealing *s, struct level *l, struct error *err)
{
    if (s->fates[l->image] == IMAGE_FORGOTTEN)
        return 0;
    if (!s->fold)
        return image_finish(l->work, &s->totals, err);
    s->raw->images[l->image].folded = true;
    return image_carry(l->work, s->fold, err);
}

/* So few calls are sealed before a thread for them has begun. */
#define ALONE_CALLS 65536u

/* One image at a time, so that a line of forks does not have as many threads. */
static void read_beside(struct sealing *s, struct level *l)
{
    const struct raw_image *m = &s->raw->images[l->image];
    uint64_t calls = 0;
    l->beside = false;
    for (uint32_t i = 0; s->may_read && i < m->streams; i++) {
        const struct raw_stream *stream = s->raw->streams[m->first_stream + i];
        for (uint32_t k = 0; k < stream->chunks; k++)
            calls += stream->chunk[k].calls;
    }
    if (calls < ALONE_CALLS)
        return;
    image_beside(l->work);
    l->beside = true;
    s->may_read = false;
}

static int seal_family(struct sealing *s, uint32_t root, struct error *err)
{
    struct level *levels = NULL;
    size_t depth = 0, cap = 0;
    int status = -1;
    uint32_t enter = root;
    for (;;) {
        if (enter != UINT32_MAX) {
            struct level *l = ARRAY_ADD(levels, depth, cap);
            if (!l) {
                error_memory_for(err, "sealing");
                break;
            }
            l->image = enter;
            l->next = s->first_child[enter];
            l->end = s->first_child[enter + 1];
            const enum image_fate fate = s->fates[enter];
            const uint32_t number = fate == IMAGE_FORGOTTEN ? UINT32_MAX : s->images++;
            l->work = image_begin(s->raw, &s->time, enter, number,
                                  depth > 1 ? levels[depth - 2].work : NULL, fate, s->cut,
                                  s->blocks, err);
            if (!l->work)
                break;
            read_beside(s, l);
            enter = UINT32_MAX;
        }
        struct level *l = &levels[depth - 1];
        uint64_t until = UINT64_MAX;
        if (l->next < l->end)
            until = start_of(&s->raw->images[s->children[l->next]]);
        int k = image_run(l->work, until, ROWS_AT_ONCE, err);
        if (k < 0)
            break;
        report_progress(s, levels, depth);
        if (k == 2)
            continue;
        /* What a child that begins behind it inherits is not known yet. */
        const bool stopped = s->fold && image_stopped(l->work);
        if (stopped)
            l->next = l->end;
        if (l->next < l->end) {
            if (image_suspend(l->work, err))
                break;
            enter = s->children[l->next++];
            continue;
        }
        if (finish_image(s, l, err))
            break;
        s->bytes_done += image_bytes_done(l->work);
        image_free(l->work);
        s->may_read |= l->beside;
        if (!--depth) {
            status = 0;
            break;
        }
        image_resume(levels[depth - 1].work);
    }
    while (depth)
        image_free(levels[--depth].work);
    free(levels);
    return status;
}

static int write_file_section(struct sealing *s, enum seal_type type, const struct file_facts *f,
                              struct error *err)
{
    struct section c = {0};
    struct seal_writer *w = block_writer_lend(s->blocks, err);
    if (!w)
        return -1;
    section_begin(&c, type, 0, s->images);
    facts_put_file(w, &c, f);
    int status = section_write(w, &c, err);
    bytes_free(&c.data);
    return status;
}

/* Whether the window begins behind its end. */
static bool is_over(const struct sealing *s, const struct raw_image *m)
{
    return s->cut && m->ended && m->end_clock && m->end_clock < s->cut;
}

/* Orders the images, and decides what becomes of each. 0 or -1. */
static int plan(struct sealing *s, struct error *err)
{
    const struct raw *r = s->raw;
    const uint32_t n = (uint32_t)r->image_count;
    struct child *order = calloc((size_t)n + 1, sizeof *order);
    s->children = calloc((size_t)n + 1, sizeof *s->children);
    s->first_child = calloc((size_t)n + 2, sizeof *s->first_child);
    s->fates = calloc((size_t)n + 1, sizeof *s->fates);
    if (!order || !s->children || !s->first_child || !s->fates) {
        free(order);
        return error_memory_for(err, "sealing");
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct raw_image *m = &r->images[i];
        bool child = m->parent != UINT32_MAX && has_root(r, i) && start_of(m) != UINT64_MAX;
        order[i] = (struct child){start_of(m), child ? m->parent : n, i};
        if (s->fold)
            s->fates[i] = is_over(s, m) ? IMAGE_FORGOTTEN : IMAGE_FOLDED;
        else if (s->cut || m->carried)
            s->fates[i] = is_over(s, m) ? IMAGE_FORGOTTEN : IMAGE_WINDOW;
    }
    if (n > 1)
        qsort(order, n, sizeof *order, by_parent);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        /* What begins behind the cut is not folded. */
        if (s->fold && (order[i].start >= s->cut || order[i].start == UINT64_MAX))
            continue;
        s->children[kept++] = order[i].image;
        s->first_child[order[i].parent + 1]++;
    }
    for (uint32_t i = 0; i <= n; i++)
        s->first_child[i + 1] += s->first_child[i];
    s->placed = kept;
    free(order);
    return 0;
}

static void release(struct sealing *s)
{
    block_writer_free(s->blocks);
    seal_writer_close(&s->writer);
    free(s->children);
    free(s->first_child);
    free(s->fates);
}

static int make_blocks(struct sealing *s, struct error *err)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < s->raw->stream_count; i++) {
        const struct raw_stream *stream = s->raw->met[i];
        for (uint32_t k = 0; k < stream->chunks; k++)
            calls += stream->chunk[k].calls;
    }
    const unsigned threads = calls < ALONE_CALLS ? 0 : s->how->threads;
    s->may_read = threads > 1;
    return (s->blocks = block_writer_new(&s->writer, calls, threads, err)) ? 0 : -1;
}

static int seal_roots(struct sealing *s, struct error *err)
{
    for (uint32_t i = s->first_child[s->raw->image_count]; i < s->placed; i++)
        if (seal_family(s, s->children[i], err))
            return -1;
    return 0;
}

int seal_recording(struct raw *r, int out, const struct seal_how *how,
                   struct trace_seal_result *result, struct error *err)
{
    struct sealing s = {.raw = r, .how = how};
    bool uncertain;
    int status = -1;
    timebase_of(r, &s.time, &uncertain, NULL);
    struct file_facts file = {.version = SEAL_VERSION,
                              .minor = SEAL_MINOR,
                              .tick_ns = s.time.tick_ns,
                              .start_realtime_ns = r->start_realtime_ns,
                              .damaged_bytes = r->damaged_bytes,
                              .host = r->host,
                              .tool = r->tool,
                              .kernel_kinds = r->kernel.kinds,
                              .lost_kernel_events = r->kernel.lost + r->kernel.left_out,
                              .limits = r->limits};
    if (r->carried.last_ns) {
        const uint64_t latest_ns = timebase_ns(&s.time, carried_latest(r));
        if (latest_ns > r->carried.last_ns)
            s.cut = timebase_clock(&s.time, latest_ns - r->carried.last_ns);
    }
    if (seal_writer_open(&s.writer, out, err))
        return -1;
    if (plan(&s, err))
        goto out;
    s.writer.stored = how->stored;
    if (make_blocks(&s, err))
        goto out;
    if (uncertain) {
        const char **note = ARRAY_ADD(r->notes, r->note_count, r->note_cap);
        if (note)
            *note = "the clock's rate is not known: times are in ticks of the processor's counter, "
                    "given as nanoseconds";
    }
    if (write_file_section(&s, SEAL_FILE, &file, err) || seal_roots(&s, err) ||
        write_file_section(&s, SEAL_END, &file, err))
        goto out;
    if (result) {
        result->events = s.totals.events;
        result->calls = s.totals.calls;
        result->lost_calls = s.totals.lost_calls;
        result->bytes_in = r->file_bytes;
        result->bytes_out = s.writer.offset;
        result->damaged_bytes = r->damaged_bytes;
    }
    status = 0;
out:
    release(&s);
    return status;
}

int seal_fold(struct raw *r, const struct timebase *t, uint64_t cut, struct carry_out *out,
              struct error *err)
{
    static const struct seal_how how;
    struct sealing s = {.raw = r, .how = &how, .time = *t, .cut = cut, .fold = out};
    int status = plan(&s, err) || make_blocks(&s, err) || seal_roots(&s, err) ? -1 : 0;
    release(&s);
    return status;
}

int seal_beside(struct raw *r, const struct trust_place *out, const struct seal_how *how,
                struct trace_seal_result *result, struct error *err)
{
    struct trust_draft d;
    if (trust_draft_open(&d, out, ".sealing-", err))
        return -1;
    struct stat st; /* who could read the recording can read it sealed */
    mode_t mode = 0644;
    if (!fstat(r->fd, &st))
        mode = st.st_mode & 0777;
    if (!seal_recording(r, d.fd, how, result, err) && !trust_draft_publish(&d, out, mode, err))
        return d.fd;
    trust_draft_drop(&d, out);
    return -1;
}
