/* record_heap.h - `mallow record --snapshot-heap`: the program's heap as a file, of about its peak.
 *
 * Owns: when the heap is saved, and the helper that saves it: 'mallow heap' in a process of its
 * own, as the recorder must not wait and is the program's parent, whose end only it may collect.
 * One helper at a time. The file beside the recording is replaced when a helper has written all of
 * the next one. One thread. */
#ifndef MALLOW_CLI_RECORD_HEAP_H
#define MALLOW_CLI_RECORD_HEAP_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/command.h"

struct record_heap {      /* all 0: nothing yet */
    char path[PATH_MAX];  /* of the saved heap */
    pid_t helper;         /* 0: none runs */
    int words;            /* its standard error, in memory */
    uint64_t tried_bytes; /* resident when the last helper was started */
    uint64_t saved_bytes; /* when the heap in the file was */
    unsigned refusals;    /* since then, in a row */
    char refusal[256];    /* the last helper's, "" when it saved */
};

/* arg: a struct record_heap; as record_options.size wants it. Starts a helper when the program has
 * grown by a quarter since the last one. */
void record_heap_size(void *arg, pid_t pid, uint64_t rss_bytes, const char *output);

/* Waits for the helper, and says that the heap was saved (not when `quiet`), or why nothing was. */
void record_heap_finish(struct record_heap *r, const struct command *self, bool quiet);

#endif
