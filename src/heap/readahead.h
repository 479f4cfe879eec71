/* readahead.h - a target's memory, read ahead for a thread that goes through it from lower to
 * higher addresses.
 *
 * Owns: the threads that read, and where they are. After a leap nothing is read ahead. One thread
 * asks. */
#ifndef MALLOW_HEAP_READAHEAD_H
#define MALLOW_HEAP_READAHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "remote/target.h"

struct readahead;

/* threads: the number of processors; with one, nothing is read ahead. Returns NULL without
 * memory. */
struct readahead *readahead_open(struct target *t, unsigned threads);
void readahead_close(struct readahead *a); /* NULL is fine */

/* Returns the bytes from `at` on, and in *bytes how many are available: fewer than `least` only
 * if no more can be read. They are valid until the next call. end: the first address that is not
 * needed soon. at: a multiple of 16; least: at most 16. */
const uint8_t *readahead_at(struct readahead *a, uint64_t at, uint64_t end, size_t least,
                            size_t *bytes);

#endif
