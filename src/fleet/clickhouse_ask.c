/* clickhouse_ask.c - a store on a server: its clickhouse_questions as SQL.
 *
 * All are exact however the rows are spread over the nodes of a cluster: sums and sets of what each
 * node has are joined where the question was asked, and lists go to all nodes (GLOBAL). Tables and
 * functions are such as every server since 18.16 has. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/clickhouse.h"
#include "fleet/sql.h"

static void quote_text(struct buffer *b, const char *text)
{
    clickhouse_quote(b, text, strlen(text));
}

/* About a row with host, service, labels and a column of its time. */
static void clickhouse_word_where(const struct sql *s, struct buffer *b, const char *argument)
{
    const bool watched = s->q->what == ASK_WATCHED || s->q->what == ASK_WATCHED_TOTAL;
    const struct fleet_selection *of = !strcmp(argument, "old") ? s->q->old : s->q->of;
    const char *time = watched ? "time_ns" : "start_ns";
    for (const struct fleet_fact *f = fleet_facts; f < fleet_facts + FLEET_FACTS; f++) {
        const char *asked = fleet_fact_of(of, f);
        const bool digits = f->bits & FLEET_FACT_DIGITS;
        if (!asked)
            continue;
        if (digits)
            buffer_printf(b, " AND substring(%s, 1, %zu) = lower(", f->column, strlen(asked));
        else
            buffer_printf(b, " AND %s = ", f->column);
        quote_text(b, asked);
        buffer_append_text(b, digits ? ")" : "");
    }
    if (of->since_ns)
        buffer_printf(b, " AND %s >= %" PRId64, time, of->since_ns < 0 ? 0 : of->since_ns);
    if (of->until_ns)
        buffer_printf(b, " AND %s < %" PRId64, time, of->until_ns < 0 ? 0 : of->until_ns);
    for (size_t i = 0; i < of->label_count; i++) {
        const struct fleet_label *l = &of->labels[i];
        buffer_append_text(b, " AND arrayExists((k, v) -> k = ");
        clickhouse_quote(b, l->key, l->key_bytes);
        buffer_append_text(b, " AND v = ");
        quote_text(b, l->value);
        buffer_append_text(b, ", label_keys, label_values)");
    }
}

static void clickhouse_word_kind(const struct sql *s, struct buffer *b, const char *argument)
{
    (void)argument;
    quote_text(b, s->q->kind);
}

static void clickhouse_word_facts(const struct sql *s, struct buffer *b, const char *argument)
{
    (void)s, (void)argument;
    for (const struct fleet_fact *f = fleet_facts; f < fleet_facts + FLEET_FACTS; f++)
        buffer_printf(
            b, f->bits & FLEET_FACT_BLANK ? ", uniqExact(%s)" : ", uniqExactIf(%s, notEmpty(%s))",
            f->column, f->column);
}

static void clickhouse_word_part(const struct sql *s, struct buffer *b, const char *argument)
{
    const struct fleet_group *group = s->q->group;
    (void)argument;
    if (!group->label) {
        buffer_append_text(b, group->column ? group->column : "''");
        return;
    }
    buffer_append_text(b, "label_values[indexOf(label_keys, ");
    quote_text(b, group->label);
    buffer_append_text(b, ")]");
}

/* Which rows of figures: those of the processes selected, or of a part of them. */
static void clickhouse_word_attempts(const struct sql *s, struct buffer *b, const char *argument)
{
    const struct clickhouse_some *some = s->arg;
    if (some && some->attempts)
        buffer_append_text(b, some->attempts);
    else
        sql_put(s, b, !strcmp(argument, "old") ? "$attempts_of(old)" : "$attempts_of()");
}

/* "stack, site" of all stacks. */
static void clickhouse_word_sites(const struct sql *s, struct buffer *b, const char *argument)
{
    (void)argument;
    sql_put(
        s, b,
        s->q->call_sites
            ? "SELECT stack, frame AS site FROM (SELECT id AS stack, argMax(site, named) AS ends"
              " FROM stack GROUP BY id) AS stacks GLOBAL ALL INNER JOIN ($called) AS called"
              " USING ends"
            : "SELECT id AS stack, argMax(site, named) AS site FROM stack GROUP BY id");
}

