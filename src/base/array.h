/* array.h - arrays that grow by doubling.
 *
 * An array is three variables of its owner: a pointer (NULL at first), how many elements it has,
 * and how many it has room for (any unsigned type). The owner frees the pointer. Tools only; any
 * thread, no state. */
#ifndef MALLOW_BASE_ARRAY_H
#define MALLOW_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The number of elements to make room for: twice as many, at least `needed`, at most `most`. 0:
 * more are needed, or more bytes than there can be. */
size_t array_next(size_t needed, size_t room, size_t most, size_t element_bytes);

/* Room for `needed` elements, at most `most`: the array, perhaps moved, with *room as it is now.
 * NULL without memory, or when more are needed: the old array then stands as it was. */
void *array_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes);

/* True if there is room for `needed` elements of `array` now; makes it. */
#define ARRAY_ROOM(array, needed, room) ARRAY_ROOM_BY(array_room, array, needed, room)

/* The same by a function as array_room, which is called only when there is none. */
#define ARRAY_ROOM_BY(function, array, needed, room)                                               \
    __extension__({                                                                                \
        const size_t needed_ = (needed);                                                           \
        bool there_ = (array) != NULL && needed_ <= (room);                                        \
        if (!there_) {                                                                             \
            size_t room_ = (room);                                                                 \
            void *grown_ =                                                                         \
                function(array, needed_, &room_, (__typeof__(room))SIZE_MAX, sizeof *(array));     \
            there_ = grown_ != NULL;                                                               \
            if (there_) {                                                                          \
                (array) = grown_;                                                                  \
                (room) = (__typeof__(room))room_;                                                  \
            }                                                                                      \
        }                                                                                          \
        there_;                                                                                    \
    })

/* Appends a zeroed element and yields a pointer to it, or NULL. */
#define ARRAY_ADD(array, n, room)                                                                  \
    __extension__({                                                                                \
        ARRAY_ROOM(array, (size_t)(n) + 1, room)                                                   \
        ? memset(&(array)[(n)++], 0, sizeof *(array)) : NULL;                                      \
    })

#endif
