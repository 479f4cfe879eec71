/* sqlite_read.c - the questions to the embedded store. */
#include <stdlib.h>
#include <string.h>

#include "fleet/sqlite.h"
#include "fleet/sums.h"

static char *condition_on(const struct fleet_selection *of, const char *time, const char *labels)
{
    sqlite3_str *w = sqlite3_str_new(NULL);
    sqlite3_str_appendall(w, " WHERE 1");
    if (of->host)
        sqlite3_str_appendf(w, " AND p.host = %Q", of->host);
    if (of->service)
        sqlite3_str_appendf(w, " AND p.service = %Q", of->service);
    if (of->build_id)
        sqlite3_str_appendf(w, " AND substr(p.build_id, 1, %d) = lower(%Q)",
                            (int)strlen(of->build_id), of->build_id);
    if (of->since_ns)
        sqlite3_str_appendf(w, " AND p.%s >= %lld", time, (long long)of->since_ns);
    if (of->until_ns)
        sqlite3_str_appendf(w, " AND p.%s < %lld", time, (long long)of->until_ns);
    for (size_t i = 0; i < of->label_count; i++)
        sqlite3_str_appendf(w,
                            " AND EXISTS(SELECT 1 FROM %s = p.id AND key = '%.*q'"
                            " AND value = %Q)",
                            labels, (int)of->labels[i].key_bytes, of->labels[i].key,
                            of->labels[i].value);
    return sqlite3_str_finish(w);
}

char *sqlite_condition(const struct fleet_selection *of)
{
    return condition_on(of, "start_ns", "label WHERE process");
}

char *sqlite_watched_condition(const struct fleet_selection *of)
{
    return condition_on(of, "time_ns", "watched_label WHERE report");
}

#define NAME(member, key) #member,
static const char *const columns[STORE_FIGURES] = {STORE_FIGURE_LIST(NAME)};

static void put_sums(sqlite3_str *b)
{
    for (size_t i = 0; i < STORE_FIGURES; i++) {
        char value[64];
        snprintf(value, sizeof value, "f.%s", columns[i]);
        sqlite3_str_appendall(b, ", ");
        sqlite_put_sum(b, value);
        sqlite3_str_appendf(b, " AS %s", columns[i]);
    }
}

/* CROSS JOIN is SQLite's word for "in this order": from the processes selected to their figures. */
char *sqlite_sites_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by)
{
    const char *const order[] = {store_column(by), "peak_bytes", "allocated_bytes", "calls"};
    char *where = sqlite_condition(of);
    sqlite3_str *b = sqlite3_str_new(NULL);
    (void)s;
    sqlite3_str_appendall(b, "SELECT site");
    for (size_t i = 0; i < STORE_FIGURES; i++) {
        sqlite3_str_appendall(b, ", ");
        sqlite_put_whole(b, columns[i]);
    }
    sqlite3_str_appendall(b, ", processes, hosts FROM (SELECT s.site AS site");
    put_sums(b);
    sqlite3_str_appendf(
        b,
        ", count(DISTINCT CASE WHEN f.%s > 0 THEN p.id END) AS processes,"
        " count(DISTINCT CASE WHEN f.%s > 0 THEN p.host END) AS hosts FROM process AS p CROSS JOIN"
        " figure AS f ON f.process = p.id CROSS JOIN stack AS s ON s.id = f.stack%s"
        " GROUP BY s.site) AS t ORDER BY ",
        store_column(by), store_column(by), where ? where : "");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char value[64];
        snprintf(value, sizeof value, "t.%s", order[i]);
        sqlite_put_order(b, value);
        sqlite3_str_appendall(b, ", ");
    }
    sqlite3_str_appendall(b, "t.site");
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}

static struct store_figures figures_at(sqlite3_stmt *k, int column)
{
    uint64_t v[STORE_FIGURES];
    for (size_t i = 0; i < STORE_FIGURES; i++)
        v[i] = sqlite_value(k, column + (int)i);
    return store_figures_get(v);
}

int sqlite_site_of(void *arg, uint64_t stack, uint64_t *site, struct error *err)
{
    struct fleet_store *s = arg;
    sqlite3_stmt *k = sqlite_prepared(s, GET_SITE, err);
    if (!k)
        return -1;
    sqlite_number(k, 1, stack);
    const int step = sqlite3_step(k);
    *site = step == SQLITE_ROW ? sqlite_value(k, 0) : 0;
    const int status =
        step == SQLITE_ROW ? 0
        : step == SQLITE_DONE
            ? error_set(err, ERROR_FORMAT, "%s is damaged: a stack is not there", s->where)
            : sqlite_complain(s, "read", err);
    sqlite3_reset(k);
    return status;
}

