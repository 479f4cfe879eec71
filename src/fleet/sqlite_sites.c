/* sqlite_sites.c - the embedded store: what some call sites have in each process.
 *
 * The answers to sqlite_leaks_sql and sqlite_spread_sql, for the sites that are shown, without
 * sorting the figures of all. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/numbers.h"
#include "fleet/sqlite.h"

#define VALUES_MOST 16000000u /* values of one pass over the figures */
#define NOT_WANTED  UINT64_MAX

struct wanted { /* sites */
    struct fleet_store *store;
    struct numbers sites, stacks; /* places, from 1 */
};

static int want(struct wanted *w, const uint64_t *sites, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t *number = numbers_at(&w->sites, sites[i], err);
        if (!number)
            return -1;
        *number = i + 1;
    }
    return 0;
}

/* *number: the place of the stack's site; NOT_WANTED. */
static int find(struct wanted *w, uint64_t stack, uint64_t *number, struct error *err)
{
    uint64_t *of_stack = numbers_at(&w->stacks, stack, err), site;
    if (!of_stack)
        return -1;
    if (!*of_stack) {
        if (sqlite_site_of(w->store, stack, &site, err))
            return -1;
        uint64_t *of_site = numbers_at(&w->sites, site, err);
        if (!of_site)
            return -1;
        if (!*of_site)
            *of_site = NOT_WANTED;
        *of_stack = *of_site;
    }
    *number = *of_stack;
    return 0;
}

static void forget(struct wanted *w)
{
    numbers_release(&w->sites);
    numbers_release(&w->stacks);
}

/* ---- order ---- */

struct ordering {
    enum metric by;
    store_order_fn *site;
    void *arg;
};

static int order_row(void *arg, const struct store_row *r, struct error *err)
{
    const struct ordering *o = arg;
    return o->site(o->arg, r->site, store_metric(&r->figures, o->by), r->figures.end_blocks, err);
}

int sqlite_order(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_order_fn *site, void *arg, struct error *err)
{
    struct ordering o = {by, site, arg};
    return sqlite_sites(s, of, by, order_row, &o, err);
}

/* ---- leaks ---- */

struct leak {
    uint64_t numbers[LEAK_NUMBERS];
    uint64_t process, host; /* at hand; 0: none yet */
    uint64_t bytes, blocks; /* that process's */
    uint64_t held_host;     /* the last one that was counted as holding */
    uint64_t most_host;
};

struct leaks {
    struct wanted wanted;
    struct leak *items;
    char **hosts; /* names, by number less 1 */
    size_t host_count, host_room;
};

/* No more of this site is in the process at hand. Of hosts with equally much, the last name counts,
 * and processes come in the order of hosts. */
static void end_process(struct leak *l)
{
    if (l->blocks) {
        l->numbers[LEAK_PROCESSES]++;
        l->numbers[LEAK_HOSTS] += l->held_host != l->host;
        l->held_host = l->host;
    }
    if (l->bytes >= l->numbers[LEAK_MOST]) {
        l->numbers[LEAK_MOST] = l->bytes;
        l->most_host = l->host;
    }
    l->bytes = l->blocks = 0;
}

/* Hosts before it whose processes have no figures were not met; their names are never asked for. */
static int know_host(struct leaks *k, const struct sqlite_figure *f, struct error *err)
{
    while (k->host_count < f->host_number) {
        char **name = ARRAY_ADD(k->hosts, k->host_count, k->host_room);
        if (!name || (k->host_count == f->host_number && !(*name = strdup(f->host))))
            return error_memory(err);
    }
    return 0;
}

static int add_leak(void *arg, const struct sqlite_figure *f, struct error *err)
{
    struct leaks *k = arg;
    uint64_t number;
    if (know_host(k, f, err) || find(&k->wanted, f->stack, &number, err))
        return -1;
    if (number == NOT_WANTED)
        return 0;
    struct leak *l = &k->items[number - 1];
    if (l->process != f->process_number) {
        if (l->process)
            end_process(l);
        l->process = f->process_number;
        l->numbers[LEAK_CALLING_PROCESSES]++;
        l->numbers[LEAK_CALLING_HOSTS] += l->host != f->host_number;
        l->host = f->host_number;
    }
    l->bytes += f->figures.end_bytes;
    l->blocks += f->figures.end_blocks;
    l->numbers[LEAK_BYTES] += f->figures.end_bytes;
    l->numbers[LEAK_BLOCKS] += f->figures.end_blocks;
    return 0;
}

