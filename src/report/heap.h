/* heap.h - where the free memory of the heap lay when the resident size was split near the peak,
 * and which call sites' blocks keep it. Private to report/. */
#ifndef MALLOW_REPORT_HEAP_H
#define MALLOW_REPORT_HEAP_H

#include "analyse/pinned.h"
#include "analyse/resident.h"
#include "frames/names.h"

struct heap_view {
    bool known;              /* false: the members below are not valid */
    struct resident_view at; /* from resident_at_peak */
    struct pinned pinned;    /* the blocks of that moment */
};

/* The free memory of a kind of heaps, as the kernel counts it, and where it is. The parts add up to
 * free_bytes. */
struct heap_free {
    int64_t free_bytes;    /* resident less usable bytes of live blocks */
    int64_t header_bytes;  /* headers of live blocks */
    int64_t pinned_bytes;  /* on pages with live blocks */
    int64_t between_bytes; /* whole free pages below the highest block, taken to be resident */
    int64_t top_bytes;     /* the rest: above the highest block; negative: that much of the above is
                              not resident */
};

/* Reads an image again, up to the split that resident_at_peak chooses for m, a finished model
 * without a filter. h->known stays false if m has a filter, a reset, or no split. Returns 0, or
 * -1 with *err. */
int heap_find(struct trace *t, uint32_t image, const struct model *m, struct heap_view *h,
              struct error *err);
void heap_release(struct heap_view *h);

/* Returns the free memory of a kind of heaps. For PINNED_OTHER, where heaps cannot be
 * distinguished, free_bytes includes the program's own mappings. */
struct heap_free heap_free_of(const struct heap_view *h, enum pinned_kind kind);

/* Returns the stacks whose blocks keep free memory, as indices into p->stacks, sorted by pinned
 * plus below bytes, largest first. The caller frees the array; NULL without memory. */
uint32_t *heap_keepers(const struct pinned *p, size_t *count);

#endif
