/* convert.h - from a recording to a workload.
 *
 * Owns: what each event of a recording means as a call, which blocks are unknown, and the refusal
 * of recordings that lost calls. Streams; memory grows with the blocks live at once. */
#ifndef MALLOW_WORKLOAD_CONVERT_H
#define MALLOW_WORKLOAD_CONVERT_H

#include <stdbool.h>

#include "trace/trace.h"
#include "workload/writer.h"

struct workload_options {
    bool synthesise; /* a release of a block from before the recording gets a block made just before
                        it (of workload_unknown_bytes); else it is left out */
    bool lossy;      /* take a recording that lost calls */
    uint64_t to_ns;  /* events from this time on are left out, since the start of the recording; 0:
                        none are. Threads that end later stay */
    const uint8_t *pools; /* [image->stacks + 1]: the pool of each stack's blocks, 1 to
                             WORKLOAD_POOLS, 0 for none; NULL: there are none. Needs
                             TRACE_COL_STACK, too */
};

/* Size of a block whose allocation was not seen. */
enum { workload_unknown_bytes = 64 };

/* Columns that workload_convert needs from trace_open. */
#define WORKLOAD_COLUMNS (TRACE_COL_THREAD | TRACE_COL_SIZE | TRACE_COL_TIME | TRACE_COL_ARGUMENT)

/* Converts one image of an open recording into the file `path`. ERROR_USAGE when calls were lost
 * and options->lossy is not set. */
int workload_convert(struct trace *t, uint32_t image, const char *path,
                     const struct workload_options *options, struct workload_written *written,
                     void (*progress)(void *arg, uint64_t done, uint64_t total), void *progress_arg,
                     struct error *err);

#endif
