/* draft.c - Seals a recording while the program still writes it. It takes only rows before which
 * nothing can still be written. At the end it compares the facts it assumed with the final ones,
 * and discards the draft if they differ. */
#include "draft.h"

#include <sys/stat.h>

#include "seal_impl.h"

/* With so many calls it is known how large blocks will be. */
#define CALLS_LEAST ((uint64_t)SEAL_BLOCK_PARTS * SEAL_BLOCK_EVENTS)

struct seal_draft {
    struct raw raw;
    struct sealing s;
    struct seal_how how;
    const struct trust_place *place;
    struct trust_draft out;
    bool begun;
    uint64_t calls; /* the calls of the whole recording; 0: not known */
    struct file_facts file;
    size_t notes;             /* the notes of the recording, when it was begun */
    size_t images, described; /* that seal_plan knew */
};

/* It is sealed as if there had been no draft. */
static int not_here(struct error *err, const char *why)
{
    return error_set(err, ERROR_UNSUPPORTED, "sealing beside the program ended: %s", why);
}

struct seal_draft *seal_draft_open(int fd, const struct trust_place *out, uint64_t calls,
                                   struct error *err)
{
    struct seal_draft *d = calloc(1, sizeof *d);
    if (!d) {
        error_memory_for(err, "sealing");
        return NULL;
    }
    raw_grow_begin(&d->raw, fd);
    d->out.fd = -1;
    d->place = out;
    d->calls = calls;
    d->s.raw = &d->raw;
    d->s.how = &d->how;
    d->s.growing = true;
    return d;
}

struct raw *seal_draft_raw(struct seal_draft *d) { return &d->raw; }

void seal_draft_close(struct seal_draft *d)
{
    if (!d)
        return;
    seal_release(&d->s);
    if (d->out.fd >= 0)
        trust_draft_drop(&d->out, d->place);
    raw_close(&d->raw);
    free(d);
}

/* ---- looking again at facts that were taken for granted ---- */

static uint64_t mix(uint64_t sum, uint64_t v)
{
    sum = (sum ^ v) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

/* A sum of the facts of an image, but for the samples themselves: more of them may come, others
 * not. Marks of the whole recording count up to a clock. */
static uint64_t facts_of(const struct raw *r, uint32_t image, uint64_t marks_until)
{
    const struct raw_image *m = &r->images[image];
    const uint64_t facts[] = {
        m->pid,        m->ppid,          m->parent,         m->end_how,       m->end_status,
        m->ended,      m->start_clock,   m->end_clock,      m->lost_reported, m->own_bytes,
        m->note_count, m->names.n,       m->resident_count, m->split_count,   m->mark_count,
        m->threads,    m->process_offset};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        sum = mix(sum, facts[i]);
    for (uint32_t i = 0; i < m->streams; i++) {
        const struct raw_stream *st = r->streams[m->first_stream + i];
        sum = mix(mix(mix(sum, st->chunks), st->lost_calls), st->gap_calls);
    }
    for (size_t i = 0; i < r->mark_count; i++)
        sum = mix(sum, r->marks[i].clock <= marks_until ? r->marks[i].clock : 0);
    return sum;
}

void seal_draft_finishing(struct sealing *s, const struct level *l)
{
    struct seal_met *m = &s->met[l->image];
    m->finished = true;
    m->begun = l->begun;
    m->marks_until = image_last_clock(l->work);
    m->facts = facts_of(s->raw, l->image, m->marks_until);
}

static uint32_t entered(const struct sealing *s, uint32_t first, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && s->met[s->children[first + k]].entered)
        k++;
    return k;
}

/* After seal_plan: whether the images came in the order that is known by now. Those that were
 * entered stand in front among their kin, and the others do not begin before rows that were taken.
 */
