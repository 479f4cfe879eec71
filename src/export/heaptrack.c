/* heaptrack.c - heaptrack's interpreted format, version 3: lines that begin with a letter, numbers
 * in hex. Strings, instruction pointers, traces and pairs of size and trace are numbered where they
 * first appear; an allocation or a release names such a pair.
 *
 * What heaptrack calls temporary it finds by itself: an allocation whose release is the next event
 * of the whole process. */
#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "base/digits.h"
#include "base/lines.h"
#include "base/text.h"
#include "export/job.h"

/* Pairs remembered; when there are more distinct ones they are numbered anew, which heaptrack adds
 * up again. It bounds memory. */
#define PAIRS_MAX (1u << 19)

struct pair {
    uint64_t size;
    uint64_t trace;
};

struct writer {
    struct export_job *job;
    struct lines l;
    struct names *names;
    const struct trace_image *image;
    struct strings strings, places, pairs;
    uint32_t *traces; /* by node: number of its trace; 0: not written yet */
    uint32_t *path;   /* [stacks + 1] */
    uint32_t trace_count, pairs_before;
    uint32_t *live;    /* by slot: number of the pair + 1 */
    bool started;      /* the window of time has begun */
    uint64_t next_ns;  /* when it comes to the next millisecond */
    uint32_t resident; /* next sample */
};

static bool number_string(struct writer *w, const char *text, uint32_t *id)
{
    bool fresh;
    *id = 0;
    if (!text || !*text)
        return true;
    *id = strings_id(&w->strings, text, strlen(text), &fresh);
    if (fresh) {
        lines_put(&w->l, "s ");
        struct buffer shown = {0};
        text_append(&shown, text);
        lines_digits(&w->l, shown.size_bytes);
        lines_char(&w->l, ' ');
        lines_put(&w->l, buffer_text(&shown));
        lines_char(&w->l, '\n');
        buffer_release(&shown);
    }
    return *id;
}

/* The number of the place of a node. */
static bool number_place(struct writer *w, uint32_t node, uint32_t *id)
{
    const struct job_place at = job_place(w->image, node);
    const uint32_t *ids;
    bool fresh;
    *id = strings_id(&w->places, &at, sizeof at, &fresh);
    if (!fresh)
        return *id;
    uint32_t module = 0, function[64], file[64], line[64];
    size_t n = names_of(w->names, node, &ids);
    n = n < 64 ? n : 64;
    if (at.module && !number_string(w, w->image->modules[at.module - 1].path, &module))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct name_frame *f = names_frame(w->names, ids[i]);
        line[i] = f->line;
        if (!number_string(w, f->function, &function[i]) || !number_string(w, f->file, &file[i]))
            return false;
    }
    lines_put(&w->l, "i ");
    lines_digits(&w->l, at.pc - (at.pc && !(at.flags & MLW_NODE_EXACT)));
    lines_char(&w->l, ' ');
    lines_digits(&w->l, module);
    for (size_t i = 0; i < n; i++) {
        const uint32_t words[] = {function[i], file[i], line[i]};
        for (size_t k = 0; k < 3; k++) {
            lines_char(&w->l, ' ');
            lines_digits(&w->l, words[k]);
        }
    }
    lines_char(&w->l, '\n');
    return true;
}

/* Writes the traces of a stack from the outermost on. */
static bool number_trace(struct writer *w, uint32_t stack)
{
    size_t depth = 0;
    for (uint32_t node = stack; node && !w->traces[node]; node = trace_caller(w->image, node))
        w->path[depth++] = node;
    while (depth) {
        uint32_t node = w->path[--depth], place;
        if (!number_place(w, node, &place))
            return false;
        lines_put(&w->l, "t ");
        lines_digits(&w->l, place);
        lines_char(&w->l, ' ');
        lines_digits(&w->l, w->traces[trace_caller(w->image, node)]);
        lines_char(&w->l, '\n');
        w->traces[node] = ++w->trace_count;
    }
    return true;
}

static bool number_pair(struct writer *w, uint64_t size, uint32_t stack, uint32_t *id)
{
    bool fresh;
    if (stack && !w->traces[stack] && !number_trace(w, stack))
        return false;
    const struct pair pair = {size, w->traces[stack]};
    if (w->pairs.count >= PAIRS_MAX) {
        w->pairs_before += w->pairs.count;
        strings_release(&w->pairs);
    }
    *id = strings_id(&w->pairs, &pair, sizeof pair, &fresh);
    if (!*id)
        return false;
    *id += w->pairs_before;
    if (fresh) {
        lines_put(&w->l, "a ");
        lines_digits(&w->l, size);
        lines_char(&w->l, ' ');
        lines_digits(&w->l, pair.trace);
        lines_char(&w->l, '\n');
    }
    return true;
}

