/* sqlite_ask.c - the embedded store: queries whose whole answer is computed in SQL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/sqlite.h"

int sqlite_ask(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
               void *arg, struct error *err)
{
    uint64_t values[STORE_NUMBERS];
    sqlite3_stmt *k = NULL;
    int status = 0, step = SQLITE_DONE;
    if (sqlite3_prepare_v2(sqlite_of(s)->db, sql, -1, &k, NULL) != SQLITE_OK)
        status = sqlite_complain(s, "read", err);
    while (!status && (step = sqlite3_step(k)) == SQLITE_ROW) {
        for (unsigned i = 0; i < numbers; i++)
            values[i] = sqlite3_column_type(k, (int)i) == SQLITE_TEXT
                            ? strtoull((const char *)sqlite3_column_text(k, (int)i), NULL, 10)
                            : sqlite_value(k, (int)i);
        const char *text = (int)numbers < sqlite3_column_count(k)
                               ? (const char *)sqlite3_column_text(k, (int)numbers)
                               : NULL;
        status = answer(arg, values, text ? text : "", err);
    }
    if (!status && step != SQLITE_DONE)
        status = sqlite_complain(s, "read", err);
    sqlite3_finalize(k);
    return status;
}

/* Takes what SQLite allocated. */
char *sqlite_finished(sqlite3_str *b)
{
    char *text = sqlite3_str_finish(b), *copy = text ? strdup(text) : NULL;
    sqlite3_free(text);
    return copy;
}

void sqlite_put_sum(sqlite3_str *b, const char *value)
{
    sqlite3_str_appendf(b, SQLITE_SUM("%s"), value, value, value);
}

void sqlite_put_whole(sqlite3_str *b, const char *column)
{
    sqlite3_str_appendf(b, "CASE WHEN t.%s < 0 THEN printf('%%u', t.%s) ELSE t.%s END AS %s",
                        column, column, column, column);
}

void sqlite_put_order(sqlite3_str *b, const char *value)
{
    sqlite3_str_appendf(b, "(%s) < 0 DESC, (%s) DESC", value, value);
}

/* ---- call sites ---- */

/* "shown AS (...), ": the sites with most, of which alone processes are looked at; all: nothing. */
static void shown(sqlite3_str *b, const char *where, const char *by, bool leaks, uint64_t top)
{
    char value[64];
    snprintf(value, sizeof value, "f.%s", by);
    if (!top)
        return;
    sqlite3_str_appendall(b, "shown AS (SELECT t.site AS site FROM (SELECT s.site AS site, ");
    sqlite_put_sum(b, value);
    sqlite3_str_appendall(b, " AS total, ");
    sqlite_put_sum(b, "f.end_blocks");
    sqlite3_str_appendf(b,
                        " AS blocks FROM process AS p CROSS JOIN figure AS f ON f.process = p.id"
                        " CROSS JOIN stack AS s ON s.id = f.stack%s GROUP BY s.site"
                        " HAVING max(f.%s) > 0) AS t ORDER BY ",
                        where ? where : "", leaks ? "end_blocks" : by);
    sqlite_put_order(b, "t.total");
    if (leaks) {
        sqlite3_str_appendall(b, ", ");
        sqlite_put_order(b, "t.blocks");
    }
    sqlite3_str_appendf(b, ", t.site LIMIT %llu), ", (unsigned long long)top);
}

static const char *only_shown(uint64_t top)
{
    return top ? " AND s.site IN (SELECT site FROM shown)" : "";
}

char *sqlite_leaks_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t top)
{
    (void)s;
    sqlite3_str *b = sqlite3_str_new(NULL);
    char *where = sqlite_condition(of);
    sqlite3_str_appendall(b, "WITH ");
    shown(b, where, "end_bytes", true, top);
    /* a process's figure fits by itself: the sum over all its stacks does */
    sqlite3_str_appendf(
        b,
        "held AS (SELECT s.site AS site, p.host AS host, sum(f.end_bytes) AS bytes,"
        " sum(f.end_blocks) AS blocks FROM process AS p CROSS JOIN figure AS f ON f.process = p.id"
        " CROSS JOIN stack AS s ON s.id = f.stack%s%s GROUP BY s.site, p.id),"
        " ordered AS (SELECT *, row_number() OVER (PARTITION BY site ORDER BY bytes DESC, host"
        " DESC) AS place FROM held)"
        " SELECT site, ",
        where ? where : "", only_shown(top));
    sqlite_put_whole(b, "end_bytes");
    sqlite3_str_appendall(b, ", ");
    sqlite_put_whole(b, "end_blocks");
    sqlite3_str_appendall(
        b, ", processes, hosts, calling_processes, calling_hosts, most_bytes,"
           " most_host FROM (SELECT site, " SQLITE_SUM("bytes") " AS end_bytes, " SQLITE_SUM(
               "blocks") " AS end_blocks, sum(blocks > 0) AS processes,"
                         " count(DISTINCT CASE WHEN blocks > 0 THEN host END) AS hosts, count(*)"
                         " AS calling_processes, count(DISTINCT host) AS calling_hosts, max(bytes)"
                         " AS most_bytes, max(CASE WHEN place = 1 THEN host END) AS most_host FROM"
                         " ordered GROUP BY site HAVING max(blocks) > 0) AS t ORDER BY ");
    sqlite_put_order(b, "t.end_bytes");
    sqlite3_str_appendall(b, ", ");
    sqlite_put_order(b, "t.end_blocks");
    sqlite3_str_appendall(b, ", t.site");
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}

