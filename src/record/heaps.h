/* heaps.h - where glibc's heaps lie in a process that is recorded, in glibc's own words.
 *
 * Owns: the list that the split of the resident size asks. A heap of an arena begins with its
 * arena's address, and an arena lies behind the first words of its first heap: read in the process,
 * and believed when they agree. What the main arena has besides the program break its recorder has
 * said. Everything read is hostile: it is bounded, and decides only what memory is called. One
 * thread. */
#ifndef MALLOW_RECORD_HEAPS_H
#define MALLOW_RECORD_HEAPS_H

#include "base/error.h"
#include "format/session.h"
#include "record/smaps.h"

struct heaps {
    struct smaps_heap *at; /* [n] */
    size_t n, room;
};

/* Of the process of the handle, which must stay open: fills hints->heaps and what belongs to it,
 * when entry says how large heaps are; else, and without memory, leaves it. *h keeps its memory for
 * the next time. text: of /proc/PID/smaps. The descriptors that it needs stay open until heaps_end.
 */
struct handle;
struct heaps_reading;
struct heaps_reading *heaps_begin(struct heaps *h, const struct handle *handle,
                                  const struct mlw_process *entry, const char *text, size_t n,
                                  struct smaps_hints *hints);
void heaps_end(struct heaps_reading *r); /* NULL is fine */
void heaps_release(struct heaps *h);

#endif
