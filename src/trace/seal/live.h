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

#include "base/fetch.h"

#define LIVE_NONE UINT32_MAX
#define LIVE_NEAR 0x7ffu /* a mask: its places, and as many blocks as there may be, are near */

struct live_block {
    uint64_t address, size, usable;
    uint64_t born;         /* number of allocations of the image before this one */
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
    uint32_t room;      /* live blocks that the table has room for */
    uint32_t used;      /* slots ever used */
    uint32_t top;       /* height of the stack */
    uint32_t least_top; /* since it was set */
    uint32_t count;     /* live */
    uint64_t bytes;     /* requested, live */
};

void live_free(struct live *l);
/* A place of the table holds the slot and a part of the address's hash, which nearly always
 * distinguishes blocks. The hash gives the preferred position, so places move without a look at
 * the blocks. */
#define LIVE_PLACE(slot, hash) (((uint64_t)(slot) + 1) << 32 | (hash))
#define LIVE_PLACE_SLOT(place) ((uint32_t)((place) >> 32) - 1)

static inline uint32_t live_hash(uint64_t address)
{
    return (uint32_t)(address * 0x9e3779b97f4a7c15u >> 32);
}
/* Returns the slot of the block at the address (not 0), or LIVE_NONE. *at: its place, or the
 * place where it belongs; valid until the table changes. */
static inline uint32_t live_find_at(const struct live *l, uint64_t address, size_t *at)
{
    const uint32_t hash = live_hash(address);
    size_t h = hash & l->mask;
    *at = h;
    if (!l->places)
        return LIVE_NONE;
    for (uint64_t place; (place = l->places[h]); h = (h + 1) & l->mask)
        if ((uint32_t)place == hash) {
            const uint32_t slot = LIVE_PLACE_SLOT(place);
            if (l->blocks[slot].address == address) {
                *at = h;
                return slot;
            }
        }
    *at = h;
    return LIVE_NONE;
}
static inline uint32_t live_find(const struct live *l, uint64_t address)
{
    size_t at;
    return live_find_at(l, address, &at);
}
/* These fetch the memory that live_find_at will read for an address, and then the block. They
 * pay when the table is larger than the processor's near caches. */
static inline bool live_is_far(const struct live *l) { return l->mask > LIVE_NEAR; }
FETCHES live_prefetch(const struct live *l, uint64_t address)
{
    __builtin_prefetch(&l->places[live_hash(address) & l->mask]);
}
FETCHES live_prefetch_block(const struct live *l, uint64_t address)
{
    const uint32_t hash = live_hash(address);
    const uint64_t place = l->places[hash & l->mask];
    if (place && (uint32_t)place == hash) {
        const struct live_block *b = &l->blocks[LIVE_PLACE_SLOT(place)];
        __builtin_prefetch(b, 1);
        __builtin_prefetch((const char *)(b + 1) - 1, 1); /* it may reach over two lines */
    }
}
/* Makes room for one more block; call it before live_find_at. Returns false without memory. */
bool live_grow(struct live *l);
static inline bool live_reserve(struct live *l) { return l->count < l->room || live_grow(l); }
/* Returns a slot that was never used, for live_add_at. LIVE_NONE without memory or slots. */
uint32_t live_new_slot(struct live *l);
/* Adds a block at an address that is not live, at its place, and returns its slot. It sets
 * address, size and live; the caller sets the other fields. LIVE_NONE without memory or slots. */
static inline uint32_t live_add_at(struct live *l, uint64_t address, uint64_t size, size_t at)
{
    uint32_t slot;
    if (__builtin_expect(l->top, 1)) {
        slot = l->free_slots[--l->top];
        if (l->top < l->least_top)
            l->least_top = l->top;
    } else if ((slot = live_new_slot(l)) == LIVE_NONE) {
        return LIVE_NONE;
    }
    l->places[at] = LIVE_PLACE(slot, live_hash(address));
    struct live_block *b = &l->blocks[slot];
    b->address = address;
    b->size = size;
    b->live = true;
    l->count++;
    l->bytes += size;
    return slot;
}
/* Moves entries back over an emptied place, so that a search finds all entries without passing
 * an empty place. */
void live_close_gap(struct live *l, size_t at);
/* Removes the block at the place. Its fields except `live` stay valid until the slot is used
 * again. */
static inline void live_remove_at(struct live *l, uint32_t slot, size_t at)
{
    struct live_block *b = &l->blocks[slot];
    l->places[at] = 0;
    if (l->places[(at + 1) & l->mask])
        live_close_gap(l, at);
    b->live = false;
    l->count--;
    l->bytes -= b->size;
    l->free_slots[l->top++] = slot;
}

#endif
