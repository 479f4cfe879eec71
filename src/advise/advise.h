/* advise.h - what would make the resident size of a recorded program smaller, measured.
 *
 * The settings that the findings of a moment suggest are tried: the recording up to that moment is
 * replayed under each. Owns: the choice of settings, and the workload while it is measured, in a
 * file without a name. One thread. */
#ifndef MALLOW_ADVISE_ADVISE_H
#define MALLOW_ADVISE_ADVISE_H

#include <stdbool.h>

#include "advise/measure.h"
#include "analyse/advice.h"
#include "report/explained.h"

struct advise_options {
    const char *at;              /* the moment, as report_options has it */
    size_t rounds;               /* 2 to REMEDY_ROUNDS */
    bool lossy;                  /* a recording that lost calls will do */
    const char *const *settings; /* K=V, tried as well */
    size_t setting_count;
    void (*stage)(void *arg,
                  const char *name); /* something that takes long begins; NULL: it ended */
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* by stage */
    void *arg;
};

/* The caller sets the first group and owns what it points to. */
struct advising {
    const struct advise_options *o;
    struct trace *trace;
    struct symbols *symbols;
    uint32_t image;
    const struct trace_image *of;
    struct model *model;
    struct names *names;
    struct explained_list list; /* one */
    struct advice advice[ADVICE_MOST];
    size_t advice_count;
    unsigned pool_of[ADVICE_MOST];    /* the pool of each advice in the workload; 0: none */
    uint8_t *pools;                   /* the pool of each stack in the workload; NULL: none */
    struct remedy remedies[REMEDIES]; /* the one that saves most comes first */
    size_t count;
    char workload[32];         /* private */
    double replayed, recorded; /* resident bytes of the heap, at the moment */
};

#define ADVISE_POOL_AND_TRIM "pool+malloc_trim" /* the setting of such a remedy */

/* True if a replay shows what the live blocks of a call site cost: it touches all of them. */
bool advise_replays_release(const struct advising *a);

/* Fills the rest. -1 with *err, ERROR_USAGE when there is no such moment. Release it in any case.
 */
int advise_run(struct advising *a, struct error *err);

void advise_release(struct advising *a);

#endif
