/* pinned_stacks.c - Stores figures for those stacks only that have blocks at a moment: a bitmap
 * of all stacks, and ranks that lead into a dense array. */
#include "analyse/pinned_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

bool pinned_stacks_clear(struct pinned_stacks *s, uint32_t stacks)
{
    const uint32_t words = stacks / 64 + 1;
    if (s->words < words) {
        pinned_stacks_release(s);
        s->has = malloc(words * sizeof *s->has);
        s->before = malloc(words * sizeof *s->before);
        if (!s->has || !s->before)
            return false;
        s->words = words;
    }
    memset(s->has, 0, s->words * sizeof *s->has);
    s->count = 0;
    return true;
}

bool pinned_stacks_make(struct pinned_stacks *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->words; i++) {
        s->before[i] = count;
        count += (uint32_t)__builtin_popcountll(s->has[i]);
    }
    if (!ARRAY_ROOM(s->of, (size_t)count + 1, s->room))
        return false;
    memset(s->of, 0, count * sizeof *s->of);
    for (uint32_t i = 0; i < s->words; i++)
        for (uint64_t left = s->has[i]; left; left &= left - 1)
            s->of[s->count++].stack = i * 64 + (uint32_t)__builtin_ctzll(left);
    return true;
}

void pinned_stacks_release(struct pinned_stacks *s)
{
    free(s->of);
    free(s->has);
    free(s->before);
    memset(s, 0, sizeof *s);
}

const struct pinned_stack *pinned_stacks_find(const struct pinned_stacks *s, uint32_t stack)
{
    const bool is_in = stack / 64 < s->words && s->has[stack / 64] >> stack % 64 & 1;
    return is_in ? pinned_stacks_at(s, stack) : NULL;
}
