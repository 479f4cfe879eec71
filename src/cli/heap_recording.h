/* heap_recording.h - the recording that a heap is joined with. Owns: the recording while the heap
 * is read and shown, and the names of its process. One thread. */
#ifndef MALLOW_CLI_HEAP_RECORDING_H
#define MALLOW_CLI_HEAP_RECORDING_H

#include "heap/show/sampled.h"
#include "cli/view.h"
#include "heap/heap.h"

struct heap_recording {
    const char *path; /* NULL: there is none, and nothing is opened */
    const struct view_options *view;
    struct trace *trace;
    struct heap_samples samples; /* without a recording, of a process that is sampled */
    struct symbols *symbols;
    struct names *names; /* NULL without a recording */
};

/* As heap_options.recording wants it, `arg` a struct heap_recording: opens the recording of process
 * `pid`, after a process that runs has written what it has. NULL with *err. */
struct trace *heap_recording_open(void *arg, uint32_t pid, bool live, struct error *err);

/* Makes the names of the process that `h` was read from. -1 with *err. */
int heap_recording_names(struct heap_recording *o, const struct heap *h, struct error *err);

void heap_recording_close(struct heap_recording *o);

#endif
