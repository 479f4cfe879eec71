/* index.h - finds the elements of an array by what they hold.
 *
 * An index holds numbers, each with a hash of its element. The owner has the elements, computes the
 * hashes and compares; an index never looks at an element, not even when it grows. Open addressing
 * with linear probing, at most half full; 8 bytes a place. Numbers are below INDEX_NONE. Nothing is
 * taken out. Tools only; not thread-safe. */
#ifndef MALLOW_BASE_INDEX_H
#define MALLOW_BASE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_NONE  UINT32_MAX
#define INDEX_START SIZE_MAX

struct index { /* all zero: empty */
    struct index_entry {
        uint32_t hash, number_1; /* the number plus 1; 0: free */
    } * entries;
    size_t count, room; /* room: a power of two, or 0 */
};

/* The bits of a hash that an index keeps; any of the 64 may be the good ones. */
static inline uint32_t index_fold(uint64_t hash)
{
    return (uint32_t)((hash ^ hash >> 32) * 0x9e3779b97f4a7c15u >> 32);
}

/* The next number that was added with this hash, INDEX_NONE after the last. *at: INDEX_START at
 * first. */
static inline uint32_t index_next(const struct index *x, uint64_t hash, size_t *at)
{
    if (!x->room)
        return INDEX_NONE;
    const uint32_t folded = index_fold(hash);
    const size_t mask = x->room - 1;
    for (size_t i = *at == INDEX_START ? folded & mask : (*at + 1) & mask; x->entries[i].number_1;
         i = (i + 1) & mask)
        if (x->entries[i].hash == folded) {
            *at = i;
            return x->entries[i].number_1 - 1;
        }
    return INDEX_NONE;
}

/* Adds a number. False without memory; the index then is as it was. */
bool index_add(struct index *x, uint64_t hash, uint32_t number);
void index_release(struct index *x);

#endif
