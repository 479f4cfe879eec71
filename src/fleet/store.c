/* store.c - which engine keeps a store, by its name; and the way to each of its functions. */
#include <stdlib.h>

#include "fleet/engine.h"

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

int store_begin(struct fleet_store *s, struct error *err) { return s->engine->begin(s, err); }

int store_commit(struct fleet_store *s, struct error *err) { return s->engine->commit(s, err); }

void store_rollback(struct fleet_store *s) { s->engine->rollback(s); }

int store_find(struct fleet_store *s, uint64_t key, struct store_found *found, struct error *err)
{
    return s->engine->find(s, key, found, err);
}

int store_remove(struct fleet_store *s, uint64_t key, struct error *err)
{
    return s->engine->remove(s, key, err);
}

int store_process(struct fleet_store *s, const struct store_process *p, int64_t *id,
                  struct error *err)
{
    return s->engine->process(s, p, id, err);
}

int store_label(struct fleet_store *s, int64_t process, const struct fleet_label *l,
                struct error *err)
{
    return s->engine->label(s, process, l, err);
}

int store_module(struct fleet_store *s, int64_t process, const char *build_id, const char *path,
                 struct error *err)
{
    return s->engine->module(s, process, build_id, path, err);
}

int store_location(struct fleet_store *s, const struct store_location *l, struct error *err)
{
    return s->engine->location(s, l, err);
}

int store_stack(struct fleet_store *s, const struct store_stack *k, struct error *err)
{
    return s->engine->stack(s, k, err);
}

int store_frame(struct fleet_store *s, const struct store_frame *f, struct error *err)
{
    return s->engine->frame(s, f, err);
}

int store_site(struct fleet_store *s, const struct store_site *i, struct error *err)
{
    return s->engine->site(s, i, err);
}

int store_figures(struct fleet_store *s, int64_t process, uint64_t stack,
                  const struct store_figures *f, struct error *err)
{
    return s->engine->figures(s, process, stack, f, err);
}

int store_slice(struct fleet_store *s, int64_t process, const struct store_slice *i,
                struct error *err)
{
    return s->engine->slice(s, process, i, err);
}

char *store_slices_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t width_ns)
{
    return s->engine->slices_sql(s, of, width_ns);
}

char *store_span_sql(struct fleet_store *s, const struct fleet_selection *of)
{
    return s->engine->span_sql(s, of);
}

int store_block(struct fleet_store *s, int64_t process, const struct store_block *b,
                struct error *err)
{
    return s->engine->block(s, process, b, err);
}

int store_find_watched(struct fleet_store *s, uint64_t key, bool *there, struct error *err)
{
    return s->engine->find_watched(s, key, there, err);
}

int store_watched(struct fleet_store *s, const struct store_watched *w, int64_t *id,
                  struct error *err)
{
    return s->engine->watched(s, w, id, err);
}

int store_watched_label(struct fleet_store *s, int64_t report, const struct fleet_label *l,
                        struct error *err)
{
    return s->engine->watched_label(s, report, l, err);
}

int store_watched_site(struct fleet_store *s, const struct store_watched_site *i, struct error *err)
{
    return s->engine->watched_site(s, i, err);
}

char *store_watched_sql(struct fleet_store *s, const struct fleet_selection *of, const char *kind,
                        bool totals)
{
    return s->engine->watched_sql(s, of, kind, totals);
}

int store_totals(struct fleet_store *s, const struct fleet_selection *of, struct store_totals *t,
                 struct error *err)
{
    return s->engine->totals(s, of, t, err);
}

int store_sites(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                store_row_fn *row, void *arg, struct error *err)
{
    return s->engine->sites(s, of, by, row, arg, err);
}

char *store_sites_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by)
{
    return s->engine->sites_sql(s, of, by);
}

int store_held(struct fleet_store *s, const struct fleet_selection *old,
               const struct fleet_selection *now, enum metric by, store_held_fn *held, void *arg,
               struct error *err)
{
    return s->engine->held(s, old, now, by, held, arg, err);
}

char *store_held_sql(struct fleet_store *s, const struct fleet_selection *old,
                     const struct fleet_selection *now, enum metric by)
{
    return s->engine->held_sql(s, old, now, by);
}

int store_ask(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
              void *arg, struct error *err)
{
    return sql ? s->engine->ask(s, sql, numbers, answer, arg, err) : error_memory(err);
}

int store_order(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                store_order_fn *site, void *arg, struct error *err)
{
    return s->engine->order(s, of, by, site, arg, err);
}

int store_leaks(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                struct error *err)
{
    return s->engine->leaks(s, of, sites, count, processes, answer, arg, err);
}

int store_spread(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 const uint64_t *sites, size_t count, uint64_t processes, store_answer_fn *answer,
                 void *arg, struct error *err)
{
    return s->engine->spread(s, of, by, sites, count, processes, answer, arg, err);
}

char *store_leaks_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t top)
{
    return s->engine->leaks_sql(s, of, top);
}

char *store_spread_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                       uint64_t top)
{
    return s->engine->spread_sql(s, of, by, top);
}

char *store_parts_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                      const struct fleet_group *group)
{
    return s->engine->parts_sql(s, of, by, group);
}

int store_frames(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                 void *arg, struct error *err)
{
    return s->engine->frames(s, site, call_site, frame, arg, err);
}

int store_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                         struct error *err)
{
    return s->engine->prepare_frames ? s->engine->prepare_frames(s, sites, count, err) : 0;
}
