/* live.c - Grows the table of live blocks and the stack of free slots, and closes gaps in the
 * hash of addresses. The reader follows the same rule for slots, so the rule is part of the file
 * format. */
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

static void put_live_place(uint64_t *places, size_t mask, uint64_t place)
{
    size_t h = (uint32_t)place & mask;
    while (places[h])
        h = (h + 1) & mask;
    places[h] = place;
}

bool live_grow(struct live *l)
{
    size_t cap = l->places ? (l->mask + 1) * 2 : 1024;
    uint64_t *places = cap > PLACES_MAX ? NULL : large_grow(NULL, 0, cap * sizeof *places);
    if (!places)
        return false;
    memset(places, 0, cap * sizeof *places);
    for (size_t i = 0; l->places && i <= l->mask; i++)
        if (l->places[i])
            put_live_place(places, cap - 1, l->places[i]);
    free(l->places);
    l->places = places;
    l->mask = cap - 1;
    /* Short searches while the table fits the cache, half full when it does not. */
    l->room = (uint32_t)(cap / (l->mask < 1u << 16 ? 8 : 2));
    return true;
}

uint32_t live_new_slot(struct live *l)
{
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
    return l->used++;
}

void live_close_gap(struct live *l, size_t at)
{
    for (size_t i = at;;) {
        i = (i + 1) & l->mask;
        if (!l->places[i])
            break;
        size_t home = (uint32_t)l->places[i] & l->mask;
        if (((i - home) & l->mask) >= ((i - at) & l->mask)) {
            l->places[at] = l->places[i];
            at = i;
        }
    }
    l->places[at] = 0;
}
