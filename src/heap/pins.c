/* pins.c - the blocks that share pages with free memory, by type, root and call site; see heap.h.
 */
#include <stdlib.h>
#include <string.h>

#include "heap/heap_impl.h"
#include "heap/spill.h"

struct sharing {
    const struct heap *h;
    enum heap_by by;
    const uint32_t *root; /* by block, of HEAP_BY_ROOT */
    uint32_t own;         /* the group of blocks of the allocator's own, or in a cache */
    struct share {
        double free_bytes;
        uint64_t blocks;
        uint32_t last;
    } * of; /* by group */
};

static uint32_t group_of(const struct sharing *s, uint32_t block)
{
    const uint8_t kind = s->h->walk.blocks.kind[block];
    if (s->by == HEAP_BY_SITE)
        return s->h->stack[block];
    if (kind == BLOCK_CACHED || kind == BLOCK_OWN)
        return s->own;
    return s->by == HEAP_BY_TYPE ? heap_type_of(s->h, block) : s->root[block];
}

static void add_share(void *arg, uint32_t block, double free_bytes)
{
    const struct sharing *s = arg;
    struct share *share = &s->of[group_of(s, block)];
    share->free_bytes += free_bytes;
    if (!share->blocks || share->last != block)
        share->blocks++;
    share->last = block;
}

static int by_free(const void *a, const void *b)
{
    const struct heap_pin *x = a, *y = b;
    if (x->free_bytes != y->free_bytes)
        return x->free_bytes > y->free_bytes ? -1 : 1;
    const int by_name = strcmp(x->group.name, y->group.name);
    const int by_module = by_name ? by_name : strcmp(x->group.module, y->group.module);
    return by_module ? by_module
                     : (x->group.stack > y->group.stack) - (x->group.stack < y->group.stack);
}

/* NULL when out of memory. */
static struct heap_pin *make_pins(const struct heap *h, enum heap_by by, size_t *count)
{
    const uint32_t groups = by == HEAP_BY_TYPE   ? h->types.count
                            : by == HEAP_BY_ROOT ? h->roots.count + 3
                                                 : h->recorded.image->stacks + 1;
    uint32_t *root = by == HEAP_BY_ROOT ? heap_first_roots(h) : NULL;
    struct sharing s = {.h = h,
                        .by = by,
                        .root = root,
                        .own = by == HEAP_BY_TYPE ? TYPE_OWN : groups - 1,
                        .of = calloc((size_t)groups + 1, sizeof *s.of)};
    struct heap_pin *pins = s.of ? calloc((size_t)groups + 1, sizeof *pins) : NULL;
    if (pins && (by != HEAP_BY_ROOT || root)) {
        pages_share_out(&h->pages, &h->walk.blocks, add_share, &s);
        for (uint32_t i = 0; i < groups; i++) {
            if (!s.of[i].blocks)
                continue;
            struct heap_pin *p = &pins[(*count)++];
            p->group = heap_group_of(h, by, i);
            if (by != HEAP_BY_SITE && i == s.own)
                p->group.name = "(cached or glibc's own)";
            p->blocks = s.of[i].blocks;
            p->free_bytes = (uint64_t)(s.of[i].free_bytes + 0.5);
        }
        qsort(pins, *count, sizeof *pins, by_free);
    } else {
        free(pins);
        pins = NULL;
    }
    spill_free(root);
    free(s.of);
    return pins;
}

const struct heap_pin *heap_pins(struct heap *h, enum heap_by by, size_t *count, struct error *err)
{
    *err = (struct error){.kind = ERROR_NONE};
    *count = 0;
    if (by == HEAP_BY_SIZE || (by == HEAP_BY_SITE && !h->stack))
        return NULL;
    if (!h->pins[by])
        h->pins[by] = make_pins(h, by, &h->pin_count[by]);
    if (!h->pins[by])
        error_memory(err);
    *count = h->pin_count[by];
    return h->pins[by];
}
