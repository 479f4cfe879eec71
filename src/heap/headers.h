/* headers.h - the headers of chunks, read one behind the other. Private to the walk. */
#ifndef MALLOW_HEAP_HEADERS_H
#define MALLOW_HEAP_HEADERS_H

#include <stdbool.h>
#include <string.h>

#include "heap/readahead.h"

enum { SIZE_BITS = 7, PREVIOUS_IN_USE = 1, CHUNK_MIN = 32, FENCE_BYTES = 16 };

struct headers {
    struct readahead *ahead;
    uint64_t at; /* the address of the bytes at hand */
    size_t bytes;
    const uint8_t *data;
};

/* Reads the two words of a chunk's header. Returns false if they cannot be read. Nothing at or
 * above `end` is read. */
static inline bool headers_at(struct headers *h, uint64_t at, uint64_t end, uint64_t header[2])
{
    if (at - h->at >= h->bytes || h->bytes - (at - h->at) < 16) {
        h->at = at;
        h->data = readahead_at(h->ahead, at, end + 16, 16, &h->bytes);
        if (h->bytes < 16)
            return false;
    }
    memcpy(header, h->data + (at - h->at), 16);
    return true;
}

/* Returns the end of the fence that begins at `at` and ends at or below `end`; 0 if there is
 * none. A fence is two chunks of 16 bytes, or three if glibc had only 16 bytes of its old top
 * left. */
static inline uint64_t headers_fence_end(struct headers *h, uint64_t at, uint64_t end)
{
    enum { SHORT = 2, LONG = 3 };
    uint64_t header[2], n = 0;
    while (n < LONG && end - at >= (n + 1) * FENCE_BYTES &&
           headers_at(h, at + n * FENCE_BYTES, end - FENCE_BYTES, header) &&
           (header[1] | (n ? 0 : PREVIOUS_IN_USE)) == (FENCE_BYTES | PREVIOUS_IN_USE))
        n++;
    return n < SHORT ? 0 : at + n * FENCE_BYTES;
}

#endif
