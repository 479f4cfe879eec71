/* recorded.c - Reads the events of one process from a recording up to a moment, and sorts the
 * blocks that lived then by address. It checks that events refer to existing blocks and stacks. */
#include "heap/recorded.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "heap/sampled.h"
#include "heap/spill.h"

enum {
    COLUMNS =
        TRACE_COL_ADDRESS | TRACE_COL_SIZE | TRACE_COL_USABLE | TRACE_COL_STACK | TRACE_COL_TIME
};

/* The last program that this process was: what an exec replaced has no memory any more. */
static int choose(struct heap_recorded *r, const struct trace_info *info, uint32_t pid,
                  struct error *err)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < info->image_count; i++)
        if (pid ? info->images[i].pid == pid : info->image_count == 1)
            found = i;
    if (found == UINT32_MAX && pid)
        return error_set(err, ERROR_UNSUPPORTED, "the recording has no process %" PRIu32, pid);
    if (found == UINT32_MAX)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the core has no process id, and the recording has several processes");
    r->image = &info->images[found];
    r->image_number = found;
    return 0;
}

static int add_batch(struct heap_recorded *r, size_t *room, const struct trace_batch *b,
                     uint64_t until_ns, struct error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        uint32_t slot = b->slot[i];
        if (b->time_ns[i] > until_ns)
            return 0;
        if (slot == TRACE_NO_SLOT)
            continue;
        if (slot >= r->image->max_slots || b->stack[i] > r->image->stacks)
            return error_set(err, ERROR_FORMAT, "an event of a block or stack that does not exist");
        if (slot >= *room) {
            size_t more = *room ? *room : 1024;
            while (more <= slot)
                more *= 2;
            struct recorded_block *at = spill_grow(r->at, *room * sizeof *at, more * sizeof *at);
            if (!at)
                return error_memory(err);
            memset(at + *room, 0, (more - *room) * sizeof *at);
            r->at = at;
            *room = more;
        }
        r->at[slot] = (struct recorded_block){0};
        if (b->kind[i] == TRACE_ALLOC)
            r->at[slot] = (struct recorded_block){.address = b->address[i],
                                                  .bytes = b->usable[i] > b->size[i] ? b->usable[i]
                                                                                     : b->size[i],
                                                  .born_ns = b->time_ns[i],
                                                  .stack = b->stack[i]};
        if (b->time_ns[i] > r->now_ns)
            r->now_ns = b->time_ns[i];
    }
    return 1;
}

static int by_address(const void *a, const void *b)
{
    const struct recorded_block *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Without the slots that hold nothing. */
static void sort(struct heap_recorded *r, size_t room)
{
    for (size_t i = 0; i < room; i++)
        if (r->at[i].address)
            r->at[r->count++] = r->at[i];
    if (r->count > 1)
        qsort(r->at, r->count, sizeof *r->at, by_address);
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++)
        if (!kept || r->at[kept - 1].address != r->at[i].address)
            r->at[kept++] = r->at[i];
    r->count = kept;
}

int recorded_read(struct heap_recorded *r, struct trace *t, uint32_t pid, uint64_t until_ns,
                  struct error *err)
{
    *r = (struct heap_recorded){0};
    if (choose(r, trace_info(t), pid, err))
        return -1;
    struct trace_cursor *c = trace_cursor_open_columns(t, r->image_number, COLUMNS, err);
    if (!c)
        return -1;
    size_t room = 0;
    struct trace_batch b;
    int status;
    while ((status = trace_cursor_next(c, &b, err)) == 1)
        if ((status = add_batch(r, &room, &b, until_ns, err)) != 1)
            break;
    trace_cursor_close(c);
    if (status < 0) {
        recorded_release(r);
        return -1;
    }
    sort(r, room);
    if (until_ns != UINT64_MAX)
        r->now_ns = until_ns;
    return 0;
}

void recorded_release(struct heap_recorded *r)
{
    spill_free(r->at);
    *r = (struct heap_recorded){0};
}

const struct recorded_block *recorded_find(const struct heap_recorded *r, uint64_t address)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->at[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->count && r->at[low].address == address ? &r->at[low] : NULL;
}

int recorded_sampled(struct heap_recorded *r, const struct heap_sampled *s)
{
    *r = (struct heap_recorded){.image = s->image};
    r->at = spill_zeros(s->count + 1, sizeof *r->at);
    if (!r->at)
        return -1;
    for (size_t i = 0; i < s->count; i++)
        r->now_ns = s->at[i].age_ns > r->now_ns ? s->at[i].age_ns : r->now_ns;
    for (size_t i = 0; i < s->count; i++)
        r->at[r->count++] = (struct recorded_block){.address = s->at[i].address,
                                                    .bytes = s->at[i].bytes,
                                                    .born_ns = r->now_ns - s->at[i].age_ns,
                                                    .stack = s->at[i].stack};
    if (r->count > 1)
        qsort(r->at, r->count, sizeof *r->at, by_address);
    return 0;
}
