/* seal.c - a raw recording becomes a sealed one.
 *
 * Images are sealed in the order of their starts, but one that was forked from another is sealed
 * at that moment of the other, whose live blocks, nodes and modules are then at hand: memory is
 * that of the live blocks along one line of descent. */
#include "seal_impl.h"

#include <sys/stat.h>

#include "carry_out.h"
#include "trace/raw/carried.h"

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

uint64_t seal_start_of(const struct raw_image *m)
{
    return m->start_clock ? m->start_clock : m->first_clock;
}

/* How many images the image was forked through, itself included, by image: those are open at the
 * same time. */
enum { GENERATIONS_MOST = 4096, UNKNOWN = 0 };
#define ON_THE_WAY UINT32_MAX
#define IN_A_RING  (UINT32_MAX - 1) /* only in a damaged file */

/* The parent from which the image inherits; UINT32_MAX: from none. */
static uint32_t heir_of(const struct raw *r, const uint32_t *generation, uint32_t image)
{
    return generation[image] > 1 && generation[image] != IN_A_RING ? r->images[image].parent
                                                                   : UINT32_MAX;
}

static bool find_generations(const struct raw *r, uint32_t *generation)
{
    bool cut = false;
    for (uint32_t i = 0; i < r->image_count; i++) {
        uint32_t top = i, length = 0;
        for (; top != UINT32_MAX && generation[top] == UNKNOWN; top = r->images[top].parent) {
            generation[top] = ON_THE_WAY;
            length++;
        }
        const uint32_t above = top == UINT32_MAX ? 0 : generation[top];
        const bool ring = above == ON_THE_WAY || above == IN_A_RING;
        for (uint32_t image = i; length; image = r->images[image].parent, length--) {
            const uint64_t whole = (uint64_t)above + length;
            generation[image] = ring ? IN_A_RING : (uint32_t)((whole - 1) % GENERATIONS_MOST + 1);
            cut |= !ring && whole > GENERATIONS_MOST;
        }
    }
    return cut;
}

#define ROWS_AT_ONCE (1u << 18) /* between two signs of progress */

/* The images on the stack are done in part. */
static void report_progress(const struct sealing *s)
{
    uint64_t done = s->bytes_done + s->bytes_below;
    if (s->depth)
        done += image_bytes_done(s->levels[s->depth - 1].work);
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
void seal_read_beside(struct sealing *s, struct level *l)
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

static int enter_image(struct sealing *s, uint32_t image, struct error *err)
{
    struct level *l = ARRAY_ADD(s->levels, s->depth, s->level_room);
    if (!l)
        return error_memory_for(err, "sealing");
    const enum image_fate fate = s->fates[image];
    const uint32_t number = fate == IMAGE_FORGOTTEN ? UINT32_MAX : s->images++;
    struct image_work *parent = s->depth > 1 ? l[-1].work : NULL;
    if (parent)
        s->bytes_below += l[-1].bytes_done = image_bytes_done(parent);
    l->image = image;
    l->next = s->first_child[image];
    l->end = s->first_child[image + 1];
    l->limit = s->growing ? 0 : UINT64_MAX;
    l->work = image_begin(s->raw, &s->time, image, number, parent, fate, s->cut, s->blocks, err);
    if (!l->work)
        return -1;
    if (s->met)
        s->met[image].entered = true;
    if (s->growing)
        image_growing(l->work);
    else
        seal_read_beside(s, l);
    return 0;
}

/* The image on top is done. */
static int leave_image(struct sealing *s, struct error *err)
{
    struct level *l = &s->levels[s->depth - 1];
    if (s->met)
        seal_draft_finishing(s, l);
    if (finish_image(s, l, err))
        return -1;
    s->bytes_done += image_bytes_done(l->work);
    image_free(l->work);
    s->may_read |= l->beside;
    if (--s->depth) {
        s->bytes_below -= s->levels[s->depth - 1].bytes_done;
        image_resume(s->levels[s->depth - 1].work);
    }
    return 0;
}

int seal_step(struct sealing *s, struct error *err)
{
    if (!s->depth) {
        const uint32_t root = s->first_child[s->raw->image_count] + s->roots_begun;
        if (root >= s->placed)
            return s->growing;
        s->roots_begun++;
        return enter_image(s, s->children[root], err) ? -1 : 2;
    }
    struct level *l = &s->levels[s->depth - 1];
    uint64_t child = UINT64_MAX, until = l->limit;
    if (l->next < l->end)
        child = seal_start_of(&s->raw->images[s->children[l->next]]);
    if (until != UINT64_MAX) /* rows that are near show the meaning of a row */
        until = until > s->time.near ? until - s->time.near : 0;
    if (child < until)
        until = child;
    if (until > l->until)
        l->until = until;
    const int k = image_run(l->work, until, ROWS_AT_ONCE, err);
    if (k < 0)
        return -1;
    report_progress(s);
    if (k == 2)
        return 2;
    if (l->limit != UINT64_MAX && (until < child || image_is_stalled(l->work)))
        return 1;
    /* The blocks that a child inherits which begins behind it are not known yet. */
    const bool stopped = s->fold && image_stopped(l->work);
    if (stopped)
        l->next = l->end;
    if (l->next == l->end)
        return leave_image(s, err) ? -1 : 2;
    if (image_suspend(l->work, err))
        return -1;
    l->begun++;
    return enter_image(s, s->children[l->next++], err) ? -1 : 2;
}

int seal_write_facts(struct sealing *s, enum seal_type type, const struct file_facts *f,
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

/* True if the window begins behind its end. */
static bool image_is_before_window(const struct sealing *s, const struct raw_image *m)
{
    return s->cut && m->ended && m->end_clock && m->end_clock < s->cut;
}

int seal_plan(struct sealing *s, struct error *err)
{
    const struct raw *r = s->raw;
    const uint32_t n = (uint32_t)r->image_count;
    struct child *order = calloc((size_t)n + 1, sizeof *order);
    uint32_t *generation = calloc((size_t)n + 1, sizeof *generation);
    free(s->children);
    free(s->first_child);
    free(s->fates);
    s->children = calloc((size_t)n + 1, sizeof *s->children);
    s->first_child = calloc((size_t)n + 2, sizeof *s->first_child);
    s->fates = calloc((size_t)n + 1, sizeof *s->fates);
    if (!order || !generation || !s->children || !s->first_child || !s->fates) {
        free(order);
        free(generation);
        return error_memory_for(err, "sealing");
    }
    s->cut_forks = find_generations(r, generation);
    for (uint32_t i = 0; i < n; i++) {
        const struct raw_image *m = &r->images[i];
        const uint32_t parent = heir_of(r, generation, i);
        const bool child = parent != UINT32_MAX && seal_start_of(m) != UINT64_MAX;
        order[i] = (struct child){seal_start_of(m), child ? parent : n, i};
        if (s->fold)
            s->fates[i] = image_is_before_window(s, m) ? IMAGE_FORGOTTEN : IMAGE_FOLDED;
        else if (s->cut || m->carried)
            s->fates[i] = image_is_before_window(s, m) ? IMAGE_FORGOTTEN : IMAGE_WINDOW;
    }
    if (n > 1)
        qsort(order, n, sizeof *order, by_parent);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        /* An image that begins behind the cut is not folded. */
        if (s->fold && (order[i].start >= s->cut || order[i].start == UINT64_MAX))
            continue;
        /* Where it belongs is not known yet. */
        if (s->growing && !r->images[order[i].image].described)
            continue;
        s->children[kept++] = order[i].image;
        s->first_child[order[i].parent + 1]++;
    }
    for (uint32_t i = 0; i <= n; i++)
        s->first_child[i + 1] += s->first_child[i];
    s->placed = kept;
    free(order);
    free(generation);
    return 0;
}

void seal_release(struct sealing *s)
{
    while (s->depth)
        image_free(s->levels[--s->depth].work);
    free(s->levels);
    free(s->met);
    block_writer_free(s->blocks);
    seal_writer_close(&s->writer);
    free(s->children);
    free(s->first_child);
    free(s->fates);
}

int seal_make_blocks(struct sealing *s, uint64_t calls, struct error *err)
{
    const unsigned threads = calls < ALONE_CALLS ? 0 : s->how->threads;
    s->may_read = threads > 1;
    return (s->blocks = block_writer_new(&s->writer, calls, threads, err)) ? 0 : -1;
}

static int make_image_blocks(struct sealing *s, struct error *err)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < s->raw->stream_count; i++) {
        const struct raw_stream *stream = s->raw->met[i];
        for (uint32_t k = 0; k < stream->chunks; k++)
            calls += stream->chunk[k].calls;
    }
    return seal_make_blocks(s, calls, err);
}

