/* fold.h - a flight recorder's file stays as small as its window.
 *
 * Owns: where the window begins, and which part of the file is in it. Refuses: to release anything
 * itself: the caller does, when no reader is at work. One thread. */
#ifndef MALLOW_TRACE_SEAL_FOLD_H
#define MALLOW_TRACE_SEAL_FOLD_H

#include "trace/raw/raw.h"
#include "trace/trace.h"

/* Folds, and appends the result to the file of `r`, which must be finished and open for
 * appending. Returns 0, or -1 with *err; then readers ignore the appended part. */
int fold_recording(struct raw *r, const struct trace_fold_how *how,
                   struct trace_fold_result *result, struct error *err);

#endif
