/* group.h - stacks grouped by the frame they stand at: one level of a tree of callers.
 *
 * A tree is built from the allocation outwards, level by level and only where it is printed, so
 * that only frames that are printed (and their siblings) need names. */
#ifndef MALLOW_ANALYSE_GROUP_H
#define MALLOW_ANALYSE_GROUP_H

#include "analyse/figures.h"

#define NO_FRAME UINT32_MAX /* the stack ends here */

struct group_cursor { /* a stack, and how far along it we are */
    uint32_t stack;
    uint32_t node;     /* 0: past its outermost frame */
    uint32_t position; /* among the frames of the node */
    uint32_t frame;    /* filled in by group_step and group_frames: id, or NO_FRAME */
};

struct group {
    uint32_t frame;
    size_t first, count; /* a range of cursors */
    struct figures figures;
};

/* A cursor at the innermost frame of every stack. Returns the number, or -1. *cursors is the
 * caller's to free. */
long group_start(const struct model *m, struct group_cursor **cursors, struct error *err);

/* Moves cursors at the innermost frames of their stacks to the call sites. */
void group_to_sites(const struct frame_source *source, struct group_cursor *cursors, size_t count);

/* Puts the cursors in groups by the frame that they stand at, largest first; groups whose metric is
 * 0 are left out. Returns the number of groups, or -1. *groups is the caller's to free. Cursors are
 * reordered. */
long group_frames(const struct model *m, const struct frame_source *source, enum metric by,
                  struct group_cursor *cursors, size_t count, struct group **groups,
                  struct error *err);

/* group_step, and then group_frames. */
long group_callers(const struct model *m, const struct frame_source *source, enum metric by,
                   struct group_cursor *cursors, size_t count, struct group **groups,
                   struct error *err);

/* The call sites of all stacks, found once for every metric. Zeroed at first. */
struct group_sites {
    struct group_cursor *cursors; /* at the call sites, those of a group together */
    struct group *groups;         /* [count] in no order that matters */
    size_t count;
    struct figures whole;
    uint64_t stacks[METRICS]; /* with something of the metric */
    bool made;
};

/* Finds them, unless they were. source: the same each time. */
int group_sites_make(struct group_sites *s, const struct model *m,
                     const struct frame_source *source, struct error *err);
/* The groups as group_frames gives them. The number of groups, or -1. */
long group_sites_by(const struct group_sites *s, enum metric by, struct group **groups,
                    struct error *err);
void group_sites_release(struct group_sites *s);

/* Moves cursors to the caller. */
void group_step(const struct model *m, const struct frame_source *source,
                struct group_cursor *cursors, size_t count);

#endif
