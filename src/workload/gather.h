/* gather.h - several inputs, or standard input, as one file without a name. One thread. */
#ifndef MALLOW_WORKLOAD_GATHER_H
#define MALLOW_WORKLOAD_GATHER_H

#include <stddef.h>

#include "base/error.h"

/* A file without a name in the directory of `beside`: its descriptor, the caller's. -1 with *err.
 */
int workload_unnamed(const char *beside, struct error *err);

/* A file without a name in $TMPDIR, /var/tmp or /tmp, whose descriptor programs that are started
 * inherit: for a workload that they replay as /proc/self/fd/N. -1 with *err. */
int workload_unnamed_inherited(struct error *err);

/* Writes the files one after the other ("-": standard input) into one that is made in the directory
 * of `beside` and has no name. Returns its descriptor, the caller's, at the end of the file; -1
 * with *err. */
int workload_gather(const char *beside, char *const *files, size_t count, struct error *err);

#endif
