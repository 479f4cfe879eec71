/* djmalloc_read.h - between djmalloc.c, the reader of raw traces, and the writers. */
#ifndef MALLOW_WORKLOAD_DJMALLOC_READ_H
#define MALLOW_WORKLOAD_DJMALLOC_READ_H

#include "workload/djmalloc.h"

/* Codes of a .wl. */
enum {
    WL_NOP,
    WL_DONE,
    WL_MALLOC,
    WL_CALLOC,
    WL_REALLOC,
    WL_FREE,
    WL_SYNC_W,
    WL_SYNC_R,
    WL_ALLOC_PTRS,
    WL_ALLOC_SYNCS,
    WL_NTHREADS,
    WL_START_THREAD,
    WL_MEMALIGN,
    WL_VALLOC,
    WL_PVALLOC,
    WL_POSIX_MEMALIGN
};

/* Puts every call of a raw trace (aligned to 8 bytes) into w. -1 with *err. */
int djmalloc_read_trace(const uint8_t *data, size_t bytes, struct workload_writer *w,
                        struct djmalloc_result *result, struct error *err);

#endif
