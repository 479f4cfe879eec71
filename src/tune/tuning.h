/* tuning.h - searches an allocator's settings for a workload, and confirms what it found.
 *
 * The search (tune/search.h) asks for points; a point is one run of the workload. So that a busy
 * machine does not look like a bad setting, times count relative to runs of the default that are
 * made in between. What the search then holds for best has been chosen among many for being lucky,
 * too: so it is only believed after fresh rounds against the default (compare/comparison.h).
 *
 * Owns: how the budget is divided, the runs, the winners and their confirmation. One thread. */
#ifndef MALLOW_TUNE_TUNING_H
#define MALLOW_TUNE_TUNING_H

#include <limits.h>

#include "compare/comparison.h"
#include "tune/spaces.h"

enum {
    TUNING_OBJECTIVES = 3, /* peak RSS, average RSS, time */
    TUNING_DEFAULTS = 512, /* runs of the default that are remembered */
    TUNING_WINNERS = TUNING_OBJECTIVES + 1
};

/* For point values: closer ones count as equal on the front. */
#define TUNING_CLOSE 0.01

struct tuning_options {
    const char *alloc;           /* a name or a path */
    const char *const *settings; /* K=V that stay fixed; borrowed, as alloc is */
    size_t setting_count;
    int objective;            /* 0: all; else 1 + the one that counts most */
    bool wall;                /* the time is the wall's, not the CPU's */
    uint64_t runs, budget_ns; /* 0: not limited by it; both 0: 120 runs */
    uint64_t seed, confirm;   /* confirm: rounds of the confirmation */
};

struct tuning_winner {
    const struct tune_point *point;
    unsigned claim;           /* an objective, or TUNING_OBJECTIVES: the best of all three */
    size_t candidate;         /* in the confirmation */
    struct stats_ratio ratio; /* the ratio of the claimed improvement */
};

struct tuning {
    struct tuning_options options;
    struct replay_request request; /* workload, order, touch, timing, pace: the caller's */
    void (*searching)(void *arg, uint64_t done, uint64_t expected); /* NULL: none */
    void (*confirming)(void *arg, uint64_t done, uint64_t expected);
    void *arg;
    /* results */
    char library[PATH_MAX];
    struct tune_settings settings;
    struct tune_search *search;
    enum comparison_metric metric[TUNING_OBJECTIVES];
    double usual[TUNING_OBJECTIVES][TUNING_DEFAULTS]; /* runs of the default: ns, bytes */
    size_t usuals, runs, failures;
    uint64_t start_ns;
    struct tuning_winner winners[TUNING_WINNERS];
    size_t winner_count;
    struct candidate candidates[TUNING_WINNERS + 1];
    size_t candidate_count;
    struct comparison confirmation;
    struct comparison_plan plan;
};

/* Searches and confirms. -1 with *err; tuning_release in any case. */
int tuning_run(struct tuning *t, struct error *err);
void tuning_release(struct tuning *t);

/* True if the fresh rounds say that a winner is surely better in what it claims. */
bool tuning_confirmed(const struct tuning_winner *w);

/* Appends the words that go before a command line for a point, fixed settings included. */
void tuning_line(const struct tuning *t, const struct tune_point *p, struct buffer *line);

/* The whole tuning as the document of --json, but for the workload's name; the caller owns it. */
json_object *tuning_json(struct tuning *t, const char *workload);

#endif
