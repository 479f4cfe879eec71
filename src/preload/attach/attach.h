/* attach.h - the parts of libmallow-attach.so, which is put into a process that runs already.
 *
 * It samples as libmallow-watch.so does, with the same tables, segment and unwinder (../watch), but
 * sampled blocks stay in the allocator: each call goes through to it with the program's own
 * arguments, and only its result is remembered. So the library can come and go at any moment, and a
 * call that gets past it costs a sample, never a block. It exports nothing that a program binds to.
 *
 *   entry.c     the functions that the program's bindings lead to
 *   calls.c     what happens to a call that hit a sampled byte, or may take back a sampled block
 *   held.c      which addresses are sampled
 *   locked.c    work that is done under the dynamic linker's lock (redirect.h)
 *   confine.c   seccomp: nothing more is done behind a filter
 *   process.c   beginning, fork, exec, the end
 *
 * Threads: as ../watch/watcher.h says. After the end the entries stay: threads may be inside them,
 * and pointers to them may have been kept. They only pass calls on then. */
#ifndef MALLOW_PRELOAD_ATTACH_ATTACH_H
#define MALLOW_PRELOAD_ATTACH_ATTACH_H

#include "../watch/watcher.h"
#include "redirect.h"

/* ---- held.c ---- */

/* By bits 4 to 19 of an address: how many sampled blocks there are of them, 255 for good. entry.c
 * reads it. */
#define HELD_FILTER_BYTES 65536u
extern HIDDEN uint8_t held_filter[HELD_FILTER_BYTES];

HIDDEN bool held_init(uint32_t samples);
/* The block at `address` is that sample. False: no room. */
HIDDEN bool held_put(uint64_t address, uint32_t sample);
/* The sample of that address, which is held no more; NO_INDEX: none. One caller gets it. */
HIDDEN uint32_t held_take(uint64_t address);
HIDDEN void held_forget_all(void); /* while nothing is put */
static inline __attribute__((always_inline, unused)) bool held_maybe(const void *p)
{
    return held_filter[(uint64_t)p >> 4 & (HELD_FILTER_BYTES - 1)] != 0;
}

/* ---- calls.c ---- */

/* Every sampled block is forgotten, and counts as nothing. */
HIDDEN void calls_forget(void);

#endif
