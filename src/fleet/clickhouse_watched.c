/* clickhouse_watched.c - a store on a server: reports of sampled processes.
 *
 * The row of a report is sent after those of its call sites. All are made of the report alone, so
 * two loaders that load it at once make the same rows, of which readers count one. */
#include <stdlib.h>
#include <string.h>

#include "fleet/clickhouse.h"

/* For several independent estimates: how far the interval of the sum reaches. */
#define REACH(from, to)                                                                            \
    "toUInt64(round(sqrt(sum(toFloat64(" from " - " to ") * toFloat64(" from " - " to ")))))"
#define ESTIMATES                                                                                  \
    "sum(bytes) AS total, " REACH("bytes", "low") " AS down, " REACH(                              \
        "high", "bytes") " AS up,"                                                                 \
                         " sum(blocks) AS total_blocks, sum(samples) AS total_samples, "           \
                         "sum(sampled_bytes) AS"                                                   \
                         " total_sampled, toUInt64(uniqExact(process)) AS processes, "             \
                         "toUInt64(uniqExact(host)) AS hosts"

/* The last report of each process. */
static void last(struct buffer *b, const char *what, const struct fleet_selection *of,
                 const char *kind)
{
    buffer_printf(b, "SELECT %s FROM watched WHERE kind = ", what);
    clickhouse_quote(b, kind, strlen(kind));
    clickhouse_condition(b, of, "time_ns");
    buffer_append_text(b, " ORDER BY process, time_ns DESC, toInt64(key) DESC LIMIT 1 BY process");
}

char *clickhouse_watched_sql(struct fleet_store *s, const struct fleet_selection *of,
                             const char *kind, bool totals)
{
    struct buffer b = {0};
    (void)s;
    if (totals) {
        buffer_append_text(&b, "SELECT toUInt64(0), " ESTIMATES ", min(time_ns) AS oldest, ''"
                               " FROM (");
        last(&b, "*", of, kind);
        buffer_append_text(&b, ")");
    } else {
        buffer_append_text(&b, "SELECT site, " ESTIMATES ", max(oldest_ns) AS oldest, '' FROM"
                               " (SELECT * FROM watched_site WHERE report GLOBAL IN"
                               " (SELECT key FROM (");
        last(&b, "key, process, time_ns", of, kind);
        buffer_append_text(&b, ")) LIMIT 1 BY report, place) AS held GLOBAL ALL INNER JOIN (");
        last(&b, "key AS report, process, host, time_ns, key", of, kind);
        buffer_append_text(
            &b, ") AS reports USING report GROUP BY site ORDER BY total DESC, toInt64(site)");
    }
    char *text = buffer_failed(&b) ? NULL : strdup(buffer_text(&b));
    buffer_release(&b);
    return text;
}
