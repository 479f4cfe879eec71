/* answers.c - Asks a store for rows and keeps those that are shown. For call sites it first
 * sorts the sums of all, and then asks for the details of the first few. */
#include "fleet/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct asking {
    struct answers *to;
    unsigned numbers;
};

static int keep(void *arg, const uint64_t *numbers, const char *text, struct error *err)
{
    struct asking *asking = arg;
    struct answers *a = asking->to;
    if (a->total++ >= a->top)
        return 0;
    struct answer *kept = ARRAY_ADD(a->items, a->count, a->room);
    if (!kept || !(kept->text = strdup(text)))
        return error_memory(err);
    memcpy(kept->numbers, numbers, asking->numbers * sizeof *numbers);
    return 0;
}

static int prepare(const struct answers *a, struct fleet_store *store, struct error *err)
{
    uint64_t *sites = malloc((a->count + 1) * sizeof *sites);
    if (!sites)
        return error_memory(err);
    for (size_t i = 0; i < a->count; i++)
        sites[i] = a->items[i].numbers[0];
    const int status = store_prepare_frames(store, sites, a->count, err);
    free(sites);
    return status;
}

int answers_ask(struct answers *a, struct fleet_store *store, char *sql, unsigned numbers,
                bool sites, struct error *err)
{
    struct asking asking = {a, numbers};
    int status = store_ask(store, sql, numbers, keep, &asking, err);
    free(sql);
    if (!status && sites)
        status = prepare(a, store, err);
    return status;
}

/* ---- of call sites ---- */

struct order { /* the sites that have something, and what puts them in order */
    bool leaks;
    struct ordered {
        uint64_t numbers[3]; /* site, sum, blocks: as an answer has them */
    } * items;
    size_t count, room;
};

static int add_site(void *arg, uint64_t site, uint64_t value, uint64_t end_blocks,
                    struct error *err)
{
    struct order *o = arg;
    if (!(o->leaks ? end_blocks : value))
        return 0;
    struct ordered *a = ARRAY_ADD(o->items, o->count, o->room);
    if (!a)
        return error_memory(err);
    a->numbers[0] = site;
    a->numbers[1] = value;
    a->numbers[2] = end_blocks;
    return 0;
}

static int descending(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

/* Both have their numbers first. */
static int in_order(const void *a, const void *b, void *arg)
{
    const struct order *o = arg;
    const uint64_t *x = a, *y = b;
    int order = descending(x[1], y[1]);
    if (!order && o->leaks)
        order = descending(x[2], y[2]);
    return order ? order : ((int64_t)x[0] > (int64_t)y[0]) - ((int64_t)x[0] < (int64_t)y[0]);
}

/* Those that are shown, in full. */
static int ask_sites(struct answers *a, struct fleet_store *store, const struct fleet_selection *of,
                     enum metric by, uint64_t processes, const struct order *o, struct error *err)
{
    const size_t count = o->count < a->top ? o->count : (size_t)a->top;
    uint64_t *sites = malloc((count + 1) * sizeof *sites);
    struct asking asking = {a, o->leaks ? LEAK_NUMBERS : SPREAD_NUMBERS};
    if (!sites)
        return error_memory(err);
    for (size_t i = 0; i < count; i++)
        sites[i] = o->items[i].numbers[0];
    const int status =
        o->leaks
            ? store->engine->leaks(store, of, sites, count, processes, keep, &asking, err)
            : store->engine->spread(store, of, by, sites, count, processes, keep, &asking, err);
    free(sites);
    return status;
}

int answers_sites(struct answers *a, struct fleet_store *store, const struct fleet_selection *of,
                  enum metric by, bool leaks, uint64_t processes, struct error *err)
{
    struct order o = {.leaks = leaks};
    int status = store->engine->order(store, of, by, add_site, &o, err);
    if (!status && o.count) {
        qsort_r(o.items, o.count, sizeof *o.items, in_order, &o);
        status = ask_sites(a, store, of, by, processes, &o, err);
        if (a->count)
            qsort_r(a->items, a->count, sizeof *a->items, in_order, &o);
    }
    a->total = o.count;
    free(o.items);
    return status ? status : prepare(a, store, err);
}

void answers_release(struct answers *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->items[i].text);
    free(a->items);
    *a = (struct answers){0};
}
