/* sites.h - the live sampled blocks of a process put together by stack.
 *
 * Owns: the choice of blocks (old ones, all), the sums by stack with what they grew since the last
 * report, the order. Frames have no names here: a stack is a node of process.stacks. One thread. */
#ifndef MALLOW_WATCH_SITES_H
#define MALLOW_WATCH_SITES_H

#include "watch/estimate.h"
#include "watch/process.h"

enum watch_order {
    WATCH_BY_BYTES,     /* estimated bytes of the chosen blocks */
    WATCH_BY_GROWTH,    /* since the last report of this kind */
    WATCH_BY_AGE,       /* age of the oldest */
    WATCH_BY_TIME,      /* bytes times seconds that they were held, of live and freed blocks */
    WATCH_BY_ALLOCATED, /* bytes allocated since the process began */
    WATCH_BY_ELSEWHERE, /* bytes freed by another thread than allocated them */
    WATCH_ORDERS
};

struct watch_site {
    uint32_t stack;
    struct estimate chosen;          /* the chosen blocks */
    struct estimate live;            /* sums over all that are live */
    double growth_bytes;             /* how `chosen` grew since the last report of this kind */
    uint64_t oldest_ns, youngest_ns; /* ages among the chosen; 0 when there are none */
    uint32_t tid; /* the thread that allocated the oldest; more_tids: other threads as well */
    bool more_tids;
    struct watch_sums sums;
    double byte_seconds; /* estimated, freed and live ones */
};

struct watch_sites {
    struct watch_site *items; /* in order; those without chosen blocks are last */
    uint32_t count;           /* the count of stacks that ever had a sample */
    uint32_t chosen;          /* those that have chosen blocks */
    struct estimate total;    /* the total of the chosen blocks */
    double growth_bytes;
    uint64_t known_blocks; /* samples that were left out because they were marked as known */
};

struct watch_choice {
    uint64_t older_than_ns; /* 0: all */
    bool known_too;         /* include blocks that are marked as known */
    enum watch_order order;
    enum watch_reported_kind reported; /* growth is counted from the last report that had this */
};

/* Sums up the result of the latest process_look by stack. sites_reported makes it the base of
 * the next growth. Both return -1 with *err without memory. */
int sites_of(struct watch_sites *s, const struct watch_process *p,
             const struct watch_choice *choice, struct error *err);
int sites_reported(const struct watch_sites *s, struct watch_process *p,
                   const struct watch_choice *choice, struct error *err);
void sites_free(struct watch_sites *s);

/* Adds a site of another stack. */
void sites_merge(struct watch_site *sum, const struct watch_site *s);

/* Returns the value that a site is ordered by. */
double sites_weight(const struct watch_site *s, enum watch_order order);

/* Estimated share of the freed bytes that another thread freed, 0..1. */
double sites_elsewhere(const struct watch_sums *s);

#endif
