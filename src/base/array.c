/* array.c - see array.h. */
#include "base/array.h"

#include <stdlib.h>

enum { FIRST = 16 };

void *array_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes)
{
    if (array && needed <= *room)
        return array;
    if (needed > most)
        return NULL;
    size_t next = *room > most / 2 ? most : *room * 2;
    if (next < needed)
        next = needed;
    if (next < FIRST && FIRST <= most)
        next = FIRST;
    if (next > PTRDIFF_MAX / element_bytes)
        return NULL;
    void *grown = realloc(array, next * element_bytes);
    if (grown)
        *room = next;
    return grown;
}
