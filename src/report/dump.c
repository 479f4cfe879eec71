/* dump.c - every event of every process, in the order of time, a line each.
 *
 * Images are merged through a heap keyed by the time of the next thing each has to say. A cursor is
 * open only while its process is alive, so memory grows with processes alive at one time. */
#include "report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmdline.h"
#include "base/lines.h"
#include "frames/names.h"
#include "frames/select.h"
#include "report/dump_event.h"
#include "report/dump_window.h"
#include "report/kernel.h"
#include "report/warnings.h"

enum side_kind {
    SIDE_START,
    SIDE_THREAD,
    SIDE_NOTE,
    SIDE_FAULT,
    SIDE_LEVEL,
    SIDE_MOMENT,
    SIDE_THREAD_END,
    SIDE_END
};

struct side { /* events beside the calls */
    uint64_t time_ns;
    uint32_t index; /* the index of the thread, the note, the fault, ... */
    uint8_t kind;   /* enum side_kind */
};

struct source { /* an image, from its start to its end */
    const struct trace_image *image;
    uint32_t index;
    struct trace_cursor *cursor; /* NULL: not begun, or read to the end */
    struct trace_batch batch;
    size_t at;
    struct side *sides;
    size_t side_count, side_at;
    struct names *names;
    struct dump_events events;
    struct image_filter filter;
    bool begun;
    uint64_t *live;      /* with windows, by slot: size of the block + 1; 0: it does not count */
    uint64_t live_bytes; /* the live bytes of these */
};

struct dump {
    struct trace *trace;
    struct symbols *symbols;
    const struct report_options *o;
    struct selection selection;
    struct source *sources;
    uint32_t *heap; /* indices of sources; the next one first */
    uint64_t *keys; /* by source: time of its next thing */
    size_t heap_count;
    bool json, filters; /* something is filtered */
    struct lines lines;
    struct dump_window window;
    uint64_t seen; /* calls that passed, with o->every */
};

unsigned report_dump_columns(void) { return TRACE_COL_ALL; }

static void key_number(struct dump *d, const char *key, uint64_t v)
{
    lines_put(&d->lines, key);
    lines_number(&d->lines, v, 0);
}

/* --- what happens beside the calls --- */

static const char *control_name(unsigned control)
{
    static const char *const names[] = {"mark",    "start", "stop", "pause",
                                        "unpause", "sync",  "reset"};
    return control < sizeof names / sizeof *names ? names[control] : "unknown control";
}

static void side_words(const struct source *s, const struct side *x, const char **kind,
                       struct buffer *text, uint32_t *tid)
{
    const struct trace_image *image = s->image;
    const struct trace_event_note *note;
    *tid = image->pid;
    switch (x->kind) {
    case SIDE_START:
        *kind = "process-start";
        cmdline_append(text, image->exe, image->command, false);
        break;
    case SIDE_THREAD:
    case SIDE_THREAD_END:
        *kind = x->kind == SIDE_THREAD ? "thread-start" : "thread-end";
        *tid = image->threads[x->index].tid;
        if (image->threads[x->index].name)
            buffer_append_text(text, image->threads[x->index].name);
        break;
    case SIDE_NOTE:
        note = &image->event_notes[x->index];
        *kind = control_name(note->control);
        if (note->thread < image->thread_count)
            *tid = image->threads[note->thread].tid;
        if (!note->control && note->label)
            buffer_append_text(text, note->label);
        else if (note->thread == UINT32_MAX)
            buffer_append_text(text, "from outside");
        break;
    default:
        *kind = "process-end";
        describe_end(image, text);
        break;
    }
}

/* How a line about something that is no call begins: up to its kind, which words may follow. */
static void side_start(struct dump *d, const struct source *s, const struct side *x, uint32_t tid,
                       const char *kind, bool words)
{
    if (d->json) {
        key_number(d, "{\"time_ns\":", x->time_ns);
        key_number(d, ",\"pid\":", s->image->pid);
        key_number(d, ",\"tid\":", tid);
        key_number(d, ",\"image\":", s->index);
        lines_put(&d->lines, ",\"kind\":\"");
        lines_put(&d->lines, kind);
        lines_put(&d->lines, "\"");
    } else {
        dump_seconds(&d->lines, x->time_ns);
        lines_number(&d->lines, s->image->pid, 8);
        lines_number(&d->lines, tid, 8);
        lines_put(&d->lines, "  -- ");
        lines_put(&d->lines, kind);
        lines_put(&d->lines, words ? ": " : "");
    }
}

