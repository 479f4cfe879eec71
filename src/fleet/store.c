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

int store_ask(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
              void *arg, struct error *err)
{
    return sql ? s->engine->ask(s, sql, numbers, answer, arg, err) : error_memory(err);
}

int store_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                         struct error *err)
{
    return s->engine->prepare_frames ? s->engine->prepare_frames(s, sites, count, err) : 0;
}
