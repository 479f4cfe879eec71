/* routes.h - which ways the calls of a process took inside glibc's allocator, where its recording
 * says so (`mallow record --paths`).
 *
 * Owns: one pass over the process, and the sums: in all, and by the stack that made the block.
 * Refuses: filters; the sums are of the whole process. Memory: 16 bytes a slot, 4 a stack, and 256
 * a stack that made blocks. One thread. */
#ifndef MALLOW_ANALYSE_ROUTES_H
#define MALLOW_ANALYSE_ROUTES_H

#include "trace/trace.h"

/* Places of sums: the routes, and one for frees of which it is not known. */
enum { ROUTES_FREE_UNKNOWN = 31, ROUTES = 32 };

struct route_sum {
    uint64_t calls, bytes; /* bytes: requested, of the blocks that were made or ended */
};

struct route_row {
    uint64_t calls[ROUTES];
};

struct routes {
    struct route_sum of[ROUTES];
    uint64_t emptied;       /* calls that emptied the fast bins */
    uint32_t *row_of;       /* [stacks + 1] 1 + place in rows, 0: it made none */
    struct route_row *rows; /* by stack; ends are those of its blocks */
    size_t row_count, row_room;
};

/* 0 or -1. Zeroed where the image has no routes. */
int routes_read(struct routes *r, struct trace *t, uint32_t image, struct error *err);
void routes_release(struct routes *r);

/* The row of a stack; NULL: it made no blocks. */
const struct route_row *routes_row(const struct routes *r, uint32_t stack);

/* The group of a place. */
enum mlw_route_group routes_group(unsigned place);
/* Calls of a row that made a block, and those of them that the thread's cache did not serve. */
uint64_t routes_made(const struct route_row *r);
uint64_t routes_missed(const struct route_row *r);

#endif
