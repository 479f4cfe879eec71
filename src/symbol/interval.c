/* interval.c - Flattens overlapping address ranges into disjoint pieces, so that one binary
 * search finds the innermost range at an address. Sorting keeps the order of addition for equal
 * ranges. */
#include "symbol/interval.h"

#include "base/array.h"

#include <stdlib.h>

int interval_add(struct interval_map *m, uint64_t lo, uint64_t hi, uint32_t value)
{
    if (lo >= hi)
        return 0;
    if (!ARRAY_ROOM(m->at, m->count + 1, m->room))
        return -1;
    m->at[m->count++] = (struct interval){lo, hi, value};
    return 0;
}

/* An order to sort in: `order` keeps equal ranges as they were added. */
struct sortable {
    struct interval range;
    uint32_t order;
};

static int compare_intervals(const void *a, const void *b)
{
    const struct sortable *x = a, *y = b;
    if (x->range.lo != y->range.lo)
        return x->range.lo < y->range.lo ? -1 : 1;
    if (x->range.hi != y->range.hi)
        return x->range.hi > y->range.hi ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int emit_interval(struct interval_map *out, uint64_t lo, uint64_t hi, uint32_t value)
{
    if (lo >= hi)
        return 0;
    if (out->count) {
        struct interval *last = &out->at[out->count - 1];
        if (last->hi == lo && last->value == value) {
            last->hi = hi;
            return 0;
        }
    }
    return interval_add(out, lo, hi, value);
}

int interval_flatten(struct interval_map *m)
{
    struct interval_map out = {0};
    struct sortable *sorted = NULL;
    uint32_t *stack = NULL;
    size_t depth = 0, n = m->count;
    uint64_t done = 0; /* everything below has been emitted */

    if (m->flat || n == 0) {
        m->flat = true;
        return 0;
    }
    if (n > UINT32_MAX)
        goto fail;
    sorted = calloc(n, sizeof *sorted);
    stack = calloc(n, sizeof *stack);
    if (!sorted || !stack)
        goto fail;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct sortable){m->at[i], (uint32_t)i};
    qsort(sorted, n, sizeof *sorted, compare_intervals);

    for (size_t i = 0; i <= n; i++) {
        uint64_t next = i < n ? sorted[i].range.lo : UINT64_MAX;
        while (depth && sorted[stack[depth - 1]].range.hi <= next) {
            const struct interval *top = &sorted[stack[--depth]].range;
            if (emit_interval(&out, done, top->hi, top->value) != 0)
                goto fail;
            if (top->hi > done)
                done = top->hi;
        }
        if (i == n)
            break;
        if (depth && emit_interval(&out, done, next, sorted[stack[depth - 1]].range.value) != 0)
            goto fail;
        done = next;
        stack[depth++] = (uint32_t)i;
    }
    free(sorted);
    free(stack);
    free(m->at);
    *m = out;
    m->flat = true;
    if (m->room > m->count) {
        struct interval *at = reallocarray(m->at, m->count, sizeof *at);
        if (at) {
            m->at = at;
            m->room = m->count;
        }
    }
    return 0;
fail:
    free(sorted);
    free(stack);
    interval_free(&out);
    interval_free(m);
    m->flat = true;
    return -1;
}

const struct interval *interval_find(const struct interval_map *m, uint64_t address)
{
    size_t lo = 0, hi = m->count;
    if (!m->flat)
        return NULL;
    while (lo < hi) { /* the first piece that begins after address */
        size_t mid = lo + (hi - lo) / 2;
        if (m->at[mid].lo <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || address >= m->at[lo - 1].hi)
        return NULL;
    return &m->at[lo - 1];
}

void interval_free(struct interval_map *m)
{
    free(m->at);
    *m = (struct interval_map){0};
}
