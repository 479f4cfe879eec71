/* intern.c - Stores each distinct string once in blocks of memory that live as long as the
 * owner, and finds it by a hash. It also hands out memory from the same blocks. */
#include "symbol/intern.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

struct intern_block {
    struct intern_block *next;
    size_t used, room;
    alignas(max_align_t) unsigned char bytes[];
};

uint64_t intern_hash(const void *bytes, size_t size_bytes, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u ^ (size_bytes * 0xff51afd7ed558ccdu);
    for (; size_bytes >= 8; size_bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
        h ^= h >> 29;
    }
    for (; size_bytes; size_bytes--, p++)
        h = (h ^ *p) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 29);
}

static void *intern_take_room(struct intern *in, size_t size_bytes, size_t align)
{
    struct intern_block *b = in->block;
    size_t at = b ? (b->used + align - 1) & ~(align - 1) : 0;
    if (!b || at > b->room || size_bytes > b->room - at) {
        size_t room = size_bytes > BLOCK_BYTES / 4 ? size_bytes : BLOCK_BYTES;
        if (room > SIZE_MAX - sizeof *b)
            return NULL;
        struct intern_block *fresh = malloc(sizeof *b + room);
        if (!fresh)
            return NULL;
        fresh->used = 0;
        fresh->room = room;
        in->size_bytes += sizeof *b + room;
        if (b && room == size_bytes) { /* a block of its own: keep filling the newest */
            fresh->next = b->next;
            b->next = fresh;
            fresh->used = room;
            return fresh->bytes;
        }
        fresh->next = b;
        in->block = b = fresh;
        at = 0;
    }
    b->used = at + size_bytes;
    return b->bytes + at;
}

void *intern_memory(struct intern *in, size_t size_bytes)
{
    void *p = intern_take_room(in, size_bytes, alignof(max_align_t));
    return p ? memset(p, 0, size_bytes) : NULL;
}

static int intern_grow(struct intern *in)
{
    size_t slots = in->slots ? in->slots * 2 : 1024;
    const char **slot = calloc(slots, sizeof *slot);
    if (!slot)
        return -1;
    for (size_t i = 0; i < in->slots; i++) {
        if (!in->slot[i])
            continue;
        size_t j = intern_hash(in->slot[i], strlen(in->slot[i]), 0) & (slots - 1);
        while (slot[j])
            j = (j + 1) & (slots - 1);
        slot[j] = in->slot[i];
    }
    free(in->slot);
    in->size_bytes += (slots - in->slots) * sizeof *slot;
    in->slot = slot;
    in->slots = slots;
    return 0;
}

const char *intern_string(struct intern *in, const char *text)
{
    if (!text || (in->used * 4 >= in->slots * 3 && intern_grow(in) != 0))
        return NULL;
    size_t length = strlen(text);
    size_t i = intern_hash(text, length, 0) & (in->slots - 1);
    for (; in->slot[i]; i = (i + 1) & (in->slots - 1))
        if (strcmp(in->slot[i], text) == 0)
            return in->slot[i];
    char *copy = intern_take_room(in, length + 1, 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, length + 1);
    in->used++;
    return in->slot[i] = copy;
}

void intern_free(struct intern *in)
{
    while (in->block) {
        struct intern_block *next = in->block->next;
        free(in->block);
        in->block = next;
    }
    free(in->slot);
    memset(in, 0, sizeof *in);
}
