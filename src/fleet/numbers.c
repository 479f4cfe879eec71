/* numbers.c - Maps 64-bit identities to numbers by open addressing with linear probing, at most
 * half full. */
#include "fleet/numbers.h"

#include <stdlib.h>

#include "fleet/hash.h"

#define ROOM_FIRST 1024u

static struct numbers_entry *place(struct numbers_entry *entries, size_t room, uint64_t id)
{
    size_t at = hash_mix(9, id) & (room - 1);
    while (entries[at].number && entries[at].id != id)
        at = (at + 1) & (room - 1);
    return &entries[at];
}

/* Twice the room. */
static int grow(struct numbers *n, struct error *err)
{
    const size_t wider = n->room ? n->room * 2 : ROOM_FIRST;
    struct numbers_entry *more = calloc(wider, sizeof *more);
    if (!more)
        return error_memory(err);
    for (size_t i = 0; i < n->room; i++)
        if (n->entries[i].number)
            *place(more, wider, n->entries[i].id) = n->entries[i];
    free(n->entries);
    n->entries = more;
    n->room = wider;
    return 0;
}

uint64_t *numbers_at(struct numbers *n, uint64_t id, struct error *err)
{
    if (n->count * 2 >= n->room && grow(n, err))
        return NULL;
    struct numbers_entry *e = place(n->entries, n->room, id);
    if (!e->number) {
        e->id = id;
        n->count++;
    }
    return &e->number;
}

const uint64_t *numbers_find(const struct numbers *n, uint64_t id)
{
    const struct numbers_entry *e = n->room ? place(n->entries, n->room, id) : NULL;
    return e && e->number ? &e->number : NULL;
}

void numbers_release(struct numbers *n)
{
    free(n->entries);
    *n = (struct numbers){0};
}
