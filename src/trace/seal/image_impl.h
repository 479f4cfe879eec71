/* image_impl.h - what the parts of the work on one image share: image.c turns rows into events,
 * image_facts.c writes what names them and what the image says of itself. No other file includes
 * it. One thread an image. */
#ifndef MALLOW_TRACE_SEAL_IMAGE_IMPL_H
#define MALLOW_TRACE_SEAL_IMAGE_IMPL_H

#include "image.h"

#include "ahead.h"
#include "carry_out.h"
#include "faulted.h"
#include "nodes.h"

struct image_thread {
    uint64_t calls, start, end; /* clocks */
    uint64_t lost_said;         /* by LOST rows */
    uint32_t turn;              /* allocations */
    bool ended, due;            /* due: image_names_write has something to write about it */
    uint32_t tid;
    const char *name;
};

struct note {
    uint64_t clock;
    uint32_t thread;
    uint8_t control;
    const char *label;
};

/* The facts that name events and are in the file already. */
struct image_early {
    uint32_t sections; /* EARLY sections written */
    bool described;    /* the process is, since the last reset */
    uint32_t nodes;    /* dense ids 1..nodes are */
    uint32_t *unknown; /* nodes to be written again, because their meaning was not known */
    size_t unknown_count, unknown_cap;
    size_t modules;    /* elements of modules[] */
    uint32_t *threads; /* those that are due */
    size_t thread_count, thread_cap;
    size_t notes;         /* elements of notes[] */
    uint64_t marks_until; /* clock: marks from outside, up to here */
    size_t outside;       /* marks from outside that are in it */
};

/* A flight recorder's memory of the time before its window. While an image is `silent`, its rows
 * lead to live blocks and sums and to no events. Memory: 16 bytes a slot, 24 a stack, 32 a call
 * site of each slice. */
#define CARRY_SLICES 32u

struct carry_sum {
    uint64_t calls, bytes, temporary;
};

struct carry_site {
    uint32_t stack, slice; /* the recorder's id; index into slices[] */
    struct carry_sum sum;
};

struct carry {
    enum image_fate fate;
    uint64_t cut;
    struct carry_origin {
        uint64_t tick, argument;
    } * origins; /* by slot */
    size_t origin_cap;
    struct carry_sum *sums; /* the sums of this slice, by the recorder's id of the stack */
    size_t sum_cap;
    struct carry_slice {
        uint64_t from, to; /* clocks */
    } slices[2 * CARRY_SLICES];
    uint32_t slice_count;
    struct carry_site *sites; /* the sites of earlier slices */
    size_t site_count, site_cap;
    struct merge_position *where; /* IMAGE_FOLDED: by stream of the image; sequence UINT32_MAX: at
                                     its beginning */
};

struct carry_block {
    struct live_block block;
    struct carry_origin origin;
};

struct image_work {
    struct raw *recording;
    const struct raw_image *raw;
    struct raw_stream *const *streams;
    const struct timebase *time;
    struct image_work *parent;
    uint32_t index; /* the index of the recording's images */
    uint32_t number, parent_number;
    uint32_t thread_room; /* room in threads[] */
    struct block_writer *blocks;
    struct block_position saved;
    struct feed *feed;
    struct ahead ahead;
    struct live live;
    struct arena arena;
    struct nodes nodes;
    struct pair_map module_map;
    struct trace_module *modules;
    size_t module_count, module_cap;
    struct image_thread *threads;
    struct note *notes;
    size_t note_count, note_cap;
    struct kernel_run kernel;
    struct faulted *faulted; /* NULL: there are no faults */
    uint32_t tid;            /* the thread whose row is being taken; 0: none */
    uint32_t *used;          /* by dense id: the recorder's id */
    size_t used_count, used_cap;
    uint64_t calls, inherited, first_block, allocs, start_clock, last_clock, unreadable,
        reset_clock;
    struct image_early early;
    bool silent;  /* before the window: rows change the live blocks, but are not events */
    bool stopped; /* folding ended early, because a call is in progress */
    const char *carry_note;
    uint64_t marks_from; /* clock: marks from outside before it are left out */
    struct carry *carry; /* NULL: the recording is not a flight recorder's */
};

