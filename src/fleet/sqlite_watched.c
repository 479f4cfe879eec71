/* sqlite_watched.c - the embedded store: reports of sampled processes. */
#include <stdlib.h>
#include <string.h>

#include "fleet/sqlite.h"

/* For several independent estimates: how far the interval of the sum reaches. */
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

/* Writes the estimates from the columns of a subquery `t`. */
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
