/* sampled.h - live blocks of which a library in the process knows who allocated them. It puts
 * samples into memory of its own, where no headers lie between them, or leaves them where they are.
 * Plain data. */
#ifndef MALLOW_HEAP_SAMPLED_H
#define MALLOW_HEAP_SAMPLED_H

#include <stddef.h>
#include <stdint.h>

struct trace_image; /* trace/trace.h */

struct heap_sampled_block {
    uint64_t address, bytes; /* requested */
    uint64_t age_ns;
    uint32_t stack; /* node of the image; 0: not known */
};

/* The knowledge of a library that samples a process: who allocated some of its live blocks. */
struct heap_sampled {
    const struct trace_image *image; /* stays until heap_free */
    const struct heap_sampled_block *at;
    size_t count;
    struct heap_span {
        uint64_t start, end;
    } kept[2]; /* memory in which the library notes addresses; these keep nothing alive */
};

#endif
