#include "ahead.h"

#include <stdlib.h>

#define ROWS 64u /* so many memory accesses are under way at a time */

struct ahead {
    struct merge *merge;
    const struct live *live;
    struct ahead_row rows[ROWS]; /* a ring */
    uint32_t first, count;
};

static struct ahead_row *at(struct ahead *a, uint32_t i) { return &a->rows[(a->first + i) % ROWS]; }

#define OP_BIT(op) (1u << (op))

/* Whether the call whose first half was just read fails, as its second half says. */
static bool fails(struct merge *m, const struct mlw_row *r)
{
    struct mlw_row later;
    switch (r->op) {
    case MLW_OP_REALLOC_OLD:
        return merge_peek(m, OP_BIT(MLW_OP_REALLOC) | OP_BIT(MLW_OP_REALLOCARRAY), 1000, &later) &&
               later.path & MLW_PATH_FAILED;
    case MLW_OP_MREMAP_OLD:
        return merge_peek(m, OP_BIT(MLW_OP_MREMAP), 1000, &later) && later.path & MLW_PATH_FAILED;
    case MLW_OP_MUNMAP:
        return merge_peek(m, OP_BIT(MLW_OP_MUNMAP_FAILED), 0, &later) &&
               later.address == r->address;
    default: return false;
    }
}

struct ahead *ahead_open(const struct raw *r, uint32_t image, const struct live *live,
                         struct error *err)
{
    struct ahead *a = calloc(1, sizeof *a);
    if (!a) {
        error_set(err, ERROR_MEMORY, "out of memory merging threads");
        return NULL;
    }
    a->live = live;
    if (!(a->merge = merge_open(r, image, err))) {
        free(a);
        return NULL;
    }
    return a;
}

/* A META row points into its chunk: nothing is read beyond it. 0, or -1. */
static int fill(struct ahead *a, struct error *err)
{
    while (a->count < ROWS) {
        if (a->count && at(a, a->count - 1)->r.row.op == MLW_OP_META)
            return 0;
        struct ahead_row *n = at(a, a->count);
        int k = merge_next(a->merge, &n->r, err);
        if (k <= 0)
            return k;
        a->count++;
        n->failed = fails(a->merge, &n->r.row);
        if (n->r.row.op != MLW_OP_META)
            live_prefetch(a->live, n->r.row.address);
    }
    return 0;
}

int ahead_head(struct ahead *a, const struct ahead_row **head, struct error *err)
{
    if (a->count < ROWS / 2 && fill(a, err))
        return -1;
    if (!a->count)
        return 0;
    if (a->count > ROWS / 4) {
        const struct mlw_row *r = &at(a, ROWS / 4)->r.row;
        if (r->op != MLW_OP_META)
            live_prefetch_block(a->live, r->address);
    }
    *head = at(a, 0);
    return 1;
}

void ahead_drop(struct ahead *a)
{
    a->first = (a->first + 1) % ROWS;
    a->count--;
}

const struct merge *ahead_merge(const struct ahead *a) { return a->merge; }

void ahead_close(struct ahead *a)
{
    if (!a)
        return;
    merge_close(a->merge);
    free(a);
}
