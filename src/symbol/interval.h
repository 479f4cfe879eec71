/* interval.h - "which of these address ranges holds this address?", for many questions.
 *
 * Owns: a set of half-open ranges [lo, hi), each with a 32-bit value, laid flat after the last add
 * so that one binary search answers. Where ranges overlap, the one that begins last wins; of those
 * that begin together, the shortest; of equal ones, the one added last. So inside nested ranges the
 * innermost is found. Bounded: n ranges become at most 2n pieces, whatever the input.
 */
#ifndef MALLOW_SYMBOL_INTERVAL_H
#define MALLOW_SYMBOL_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
    uint64_t lo, hi;
    uint32_t value;
};

struct interval_map {
    struct interval *at;
    size_t count, room;
    bool flat;
};

/* Empty ranges are ignored. Returns 0, or -1 when out of memory. Not after interval_flatten. */
int interval_add(struct interval_map *m, uint64_t lo, uint64_t hi, uint32_t value);

/* Sorts and cuts. Returns 0, or -1 when out of memory (the map is then empty). */
int interval_flatten(struct interval_map *m);

/* The piece that holds address (its value is that of the range that wins there), or NULL. */
const struct interval *interval_find(const struct interval_map *m, uint64_t address);

void interval_free(struct interval_map *m);

#endif
