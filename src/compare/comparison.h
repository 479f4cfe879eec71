/* comparison.h - a workload run against several candidates, in rounds.
 *
 * Every round runs each candidate once. The order is drawn for a round and turned round for the
 * next, so that what disturbs the machine disturbs all alike, and a drift cancels. Candidates of a
 * workload of one thread run side by side, all on one processor, another one in each round: the
 * system lets them take turns every few milliseconds, so whatever makes the processor slow for a
 * while makes all slow, and the ratios of their CPU times are known far better than those of runs
 * one after the other. Owns: the runs and what they say of each candidate; used by compare and by
 * tune's confirmation. */
#ifndef MALLOW_COMPARE_COMPARISON_H
#define MALLOW_COMPARE_COMPARISON_H

#include <stdbool.h>

#include "compare/measured.h"
#include "stats/stats.h"

enum {
    COMPARISON_CANDIDATES = 64,
    COMPARISON_ROUNDS = 1000,
};

/* The figures compared; all are better when smaller. */
enum comparison_metric {
    COMPARISON_CPU,
    COMPARISON_WALL,
    COMPARISON_CALLS,
    COMPARISON_PEAK,
    COMPARISON_AVERAGE,
    COMPARISON_FRAGMENTATION,
    COMPARISON_METRICS
};

struct metric {
    const char *key; /* in JSON */
    const char *title;
    bool gate; /* --fail-above looks at it, and the rounds go on until it is known well */
};

extern const struct metric comparison_metrics[COMPARISON_METRICS];

/* A figure of one run: ns, cycles, bytes, or a share; 0 when the run has none. */
double comparison_value(json_object *run, enum comparison_metric metric);

struct candidate {
    char *label; /* owned: as the user gave it, NAME+K=V */
    char *spec;  /* owned: the same with NULs for +; alloc and settings point into it */
    const char *alloc;
    const char **settings; /* owned array */
    size_t setting_count;
    unsigned pooled, left_out; /* as in replay_request */
};

/* Fills *c from NAME, PATH or NAME+K=V+K=V (n bytes of `spec`), with `count` common settings K=V
 * first, and proves that allocator and settings exist. The common ones are borrowed. -1 with *err;
 * release it in any case. */
int candidate_init(struct candidate *c, const char *spec, size_t n, const char *const *common,
                   size_t count, struct error *err);
void candidate_release(struct candidate *c);

struct cell {                 /* a candidate's figures of one metric */
    double median, low, high; /* over the runs */
    struct stats_ratio ratio; /* to the first candidate, or to itself in the baseline; none when the
                                 first failed */
    bool best, worst;         /* surely differ from each other */
};

/* How many rounds: `least` (2 or more), then two more at a time until every gated ratio's interval
 * reaches at most `precision` (a share) to either side, or there are `most`. */
struct comparison_plan {
    size_t least, most;
    double precision;
};

struct comparison {
    bool tolerant; /* a candidate whose replay fails is left out, unless all of them fail; else the
                      comparison fails */
    char *failed[COMPARISON_CANDIDATES]; /* owned: why it was left out; NULL: it was not */
    struct replay_request request;       /* but for allocator and settings */
    const struct candidate *candidates;
    size_t count, rounds;
    json_object **runs;    /* owned: [round * count + candidate]; NULL of one that failed */
    json_object *baseline; /* array of runs to compare with, or NULL; borrowed */
    bool apart;            /* never side by side: the figures count by themselves */
    bool side_by_side;     /* how it was run */
    uint64_t random;       /* seed of the orders; not 0 */
    void (*progress)(void *arg, uint64_t done, uint64_t expected); /* in rounds; NULL: none */
    void *progress_arg;
    double reach;           /* the widest interval of a gated ratio; 0 when there is none */
    size_t reach_candidate; /* whose it is */
    enum comparison_metric reach_metric;
    struct cell cells[COMPARISON_CANDIDATES][COMPARISON_METRICS];
};

/* Runs all the rounds of a plan, discarding earlier ones, and evaluates them. -1 with *err. */
int comparison_run(struct comparison *c, const struct comparison_plan *plan, struct error *err);

/* Fills cells and reach from the runs that are there. */
void comparison_evaluate(struct comparison *c);

/* Any run of all of them; what does not differ between candidates is asked of it. */
json_object *comparison_some_run(const struct comparison *c);

/* The figures of one candidate that did not fail, a round each, into values[rounds]. */
void comparison_values(const struct comparison *c, size_t candidate, enum comparison_metric metric,
                       double *values);

void comparison_release(struct comparison *c);

/* The document of --json, which is a baseline's content, too. The caller owns it. */
json_object *comparison_json(const struct comparison *c, const struct comparison_plan *plan);

/* {ratio, ratio_low, ratio_high, differs} added to an object, where known. */
void comparison_ratio_json(json_object *into, const struct stats_ratio *r);

#endif
