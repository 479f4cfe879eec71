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

/* Bytes that the allocator holds from the system and has not handed out: glibc's mallinfo2
 * (fordblks), jemalloc's active less allocated, tcmalloc's heap less allocated. Takes the
 * allocator's locks and, with glibc, a step for each free chunk. False when the allocator does not
 * say. */
bool allocator_free_bytes(uint64_t *bytes);

/* glibc's own sums. False with another allocator. */
bool allocator_mallinfo(struct mallinfo2 *info);

#endif