static bool order_holds(struct sealing *s)
{
    const uint32_t n = (uint32_t)s->raw->image_count, roots = s->first_child[n];
    uint32_t known = s->roots_begun;
    if (entered(s, roots, s->placed - roots) != s->roots_begun)
        return false;
    for (size_t i = 0; i < s->depth; i++) {
        struct level *l = &s->levels[i];
        const uint32_t first = s->first_child[l->image];
        l->end = s->first_child[l->image + 1];
        l->next = first + l->begun;
        known += l->begun;
        if (entered(s, first, l->end - first) != l->begun)
            return false;
        if (l->next < l->end && seal_start_of(&s->raw->images[s->children[l->next]]) < l->until)
            return false;
    }
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t children = s->first_child[i + 1] - s->first_child[i];
        all += s->met[i].entered;
        if (s->met[i].finished && children != s->met[i].begun)
            return false;
        known += s->met[i].finished ? entered(s, s->first_child[i], children) : 0;
    }
    return all == known;
}

static int plan_draft(struct seal_draft *d, struct error *err)
{
    struct sealing *s = &d->s;
    const size_t n = d->raw.image_count, was = s->met_room;
    if (!ARRAY_ROOM(s->met, n + 1, s->met_room))
        return error_memory_for(err, "sealing");
    if (s->met_room > was)
        memset(s->met + was, 0, (s->met_room - was) * sizeof *s->met);
    if (seal_plan(s, err))
        return -1;
    return order_holds(s) ? 0 : not_here(err, "a process began earlier than those before it");
}

/* ---- while it grows ---- */

/* The time of a recording that grows; false: it is not known yet. */
static bool find_time(const struct raw *r, struct timebase *t)
{
    struct raw sorted = *r;
    bool uncertain, settled;
    if (!r->pair_count || !(sorted.pairs = malloc(r->pair_count * sizeof *sorted.pairs)))
        return false;
    memcpy(sorted.pairs, r->pairs, r->pair_count * sizeof *sorted.pairs);
    raw_sort_pairs(&sorted);
    timebase_of(&sorted, t, &uncertain, &settled);
    free(sorted.pairs);
    return settled && !uncertain;
}

/* Once it is known what the file begins with. 1 when begun, 0 not yet, -1. */
static int begin_draft_file(struct seal_draft *d, struct error *err)
{
    struct raw *r = &d->raw;
    struct sealing *s = &d->s;
    const uint64_t calls = d->calls ? d->calls : r->ready_calls;
    if (!r->has_file || !r->start_clock || (!d->calls && calls < CALLS_LEAST) ||
        !find_time(r, &s->time))
        return 0;
    if (trust_draft_open(&d->out, d->place, ".sealing-", err)) {
        d->out.fd = -1;
        return -1;
    }
    if (seal_writer_open(&s->writer, d->out.fd, err) || seal_make_blocks(s, calls, err) ||
        plan_draft(d, err))
        return -1;
    d->file = seal_facts_of(r, &s->time);
    d->notes = r->note_count;
    d->begun = true;
    return seal_write_facts(s, SEAL_FILE, &d->file, err) ? -1 : 1;
}

uint64_t seal_draft_wants(const struct seal_draft *d)
{
    const struct sealing *s = &d->s;
    return s->depth ? d->raw.images[s->levels[s->depth - 1].image].id : 0;
}

/* The index has grown. 0 or -1. */
static int index_moved(struct seal_draft *d, struct error *err)
{
    const struct raw *r = &d->raw;
    size_t described = 0;
    for (size_t i = 0; i < r->image_count; i++)
        described += r->images[i].described;
    for (size_t i = 0; i < d->s.depth; i++)
        if (image_moved(d->s.levels[i].work, err))
            return -1;
    if (d->images == r->image_count && d->described == described)
        return 0;
    d->images = r->image_count;
    d->described = described;
    return plan_draft(d, err);
}

