/* heap.c - Finds where the free memory of a heap lay near the peak, and sorts the stacks by the
 * bytes they keep. */
#include "report/heap.h"

#include <stdlib.h>
#include <string.h>

int heap_find(struct trace *t, uint32_t image, const struct model *m, struct heap_view *h,
              struct error *err)
{
    memset(h, 0, sizeof *h);
    if (model_filtered(m) || model_totals(m)->resets)
        return 0;
    resident_at_peak(m, &h->at);
    if (!h->at.known)
        return 0;
    struct pinned_reader *r = pinned_new(model_image(m), &h->at.time_ns, &h->pinned, 1, false, err);
    h->known = !pinned_read(r, t, image, err);
    if (!h->known)
        pinned_release(&h->pinned);
    return h->known ? 0 : -1;
}

void heap_release(struct heap_view *h)
{
    pinned_release(&h->pinned);
    memset(h, 0, sizeof *h);
}

struct heap_free heap_free_of(const struct heap_view *h, enum pinned_kind kind)
{
    const struct pinned_heap *sum = &h->pinned.sum[kind];
    struct heap_free f = {.free_bytes = kind == PINNED_MAIN    ? h->at.free_main_bytes
                                        : kind == PINNED_ARENA ? h->at.free_arenas_bytes
                                                               : h->at.parts[RESIDENT_ALLOCATOR],
                          .header_bytes = (int64_t)sum->header_bytes,
                          .pinned_bytes = (int64_t)sum->pinned_bytes};
    const int64_t rest = (int64_t)((uint64_t)f.free_bytes - sum->header_bytes - sum->pinned_bytes);
    const int64_t between = (int64_t)sum->between_bytes;
    f.between_bytes = rest < 0 ? 0 : rest < between ? rest : between;
    f.top_bytes = (int64_t)((uint64_t)rest - (uint64_t)f.between_bytes);
    return f;
}

static uint64_t kept(const struct pinned_stack *s) { return s->pinned_bytes + s->below_bytes; }

static const struct pinned_stack *ranked; /* by what the stacks keep; one thread */

static int by_kept(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (kept(&ranked[x]) != kept(&ranked[y]))
        return kept(&ranked[x]) < kept(&ranked[y]) ? 1 : -1;
    return x < y ? -1 : x > y;
}

uint32_t *heap_keepers(const struct pinned *p, size_t *count)
{
    const struct pinned_stack *const of = p->stacks.of;
    uint32_t *list = malloc(((size_t)p->stacks.count + 1) * sizeof *list);
    *count = 0;
    for (uint32_t i = 0; list && i < p->stacks.count; i++)
        if (kept(&of[i]))
            list[(*count)++] = i;
    ranked = of;
    if (*count)
        qsort(list, *count, sizeof *list, by_kept);
    return list;
}
