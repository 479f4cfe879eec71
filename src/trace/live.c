#include "live.h"

#include <stdlib.h>
#include <string.h>

void live_free(struct live *l)
{
    free(l->blocks);
    free(l->free_slots);
    free(l->keys);
    free(l->slots);
    memset(l, 0, sizeof *l);
}

uint32_t live_find(const struct live *l, uint64_t address)
{
    if (!l->keys)
        return LIVE_NONE;
    for (size_t h = live_hash(address) & l->mask; l->keys[h]; h = (h + 1) & l->mask)
        if (l->keys[h] == address)
            return l->slots[h];
    return LIVE_NONE;
}

static bool rehash(struct live *l)
{
    size_t cap = l->keys ? (l->mask + 1) * 2 : 1024;
    uint64_t *keys = calloc(cap, sizeof *keys);
    uint32_t *slots = malloc(cap * sizeof *slots);
    if (!keys || !slots) {
        free(keys);
        free(slots);
        return false;
    }
    for (size_t i = 0; l->keys && i <= l->mask; i++)
        if (l->keys[i]) {
            size_t h = live_hash(l->keys[i]) & (cap - 1);
            while (keys[h])
                h = (h + 1) & (cap - 1);
            keys[h] = l->keys[i];
            slots[h] = l->slots[i];
        }
    free(l->keys);
    free(l->slots);
    l->keys = keys;
    l->slots = slots;
    l->mask = cap - 1;
    return true;
}

uint32_t live_add(struct live *l, uint64_t address, uint64_t size)
{
    /* Short searches while the table fits the cache, half full when it does not. */
    if ((!l->keys || (size_t)l->count * (l->mask < 1u << 16 ? 4 : 2) > l->mask) && !rehash(l))
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
            struct live_block *b = realloc(l->blocks, cap * sizeof *b);
            if (b)
                l->blocks = b;
            uint32_t *f = realloc(l->free_slots, cap * sizeof *f);
            if (f)
                l->free_slots = f;
            if (!b || !f)
                return LIVE_NONE;
            l->cap = cap;
        }
        slot = l->used++;
    }
    size_t h = live_hash(address) & l->mask;
    while (l->keys[h])
        h = (h + 1) & l->mask;
    l->keys[h] = address;
    l->slots[h] = slot;
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
    size_t h = live_hash(b->address) & l->mask;
    while (l->keys[h] != b->address)
        h = (h + 1) & l->mask;
    for (size_t i = h;;) { /* close the gap: nothing may lie behind an empty place it passed */
        i = (i + 1) & l->mask;
        if (!l->keys[i])
            break;
        size_t home = live_hash(l->keys[i]) & l->mask;
        if (((i - home) & l->mask) >= ((i - h) & l->mask)) {
            l->keys[h] = l->keys[i];
            l->slots[h] = l->slots[i];
            h = i;
        }
    }
    l->keys[h] = 0;
    b->live = false;
    l->count--;
    l->bytes -= b->size;
    l->free_slots[l->top++] = slot;
}