/* The same of the sites that are asked for: a list, or those with most. */
static void clickhouse_word_shown_sites(const struct sql *s, struct buffer *b, const char *argument)
{
    const struct clickhouse_some *some = s->arg;
    (void)argument;
    sql_put(s, b, "SELECT stack, site FROM ($sites)");
    for (size_t i = 0; some && i < some->count; i++)
        buffer_printf(b, "%s%" PRIu64, i ? "," : " WHERE site IN (", some->sites[i]);
    if (some && some->count)
        buffer_append_char(b, ')');
    else if (s->q->top)
        sql_put(s, b,
                s->q->what == ASK_LEAKS
                    ? " WHERE site GLOBAL IN (SELECT site FROM ($sums HAVING site_blocks > 0"
                      " ORDER BY site_sum DESC, site_blocks DESC, toInt64(site) LIMIT $top))"
                    : " WHERE site GLOBAL IN (SELECT site FROM ($sums HAVING site_sum > 0"
                      " ORDER BY site_sum DESC, toInt64(site) LIMIT $top))");
}

/* Asks for the values ($1) of the processes selected at each site. The sites with most are searched
 * once: what selects figures does for the join. Figures of other stacks are not even read. */
static void clickhouse_word_held(const struct sql *s, struct buffer *b, const char *argument)
{
    const struct clickhouse_some *some = s->arg;
    const bool list = some && some->count;
    buffer_printf(b, "SELECT site, process, %s", argument);
    sql_put(s, b, " FROM figure GLOBAL ALL INNER JOIN (");
    sql_put(s, b, list ? "$shown_sites" : "$sites");
    sql_put(s, b, ") AS sites USING stack WHERE $attempts");
    if (list || s->q->top)
        sql_put(s, b, " AND stack GLOBAL IN (SELECT stack FROM ($shown_sites))");
    buffer_append_text(b, " GROUP BY site, process");
}

static void clickhouse_word_watched_sites(const struct sql *s, struct buffer *b,
                                          const char *argument)
{
    (void)argument;
    sql_put(s, b,
            s->q->call_sites
                ? "SELECT *, frame AS place_of FROM (SELECT *, site AS ends FROM ($watched_rows))"
                  " AS rows GLOBAL ALL INNER JOIN ($called) AS called USING ends"
                : "SELECT *, site AS place_of FROM ($watched_rows)");
}

#define ESTIMATES                                                                                  \
    "sum(bytes) AS total, $reach(toFloat64(bytes - low)) AS down, $reach(toFloat64(high - bytes))" \
    " AS up, sum(blocks) AS total_blocks, sum(samples) AS total_samples, sum(sampled_bytes) AS"    \
    " total_sampled, toUInt64(uniqExact(process)) AS processes, toUInt64(uniqExact(host)) AS "     \
    "hosts"

static const struct sql_word clickhouse_words[] = {
    {"where", NULL, clickhouse_word_where},
    {"kind", NULL, clickhouse_word_kind},
    {"facts", NULL, clickhouse_word_facts},
    {"part", NULL, clickhouse_word_part},
    {"attempts", NULL, clickhouse_word_attempts},
    {"sites", NULL, clickhouse_word_sites},
    {"shown_sites", NULL, clickhouse_word_shown_sites},
    {"held", NULL, clickhouse_word_held},
    {"watched_sites", NULL, clickhouse_word_watched_sites},
    /* the newest rows of the processes selected, before: of the first selection */
    {"newest",
     "FROM process WHERE (key, version) GLOBAL IN"
     " (SELECT key, max(version) FROM process GROUP BY key)$where($1) LIMIT 1 BY key",
     NULL},
    {"processes", "SELECT $1 $newest()", NULL},
    {"attempts_of", "attempt GLOBAL IN (SELECT attempt FROM (SELECT attempt, key $newest($1)))",
     NULL},
    {"called", "SELECT site AS ends, max(frame) AS frame FROM called GROUP BY site", NULL},
    /* Sums by stack come first: there are far fewer of them than figures, and they alone are
     * joined. */
    {"sums",
     "SELECT site, sum(stack_sum) AS site_sum, sum(stack_blocks) AS site_blocks FROM"
     " (SELECT stack, sum($by) AS stack_sum, sum(end_blocks) AS stack_blocks FROM figure"
     " WHERE $attempts GROUP BY stack) AS sums GLOBAL ALL INNER JOIN ($sites) AS sites"
     " USING stack GROUP BY site",
     NULL},
    /* The values of each process at each path. */
    {"paths",
     "SELECT path, max(toInt64(site)) AS top_site, sum($by) AS value$1 FROM figure"
     " GLOBAL ALL INNER JOIN (SELECT stack, site, path FROM ($sites) AS sites GLOBAL ALL"
     " INNER JOIN (SELECT id AS site, any(path) AS path FROM site GROUP BY id) AS paths"
     " USING site) AS sites USING stack WHERE ",
     NULL},
    /* by rank, of n of which `down` has those above 0, the largest first; behind its end is 0 */
    {"rank", "down[toUInt64(n + 1 - $1)]", NULL},
    {"ranks",
     "$rank(1) AS minimum, $rank(intDiv(n + 3, 4)) AS quartile_1,"
     " $rank(intDiv(n + 1, 2)) AS median, $rank(intDiv(3 * n + 3, 4)) AS quartile_3,"
     " $rank(intDiv(9 * n + 9, 10)) AS p90, $rank(intDiv(99 * n + 99, 100)) AS p99,"
     " $rank(n) AS maximum",
     NULL},
    /* for several independent estimates: how far the interval of the sum reaches */
    {"reach", "toUInt64(round(sqrt(sum($1 * $1))))", NULL},
    /* the last report of each process */
    {"last",
     "SELECT $1 FROM watched WHERE kind = $kind$where() ORDER BY process, time_ns DESC,"
     " toInt64(key) DESC LIMIT 1 BY process",
     NULL},
    {"watched_rows",
     "SELECT * FROM watched_site WHERE report GLOBAL IN (SELECT key FROM"
     " ($last(key, process, time_ns))) LIMIT 1 BY report, place",
     NULL},
    {NULL, NULL, NULL}};

