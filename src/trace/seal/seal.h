/* seal.h - from an indexed raw recording to a sealed file. */
#ifndef MALLOW_TRACE_SEAL_SEAL_H
#define MALLOW_TRACE_SEAL_SEAL_H

#include "trace/raw/raw.h"
#include "trace/trace.h"
#include "trust/place.h"

struct seal_how {
    bool stored;      /* compress nothing */
    unsigned threads; /* to use beside the caller's, two at most; the file does not depend on it */
    void (*progress)(void *, uint64_t, uint64_t); /* may be NULL */
    void *arg;
};

/* Seals the recording into the empty seekable file open at `out`. Returns 0, or -1 with *err. */
int seal_recording(struct raw *r, int out, const struct seal_how *how,
                   struct trace_seal_result *result, struct error *err);
/* For a flight recorder: folds the rows before the clock `cut` and appends the result. It marks
 * the folded images, and sets the positions from which their streams go on. Returns 0, or -1
 * with *err. */
struct carry_out;
struct timebase;
int seal_fold(struct raw *r, const struct timebase *t, uint64_t cut, struct carry_out *out,
              struct error *err);
/* Seals into a new file that replaces `out` when it is complete. Returns its descriptor, open
 * for reading, or -1 with *err. */
int seal_beside(struct raw *r, const struct trust_place *out, const struct seal_how *how,
                struct trace_seal_result *result, struct error *err);

#endif
