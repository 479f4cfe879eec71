/* order.h - which call sites have most, before more is asked about them. Private to fleet/.
 *
 * Two steps make a question about a few of many call sites cheap: their sums put them in order, and
 * only those that are shown are looked at process by process. One thread. */
#ifndef MALLOW_FLEET_ORDER_H
#define MALLOW_FLEET_ORDER_H

#include "fleet/store.h"

struct order_item {
    uint64_t site, value, end_blocks; /* sums */
};

struct order {  /* all zero but leaks: empty */
    bool leaks; /* by bytes and blocks at the end, where there are blocks; else by the value */
    struct order_item *items;
    size_t count, room;
};

/* Adds a site, unless it has nothing. */
int order_add(struct order *o, struct order_item item, struct error *err);
/* Puts them in order, sets q->total, and leaves q->top of them. */
void order_pick(struct order *o, struct store_query *q);
void order_release(struct order *o);

#endif
