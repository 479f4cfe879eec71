/* transfer.c - Shows the progress of a transfer in segments, and sleeps before another try. It
 * gives up after the number of tries that the user allows. */
#include "cli/transfer.h"

#include <unistd.h>

#include "base/human.h"

bool transfer_pause(void *arg, const char *why, uint64_t tries, uint64_t pause_ns)
{
    struct transfer *t = arg;
    if (tries > t->retries)
        return false;
    progress_end(&t->progress);
    if (!t->quiet)
        command_warn(t->self, "%s; again in %s", why, TIME(pause_ns));
    usleep((useconds_t)(pause_ns / 1000));
    progress_begin(&t->progress, t->verb);
    return true;
}

void transfer_show(void *arg, uint64_t done, uint64_t bytes)
{
    struct transfer *t = arg;
    progress_update(&t->progress, done, bytes);
}