static const char *const clickhouse_questions[ASK_QUESTIONS] = {
    [ASK_TOTALS] = "SELECT count(), countIf(complete = 0)$facts, sum(events), sum(lost_events),"
                   " sum(requested_bytes)$each(, sum($f)), '' FROM ($processes(*))",
    /* Processes of a site are counted process by process: the sets of sites of a process are small,
     * the sets of processes of all sites are not. */
    [ASK_SITES] =
        "SELECT site$each(, total_$f), processes, hosts, '' FROM (SELECT site"
        "$each(, sum(stack_$f) AS total_$f) FROM (SELECT stack$each(, sum($f) AS stack_$f)"
        " FROM figure WHERE $attempts GROUP BY stack) AS sums GLOBAL ALL INNER JOIN ($sites) AS"
        " sites USING stack GROUP BY site) AS summed GLOBAL ALL LEFT JOIN"
        " (SELECT site, count() AS processes, uniqExact(name) AS hosts FROM"
        " (SELECT attempt, any(host) AS name, arrayJoin(groupUniqArray(site)) AS site"
        " FROM figure GLOBAL ALL INNER JOIN ($sites) AS sites USING stack WHERE $attempts AND $by "
        "> 0"
        " GROUP BY attempt) GROUP BY site) AS counted USING site ORDER BY total_$by DESC,"
        " total_peak_bytes DESC, total_allocated_bytes DESC, total_calls DESC, toInt64(site)",
    [ASK_HELD] =
        "SELECT path, top_site, newer, value FROM ($paths(, toUInt64(0) AS newer, process AS"
        " held_by)$attempts(old) GROUP BY path, process UNION ALL $paths(, toUInt64(1) AS newer,"
        " process AS held_by)$attempts GROUP BY path, process) ORDER BY path, newer, held_by",
    [ASK_LEAKS] =
        "SELECT site, total, total_blocks, processes, hosts, calling_processes, calling_hosts,"
        " most.1 AS most_bytes, most.2 AS most_host FROM (SELECT site, sum(bytes) AS total,"
        " sum(blocks) AS total_blocks, countIf(blocks > 0) AS processes,"
        " uniqExactIf(name, blocks > 0) AS hosts, count() AS calling_processes,"
        " uniqExact(name) AS calling_hosts, arraySort(groupArray((bytes, name)))[-1] AS most"
        " FROM ($held(sum(end_bytes) AS bytes, sum(end_blocks) AS blocks)) AS held GLOBAL ALL"
        " INNER JOIN ($processes(key AS process, host AS name)) AS named USING process"
        " GROUP BY site HAVING total_blocks > 0)"
        " ORDER BY total DESC, total_blocks DESC, toInt64(site)",
    [ASK_SPREAD] =
        "SELECT site, total, processes, $ranks, '' FROM (SELECT site, sum(value) AS total, count()"
        " AS processes, arrayReverseSort(groupArray(value)) AS down,"
        " assumeNotNull((SELECT greatest(count(), 1) FROM ($processes(key)))) AS n FROM"
        " ($held(sum($by) AS value) HAVING value > 0) GROUP BY site)"
        " ORDER BY total DESC, toInt64(site)",
    [ASK_PARTS] =
        "SELECT toUInt64(0), total, n, $ranks, part FROM (SELECT part, sum(value) AS total,"
        " count() AS n, arrayReverseSort(groupArray(value)) AS down FROM"
        " ($processes($part AS part, $by AS value)) GROUP BY part) ORDER BY total DESC, part",
    /* First each process's slices are joined, wherever its rows are. Among the narrower slices of a
     * process in a slice, the last one has the values at the end. */
    [ASK_SLICES] =
        "SELECT slice_ns, count() AS processes, uniqExact(name) AS hosts, sum(live) AS live_bytes,"
        " sum(peak) AS peak_bytes, sum(allocated) AS allocated_bytes, sum(called) AS calls, ''"
        " FROM (SELECT intDiv(start_ns, $width) * $width AS slice_ns, attempt, any(host) AS name,"
        " sum(if(last = 1 OR (start_ns + width_ns) % $width = 0, live_bytes, toUInt64(0))) AS live,"
        " max(peak_bytes) AS peak, sum(allocated_bytes) AS allocated, sum(calls) AS called"
        " FROM slice WHERE $attempts GROUP BY slice_ns, attempt)"
        " GROUP BY slice_ns ORDER BY slice_ns",
    [ASK_SPAN] = "SELECT min(start_ns), max(end_ns), max(slice_ns), '' FROM"
                 " ($processes(key, start_ns, end_ns, slice_ns))",
    [ASK_WATCHED] =
        "SELECT place_of, " ESTIMATES ", max(oldest_ns) AS oldest, '' FROM ($watched_sites) AS held"
        " GLOBAL ALL INNER JOIN ($last(key AS report, process, host, time_ns, key)) AS reports"
        " USING report GROUP BY place_of ORDER BY total DESC, toInt64(place_of)",
    [ASK_WATCHED_TOTAL] =
        "SELECT toUInt64(0), " ESTIMATES ", min(time_ns) AS oldest, '' FROM ($last(*))"};

