/* image_carry.c - of an image of a flight recorder: how its rows of before the window lead to its
 * first events. */
#include "image_impl.h"

#include <stdio.h>

#define STACKS_MAX (1u << 26) /* ids beyond have no sums of their own */

static int carry_no_memory(struct error *err) { return error_memory_for(err, "folding"); }

int carry_begin(struct image_work *g, enum image_fate fate, uint64_t cut, struct error *err)
{
    struct carry *c = g->carry = calloc(1, sizeof *c);
    if (!c)
        return carry_no_memory(err);
    c->fate = fate;
    c->cut = g->raw->carried && cut < g->raw->carried_clock ? g->raw->carried_clock : cut;
    g->silent = g->raw->carried || g->start_clock < c->cut || fate == IMAGE_FORGOTTEN;
    if (fate != IMAGE_FOLDED)
        return 0;
    c->where = calloc((size_t)g->raw->streams + 1, sizeof *c->where);
    if (!c->where)
        return carry_no_memory(err);
    for (uint32_t i = 0; i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        c->where[i] = s->skips
                          ? (struct merge_position){s->skip_sequence, s->skip_bytes, s->skip_calls}
                          : (struct merge_position){.sequence = UINT32_MAX};
    }
    return feed_track(g->feed) ? 0 : carry_no_memory(err);
}

void carry_free(struct carry *c)
{
    if (!c)
        return;
    free(c->origins);
    free(c->sums);
    free(c->sites);
    free(c->where);
    free(c);
}

bool carry_origin(struct image_work *g, uint32_t slot, const struct block_event *e)
{
    struct carry *c = g->carry;
    if (!ARRAY_ROOM(c->origins, (size_t)slot + 1, c->origin_cap))
        return false;
    c->origins[slot] = (struct carry_origin){e->tick, e->argument};
    return true;
}

/* The sums of a stack, the recorder's id; NULL without memory. */
static struct carry_sum *sum_of(struct carry *c, uint32_t stack)
{
    stack = stack < STACKS_MAX ? stack : 0;
    if (stack >= c->sum_cap) {
        const size_t was = c->sum_cap;
        if (!ARRAY_ROOM(c->sums, (size_t)stack + 1, c->sum_cap))
            return NULL;
        memset(c->sums + was, 0, (c->sum_cap - was) * sizeof *c->sums);
    }
    return &c->sums[stack];
}

bool carry_count(struct image_work *g, const struct block_event *e, bool is_call)
{
    if (e->kind != TRACE_FREE_TEMP && !(e->kind == TRACE_ALLOC && is_call))
        return true;
    struct carry_sum *s = sum_of(g->carry, g->live.blocks[e->slot].stack);
    if (!s)
        return false;
    s->temporary += e->kind == TRACE_FREE_TEMP;
    s->calls += e->kind == TRACE_ALLOC;
    s->bytes += e->kind == TRACE_ALLOC ? e->size : 0;
    return true;
}

void carry_taken(struct image_work *g, const struct merge_row *a)
{
    struct carry *c = g->carry;
    if (c->where)
        c->where[a->stream->index - g->raw->first_stream] = *feed_where(g->feed, a);
}

bool carry_speaks(const struct image_work *g) { return g->carry->fate == IMAGE_WINDOW; }

bool carry_is_due(struct image_work *g, const struct merge_row *head, uint64_t until)
{
    struct carry *c = g->carry;
    if (c->fate == IMAGE_FORGOTTEN)
        return false;
    /* A child that begins before the window inherits first. */
    if (until < c->cut)
        return false;
    if (!head || head->row.clock >= c->cut)
        return true;
    /* A call is under way whose end is not written yet. The next time it is believed to succeed: it
     * may never end. */
    if (c->fate == IMAGE_FOLDED && head->open && head->row.clock > g->raw->carried_clock) {
        c->cut = head->row.clock;
        g->stopped = true;
        return true;
    }
    return false;
}

bool image_stopped(const struct image_work *g) { return g->stopped; }

/* ---- the window begins ---- */

