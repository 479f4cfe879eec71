/* seal_impl.h - what sealing a whole recording (seal.c) and one that grows (draft.c) share: the
 * images under work. No other file includes it. One thread. */
#ifndef MALLOW_TRACE_SEAL_SEAL_IMPL_H
#define MALLOW_TRACE_SEAL_SEAL_IMPL_H

#include "seal.h"

#include "image.h"

/* An image and those forked from it are on a stack while they are worked on. */
struct level {
    struct image_work *work;
    uint32_t image, next, end; /* children still to come */
    uint32_t begun;            /* children that came */
    bool beside;               /* its rows are read by a thread of their own */
    uint64_t limit;            /* clock: rows before it are there; UINT64_MAX: all are */
    uint64_t until;            /* clock: rows before it were asked for */
    uint64_t bytes_done;       /* when a child was entered */
};

/* An image of a recording that grows. */
struct seal_met {
    bool entered, finished;
    uint32_t begun;       /* finished: how many children it had */
    uint64_t facts;       /* finished: see draft.c */
    uint64_t marks_until; /* finished: clock of its last call */
};

struct sealing {
    struct raw *raw;
    struct timebase time;
    struct seal_writer writer;
    struct block_writer *blocks;
    uint32_t *children;    /* images in the order of their starts, by image forked from */
    uint32_t *first_child; /* range of children by image */
    uint32_t placed;       /* how many of children[] are placed */
    uint32_t roots_begun;  /* how many that were forked from none have begun */
    uint32_t images;
    uint64_t bytes_done;  /* the bytes of the images that are finished */
    uint64_t bytes_below; /* the bytes of those on the stack below the top */
    bool cut_forks;       /* there are more generations of forks than are followed */
    struct image_totals totals;
    const struct seal_how *how;
    enum image_fate *fates; /* by image */
    uint64_t cut;           /* clock where the window of a flight recorder begins; 0: everything */
    bool may_read;          /* a thread may read rows, and none does */
    struct carry_out *fold; /* rows before `cut` are folded into it; nothing is sealed */
    struct level *levels;
    size_t depth, level_room;
    bool growing;
    struct seal_met *met; /* [met_room] by image; NULL: it does not grow */
    size_t met_room;
};

/* Orders the images and decides the fate of each. Call it again when there are more images.
 * Returns 0, or -1 with *err. */
int seal_plan(struct sealing *s, struct error *err);
uint64_t seal_start_of(const struct raw_image *m);
int seal_make_blocks(struct sealing *s, uint64_t calls, struct error *err);
/* Lets a thread read the rows of an image, if that pays and no thread reads yet. */
void seal_read_beside(struct sealing *s, struct level *l);
/* Works for a while. Returns 2 if there is more to do, 1 if the file must grow first, 0 if all
 * is done, or -1 with *err. */
int seal_step(struct sealing *s, struct error *err);
int seal_write_facts(struct sealing *s, enum seal_type type, const struct file_facts *f,
                     struct error *err);
struct file_facts seal_facts_of(const struct raw *r, const struct timebase *t);
void seal_release(struct sealing *s);

/* Called for an image of a growing recording, before and after its image_finish. */
void seal_draft_finishing(struct sealing *s, const struct level *l);

#endif
