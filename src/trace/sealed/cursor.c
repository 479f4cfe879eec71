/* cursor.c - from block to block of an image: which is next, whether it is sound, what reading
 * finds out about it. */
#include "cursor_impl.h"

#include "base/array.h"
#include "base/invariant.h"

bool cursor_arrays_make(struct arrays *a, size_t n)
{
    a->kind = malloc(n);
    a->op = malloc(n);
    a->path = calloc(n, 1);
    a->route = calloc(n, 1);
    a->slot = malloc(n * 4);
    a->thread = calloc(n, 4);
    a->stack = malloc(n * 4);
    a->size = malloc(n * 8);
    a->time = malloc(n * 8);
    a->address = calloc(n, 8);
    a->usable = malloc(n * 8);
    a->argument = calloc(n, 8);
    a->begun_stack = malloc(n * 4);
    a->begun_size = malloc(n * 8);
    a->begun_usable = malloc(n * 8);
    a->begun_address = malloc(n * 8);
    a->argued = false;
    return a->kind && a->op && a->path && a->route && a->slot && a->thread && a->stack && a->size &&
           a->time && a->address && a->usable && a->argument && a->begun_stack && a->begun_size &&
           a->begun_usable && a->begun_address;
}

void cursor_arrays_free(struct arrays *a)
{
    free(a->kind);
    free(a->op);
    free(a->path);
    free(a->route);
    free(a->slot);
    free(a->thread);
    free(a->stack);
    free(a->size);
    free(a->time);
    free(a->address);
    free(a->usable);
    free(a->argument);
    free(a->begun_stack);
    free(a->begun_size);
    free(a->begun_usable);
    free(a->begun_address);
}

/* ---- loading ---- */

static void load_cursor_block(void *arg, uint64_t number, unsigned place)
{
    struct cursor *c = arg;
    loaded_read(&c->places[place], c->store, c->image, &c->detail->blocks[number], c->columns);
}

/* Those up to the first that begins behind the time that is asked for. */
static uint64_t count_cursor_blocks(const struct cursor *c)
{
    const struct store_image *d = c->detail;
    size_t n = 0;
    while (n < d->block_count &&
           !(c->to_ns && tick_to_ns(d->blocks[n].first_tick, d->tick_ns) > c->to_ns))
        n++;
    return n;
}

struct cursor *cursor_open(struct store *s, uint32_t image, unsigned columns, uint64_t to_ns,
                           unsigned threads, struct error *err)
{
    struct cursor *c = calloc(1, sizeof *c);
    if (!c) {
        no_memory(err);
        return NULL;
    }
    c->store = s;
    c->image = &s->images[image];
    c->detail = &s->details[image];
    c->image_index = image;
    c->columns = columns ? columns : TRACE_COL_ALL;
    c->to_ns = to_ns;
    c->state_number = c->detail->first_block;
    c->blocks_left = count_cursor_blocks(c);
    c->ref_temp = malloc((BATCH + 16) * sizeof *c->ref_temp);
    c->u64_temp = malloc((BATCH + 16) * sizeof *c->u64_temp);
    c->places = calloc(threads, sizeof *c->places);
    bool made =
        c->ref_temp && c->u64_temp && c->places && cursor_arrays_make(&c->a, CURSOR_ENTRIES);
    while (made && c->place_count < threads)
        made = loaded_make(&c->places[c->place_count++]);
    /* One takes the loaded blocks, and one takes the batches. */
    if (made)
        c->pieces = pieces_open(threads, threads > 2 ? threads - 2 : 0, c->blocks_left,
                                load_cursor_block, c);
    if (!c->pieces) {
        no_memory(err);
        cursor_close(c);
        return NULL;
    }
    return c;
}

void cursor_close(struct cursor *c)
{
    if (!c)
        return;
    pieces_close(c->pieces);
    for (unsigned i = 0; i < c->place_count; i++)
        loaded_release(&c->places[i]);
    free(c->places);
    free(c->thread_last);
    free(c->free_slots);
    free(c->known);
    free(c->ended);
    free(c->recent);
    free(c->slots);
    free(c->ref_temp);
    free(c->u64_temp);
    free(c->keep);
    free(c->source);
    free(c->found.items);
    cursor_arrays_free(&c->a);
    cursor_arrays_free(&c->b);
    free(c);
}

bool cursor_help(struct cursor *c) { return pieces_help(c->pieces); }

/* ---- what reading finds out ---- */

void cursor_find(struct cursor *c, struct cursor_finding finding)
{
    struct cursor_finding *f = ARRAY_ADD(c->found.items, c->found.count, c->found.cap);
    if (f)
        *f = finding;
    else
        c->found.failed = true;
}

static void count_damaged(struct cursor *c, struct store_block *b)
{
    cursor_find(c, (struct cursor_finding){.block = b, .damaged = true});
}

/* So many calls of a block are lost, those included that were lost before. */
static void lose(struct trace_image *m, struct store_block *b, uint32_t calls)
{
    if (calls > b->calls)
        calls = b->calls;
    if (calls > b->lost_calls) {
        m->lost_calls += calls - b->lost_calls;
        b->lost_calls = calls;
    }
}

