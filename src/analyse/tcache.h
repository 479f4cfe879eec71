/* tcache.h - what glibc's per-thread caches hold: freed chunks that only their thread gets again,
 * and that malloc_trim leaves alone.
 *
 * Follows the calls as a glibc that glibc/versions.h knows does, by the recorded tunables
 * tcache_count and tcache_max: a free puts a chunk of up to 1,040 bytes on the stack of its size,
 * of up to 7 or 16, and malloc takes the latest. Of a tcache_max above that nothing is said. What
 * malloc moves there from other lists, and what a realloc frees, is not known: a little more may be
 * in them. A thread's end empties its cache. Memory: 2 KB a thread that frees, and the chunks. One
 * thread. */
#ifndef MALLOW_ANALYSE_TCACHE_H
#define MALLOW_ANALYSE_TCACHE_H

#include <stdbool.h>

#include "trace/trace.h"

struct tcache;

struct tcache_chunk {
    uint64_t address; /* the address of the block that it was */
    uint64_t usable_bytes;
    uint32_t stack; /* the stack of the call that made the block */
    uint8_t path;   /* enum mlw_path, of that call */
};

/* NULL with *failed clear: the allocator has no such caches, or not these. */
struct tcache *tcache_new(const struct trace_image *image, bool *failed);
void tcache_free(struct tcache *t); /* NULL is fine */

/* The largest chunk that a thread's cache takes, in bytes; 0: there are no caches, or it is not
 * known. */
uint64_t tcache_takes(const struct trace_image *image);

/* A block begins; by `op` of enum mlw_op. */
void tcache_allocated(struct tcache *t, uint32_t thread, unsigned op, uint64_t address,
                      uint64_t usable_bytes);
/* A block was freed by `thread`; not by a realloc. False without memory. */
bool tcache_freed(struct tcache *t, uint32_t thread, const struct tcache_chunk *chunk);

/* How many chunks are in the caches of the threads that live at that time, and these, [count]. */
size_t tcache_count(const struct tcache *t, uint64_t time_ns);
void tcache_list(const struct tcache *t, uint64_t time_ns, struct tcache_chunk *list);

#endif
