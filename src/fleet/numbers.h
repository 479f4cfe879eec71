/* numbers.h - a number for each identity. Private to fleet/.
 *
 * Open addressing, for a place that is asked once for each row of a store. Identities are hashes,
 * see hash.h. One thread. */
#ifndef MALLOW_FLEET_NUMBERS_H
#define MALLOW_FLEET_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct numbers_entry { /* number 0: empty */
    uint64_t id, number;
};

struct numbers { /* all zero: empty */
    struct numbers_entry *entries;
    size_t count, room; /* room: a power of two */
};

/* The number of an id; 0: it is fresh, and the caller gives it one before the next call. NULL with
 * *err without memory. */
uint64_t *numbers_at(struct numbers *n, uint64_t id, struct error *err);
/* NULL: the id has none. */
const uint64_t *numbers_find(const struct numbers *n, uint64_t id);
void numbers_release(struct numbers *n);

#endif
