/* block_pack.h - a filled block of columns becomes a section of the file.
 *
 * Owns: the arrays of a block between being filled (block_write.c) and being written; compressing
 * them; the thread that may do so (struct packer). Filling and packing never have a block at the
 * same time. Memory: 7 MB a struct columns, of which small blocks touch little. */
#ifndef MALLOW_TRACE_SEAL_BLOCK_PACK_H
#define MALLOW_TRACE_SEAL_BLOCK_PACK_H

#include "trace/sealed/block.h"

struct columns {
    uint32_t image;
    uint64_t number;
    struct seal_block head; /* all but what packing chooses: `reference` */
    unsigned reference;     /* the mode that was smaller when it was last tried; packing may try */
    uint32_t refs, sizes, stacks;
    bool any_path;
    struct bytes far, other, argument, threads_text;
    uint32_t *resync; /* the stack of free slots that the block before left */
    size_t resync_n;
    struct bytes begun; /* the same */
    uint8_t code[SEAL_BLOCK_EVENTS], path[SEAL_BLOCK_EVENTS], address[SEAL_BLOCK_EVENTS];
    uint32_t thread[SEAL_BLOCK_EVENTS], ref[SEAL_BLOCK_EVENTS], distance[SEAL_BLOCK_EVENTS],
        stack[SEAL_BLOCK_EVENTS], began[SEAL_BLOCK_EVENTS];
    uint64_t size[SEAL_BLOCK_EVENTS], time[SEAL_BLOCK_EVENTS], usable[SEAL_BLOCK_EVENTS];
    /* For the blocks that begin or end, in the order of events: addresses here, usable bytes in
     * `usable`. Packing makes address, far and usable of them. */
    uint64_t where[SEAL_BLOCK_EVENTS];
};

struct columns *columns_new(void); /* NULL without memory */
void columns_free(struct columns *c);

/* The state of packing. */
struct pack {
    struct seal_writer *w;
    struct section section;
    struct bytes scratch;
};
void pack_free(struct pack *p);
/* Writes the block. 0 or -1. */
int pack_block(struct pack *p, struct columns *c, struct error *err);

/* A thread that packs one block at a time. Functions are for one thread, the caller's; while it has
 * a block, the caller must not touch that block, nor *p and its writer. */
struct packer;
/* NULL when there is no thread or memory to be had: the caller packs by itself. */
struct packer *packer_open(struct pack *p);
/* It must have none. */
void packer_give(struct packer *k, struct columns *c);
/* Until it has none. 0, or -1 with what went wrong with the last one, as often as it is asked. */
int packer_wait(struct packer *k, struct error *err);
/* Waits, and ends the thread. NULL does nothing. */
void packer_close(struct packer *k);

#endif
