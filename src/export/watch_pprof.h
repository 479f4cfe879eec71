/* watch_pprof.h - a watched process as a profile of pprof. */
#ifndef MALLOW_EXPORT_WATCH_PPROF_H
#define MALLOW_EXPORT_WATCH_PPROF_H

#include <stdio.h>

#include "symbol/symbol.h"
#include "watch/sites.h"

/* Writes what the sites say: alloc_objects, alloc_space, inuse_objects, inuse_space, estimated from
 * the samples, with the period. sites: of all live blocks, known ones too. symbols may be NULL. */
int watch_pprof_write(FILE *out, const struct watch_process *p, const struct watch_sites *sites,
                      struct symbols *symbols, struct error *err);

#endif