static int by_birth(const void *a, const void *b)
{
    const struct carry_block *x = a, *y = b;
    if (x->origin.tick != y->origin.tick)
        return x->origin.tick < y->origin.tick ? -1 : 1;
    return x->block.born < y->block.born ? -1 : x->block.born > y->block.born;
}

struct carry_block *carry_gather(const struct image_work *g)
{
    const struct live *l = &g->live;
    struct carry_block *all = malloc(((size_t)l->count + 1) * sizeof *all);
    size_t n = 0;
    for (uint32_t i = 0; all && i < l->used; i++)
        if (l->blocks[i].live)
            all[n++] = (struct carry_block){l->blocks[i], g->carry->origins[i]};
    if (n > 1)
        qsort(all, n, sizeof *all, by_birth);
    return all;
}

static struct carry_sum total_of(const struct carry *c)
{
    struct carry_sum t = {0};
    for (size_t i = 0; i < c->sum_cap; i++) {
        t.calls += c->sums[i].calls;
        t.bytes += c->sums[i].bytes;
        t.temporary += c->sums[i].temporary;
    }
    for (size_t i = 0; i < c->site_count; i++) {
        t.calls += c->sites[i].sum.calls;
        t.bytes += c->sites[i].sum.bytes;
        t.temporary += c->sites[i].sum.temporary;
    }
    return t;
}

/* For the notes of the image. */
static const char *describe_carried(struct image_work *g, uint64_t blocks, uint64_t bytes)
{
    const struct carry_sum t = total_of(g->carry);
    char text[400];
    const int n =
        snprintf(text, sizeof text,
                 "flight recorder: events begin %.3f s after the recording did. Of earlier calls "
                 "it keeps %llu live blocks of %llu bytes, with their stacks and times; %llu "
                 "allocations of %llu bytes, %llu of them temporary, are kept as sums",
                 (double)timebase_ns(g->time, g->carry->cut) / 1e9, (unsigned long long)blocks,
                 (unsigned long long)bytes, (unsigned long long)t.calls,
                 (unsigned long long)t.bytes, (unsigned long long)t.temporary);
    return arena_text(&g->arena, text, n < 0 ? 0 : (size_t)n);
}

static int compare_carried_numbers(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const struct raw_stream *s = *(struct raw_stream *const *)b;
    return x < s->thread ? -1 : x > s->thread;
}

uint32_t carry_thread(const struct image_work *g, uint32_t number)
{
    if (!g->raw->streams)
        return UINT32_MAX;
    struct raw_stream *const *s = bsearch(&number, &g->streams[g->raw->first_stream],
                                          g->raw->streams, sizeof *s, compare_carried_numbers);
    return s ? (*s)->thread_index : UINT32_MAX;
}

int carry_speak(struct image_work *g, struct error *err)
{
    const uint32_t count = g->live.count;
    const uint64_t bytes = g->live.bytes;
    struct carry_block *all = carry_gather(g);
    if (!all || !(g->carry_note = describe_carried(g, count, bytes))) {
        free(all);
        return carry_no_memory(err);
    }
    live_free(&g->live);
    block_writer_forget(g->blocks);
    g->silent = false;
    g->calls = g->allocs = g->inherited = 0;
    g->marks_from = g->carry->cut;
    g->note_count = 0; /* marks and controls of before the window */
    for (uint32_t i = 0; i < g->raw->threads; i++)
        g->threads[i].calls = 0;
    struct faulted *faulted = g->faulted; /* knows them already */
    g->faulted = NULL;
    int status = 0;
    for (uint32_t i = 0; i < count && !status; i++) {
        const struct live_block *b = &all[i].block;
        struct block_event e = {.op = b->op,
                                .path = b->path,
                                .thread = b->thread,
                                .stack = image_dense_id(g, b->stack),
                                .tick = all[i].origin.tick,
                                .size = b->size,
                                .usable = b->usable,
                                .address = b->address,
                                .argument = all[i].origin.argument};
        status = e.stack == UINT32_MAX ? carry_no_memory(err)
                                       : image_begin_block(g, &e, b->stack, b->turn, false, err);
        g->inherited++;
    }
    g->faulted = faulted;
    free(all);
    return status;
}
