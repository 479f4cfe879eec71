/* describe.h - what a process says of itself in its PROCESS chunk.
 *
 * One thread: before the program's first, or with the recorder's lock. No libc state, no memory but
 * its own mappings. */
#ifndef MALLOW_PRELOAD_RECORD_DESCRIBE_H
#define MALLOW_PRELOAD_RECORD_DESCRIBE_H

#include "recorder.h"

struct tlvs {
    uint8_t *at, *end;
};

/* Appends one; nothing, where it has no room. */
HIDDEN void describe_put(struct tlvs *t, unsigned tag, const void *data, size_t n);

/* Gathers once what a child of fork has in common with its parent: recorder.description. Without
 * the environment, only the settings of allocators in it. */
HIDDEN void describe_process(bool with_environment);

#endif
