/* sqlite_slices.c - the embedded store: slices of time. */
#include "fleet/sqlite.h"

char *sqlite_span_sql(struct fleet_store *s, const struct fleet_selection *of)
{
    sqlite3_str *b = sqlite3_str_new(NULL);
    char *where = sqlite_condition(of);
    (void)s;
    sqlite3_str_appendf(
        b, "SELECT min(p.start_ns), max(p.end_ns), max(p.slice_ns) FROM process AS p%s",
        where ? where : "");
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}

/* Among the narrower slices of a process in a slice, the last one has the values at the end. */
char *sqlite_slices_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t width_ns)
{
    static const char *const sums[] = {"live_bytes", "peak_bytes", "allocated_bytes", "calls"};
    const long long width = (long long)width_ns;
    sqlite3_str *b = sqlite3_str_new(NULL);
    char *where = sqlite_condition(of);
    (void)s;
    sqlite3_str_appendall(b, "SELECT start_ns, processes, hosts");
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        sqlite3_str_appendall(b, ", ");
        sqlite_put_whole(b, sums[i]);
    }
    sqlite3_str_appendall(b,
                          " FROM (SELECT start_ns, count(*) AS processes, count(DISTINCT host) AS"
                          " hosts");
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        sqlite3_str_appendall(b, ", ");
        sqlite_put_sum(b, sums[i]);
        sqlite3_str_appendf(b, " AS %s", sums[i]);
    }
    sqlite3_str_appendf(
        b,
        " FROM (SELECT i.start_ns / %lld * %lld AS start_ns, p.host AS host,"
        " sum(CASE WHEN i.last OR (i.start_ns + i.width_ns) %% %lld = 0 THEN i.live_bytes ELSE 0 "
        "END)"
        " AS live_bytes, max(i.peak_bytes) AS peak_bytes, sum(i.allocated_bytes) AS "
        "allocated_bytes,"
        " sum(i.calls) AS calls FROM process AS p CROSS JOIN slice AS i ON i.process = p.id%s"
        " GROUP BY i.start_ns / %lld, p.id) GROUP BY start_ns) AS t ORDER BY start_ns",
        width, width, width, where ? where : "", width);
    if (!where)
        sqlite3_str_reset(b);
    sqlite3_free(where);
    return sqlite_finished(b);
}
