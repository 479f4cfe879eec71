/* transfer.h - how a command shows that a recording is sent or fetched in segments.
 *
 * Owns: the progress bar and the line for each pause. For one thread. */
#ifndef MALLOW_CLI_TRANSFER_H
#define MALLOW_CLI_TRANSFER_H

#include "cli/command.h"

struct transfer {
    const struct command *self;
    const char *verb; /* "sending" */
    uint64_t retries; /* retries of a request */
    bool quiet;
    struct progress progress; /* begun by the caller */
};

/* For objects_options.pause: waits, and says why. arg: the transfer. */
bool transfer_pause(void *arg, const char *why, uint64_t tries, uint64_t pause_ns);
/* For segments_options.progress. */
void transfer_show(void *arg, uint64_t done, uint64_t bytes);

#endif
