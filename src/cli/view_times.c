/* view_times.c - a range of time whose sides are names of marks. */
#include <string.h>

#include "base/buffer.h"
#include "base/human.h"
#include "cli/view.h"

#define MARK_PREFIX "mark:" /* for a mark whose name reads like a time */

struct times {
    const struct trace_info *info;
    uint32_t pid; /* 0: all */
};

/* The first mark of this name (n bytes) at or after `least`; UINT64_MAX: none. */
static uint64_t find_mark(const struct times *t, const char *label, size_t n, uint64_t least)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < t->info->image_count; i++) {
        const struct trace_image *image = &t->info->images[i];
        for (uint32_t k = 0; k < image->note_count; k++) {
            const struct trace_event_note *note = &image->event_notes[k];
            if (!note->control && note->label && !strncmp(note->label, label, n) &&
                !note->label[n] && note->time_ns >= least && note->time_ns < first &&
                (!t->pid || image->pid == t->pid))
                first = note->time_ns;
        }
    }
    return first;
}

/* A side of the range, n bytes: a mark, or a duration. */
static bool parse_range_side(const struct times *t, const char *text, size_t n, uint64_t least,
                             uint64_t *ns)
{
    const size_t prefix = sizeof MARK_PREFIX - 1;
    const bool marked = n > prefix && !strncmp(text, MARK_PREFIX, prefix);
    char duration[64];
    if (!n)
        return true;
    if (!marked && n < sizeof duration) {
        memcpy(duration, text, n);
        duration[n] = 0;
        if (human_parse_duration(duration, ns))
            return true;
    }
    *ns = marked ? find_mark(t, text + prefix, n - prefix, least) : find_mark(t, text, n, least);
    return *ns != UINT64_MAX;
}

/* Names of marks, as many as fit a line. */
static void list_marks(const struct times *t, struct buffer *b)
{
    for (uint32_t i = 0; i < t->info->image_count; i++) {
        const struct trace_image *image = &t->info->images[i];
        for (uint32_t k = 0; k < image->note_count && b->size_bytes < 200; k++) {
            const struct trace_event_note *note = &image->event_notes[k];
            if (!note->control && note->label && (!t->pid || image->pid == t->pid))
                buffer_printf(b, "%s'%s'", b->size_bytes ? ", " : "", note->label);
        }
    }
}

int view_times(const struct view_options *v, const struct trace *trace, struct report_options *o,
               struct error *err)
{
    const struct times t = {trace_info(trace), (uint32_t)v->pid};
    const char *text = v->time.text;
    if (!v->time.marks)
        return 0;
    /* A name may hold dots, too. */
    for (const char *dots = strstr(text, ".."); dots; dots = strstr(dots + 1, "..")) {
        uint64_t from = 0, to = UINT64_MAX;
        if (parse_range_side(&t, text, (size_t)(dots - text), 0, &from) &&
            parse_range_side(&t, dots + 2, strlen(dots + 2), from, &to) && from <= to) {
            o->select.from_ns = from;
            o->select.to_ns = to == UINT64_MAX ? 0 : to + 1;
            return 0;
        }
    }
    struct buffer known = {0};
    list_marks(&t, &known);
    error_set(err, ERROR_USAGE,
              "--time: '%s' is neither a range of time such as 1s..2.5s nor one between marks; the "
              "recording has %s%s",
              text, known.size_bytes ? "the marks " : "no marks", buffer_text(&known));
    buffer_release(&known);
    return -1;
}
