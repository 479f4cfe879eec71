/* sites.h - stacks that read the same, put together.
 *
 * Several stacks of return addresses can have the same names from end to end (an unrolled loop, a
 * library loaded twice). A site is all of them: its frames are those that a person can
 * distinguish. */
#ifndef MALLOW_ANALYSE_SITES_H
#define MALLOW_ANALYSE_SITES_H

#include "analyse/figures.h"

struct site {
    struct figures figures;
    uint32_t tip; /* its innermost frame in sites.frame[]; 0: no stack was recorded */
};

struct sites {
    struct site *items; /* by the metric asked for, largest first; see sites_build_top */
    size_t count;
    /* A forest of frames, outermost at the roots. [1..frame_count] */
    uint32_t *parent; /* index; 0: outermost */
    uint32_t *frame;  /* id of frame_source */
    uint32_t frame_count;
    /* [stacks + 1] the tip of the site that a stack belongs to; 0 also for those that are of none.
     */
    uint32_t *tip_of;
};

/* All sites of a finished model that allocated or hold anything. */
int sites_build(struct sites *s, const struct model *m, const struct frame_source *source,
                enum metric by, struct error *err);
/* The same, of which only the first `top` are in order, and the others behind them. */
int sites_build_top(struct sites *s, const struct model *m, const struct frame_source *source,
                    enum metric by, uint64_t top, struct error *err);
/* True if `a` comes before `b`, which is another one. */
bool sites_before(const struct site *a, const struct site *b, enum metric by);
void sites_release(struct sites *s);

#endif
