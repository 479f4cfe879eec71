/* sighting.h - words that may be the beginning of a container of the GNU C++ library.
 *
 * Owns: the test that is made of every pointer to a block's beginning, while the words behind it
 * are at hand. It proves nothing: containers.h does. Plain functions; any thread. */
#ifndef MALLOW_HEAP_SIGHTING_H
#define MALLOW_HEAP_SIGHTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "heap/blocks.h"

enum sighting_kind {
    SIGHTING_NONE = 0,
    SIGHTING_STRING, /* {characters, length, capacity} */
    SIGHTING_VECTOR, /* {begin, end, end of the room} */
    SIGHTING_DEQUE,  /* {map, its length, {at, first, last, node} twice} */
    SIGHTING_TABLE   /* {buckets, their number, first node, nodes, load} */
};

enum { SIGHTING_WORDS = 10 }; /* that sighting_of looks at, at most */

struct sighting {
    uint64_t at;    /* address of the container */
    uint32_t block; /* the block that its first word points at */
    uint32_t kind;
};

/* True if a request of `bytes` can have made a block of `usable` bytes: malloc rounds up. */
static inline bool sighting_fits(uint64_t usable, uint64_t bytes)
{
    return bytes && bytes <= usable && usable - bytes < 32;
}

/* words[0] is the address of the block; n words are at hand. */
static inline enum sighting_kind sighting_of(const struct blocks *b, uint32_t block,
                                             const uint64_t *words, size_t n)
{
    enum { LENGTH_MIN = 16 }; /* the least length of a string that does not fit into itself */
    const uint64_t usable = blocks_bytes(b, block), start = words[0];
    if (n < 3 || b->address[block] != start)
        return SIGHTING_NONE;
    if (sighting_fits(usable, words[2] - start) && words[1] >= start && words[1] <= words[2])
        return SIGHTING_VECTOR;
    const bool array = words[1] < (uint64_t)1 << 40 && sighting_fits(usable, words[1] * 8);
    if (n >= SIGHTING_WORDS && array && words[5] >= start && words[9] >= words[5] &&
        words[9] - start < words[1] * 8 && words[3] < words[4] && words[7] < words[8] &&
        words[2] - words[3] <= words[4] - words[3] && words[6] - words[7] <= words[8] - words[7])
        return SIGHTING_DEQUE;
    if (n >= 5 && array && words[3] < (uint64_t)1 << 32 && !words[2] == !words[3]) {
        float load;
        memcpy(&load, &words[4], sizeof load);
        if (load >= 0.01f && load <= 100.0f)
            return SIGHTING_TABLE;
    }
    if (words[2] >= LENGTH_MIN && words[1] <= words[2] && words[2] < usable &&
        sighting_fits(usable, words[2] + 1))
        return SIGHTING_STRING;
    return SIGHTING_NONE;
}

#endif