/* The processes selected, those of a host together. */
static char *processes_sql(const struct fleet_selection *of)
{
    char *where = sqlite_condition(of), *sql = NULL;
    if (where &&
        asprintf(&sql, "SELECT p.id, p.host FROM process AS p%s ORDER BY p.host, p.id", where) < 0)
        sql = NULL;
    sqlite3_free(where);
    return sql;
}

struct sqlite_visit {
    struct sqlite_figure *f;
    sqlite_figure_fn *visit;
    void *arg;
    struct error *err;
    bool failed;
};

static void visit_row(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct sqlite_visit *v = sqlite_of(sqlite3_user_data(context))->visit;
    uint64_t n[1 + STORE_FIGURES];
    for (int i = 0; i < count; i++)
        n[i] = (uint64_t)sqlite3_value_int64(values[i]);
    if (!v || v->failed)
        return;
    v->f->stack = n[0];
    v->f->figures = store_figures_get(n + 1);
    v->failed = v->visit(v->arg, v->f, v->err) != 0;
    if (v->failed)
        sqlite3_result_error(context, "a figure was refused", -1);
}

static void end_visit(sqlite3_context *context) { sqlite3_result_null(context); }

int sqlite_add_visitor(struct fleet_store *s, struct error *err)
{
    return sqlite3_create_function(sqlite_of(s)->db, "mallow_visit", 1 + (int)STORE_FIGURES,
                                   SQLITE_UTF8 | SQLITE_DIRECTONLY, s, NULL, visit_row,
                                   end_visit) == SQLITE_OK
               ? 0
               : sqlite_complain(s, "use", err);
}

/* The figures of one process. */
static int visit_process(struct fleet_store *s, struct sqlite_figure *f, sqlite_figure_fn *visit,
                         void *arg, struct error *err)
{
    struct sqlite_visit v = {f, visit, arg, err, false};
    sqlite3_stmt *k = sqlite_prepared(s, GET_FIGURES, err);
    if (!k)
        return -1;
    sqlite3_bind_int64(k, 1, (int64_t)f->process);
    sqlite_of(s)->visit = &v;
    const int step = sqlite3_step(k);
    sqlite_of(s)->visit = NULL;
    const int status = v.failed ? -1 : step == SQLITE_ROW ? 0 : sqlite_complain(s, "read", err);
    sqlite3_reset(k);
    return status;
}

