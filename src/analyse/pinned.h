/* pinned.h - where the free memory between live blocks lies, and which call sites' blocks keep it.
 *
 * Made from the addresses of the blocks that are live at one moment. A page with a live block on it
 * stays resident whatever else was freed there: what is free on it is pinned, in equal shares, by
 * the blocks on it. Whole free pages below a live block are given back only when somebody asks
 * (malloc_trim), or when that block and all above it are gone: they count as below it. Known are
 * addresses, not which pages are resident.
 *
 * With glibc, heaps are told apart: the program break's, and those of other arenas, which begin at
 * multiples of 64 MiB. Of other allocators nothing is known but pages: all is one heap, and
 * free pages between blocks are not counted. Blocks with a mapping of their own are left out.
 * Memory: 24 bytes for each block live at one time, 32 for each stack. One thread. */
#ifndef MALLOW_ANALYSE_PINNED_H
#define MALLOW_ANALYSE_PINNED_H

#include "base/error.h"
#include "trace/trace.h"

#define PINNED_PAGE_BYTES 4096u

enum pinned_kind { PINNED_MAIN, PINNED_ARENA, PINNED_OTHER, PINNED_KINDS };

struct pinned_heap {
    enum pinned_kind kind;
    uint64_t address; /* PINNED_ARENA: where the heap begins; else the lowest block's page */
    uint64_t live_blocks;
    uint64_t live_bytes;    /* usable */
    uint64_t header_bytes;  /* of these blocks: 8 each with glibc */
    uint64_t span_bytes;    /* of the pages from the lowest to the highest block */
    uint64_t pinned_bytes;  /* free on pages with live blocks */
    uint64_t between_bytes; /* whole free pages below the highest block */
};

struct pinned_stack {
    uint64_t live_blocks, live_bytes; /* usable, in heaps */
    uint64_t pinned_bytes, below_bytes;
};

struct pinned {
    uint64_t time_ns;
    bool glibc;
    struct pinned_heap *heaps; /* [count], by address */
    size_t count;
    struct pinned_heap sum[PINNED_KINDS]; /* of the heaps of a kind; address: how many */
    struct pinned_stack *stacks;          /* [image->stacks + 1] */
};

/* The columns that pinned_add needs. */
unsigned pinned_columns(void);

struct pinned_reader;
/* The moment is just before the events of time_ns. NULL with *err set. */
struct pinned_reader *pinned_new(const struct trace_image *image, uint64_t time_ns,
                                 struct error *err);
/* The next batch of the image. 1: go on; 0: the moment has come; -1 with *err set. */
int pinned_add(struct pinned_reader *r, const struct trace_batch *b, struct error *err);
/* Gives the reader back and fills *p, which is to be released. */
int pinned_finish(struct pinned_reader *r, struct pinned *p, struct error *err);
void pinned_discard(struct pinned_reader *r); /* NULL is fine */
void pinned_release(struct pinned *p);

#endif
