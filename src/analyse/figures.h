/* figures.h - the figures by which call sites are added up and put in order. */
#ifndef MALLOW_ANALYSE_FIGURES_H
#define MALLOW_ANALYSE_FIGURES_H

#include "model/model.h"

enum metric { BY_PEAK, BY_END, BY_ALLOCATED, BY_TEMPORARY, BY_CALLS, METRICS };

/* X(member, of struct model_stack, key): the figures of a call site, in the order in which JSON has
 * them; key: their name there. */
#define SITE_FIGURES(X)                                                                            \
    X(calls, calls, "calls")                                                                       \
    X(allocated_bytes, allocated_bytes, "allocated_bytes")                                         \
    X(peak_bytes, peak_bytes, "peak_bytes") /* live at the peak of the process */                  \
    X(peak_blocks, peak_blocks, "peak_blocks")                                                     \
    X(end_bytes, live_bytes, "end_live_bytes") /* live at its end */                               \
    X(end_blocks, live_blocks, "end_live_blocks")                                                  \
    X(temporary, temporary, "temporary")

struct figures { /* one stack's, or the sums of several */
#define FIGURES_MEMBER(member, of, key) uint64_t member;
    SITE_FIGURES(FIGURES_MEMBER)
#undef FIGURES_MEMBER
};

static inline void figures_add(struct figures *sum, const struct model_stack *s)
{
#define FIGURES_ADD(member, of, key) sum->member += s->of;
    SITE_FIGURES(FIGURES_ADD)
#undef FIGURES_ADD
}

static inline void figures_join(struct figures *sum, const struct figures *f)
{
#define FIGURES_JOIN(member, of, key) sum->member += f->member;
    SITE_FIGURES(FIGURES_JOIN)
#undef FIGURES_JOIN
}

/* The size of a block that was allocated there, on average. */
static inline uint64_t figures_mean(const struct figures *f)
{
    return f->calls ? f->allocated_bytes / f->calls : 0;
}

/* By how much each grew: signed, modulo 2^64. */
static inline struct figures figures_growth(const struct figures *old, const struct figures *now)
{
    struct figures growth;
#define FIGURES_GROWTH(member, of, key) growth.member = now->member - old->member;
    SITE_FIGURES(FIGURES_GROWTH)
#undef FIGURES_GROWTH
    return growth;
}

static inline uint64_t figures_metric(const struct figures *f, enum metric by)
{
    switch (by) {
    case BY_PEAK: return f->peak_bytes;
    case BY_END: return f->end_bytes;
    case BY_ALLOCATED: return f->allocated_bytes;
    case BY_TEMPORARY: return f->temporary;
    default: return f->calls;
    }
}

/* Where frames come from: the layer above knows names, this one does not. Two frames are the same
 * when their ids are. */
struct frame_source {
    void *arg;
    /* The frames at a node, innermost (inlined) first; at least one for a node that is not 0. The
     * ids hold until the next call. */
    size_t (*frames)(void *arg, uint32_t node, const uint32_t **ids);
    /* Where the call site of a stack stands, behind what only allocates on its behalf: the node,
     * and which of its frames. False: it has none. NULL: each stack's innermost frame is one. */
    bool (*site)(void *arg, uint32_t stack, uint32_t *node, uint32_t *position);
    /* True if a frame is left out among callers. NULL: none is. */
    bool (*hidden)(void *arg, uint32_t frame);
};

#endif
