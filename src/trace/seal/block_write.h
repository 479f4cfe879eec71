/* block_write.h - writes events as blocks of columns (sealed/block.h).
 *
 * Owns: the block being filled, and where each image's blocks go on. All functions are for one
 * thread, the caller's; a block that is full may be packed by another meanwhile (block_pack.h).
 * What goes wrong there is an error of the next function that has one. */
#ifndef MALLOW_TRACE_SEAL_BLOCK_WRITE_H
#define MALLOW_TRACE_SEAL_BLOCK_WRITE_H

#include "block_pack.h"
#include "live.h"

struct block_event {
    uint8_t kind, op, path, route;
    uint32_t thread, stack, slot;
    uint64_t tick, size, usable, address, argument;
};

struct block_writer;
/* calls: of the whole recording, approximately; it decides the size of blocks. threads: how many
 * to use beside the caller's; the file does not depend on it. NULL with *err. */
struct block_writer *block_writer_new(struct seal_writer *w, uint64_t calls, unsigned threads,
                                      struct error *err);
/* Allows the writer to use a thread from now on. */
void block_writer_beside(struct block_writer *b);
void block_writer_free(struct block_writer *b);
/* Returns the writer of the file, for sections other than blocks; valid until the next flush.
 * The caller must not use the file otherwise. NULL with *err. */
struct seal_writer *block_writer_lend(struct block_writer *b, struct error *err);
/* Begins an image (number `image` in the file). */
void block_writer_image(struct block_writer *b, uint32_t image, struct live *live);
/* Between block_writer_image and the end of an image, the writer can be lent to another image:
 * flush, save, use, restore. */
struct block_position {
    uint32_t image;
    struct live *live;
    uint64_t events, tick, allocs, epoch_alloc, blocks;
    uint64_t live_bytes; /* requested */
    uint32_t used, free; /* slots, as in the live table */
    unsigned reference;  /* the mode that was smaller when it was last tried */
    uint32_t *resync;    /* for the next block; owned */
    size_t resync_n;
    struct bytes begun; /* for the next block; owned */
};
int block_writer_save(struct block_writer *b, struct block_position *p, struct error *err);
void block_writer_restore(struct block_writer *b, struct block_position *p);
/* Adds an event. The released block must still be in the live table, an allocated one already.
 * The block of events must not be full. Returns 0, or -1 with *err. */
int block_writer_add(struct block_writer *b, const struct block_event *e, bool is_call,
                     struct error *err);
int block_writer_flush(struct block_writer *b, struct error *err);
/* True if a flush would write nothing. */
bool block_writer_empty(const struct block_writer *b);
/* Forgets the image's events so far; its live table must be empty. Numbers of blocks go on. */
void block_writer_forget(struct block_writer *b);
uint64_t block_writer_blocks(const struct block_writer *b);
uint64_t block_writer_events(const struct block_writer *b);

#endif
