/* large.h - arrays that may become large and are read here and there.
 *
 * Owns: how such memory is asked of the system. In pages of 4 KB nearly every access to a table of
 * tens of megabytes misses the processor's list of pages as well as its caches; where the system
 * has large pages on request only, malloc's memory is not among them. Tools only; any thread. */
#ifndef MALLOW_BASE_LARGE_H
#define MALLOW_BASE_LARGE_H

#include <stddef.h>

#include "base/array.h"

/* realloc to `new_bytes` for an array of `old_bytes` (NULL and 0: a first one), in large pages once
 * it fills some; shrinks nothing. The result goes to free. NULL without memory: then the old array
 * is unchanged. */
void *large_grow(void *old, size_t old_bytes, size_t new_bytes);

/* calloc of so many bytes, likewise. */
void *large_zeroed(size_t bytes);

/* As array_room and ARRAY_ROOM of array.h. */
void *large_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes);
#define LARGE_ROOM(array, needed, room) ARRAY_ROOM_BY(large_room, array, needed, room)

#endif
