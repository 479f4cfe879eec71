/* series_feed.c - the loop that fills a series for the common question: everything, no filter.
 *
 * Of a model it uses the table of live blocks only, and counts nothing else. Part by part, one loop
 * follows the blocks and lists what happened to them; series_steps adds up the list. So the memory
 * that each of them needs next is known before. */
#include "base/fetch.h"
#include "model/series_impl.h"

#define PART         512u /* events */
#define BLOCKS_AHEAD 16u

struct feed {
    const struct series_plan *plan;
    struct model *m;
    const struct trace_batch *b;
    size_t begun; /* blocks of the batch that began so far */
    size_t steps;
    struct series_step *list; /* [PART] */
};

static void follow_begun(struct feed *f, struct model_block *block, size_t i, bool inherited)
{
    const struct trace_batch *const b = f->b;
    const size_t made = f->begun++;
    const uint64_t size = b->begun_size[made];
    *block = (struct model_block){.size_bytes = size,
                                  .time_ns = b->time_ns[i],
                                  .stack = f->plan->group_of[b->begun_stack[made]],
                                  .usable_extra = model_usable_extra(size, b->begun_usable[made]),
                                  .thread = inherited ? NO_THREAD : b->thread[i],
                                  .place = (uint8_t)model_place_of(b->path[i]),
                                  .state = BLOCK_COUNTED};
    f->list[f->steps++] = (struct series_step){.size_bytes = size,
                                               .usable_bytes = size + block->usable_extra,
                                               .time_ns = b->time_ns[i],
                                               .group = block->stack,
                                               .maker = block->thread,
                                               .place = block->place,
                                               .call = !inherited};
}

static void follow_ended(struct feed *f, struct model_block *block, size_t i, unsigned kind)
{
    const struct trace_batch *const b = f->b;
    if (block->state == BLOCK_NONE) /* only in a damaged file */
        return;
    block->state = BLOCK_NONE;
    f->list[f->steps++] =
        (struct series_step){.size_bytes = block->size_bytes,
                             .usable_bytes = block->size_bytes + block->usable_extra,
                             .time_ns = b->time_ns[i],
                             .born_ns = block->time_ns,
                             .group = block->stack,
                             .maker = block->thread,
                             .freer = kind == TRACE_FREE_INFERRED ? block->thread : b->thread[i],
                             .place = block->place,
                             .ends = true,
                             .call = true,
                             .temporary = kind == TRACE_FREE_TEMP};
}

FETCHES feed_look_ahead(const struct feed *f, size_t i)
{
    const struct trace_batch *const b = f->b;
    if (i + BLOCKS_AHEAD < b->n && b->slot[i + BLOCKS_AHEAD] != TRACE_NO_SLOT)
        __builtin_prefetch(&f->m->blocks[b->slot[i + BLOCKS_AHEAD]], 1);
    if (f->begun + BLOCKS_AHEAD < b->begun)
        __builtin_prefetch(&f->plan->group_of[b->begun_stack[f->begun + BLOCKS_AHEAD]]);
}

static void feed_follow(struct feed *f, size_t from, size_t to, bool inherited)
{
    for (size_t i = from; i < to; i++) {
        const unsigned kind = f->b->kind[i];
        feed_look_ahead(f, i);
        if (kind == TRACE_ALLOC)
            follow_begun(f, &f->m->blocks[f->b->slot[i]], i, inherited);
        else if (kind <= TRACE_FREE_TEMP || kind == TRACE_FREE_INFERRED)
            follow_ended(f, &f->m->blocks[f->b->slot[i]], i, kind);
    }
}

unsigned series_columns(void)
{
    return TRACE_COL_THREAD | TRACE_COL_SIZE | TRACE_COL_STACK | TRACE_COL_TIME | TRACE_COL_USABLE |
           TRACE_COL_PATH | TRACE_COL_BEGUN;
}

bool series_feeds(const struct model *m) { return !m->filtered; }

int series_feed(struct series *s, struct model *m, const struct trace_batch *b, struct error *err)
{
    if (model_check(m, b, err))
        return -1;
    struct series_step list[PART];
    struct feed f = {.plan = s->plan, .m = m, .b = b, .list = list};
    for (size_t from = 0, to; from < b->n; from = to) {
        const bool inherited = m->inherited_left != 0;
        to = from + (b->n - from < PART ? b->n - from : PART);
        if (inherited && m->inherited_left < to - from)
            to = from + m->inherited_left;
        m->inherited_left -= inherited ? to - from : 0;
        f.steps = 0;
        feed_follow(&f, from, to, inherited);
        series_steps(s, f.list, f.steps);
    }
    return 0;
}
