/* clickhouse_sums.c - a store on a server: sums of all processes selected, asked in parts.
 *
 * Each part has the processes of some hosts, and no host is in two of them: what the parts count is
 * added up. So the server's memory is bounded, whatever the store holds. The query names the
 * attempts of a part, so the server reads their figures alone. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "fleet/clickhouse.h"
#include "fleet/sums.h"

#define PAIRS_MOST    16000000u /* pairs of a process and a stack in one part */
#define PATHS_MOST    4000000u  /* the same, of what takes more memory */
#define ATTEMPTS_MOST 4000u     /* named in one question, twice; a server reads 256 KiB of text */

/* ---- parts ---- */

struct selected { /* a process; host: the same number for those of one */
    uint64_t attempt, stacks, host;
};

struct parts {
    struct selected *items; /* those of a host together */
    size_t count, room;
};

static int select_all(struct parts *p, struct clickhouse *c, const struct fleet_selection *of,
                      struct error *err)
{
    struct buffer sql = {0};
    struct binary b;
    buffer_append_text(&sql, "SELECT attempt, stacks, cityHash64(host) AS place FROM (");
    clickhouse_processes(&sql, "key, attempt, stacks, host", of);
    buffer_append_text(&sql, ") ORDER BY place, attempt");
    int status = clickhouse_ask_text(c, clickhouse_text(&sql), &b, err);
    if (status)
        return -1;
    while (!status && binary_more(&b)) {
        struct selected *s = ARRAY_ADD(p->items, p->count, p->room);
        if (!s) {
            status = error_memory(err);
            break;
        }
        s->attempt = binary_number(&b);
        s->stacks = binary_number(&b);
        s->host = binary_number(&b);
        status = binary_end(c, &b, err);
    }
    binary_release(&b);
    return status;
}

static size_t end_of_host(const struct parts *p, size_t at)
{
    const uint64_t host = p->items[at].host;
    while (at < p->count && p->items[at].host == host)
        at++;
    return at;
}

/* Where the part ends that begins at `at`: whole hosts, at least one. */
static size_t end_of_part(const struct parts *p, size_t at, uint64_t pairs_most)
{
    const size_t begin = at;
    size_t end = at;
    uint64_t pairs = 0;
    while (at < p->count) {
        const size_t next = end_of_host(p, at);
        for (; at < next; at++)
            pairs += p->items[at].stacks < pairs_most ? p->items[at].stacks : pairs_most;
        if (end > begin && (next - begin > ATTEMPTS_MOST || pairs > pairs_most))
            break;
        end = next;
    }
    return end;
}

/* "attempt IN ..." of a part. A host with too many processes is known by its name. */
static void write_attempts(struct buffer *b, const struct parts *p, size_t at, size_t end,
                           const struct fleet_selection *of)
{
    if (end - at > ATTEMPTS_MOST) {
        buffer_append_text(b, "attempt GLOBAL IN (SELECT attempt FROM (");
        clickhouse_processes(b, "attempt, key, host", of);
        buffer_printf(b, ") WHERE cityHash64(host) = %" PRIu64 ")", p->items[at].host);
        return;
    }
    for (size_t i = at; i < end; i++)
        buffer_printf(b, "%s%" PRIu64, i > at ? "," : "attempt IN (", p->items[i].attempt);
    buffer_append_char(b, ')');
}

typedef int part_fn(void *arg, const char *attempts, struct error *err);

static int each_part(struct clickhouse *c, const struct fleet_selection *of, uint64_t pairs_most,
                     part_fn *ask, void *arg, struct error *err)
{
    struct parts p = {0};
    struct buffer attempts = {0};
    int status = select_all(&p, c, of, err);
    for (size_t at = 0, end; at < p.count && !status; at = end) {
        end = end_of_part(&p, at, pairs_most);
        buffer_clear(&attempts);
        write_attempts(&attempts, &p, at, end, of);
        status =
            buffer_failed(&attempts) ? error_memory(err) : ask(arg, buffer_text(&attempts), err);
    }
    buffer_release(&attempts);
    free(p.items);
    return status;
}

