/* record_attached.h - `mallow record -p`, one way or the other. */
#ifndef MALLOW_CLI_RECORD_ATTACHED_H
#define MALLOW_CLI_RECORD_ATTACHED_H

#include "cli/command.h"
#include "cli/record_upload.h"

enum how { HOW_AUTO, HOW_INJECT, HOW_PROBE };

/* The options of `mallow record`. */
struct record_cli {
    const char *output, *with, *last, *when;
    uint64_t pid, duration_ns;
    int stacks; /* enum mlw_stack_mode, in the order of the choices */
    int how;    /* enum how */
    bool paused, no_follow, environment, keep_raw, force, quiet, heap;
    uint64_t sample_interval_ns;
    struct record_upload_options upload;
};

/* An exit status. */
int record_attached(const struct command *self, const struct record_cli *o, int operand_count);

#endif
