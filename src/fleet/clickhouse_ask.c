/* clickhouse_ask.c - a store on a server: queries whose whole answer is computed in SQL.
 *
 * Exact under any sharding, as in clickhouse_read.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/clickhouse.h"

#define SITES_MOST  4000u    /* the most in one question; a server reads 256 KiB of text */
#define GROUPS_MOST 4000000u /* sites times processes of one question */

int clickhouse_ask_rows(struct fleet_store *s, const char *sql, unsigned numbers,
                        store_answer_fn *answer, void *arg, struct error *err)
{
    uint64_t values[STORE_NUMBERS];
    struct clickhouse *c = clickhouse_of(s);
    struct buffer text = {0};
    struct binary b;
    int status = clickhouse_ask(c, sql, &b, err);
    if (status)
        return -1;
    while (!status && binary_more(&b)) {
        for (unsigned i = 0; i < numbers; i++)
            values[i] = binary_number(&b);
        const char *last = binary_text(&b, &text);
        status = binary_end(c, &b, err);
        if (!status)
            status = answer(arg, values, last, err);
    }
    binary_release(&b);
    buffer_release(&text);
    return status;
}

struct some { /* sites that are asked for; all zero: all */
    const uint64_t *sites;
    size_t count;
    uint64_t top; /* instead of a list: so many, of those with most */
    enum metric by;
    bool leaks; /* as leaks are ordered, else as a spread is */
};

/* The sum of each site. Sums by stack come first: there are far fewer of them than figures, and
 * they alone are joined. */
static void sums_of_sites(struct buffer *b, const struct fleet_selection *of, enum metric by)
{
    buffer_printf(b,
                  "SELECT site, sum(stack_sum) AS site_sum, sum(stack_blocks) AS site_blocks FROM"
                  " (SELECT stack, sum(%s) AS stack_sum, sum(end_blocks) AS stack_blocks FROM"
                  " figure WHERE attempt GLOBAL IN (SELECT attempt FROM (",
                  store_column(by));
    clickhouse_processes(b, "attempt, key", of);
    buffer_append_text(b,
                       ")) GROUP BY stack) AS sums GLOBAL ALL INNER JOIN (" CLICKHOUSE_SITE_OF_STACK
                       ") AS sites USING stack GROUP BY site");
}

/* The sites with most, which answers.c picks by the same order. */
static void sites_with_most(struct buffer *b, const struct fleet_selection *of,
                            const struct some *some)
{
    buffer_append_text(b, "SELECT site FROM (");
    sums_of_sites(b, of, some->by);
    buffer_printf(b, " HAVING %s > 0 ORDER BY site_sum DESC, %stoInt64(site) LIMIT %" PRIu64 ")",
                  some->leaks ? "site_blocks" : "site_sum", some->leaks ? "site_blocks DESC, " : "",
                  some->top);
}

/* "stack, site" of these. */
static void stacks_of(struct buffer *b, const struct fleet_selection *of, const struct some *some)
{
    buffer_append_text(b, "SELECT stack, site FROM (" CLICKHOUSE_SITE_OF_STACK ")");
    for (size_t i = 0; i < some->count; i++)
        buffer_printf(b, "%s%" PRIu64, i ? "," : " WHERE site IN (", some->sites[i]);
    if (!some->count && some->top) {
        buffer_append_text(b, " WHERE site GLOBAL IN (");
        sites_with_most(b, of, some);
    }
    if (some->count || some->top)
        buffer_append_char(b, ')');
}

/* Asks for the values of the processes selected at each site. */
static void held(struct buffer *b, const char *values, const struct fleet_selection *of,
                 const struct some *some)
{
    buffer_printf(b, "SELECT site, process, %s FROM figure GLOBAL ALL INNER JOIN (", values);
    /* the sites with most are searched once: what selects figures does for the join */
    stacks_of(b, of, some->top ? &(struct some){0} : some);
    buffer_append_text(b, ") AS sites USING stack WHERE attempt GLOBAL IN (SELECT attempt FROM (");
    clickhouse_processes(b, "attempt, key", of);
    buffer_append_text(b, "))");
    if (some->count || some->top) { /* figures of other stacks are not even read */
        buffer_append_text(b, " AND stack GLOBAL IN (SELECT stack FROM (");
        stacks_of(b, of, some);
        buffer_append_text(b, "))");
    }
    buffer_append_text(b, " GROUP BY site, process");
}

/* ---- leaks ---- */

static char *leaks_of(const struct fleet_selection *of, const struct some *some)
{
    struct buffer b = {0};
    buffer_append_text(
        &b, "SELECT site, total, total_blocks, processes, hosts, calling_processes, calling_hosts,"
            " most.1 AS most_bytes, most.2 AS most_host FROM (SELECT site, sum(bytes) AS total,"
            " sum(blocks) AS total_blocks, countIf(blocks > 0) AS processes,"
            " uniqExactIf(name, blocks > 0) AS hosts, count() AS calling_processes,"
            " uniqExact(name) AS calling_hosts, arraySort(groupArray((bytes, name)))[-1] AS most"
            " FROM (");
    held(&b, "sum(end_bytes) AS bytes, sum(end_blocks) AS blocks", of, some);
    buffer_append_text(&b, ") AS held GLOBAL ALL INNER JOIN (");
    clickhouse_processes(&b, "key AS process, host AS name", of);
    buffer_append_text(&b, ") AS named USING process GROUP BY site HAVING total_blocks > 0)"
                           " ORDER BY total DESC, total_blocks DESC, toInt64(site)");
    return clickhouse_text(&b);
}

