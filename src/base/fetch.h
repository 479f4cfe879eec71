/* fetch.h - functions that ask for memory before it is needed, and do nothing else.
 *
 * gcc 12 takes such a function for one without effect, since it only reads. It drops calls of it,
 * unless the function was inlined by then. */
#ifndef MALLOW_BASE_FETCH_H
#define MALLOW_BASE_FETCH_H

#define FETCHES static inline __attribute__((always_inline)) void

#endif