int sqlite_each_figure(struct fleet_store *s, const struct fleet_selection *of,
                       sqlite_figure_fn *visit, void *arg, struct error *err)
{
    char *sql = processes_sql(of), *last = NULL;
    struct sqlite_figure f = {0};
    sqlite3_stmt *k = NULL;
    int status = 0, step = SQLITE_DONE;
    if (!sql)
        return error_memory(err);
    if (sqlite3_prepare_v2(sqlite_of(s)->db, sql, -1, &k, NULL) != SQLITE_OK)
        status = sqlite_complain(s, "read", err);
    /* while this statement is at work, all others see the store as it is now */
    while (!status && (step = sqlite3_step(k)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(k, 1);
        if (!last || !name || strcmp(last, name)) {
            f.host_number++;
            free(last);
            f.host = last = strdup(name ? name : "");
            status = last ? 0 : error_memory(err);
        }
        f.process = sqlite_value(k, 0);
        f.process_number++;
        if (!status)
            status = visit_process(s, &f, visit, arg, err);
    }
    if (!status && step != SQLITE_DONE)
        status = sqlite_complain(s, "read", err);
    sqlite3_finalize(k);
    free(last);
    free(sql);
    return status;
}

struct adding {
    struct fleet_store *store;
    struct sums sums;
};

static int add_figure(void *arg, const struct sqlite_figure *f, struct error *err)
{
    struct adding *a = arg;
    return sums_add(&a->sums, f->process_number, f->host_number, f->stack, &f->figures,
                    sqlite_site_of, a->store, err);
}

/* The answer to sqlite_sites_sql, without sorting all rows. */
int sqlite_sites(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_row_fn *row, void *arg, struct error *err)
{
    struct adding a = {.store = s, .sums.by = by};
    int status = sqlite_each_figure(s, of, add_figure, &a, err);
    if (!status)
        status = sums_rows(&a.sums, row, arg, err);
    sums_release(&a.sums);
    return status;
}

/* A process's figure fits by itself, since the sum over all its stacks does. */
char *sqlite_held_sql(struct fleet_store *s, const struct fleet_selection *old,
                      const struct fleet_selection *now, enum metric by)
{
    char *where[2] = {sqlite_condition(old), sqlite_condition(now)};
    char *sql = NULL;
    (void)s;
    if (where[0] && where[1] &&
        asprintf(&sql,
                 "SELECT i.path, max(s.site) AS site, c.newer, " SQLITE_SUM(
                     "f.%s") " AS value FROM"
                             " (SELECT p.id, 0 AS newer FROM process AS p%s UNION ALL"
                             " SELECT p.id, 1 FROM process AS p%s) AS c"
                             " CROSS JOIN figure AS f ON f.process = c.id CROSS JOIN stack AS s ON "
                             "s.id = f.stack"
                             " CROSS JOIN site AS i ON i.id = s.site"
                             " GROUP BY i.path, c.newer, c.id ORDER BY i.path, c.newer, c.id",
                 store_column(by), store_column(by), store_column(by), where[0], where[1]) < 0)
        sql = NULL;
    sqlite3_free(where[0]);
    sqlite3_free(where[1]);
    return sql;
}

struct holding {
    store_held_fn *held;
    void *arg;
};

static int hand_held(void *arg, const uint64_t *numbers, const char *text, struct error *err)
{
    const struct holding *h = arg;
    const uint64_t value = numbers[3];
    const struct store_held held = {.path = numbers[0],
                                    .site = numbers[1],
                                    .newer = numbers[2],
                                    .processes = 1,
                                    .sum = value,
                                    .squares = (unsigned __int128)value * value};
    (void)text;
    return h->held(h->arg, &held, err);
}

int sqlite_held(struct fleet_store *s, const struct fleet_selection *old,
                const struct fleet_selection *now, enum metric by, store_held_fn *held, void *arg,
                struct error *err)
{
    struct holding holding = {held, arg};
    char *sql = sqlite_held_sql(s, old, now, by);
    const int status = sql ? sqlite_ask(s, sql, 4, hand_held, &holding, err) : error_memory(err);
    free(sql);
    return status;
}

#define TOTALS                                                                                     \
    "SELECT count(*), total(NOT p.complete), count(DISTINCT p.host), count(DISTINCT p.service),"   \
    " count(DISTINCT nullif(p.build_id, '')), sum(p.events), sum(p.lost_events), " SQLITE_SUM(     \
        "p.requested_bytes")

int sqlite_totals(struct fleet_store *s, const struct fleet_selection *of, struct store_totals *t,
                  struct error *err)
{
    char *where = sqlite_condition(of);
    sqlite3_str *b = sqlite3_str_new(NULL);
    sqlite3_str_appendall(b, TOTALS);
    for (size_t i = 0; i < STORE_FIGURES; i++) {
        char value[64];
        snprintf(value, sizeof value, "p.%s", columns[i]);
        sqlite3_str_appendall(b, ", ");
        sqlite_put_sum(b, value);
    }
    sqlite3_str_appendf(b, " FROM process AS p%s", where ? where : "");
    char *sql = sqlite_finished(b);
    sqlite3_stmt *k = NULL;
    int status = 0;
    if (!sql || !where)
        status = error_memory(err);
    else if (sqlite3_prepare_v2(sqlite_of(s)->db, sql, -1, &k, NULL) != SQLITE_OK ||
             sqlite3_step(k) != SQLITE_ROW)
        status = sqlite_complain(s, "read", err);
    else
        *t = (struct store_totals){.processes = sqlite_value(k, 0),
                                   .incomplete = sqlite_value(k, 1),
                                   .hosts = sqlite_value(k, 2),
                                   .services = sqlite_value(k, 3),
                                   .builds = sqlite_value(k, 4),
                                   .events = sqlite_value(k, 5),
                                   .lost_events = sqlite_value(k, 6),
                                   .requested_bytes = sqlite_value(k, 7),
                                   .figures = figures_at(k, 8)};
    sqlite3_finalize(k);
    free(sql);
    sqlite3_free(where);
    return status;
}

int sqlite_frames(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                  void *arg, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, GET_FRAME, err);
    int status = k ? 0 : -1;
    *call_site = 0;
    for (unsigned depth = 0; site && !status; depth++) {
        sqlite_number(k, 1, site);
        const int step = sqlite3_step(k);
        const char *json = step == SQLITE_ROW ? (const char *)sqlite3_column_text(k, 2) : NULL;
        if (depth == STORE_DEEPEST || !json) {
            status = error_set(err, ERROR_FORMAT,
                               "%s is damaged: the frames of a call site are not there", s->where);
        } else {
            if (!depth && sqlite3_column_int64(k, 1) > 0)
                *call_site = sqlite_value(k, 1);
            site = sqlite_value(k, 0);
            status = frame(arg, json, err);
        }
        sqlite3_reset(k);
    }
    return status;
}
