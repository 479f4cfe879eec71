/* show.c - Formats the figures, frames and call sites of a store for text and JSON. The bytes of
 * one site's frames are bounded, because a store may be shared with other users. */
#include "fleet/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fleet/frame.h"
#include "fleet/store.h"

/* A site with more frames has the innermost and outermost of them in JSON. */
#define WHOLE_FRAMES 256u
#define END_FRAMES   64u
#define BYTES_MOST   ((size_t)256 << 20) /* the most for the frames of one site */

static const char *const metrics[FLEET_METRICS] = {"peak",      "end",   "allocated",
                                                   "temporary", "calls", "byte-seconds"};

const char *show_metric(enum metric by) { return metrics[by]; }

const char *show_figure(char room[HUMAN_TEXT_BYTES], uint64_t value, enum metric by)
{
    if (by == BY_TEMPORARY || by == BY_CALLS)
        return human_count(room, value);
    human_size(room, value);
    if (by == FLEET_BYTE_SECONDS)
        strcat(room, " s");
    return room;
}

uint64_t show_top(const struct fleet_question *q, uint64_t in_text)
{
    return q->top == FLEET_ALL ? 0 : q->top ? q->top : q->json ? SHOW_SITES_MOST : in_text;
}

int show_more(FILE *out, uint64_t count, const char *things)
{
    if (count)
        text_printf(out, "%s more %s\n", COUNT(count), things);
    return 0;
}

struct frames {         /* the frames of one site */
    struct buffer text; /* each with its NUL */
    size_t count;
};

static int add_frame(void *arg, const char *json, struct error *err)
{
    struct frames *f = arg;
    const size_t bytes = strlen(json) + 1;
    if (bytes > BYTES_MOST - f->text.size_bytes)
        return error_set(err, ERROR_FORMAT,
                         "the store is damaged: the frames of a call site take more than %zu MiB",
                         BYTES_MOST >> 20);
    buffer_append(&f->text, json, bytes);
    f->count++;
    return buffer_failed(&f->text) ? error_memory(err) : 0;
}

static int write_frame(struct json *j, const char *text, struct error *err)
{
    struct frame f;
    if (frame_parse(text, &f, err))
        return -1;
    json_open_object(j, NULL);
    json_text(j, "function", f.function);
    json_text(j, "file", f.file);
    json_signed(j, "line", f.line);
    json_text(j, "module", f.module);
    json_bool(j, "inlined", f.inlined);
    if (f.unnamed)
        json_bool(j, "unnamed", true);
    if (f.cut)
        json_bool(j, "cut", true);
    json_close_object(j);
    frame_release(&f);
    return 0;
}

int show_frames(struct json *j, struct fleet_store *store, uint64_t site, bool call_sites,
                struct error *err)
{
    uint64_t call_site;
    struct frames frames = {0};
    int status =
        store->engine->frames(store, site, call_sites, &call_site, add_frame, &frames, err);
    const char *text = buffer_text(&frames.text);
    /* A deep stack is shown by its two ends; the outer one begins no further out than the call
     * site. */
    const bool whole = frames.count <= WHOLE_FRAMES;
    size_t outer = whole ? END_FRAMES : frames.count - END_FRAMES, end = frames.count;
    if (call_site >= END_FRAMES && call_site < outer) {
        outer = (size_t)call_site;
        end = end - outer > WHOLE_FRAMES ? outer + WHOLE_FRAMES : end;
    }
    const size_t omitted = outer - END_FRAMES;
    json_open_array(j, "frames");
    for (size_t i = 0; i < frames.count && !status; i++, text += strlen(text) + 1)
        if (i < END_FRAMES || (i >= outer && i < end))
            status = write_frame(j, text, err);
    json_close_array(j);
    if (!status && omitted) {
        json_number(j, "omitted_frames", omitted);
        json_number(j, "omitted_after", END_FRAMES);
    }
    if (!status && end < frames.count)
        json_number(j, "omitted_outward", frames.count - end);
    if (!status)
        json_number(j, "call_site", call_site < END_FRAMES ? call_site : call_site - omitted);
    buffer_release(&frames.text);
    return status;
}

void show_sites_end(struct json *j, uint64_t total, uint64_t shown, const struct error *why)
{
    json_close_to(j, 1);
    if (why)
        json_text(j, "error", why->text);
    json_number(j, "sites_total", total);
    json_number(j, "sites_left_out", total - shown);
}

/* "function file:line" of a frame. */
static int frame_line(const char *text, struct buffer *line, struct error *err)
{
    struct frame f;
    if (frame_parse(text, &f, err))
        return -1;
    const char *slash = strrchr(f.file, '/');
    text_append_printf(line, "%s", f.function);
    if (*f.file && f.line)
        text_append_printf(line, "  %s:%" PRId64, slash ? slash + 1 : f.file, f.line);
    else if (*f.file)
        text_append_printf(line, "  %s", slash ? slash + 1 : f.file);
    else if (*f.module)
        text_append_printf(line, "  %s", f.module);
    frame_release(&f);
    return 0;
}

int show_call_site(struct fleet_store *store, uint64_t site, bool call_sites, struct buffer *line,
                   struct error *err)
{
    uint64_t call_site;
    struct frames frames = {0};
    int status =
        store->engine->frames(store, site, call_sites, &call_site, add_frame, &frames, err);
    const char *text = buffer_text(&frames.text);
    for (uint64_t i = 0; i < call_site && i + 1 < frames.count; i++)
        text += strlen(text) + 1;
    if (!status && frames.count)
        status = frame_line(text, line, err);
    else if (!status)
        buffer_append_text(line, "(no stack recorded)");
    buffer_release(&frames.text);
    return status;
}
