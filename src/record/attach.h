/* attach.h - `mallow record -p`: recording a process that runs already, or that no library can be
 * preloaded into, and its children.
 *
 * Owns: the loop beside it, and the file, which is a recording that can be read at any moment. The
 * kernel reports the calls (probe/). Blocks from before are not known: their releases are. One
 * thread. */
#ifndef MALLOW_RECORD_ATTACH_H
#define MALLOW_RECORD_ATTACH_H

#include "record/record.h"

struct attach_options {
    uint32_t pid;
    const char *output; /* as in record_options */
    enum mlw_stack_mode stacks;
    uint64_t duration_ns;        /* 0: until it ends, or the user ends it */
    uint64_t sample_interval_ns; /* 0: chosen by what the process does */
    bool keep_raw, no_follow;    /* no_follow: without children, and only until the process executes
                                    another program */
    void (*say)(void *arg, bool wrong, const char *line);
    void *arg;
};

/* Records the process until it ends, a duration is over, or a signal asks. Returns 0 if a
 * recording exists, or -1 with *err. It sets these members of result: output, calls, file_bytes,
 * lost_calls, left_running, images. */
int record_attach(const struct attach_options *o, struct record_result *result, struct error *err);

#endif
