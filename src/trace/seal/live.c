#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

#define PLACES_MAX ((size_t)1 << 32) /* as many as hashes can distinguish */

void live_free(struct live *l)
{
    free(l->blocks);
    free(l->free_slots);
    free(l->places);
    memset(l, 0, sizeof *l);
}

static void put_place(uint64_t *places, size_t mask, uint64_t place)
{
    size_t h = (uint32_t)place & mask;
    while (places[h])
        h = (h + 1) & mask;
    places[h] = place;
}

static bool rehash(struct live *l)
{
    size_t cap = l->places ? (l->mask + 1) * 2 : 1024;
    uint64_t *places = cap > PLACES_MAX ? NULL : large_grow(NULL, 0, cap * sizeof *places);
    if (!places)
        return false;
    memset(places, 0, cap * sizeof *places);
    for (size_t i = 0; l->places && i <= l->mask; i++)
        if (l->places[i])
            put_place(places, cap - 1, l->places[i]);
    free(l->places);
    l->places = places;
    l->mask = cap - 1;
    return true;
}

uint32_t live_add(struct live *l, uint64_t address, uint64_t size)
{
    /* Short searches while the table fits the cache, half full when it does not. */
    if ((!l->places || (size_t)l->count * (l->mask < 1u << 16 ? 4 : 2) > l->mask) && !rehash(l))
        return LIVE_NONE;
    uint32_t slot;
    l->from_stack = l->top != 0;
    if (l->top) {
        slot = l->free_slots[--l->top];
        if (l->top < l->least_top)
            l->least_top = l->top;
    } else {
        if (l->used >= UINT32_MAX - 1)
            return LIVE_NONE;
        if (l->used == l->cap) {
            size_t cap = l->cap ? l->cap + l->cap / 2 : 1024;
            struct live_block *b = large_grow(l->blocks, l->cap * sizeof *b, cap * sizeof *b);
            if (b)
                l->blocks = b;
            uint32_t *f = large_grow(l->free_slots, l->cap * sizeof *f, cap * sizeof *f);
            if (f)
                l->free_slots = f;
            if (!b || !f)
                return LIVE_NONE;
            l->cap = cap;
        }
        slot = l->used++;
    }
    put_place(l->places, l->mask, LIVE_PLACE(slot, live_hash(address)));
    struct live_block *b = &l->blocks[slot];
    memset(b, 0, sizeof *b);
    b->address = address;
    b->size = size;
    b->live = true;
    l->count++;
    l->bytes += size;
    return slot;
}

void live_remove(struct live *l, uint32_t slot)
{
    struct live_block *b = &l->blocks[slot];
    const uint64_t place = LIVE_PLACE(slot, live_hash(b->address));
    size_t h = (uint32_t)place & l->mask;
    while (l->places[h] != place)
        h = (h + 1) & l->mask;
    for (size_t i = h;;) { /* close the gap: nothing may lie behind an empty place it passed */
        i = (i + 1) & l->mask;
        if (!l->places[i])
            break;
        size_t home = (uint32_t)l->places[i] & l->mask;
        if (((i - home) & l->mask) >= ((i - h) & l->mask)) {
            l->places[h] = l->places[i];
            h = i;
        }
    }
    l->places[h] = 0;
    b->live = false;
    l->count--;
    l->bytes -= b->size;
    l->free_slots[l->top++] = slot;
}