static void kernel_side(struct dump *d, struct source *s, const struct side *x)
{
    const enum kernel_side what = x->kind == SIDE_FAULT   ? KERNEL_FAULT
                                  : x->kind == SIDE_LEVEL ? KERNEL_LEVEL
                                                          : KERNEL_MOMENT;
    struct buffer text = {0};
    uint32_t tid, stack;
    const char *kind = kernel_words(s->image, what, x->index, &text, &tid, &stack);
    side_start(d, s, x, tid, kind, text.size_bytes > 0);
    if (d->json) {
        buffer_clear(&text);
        kernel_fields(s->image, what, x->index, &text);
        lines_put(&d->lines, buffer_text(&text));
        if (stack && d->o->names) {
            lines_put(&d->lines, ",\"frames\":[");
            dump_names(&d->lines, s->names, stack, true);
            lines_put(&d->lines, "]");
        }
        lines_put(&d->lines, "}\n");
    } else {
        lines_put(&d->lines, buffer_text(&text));
        if (stack && d->o->names)
            dump_names(&d->lines, s->names, stack, false);
        else if (stack) {
            lines_put(&d->lines, "  stack ");
            lines_number(&d->lines, stack, 0);
        }
        lines_put(&d->lines, "\n");
    }
    buffer_release(&text);
}

static void side(struct dump *d, struct source *s, const struct side *x)
{
    if (x->kind == SIDE_FAULT || x->kind == SIDE_LEVEL || x->kind == SIDE_MOMENT) {
        kernel_side(d, s, x);
        return;
    }
    const char *kind = "";
    struct buffer text = {0};
    uint32_t tid;
    side_words(s, x, &kind, &text, &tid);
    side_start(d, s, x, tid, kind, text.size_bytes > 0);
    if (d->json) {
        lines_put(&d->lines, ",\"text\":");
        lines_quoted(&d->lines, buffer_text(&text));
        lines_put(&d->lines, "}\n");
    } else {
        lines_harmless(&d->lines, buffer_text(&text));
        lines_put(&d->lines, "\n");
    }
    buffer_release(&text);
}

/* --- order --- */

static bool earlier(const struct dump *d, uint32_t a, uint32_t b)
{
    return d->keys[a] != d->keys[b] ? d->keys[a] < d->keys[b] : a < b;
}