static const struct {
    const char *rank, *name;
} spread_ranks[SPREAD_RANKS] = {{"1", "minimum"},
                                {"(n + 3) / 4", "quartile_1"},
                                {"(n + 1) / 2", "median"},
                                {"(3 * n + 3) / 4", "quartile_3"},
                                {"(9 * n + 9) / 10", "p90"},
                                {"(99 * n + 99) / 100", "p99"},
                                {"n", "maximum"}};

/* Values by rank, of rows (value, rank) of which there would be n. */
static void ranks(sqlite3_str *b)
{
    for (size_t i = 0; i < SPREAD_RANKS; i++)
        sqlite3_str_appendf(b, ", max(CASE WHEN rank = %s THEN value ELSE 0 END) AS %s",
                            spread_ranks[i].rank, spread_ranks[i].name);
}

static void name_ranks(sqlite3_str *b)
{
    for (size_t i = 0; i < SPREAD_RANKS; i++)
        sqlite3_str_appendf(b, ", %s", spread_ranks[i].name);
}

char *sqlite_spread_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                        uint64_t top)
{
    (void)s;
    sqlite3_str *b = sqlite3_str_new(NULL);
    char *where = sqlite_condition(of);
    sqlite3_str_appendall(b, "WITH ");
    shown(b, where, store_column(by), false, top);
    sqlite3_str_appendf(
        b,
        "total AS (SELECT count(*) AS n FROM process AS p%s),"
        " held AS (SELECT s.site AS site, sum(f.%s) AS value FROM process AS p"
        " CROSS JOIN figure AS f ON f.process = p.id CROSS JOIN stack AS s ON s.id = f.stack%s%s"
        " GROUP BY s.site, p.id HAVING value > 0),"
        " ranked AS (SELECT site, value, n, n - count(*) OVER (PARTITION BY site) + row_number()"
        " OVER (PARTITION BY site ORDER BY value) AS rank FROM held, total) SELECT site, ",
        where ? where : "", store_column(by), where ? where : "", only_shown(top));
    sqlite_put_whole(b, "sum");
    sqlite3_str_appendall(b, ", processes");
    name_ranks(b);
    sqlite3_str_appendall(
        b, " FROM (SELECT site, " SQLITE_SUM("value") " AS sum, count(*) AS processes");
    ranks(b);
    sqlite3_str_appendall(b, " FROM ranked GROUP BY site) AS t ORDER BY ");
    sqlite_put_order(b, "t.sum");
    sqlite3_str_appendall(b, ", t.site");
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}

char *sqlite_parts_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                       const struct fleet_group *group)
{
    (void)s;
    sqlite3_str *b = sqlite3_str_new(NULL);
    char *where = sqlite_condition(of);
    sqlite3_str_appendall(b, "WITH parted AS (SELECT ");
    if (group->label)
        sqlite3_str_appendf(
            b, "ifnull((SELECT value FROM label WHERE process = p.id AND key = %Q), '')",
            group->label);
    else
        sqlite3_str_appendf(b, group->column ? "p.%s" : "''", group->column);
    sqlite3_str_appendf(b,
                        " AS part, p.%s AS value FROM process AS p%s),"
                        " ranked AS (SELECT part, value, row_number() OVER (PARTITION BY part"
                        " ORDER BY value) AS rank, count(*) OVER (PARTITION BY part) AS n FROM"
                        " parted) SELECT 0, ",
                        store_column(by), where ? where : "");
    sqlite_put_whole(b, "sum");
    sqlite3_str_appendall(b, ", processes");
    name_ranks(b);
    sqlite3_str_appendall(
        b, ", part FROM (SELECT part, " SQLITE_SUM("value") " AS sum, count(*) AS processes");
    ranks(b);
    sqlite3_str_appendall(b, " FROM ranked GROUP BY part) AS t ORDER BY ");
    sqlite_put_order(b, "t.sum");
    sqlite3_str_appendall(b, ", part");
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}