static int seal_all(struct sealing *s, struct error *err)
{
    int k;
    while ((k = seal_step(s, err)) > 0)
        ;
    return k;
}

struct file_facts seal_facts_of(const struct raw *r, const struct timebase *t)
{
    return (struct file_facts){.version = SEAL_VERSION,
                               .minor = SEAL_MINOR,
                               .tick_ns = t->tick_ns,
                               .start_realtime_ns = r->start_realtime_ns,
                               .damaged_bytes = r->damaged_bytes,
                               .host = r->host,
                               .tool = r->tool,
                               .kernel_kinds = r->kernel.kinds,
                               .lost_kernel_events = r->kernel.lost + r->kernel.left_out,
                               .limits = r->limits};
}

int seal_recording(struct raw *r, int out, const struct seal_how *how,
                   struct trace_seal_result *result, struct error *err)
{
    struct sealing s = {.raw = r, .how = how};
    bool uncertain;
    int status = -1;
    timebase_of(r, &s.time, &uncertain, NULL);
    const struct file_facts file = seal_facts_of(r, &s.time);
    if (r->carried.last_ns) {
        const uint64_t latest_ns = timebase_ns(&s.time, carried_latest(r));
        if (latest_ns > r->carried.last_ns)
            s.cut = timebase_clock(&s.time, latest_ns - r->carried.last_ns);
    }
    if (seal_writer_open(&s.writer, out, err))
        return -1;
    if (seal_plan(&s, err))
        goto out;
    s.writer.stored = how->stored;
    if (make_image_blocks(&s, err))
        goto out;
    if (uncertain) {
        const char **note = ARRAY_ADD(r->notes, r->note_count, r->note_cap);
        if (note)
            *note = "the clock's rate is not known: times are in ticks of the processor's counter, "
                    "given as nanoseconds";
    }
    if (s.cut_forks) {
        const char **note = ARRAY_ADD(r->notes, r->note_count, r->note_cap);
        if (note)
            *note = "a process was forked through more than 4,096 others: each 4,096 of them begin "
                    "without the blocks of those before";
    }
    if (seal_write_facts(&s, SEAL_FILE, &file, err) || seal_all(&s, err) ||
        seal_write_facts(&s, SEAL_END, &file, err))
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
    seal_release(&s);
    return status;
}

int seal_fold(struct raw *r, const struct timebase *t, uint64_t cut, struct carry_out *out,
              struct error *err)
{
    static const struct seal_how how;
    struct sealing s = {.raw = r, .how = &how, .time = *t, .cut = cut, .fold = out};
    int status = seal_plan(&s, err) || make_image_blocks(&s, err) || seal_all(&s, err) ? -1 : 0;
    seal_release(&s);
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
