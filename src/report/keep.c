/* keep.c - the key of a report in the index: every option, so that none can be forgotten. */
#include "report/keep.h"

#include <stddef.h>

bool keep_is_plain(const struct report_options *o)
{
    return !selection_any(&o->select, SELECTION_TIME | SELECTION_BLOCKS) && !o->sources &&
           !o->suppressions && !o->at;
}

uint64_t keep_mix(uint64_t h, uint64_t v)
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

uint64_t keep_key(const struct report_options *o)
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
