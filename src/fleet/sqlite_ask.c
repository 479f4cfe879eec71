/* sqlite_ask.c - the embedded store: its sqlite_questions as SQL.
 *
 * CROSS JOIN is SQLite's word for "in this order": from the processes selected to their figures.
 * Sums are exact whatever the values are (SQLite's own sum() ends the whole query when they do not
 * fit): as a column they are modulo 2^64, so negative from 2^63 on, and $whole turns such a column
 * of a subquery `t` into what people read. The sum of a process fits by itself, since the sum over
 * all its stacks does. */
#include <stdlib.h>
#include <string.h>

#include "fleet/sql.h"
#include "fleet/sqlite.h"

/* As sqlite3_mprintf, whose %Q and %q quote. */
static void put_quoted(struct buffer *to, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    char *text = sqlite3_vmprintf(format, values);
    va_end(values);
    if (text)
        buffer_append_text(to, text);
    to->failed |= !text;
    sqlite3_free(text);
}

static void put_sqlite_condition(struct buffer *to, const struct fleet_selection *of,
                                 const char *time, const char *labels)
{
    buffer_append_text(to, " WHERE 1");
    for (const struct fleet_fact *f = fleet_facts; f < fleet_facts + FLEET_FACTS; f++) {
        const char *asked = fleet_fact_of(of, f);
        if (asked && f->bits & FLEET_FACT_DIGITS)
            put_quoted(to, " AND substr(p.%s, 1, %d) = lower(%Q)", f->column, (int)strlen(asked),
                       asked);
        else if (asked)
            put_quoted(to, " AND p.%s = %Q", f->column, asked);
    }
    if (of->since_ns)
        put_quoted(to, " AND p.%s >= %lld", time, (long long)of->since_ns);
    if (of->until_ns)
        put_quoted(to, " AND p.%s < %lld", time, (long long)of->until_ns);
    for (size_t i = 0; i < of->label_count; i++)
        put_quoted(to, " AND EXISTS(SELECT 1 FROM %s = p.id AND key = '%.*q' AND value = %Q)",
                   labels, (int)of->labels[i].key_bytes, of->labels[i].key, of->labels[i].value);
}

static void sqlite_word_where(const struct sql *s, struct buffer *to, const char *argument)
{
    const bool old = !strcmp(argument, "old");
    put_sqlite_condition(to, old ? s->q->old : s->q->of, "start_ns", "label WHERE process");
}

static void sqlite_word_where_watched(const struct sql *s, struct buffer *to, const char *argument)
{
    (void)argument;
    put_sqlite_condition(to, s->q->of, "time_ns", "watched_label WHERE report");
    put_quoted(to, " AND p.kind = %Q", s->q->kind);
}

static void sqlite_word_facts(const struct sql *s, struct buffer *to, const char *argument)
{
    (void)s, (void)argument;
    for (const struct fleet_fact *f = fleet_facts; f < fleet_facts + FLEET_FACTS; f++)
        buffer_printf(to,
                      f->bits & FLEET_FACT_BLANK ? ", count(DISTINCT p.%s)"
                                                 : ", count(DISTINCT nullif(p.%s, ''))",
                      f->column);
}

static void sqlite_word_part(const struct sql *s, struct buffer *to, const char *argument)
{
    const struct fleet_group *group = s->q->group;
    (void)argument;
    if (group->label)
        put_quoted(to, "ifnull((SELECT value FROM label WHERE process = p.id AND key = %Q), '')",
                   group->label);
    else
        put_quoted(to, group->column ? "p.%s" : "''", group->column);
}

/* The table s(id, site) of all stacks. A call site is so many frames outward of a stack's end. */
#define CALLED                                                                                     \
    "way(id, at, left) AS (SELECT id, id, call_site FROM site WHERE call_site >= 0 OR id = 0"      \
    " UNION ALL SELECT way.id, i.parent, way.left - 1 FROM way CROSS JOIN site AS i"               \
    " ON i.id = way.at WHERE way.left > 0), called(id, site) AS (SELECT way.id, i.frame FROM way"  \
    " CROSS JOIN site AS i ON i.id = way.at WHERE way.left <= 0)"