/* The same of all processes selected, in one statement. */
static char *all_attempts(const struct fleet_selection *of)
{
    struct buffer b = {0};
    buffer_append_text(&b, "attempt GLOBAL IN (SELECT attempt FROM (");
    clickhouse_processes(&b, "attempt, key", of);
    buffer_append_text(&b, "))");
    return clickhouse_text(&b);
}

/* ---- call sites ---- */

/* Figures are summed by stack before the join: there are far fewer stacks than figures. Processes
 * of a site are counted process by process: the sets of sites of a process are small, the sets of
 * processes of all sites are not. */
static char *sites_of(const char *attempts, enum metric by)
{
    struct buffer sql = {0};
    buffer_append_text(&sql, "SELECT site");
    for (size_t i = 0; i < STORE_FIGURES; i++)
        buffer_printf(&sql, ", total_%s", clickhouse_figures[i]);
    buffer_append_text(&sql, ", processes, hosts FROM (SELECT site");
    for (size_t i = 0; i < STORE_FIGURES; i++)
        buffer_printf(&sql, ", sum(stack_%s) AS total_%s", clickhouse_figures[i],
                      clickhouse_figures[i]);
    buffer_append_text(&sql, " FROM (SELECT stack");
    for (size_t i = 0; i < STORE_FIGURES; i++)
        buffer_printf(&sql, ", sum(%s) AS stack_%s", clickhouse_figures[i], clickhouse_figures[i]);
    buffer_printf(
        &sql,
        " FROM figure WHERE %s GROUP BY stack) AS sums GLOBAL ALL INNER JOIN"
        " (" CLICKHOUSE_SITE_OF_STACK ") AS sites USING stack GROUP BY site)"
        " AS summed GLOBAL ALL LEFT JOIN"
        " (SELECT site, count() AS processes, uniqExact(name) AS hosts FROM"
        " (SELECT attempt, any(host) AS name, arrayJoin(groupUniqArray(site)) AS site"
        " FROM figure GLOBAL ALL INNER JOIN (" CLICKHOUSE_SITE_OF_STACK ") AS sites"
        " USING stack WHERE %s AND %s > 0 GROUP BY attempt) GROUP BY site) AS counted USING site"
        " ORDER BY total_%s DESC, total_peak_bytes DESC, total_allocated_bytes DESC,"
        " total_calls DESC, toInt64(site)",
        attempts, attempts, store_column(by), store_column(by));
    return clickhouse_text(&sql);
}

char *clickhouse_sites_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by)
{
    char *attempts = all_attempts(of);
    (void)s;
    char *sql = attempts ? sites_of(attempts, by) : NULL;
    free(attempts);
    return sql;
}

struct asking_sites {
    struct clickhouse *c;
    struct sums sums;
};

static int add_sites(void *arg, const char *attempts, struct error *err)
{
    struct asking_sites *a = arg;
    struct binary b;
    int status = clickhouse_ask_text(a->c, sites_of(attempts, a->sums.by), &b, err);
    if (status)
        return -1;
    while (!status && binary_more(&b)) {
        struct store_row r = {.site = binary_number(&b)};
        r.figures = binary_figures(&b);
        r.processes = binary_number(&b);
        r.hosts = binary_number(&b);
        status = binary_end(a->c, &b, err);
        if (!status)
            status = sums_join(&a->sums, &r, err);
    }
    binary_release(&b);
    return status;
}

int clickhouse_sites(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                     store_row_fn *row, void *arg, struct error *err)
{
    struct asking_sites a = {.c = clickhouse_of(s), .sums.by = by};
    int status = each_part(a.c, of, PAIRS_MOST, add_sites, &a, err);
    if (!status)
        status = sums_rows(&a.sums, row, arg, err);
    sums_release(&a.sums);
    return status;
}

/* ---- paths ---- */

