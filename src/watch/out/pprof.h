/* pprof.h - a watched process as a profile of pprof. */
#ifndef MALLOW_WATCH_OUT_PPROF_H
#define MALLOW_WATCH_OUT_PPROF_H

#include <stdbool.h>
#include <stdio.h>

#include "symbol/symbol.h"
#include "watch/sites.h"

enum { WATCH_PPROF_VALUES = 4 }; /* alloc_objects, alloc_space, inuse_objects, inuse_space */

struct watch_pprof_base { /* the values of a moment, by node of a stack */
    int64_t (*values)[WATCH_PPROF_VALUES];
    uint32_t count;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
};

struct watch_pprof_options {
    const char *default_type;            /* NULL: inuse_space */
    const struct watch_pprof_base *base; /* subtracted from the values; NULL: nothing */
    bool in_use_whole;    /* subtract the base from the two values of allocations only: for servers
                             that add up the profiles of a process */
    uint32_t from, until; /* only these sites; until 0: all */
};

/* Writes a profile with the four values of each site, estimated from the samples, and the
 * period. sites: of all live blocks, known ones included. symbols and options may be NULL. With
 * a base, values in use may be negative; allocated values never are. Returns 0, or -1 with *err. */
int watch_pprof_write(FILE *out, const struct watch_process *p, const struct watch_sites *sites,
                      struct symbols *symbols, const struct watch_pprof_options *options,
                      struct error *err);

/* Computes the four values of a site. Returns true if one of them is not 0. options may be NULL. */
bool watch_pprof_values(const struct watch_site *s, const struct watch_pprof_options *options,
                        int64_t values[WATCH_PPROF_VALUES]);
/* Type and unit of each, in the order of the values. */
extern const char *const watch_pprof_types[WATCH_PPROF_VALUES][2];

/* Takes the present values as the base of a later profile of the same process. The caller frees
 * base->values. Returns -1 with *err without memory. */
int watch_pprof_base(struct watch_pprof_base *base, const struct watch_process *p,
                     const struct watch_sites *sites, struct error *err);

#endif
