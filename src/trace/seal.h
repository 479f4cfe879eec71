/* seal.h - from an indexed raw recording to a sealed file. */
#ifndef MALLOW_TRACE_SEAL_H
#define MALLOW_TRACE_SEAL_H

#include "raw.h"
#include "trace.h"

/* Writes to the empty file open at `out` (seekable). stored: compress nothing. */
int seal_recording(struct raw *r, int out, bool stored, struct trace_seal_result *result,
                   void (*progress)(void *, uint64_t, uint64_t), void *arg, struct error *err);
/* To a temporary file beside `out`, which then takes its place. */
int seal_beside(struct raw *r, const char *out, bool stored, struct trace_seal_result *result,
                void (*progress)(void *, uint64_t, uint64_t), void *arg, struct error *err);

#endif
