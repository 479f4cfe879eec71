/* parallel.h - loops over many elements on several processors.
 *
 * Owns: the threads. They end before a function here returns; where none can be had, the caller's
 * does all. */
#ifndef MALLOW_HEAP_PARALLEL_H
#define MALLOW_HEAP_PARALLEL_H

#include <stddef.h>

/* Calls `part` for pieces of [0, n), in any order, by at most so many threads at once. */
void parallel_ranges(unsigned threads, size_t n, void (*part)(void *arg, size_t from, size_t to),
                     void *arg);

/* Calls both functions; at the same time if `threads` is above 1. */
void parallel_both(unsigned threads, void (*one)(void *), void *one_arg, void (*other)(void *),
                   void *other_arg);

#endif
