/* places.h - where glibc's heaps and the stacks of threads lie in a process that is recorded, in
 * glibc's own words.
 *
 * Owns: the list that the split of the resident size asks. A heap of an arena begins with its
 * arena's address, and an arena lies behind the first words of its first heap: read in the process,
 * and believed when they agree. The recorder reports the memory that the main arena has besides the
 * program break. Stacks come from glibc's rings of thread descriptors. Everything read is hostile:
 * it is bounded, and decides only what memory is called. One thread. */
#ifndef MALLOW_RECORD_PLACES_H
#define MALLOW_RECORD_PLACES_H

#include "base/error.h"
#include "format/session.h"
#include "record/smaps.h"

struct places {
    struct smaps_place *at; /* [n] */
    size_t n, room;
};

struct handle;
struct places_reading;
/* Fills hints->places and the members that belong to it, for the process of the handle, which
 * must stay open. Heaps are included if the entry gives their size. Without memory it leaves the
 * hints as they are. text: the text of /proc/PID/smaps. *h keeps its memory for the next call.
 * The caller calls places_end when the hints are not used any more. */
struct places_reading *places_begin(struct places *h, const struct handle *handle,
                                    const struct mlw_process *entry, const char *text, size_t n,
                                    struct smaps_hints *hints);
void places_end(struct places_reading *r); /* NULL is fine */
void places_release(struct places *h);

#endif
