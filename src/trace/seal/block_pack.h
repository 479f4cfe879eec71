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
    struct seal_block head; /* complete except for `reference`, which packing chooses */
    unsigned reference;     /* the mode that was smaller when it was last tried; packing may try */
    uint32_t refs, sizes, stacks;
    bool any_path, any_route;
    struct bytes far, other, argument, threads_text;
    uint32_t *resync; /* the stack of free slots that the block before left */
    size_t resync_n;
    struct bytes begun; /* the same */
    uint8_t code[SEAL_BLOCK_EVENTS], path[SEAL_BLOCK_EVENTS], route[SEAL_BLOCK_EVENTS],
        address[SEAL_BLOCK_EVENTS];
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
/* Packs and writes the block. Returns 0, or -1 with *err. */
int pack_block(struct pack *p, struct columns *c, struct error *err);

/* A thread that packs one block at a time. All functions are for one thread, the caller's. While
 * the packer has a block, the caller must not use that block, *p, or p's writer. */
struct packer;
/* Starts the thread. Returns NULL without a thread or memory; then the caller packs itself. */
struct packer *packer_open(struct pack *p);
/* Gives a block to the packer, which must have none. */
void packer_give(struct packer *k, struct columns *c);
/* Waits until the packer has no block. Returns 0, or -1 with the error of the last block, at
 * every call. */
int packer_wait(struct packer *k, struct error *err);
/* Waits, and ends the thread. NULL does nothing. */
void packer_close(struct packer *k);

#endif