int sqlite_leaks(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                 size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                 struct error *err)
{
    (void)processes;
    struct leaks k = {.wanted.store = s, .items = calloc(count + 1, sizeof *k.items)};
    int status = k.items ? want(&k.wanted, sites, count, err) : error_memory(err);
    if (!status)
        status = sqlite_each_figure(s, of, add_leak, &k, err);
    for (size_t i = 0; i < count && !status; i++) {
        struct leak *l = &k.items[i];
        if (!l->process) /* the store changed meanwhile */
            continue;
        end_process(l);
        l->numbers[LEAK_SITE] = sites[i];
        status = answer(arg, l->numbers, k.hosts[l->most_host - 1], err);
    }
    for (size_t i = 0; i < k.host_count; i++)
        free(k.hosts[i]);
    free(k.hosts);
    free(k.items);
    forget(&k.wanted);
    return status;
}

/* ---- spread ---- */

struct values {       /* a site's values above 0 */
    uint64_t process; /* the latest process; 0: none */
    size_t count;
};

struct spreads {
    struct wanted wanted;
    enum metric by;
    size_t processes;
    uint64_t *all; /* [sites][processes] */
    struct values *items;
};

static int add_value(void *arg, const struct sqlite_figure *f, struct error *err)
{
    struct spreads *k = arg;
    const uint64_t value = store_metric(&f->figures, k->by);
    uint64_t number;
    if (!value)
        return 0;
    if (find(&k->wanted, f->stack, &number, err))
        return -1;
    if (number == NOT_WANTED)
        return 0;
    struct values *v = &k->items[number - 1];
    uint64_t *of = k->all + (number - 1) * k->processes;
    if (v->process != f->process_number) {
        if (v->count == k->processes)
            return error_set(err, ERROR_FORMAT, "the store changed meanwhile");
        of[v->count++] = 0;
        v->process = f->process_number;
    }
    of[v->count - 1] += value;
    return 0;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The value with rank ceil(share * processes); those who have not the site come first, with 0. */
static void rank_values(const struct spreads *k, uint64_t *values, size_t count, uint64_t *numbers)
{
    static const unsigned shares[SPREAD_RANKS][2] = {{0, 1},  {1, 4},    {1, 2}, {3, 4},
                                                     {9, 10}, {99, 100}, {1, 1}};
    const uint64_t n = k->processes, zeros = n - count;
    qsort(values, count, sizeof *values, ascending);
    for (size_t i = 0; i < count; i++)
        numbers[SPREAD_SUM] += values[i];
    numbers[SPREAD_PROCESSES] = count;
    for (size_t i = 0; i < SPREAD_RANKS; i++) {
        uint64_t rank = (shares[i][0] * n + shares[i][1] - 1) / shares[i][1];
        rank = rank ? rank : 1;
        numbers[SPREAD_VALUES + i] = rank > zeros ? values[rank - zeros - 1] : 0;
    }
}

/* Answers for as many sites as fit, with one pass over the figures. */
static int spread_some(struct fleet_store *s, const struct fleet_selection *of, struct spreads *k,
                       const uint64_t *sites, size_t count, store_answer_fn *answer, void *arg,
                       struct error *err)
{
    int status = want(&k->wanted, sites, count, err);
    memset(k->items, 0, count * sizeof *k->items);
    if (!status)
        status = sqlite_each_figure(s, of, add_value, k, err);
    for (size_t i = 0; i < count && !status; i++) {
        uint64_t numbers[SPREAD_NUMBERS] = {[SPREAD_SITE] = sites[i]};
        if (!k->items[i].count)
            continue;
        rank_values(k, k->all + i * k->processes, k->items[i].count, numbers);
        status = answer(arg, numbers, "", err);
    }
    forget(&k->wanted);
    return status;
}

int sqlite_spread(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                  const uint64_t *sites, size_t count, uint64_t processes, store_answer_fn *answer,
                  void *arg, struct error *err)
{
    size_t most = processes < VALUES_MOST ? VALUES_MOST / (processes + 1) : 1;
    most = most < count ? most : count;
    struct spreads k = {.wanted.store = s, .by = by, .processes = processes};
    k.all = calloc(most * processes + 1, sizeof *k.all);
    k.items = calloc(most + 1, sizeof *k.items);
    int status = k.all && k.items ? 0 : error_memory(err);
    for (size_t at = 0; at < count && !status; at += most)
        status = spread_some(s, of, &k, sites + at, count - at < most ? count - at : most, answer,
                             arg, err);
    free(k.all);
    free(k.items);
    return status;
}
