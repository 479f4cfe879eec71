/* live.h - the live blocks of an image while it is sealed, and the slots that name them.
 *
 * Owns: the rule of slots, which the reader mirrors: a released slot goes on top of a stack of free
 * ones; a new block takes the top, or, when there is none, the lowest slot never used. Memory:
 * about 80 bytes a slot, in large pages. One thread. */
#ifndef MALLOW_TRACE_SEAL_LIVE_H
#define MALLOW_TRACE_SEAL_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_NONE UINT32_MAX

struct live_block {
    uint64_t address, size, usable;
    uint64_t born;         /* allocations of the image before it */
    uint32_t stack;        /* the recorder's id */
    uint32_t thread, turn; /* its thread, and how many allocations that thread had made */
    uint8_t op, path;
    bool live;
};

struct live {
    struct live_block *blocks; /* by slot */
    uint32_t *free_slots;      /* the stack */
    uint64_t *places;          /* open addressing: LIVE_PLACE of each live block; 0: empty */
    size_t mask, cap;
    uint32_t used;      /* slots ever used */
    uint32_t top;       /* height of the stack */
    uint32_t least_top; /* since it was set */
    bool from_stack;    /* whether the last live_add took a slot from the stack */
    uint32_t count;     /* live */
    uint64_t bytes;     /* requested, live */
};

void live_free(struct live *l);
/* A place of the table: the slot, and enough of the address's hash to distinguish blocks nearly
 * always. The hash says where the place would be best, so places move without a look at blocks. */
#define LIVE_PLACE(slot, hash) (((uint64_t)(slot) + 1) << 32 | (hash))
#define LIVE_PLACE_SLOT(place) ((uint32_t)((place) >> 32) - 1)

static inline uint32_t live_hash(uint64_t address)
{
    uint64_t h = address * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h ^ h >> 32);
}
/* The slot of the block at the address (not 0), or LIVE_NONE. */
static inline uint32_t live_find(const struct live *l, uint64_t address)
{
    if (!l->places)
        return LIVE_NONE;
    const uint32_t hash = live_hash(address);
    for (size_t h = hash & l->mask; l->places[h]; h = (h + 1) & l->mask)
        if ((uint32_t)l->places[h] == hash) {
            const uint32_t slot = LIVE_PLACE_SLOT(l->places[h]);
            if (l->blocks[slot].address == address)
                return slot;
        }
    return LIVE_NONE;
}
/* Fetches what live_find of the address will look at, and then what its block is made of. */
static inline void live_prefetch(const struct live *l, uint64_t address)
{
    if (l->places)
        __builtin_prefetch(&l->places[live_hash(address) & l->mask]);
}
static inline void live_prefetch_block(const struct live *l, uint64_t address)
{
    if (l->places) {
        const uint32_t hash = live_hash(address);
        const uint64_t place = l->places[hash & l->mask];
        if (place && (uint32_t)place == hash) {
            const struct live_block *b = &l->blocks[LIVE_PLACE_SLOT(place)];
            __builtin_prefetch(b, 1);
            __builtin_prefetch((const char *)(b + 1) - 1, 1); /* it may reach over two lines */
        }
    }
}
/* A slot for a new block at an address that is not live; its fields are the caller's to set, but
 * address and size. LIVE_NONE without memory or slots. */
uint32_t live_add(struct live *l, uint64_t address, uint64_t size);
void live_remove(struct live *l, uint32_t slot);

#endif
