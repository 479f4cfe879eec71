/* spill.h - arrays that may become larger than memory.
 *
 * Owns: the bound on memory for the arrays of heaps in this process, and the files without a name
 * that hold the rest, one for each array. When a new array does not fit, the oldest ones in memory
 * go to a file, and keep their addresses. Arrays below SPILL_LEAST_BYTES come from malloc and do
 * not count. Large ones grow without being copied, and lie in large pages.
 *
 * Any thread. While an array is made or grows, no other thread may write to any array, except
 * between spill_hold and spill_release. Room in a file is reserved first, so a full disk is an
 * error. A disk that breaks later ends the process, as it does with swap.
 */
#ifndef MALLOW_HEAP_SPILL_H
#define MALLOW_HEAP_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/error.h"

#define SPILL_LEAST_BYTES ((size_t)4 << 20)

/* Sets the bound on memory from now on. file: opens an unnamed file for reading and writing,
 * which is taken over; it returns -1 with *err. file NULL: no files; an array that does not fit
 * is refused. */
void spill_bound(uint64_t most_bytes, int (*file)(struct error *err));

/* Reallocates an array of `old_bytes` (NULL and 0 for a new one) to `new_bytes`. Only arrays
 * that stay large may shrink. The new part is zero if the array was large, or is new. Returns
 * NULL, and leaves the old array unchanged, if there is no room. The caller calls spill_free. */
void *spill_grow(void *old, size_t old_bytes, size_t new_bytes);

/* n elements, all zeros. */
void *spill_zeros(size_t n, size_t element_bytes);

/* As array_room and ARRAY_ROOM of array.h. */
void *spill_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes);
#define SPILL_ROOM(array, needed, room) ARRAY_ROOM_BY(spill_room, array, needed, room)

void spill_free(void *array); /* NULL is fine */

/* Makes an old array count as the newest, because it is needed more than later ones. It has no
 * effect on an array from malloc. */
void spill_renew(const void *array);

/* Begins a phase in which several threads write to arrays: until spill_release, an array that
 * grows moves no other array to a file. Calls nest. */
void spill_hold(void);
void spill_release(void);

struct spill_use {
    uint64_t memory_bytes; /* memory that arrays take */
    uint64_t file_bytes;   /* bytes that arrays take in files */
    uint64_t most_file_bytes;
    uint64_t refused_bytes; /* the size of the last array for which there was no room; 0: none */
    struct error error;     /* why a file could not be had; kind ERROR_NONE: it could */
};

/* Reads the present figures. */
void spill_used(struct spill_use *use);

#endif