static int take_horizon(struct seal_draft *d, const struct trace_horizon *h, struct error *err)
{
    struct sealing *s = &d->s;
    if (!h->image || h->image != seal_draft_wants(d))
        return 0;
    struct level *l = &s->levels[s->depth - 1];
    bool late;
    uint64_t limit = h->clock;
    if (h->over) {
        if (!raw_image_is_whole(&d->raw, l->image))
            return 0;
        raw_finish_image(&d->raw, l->image);
        limit = UINT64_MAX;
    }
    if (image_grow(l->work, limit, &late, err))
        return -1;
    l->limit = image_limit(l->work);
    return late ? not_here(err, "rows came late") : 0;
}

int seal_draft_go(struct seal_draft *d, const struct trace_horizon *h, struct error *err)
{
    struct raw *r = &d->raw;
    if (h->file_bytes > r->file_bytes && raw_grow(r, h->file_bytes, err))
        return -1;
    if (r->odd || r->carried.on || r->kernel.kinds)
        return not_here(err, "the recording is of a kind that is sealed at its end");
    if (!d->begun) {
        const int k = begin_draft_file(d, err);
        return k <= 0 ? k < 0 ? -1 : 1 : 2;
    }
    return index_moved(d, err) || take_horizon(d, h, err) ? -1 : seal_step(&d->s, err);
}

/* ---- the end ---- */

/* True if sealing from the beginning would come to the same up to here. */
static int check_draft(struct seal_draft *d, struct error *err)
{
    const struct raw *r = &d->raw;
    const struct sealing *s = &d->s;
    struct timebase t;
    bool uncertain, settled;
    timebase_of(r, &t, &uncertain, &settled);
    if (r->odd || r->damaged_bytes || r->kernel.lost || r->note_count != d->notes)
        return not_here(err, "the recording has damage");
    if (s->cut_forks)
        return not_here(err, "processes were forked through too many others");
    if (uncertain || !settled || t.tick_ns != s->time.tick_ns || t.origin != s->time.origin)
        return not_here(err, "the clock was set");
    for (uint32_t i = 0; i < r->image_count; i++)
        if (s->met[i].finished && s->met[i].facts != facts_of(r, i, s->met[i].marks_until))
            return not_here(err, "more was said of a process that had ended");
    for (size_t i = 0; i < s->depth; i++)
        if (!image_marks_hold(s->levels[i].work))
            return not_here(err, "a mark came late");
    return 0;
}

/* All rows are there. 0 or -1. */
static int open_up(struct seal_draft *d, struct error *err)
{
    struct sealing *s = &d->s;
    s->growing = false;
    for (size_t i = 0; i < s->depth; i++) {
        bool late;
        if (image_grow(s->levels[i].work, UINT64_MAX, &late, err))
            return -1;
        if (late)
            return not_here(err, "rows came late");
        s->levels[i].limit = UINT64_MAX;
    }
    if (s->how->threads)
        block_writer_beside(s->blocks);
    s->may_read = s->how->threads > 1;
    if (s->depth)
        seal_read_beside(s, &s->levels[s->depth - 1]);
    return 0;
}

int seal_draft_end(struct seal_draft *d, const struct seal_how *how,
                   struct trace_seal_result *result, struct error *err)
{
    struct sealing *s = &d->s;
    struct stat st;
    mode_t mode = 0644;
    int k;
    if (!d->begun)
        return not_here(err, "it had not begun");
    s->growing = false; /* images that were not described count as well */
    d->how = *how;
    if (plan_draft(d, err) || check_draft(d, err) || open_up(d, err))
        return -1;
    while ((k = seal_step(s, err)) > 0)
        ;
    if (k || seal_write_facts(s, SEAL_END, &d->file, err))
        return -1;
    *result = (struct trace_seal_result){.events = s->totals.events,
                                         .calls = s->totals.calls,
                                         .lost_calls = s->totals.lost_calls,
                                         .bytes_in = d->raw.file_bytes,
                                         .bytes_out = s->writer.offset};
    if (!fstat(d->raw.fd, &st))
        mode = st.st_mode & 0777;
    if (trust_draft_publish(&d->out, d->place, mode, err))
        return -1;
    const int fd = d->out.fd;
    d->out.fd = -1;
    return fd;
}
