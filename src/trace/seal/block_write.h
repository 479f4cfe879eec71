/* block_write.h - writes events as blocks of columns (sealed/block.h).
 *
 * Owns: the block being filled, and where each image's blocks go on. One thread. */
#ifndef MALLOW_TRACE_SEAL_BLOCK_WRITE_H
#define MALLOW_TRACE_SEAL_BLOCK_WRITE_H

#include "live.h"
#include "trace/sealed/block.h"

struct block_event {
    uint8_t kind, op, path;
    uint32_t thread, stack, slot;
    uint64_t tick, size, usable, address, argument;
};

struct block_writer;
/* `calls`: of the whole recording, about. Its blocks are cut accordingly. */
struct block_writer *block_writer_new(struct seal_writer *w, uint64_t calls, struct error *err);
void block_writer_free(struct block_writer *b);
/* Begins an image (number `image` in the file). */
void block_writer_image(struct block_writer *b, uint32_t image, struct live *live);
/* Between block_writer_image and the end of an image, the writer can be lent to another image:
 * flush, save, use, restore. */
struct block_position {
    uint32_t image;
    struct live *live;
    uint64_t events, tick, allocs, epoch_alloc, blocks;
    unsigned reference; /* the mode that was smaller when it was last tried */
    uint32_t *resync;   /* for the next block; owned */
    size_t resync_n;
    struct bytes begun; /* for the next block; owned */
};
void block_writer_save(struct block_writer *b, struct block_position *p);
void block_writer_restore(struct block_writer *b, struct block_position *p);
/* Adds an event. For a release the block must still be in the live table (it is removed after),
 * for an allocation already there. The block must not be full. 0 or -1. */
int block_writer_add(struct block_writer *b, const struct block_event *e, bool is_call,
                     struct error *err);
int block_writer_flush(struct block_writer *b, struct error *err);
/* Whether it must be flushed (after the table is brought up to date) before the next event. */
bool block_writer_full(const struct block_writer *b);
/* Whether a flush would write nothing. */
bool block_writer_empty(const struct block_writer *b);
/* Forgets the image's events so far (its live table is empty again); numbers of blocks go on. */
void block_writer_forget(struct block_writer *b);
uint64_t block_writer_blocks(const struct block_writer *b);
uint64_t block_writer_events(const struct block_writer *b);

#endif
