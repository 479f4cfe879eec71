/* scan.h - which block refers to which: every word of every used block, taken for a pointer if it
 * points into a used block.
 *
 * Owns: reading the heap once, in pieces, by several threads; the references as one array; and, as
 * the bytes are at hand, the first sign of what each block is. */
#ifndef MALLOW_HEAP_SCAN_H
#define MALLOW_HEAP_SCAN_H

#include <stdint.h>

#include "base/error.h"
#include "heap/images.h"
#include "heap/sighting.h"
#include "remote/target.h"
#include "heap/walk.h"

struct scan {
    uint32_t *first;  /* count + 1 places where a block's references begin */
    uint32_t *target; /* numbers of blocks */
    uint32_t *mark;   /* count marks: see images.h */
    uint32_t references;
    struct sighting *seen; /* sightings in blocks, if requested */
    size_t seen_count;
    uint64_t *weak; /* a bit for each of target, as of struct graph_input; NULL: none is */
};

/* Scans the heap. threads: how many read at once, at least 1. sight: look for containers.
 * Returns 0, or -1 with *err without memory. */
int scan_heap(struct scan *s, struct target *t, const struct walk *w, const struct images *images,
              bool sight, unsigned threads, struct error *err);
void scan_release(struct scan *s);

#endif
