/* corpus.h - the recorded workloads that come with mallow, and comparisons over all of them. */
#ifndef MALLOW_COMPARE_CORPUS_H
#define MALLOW_COMPARE_CORPUS_H

#include <limits.h>
#include <stddef.h>

#include "compare/comparison.h"

enum { CORPUS_MAX = 64 };

struct corpus {
    struct corpus_entry {
        char name[64]; /* "cc1" */
        char path[PATH_MAX];
    } entry[CORPUS_MAX];
    size_t count;
};

/* Finds the corpus beside mallow, in the build tree or where it was installed, and lists it by
 * name. -1 with *err. */
int corpus_find(struct corpus *c, struct error *err);

/* --- all[corpus->count] are the comparisons of the same candidates --- */

/* The geometric mean over all workloads of a candidate's ratios to the first one, round by round.
 * Not known with a baseline. */
struct stats_ratio corpus_mean(const struct corpus *c, const struct comparison *all,
                               size_t candidate, enum comparison_metric metric);

/* The document of --json. The caller owns it. */
json_object *corpus_json(const struct corpus *c, const struct comparison *all,
                         const struct comparison_plan *plan);

#endif
