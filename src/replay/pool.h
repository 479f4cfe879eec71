/* pool.h - pools of memory for the blocks of chosen call sites, as a program could have them.
 *
 * Owns: chunks of 64 KiB, each of one pool and one class of sizes (16 bytes apart up to 1 KiB, then
 * an eighth), a list of free blocks for each; a pool keeps what it was given. The memory is the
 * kernel's. Any thread. */
#ifndef MALLOW_REPLAY_POOL_H
#define MALLOW_REPLAY_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "workload/format.h"

#define POOL_BLOCK_MAX (32u << 10) /* bytes: of larger blocks the allocator takes care */

struct pools;

/* NULL without address space for them. *mapped_bytes: so much of it they take. */
struct pools *pools_new(size_t *mapped_bytes);

/* A block of pool 1 to WORKLOAD_POOLS, aligned to 16 bytes; NULL without memory, or when it is
 * larger than POOL_BLOCK_MAX. Its contents are whatever they are. */
void *pools_allocate(struct pools *p, unsigned pool, size_t size_bytes);

/* Bytes of the block's class; 0: it is of no pool. */
size_t pools_usable(const struct pools *p, const void *block);
void pools_free(struct pools *p, void *block); /* block: a pool's */

#endif