static void sift(struct dump *d, size_t i)
{
    for (;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < d->heap_count && earlier(d, d->heap[left], d->heap[least]))
            least = left;
        if (right < d->heap_count && earlier(d, d->heap[right], d->heap[least]))
            least = right;
        if (least == i)
            return;
        uint32_t swap = d->heap[i];
        d->heap[i] = d->heap[least];
        d->heap[least] = swap;
        i = least;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct side *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Opens the image: its side events, its cursor. */
static int begin(struct dump *d, struct source *s, struct error *err)
{
    const struct trace_image *image = s->image;
    s->begun = true;
    s->sides = calloc((size_t)image->thread_count * 2 + image->note_count + image->fault_count +
                          image->level_count + image->moment_count + 2,
                      sizeof *s->sides);
    s->names = names_new(d->symbols, image, err);
    if (d->window.width_ns)
        s->live = calloc((size_t)image->max_slots + 1, sizeof *s->live);
    if (!s->sides || !s->names || (d->window.width_ns && !s->live))
        return error_memory(err);
    s->sides[s->side_count++] = (struct side){image->start_ns, 0, SIDE_START};
    for (uint32_t i = 0; i < image->thread_count; i++) {
        const struct trace_thread *t = &image->threads[i];
        s->sides[s->side_count++] = (struct side){t->start_ns, i, SIDE_THREAD};
        if (t->ended)
            s->sides[s->side_count++] = (struct side){t->end_ns, i, SIDE_THREAD_END};
    }
    for (uint32_t i = 0; i < image->note_count; i++)
        s->sides[s->side_count++] = (struct side){image->event_notes[i].time_ns, i, SIDE_NOTE};
    for (uint32_t i = 0; i < image->fault_count; i++)
        s->sides[s->side_count++] = (struct side){image->faults[i].time_ns, i, SIDE_FAULT};
    for (uint32_t i = 0; i < image->level_count; i++)
        s->sides[s->side_count++] = (struct side){image->levels[i].time_ns, i, SIDE_LEVEL};
    for (uint32_t i = 0; i < image->moment_count; i++)
        s->sides[s->side_count++] = (struct side){image->moments[i].time_ns, i, SIDE_MOMENT};
    qsort(s->sides, s->side_count, sizeof *s->sides, by_time);
    s->sides[s->side_count++] = (struct side){image->end_ns, 0, SIDE_END};
    dump_events_begin(&s->events, &d->lines, image, s->index, d->o->names ? s->names : NULL,
                      d->json);
    if (selection_resolve(&d->selection, image, s->names, &s->filter, err))
        return -1;
    s->cursor = trace_cursor_open(d->trace, s->index, err);
    return s->cursor ? 0 : -1;
}

static void end(struct source *s)
{
    trace_cursor_close(s->cursor);
    s->cursor = NULL;
    names_free(s->names);
    s->names = NULL;
    selection_release(&s->filter);
    free(s->sides);
    s->sides = NULL;
    free(s->live);
    s->live = NULL;
}

/* Makes sure that batch[at] is the next event, if there is one. */
static int refill(struct source *s, struct error *err)
{
    while (s->cursor && s->at >= s->batch.n) {
        int more = trace_cursor_next(s->cursor, &s->batch, err);
        s->at = 0;
        if (more > 0)
            continue;
        s->batch.n = 0;
        trace_cursor_close(s->cursor);
        s->cursor = NULL;
        if (more < 0)
            return -1;
    }
    return 0;
}

static bool time_passes(const struct source *s, size_t i)
{
    const struct model_filter *f = &s->filter.filter;
    return s->batch.time_ns[i] >= f->from_ns && (!f->to_ns || s->batch.time_ns[i] < f->to_ns);
}

static bool call_passes(const struct source *s, size_t i)
{
    const struct model_filter *f = &s->filter.filter;
    const struct trace_batch *b = &s->batch;
    const bool sized = b->size[i] || b->kind[i] == TRACE_ALLOC;
    return (!(f->min_bytes || f->below_bytes) ||
            (sized && b->size[i] >= f->min_bytes &&
             (!f->below_bytes || b->size[i] < f->below_bytes))) &&
           (!f->thread_pass || f->thread_pass[b->thread[i]]) &&
           (!f->stack_pass || (b->stack[i] && f->stack_pass[b->stack[i]]));
}

/* The event as part of a window: blocks of before the range of time are live in it. The release of
 * a block that does not count is no record of the window. */
static void event_window(struct dump *d, struct source *s, size_t i)
{
    const struct trace_batch *b = &s->batch;
    const uint32_t slot = b->slot[i] < s->image->max_slots ? b->slot[i] : TRACE_NO_SLOT;
    const bool made = b->kind[i] == TRACE_ALLOC;
    bool passes = call_passes(s, i);
    if (s->filter.filter.to_ns && b->time_ns[i] >= s->filter.filter.to_ns)
        return;
    if (slot != TRACE_NO_SLOT && s->live[slot]) {
        s->live_bytes -= s->live[slot] - 1;
        d->window.live_bytes -= s->live[slot] - 1;
        s->live[slot] = 0;
        passes = true;
    }
    if (slot != TRACE_NO_SLOT && made && passes) {
        s->live[slot] = b->size[i] + 1;
        s->live_bytes += b->size[i];
        d->window.live_bytes += b->size[i];
    }
    if (passes && time_passes(s, i)) {
        const unsigned class = mlw_op_class(b->op[i]);
        dump_window_add(&d->window, &d->lines, b->time_ns[i], made, b->size[i],
                        class != MLW_CLASS_RESIZE_OLD && class != MLW_CLASS_REMAP_OLD);
    }
}

static void put_event(struct dump *d, struct source *s, size_t i)
{
    if (d->window.width_ns) {
        event_window(d, s, i);
        return;
    }
    if ((d->filters && !(time_passes(s, i) && call_passes(s, i))) ||
        (d->o->every && d->seen++ % d->o->every))
        return;
    dump_event(&s->events, &s->batch, i);
}

static bool side_passes(const struct dump *d, const struct source *s, const struct side *x)
{
    const struct model_filter *f = &s->filter.filter;
    const struct report_options *o = d->o;
    if (d->window.width_ns || x->time_ns < f->from_ns || (f->to_ns && x->time_ns >= f->to_ns))
        return false;
    return !o->select.min_bytes && !o->select.below_bytes && !f->stack_pass && !f->thread_pass;
}

/* Says what the source has to say until another one is earlier. Returns 1 when it is at its end. */
static int speak(struct dump *d, struct source *s, uint64_t until_ns, struct error *err)
{
    for (;;) {
        if (refill(s, err))
            return -1;
        bool event = s->at < s->batch.n;
        uint64_t event_ns = event ? s->batch.time_ns[s->at] : UINT64_MAX;
        const struct side *x = s->side_at < s->side_count ? &s->sides[s->side_at] : NULL;
        /* the end of the process comes after its last event, whatever the clocks say */
        bool side_first = x && (!event || (x->kind != SIDE_END && x->time_ns <= event_ns));
        if (!event && !x)
            return 1;
        uint64_t next_ns = side_first ? x->time_ns : event_ns;
        if (next_ns > until_ns) {
            d->keys[s->index] = next_ns;
            return 0;
        }
        if (side_first) {
            if (side_passes(d, s, x))
                side(d, s, x);
            s->side_at++;
            continue;
        }
        const struct trace_batch *b = &s->batch;
        const uint64_t side_ns = x && x->kind != SIDE_END ? x->time_ns : UINT64_MAX;
        for (; s->at < b->n && b->time_ns[s->at] <= until_ns && b->time_ns[s->at] < side_ns;
             s->at++) {
            if (b->thread[s->at] >= s->image->thread_count || b->stack[s->at] > s->image->stacks ||
                b->kind[s->at] > TRACE_OTHER)
                return error_set(err, ERROR_FORMAT,
                                 "event %llu of process %u makes no sense: a thread, stack or kind "
                                 "that does not exist",
                                 (unsigned long long)(b->first_event + s->at), s->image->pid);
            put_event(d, s, s->at);
        }
        if (lines_failed(&d->lines))
            return error_system(err, "cannot write");
    }
}

static int merge(struct dump *d, struct error *err)
{
    while (d->heap_count) {
        struct source *s = &d->sources[d->heap[0]];
        uint64_t until_ns = UINT64_MAX;
        for (size_t i = 1; i <= 2 && i < d->heap_count; i++)
            if (d->keys[d->heap[i]] < until_ns)
                until_ns = d->keys[d->heap[i]];
        int done = 0;
        if (!s->begun)
            done = begin(d, s, err);
        if (!done)
            done = speak(d, s, until_ns, err);
        if (done < 0)
            return -1;
        if (done) {
            d->window.live_bytes -= s->live_bytes; /* they went with the process */
            end(s);
            d->heap[0] = d->heap[--d->heap_count];
        }
        sift(d, 0);
    }
    return 0;
}

int report_dump(FILE *out, struct trace *t, struct symbols *symbols, const struct report_options *o,
                bool json, struct error *err)
{
    const struct trace_info *info = trace_info(t);
    struct dump *d = calloc(1, sizeof *d);
    int status = -1;
    if (!d)
        return error_memory(err);
    d->trace = t;
    d->symbols = symbols;
    d->o = o;
    d->json = json;
    d->window.width_ns = o->window_ns;
    d->window.json = json;
    if (lines_open(&d->lines, out, o->threads)) {
        free(d);
        return error_memory(err);
    }
    if (selection_open(&d->selection, &o->select, info, err)) {
        lines_close(&d->lines);
        free(d);
        return -1;
    }
    d->filters = selection_filters(&d->selection);
    d->sources = calloc((size_t)info->image_count + 1, sizeof *d->sources);
    d->heap = calloc((size_t)info->image_count + 1, sizeof *d->heap);
    d->keys = calloc((size_t)info->image_count + 1, sizeof *d->keys);
    if (!d->sources || !d->heap || !d->keys) {
        error_memory(err);
    } else {
        for (uint32_t i = 0; i < info->image_count; i++) {
            d->sources[i].image = &info->images[i];
            d->sources[i].index = i;
            d->keys[i] = info->images[i].start_ns;
            if (selection_has_image(&d->selection, &info->images[i]))
                d->heap[d->heap_count++] = i;
        }
        for (size_t i = d->heap_count; i-- > 0;)
            sift(d, i);
        if (o->window_ns)
            dump_window_title(&d->window, &d->lines);
        status = merge(d, err);
        dump_window_end(&d->window, &d->lines);
        for (uint32_t i = 0; i < info->image_count; i++)
            end(&d->sources[i]);
    }
    lines_close(&d->lines);
    if (!status && lines_failed(&d->lines))
        status = error_system(err, "cannot write");
    selection_close(&d->selection);
    free(d->sources);
    free(d->heap);
    free(d->keys);
    free(d);
    return status;
}