static void sqlite_word_with_called(const struct sql *s, struct buffer *to, const char *argument)
{
    if (s->q->call_sites)
        buffer_printf(to, "WITH RECURSIVE " CALLED "%s ", *argument ? "," : "");
    else if (*argument)
        buffer_append_text(to, "WITH ");
}

static void sqlite_word_stacks(const struct sql *s, struct buffer *to, const char *argument)
{
    buffer_printf(to,
                  s->q->call_sites ? "stack AS i%s CROSS JOIN called AS s ON s.id = i.site"
                                   : "stack AS s%s",
                  !*argument         ? ""
                  : s->q->call_sites ? " ON i.id = f.stack"
                                     : " ON s.id = f.stack");
}

static void sqlite_word_site(const struct sql *s, struct buffer *to, const char *argument)
{
    (void)argument;
    buffer_append_text(to, s->q->call_sites ? "s.site" : "i.site");
}

static void sqlite_word_watched_sites(const struct sql *s, struct buffer *to, const char *argument)
{
    (void)argument;
    buffer_append_text(to, s->q->call_sites
                               ? " CROSS JOIN called AS s ON s.id = i.site GROUP BY s.site"
                               : " GROUP BY i.site");
}

/* "shown(stack, site) AS (...), ": those of the call sites with most, whose processes alone are
 * looked at. sqlite_read.c has them in a table of that name, which is what arg says. */
static void sqlite_word_shown(const struct sql *s, struct buffer *to, const char *argument)
{
    const char *stack = s->q->call_sites ? "i.id" : "s.id";
    (void)argument;
    if (s->arg) {
        buffer_append_text(to, "WITH ");
        return;
    }
    sql_put(s, to, "$with_called(more)");
    if (s->q->top)
        sql_put(s, to,
                s->q->what == ASK_LEAKS
                    ? "most AS (SELECT t.site AS site FROM (SELECT s.site AS site,"
                      " $sum(f.end_bytes) AS total, $sum(f.end_blocks) AS blocks FROM $figures"
                      " GROUP BY s.site HAVING max(f.end_blocks) > 0) AS t ORDER BY"
                      " $largest(t.total), $largest(t.blocks), t.site LIMIT $top), "
                    : "most AS (SELECT t.site AS site FROM (SELECT s.site AS site,"
                      " $sum(f.$by) AS total FROM $figures GROUP BY s.site HAVING max(f.$by) > 0)"
                      " AS t ORDER BY $largest(t.total), t.site LIMIT $top), ");
    buffer_printf(to, "shown(stack, site) AS (SELECT %s, s.site FROM ", stack);
    sql_put(s, to, "$stacks()");
    buffer_append_text(to, s->q->top ? " WHERE s.site IN (SELECT site FROM most)), " : "), ");
}

/* For several independent estimates: how far the interval of the sum reaches. $1: "from - to" */
#define REACH "CAST(round(sqrt(total(1.0 * ($1) * ($1)))) AS INTEGER)"
#define ESTIMATES(t)                                                                               \
    "$sum(" t ".bytes) AS bytes, $reach(" t ".bytes - " t ".low) AS down, $reach(" t ".high - " t  \
    ".bytes) AS up, $sum(" t ".blocks) AS blocks, $sum(" t ".samples) AS samples, $sum(" t         \
    ".sampled_bytes) AS sampled_bytes, count(DISTINCT w.process) AS processes,"                    \
    " count(DISTINCT w.host) AS hosts"

