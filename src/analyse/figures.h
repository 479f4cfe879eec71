/* figures.h - the figures by which call sites are added up and put in order. */
#ifndef MALLOW_ANALYSE_FIGURES_H
#define MALLOW_ANALYSE_FIGURES_H

#include "model/model.h"

enum metric { BY_PEAK, BY_END, BY_ALLOCATED, BY_TEMPORARY, BY_CALLS, METRICS };

struct figures { /* of one stack, or the sum of several */
    uint64_t calls, allocated_bytes;
    uint64_t peak_bytes, peak_blocks; /* live at the peak of the process */
    uint64_t end_bytes, end_blocks;   /* live at its end */
    uint64_t temporary;
};

static inline void figures_add(struct figures *sum, const struct model_stack *s)
{
    sum->calls += s->calls;
    sum->allocated_bytes += s->allocated_bytes;
    sum->peak_bytes += s->peak_bytes;
    sum->peak_blocks += s->peak_blocks;
    sum->end_bytes += s->live_bytes;
    sum->end_blocks += s->live_blocks;
    sum->temporary += s->temporary;
}

static inline void figures_join(struct figures *sum, const struct figures *f)
{
    sum->calls += f->calls;
    sum->allocated_bytes += f->allocated_bytes;
    sum->peak_bytes += f->peak_bytes;
    sum->peak_blocks += f->peak_blocks;
    sum->end_bytes += f->end_bytes;
    sum->end_blocks += f->end_blocks;
    sum->temporary += f->temporary;
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
    /* Whether a frame is left out among callers. NULL: none is. */
    bool (*hidden)(void *arg, uint32_t frame);
};

#endif
