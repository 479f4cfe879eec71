/* model.h - what a recording says about one program image: live blocks, stacks, time.
 *
 * Owns: the replay of batches into the set of live blocks (an array indexed by slot) and every
 * figure that can be counted on the way, in one pass and in memory that grows with live blocks and
 * distinct stacks only. Refuses: names of functions (see report/), reading of files (see trace/).
 * Single-threaded; one struct model per image.
 *
 * A block is live from the event that made it to the event that released it. Blocks inherited over
 * fork, and with a time filter those made before its start, are live from the start on but are no
 * calls and no requested bytes; they are counted as `carried`. */
#ifndef MALLOW_MODEL_MODEL_H
#define MALLOW_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/mapped.h"
#include "model/threshold.h"
#include "trace/trace.h"

/* Which blocks and calls count. All zero: everything does.
 *  - A call counts when its time, its thread, its size and its stack pass; the release of a block
 *    counts when its time and thread pass and the block counted (or would have, for its size and
 *    stack).
 *  - A block counts when the call that made it passes; with a time filter also when that call was
 *    earlier than from_ns (then it is carried), unless only_new is set.
 *  - With min_lifetime_ns a block begins to count when it has reached that age. */
struct model_filter {
    uint64_t from_ns, to_ns;         /* since the start of the recording; to_ns 0: no end */
    uint64_t min_bytes, below_bytes; /* requested; below_bytes itself is out, 0: no bound */
    uint64_t min_lifetime_ns;        /* 0: any */
    const uint8_t *thread_pass;      /* [thread_count] 1 or 0; NULL: every thread */
    const uint8_t *stack_pass;       /* [stacks + 1] 1 or 0; NULL: every stack */
    bool only_new;                   /* with from_ns: blocks of before do not count */
};

/* One stack (a node id of the image; 0: none recorded). A cache line. */
struct model_stack {
    uint64_t calls;                   /* successful allocations */
    uint64_t allocated_bytes;         /* requested by them */
    uint64_t live_bytes, live_blocks; /* now; after model_finish: at the end */
    uint64_t peak_bytes, peak_blocks; /* live at the moment of the image's peak; after finish */
    uint64_t version;                 /* the version of the peak that peak_bytes was saved for */
    uint64_t temporary;
};

/* The figures of a model's stacks. Most stacks are only callers and have no figures, so each
 * stack has a small number, which leads into a dense array of figures. */
struct model_stacks {
    const uint32_t *place;        /* [0..image->stacks]: in `of`; 0: all its figures are 0 */
    const struct model_stack *of; /* [0]: all are 0 */
};

static inline const struct model_stack *model_stack_of(struct model_stacks s, uint32_t stack)
{
    return &s.of[s.place[stack]];
}

/* True if a stack has figures that are shown; model_distinct_stacks is how many do. No figure
 * implies another: a block that was live before the recording begins (--last) has no call in it. */
static inline bool model_stack_counts(const struct model_stack *s)
{
    return s->calls || s->peak_blocks || s->live_blocks || s->temporary;
}

struct model_thread {
    uint64_t calls; /* API calls; a realloc is one */
    uint64_t allocations, allocated_bytes;
    uint64_t releases;
    uint64_t foreign_frees;   /* releases by this thread of blocks that other threads made */
    uint64_t freed_elsewhere; /* blocks of this thread that others released */
    uint64_t temporary;
    uint64_t live_bytes; /* the live bytes of blocks that this thread made */
};

struct model_count {
    uint64_t count, bytes;
};

/* Requested sizes up to MODEL_EXACT_SIZES are counted one by one, larger ones by their number of
 * bits (index MODEL_EXACT_SIZES + bits). */
#define MODEL_EXACT_SIZES 1024u
#define MODEL_SIZE_COUNTS (MODEL_EXACT_SIZES + 65u)

/* Lifetimes by decade: class c holds [model_lifetime_min_ns(c), model_lifetime_min_ns(c + 1)). */
#define MODEL_LIFETIMES 15u

#define MODEL_BINS 240u

struct model_bin {                    /* a slice of the timeline, all of equal length */
    uint64_t live_bytes, live_blocks; /* at its end */
    uint64_t max_live_bytes;          /* largest within it */
    uint64_t events;                  /* in it */
};

/* Where live blocks lie, from the path bits: index of live_usable. */
enum model_place {
    MODEL_MAIN = 0,     /* glibc's main arena; with other allocators everything */
    MODEL_MMAPPED = 1,  /* glibc: own mapping */
    MODEL_NON_MAIN = 2, /* glibc: other arenas */
    MODEL_PLACES = 4
};

struct model_moment { /* the heap when a split of the resident size was taken */
    uint64_t time_ns;
    uint64_t live_bytes, live_blocks;
    uint64_t live_usable[MODEL_PLACES];
};

#define MODEL_FAILURES 16u
struct model_failure { /* a call that failed */
    uint64_t time_ns, size_bytes;
    uint32_t stack, thread;
    uint8_t op;
};

#define MODEL_CHAINS 8u
struct model_chain {                      /* a block that was resized again and again */
    uint64_t resizes, last_bytes, chains; /* longest chain that ended at this stack; how many */
    uint32_t stack;                       /* the stack of the last realloc */
};

