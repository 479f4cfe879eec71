/* sums.c - Adds up figures by call site from rows that arrive process by process. A process or a
 * host counts once for a site, which needs only the last one seen. */
#include "fleet/sums.h"

#include <stdlib.h>

#include "base/array.h"

static int number_of_site(struct sums *s, uint64_t site, uint64_t *number, struct error *err)
{
    uint64_t *p = numbers_at(&s->site_numbers, site, err);
    if (!p)
        return -1;
    if (!*p) {
        struct sums_site *fresh = ARRAY_ADD(s->sites, s->site_count, s->site_room);
        if (!fresh)
            return error_memory(err);
        fresh->row.site = site;
        *p = s->site_count;
    }
    *number = *p;
    return 0;
}

/* The place of a stack, which may be fresh; 0 with *err. */
static size_t place_of(struct sums *s, uint64_t stack, sums_site_of *site_of, void *arg,
                       struct error *err)
{
    uint64_t *p = numbers_at(&s->stacks, stack, err), site, number;
    if (!p)
        return 0;
    if (!*p) {
        if (site_of(arg, stack, &site, err) || number_of_site(s, site, &number, err))
            return 0;
        struct sums_stack *fresh = ARRAY_ADD(s->order, s->order_count, s->order_room);
        if (!fresh) {
            error_memory(err);
            return 0;
        }
        *fresh = (struct sums_stack){.stack = stack, .site = number};
        *p = s->order_count;
    }
    return (size_t)*p;
}

int sums_add(struct sums *s, uint64_t process, uint64_t host, uint64_t stack,
             const struct store_figures *f, sums_site_of *site_of, void *arg, struct error *err)
{
    size_t place = s->last ? s->order[s->last - 1].next : 0;
    if (!place || s->order[place - 1].stack != stack) {
        place = place_of(s, stack, site_of, arg, err);
        if (!place)
            return -1;
        if (s->last)
            s->order[s->last - 1].next = place;
    }
    s->last = place;
    struct sums_site *to = &s->sites[s->order[place - 1].site - 1];
    store_join(&to->row.figures, f);
    if (store_metric(f, s->by)) {
        to->row.processes += to->process != process;
        to->row.hosts += to->host != host;
        to->process = process;
        to->host = host;
    }
    return 0;
}

int sums_join(struct sums *s, const struct store_row *r, struct error *err)
{
    uint64_t number;
    if (number_of_site(s, r->site, &number, err))
        return -1;
    struct store_row *to = &s->sites[number - 1].row;
    store_join(&to->figures, &r->figures);
    to->processes += r->processes;
    to->hosts += r->hosts;
    return 0;
}

static int descending(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

static int in_order(const void *a, const void *b, void *arg)
{
    const enum metric by = *(const enum metric *)arg;
    const struct store_row *x = &((const struct sums_site *)a)->row;
    const struct store_row *y = &((const struct sums_site *)b)->row;
    int order = descending(store_metric(&x->figures, by), store_metric(&y->figures, by));
    order = order ? order : descending(x->figures.peak_bytes, y->figures.peak_bytes);
    order = order ? order : descending(x->figures.allocated_bytes, y->figures.allocated_bytes);
    order = order ? order : descending(x->figures.calls, y->figures.calls);
    return order ? order
                 : ((int64_t)x->site > (int64_t)y->site) - ((int64_t)x->site < (int64_t)y->site);
}

int sums_rows(struct sums *s, store_answer_fn *row, void *arg, struct error *err)
{
    int status = 0;
    if (s->site_count)
        qsort_r(s->sites, s->site_count, sizeof *s->sites, in_order, &s->by);
    for (size_t i = 0; i < s->site_count && !status; i++)
        status = row(arg, (const uint64_t *)&s->sites[i].row, "", err);
    return status;
}

void sums_release(struct sums *s)
{
    free(s->sites);
    free(s->order);
    numbers_release(&s->stacks);
    numbers_release(&s->site_numbers);
    *s = (struct sums){0};
}
