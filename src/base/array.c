/* array.c - Chooses how much an array grows, and reallocates it. The size doubles up to the
 * limit that the caller gives. A product that would overflow counts as no memory. */
#include "base/array.h"

#include <stdlib.h>

enum { FIRST = 16 };

size_t array_next(size_t needed, size_t room, size_t most, size_t element_bytes)
{
    if (needed > most)
        return 0;
    size_t next = room > most / 2 ? most : room * 2;
    if (next < needed)
        next = needed;
    if (next < FIRST && FIRST <= most)
        next = FIRST;
    return next > PTRDIFF_MAX / element_bytes ? 0 : next;
}

void *array_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes)
{
    if (array && needed <= *room)
        return array;
    const size_t next = array_next(needed, *room, most, element_bytes);
    if (!next)
        return NULL;
    void *grown = realloc(array, next * element_bytes);
    if (grown)
        *room = next;
    return grown;
}
