/* stages.h - cuts a workload into stages, so that threads that run freely within one cannot take
 * the sum of live bytes far above the recording's peak.
 *
 * Owns: the choice of the cuts; docs/workload.md says why. Memory from the kernel, 8 bytes a cut
 * and 24 a thread, at most STAGES_MAX cuts; nothing here allocates. One thread. */
#ifndef MALLOW_REPLAY_STAGES_H
#define MALLOW_REPLAY_STAGES_H

#include "base/error.h"
#include "workload/check.h"

#define STAGES_MAX (1u << 19)

struct stages {
    uint64_t *cuts; /* places, ascending: no thread executes a record at or behind a cut before all
                       records before it are done */
    uint32_t count;
    size_t map_bytes;
    uint64_t limit_bytes; /* the sum of live bytes cannot pass it */
};

/* Checks the workload as workload_check does, and plans its stages on the way. -1 with *err. */
int stages_plan(const struct workload *w, struct stages *stages, struct error *err);

#endif