static const struct sql_word sqlite_words[] = {
    {"where", NULL, sqlite_word_where},
    {"where_watched", NULL, sqlite_word_where_watched},
    {"facts", NULL, sqlite_word_facts},
    {"part", NULL, sqlite_word_part},
    {"with_called", NULL, sqlite_word_with_called},
    {"stacks", NULL, sqlite_word_stacks},
    {"site", NULL, sqlite_word_site},
    {"watched_sites", NULL, sqlite_word_watched_sites},
    {"shown", NULL, sqlite_word_shown},
    {"sum",
     "((sum($1 >> 31) + (sum($1 & 2147483647) >> 31)) << 31) | (sum($1 & 2147483647) &"
     " 2147483647)",
     NULL},
    {"whole", "CASE WHEN t.$1 < 0 THEN printf('%u', t.$1) ELSE t.$1 END AS $1", NULL},
    {"largest", "($1) < 0 DESC, ($1) DESC", NULL},
    {"reach", REACH, NULL},
    {"figures",
     "process AS p CROSS JOIN figure AS f ON f.process = p.id CROSS JOIN $stacks(f)"
     "$where",
     NULL},
    {"shown_figures",
     "process AS p CROSS JOIN figure AS f ON f.process = p.id CROSS JOIN shown AS s"
     " ON s.stack = f.stack$where",
     NULL},
    {"rank", "max(CASE WHEN rank = $1 THEN value ELSE 0 END)", NULL},
    /* by rank, of rows (value, rank) of which there would be n */
    {"ranks",
     "$rank(1) AS minimum, $rank((n + 3) / 4) AS quartile_1, $rank((n + 1) / 2) AS median,"
     " $rank((3 * n + 3) / 4) AS quartile_3, $rank((9 * n + 9) / 10) AS p90,"
     " $rank((99 * n + 99) / 100) AS p99, $rank(n) AS maximum",
     NULL},
    {"rank_names", "minimum, quartile_1, median, quartile_3, p90, p99, maximum", NULL},
    {"estimates",
     "$whole(bytes), down, up, $whole(blocks), $whole(samples), $whole(sampled_bytes),"
     " processes, hosts, oldest",
     NULL},
    /* the last report of each process */
    {"last",
     "ordered AS (SELECT p.*, row_number() OVER (PARTITION BY p.process ORDER BY p.time_ns"
     " DESC, p.key DESC) AS place FROM watched AS p$where_watched), w AS (SELECT * FROM"
     " ordered WHERE place = 1) ",
     NULL},
    {NULL, NULL, NULL}};

