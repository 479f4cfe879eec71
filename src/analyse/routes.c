/* routes.c - sums of routes; see routes.h. */
#include "analyse/routes.h"

#include <stdlib.h>

#include "base/array.h"

enum mlw_route_group routes_group(unsigned place)
{
    return place == ROUTES_FREE_UNKNOWN ? MLW_ROUTE_ENDS
           : place == MLW_ROUTE_UNKNOWN ? MLW_ROUTE_MAKES
                                        : mlw_route_group(place);
}

uint64_t routes_made(const struct route_row *r)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < ROUTES; i++)
        n += routes_group(i) == MLW_ROUTE_MAKES ? r->calls[i] : 0;
    return n;
}

uint64_t routes_missed(const struct route_row *r)
{
    return routes_made(r) - r->calls[MLW_ROUTE_TCACHE] - r->calls[MLW_ROUTE_IN_PLACE] -
           r->calls[MLW_ROUTE_UNKNOWN];
}

const struct route_row *routes_row(const struct routes *r, uint32_t stack)
{
    const uint32_t at = r->row_of ? r->row_of[stack] : 0;
    return at ? &r->rows[at - 1] : NULL;
}

struct held {
    uint64_t size;
    uint32_t stack;
};

struct reading {
    struct routes *r;
    const struct trace_image *image;
    struct held *held; /* by slot */
};

/* NULL without memory. */
static struct route_row *row_of_stack(struct reading *x, uint32_t stack)
{
    struct routes *r = x->r;
    if (stack > x->image->stacks)
        stack = 0;
    if (!r->row_of[stack]) {
        struct route_row *row = ARRAY_ADD(r->rows, r->row_count, r->row_room);
        if (!row)
            return NULL;
        *row = (struct route_row){{0}};
        r->row_of[stack] = (uint32_t)r->row_count;
    }
    return &r->rows[r->row_of[stack] - 1];
}

static bool add_route(struct reading *x, unsigned place, unsigned route, uint32_t stack,
                      uint64_t size)
{
    struct route_row *row = row_of_stack(x, stack);
    if (!row)
        return false;
    row->calls[place]++;
    x->r->of[place].calls++;
    x->r->of[place].bytes += size;
    x->r->emptied += (route & MLW_ROUTE_CONSOLIDATED) != 0;
    return true;
}

/* A block ends. The old half of a realloc that stays is no end. */
static bool add_end(struct reading *x, const struct trace_batch *b, size_t i)
{
    const unsigned route = b->route[i], kind = route & MLW_ROUTE_KINDS;
    const bool known = b->slot[i] != TRACE_NO_SLOT && b->slot[i] < x->image->max_slots;
    const struct held none = {0}, *h = known ? &x->held[b->slot[i]] : &none;
    if (kind == MLW_ROUTE_IN_PLACE)
        return true;
    return add_route(x, mlw_route_group(kind) == MLW_ROUTE_ENDS ? kind : ROUTES_FREE_UNKNOWN, route,
                     h->stack, h->size);
}

static bool add_routes_of(struct reading *x, const struct trace_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const unsigned op = b->op[i], kind = b->route[i] & MLW_ROUTE_KINDS;
        bool fine = true;
        switch (b->kind[i]) {
        case TRACE_ALLOC:
            if (b->slot[i] < x->image->max_slots)
                x->held[b->slot[i]] = (struct held){b->size[i], b->stack[i]};
            if (b->first_event + i >= x->image->inherited)
                fine = add_route(x, mlw_route_group(kind) == MLW_ROUTE_MAKES ? kind : 0,
                                 b->route[i], b->stack[i], b->size[i]);
            break;
        case TRACE_FREE:
        case TRACE_FREE_TEMP:
        case TRACE_FREE_UNKNOWN: fine = add_end(x, b, i); break;
        case TRACE_OTHER:
            if (mlw_op_is(op, MLW_CLASS_RELEASE))
                fine = add_end(x, b, i);
            break;
        default: break;
        }
        if (!fine)
            return false;
    }
    return true;
}

int routes_read(struct routes *r, struct trace *t, uint32_t image, struct error *err)
{
    const struct trace_image *m = &trace_info(t)->images[image];
    struct reading x = {.r = r, .image = m};
    struct trace_batch batch;
    int more = 0;
    *r = (struct routes){.emptied = 0};
    if (!m->routed)
        return 0;
    r->row_of = calloc((size_t)m->stacks + 1, sizeof *r->row_of);
    x.held = calloc((size_t)m->max_slots + 1, sizeof *x.held);
    struct trace_cursor *c = NULL;
    if (!r->row_of || !x.held)
        more = error_memory_for(err, "paths inside the allocator");
    else if (!(c = trace_cursor_open_columns(
                   t, image, TRACE_COL_ROUTE | TRACE_COL_SIZE | TRACE_COL_STACK, err)))
        more = -1;
    while (c && (more = trace_cursor_next(c, &batch, err)) > 0)
        if (!add_routes_of(&x, &batch)) {
            more = error_memory_for(err, "paths inside the allocator");
            break;
        }
    trace_cursor_close(c);
    free(x.held);
    if (more)
        routes_release(r);
    return more;
}

void routes_release(struct routes *r)
{
    free(r->row_of);
    free(r->rows);
    *r = (struct routes){.emptied = 0};
}
