/* store.c - which engine keeps a store, by its name. */
#include <stdlib.h>

#include "fleet/store.h"

struct fleet_store *fleet_open(const char *where, const struct fleet_access *access,
                               struct error *err)
{
    return clickhouse_is_url(where) ? clickhouse_open(where, access, err) : sqlite_open(where, err);
}

int fleet_create(const char *where, const struct fleet_access *access, bool *existed,
                 struct error *err)
{
    return clickhouse_is_url(where) ? clickhouse_create(where, access, existed, err)
                                    : sqlite_create(where, existed, err);
}

void fleet_close(struct fleet_store *s)
{
    if (!s)
        return;
    s->engine->close(s);
    free(s->where);
    free(s);
}

bool fleet_broken(const struct fleet_store *s) { return s->broken; }

static const unsigned row_numbers[ASK_QUESTIONS] = {
    [ASK_TOTALS] = sizeof(struct store_totals) / sizeof(uint64_t),
    [ASK_SITES] = sizeof(struct store_row) / sizeof(uint64_t),
    [ASK_HELD] = HELD_NUMBERS,
    [ASK_LEAKS] = LEAK_NUMBERS,
    [ASK_SPREAD] = SPREAD_NUMBERS,
    [ASK_PARTS] = SPREAD_NUMBERS,
    [ASK_SLICES] = SLICE_NUMBERS,
    [ASK_SPAN] = SPAN_NUMBERS,
    [ASK_WATCHED] = WATCHED_NUMBERS,
    [ASK_WATCHED_TOTAL] = WATCHED_NUMBERS};
_Static_assert(sizeof(struct store_totals) <= STORE_NUMBERS * sizeof(uint64_t), "a row's numbers");

size_t store_numbers(enum store_question what) { return row_numbers[what]; }

char *store_sql(struct fleet_store *s, const struct store_query *q) { return s->engine->sql(s, q); }

int store_ask(struct fleet_store *s, struct store_query *q, store_answer_fn *answer, void *arg,
              struct error *err)
{
    return s->engine->ask(s, q, row_numbers[q->what], answer, arg, err);
}

int store_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                         bool call_sites, struct error *err)
{
    return s->engine->prepare_frames ? s->engine->prepare_frames(s, sites, count, call_sites, err)
                                     : 0;
}
