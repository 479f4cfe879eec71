/* every.h - all batches of a recording: image by image, each in time order.
 *
 * struct every e = {.trace = t}; while (every_next(&e, &batch, &err) > 0) ...
 * every_rewind starts again, and frees what is held; it must be the last call. */
#ifndef MALLOW_TESTS_EVERY_H
#define MALLOW_TESTS_EVERY_H

#include "trace/trace.h"

struct every {
    struct trace *trace;
    struct trace_cursor *cursor;
    uint32_t image;
};

static inline void every_rewind(struct every *e)
{
    trace_cursor_close(e->cursor);
    e->cursor = NULL;
    e->image = 0;
}

/* 1 with *batch set, which holds until the next call; 0 at the end; -1 with *err. */
static inline int every_next(struct every *e, struct trace_batch *batch, struct error *err)
{
    while (e->image < trace_info(e->trace)->image_count) {
        if (!e->cursor && !(e->cursor = trace_cursor_open(e->trace, e->image, err)))
            return -1;
        const int k = trace_cursor_next(e->cursor, batch, err);
        if (k)
            return k;
        trace_cursor_close(e->cursor);
        e->cursor = NULL;
        e->image++;
    }
    return 0;
}

#endif
