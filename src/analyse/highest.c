/* highest.c - Allocates the sums of highest.h and ranks the stacks by the most that they ever
 * held. The sums themselves change in inline functions of the header. */
#include "analyse/highest.h"

#include <stdlib.h>

#include "base/large.h"

struct highest *highest_new(uint32_t stacks)
{
    struct highest *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->stacks = large_zeroed(((size_t)stacks + 1) * sizeof *h->stacks);
    if (!h->stacks) {
        free(h);
        return NULL;
    }
    h->stack_count = stacks;
    return h;
}

void highest_free(struct highest *h)
{
    if (h)
        free(h->stacks);
    free(h);
}

size_t highest_rank(const struct highest *h, struct highest_stack *list, size_t most)
{
    size_t n = 0;
    for (uint32_t i = 1; i <= h->stack_count; i++) {
        const uint64_t bytes = h->stacks[i].most_bytes;
        size_t at = n;
        if (!bytes || (n == most && bytes <= list[n - 1].most_bytes))
            continue;
        if (n < most)
            n++;
        else
            at--;
        for (; at && list[at - 1].most_bytes < bytes; at--)
            list[at] = list[at - 1];
        list[at] = (struct highest_stack){bytes, i};
    }
    return n;
}
