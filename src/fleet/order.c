/* order.c - call sites are put in order by their sums, as the queries order their rows. */
#include "fleet/order.h"

#include <stdlib.h>

#include "base/array.h"

int order_add(struct order *o, struct order_item item, struct error *err)
{
    if (!(o->leaks ? item.end_blocks : item.value))
        return 0;
    struct order_item *to = ARRAY_ADD(o->items, o->count, o->room);
    if (!to)
        return error_memory(err);
    *to = item;
    return 0;
}

static int compare_most_first(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

/* As the queries order their rows. */
static int compare_order_items(const void *a, const void *b, void *arg)
{
    const struct order *o = arg;
    const struct order_item *x = a, *y = b;
    int order = compare_most_first(x->value, y->value);
    if (!order && o->leaks)
        order = compare_most_first(x->end_blocks, y->end_blocks);
    return order ? order
                 : ((int64_t)x->site > (int64_t)y->site) - ((int64_t)x->site < (int64_t)y->site);
}

void order_pick(struct order *o, struct store_query *q)
{
    if (o->count)
        qsort_r(o->items, o->count, sizeof *o->items, compare_order_items, o);
    q->total = o->count;
    if (q->top && q->top < o->count)
        o->count = (size_t)q->top;
}

void order_release(struct order *o)
{
    free(o->items);
    *o = (struct order){0};
}
