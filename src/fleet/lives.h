/* lives.h - every block of an image, with its whole life. Private to fleet/.
 *
 * Owns: putting a release to its allocation. Memory grows with the most blocks live at once. Times
 * are ns since the start of the recording; threads are indices of the image. One thread. */
#ifndef MALLOW_FLEET_LIVES_H
#define MALLOW_FLEET_LIVES_H

#include "base/error.h"
#include "trace/trace.h"

struct lives_block {
    uint64_t number; /* from 1: by the moment of the release; then those live at the end */
    uint64_t size_bytes, address, allocated_ns, freed_ns;
    uint32_t stack;            /* the stack of the allocation */
    uint32_t thread, freed_by; /* UINT32_MAX: not known */
    bool freed, temporary;
};
typedef int lives_fn(void *arg, const struct lives_block *b, struct error *err);

/* Calls `block` for each, in the order of their numbers, which every reading of the image gives
 * alike. */
int lives_read(struct trace *t, uint32_t image, lives_fn *block, void *arg, struct error *err);

#endif
