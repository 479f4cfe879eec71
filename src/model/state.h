/* state.h - the inside of a model: what its two loops (fast.c, careful.c) share. */
#ifndef MALLOW_MODEL_STATE_H
#define MALLOW_MODEL_STATE_H

#include "model/mapped.h"
#include "model/model.h"

enum block_state {
    BLOCK_NONE = 0,    /* no block, or one that does not count */
    BLOCK_COUNTED = 1, /* part of the live figures */
    BLOCK_YOUNG = 2    /* passes every filter but has not reached the minimum lifetime */
};

struct model_block { /* 32 bytes; indexed by slot */
    uint64_t size_bytes;
    uint64_t time_ns;
    uint32_t stack;
    uint32_t usable_extra; /* usable - requested bytes, at most UINT32_MAX */
    uint32_t thread;       /* NO_THREAD for inherited blocks */
    union {
        struct {
            uint16_t chain; /* resizes so far, at most UINT16_MAX */
            uint8_t place;  /* enum model_place */
            uint8_t state;  /* enum block_state */
        };
        uint32_t tail; /* the three at once */
    };
};
#define NO_THREAD UINT32_MAX

/* Usable less than requested is of a damaged file. */
static inline uint32_t model_usable_extra(uint64_t size_bytes, uint64_t usable_bytes)
{
    const uint64_t extra = usable_bytes > size_bytes ? usable_bytes - size_bytes : 0;
    return extra < UINT32_MAX ? (uint32_t)extra : UINT32_MAX;
}

struct link { /* young blocks in order of their birth; indexed by slot */
    uint32_t before, after;
    uint8_t op;   /* the call that made it */
    bool carried; /* made before the window of time */
};

struct model_pending { /* the old half of a thread's realloc, until its new half comes */
    uint64_t size_bytes;
    uint32_t chain; /* the chain of the new block; 0: nothing pending */
    bool remapped;  /* the old half of an mremap was a mapping of the program's own */
};

/* Counts of sizes, and behind them of lifetimes: one table, so that a loop without branches can
 * index it for both. */
#define COUNTS (MODEL_SIZE_COUNTS + MODEL_LIFETIMES + 1)

struct model {
    const struct trace_image *image;
    struct model_filter filter;
    bool filtered;                         /* needs the careful loop */
    const struct model_observer *observer; /* NULL: no observer */
    bool in_window, ended;                 /* the time filter's */
    struct model_block *blocks;
    struct link *links; /* NULL unless there is a minimum lifetime */
    uint32_t block_room;
    uint32_t young_first, young_last; /* slots; TRACE_NO_SLOT for none */
    /* These are partial until model_finish adds them up: live_bytes and live_blocks of a stack
     * lack its allocations, live_bytes of a thread lack its allocations, and calls of a thread
     * lack its allocations and releases. Partial values wrap modulo 2^64, so they look huge. */
    struct model_stack *stacks; /* [stack_count + 1]; [0] stays zero */
    uint32_t *places;           /* by stack: in stacks; 0: it has no figures yet */
    uint32_t stack_count;
    struct model_thread *threads;
    struct model_pending *pendings; /* by thread */
    struct model_scratch *scratch;  /* fast.c's; NULL at first */
    uint64_t version;               /* the version of the peak; 0: none yet */
    uint64_t live_usable[MODEL_PLACES];
    uint64_t events_seen, first_event;
    uint64_t inherited_left;
    struct model_totals totals;
    struct model_reallocs reallocs;
    struct model_count counts[COUNTS];
    struct model_failure failures[MODEL_FAILURES];
    size_t failure_count;
    uint64_t distinct_stacks;
    /* the next moment at which the loops stop to take notes */
    uint64_t next_stop_ns;
    struct model_bin *bins;
    size_t bin_count, bin;
    uint64_t bin_start_ns, bin_width_ns, bin_max, bin_events;
    struct model_moment *moments;
    size_t moment_count, moment;
    struct mapped *mapped;
    bool mapped_failed; /* for want of memory */
    struct threshold threshold;
    uint32_t note; /* next note to look at, for resets */
    uint64_t next_reset_ns;
};

