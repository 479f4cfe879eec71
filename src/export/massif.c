/* massif.c - the output format of valgrind's massif: snapshots of the heap over time, the one at
 * the peak with the call sites that held it.
 *
 * "Extra" bytes are usable bytes beyond the requested ones. */
#include <stdlib.h>
#include <string.h>

#include "analyse/group.h"
#include "base/lines.h"
#include "export/job.h"

enum { SNAPSHOTS = 100 };
#define THRESHOLD 100u /* a part of the whole below one in so many is put together with others */
#define DEPTH_MAX 64u

struct snapshot {
    uint64_t time_ns, bytes, extra;
};

struct massif {
    struct export_job *job;
    struct lines l;
    const struct trace_image *image;
    struct {
        uint64_t size, usable;
    } * blocks; /* by slot; usable is at least 1 for one that counts */
    struct snapshot at[SNAPSHOTS + 2], now, peak;
    size_t count;
    uint64_t next_ns, width_ns;
};

/* --- the heap over time --- */

static void massif_advance(struct massif *m, uint64_t ns)
{
    while (ns >= m->next_ns && m->count < SNAPSHOTS) {
        m->now.time_ns = m->next_ns;
        m->at[m->count++] = m->now;
        m->next_ns += m->width_ns;
    }
}

static int massif_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                            struct error *err)
{
    struct massif *m = arg;
    (void)err;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        if (slot == TRACE_NO_SLOT || (f->f.to_ns && b->time_ns[i] >= f->f.to_ns))
            continue;
        if (b->time_ns[i] >= f->f.from_ns)
            massif_advance(m, b->time_ns[i]);
        if (b->kind[i] == TRACE_ALLOC && job_call_passes(f, b, i)) {
            uint64_t usable = b->usable[i] > b->size[i] ? b->usable[i] : b->size[i];
            m->blocks[slot].size = b->size[i];
            m->blocks[slot].usable = usable + 1;
            m->now.bytes += b->size[i];
            m->now.extra += usable - b->size[i];
            if (m->now.bytes > m->peak.bytes && b->time_ns[i] >= f->f.from_ns) {
                m->peak = m->now;
                m->peak.time_ns = b->time_ns[i];
            }
        } else if (b->kind[i] != TRACE_ALLOC && m->blocks[slot].usable) {
            m->now.bytes -= m->blocks[slot].size;
            m->now.extra -= m->blocks[slot].usable - 1 - m->blocks[slot].size;
            m->blocks[slot].usable = 0;
        }
    }
    return 0;
}

/* --- the tree at the peak --- */

struct level {
    struct group_cursor *cursors;
    size_t count;
    uint64_t bytes;
    unsigned depth;
};

static void massif_put_frame(struct massif *m, const struct name_frame *f)
{
    lines_put(&m->l, " 0x0: ");
    lines_harmless(&m->l, f->function);
    if (f->file) {
        const char *slash = strrchr(f->file, '/');
        lines_put(&m->l, " (");
        lines_harmless(&m->l, slash ? slash + 1 : f->file);
        if (f->line) {
            lines_char(&m->l, ':');
            lines_number(&m->l, f->line, 0);
        }
        lines_char(&m->l, ')');
    } else if (f->module) {
        lines_put(&m->l, " (in ");
        lines_harmless(&m->l, f->module);
        lines_char(&m->l, ')');
    }
}

static void massif_put_head(struct massif *m, unsigned depth, size_t children, uint64_t bytes)
{
    for (unsigned i = 0; i < depth; i++)
        lines_char(&m->l, ' ');
    lines_char(&m->l, 'n');
    lines_number(&m->l, children, 0);
    lines_put(&m->l, ": ");
    lines_number(&m->l, bytes, 0);
}

/* Writes what called the frames at which these cursors stand: all stand at `frame`, or at the
 * beginning (NO_FRAME). It is a number, as looking at the callers may move the names of frames. */
