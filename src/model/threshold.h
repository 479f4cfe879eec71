/* threshold.h - glibc's mmap threshold over time, as far as a recording shows.
 *
 * A block of this size or more that no free memory serves gets a mapping of its own. It is 128 KiB
 * at the start; freeing a block with a mapping of its own raises it to that block's size, up to 32
 * MiB, unless the environment set one of the settings that end this. Settings by mallopt are not
 * recorded: they show when a block with a mapping of its own is too small. One thread. */
#ifndef MALLOW_MODEL_THRESHOLD_H
#define MALLOW_MODEL_THRESHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"

struct threshold_step { /* from time_ns on (since the start of the recording) it is so many bytes */
    uint64_t time_ns, bytes;
};

enum threshold_doubt {                            /* why it is not known */
                       THRESHOLD_KNOWN,           /* it is */
                       THRESHOLD_OTHER_ALLOCATOR, /* there is none */
                       THRESHOLD_INHERITED, /* a fork keeps its parent's, which may have been raised
                                             */
                       THRESHOLD_LOST_CALLS,   /* one of them may have raised it */
                       THRESHOLD_CONTRADICTED, /* a smaller block had a mapping of its own: the
                                                  program set it */
                       THRESHOLD_NO_MEMORY
};

enum threshold_start {
    THRESHOLD_ASSUMED,    /* the default; the environment was not recorded */
    THRESHOLD_DEFAULT,    /* the recorded environment does not set it */
    THRESHOLD_ENVIRONMENT /* it does */
};

struct threshold {
    enum threshold_doubt doubt;
    enum threshold_start start;
    bool fixed;                   /* frees do not raise it */
    struct threshold_step *steps; /* [count], rising; the first at the start of the image */
    size_t count, room;
    uint64_t contradiction_bytes, contradiction_ns; /* with THRESHOLD_CONTRADICTED: the request */
};

void threshold_begin(struct threshold *t, const struct trace_image *image);
/* A call of malloc or calloc for size_bytes got a mapping of its own. */
void threshold_mapped(struct threshold *t, uint64_t size_bytes, uint64_t time_ns);
/* A block with a mapping of its own was freed, not resized. */
void threshold_freed(struct threshold *t, uint64_t usable_bytes, uint64_t time_ns);
void threshold_release(struct threshold *t);

#endif
