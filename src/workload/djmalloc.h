/* djmalloc.h - the two formats of the tracing malloc in glibc's branch dj/malloc.
 *
 * Owns: its raw traces (records of 64 bytes, in the order in which threads took a place in the
 * file, which is not always the order in which they acted) and its workloads (.wl), read and
 * written. Neither has times. One thread. */
#ifndef MALLOW_WORKLOAD_DJMALLOC_H
#define MALLOW_WORKLOAD_DJMALLOC_H

#include "base/error.h"
#include "workload/writer.h"

enum djmalloc_kind { DJMALLOC_NEITHER, DJMALLOC_TRACE, DJMALLOC_WORKLOAD };

/* The kind of the file at `path` by its first bytes. */
enum djmalloc_kind djmalloc_kind(const char *path);

struct djmalloc_result {
    uint64_t records;   /* with a call in them */
    uint64_t reordered; /* held back because another thread's record had to come first */
    uint64_t forced;    /* taken although it never came: an address given out twice */
};

/* Converts a trace or a workload into the workload `out`. -1 with *err. */
int djmalloc_convert(const char *path, enum djmalloc_kind kind, const char *out,
                     struct workload_written *written, struct djmalloc_result *result,
                     struct error *err);

/* Writes the workload `path` as a trace or a .wl. They have no word for aligned_alloc,
 * reallocarray, sized frees, and blocks from before: these become memalign, realloc, free, and
 * malloc; *changed counts them. In a trace addresses are made up, and the records stand in recorded
 * order. -1 with *err. */
int djmalloc_write(const char *path, enum djmalloc_kind kind, const char *out, uint64_t *changed,
                   struct error *err);

#endif
