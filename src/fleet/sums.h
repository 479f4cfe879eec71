/* sums.h - figures of many processes added up by call site. Private to fleet/.
 *
 * For an engine that hands out its rows one by one, since SQL that groups them sorts them all
 * first, and for one that is asked in parts. Owns: the sums. Rows come process by process, and the
 * processes of one host come together; then a process and a host count once for each site, whatever
 * number of rows they have. One thread. */
#ifndef MALLOW_FLEET_SUMS_H
#define MALLOW_FLEET_SUMS_H

#include "fleet/numbers.h"
#include "fleet/store.h"

struct sums_site {
    struct store_row row;
    uint64_t process, host; /* the last ones that were counted; numbers from 1 */
};

struct sums_stack {
    uint64_t stack, site; /* site: its place, from 1 */
    size_t next;          /* the place of the stack that came behind it last, from 1; 0: none */
};

struct sums { /* all zero: empty */
    enum metric by;
    struct sums_site *sites;
    struct sums_stack *order; /* processes have their stacks in one order: the next is guessed */
    size_t site_count, site_room, order_count, order_room, last; /* last: place, from 1 */
    struct numbers stacks, site_numbers; /* places in order and in sites, from 1 */
};

/* Which site a stack reads as. 0, or -1 with *err. */
typedef int sums_site_of(void *arg, uint64_t stack, uint64_t *site, struct error *err);

/* Adds a row. process, host: numbers from 1. */
int sums_add(struct sums *s, uint64_t process, uint64_t host, uint64_t stack,
             const struct store_figures *f, sums_site_of *site_of, void *arg, struct error *err);
/* Adds a row of a site, none of whose processes and hosts are in other rows of it. */
int sums_join(struct sums *s, const struct store_row *r, struct error *err);
/* Calls `row` for each site, in the order of ASK_SITES: a struct store_row. */
int sums_rows(struct sums *s, store_answer_fn *row, void *arg, struct error *err);
void sums_release(struct sums *s);

#endif
