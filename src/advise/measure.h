/* measure.h - settings of an allocator, tried on the calls of a recording up to a moment: the
 * RSS then, and the cost. */
#ifndef MALLOW_ADVISE_MEASURE_H
#define MALLOW_ADVISE_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "stats/stats.h"

enum { REMEDIES = 24, REMEDY_ROUNDS = 1000 };

/* A setting that is tried. */
struct remedy {
    char spec[256];            /* as a candidate: "glibc+K=V" */
    const char *setting;       /* "K=V", "malloc_trim", "pool", or the allocator */
    char environment[320];     /* the setting; "" for none */
    const char *text;          /* its description; NULL: the setting says enough */
    unsigned pooled, left_out; /* pools of the workload, as in replay_request */
    double saves, low, high;   /* bytes; low and high: the interval of the replays */
    struct stats_ratio cpu;    /* figures of the CPU time */
};

struct remedy_trial {
    const char *workload; /* its path */
    size_t rounds;        /* 2 to REMEDY_ROUNDS */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
};

/* Replays the workload as it is and with each of the remedies, in rounds, and fills what they save
 * at its end; what saves most comes first then. *heap_bytes: what the replay as it is had made
 * resident. -1 with *err. */
int remedies_measure(const struct remedy_trial *t, struct remedy *list, size_t count,
                     double *heap_bytes, struct error *err);

#endif
