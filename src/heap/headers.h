/* headers.h - the headers of chunks, read one behind the other. Private to the walk. */
#ifndef MALLOW_HEAP_HEADERS_H
#define MALLOW_HEAP_HEADERS_H

#include <stdbool.h>
#include <string.h>

#include "heap/readahead.h"

enum { SIZE_BITS = 7, PREVIOUS_IN_USE = 1, CHUNK_MIN = 32, FENCE_BYTES = 16 };

struct headers {
    struct readahead *ahead;
    uint64_t at; /* of the bytes at hand */
    size_t bytes;
    const uint8_t *data;
};

/* The two words of a chunk's header; false when they are not there. end: nothing is read behind. */
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

#endif
