/* pages.h - the free memory of a heap by page: what malloc_trim would give back, and who keeps the
 * rest.
 *
 * Owns: the rules of glibc's malloc_trim(0): free blocks that lie side by side become one (those of
 * fast lists, too); of each, the whole pages behind its header go back; the main arena gives up the
 * end of its top; threads' caches and the tops of other arenas are kept. One thread. */
#ifndef MALLOW_HEAP_PAGES_H
#define MALLOW_HEAP_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/glibc.h"
#include "remote/target.h"
#include "heap/walk.h"

struct pages_pinned { /* a page in memory that holds free bytes, and blocks that keep them there */
    uint64_t page;    /* its address */
    uint32_t block;   /* the first block that has a part on the page */
    uint32_t free_bytes;
};

struct pages {
    bool resident_known;      /* false for a core: then every page counts as resident */
    uint64_t trimmable_bytes; /* resident, and malloc_trim would return them */
    uint64_t pinned_bytes;    /* resident and free, on pages that also hold blocks in use */
    uint64_t kept_bytes;      /* resident and free, on pages of their own that stay */
    struct pages_pinned *at;  /* by address */
    size_t count, room;
};

/* Counts the free memory by page, after the walk and while the target's memory can be read. Free
 * memory that is not resident counts nowhere. Returns -1 without memory. */
int pages_find(struct pages *p, struct target *t, const struct walk *w, const struct glibc *g);
void pages_release(struct pages *p);

/* Distributes the free bytes of every pinned page over the blocks in use that lie on it, in
 * proportion to their bytes there. The `free_bytes` of all calls add up to pinned_bytes, rounding
 * aside. */
typedef void pages_share(void *arg, uint32_t block, double free_bytes);
void pages_share_out(const struct pages *p, const struct blocks *b, pages_share *share, void *arg);

#endif