static const char *const sqlite_questions[ASK_QUESTIONS] = {
    [ASK_TOTALS] =
        "SELECT count(*), total(NOT p.complete)$facts, sum(p.events), sum(p.lost_events),"
        " $sum(p.requested_bytes)$each(, $sum(p.$f)) FROM process AS p$where",
    [ASK_SITES] =
        "$with_called()SELECT site$each(, $whole($f)), processes, hosts FROM (SELECT s.site AS site"
        "$each(, $sum(f.$f) AS $f), count(DISTINCT CASE WHEN f.$by > 0 THEN p.id END) AS processes,"
        " count(DISTINCT CASE WHEN f.$by > 0 THEN p.host END) AS hosts FROM $figures"
        " GROUP BY s.site) AS t ORDER BY $largest(t.$by), $largest(t.peak_bytes),"
        " $largest(t.allocated_bytes), $largest(t.calls), t.site",
    [ASK_HELD] =
        "SELECT i.path, max(s.site) AS site, c.newer, $sum(f.$by) AS value FROM"
        " (SELECT p.id, 0 AS newer FROM process AS p$where(old) UNION ALL"
        " SELECT p.id, 1 FROM process AS p$where) AS c CROSS JOIN figure AS f ON f.process = c.id"
        " CROSS JOIN stack AS s ON s.id = f.stack CROSS JOIN site AS i ON i.id = s.site"
        " GROUP BY i.path, c.newer, c.id ORDER BY i.path, c.newer, c.id",
    [ASK_LEAKS] =
        "$shown(end_bytes)held AS (SELECT s.site AS site, p.host AS host, $sum(f.end_bytes) AS"
        " bytes, $sum(f.end_blocks) AS blocks FROM $shown_figures GROUP BY s.site, p.id)"
        " SELECT site, $whole(end_bytes), $whole(end_blocks), processes, hosts, calling_processes,"
        " calling_hosts, most_bytes, substr(most, 21) AS most_host FROM (SELECT site, $sum(bytes)"
        " AS end_bytes, $sum(blocks) AS end_blocks, sum(blocks > 0) AS processes,"
        " count(DISTINCT CASE WHEN blocks > 0 THEN host END) AS hosts, count(*) AS"
        " calling_processes, count(DISTINCT host) AS calling_hosts, max(bytes) AS most_bytes,"
        " max(printf('%020d', bytes) || host) AS most FROM held GROUP BY site"
        " HAVING max(blocks) > 0) AS t ORDER BY $largest(t.end_bytes), $largest(t.end_blocks),"
        " t.site",
    [ASK_SPREAD] =
        "$shown($by)total AS (SELECT count(*) AS n FROM process AS p$where),"
        " held AS (SELECT s.site AS site, $sum(f.$by) AS value FROM $shown_figures"
        " GROUP BY s.site, p.id HAVING value != 0),"
        " ranked AS (SELECT site, value, n, n - count(*) OVER (PARTITION BY site) + row_number()"
        " OVER (PARTITION BY site ORDER BY value) AS rank FROM held, total)"
        " SELECT site, $whole(sum), processes, $rank_names FROM (SELECT site, $sum(value) AS sum,"
        " count(*) AS processes, $ranks FROM ranked GROUP BY site) AS t"
        " ORDER BY $largest(t.sum), t.site",
    [ASK_PARTS] =
        "WITH parted AS (SELECT $part AS part, p.$by AS value FROM process AS p$where),"
        " ranked AS (SELECT part, value, row_number() OVER (PARTITION BY part ORDER BY value) AS"
        " rank, count(*) OVER (PARTITION BY part) AS n FROM parted)"
        " SELECT 0, $whole(sum), processes, $rank_names, part FROM (SELECT part, $sum(value) AS "
        "sum,"
        " count(*) AS processes, $ranks FROM ranked GROUP BY part) AS t"
        " ORDER BY $largest(t.sum), part",
    /* among the narrower slices of a process in a slice, the last one has the values at the end */
    [ASK_SLICES] =
        "SELECT start_ns, processes, hosts, $whole(live_bytes), $whole(peak_bytes),"
        " $whole(allocated_bytes), $whole(calls) FROM (SELECT start_ns, count(*) AS processes,"
        " count(DISTINCT host) AS hosts, $sum(live_bytes) AS live_bytes, $sum(peak_bytes) AS"
        " peak_bytes, $sum(allocated_bytes) AS allocated_bytes, $sum(calls) AS calls FROM"
        " (SELECT i.start_ns / $width * $width AS start_ns, p.host AS host, sum(CASE WHEN i.last OR"
        " (i.start_ns + i.width_ns) % $width = 0 THEN i.live_bytes ELSE 0 END) AS live_bytes,"
        " max(i.peak_bytes) AS peak_bytes, sum(i.allocated_bytes) AS allocated_bytes, sum(i.calls)"
        " AS calls FROM process AS p CROSS JOIN slice AS i ON i.process = p.id$where"
        " GROUP BY i.start_ns / $width, p.id) GROUP BY start_ns) AS t ORDER BY start_ns",
    [ASK_SPAN] = "SELECT min(p.start_ns), max(p.end_ns), max(p.slice_ns) FROM process AS p$where",
    [ASK_WATCHED] = "$with_called(more)$last"
                    "SELECT site, $estimates FROM (SELECT $site AS site, " ESTIMATES(
                        "i") ","
                             " max(i.oldest_ns) AS oldest FROM w CROSS JOIN watched_site AS i ON "
                             "i.report = w.key"
                             "$watched_sites) AS t ORDER BY $largest(t.bytes), t.site",
    [ASK_WATCHED_TOTAL] = "WITH $last"
                          "SELECT site, $estimates FROM (SELECT 0 AS site, " ESTIMATES(
                              "w") ","
                                   " ifnull(min(w.time_ns), 0) AS oldest FROM w) AS t"};

char *sqlite_sql(struct fleet_store *s, const struct store_query *q)
{
    (void)s;
    return sql_text(&(struct sql){.words = sqlite_words, .q = q}, sqlite_questions[q->what]);
}

char *sqlite_sql_of_shown(const struct store_query *q)
{
    return sql_text(&(struct sql){.words = sqlite_words, .q = q, .arg = q},
                    sqlite_questions[q->what]);
}

char *sqlite_sql_of_processes(const struct store_query *q)
{
    return sql_text(&(struct sql){.words = sqlite_words, .q = q},
                    "SELECT p.id, p.host FROM process AS p$where ORDER BY p.host, p.id");
}
