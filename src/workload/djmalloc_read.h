/* djmalloc_read.h - between djmalloc.c and the reader of raw traces. */
#ifndef MALLOW_WORKLOAD_DJMALLOC_READ_H
#define MALLOW_WORKLOAD_DJMALLOC_READ_H

#include "workload/djmalloc.h"

/* Puts every call of a raw trace (aligned to 8 bytes) into w. -1 with *err. */
int djmalloc_read_trace(const uint8_t *data, size_t bytes, struct workload_writer *w,
                        struct djmalloc_result *result, struct error *err);

#endif