static int massif_put_level(struct massif *m, const struct model *model, struct names *names,
                            const struct level *at, uint64_t whole, uint32_t frame,
                            struct error *err)
{
    struct frame_source source = names_source(names, true);
    struct group *groups = NULL;
    long n = at->depth < DEPTH_MAX
                 ? group_frames(model, &source, BY_PEAK, at->cursors, at->count, &groups, err)
                 : 0;
    if (n < 0)
        return -1;
    size_t shown = 0, small = 0;
    uint64_t small_bytes = 0;
    int status = 0;
    for (long i = 0; i < n; i++) {
        if (groups[i].frame == NO_FRAME)
            continue;
        if (groups[i].figures.peak_bytes * THRESHOLD < whole) {
            small++;
            small_bytes += groups[i].figures.peak_bytes;
        } else {
            shown++;
        }
    }
    massif_put_head(m, at->depth, shown + (small > 0), at->bytes);
    if (frame != NO_FRAME)
        massif_put_frame(m, names_frame(names, frame));
    else
        lines_put(&m->l, " (heap allocation functions) malloc/new/new[], --alloc-fns, etc.");
    lines_char(&m->l, '\n');
    for (long i = 0; i < n && !status; i++) {
        struct group *g = &groups[i];
        if (g->frame == NO_FRAME || g->figures.peak_bytes * THRESHOLD < whole)
            continue;
        const struct level next = {at->cursors + g->first, g->count, g->figures.peak_bytes,
                                   at->depth + 1};
        group_step(model, &source, next.cursors, next.count);
        status = massif_put_level(m, model, names, &next, whole, g->frame, err);
    }
    if (small && !status) {
        massif_put_head(m, at->depth + 1, 0, small_bytes);
        lines_put(&m->l, " in ");
        lines_number(&m->l, small, 0);
        lines_put(&m->l, small == 1 ? " place, below massif's threshold (1.00%)\n"
                                    : " places, all below massif's threshold (1.00%)\n");
    }
    free(groups);
    return status;
}

static void put_snapshot(struct massif *m, size_t number, const struct snapshot *s,
                         const char *tree)
{
    lines_put(&m->l, "#-----------\nsnapshot=");
    lines_number(&m->l, number, 0);
    lines_put(&m->l, "\n#-----------\ntime=");
    uint64_t ns = s->time_ns > m->image->start_ns ? s->time_ns - m->image->start_ns : 0;
    char ms[40];
    snprintf(ms, sizeof ms, "%llu.%03u", (unsigned long long)(ns / 1000000),
             (unsigned)(ns / 1000 % 1000));
    lines_put(&m->l, ms);
    lines_put(&m->l, "\nmem_heap_B=");
    lines_number(&m->l, s->bytes, 0);
    lines_put(&m->l, "\nmem_heap_extra_B=");
    lines_number(&m->l, s->extra, 0);
    lines_put(&m->l, "\nmem_stacks_B=0\nheap_tree=");
    lines_put(&m->l, tree);
    lines_char(&m->l, '\n');
}

static int massif_write_process(void *arg, const struct model *model, struct names *names,
                                struct error *err)
{
    struct massif *m = arg;
    struct group_cursor *cursors = NULL;
    size_t number = 0;
    int status = 0;
    bool peaked = m->peak.bytes == 0;
    for (size_t i = 0; i < m->count && !status; i++) {
        if (!peaked && m->at[i].time_ns >= m->peak.time_ns) {
            peaked = true;
            put_snapshot(m, number++, &m->peak, "peak");
            long n = group_start(model, &cursors, err);
            const struct level top = {cursors, n > 0 ? (size_t)n : 0, m->peak.bytes, 0};
            status =
                n < 0 ? -1 : massif_put_level(m, model, names, &top, m->peak.bytes, NO_FRAME, err);
            free(cursors);
        }
        put_snapshot(m, number++, &m->at[i], "empty");
    }
    m->job->result->samples = number;
    return status;
}

int export_massif(struct export_job *job, struct error *err)
{
    int64_t index = job_one_process(job, err);
    if (index < 0)
        return -1;
    const struct export_options *o = job->options;
    struct massif m = {.job = job, .image = &trace_info(job->trace)->images[index]};
    uint64_t end_ns =
        o->select.to_ns && o->select.to_ns < m.image->end_ns ? o->select.to_ns : m.image->end_ns;
    uint64_t start_ns =
        o->select.from_ns > m.image->start_ns ? o->select.from_ns : m.image->start_ns;
    int status = -1;
    m.next_ns = start_ns;
    m.width_ns = end_ns > start_ns ? (end_ns - start_ns) / SNAPSHOTS + 1 : 1;
    m.blocks = calloc((size_t)m.image->max_slots + 1, sizeof *m.blocks);
    struct names *names = names_new(job->symbols, m.image, err);
    if (!m.blocks) {
        error_memory_for(err, "live blocks");
    } else if (names && !job_lines_open(job, &m.l, err)) {
        status = job_events(job, (uint32_t)index, names, massif_add_batch, &m, err);
    }
    names_free(names);
    free(m.blocks);
    if (!status) {
        massif_advance(&m, end_ns);
        m.now.time_ns = end_ns;
        m.at[m.count++] = m.now;
        lines_put(&m.l, "desc: --time-unit=ms (mallow " MALLOW_VERSION ")\ncmd: ");
        job_put_command(&m.l, m.image);
        lines_put(&m.l, "\ntime_unit: ms\n");
        status = job_model(job, (uint32_t)index, massif_write_process, &m, err);
        job->result->processes = 1;
    }
    return job_lines_close(job, status, err);
}
