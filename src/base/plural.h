/* plural.h - a noun behind its count.
 *
 * Owns: which form follows a number, in every text that people read: "1 process", "2 processes", "0
 * processes". A verb or a pronoun that depends on it is part of both forms. Any thread. */
#ifndef MALLOW_BASE_PLURAL_H
#define MALLOW_BASE_PLURAL_H

#include <stdint.h>

static inline const char *plural(uint64_t count, const char *one, const char *more)
{
    return count == 1 ? one : more;
}

#endif