/* Asks for the values of each process at each path. */
static void held_of(struct buffer *sql, const char *attempts, enum metric by, const char *more)
{
    buffer_printf(sql,
                  "SELECT path, max(toInt64(site)) AS top_site, sum(%s) AS value%s FROM figure"
                  " GLOBAL ALL INNER JOIN (SELECT stack, site, path FROM"
                  " (" CLICKHOUSE_SITE_OF_STACK ") AS sites GLOBAL ALL INNER JOIN"
                  " (SELECT id AS site, any(path) AS path FROM site GROUP BY id) AS paths USING"
                  " site) AS sites USING stack WHERE %s GROUP BY path, process",
                  store_column(by), more, attempts);
}

char *clickhouse_held_sql(struct fleet_store *s, const struct fleet_selection *old,
                          const struct fleet_selection *now, enum metric by)
{
    struct buffer sql = {0};
    char *attempts[] = {all_attempts(old), all_attempts(now)};
    (void)s;
    buffer_append_text(&sql, "SELECT path, top_site, newer, value FROM (");
    if (attempts[0] && attempts[1]) {
        held_of(&sql, attempts[0], by, ", toUInt64(0) AS newer, process AS held_by");
        buffer_append_text(&sql, " UNION ALL ");
        held_of(&sql, attempts[1], by, ", toUInt64(1) AS newer, process AS held_by");
    } else {
        buffer_clear(&sql);
    }
    buffer_append_text(&sql, ") ORDER BY path, newer, held_by");
    char *text = attempts[0] && attempts[1] ? clickhouse_text(&sql) : NULL;
    if (!text)
        buffer_release(&sql);
    free(attempts[0]);
    free(attempts[1]);
    return text;
}

/* Sums of values and of their squares: values are split into parts of 21 bits, because old servers
 * have no integers above 64 bits. */
static char *moments_of(const char *attempts, enum metric by)
{
    struct buffer sql = {0};
    buffer_append_text(&sql, "SELECT path, max(top_site) AS any_site, count(), sum(value),"
                             " sum(a * a), sum(a * b), sum(b * b + 2 * a * c), sum(b * c),"
                             " sum(c * c) FROM (");
    held_of(&sql, attempts, by,
            ", toUInt64(value % 2097152) AS a, toUInt64(intDiv(value, 2097152) % 2097152) AS b,"
            " toUInt64(intDiv(value, 4398046511104)) AS c");
    buffer_append_text(&sql, ") GROUP BY path");
    return clickhouse_text(&sql);
}

struct asking_held {
    struct clickhouse *c;
    enum metric by;
    bool newer;
    store_held_fn *held;
    void *arg;
};

static int add_held(void *arg, const char *attempts, struct error *err)
{
    const struct asking_held *a = arg;
    struct binary b;
    int status = clickhouse_ask_text(a->c, moments_of(attempts, a->by), &b, err);
    if (status)
        return -1;
    while (!status && binary_more(&b)) {
        struct store_held h = {.newer = a->newer, .path = binary_number(&b)};
        h.site = binary_number(&b);
        h.processes = binary_number(&b);
        h.sum = binary_number(&b);
        for (unsigned i = 0; i < 5; i++) {
            static const unsigned shift[] = {0, 22, 42, 64, 84};
            const unsigned __int128 part = binary_number(&b);
            h.squares = shift[i] && part >> (128 - shift[i])
                            ? STORE_SQUARES_MOST
                            : store_squares(h.squares, part << shift[i]);
        }
        status = binary_end(a->c, &b, err);
        if (!status)
            status = a->held(a->arg, &h, err);
    }
    binary_release(&b);
    return status;
}

int clickhouse_held(struct fleet_store *s, const struct fleet_selection *old,
                    const struct fleet_selection *now, enum metric by, store_held_fn *held,
                    void *arg, struct error *err)
{
    struct asking_held a = {clickhouse_of(s), by, false, held, arg};
    int status = each_part(a.c, old, PATHS_MOST, add_held, &a, err);
    a.newer = true;
    return status ? status : each_part(a.c, now, PATHS_MOST, add_held, &a, err);
}