struct model_reallocs {
    uint64_t resized;       /* realloc calls that ended one life and began another */
    uint64_t grown, shrunk; /* those that changed; the rest kept the size */
    uint64_t kept_bytes;    /* sum of min(old, new): copied at most */
    uint64_t chains;        /* blocks that were resized at least once */
    uint64_t by_length[32]; /* chains, by the number of bits of the number of resizes */
    struct model_chain longest[MODEL_CHAINS]; /* by resizes, distinct stacks; `resizes` 0: none */
};

struct model_totals {
    uint64_t calls[MLW_OP_COUNT];  /* by operation; halves and inferred frees are no calls */
    uint64_t failed[MLW_OP_COUNT]; /* those of them that failed */
    uint64_t events;               /* sum of calls */
    uint64_t failed_calls;
    uint64_t allocations;     /* successful ones: blocks that began */
    uint64_t requested_bytes; /* by them */
    uint64_t usable_bytes;    /* given to them */
    uint64_t releases;        /* blocks that were released */
    uint64_t null_frees;
    uint64_t live_bytes, live_blocks;
    uint64_t carried_bytes, carried_blocks;
    uint64_t peak_bytes, peak_blocks; /* blocks: at the moment of the peak of bytes */
    uint64_t peak_time_ns;            /* since the start of the recording; first time it was high */
    uint64_t peak_usable[MODEL_PLACES];
    uint64_t temporary;
    uint64_t cross_thread_frees; /* releases by another thread than the one that allocated */
    uint64_t unknown_frees;
    uint64_t before_frees; /* releases of blocks from before the recording, if it began while the
                              process ran */
    uint64_t inferred_frees;
    uint64_t mapped_bytes, unmapped_bytes; /* by the program's own mmap and munmap calls */
    uint64_t resets;                       /* the program asked to forget the past */
};

struct model;

/* A counted block, as passed to observers. */
struct model_life {
    uint64_t size_bytes, usable_bytes;
    uint64_t born_ns; /* since the start of the recording */
    uint32_t stack;
    uint32_t thread; /* index; UINT32_MAX for inherited blocks */
    uint8_t place;   /* enum model_place */
};

/* An observer of every block's life, in time order. */
struct model_observer {
    void *arg;
    /* A block begins to count. carried: it is no call (inherited, or made before the window). */
    void (*began)(void *arg, const struct model_life *life, uint64_t time_ns, bool carried);
    /* It ends, released by `thread`. call: this release counts (its thread and time pass). */
    void (*ended)(void *arg, const struct model_life *life, uint64_t time_ns, uint32_t thread,
                  bool call, bool temporary);
    /* The program asked to forget the past: nothing is live now. */
    void (*reset)(void *arg, uint64_t time_ns);
};

bool model_filters(const struct model_filter *filter); /* anything; NULL is fine */

/* The columns that model_add needs; it takes TRACE_COL_BEGUN too. */
unsigned model_columns(void);

/* filter may be NULL; what it points to, and image, must outlive the model. */
struct model *model_new(const struct trace_image *image, const struct model_filter *filter,
                        struct error *err);
/* Call it before the first batch. The model then uses its slower loop; the figures are the same.
 * The model keeps the pointers of the observer. */
void model_observe(struct model *m, const struct model_observer *observer);
/* Adds the next batch of the image, in order. */
int model_add(struct model *m, const struct trace_batch *batch, struct error *err);
/* Call it once, after the last batch. It computes the figures that are known only at the end,
 * and releases the live blocks. The getters below are valid after it. */
int model_finish(struct model *m, struct error *err);
void model_free(struct model *m); /* NULL is fine */

/* Forgets the stacks (the large part) but keeps totals. */
void model_shrink(struct model *m);

const struct trace_image *model_image(const struct model *m);
const struct model_totals *model_totals(const struct model *m);
struct model_stacks model_stacks(const struct model *m);         /* NULL's after model_shrink */
uint64_t model_distinct_stacks(const struct model *m);           /* those of model_stack_counts */
const struct model_thread *model_threads(const struct model *m); /* [image->thread_count] */
const struct model_count *model_sizes(const struct model *m);    /* [MODEL_SIZE_COUNTS] */
/* [MODEL_LIFETIMES]: released blocks by age, then one more: blocks live at the end. */
const struct model_count *model_lifetimes(const struct model *m);
uint64_t model_lifetime_min_ns(unsigned lifetime_class);
const struct model_reallocs *model_reallocs(const struct model *m);
/* Bins of the timeline: from *start_ns, each *width_ns wide. */
const struct model_bin *model_timeline(const struct model *m, uint64_t *start_ns,
                                       uint64_t *width_ns, size_t *count);
/* Returns one moment for each of the image's splits, in their order. Splits after the last event
 * have the state of the end. */
const struct model_moment *model_moments(const struct model *m, size_t *count);
/* Returns the program's own mappings, by stack id. NULL if it made none, and for a filtered
 * model, which cannot follow them. */
const struct mapped *model_mapped(const struct model *m);
/* glibc's mmap threshold over time; filters do not change it. */
const struct threshold *model_threshold(const struct model *m);
/* Sets the range of time that the figures cover, since the start of the recording: from the
 * filter's start or the last reset (0: neither) up to, but not including, *to_ns (UINT64_MAX:
 * the end). */
void model_window(const struct model *m, uint64_t *from_ns, uint64_t *to_ns);
bool model_filtered(const struct model *m);                                       /* by anything */
const struct model_failure *model_failures(const struct model *m, size_t *count); /* the first */

#endif
