/* pinned.h - where the free memory between live blocks lies, and which call sites' blocks keep it.
 *
 * Made from the addresses of the blocks that are live at one moment. A page with a live block on it
 * stays resident whatever else was freed there: its free bytes are pinned, in equal shares, by the
 * blocks on it. Whole free pages below a live block are given back only on request (malloc_trim),
 * or when that block and all above it are gone: they count as below it. Known are addresses, not
 * which pages are resident.
 *
 * With glibc, heaps are distinguished: the program break's, other memory of the main arena, and
 * those of other arenas, which begin at multiples of their size. Of other allocators nothing is
 * known but pages: all is one heap, and free pages between blocks are not counted. Blocks with a
 * mapping of their own are left out. Which arena a heap is of glibc says itself (seen_heaps.h). An
 * arena is known from its first block on, whether any of its blocks are live or not. Memory: 32
 * bytes for each block live at one time, three times while a moment is worked out; 80 for each
 * moment and stack with blocks then. One thread. */
#ifndef MALLOW_ANALYSE_PINNED_H
#define MALLOW_ANALYSE_PINNED_H

#include "analyse/pinned_state.h"
#include "base/error.h"
#include "trace/trace.h"

struct pinned_block { /* 32 bytes */
    uint64_t address, usable_bytes, size_bytes;
    uint32_t stack;
    uint8_t path; /* enum mlw_path */
    bool there;
    bool cached; /* not live: in a thread's cache */
    bool late;   /* glibc: made when the heaps had held a third more than they did then */
};

/* The columns that pinned_add needs. */
unsigned pinned_columns(void);

struct pinned_reader;
/* Moments, in the order of time, each just before the events of its times_ns[i]. The pointed-to
 * arrays must outlive the reader; results[i] is filled when its moment has come, and to be released
 * by the caller, on failure too: they begin zeroed. caches: chunks in the caches of glibc's threads
 * (tcache.h) count as in use, not as free. NULL with *err set. */
struct pinned_reader *pinned_new(const struct trace_image *image, const uint64_t *times_ns,
                                 struct pinned *results, size_t count, bool caches,
                                 struct error *err);
/* The state at a moment, and the blocks of which it was made, by address: those in heaps, without
 * overlaps, and cached chunks. All is valid until it returns. -1 with *err set ends the pass. */
typedef int pinned_visit(void *arg, size_t moment, const struct pinned *p,
                         const struct pinned_block *blocks, size_t count, struct error *err);
/* The same, with caches, for many moments: each is shown and forgotten. */
struct pinned_reader *pinned_visitor(const struct trace_image *image, const uint64_t *times_ns,
                                     size_t count, pinned_visit *visit, void *arg,
                                     struct error *err);
/* Shows each moment of pinned_new as well. */
void pinned_watch(struct pinned_reader *r, pinned_visit *visit, void *arg);
/* Within a visit of a reader without results: the state is the caller's, to be released. */
struct pinned pinned_take(struct pinned_reader *r);
/* The next batch of the image. 1: go on; 0: the last moment has come; -1 with *err set. */
int pinned_add(struct pinned_reader *r, const struct trace_batch *b, struct error *err);
/* Fills the rest, as of the end, and frees the reader. */
int pinned_finish(struct pinned_reader *r, struct error *err);
void pinned_discard(struct pinned_reader *r); /* NULL is fine */
/* All of it over an image; r: as the functions above gave it, NULL with *err set included. */
int pinned_read(struct pinned_reader *r, struct trace *t, uint32_t image, struct error *err);
void pinned_release(struct pinned *p);

#endif
