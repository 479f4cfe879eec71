/* keep.c - reads and writes the blocks of the page in the index. */
#include "page/keep.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

enum { COLUMN_FACTS = 2, COLUMN_PROCESS = 3, COLUMN_MOMENTS = 4 };
enum { FACT_NAMES, FACT_MOMENTS, FACTS };

/* No filter is on, and no file but the recording is read. */
static bool keep_is_plain(const struct report_options *o)
{
    return !selection_any(&o->select, SELECTION_TIME | SELECTION_BLOCKS) && !o->sources &&
           !o->suppressions && !o->at;
}

static uint64_t keep_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    for (const char *s = text; s && *s; s++)
        h = keep_mix(h, (uint8_t)*s);
    return keep_mix(h, text ? 256 : 257);
}

/* ---- the options ---- */

enum key_kind { KEY_NUMBER, KEY_TEXT, KEY_PATTERNS, KEY_LEFT_OUT };

struct key_field {
    enum key_kind kind;
    size_t offset, bytes;
};

#define FIELD(kind, field)                                                                         \
    {                                                                                              \
        kind, offsetof(struct report_options, field),                                              \
            sizeof(((struct report_options *)NULL)->field)                                         \
    }

/* Each field of struct report_options and of the structs in it: tests/house/keyed.py compares. Left
 * out is only how fast a report comes, who hears of it, and places for results. */
static const struct key_field fields[] = {
    FIELD(KEY_NUMBER, select.pid),
    FIELD(KEY_NUMBER, select.from_ns),
    FIELD(KEY_NUMBER, select.to_ns),
    FIELD(KEY_NUMBER, select.min_bytes),
    FIELD(KEY_NUMBER, select.below_bytes),
    FIELD(KEY_NUMBER, select.min_lifetime_ns),
    FIELD(KEY_NUMBER, select.only_new),
    FIELD(KEY_TEXT, select.thread),
    FIELD(KEY_TEXT, select.function),
    FIELD(KEY_TEXT, select.module),
    FIELD(KEY_TEXT, select.source),
    FIELD(KEY_TEXT, suppressions),
    FIELD(KEY_TEXT, at),
    FIELD(KEY_NUMBER, by),
    FIELD(KEY_NUMBER, by_given),
    FIELD(KEY_NUMBER, top),
    FIELD(KEY_NUMBER, depth),
    FIELD(KEY_NUMBER, all_frames),
    FIELD(KEY_NUMBER, frame_table),
    FIELD(KEY_NUMBER, heap),
    FIELD(KEY_NUMBER, names),
    FIELD(KEY_NUMBER, every),
    FIELD(KEY_LEFT_OUT, threads),
    FIELD(KEY_NUMBER, window_ns),
    FIELD(KEY_TEXT, sources),
    FIELD(KEY_NUMBER, look.full_names),
    FIELD(KEY_NUMBER, look.start_frames),
    FIELD(KEY_TEXT, look.source_root),
    FIELD(KEY_PATTERNS, look.alloc_fns),
    FIELD(KEY_NUMBER, look.alloc_fn_count),
    FIELD(KEY_NUMBER, columns),
    FIELD(KEY_NUMBER, unicode),
    FIELD(KEY_NUMBER, bold),
    FIELD(KEY_NUMBER, plots),
    FIELD(KEY_NUMBER, numbers),
    FIELD(KEY_LEFT_OUT, gate),
    FIELD(KEY_LEFT_OUT, progress),
    FIELD(KEY_LEFT_OUT, progress_arg),
};

static uint64_t mix_number(uint64_t h, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = keep_mix(h, bytes[i]);
    return h;
}

/* Differs when any option differs that a report can depend on. */
static uint64_t keep_key(const struct report_options *o)
{
    uint64_t h = 1;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct key_field *f = &fields[i];
        const void *at = (const char *)o + f->offset;
        switch (f->kind) {
        case KEY_NUMBER: h = mix_number(h, at, f->bytes); break;
        case KEY_TEXT: h = mix_text(h, *(const char *const *)at); break;
        case KEY_PATTERNS:
            for (size_t k = 0; k < o->look.alloc_fn_count; k++)
                h = mix_text(h, o->look.alloc_fns[k].text);
            break;
        case KEY_LEFT_OUT: break;
        }
    }
    return h;
}

/* ---- the blocks ---- */

/* All that the blocks depend on besides names and the recording. */
static uint64_t page_key(const struct report_options *o, const struct html_room *room)
{
    const uint64_t of_options = keep_mix(keep_key(o), room->share_bytes);
    return keep_mix(keep_mix(of_options, room->most_bytes), room->must_fit);
}

/* The digest of the names of all frames. They are looked up apart: in which order frames were first
 * met says which come first among equals. False without memory. */
static bool digest_of(const struct names *names, uint64_t *digest)
{
    struct error ignored;
    struct names *apart = names_again(names, &ignored);
    if (apart)
        *digest = names_digest(apart);
    const bool known = apart && !names_failed(apart);
    names_free(apart);
    return known;
}

static bool take_block(struct trace_kept *k, unsigned column, size_t most, struct html_block *block)
{
    const uint64_t n = trace_kept_count(k, column);
    const uint8_t *data = n && n <= most ? trace_kept_bytes(k, column) : NULL;
    return data && html_block_copy(block, data, (size_t)n) && block->page_bytes <= most;
}

bool html_kept(struct trace *t, uint32_t image, const struct names *names,
               const struct report_options *o, const struct html_room *room,
               struct html_block *process, struct html_block *moments)
{
    struct trace_kept *k =
        keep_is_plain(o) ? trace_kept_find(t, image, TRACE_KEPT_PAGE, page_key(o, room)) : NULL;
    uint64_t facts[FACTS], digest;
    if (!k)
        return false;
    const bool fits =
        trace_kept_numbers(k, COLUMN_FACTS, facts, FACTS) && digest_of(names, &digest) &&
        digest == facts[FACT_NAMES] && take_block(k, COLUMN_PROCESS, room->most_bytes, process) &&
        (!facts[FACT_MOMENTS] || take_block(k, COLUMN_MOMENTS, room->share_bytes, moments));
    if (!fits) {
        html_block_release(process);
        html_block_release(moments);
    }
    trace_kept_close(k);
    return fits;
}

void html_keep(struct trace *t, uint32_t image, const struct names *names,
               const struct report_options *o, const struct html_room *room,
               const struct html_block *process, const struct html_block *moments)
{
    struct trace_kept *k =
        keep_is_plain(o) ? trace_kept_new(t, image, TRACE_KEPT_PAGE, page_key(o, room)) : NULL;
    uint64_t facts[FACTS] = {[FACT_MOMENTS] = moments != NULL};
    if (!k)
        return;
    if (!digest_of(names, &facts[FACT_NAMES])) {
        trace_kept_drop(k);
        return;
    }
    trace_kept_put_numbers(k, COLUMN_FACTS, facts, FACTS);
    trace_kept_put_bytes(k, COLUMN_PROCESS, process->data, process->data_bytes);
    if (moments)
        trace_kept_put_bytes(k, COLUMN_MOMENTS, moments->data, moments->data_bytes);
    trace_kept_keep(t, k);
}
