/* index.c - Adds numbers to the hash table and doubles it when it is half full. An entry keeps a
 * part of its hash, so the table grows without a look at the elements. */
#include "base/index.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

static void index_put_entry(struct index *x, struct index_entry e)
{
    size_t i = e.hash & (x->room - 1);
    while (x->entries[i].number_1)
        i = (i + 1) & (x->room - 1);
    x->entries[i] = e;
}

static bool index_grow(struct index *x)
{
    if (x->room > SIZE_MAX / 2 / sizeof *x->entries)
        return false;
    struct index wider = {.count = x->count, .room = x->room ? x->room * 2 : FIRST_ROOM};
    wider.entries = calloc(wider.room, sizeof *wider.entries);
    if (!wider.entries)
        return false;
    for (size_t i = 0; i < x->room; i++)
        if (x->entries[i].number_1)
            index_put_entry(&wider, x->entries[i]);
    free(x->entries);
    *x = wider;
    return true;
}

bool index_add(struct index *x, uint64_t hash, uint32_t number)
{
    if (number == INDEX_NONE || ((x->count + 1) * 2 > x->room && !index_grow(x)))
        return false;
    index_put_entry(x, (struct index_entry){index_fold(hash), number + 1});
    x->count++;
    return true;
}

void index_release(struct index *x)
{
    free(x->entries);
    memset(x, 0, sizeof *x);
}