char *clickhouse_sql(struct fleet_store *s, const struct store_query *q)
{
    (void)s;
    return sql_text(&(struct sql){.words = clickhouse_words, .q = q},
                    clickhouse_questions[q->what]);
}

char *clickhouse_sql_of_some(const struct store_query *q, const struct clickhouse_some *some)
{
    return sql_text(&(struct sql){.words = clickhouse_words, .q = q, .arg = some},
                    clickhouse_questions[q->what]);
}

/* The question before: the sums of each site. */
char *clickhouse_sql_of_sums(const struct store_query *q)
{
    return sql_text(&(struct sql){.words = clickhouse_words, .q = q},
                    "SELECT site, site_sum, site_blocks, '' FROM ($sums)");
}

/* "attempt, stacks, place" of the processes selected, those of a host (place) together. */
char *clickhouse_sql_of_processes(const struct store_query *q, bool old)
{
    return sql_text(
        &(struct sql){.words = clickhouse_words, .q = q},
        old ? "SELECT attempt, stacks, cityHash64(host) AS place, '' FROM"
              " (SELECT key, attempt, stacks, host $newest(old)) ORDER BY place, attempt"
            : "SELECT attempt, stacks, cityHash64(host) AS place, '' FROM"
              " (SELECT key, attempt, stacks, host $newest()) ORDER BY place, attempt");
}

/* Those of one host, as a condition. */
char *clickhouse_sql_of_host(const struct store_query *q, bool old, uint64_t place)
{
    struct buffer b = {0};
    const struct sql s = {.words = clickhouse_words, .q = q};
    sql_put(&s, &b,
            old ? "attempt GLOBAL IN (SELECT attempt FROM (SELECT attempt, key, host $newest(old))"
                : "attempt GLOBAL IN (SELECT attempt FROM (SELECT attempt, key, host $newest())");
    buffer_printf(&b, " WHERE cityHash64(host) = %" PRIu64 ")", place);
    return clickhouse_text(&b);
}

/* Sums of values and of their squares: values are split into parts of 21 bits, because old servers
 * have no integers above 64 bits. */
char *clickhouse_sql_of_moments(const struct store_query *q, const struct clickhouse_some *some)
{
    return sql_text(&(struct sql){.words = clickhouse_words, .q = q, .arg = some},
                    "SELECT path, max(top_site) AS any_site, count(), sum(value), sum(a * a),"
                    " sum(a * b), sum(b * b + 2 * a * c), sum(b * c), sum(c * c), '' FROM ("
                    "$paths(, toUInt64(value % 2097152) AS a, toUInt64(intDiv(value, 2097152)"
                    " % 2097152) AS b, toUInt64(intDiv(value, 4398046511104)) AS c)"
                    "$attempts GROUP BY path, process) GROUP BY path");
}
