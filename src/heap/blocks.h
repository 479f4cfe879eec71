/* blocks.h - all blocks of a heap by number and by address.
 *
 * Owns: 13 bytes a block and 72 a page of 4 KB in which blocks lie: where blocks begin (a bit for
 * every 16 bytes), which of these are used, and how many began before. So a word that may point
 * into a block is looked up in three reads. Blocks are added in the order of their addresses and
 * numbered from 0 on; the number is a block's name everywhere. One thread adds; any number of
 * threads look up afterwards. */
#ifndef MALLOW_HEAP_BLOCKS_H
#define MALLOW_HEAP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/page.h"

enum { BLOCK_GRANULE = 16 };

#define BLOCKS_MAX (UINT32_MAX - 16u)
#define BLOCK_NONE UINT32_MAX

enum block_kind {
    BLOCK_USED = 0,
    BLOCK_MAPPED, /* used, with a mapping of its own: it cannot use a word of a next header */
    BLOCK_EXACT,  /* used, not glibc's: it has no header, and its extent is its bytes */
    BLOCK_FREE,   /* in a list of the arena, or its top */
    BLOCK_FAST,   /* in a fast list */
    BLOCK_CACHED, /* in a thread's cache */
    BLOCK_OWN,    /* the allocator's own: a thread's cache itself */
    BLOCK_GAP     /* no block: memory between blocks */
};

struct blocks_page {
    uint64_t starts[4]; /* a bit for each granule at which a block's header begins */
    uint64_t used[4];   /* which of these are used (blocks_is_used) */
    uint64_t before;    /* blocks that begin on earlier pages */
};

struct blocks {
    uint64_t *address;  /* the address that the program uses */
    uint32_t *granules; /* from the header to the next one's, in units of 16 bytes */
    uint8_t *kind;      /* enum block_kind */
    uint32_t count;
    size_t room;
    struct blocks_page *pages;
    size_t page_count, page_room;
    uint32_t **directory; /* by address >> 30: numbers of pages + 1, by bits 12 to 29 */
    uint64_t low, high;   /* the addresses below which and from which on no block lies */
    uint64_t last_page;   /* private: number of the page added last, + 1 */
};

/* Adds the block whose header is at `header`, a multiple of 16 at or above the end of the block
 * before. Returns 0, or -1 without memory or if there are too many blocks. */
int blocks_add(struct blocks *b, uint64_t header, uint64_t bytes, enum block_kind kind);

/* Changes the kind of a block, for facts that are known only after blocks_add. */
void blocks_set_kind(struct blocks *b, uint32_t block, enum block_kind kind);

/* Computes the bits of used blocks; call it after the last block was added. */
void blocks_done(struct blocks *b);

void blocks_release(struct blocks *b);

/* True for blocks of the program and of the allocator itself, false for free ones. */
static inline bool blocks_is_used(const struct blocks *b, uint32_t block)
{
    uint8_t kind = b->kind[block];
    return kind == BLOCK_USED || kind == BLOCK_MAPPED || kind == BLOCK_EXACT || kind == BLOCK_OWN;
}

/* The bytes from the block's header to the next header. */
static inline uint64_t blocks_whole_bytes(const struct blocks *b, uint32_t block)
{
    return (uint64_t)b->granules[block] * BLOCK_GRANULE;
}

/* The bytes that the program may use, as malloc_usable_size says. */
static inline uint64_t blocks_bytes(const struct blocks *b, uint32_t block)
{
    static const uint8_t lost[] = {
        [BLOCK_USED] = 8,   [BLOCK_MAPPED] = 16, [BLOCK_FREE] = 8,  [BLOCK_FAST] = 8,
        [BLOCK_CACHED] = 8, [BLOCK_OWN] = 8,     [BLOCK_EXACT] = 0, [BLOCK_GAP] = 8};
    return blocks_whole_bytes(b, block) - lost[b->kind[block]]; /* there are no smaller ones */
}

static inline const struct blocks_page *blocks_page_of(const struct blocks *b, uint64_t address)
{
    if (address - b->low >= b->high - b->low)
        return NULL;
    const uint32_t *table = b->directory[address >> 30];
    if (!table)
        return NULL;
    uint32_t page = table[address >> ARCH_PAGE_SHIFT & 0x3ffff];
    return page ? &b->pages[page - 1] : NULL;
}

/* Returns the block, used or not, whose header or bytes hold the address; BLOCK_NONE if there is
 * none. */
uint32_t blocks_covering(const struct blocks *b, uint64_t address);

/* Returns the used block that a pointer of this value points into. A pointer one past the end
 * does not count. BLOCK_NONE if there is none. */
uint32_t blocks_pointed(const struct blocks *b, uint64_t value);

/* As blocks_pointed, for callers that have the page already. */
uint32_t blocks_pointed_on(const struct blocks *b, const struct blocks_page *page, uint64_t value);

#endif
