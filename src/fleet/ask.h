/* ask.h - a question of `mallow fleet` at work, and who writes its answer. Private to fleet/. */
#ifndef MALLOW_FLEET_ASK_H
#define MALLOW_FLEET_ASK_H

#include "fleet/answers.h"
#include "fleet/show.h"

struct asked { /* a question and its answer */
    FILE *out;
    struct fleet_store *store;
    const struct fleet_question *q;
    struct store_query query;
    struct store_totals totals;
    struct answers parts, rows;
};
/* The answers are written of rows that are there. timeline_begin chooses how long a slice is. */
int report_show(struct asked *a, struct error *err);
int leaks_show(struct asked *a, struct error *err);
int distribution_show(struct asked *a, struct error *err);
int timeline_begin(struct asked *a, struct error *err);
int timeline_show(struct asked *a, struct error *err);
int watched_show(struct asked *a, struct error *err);
int diff_show(struct asked *a, struct error *err);

#endif
