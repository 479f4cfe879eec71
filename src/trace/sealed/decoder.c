/* decoder.c - Decodes batches of a cursor in a thread ahead of the caller. Each part of the ring
 * has arrays of its own, which the cursor uses while it fills the part. Damage is reported with
 * the batch behind which it lies, as without the thread. */
#include "decoder.h"

#include "base/ring.h"
#include "cursor_impl.h"

struct part {
    struct arrays a, b; /* the cursor's while it fills this part */
    struct cursor_found found;
    struct trace_batch batch;
    struct error err;
    int status; /* the status of cursor_decode */
};

struct decoder {
    struct cursor *cursor;
    struct ring *ring;
    bool over;
    struct part parts[DECODER_PARTS];
};

static void exchange(struct cursor *c, struct part *p)
{
    const struct arrays a = c->a, b = c->b;
    const struct cursor_found found = c->found;
    c->a = p->a;
    c->b = p->b;
    c->found = p->found;
    p->a = a;
    p->b = b;
    p->found = found;
}

/* Decodes a batch into the part. */
static int fill_batch_part(void *arg, unsigned part)
{
    struct decoder *d = arg;
    struct cursor *c = d->cursor;
    struct part *p = &d->parts[part];
    exchange(c, p);
    c->found.count = 0;
    /* Behind damage a cursor needs the second arrays; it made only those that it had then. */
    if (c->degraded && !c->b.kind && !cursor_arrays_make(&c->b, CURSOR_DEGRADED_ENTRIES))
        p->status = no_memory(&p->err);
    else
        p->status = cursor_decode(c, &p->batch, &p->err);
    exchange(c, p);
    return p->status > 0;
}

static void parts_free(struct decoder *d)
{
    for (unsigned i = 0; i < DECODER_PARTS; i++) {
        cursor_arrays_free(&d->parts[i].a);
        cursor_arrays_free(&d->parts[i].b);
        free(d->parts[i].found.items);
    }
    free(d);
}

static bool help(void *arg)
{
    const struct decoder *d = arg;
    return cursor_help(d->cursor);
}

struct decoder *decoder_open(struct cursor *c)
{
    struct decoder *d = c->found.failed ? NULL : calloc(1, sizeof *d);
    if (!d) /* or the caller, who reads by itself, will find what failed */
        return NULL;
    d->cursor = c;
    for (unsigned i = 0; i < DECODER_PARTS; i++)
        if (!cursor_arrays_make(&d->parts[i].a, CURSOR_ENTRIES)) {
            parts_free(d);
            return NULL;
        }
    if (!(d->ring = ring_open(DECODER_PARTS, fill_batch_part, help, d))) {
        parts_free(d);
        return NULL;
    }
    return d;
}

int decoder_next(struct decoder *d, struct trace_batch *batch, struct error *err)
{
    if (d->over)
        return 0;
    struct part *p = &d->parts[ring_next(d->ring)];
    cursor_settle(d->cursor, &p->found);
    if (p->status > 0)
        *batch = p->batch;
    else
        d->over = true;
    if (p->status < 0)
        *err = p->err;
    return p->status;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    ring_close(d->ring);
    parts_free(d);
}