extern const uint64_t model_decades[MODEL_LIFETIMES + 1];
extern const uint8_t model_first_decade[64];

static inline unsigned model_lifetime_class(uint64_t age_ns)
{
    unsigned first = model_first_decade[63 - __builtin_clzll(age_ns | 1)];
    return first + (age_ns >= model_decades[first + 1]);
}

static inline unsigned model_size_index(uint64_t size_bytes)
{
    unsigned large = MODEL_EXACT_SIZES + 64u - (unsigned)__builtin_clzll(size_bytes | 1);
    return size_bytes <= MODEL_EXACT_SIZES ? (unsigned)size_bytes : large;
}

static inline unsigned model_place_of(unsigned path)
{
    return path >> 1 & 3; /* MLW_PATH_MMAPPED is 2, MLW_PATH_NON_MAIN is 4 */
}

/* Returns the figures of a stack, which are zero at first. Room for all stacks is reserved, and
 * becomes resident only as it is used. */
static inline struct model_stack *model_figures(struct model *m, uint32_t stack)
{
    uint32_t place = m->places[stack];
    if (__builtin_expect(!place, 0)) {
        place = m->places[stack] = ++m->stack_count;
        m->stacks[place] = (struct model_stack){0};
    }
    return &m->stacks[place];
}

/* Saves what the stack held at the peak of this version, before it changes. While events are added,
 * live_bytes and live_blocks lack the allocations: see struct model. */
static inline struct model_stack *model_touch(struct model_stack *s, uint64_t version)
{
    if (s->version != version) {
        s->peak_bytes = s->allocated_bytes + s->live_bytes;
        s->peak_blocks = s->calls + s->live_blocks;
        s->version = version;
    }
    return s;
}

/* Checks the largest index in each column, so that the loops need no checks, and makes room for
 * the blocks of the batch. Returns -1 with *err for a damaged batch, or without memory. */
int model_check(struct model *m, const struct trace_batch *b, struct error *err);

/* Frees the live blocks, which a finished model does not need. */
void model_settled(struct model *m);

/* Takes the notes that are due at time_ns: everything before it has been added. */
void model_stop(struct model *m, uint64_t time_ns);

/* Events that are neither an allocation nor the release of a known block. */
void model_add_other(struct model *m, const struct trace_batch *b, size_t i);

/* A chain of reallocs ended: its block was released, or is live at the end. */
void model_chain_ended(struct model *m, const struct model_block *block);

/* A realloc's halves. */
void model_realloc_old(struct model *m, uint32_t thread, const struct model_block *old);
/* The release of a block that was resized before, or has a mapping of its own, or by another
 * operation than free. */
void model_release_seldom(struct model *m, uint32_t thread, unsigned op,
                          const struct model_block *block, uint64_t time_ns);

/* Updates the threshold after a block with a mapping of its own was made or released. */
void model_mapping_made(struct model *m, unsigned op, uint64_t size_bytes, uint64_t time_ns);
void model_mapping_freed(struct model *m, unsigned op, const struct model_block *block,
                         uint64_t time_ns);
void model_realloc_new(struct model *m, uint32_t thread, struct model_block *fresh);

/* Adds the events [from, b->n) of a checked batch, without filters. begun: how many events
 * before `from` are ALLOCs. Returns -1 without memory. */
int model_add_fast(struct model *m, const struct trace_batch *b, size_t from, size_t begun);
/* Adds the events [from, to) of a checked batch, with all filters. Returns how many events
 * before `to` are ALLOCs. */
size_t model_add_careful(struct model *m, const struct trace_batch *b, size_t from, size_t to,
                         size_t begun, bool inherited);
/* Lets time go on to end_ns, after the last event: blocks grow old, the window ends. */
void model_end_careful(struct model *m, uint64_t end_ns);

#endif
