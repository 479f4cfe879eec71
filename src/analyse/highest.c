#include "analyse/highest.h"

#include <stdlib.h>

struct highest *highest_new(uint32_t stacks)
{
    struct highest *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->stacks = calloc((size_t)stacks + 1, sizeof *h->stacks);
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

bool highest_passed(const struct highest *h)
{
    return h->all.now_bytes < h->all.most_bytes / 4 * 3;
}

static void rise(struct highest_sum *s, uint64_t bytes)
{
    s->now_bytes += bytes;
    if (s->now_bytes > s->most_bytes)
        s->most_bytes = s->now_bytes;
}

static struct highest_sum *by_size(struct highest *h, uint64_t chunk_bytes)
{
    return chunk_bytes >= HIGHEST_LARGE_BYTES ? &h->large : &h->small;
}

void highest_begin(struct highest *h, uint32_t stack, uint64_t chunk_bytes)
{
    rise(&h->all, chunk_bytes);
    rise(by_size(h, chunk_bytes), chunk_bytes);
    rise(&h->stacks[stack], chunk_bytes);
}

void highest_end(struct highest *h, uint32_t stack, uint64_t chunk_bytes)
{
    h->all.now_bytes -= chunk_bytes;
    by_size(h, chunk_bytes)->now_bytes -= chunk_bytes;
    h->stacks[stack].now_bytes -= chunk_bytes;
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