char *clickhouse_leaks_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t top)
{
    const struct some some = {.top = top, .by = BY_END, .leaks = true};
    (void)s;
    return leaks_of(of, &some);
}

/* ---- spread ---- */

/* Values by rank, of n of which `down` has those above 0, the largest first. Behind its end an
 * array has 0. */
static void ranks(struct buffer *b)
{
    static const struct {
        const char *rank, *name;
    } of[SPREAD_RANKS] = {{"1", "minimum"},
                          {"intDiv(n + 3, 4)", "quartile_1"},
                          {"intDiv(n + 1, 2)", "median"},
                          {"intDiv(3 * n + 3, 4)", "quartile_3"},
                          {"intDiv(9 * n + 9, 10)", "p90"},
                          {"intDiv(99 * n + 99, 100)", "p99"},
                          {"n", "maximum"}};
    for (size_t i = 0; i < SPREAD_RANKS; i++)
        buffer_printf(b, ", down[toUInt64(n + 1 - %s)] AS %s", of[i].rank, of[i].name);
}

static char *spread_of(const struct fleet_selection *of, enum metric by, const struct some *some)
{
    struct buffer b = {0}, value = {0};
    buffer_printf(&value, "sum(%s) AS value", store_column(by));
    buffer_append_text(&b, "SELECT site, total, processes");
    ranks(&b);
    buffer_append_text(&b, ", '' FROM (SELECT site, sum(value) AS total, count() AS processes,"
                           " arrayReverseSort(groupArray(value)) AS down,"
                           " assumeNotNull((SELECT greatest(count(), 1) FROM (");
    clickhouse_processes(&b, "key", of);
    buffer_append_text(&b, "))) AS n FROM (");
    held(&b, buffer_text(&value), of, some);
    buffer_append_text(&b, " HAVING value > 0) GROUP BY site) ORDER BY total DESC, toInt64(site)");
    buffer_release(&value);
    return clickhouse_text(&b);
}

char *clickhouse_spread_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                            uint64_t top)
{
    const struct some some = {.top = top, .by = by};
    (void)s;
    return spread_of(of, by, &some);
}

/* ---- of some sites ---- */

int clickhouse_order(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                     store_order_fn *site, void *arg, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    struct buffer sql = {0};
    struct binary b;
    sums_of_sites(&sql, of, by);
    char *text = clickhouse_text(&sql);
    int status = clickhouse_ask_text(c, text, &b, err);
    if (status)
        return -1;
    while (!status && binary_more(&b)) {
        const uint64_t id = binary_number(&b), value = binary_number(&b);
        const uint64_t blocks = binary_number(&b);
        status = binary_end(c, &b, err);
        if (!status)
            status = site(arg, id, value, blocks, err);
    }
    binary_release(&b);
    return status;
}

/* As many at once as bound the server's memory, and its text. */
static size_t at_once(uint64_t processes)
{
    const uint64_t most = GROUPS_MOST / (processes + 1);
    return most < 1 ? 1 : most > SITES_MOST ? SITES_MOST : most;
}

/* Asks and frees `sql`. */
static int ask_some(struct fleet_store *s, char *sql, unsigned numbers, store_answer_fn *answer,
                    void *arg, struct error *err)
{
    const int status =
        sql ? clickhouse_ask_rows(s, sql, numbers, answer, arg, err) : error_memory(err);
    free(sql);
    return status;
}

int clickhouse_leaks(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                     size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                     struct error *err)
{
    const size_t step = at_once(processes);
    int status = 0;
    for (size_t at = 0; at < count && !status; at += step) {
        const struct some some = {.sites = sites + at,
                                  .count = count - at < step ? count - at : step};
        status = ask_some(s, leaks_of(of, &some), LEAK_NUMBERS, answer, arg, err);
    }
    return status;
}

int clickhouse_spread(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                      const uint64_t *sites, size_t count, uint64_t processes,
                      store_answer_fn *answer, void *arg, struct error *err)
{
    const size_t step = at_once(processes);
    int status = 0;
    for (size_t at = 0; at < count && !status; at += step) {
        const struct some some = {.sites = sites + at,
                                  .count = count - at < step ? count - at : step};
        status = ask_some(s, spread_of(of, by, &some), SPREAD_NUMBERS, answer, arg, err);
    }
    return status;
}

char *clickhouse_parts_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                           const struct fleet_group *group)
{
    struct buffer b = {0}, what = {0};
    (void)s;
    buffer_append_text(&b, "SELECT toUInt64(0), total, n");
    ranks(&b);
    buffer_append_text(&b, ", part FROM (SELECT part, sum(value) AS total, count() AS n,"
                           " arrayReverseSort(groupArray(value)) AS down FROM (");
    if (group->label) {
        buffer_append_text(&what, "label_values[indexOf(label_keys, ");
        clickhouse_quote(&what, group->label, strlen(group->label));
        buffer_append_text(&what, ")]");
    } else if (group->column) {
        buffer_append_text(&what, group->column);
    } else {
        buffer_append_text(&what, "''");
    }
    buffer_printf(&what, " AS part, %s AS value", store_column(by));
    clickhouse_processes(&b, buffer_text(&what), of);
    buffer_append_text(&b, ") GROUP BY part) ORDER BY total DESC, part");
    buffer_release(&what);
    return clickhouse_text(&b);
}
