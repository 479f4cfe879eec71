/* fastbins.h - how much can be in the fastbins of glibc.
 *
 * A freed chunk of up to 128 bytes that no thread's cache takes stays by itself, and keeps its free
 * neighbors apart, until a block of 1 KiB or more is asked for, or a large chunk is freed. Counted
 * is how much can be there; what malloc moves elsewhere meanwhile is not known. What joins later is
 * not given back either: so the most that ever was there counts. One thread. */
#ifndef MALLOW_ANALYSE_FASTBINS_H
#define MALLOW_ANALYSE_FASTBINS_H

#include <stdbool.h>
#include <stdint.h>

#define FASTBINS_CHUNK_MOST         128u
#define FASTBINS_CONSOLIDATES_FROM  1024u       /* the size of a chunk that is asked for */
#define FASTBINS_CONSOLIDATES_FREED (64u << 10) /* the size of a chunk that is freed */

struct fastbins {
    uint64_t bytes[2]; /* in the main arena, in others */
    uint64_t most_bytes;
};

/* A chunk of that size is asked for. other: of another arena than the main one. */
static inline void fastbins_taken(struct fastbins *f, bool other, uint64_t chunk)
{
    uint64_t *const sum = &f->bytes[other];
    if (chunk <= FASTBINS_CHUNK_MOST)
        *sum = *sum > chunk ? *sum - chunk : 0;
    else if (chunk >= FASTBINS_CONSOLIDATES_FROM)
        *sum = 0;
}

/* It is freed. */
static inline void fastbins_freed(struct fastbins *f, bool other, uint64_t chunk)
{
    uint64_t *const sum = &f->bytes[other];
    if (chunk <= FASTBINS_CHUNK_MOST) {
        *sum += chunk;
        if (f->bytes[0] + f->bytes[1] > f->most_bytes)
            f->most_bytes = f->bytes[0] + f->bytes[1];
    } else if (chunk >= FASTBINS_CONSOLIDATES_FREED)
        *sum = 0;
}

#endif
