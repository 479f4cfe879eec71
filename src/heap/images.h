/* images.h - the data of modules as one small space of numbers: which words of a block point into
 * it says what the block is.
 *
 * A mark names a word-aligned address in what modules have of data, read-only or not. Plain
 * functions; any thread may read. */
#ifndef MALLOW_HEAP_IMAGES_H
#define MALLOW_HEAP_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#include "heap/glibc.h"
#include "heap/module.h"
#include "remote/target.h"

enum { MARK_NONE = 0, MARK_TEXT = 1, MARK_FIRST = 16 };

struct images {
    struct image {
        uint64_t start, end;
        uint32_t first; /* mark of `start` */
    } * at;             /* by start */
    size_t count;
    struct image_span {
        uint64_t start, bytes;
    } low, high; /* nothing lies outside of these two */
};

/* g: the allocator, whose own state gets no marks; NULL: none. Returns -1 without memory. */
int images_make(struct images *m, const struct target *t, const struct modules *modules,
                const struct glibc *g);
void images_release(struct images *m);

/* Returns the mark of an address; MARK_NONE if it is not in a module's data. */
uint32_t images_mark(const struct images *m, uint64_t address);
/* Returns the address of a mark; 0 for MARK_NONE and MARK_TEXT. */
uint64_t images_address(const struct images *m, uint32_t mark);

#endif
