/* lives.c - Reads the events of an image and calls back once for each block, with its beginning
 * and end. Slots of the recording pair a release with its allocation. */
#include "fleet/lives.h"

#include <stdlib.h>

struct lives {
    struct lives_block *slots; /* [count] */
    bool *live;
    uint32_t count;
    uint64_t number;
    lives_fn *block;
    void *arg;
};

static int ended(struct lives *l, uint32_t slot, const struct trace_batch *b, size_t i,
                 struct error *err)
{
    if (slot >= l->count || !l->live[slot])
        return 0;
    struct lives_block *at = &l->slots[slot];
    const bool call = b->kind[i] != TRACE_FREE_INFERRED;
    at->number = ++l->number;
    at->freed = true;
    at->freed_ns = b->time_ns[i];
    at->freed_by = call ? b->thread[i] : UINT32_MAX;
    at->temporary = b->kind[i] == TRACE_FREE_TEMP;
    l->live[slot] = false;
    return l->block(l->arg, at, err);
}

static int add_batch(struct lives *l, const struct trace_batch *b, struct error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        if (b->kind[i] == TRACE_ALLOC && slot < l->count) {
            l->live[slot] = true;
            l->slots[slot] = (struct lives_block){.size_bytes = b->size[i],
                                                  .address = b->address[i],
                                                  .allocated_ns = b->time_ns[i],
                                                  .stack = b->stack[i],
                                                  .thread = b->thread[i],
                                                  .freed_by = UINT32_MAX};
        } else if (b->kind[i] == TRACE_FREE || b->kind[i] == TRACE_FREE_TEMP ||
                   b->kind[i] == TRACE_FREE_INFERRED) {
            if (ended(l, slot, b, i, err))
                return -1;
        }
    }
    return 0;
}

static int read_all(struct lives *l, struct trace_cursor *c, struct error *err)
{
    struct trace_batch batch;
    int more;
    while ((more = trace_cursor_next(c, &batch, err)) > 0)
        if (add_batch(l, &batch, err))
            return -1;
    for (uint32_t i = 0; i < l->count && !more; i++)
        if (l->live[i]) {
            l->slots[i].number = ++l->number;
            if (l->block(l->arg, &l->slots[i], err))
                return -1;
        }
    return more;
}

int lives_read(struct trace *t, uint32_t image, lives_fn *block, void *arg, struct error *err)
{
    struct lives l = {.count = trace_info(t)->images[image].max_slots, .block = block, .arg = arg};
    l.slots = calloc((size_t)l.count + 1, sizeof *l.slots);
    l.live = calloc((size_t)l.count + 1, sizeof *l.live);
    int status = l.slots && l.live ? 0 : error_memory(err);
    struct trace_cursor *c =
        status ? NULL
               : trace_cursor_open_columns(t, image,
                                           TRACE_COL_THREAD | TRACE_COL_SIZE | TRACE_COL_STACK |
                                               TRACE_COL_TIME | TRACE_COL_ADDRESS,
                                           err);
    status = c ? read_all(&l, c, err) : -1;
    trace_cursor_close(c);
    free(l.slots);
    free(l.live);
    return status;
}