static inline void heaptrack_put_event(struct writer *w, char letter, uint32_t pair)
{
    char *p = lines_room(&w->l, 2 * DIGITS_ROOM);
    p[0] = letter;
    p[1] = ' ';
    p = digits_hex_short(p + 2, pair - 1); /* these count from 0 */
    *p++ = '\n';
    lines_end(&w->l, p);
    w->job->result->samples++;
}

/* The clock of the file is a millisecond behind time_ns, or more. */
static __attribute__((noinline)) void put_later(struct writer *w, uint64_t time_ns)
{
    const struct trace_image *image = w->image;
    const uint64_t ms = (time_ns - image->start_ns) / 1000000;
    w->next_ns = image->start_ns + (ms + 1) * 1000000;
    while (w->resident < image->resident_count && image->resident[w->resident].clock <= time_ns) {
        lines_put(&w->l, "R ");
        lines_digits(&w->l, image->resident[w->resident++].rss / ARCH_PAGE_BYTES);
        lines_char(&w->l, '\n');
    }
    lines_put(&w->l, "c ");
    lines_digits(&w->l, ms);
    lines_char(&w->l, '\n');
}

/* Lets the clock of the file come to time_ns. */
static inline void heaptrack_put_time(struct writer *w, uint64_t time_ns)
{
    if (time_ns >= w->next_ns)
        put_later(w, time_ns);
}

/* Blocks of before the window of time are live at its start. */
static void heaptrack_put_carried(struct writer *w)
{
    w->started = true;
    for (uint32_t i = 0; i < w->image->max_slots; i++)
        if (w->live[i])
            heaptrack_put_event(w, '+', w->live[i]);
}

static int heaptrack_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                               struct error *err)
{
    struct writer *w = arg;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        if (slot == TRACE_NO_SLOT) {
            w->job->result->left_out += b->kind[i] == TRACE_OTHER;
            continue;
        }
        const bool before = f->any && b->time_ns[i] < f->f.from_ns;
        const bool after = f->any && f->f.to_ns && b->time_ns[i] >= f->f.to_ns;
        if (after)
            continue;
        if (!before && !w->started)
            heaptrack_put_carried(w);
        if (!before)
            heaptrack_put_time(w, b->time_ns[i]);
        if (b->kind[i] == TRACE_ALLOC) {
            /* blocks before the window are written only when they are live at its start */
            if (!job_call_passes(f, b, i))
                continue;
            if (!number_pair(w, b->size[i], b->stack[i], &w->live[slot]))
                return error_memory_for(err, "traces");
            if (!before)
                heaptrack_put_event(w, '+', w->live[slot]);
        } else if (w->live[slot]) {
            if (!before)
                heaptrack_put_event(w, '-', w->live[slot]);
            w->live[slot] = 0;
        }
    }
    return 0;
}

static void heaptrack_put_head(struct writer *w)
{
    lines_put(&w->l, "v 10400 3\nX ");
    job_put_command(&w->l, w->image);
    lines_put(&w->l, "\nI 1000 0\n");
}

int export_heaptrack(struct export_job *job, struct error *err)
{
    int64_t index = job_one_process(job, err);
    if (index < 0)
        return -1;
    struct writer w = {.job = job, .image = &trace_info(job->trace)->images[index]};
    int status = -1;
    w.traces = calloc((size_t)w.image->stacks + 1, sizeof *w.traces);
    w.path = malloc(((size_t)w.image->stacks + 1) * sizeof *w.path);
    w.live = calloc((size_t)w.image->max_slots + 1, sizeof *w.live);
    w.names = names_new(job->symbols, w.image, err);
    if (!w.traces || !w.path || !w.live) {
        error_memory(err);
    } else if (w.names && !job_lines_open(job, &w.l, err)) {
        w.next_ns = w.image->start_ns + 1000000;
        heaptrack_put_head(&w);
        status = job_events(job, (uint32_t)index, w.names, heaptrack_add_batch, &w, err);
        if (!w.started)
            heaptrack_put_carried(&w);
        heaptrack_put_time(&w, w.image->end_ns);
    }
    names_free(w.names);
    strings_release(&w.strings);
    strings_release(&w.places);
    strings_release(&w.pairs);
    free(w.traces);
    free(w.path);
    free(w.live);
    return job_lines_close(job, status, err);
}