void cursor_settle(struct cursor *c, struct cursor_found *found)
{
    struct trace_image *m = &c->store->images[c->image_index];
    if (!found->count)
        return;
    pthread_mutex_lock(&c->store->lock);
    for (size_t i = 0; i < found->count; i++) {
        const struct cursor_finding *f = &found->items[i];
        struct store_block *b = f->block;
        if (f->damaged && !b->damaged && !b->read_damaged) {
            b->read_damaged = true;
            c->store->info.damaged_runs++;
            lose(m, b, b->calls);
            m->complete = false;
        }
        if (!f->damaged && !b->read_whole) { /* once, however often the block is read */
            b->read_whole = true;
            lose(m, b, f->lost_calls);
        }
    }
    pthread_mutex_unlock(&c->store->lock);
    found->count = 0;
}

/* ---- blocks ---- */

/* Makes the next sound block current. 1, 0 at the end, -1. */
static int next_block(struct cursor *c, struct error *err)
{
    while (c->blocks_left) {
        c->blocks_left--;
        struct loaded *in = c->in = &c->places[pieces_next(c->pieces)];
        struct store_block *b = in->block;
        const struct seal_block *h = &in->head.block;
        if (in->has_head &&
            (b->number != c->state_number || h->used_slots != c->used || h->free_slots != c->top) &&
            cursor_resync(c, b->number == c->state_number + 1, err))
            return -1;
        if (in->has_head)
            c->state_number = b->number;
        if (in->state == LOADED_FAILED) {
            *err = in->err;
            return -1;
        }
        if (in->state != LOADED) {
            count_damaged(c, b);
            continue;
        }
        c->state_number++; /* its value when all of its events are given out */
        if (cursor_take_begin(c, err))
            return -1;
        c->block = b;
        c->block_lost = 0;
        return 1;
    }
    return 0;
}

void cursor_give(struct cursor *c, const struct arrays *a, size_t n, struct trace_batch *batch)
{
    static const uint64_t zeros[CURSOR_DEGRADED_ENTRIES];
    INVARIANT(n <= (c->degraded ? CURSOR_DEGRADED_ENTRIES : CURSOR_ENTRIES));
    INVARIANT(a->begun <= n);
    memset(batch, 0, sizeof *batch);
    batch->image = c->image_index;
    batch->n = n;
    batch->slots = c->degraded ? 0 : c->used;
    batch->first_event = c->given;
    c->given += n;
    batch->kind = a->kind;
    batch->op = a->op;
    batch->slot = a->slot;
    batch->thread = wants(c, TRACE_COL_THREAD) ? a->thread : NULL;
    batch->size = wants(c, TRACE_COL_SIZE) ? a->size : NULL;
    batch->stack = wants(c, TRACE_COL_STACK) ? a->stack : NULL;
    batch->time_ns = wants(c, TRACE_COL_TIME) ? a->time : NULL;
    batch->address = wants(c, TRACE_COL_ADDRESS | TRACE_COL_OTHER_ADDRESS) ? a->address : NULL;
    batch->usable = wants(c, TRACE_COL_USABLE) ? a->usable : NULL;
    batch->path = wants(c, TRACE_COL_PATH) ? a->path : NULL;
    batch->route = wants(c, TRACE_COL_ROUTE) ? a->route : NULL;
    batch->argument = !wants(c, TRACE_COL_ARGUMENT) ? NULL : a->argued ? a->argument : zeros;
    if (!wants(c, TRACE_COL_BEGUN))
        return;
    batch->begun = a->begun;
    batch->begun_size = batch->size ? a->begun_size : NULL;
    batch->begun_stack = batch->stack ? a->begun_stack : NULL;
    batch->begun_usable = batch->usable ? a->begun_usable : NULL;
    batch->begun_address = wants(c, TRACE_COL_ADDRESS) ? a->begun_address : NULL;
    if (a->each)
        return;
    batch->size = batch->size ? zeros : NULL;
    batch->stack = batch->stack ? (const uint32_t *)(const void *)zeros : NULL;
    batch->usable = batch->usable ? zeros : NULL;
}

int cursor_next(struct cursor *c, struct trace_batch *batch, struct error *err)
{
    const int status = cursor_decode(c, batch, err);
    cursor_settle(c, &c->found);
    return status;
}

int cursor_decode(struct cursor *c, struct trace_batch *batch, struct error *err)
{
    for (;;) {
        if (c->found.failed)
            return no_memory(err);
        if (!c->block || c->at >= c->block->events) {
            int k = next_block(c, err);
            if (k < 0 || (!k && !c->ended_n))
                return k;
            if (!k)
                c->block = NULL;
        }
        if (c->ended_n) {
            cursor_give_ended(c, batch);
            return 1;
        }
        INVARIANT(c->at < c->block->events);
        uint32_t left = c->block->events - c->at, n = left < BATCH ? left : BATCH, given;
        struct arrays *a;
        if (!cursor_take(c, n, &a, &given)) {
            /* Its checksums hold, but its content is impossible: the rest is not used. */
            count_damaged(c, c->block);
            c->at = c->block->events;
            c->state_number = UINT64_MAX; /* it is not known */
            continue;
        }
        c->at += n;
        if (c->at == c->block->events)
            cursor_find(c, (struct cursor_finding){.block = c->block, .lost_calls = c->block_lost});
        if (!given)
            continue;
        cursor_give(c, a, given, batch);
        return 1;
    }
}