/* --- image.c --- */

/* The dense id of the recorder's node `id`, made at its first use; 0 stays 0. UINT32_MAX without
 * memory. */
uint32_t image_dense_id_new(struct image_work *g, uint32_t id);
static inline uint32_t image_dense_id(struct image_work *g, uint32_t id)
{
    const struct node *n = nodes_find(&g->nodes, id);
    return n && n->dense ? n->dense : image_dense_id_new(g, id);
}

/* Takes a row that is not a call. Returns 0, or -1 with *err. */
int image_take_meta(struct image_work *g, const struct mlw_row *r, uint32_t thread,
                    struct error *err);
/* Sets the meaning of the recorder's node `id`. Returns 0, or -1 without memory. */
int image_node(struct image_work *g, uint32_t id, const struct node *node);

/* Returns how many marks from outside there are up to the clock, which are those in EARLY
 * sections up to there. */
size_t image_outside_marks(const struct image_work *g, uint64_t until);

/* --- image_calls.c --- */

/* Writes the facts that name the events of the block in the making, and then the block, which is
 * not the image's last. Returns 0, or -1 with *err. */
int image_write_block(struct image_work *g, struct error *err);
/* Adds a block to the live table, and as an event unless the image is silent. Returns 0, or -1
 * with *err. */
int image_begin_block(struct image_work *g, const struct block_event *e, uint32_t stack,
                      uint32_t turn, bool is_call, struct error *err);

/* --- image_facts.c --- */

/* Notes that a fact of the thread must be written before the next block. Returns 0, or -1
 * without memory. */
int image_thread_due(struct image_work *g, uint32_t thread);
/* Notes that the meaning of the recorder's node `id` changed, or became known. Returns 0, or -1
 * without memory. */
int image_node_changed(struct image_work *g, uint32_t id);
/* Writes the facts that name the events so far and are not in the file yet, before a block that
 * is not the image's last. Returns 0, or -1 with *err. */
int image_names_write(struct image_work *g, struct error *err);

/* Returns the node of a dense id; NULL if its row was not seen. *module: 1 + its index; 0: none. */
const struct node *image_node_of(const struct image_work *g, uint32_t dense, uint32_t *module);

/* --- image_named.c --- */

/* Appends the namer's names for the image's nodes, as records of MLW_TLV_NAMES. Returns 0, or -1
 * without memory. */
int image_name(const struct image_work *g, const struct trace_namer *namer, struct bytes *out,
               struct error *err);

/* --- image_carry.c, image_carry_file.c --- */

/* These functions return false, or -1 with *err, without memory. */
int carry_begin(struct image_work *g, enum image_fate fate, uint64_t cut, struct error *err);
void carry_free(struct carry *c);
/* Reads the CARRIED chunks of the image. */
int carry_load(struct image_work *g, struct error *err);
/* Counts a call before the window, which becomes no event. */
bool carry_count(struct image_work *g, const struct block_event *e, bool is_call);
bool carry_origin(struct image_work *g, uint32_t slot, const struct block_event *e);
void carry_taken(struct image_work *g, const struct merge_row *a);
/* True if the rows before the window are done. head: the next row, NULL at the end. */
bool carry_is_due(struct image_work *g, const struct merge_row *head, uint64_t until);
/* True if the image has a window and must begin it now. */
bool carry_speaks(const struct image_work *g);
int carry_speak(struct image_work *g, struct error *err);
/* Lists the live blocks, oldest first. The caller frees the list. NULL without memory. */
struct carry_block *carry_gather(const struct image_work *g);
/* Returns the dense number of a thread of the image by the recorder's number; UINT32_MAX: none. */
uint32_t carry_thread(const struct image_work *g, uint32_t number);

/* ---- image_kernel.c ---- */

/* Makes the image's arrays of faults, levels and moments, from a clock on. f: the resolved
 * faults; NULL: none. Returns false without memory. The caller calls image_kernel_facts_free in
 * both cases. */
bool image_kernel_facts(const struct kernel_run *r, const struct faulted *f,
                        const struct timebase *t, uint64_t from_clock, struct trace_image *m);
void image_kernel_facts_free(const struct trace_image *m);

#endif
