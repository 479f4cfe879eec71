/* sqlite_watched.c - the embedded store: every block's life, and reports of sampled processes. */
#include <stdlib.h>
#include <string.h>

#include "fleet/sqlite.h"

static void bind_numbers(sqlite3_stmt *k, int column, const uint64_t *v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sqlite_number(k, column + (int)i, v[i]);
}

int sqlite_block(struct fleet_store *s, int64_t process, const struct store_block *b,
                 struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_BLOCK, err);
    if (!k)
        return -1;
    const uint64_t v[] = {(uint64_t)process, b->number,   b->stack,    b->size_bytes,
                          b->address,        b->thread,   b->freed_by, b->allocated_ns,
                          b->freed_ns,       b->temporary};
    bind_numbers(k, 1, v, sizeof v / sizeof *v);
    return sqlite_done(s, k, err);
}

int sqlite_find_watched(struct fleet_store *s, uint64_t key, bool *there, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, FIND_WATCHED, err);
    if (!k)
        return -1;
    sqlite_number(k, 1, key);
    const int step = sqlite3_step(k);
    *there = step == SQLITE_ROW;
    const int status =
        step == SQLITE_ROW || step == SQLITE_DONE ? 0 : sqlite_complain(s, "read", err);
    sqlite3_reset(k);
    return status;
}

int sqlite_watched(struct fleet_store *s, const struct store_watched *w, int64_t *id,
                   struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_WATCHED, err);
    if (!k)
        return -1;
    const char *const words[] = {w->host, w->service, w->exe, w->command, w->kind, w->process_end};
    const struct store_estimate *e = &w->total;
    const uint64_t numbers[] = {w->pid,     w->start_ns, w->time_ns, w->period,
                                w->dropped, w->sites,    e->bytes,   e->low,
                                e->high,    e->blocks,   e->samples, e->sampled_bytes};
    sqlite_number(k, 1, w->key);
    sqlite_number(k, 2, w->process);
    for (int i = 0; i < 6; i++)
        sqlite_text(k, 3 + i, words[i]);
    bind_numbers(k, 9, numbers, sizeof numbers / sizeof *numbers);
    if (sqlite_done(s, k, err))
        return -1;
    *id = sqlite3_last_insert_rowid(sqlite_of(s)->db);
    return 0;
}

int sqlite_watched_label(struct fleet_store *s, int64_t report, const struct fleet_label *l,
                         struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_WATCHED_LABEL, err);
    if (!k)
        return -1;
    sqlite3_bind_int64(k, 1, report);
    sqlite3_bind_text(k, 2, l->key, (int)l->key_bytes, SQLITE_STATIC);
    sqlite_text(k, 3, l->value);
    return sqlite_done(s, k, err);
}

int sqlite_watched_site(struct fleet_store *s, const struct store_watched_site *i,
                        struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_WATCHED_SITE, err);
    if (!k)
        return -1;
    const struct store_estimate *e = &i->estimate;
    const uint64_t v[] = {i->report,
                          i->place,
                          i->site,
                          e->bytes,
                          e->low,
                          e->high,
                          e->blocks,
                          e->samples,
                          e->sampled_bytes,
                          i->oldest_ns,
                          i->allocated_bytes,
                          i->freed_bytes};
    bind_numbers(k, 1, v, sizeof v / sizeof *v);
    return sqlite_done(s, k, err);
}

/* Of several independent estimates: how far the interval of the sum reaches. */
#define REACH(t, from, to)                                                                         \
    "CAST(round(sqrt(total(1.0 * (" t "." from " - " t "." to ") * (" t "." from " - " t "." to    \
    ")))) AS INTEGER)"
/* clang-format off */
#define ESTIMATES(t)                                                                               \
    SQLITE_SUM(t ".bytes") " AS bytes, " REACH(t, "bytes", "low") " AS down, "                     \
    REACH(t, "high", "bytes") " AS up, " SQLITE_SUM(t ".blocks") " AS blocks, "                    \
    SQLITE_SUM(t ".samples") " AS samples, " SQLITE_SUM(t ".sampled_bytes") " AS sampled_bytes,"   \
    " count(DISTINCT w.process) AS processes, count(DISTINCT w.host) AS hosts"
/* clang-format on */

/* Of the columns of a subquery `t`. */
static void put_estimates(sqlite3_str *b)
{
    static const struct {
        const char *name;
        bool sum;
    } of[] = {{"bytes", true},      {"down", false},   {"up", false},
              {"blocks", true},     {"samples", true}, {"sampled_bytes", true},
              {"processes", false}, {"hosts", false},  {"oldest", false}};
    sqlite3_str_appendall(b, "SELECT site");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sqlite3_str_appendall(b, ", ");
        if (of[i].sum)
            sqlite_put_whole(b, of[i].name);
        else
            sqlite3_str_appendall(b, of[i].name);
    }
}

char *sqlite_watched_sql(struct fleet_store *s, const struct fleet_selection *of, const char *kind,
                         bool totals)
{
    (void)s;
    char *where = sqlite_watched_condition(of);
    sqlite3_str *b = sqlite3_str_new(NULL);
    sqlite3_str_appendf(b,
                        "WITH ordered AS (SELECT p.*, row_number() OVER (PARTITION BY p.process"
                        " ORDER BY p.time_ns DESC, p.key DESC) AS place FROM watched AS p%s AND"
                        " p.kind = %Q), w AS (SELECT * FROM ordered WHERE place = 1) ",
                        where ? where : "", kind);
    put_estimates(b);
    sqlite3_str_appendall(
        b, totals ? " FROM (SELECT 0 AS site, " ESTIMATES("w") ", ifnull(min(w.time_ns), 0) AS"
                                                               " oldest FROM w) AS t"
                  : " FROM (SELECT i.site AS site, " ESTIMATES(
                        "i") ", max(i.oldest_ns) AS oldest"
                             " FROM w CROSS JOIN watched_site AS i ON i.report = w.key GROUP BY "
                             "i.site) AS t"
                             " ORDER BY ");
    if (!totals) {
        sqlite_put_order(b, "t.bytes");
        sqlite3_str_appendall(b, ", t.site");
    }
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}
