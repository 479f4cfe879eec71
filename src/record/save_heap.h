/* save_heap.h - `mallow record --snapshot-heap`: the heaps of a program and of its children as
 * files, each of about its peak.
 *
 * Owns: when a heap is saved, and the helper that saves it: 'mallow heap' in a process of its own,
 * as the recorder must not wait and is the program's parent, whose end only it may collect. One
 * helper at a time. The file beside the recording is replaced when a helper has written all of the
 * next one. One thread. */
#ifndef MALLOW_RECORD_SAVE_HEAP_H
#define MALLOW_RECORD_SAVE_HEAP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/note.h"

struct record_heap_process {
    pid_t pid;
    uint64_t tried_bytes; /* resident when the last helper was started */
    uint64_t saved_bytes; /* when the heap in the file was */
    unsigned refusals;    /* since then, in a row */
};

struct record_heap { /* all 0: nothing yet */
    char output[PATH_MAX];
    struct record_heap_process *processes; /* the program first */
    size_t count, room;
    pid_t helper;      /* 0: none runs */
    size_t of;         /* which process it is for */
    int words;         /* its standard error, in memory */
    char refusal[256]; /* the last one's for the program, "" when it saved */
};

/* Starts a helper if the process has grown by a quarter since the last one. Children below 8 MB
 * are ignored. It has the form of record_options.size; arg: a struct record_heap. */
void record_heap_size(void *arg, pid_t pid, bool is_program, uint64_t rss_bytes,
                      const char *output);

/* Waits for the helper. Then it notes where the saved heaps are (unless `quiet`), or why there
 * is none. */
void record_heap_finish(struct record_heap *r, const struct note *note, bool quiet);

#endif
