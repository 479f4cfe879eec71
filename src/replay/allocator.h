/* allocator.h - what the allocator under test says of itself, where it says anything.
 *
 * Owns: which library serves malloc, and the questions that each known allocator answers. Nothing
 * here allocates. Any thread of the replay, between calls of the workload. */
#ifndef MALLOW_REPLAY_ALLOCATOR_H
#define MALLOW_REPLAY_ALLOCATOR_H

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>

/* The file that malloc comes from; "?" when that cannot be known. */
const char *allocator_file(void);

bool allocator_is_glibc(void);

/* True if the C library, and not the allocator under test, answers calls of this code (a call of a
 * workload), or none does. A block that it made there would be of another heap. */
bool allocator_lacks(unsigned code);

/* The code of the call that stands in for one that the allocator lacks: the nearest that it has.
 * The code itself when it has it; 0 when nothing can stand in. */
unsigned allocator_nearest(unsigned code);

/* Bytes that the allocator holds from the system and has not handed out: glibc's mallinfo2
 * (fordblks), jemalloc's active less allocated, tcmalloc's heap less allocated. Takes the
 * allocator's locks and, with glibc, a step for each free chunk. False when the allocator does not
 * say. */
bool allocator_free_bytes(uint64_t *bytes);

/* glibc's own sums. False with another allocator. */
bool allocator_mallinfo(struct mallinfo2 *info);

#endif
