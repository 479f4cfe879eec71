/* clickhouse_slices.c - a store on a server: slices of time.
 *
 * Exact under any sharding: first each process's slices are joined, wherever its rows are. */
#include <inttypes.h>

#include "fleet/clickhouse.h"

char *clickhouse_span_sql(struct fleet_store *s, const struct fleet_selection *of)
{
    struct buffer b = {0};
    (void)s;
    buffer_append_text(&b, "SELECT min(start_ns), max(end_ns), max(slice_ns), '' FROM (");
    clickhouse_processes(&b, "key, start_ns, end_ns, slice_ns", of);
    buffer_append_char(&b, ')');
    return clickhouse_text(&b);
}

/* Among the narrower slices of a process in a slice, the last one has the values at the end. */
char *clickhouse_slices_sql(struct fleet_store *s, const struct fleet_selection *of,
                            uint64_t width_ns)
{
    struct buffer b = {0};
    (void)s;
    buffer_printf(
        &b,
        "SELECT slice_ns, count() AS processes, uniqExact(name) AS hosts, sum(live) AS"
        " live_bytes, sum(peak) AS peak_bytes, sum(allocated) AS allocated_bytes,"
        " sum(called) AS calls, '' FROM (SELECT intDiv(start_ns, %" PRIu64 ") * %" PRIu64
        " AS slice_ns, attempt, any(host) AS name, sum(if(last = 1 OR (start_ns +"
        " width_ns) %% %" PRIu64 " = 0, live_bytes, toUInt64(0))) AS live,"
        " max(peak_bytes) AS peak, sum(allocated_bytes) AS allocated, sum(calls) AS called"
        " FROM slice WHERE attempt GLOBAL IN (SELECT attempt FROM (",
        width_ns, width_ns, width_ns);
    clickhouse_processes(&b, "attempt, key", of);
    buffer_append_text(&b, ")) GROUP BY slice_ns, attempt) GROUP BY slice_ns ORDER BY slice_ns");
    return clickhouse_text(&b);
}
