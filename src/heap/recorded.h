/* recorded.h - what a recording knows of the blocks of a heap: which lived at a moment, and the
 * call stack that made each.
 *
 * Owns: the choice of the process in the recording, and one pass over its events. Needs 32 bytes
 * for each block that lived at once. One thread. */
#ifndef MALLOW_HEAP_RECORDED_H
#define MALLOW_HEAP_RECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/trace.h"

struct recorded_block {
    uint64_t address;
    uint64_t bytes;   /* usable bytes if the recording has them, else requested bytes */
    uint64_t born_ns; /* on the clock of heap_recorded.now_ns */
    uint32_t stack;   /* node of the image; 0: none */
};

struct heap_recorded {
    const struct trace_image *image; /* the image of the trace */
    uint32_t image_number;
    struct recorded_block *at; /* by address, one for each */
    size_t count;
    uint64_t now_ns; /* when the heap was read; for a core, the time of the last event */
};

/* Reads the blocks that lived at until_ns (since the start of the recording). pid 0: not known;
 * then the recording must hold one process only. Returns 0, or -1 with *err. */
int recorded_read(struct heap_recorded *r, struct trace *t, uint32_t pid, uint64_t until_ns,
                  struct error *err);
/* Fills the list from samples. Returns -1 without memory. */
struct heap_sampled; /* heap/sampled.h */
int recorded_sampled(struct heap_recorded *r, const struct heap_sampled *s);
void recorded_release(struct heap_recorded *r);

/* Returns the block that lived at this address, or NULL. */
const struct recorded_block *recorded_find(const struct heap_recorded *r, uint64_t address);

#endif
