/* clickhouse_read.c - the questions to a store on a server of ClickHouse.
 *
 * All are exact however the rows are spread over the nodes of a cluster: sums and sets of what each
 * node has are joined where the question was asked, and lists go to all nodes (GLOBAL). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/clickhouse.h"

#define IDS_MOST    4000u /* the most in one question; a server reads 256 KiB of text */
#define FRAMES_MOST 8000000u

void clickhouse_condition(struct buffer *b, const struct fleet_selection *of, const char *time)
{
    if (of->host) {
        buffer_append_text(b, " AND host = ");
        clickhouse_quote(b, of->host, strlen(of->host));
    }
    if (of->service) {
        buffer_append_text(b, " AND service = ");
        clickhouse_quote(b, of->service, strlen(of->service));
    }
    if (of->build_id) {
        buffer_printf(b, " AND substring(build_id, 1, %zu) = lower(", strlen(of->build_id));
        clickhouse_quote(b, of->build_id, strlen(of->build_id));
        buffer_append_char(b, ')');
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
        clickhouse_quote(b, l->value, strlen(l->value));
        buffer_append_text(b, ", label_keys, label_values)");
    }
}

void clickhouse_processes(struct buffer *b, const char *what, const struct fleet_selection *of)
{
    buffer_printf(b,
                  "SELECT %s FROM process WHERE (key, version) GLOBAL IN"
                  " (SELECT key, max(version) FROM process GROUP BY key)",
                  what);
    clickhouse_condition(b, of, "start_ns");
    buffer_append_text(b, " LIMIT 1 BY key");
}

#define NAME(member, key) #member,
const char *const clickhouse_figures[STORE_FIGURES] = {STORE_FIGURE_LIST(NAME)};

struct store_figures binary_figures(struct binary *b)
{
    uint64_t v[STORE_FIGURES];
    for (size_t i = 0; i < STORE_FIGURES; i++)
        v[i] = binary_number(b);
    return store_figures_get(v);
}

char *clickhouse_text(struct buffer *b)
{
    char *text = buffer_failed(b) ? NULL : strdup(buffer_text(b));
    buffer_release(b);
    return text;
}

int clickhouse_ask_text(struct clickhouse *c, char *sql, struct binary *answer, struct error *err)
{
    const int status = sql ? clickhouse_ask(c, sql, answer, err) : error_memory(err);
    free(sql);
    return status;
}

int clickhouse_totals(struct fleet_store *s, const struct fleet_selection *of,
                      struct store_totals *t, struct error *err)
{
    struct buffer sql = {0};
    struct binary b;
    buffer_append_text(&sql, "SELECT count(), countIf(complete = 0), uniqExact(host),"
                             " uniqExact(service), uniqExactIf(build_id, build_id != ''),"
                             " sum(events), sum(lost_events), sum(requested_bytes)");
    for (size_t i = 0; i < STORE_FIGURES; i++)
        buffer_printf(&sql, ", sum(%s)", clickhouse_figures[i]);
    buffer_append_text(&sql, " FROM (");
    clickhouse_processes(&sql, "*", of);
    buffer_append_char(&sql, ')');
    if (clickhouse_ask_text(clickhouse_of(s), clickhouse_text(&sql), &b, err))
        return -1;
    t->processes = binary_number(&b);
    t->incomplete = binary_number(&b);
    t->hosts = binary_number(&b);
    t->services = binary_number(&b);
    t->builds = binary_number(&b);
    t->events = binary_number(&b);
    t->lost_events = binary_number(&b);
    t->requested_bytes = binary_number(&b);
    t->figures = binary_figures(&b);
    const int status = binary_end(clickhouse_of(s), &b, err);
    binary_release(&b);
    return status;
}

/* ---- frames ---- */

static const struct known_frame *known(struct clickhouse *c, uint64_t site)
{
    bool fresh;
    /* a number is given to a site that is not known; its frame is damaged then */
    const uint32_t id = strings_id(&c->frame_ids, &site, sizeof site, &fresh);
    if (!id || id > c->frame_room || fresh || c->frames[id - 1].json == SIZE_MAX)
        return NULL;
    return &c->frames[id - 1];
}

static int remember(struct clickhouse *c, uint64_t site, struct known_frame f, const char *json,
                    struct error *err)
{
    bool fresh;
    const uint32_t id = strings_id(&c->frame_ids, &site, sizeof site, &fresh);
    if (!id)
        return error_memory(err);
    if (id > FRAMES_MOST)
        return error_set(err, ERROR_UNSUPPORTED, "%.300s has more than %u frames to show",
                         c->base.where, FRAMES_MOST);
    const size_t before = c->frame_room;
    if (!ARRAY_ROOM(c->frames, id, c->frame_room))
        return error_memory(err);
    for (size_t i = before; i < c->frame_room; i++)
        c->frames[i].json = SIZE_MAX;
    f.json = c->frame_json.size_bytes;
    buffer_append(&c->frame_json, json, strlen(json) + 1);
    c->frames[id - 1] = f;
    return buffer_failed(&c->frame_json) ? error_memory(err) : 0;
}

static char *frames_sql(const uint64_t *sites, size_t count)
{
    struct buffer sql = {0}, list = {0};
    for (size_t i = 0; i < count; i++)
        buffer_printf(&list, "%s%" PRIu64, i ? "," : "", sites[i]);
    buffer_printf(
        &sql,
        "SELECT id, above, called_frame, json FROM (SELECT id, any(parent) AS above,"
        " any(frame) AS which, max(called) AS called_frame FROM site WHERE id IN (%s)"
        " GROUP BY id) AS sites GLOBAL ALL INNER JOIN (SELECT id AS which, any(json) AS json FROM"
        " frame WHERE id GLOBAL IN (SELECT frame FROM site WHERE id IN (%s)) GROUP BY id)"
        " AS frames USING which",
        buffer_text(&list), buffer_text(&list));
    buffer_release(&list);
    return clickhouse_text(&sql);
}

/* Brings what the server knows of these; *parents: [count] those above that are not known yet. */
static int bring(struct clickhouse *c, const uint64_t *sites, size_t count, uint64_t *parents,
                 size_t *parent_count, struct error *err)
{
    struct binary b;
    struct buffer json = {0};
    int status = clickhouse_ask_text(c, frames_sql(sites, count), &b, err);
    if (status)
        return -1;
    for (size_t n = 0; !status && n < count && binary_more(&b); n++) {
        const uint64_t site = binary_number(&b), parent = binary_number(&b);
        const int64_t called = (int64_t)binary_number(&b);
        const char *text = binary_text(&b, &json);
        status = binary_end(c, &b, err);
        if (!status)
            status = remember(c, site, (struct known_frame){parent, called - 1, 0}, text, err);
        if (!status && parent)
            parents[(*parent_count)++] = parent;
    }
    binary_release(&b);
    buffer_release(&json);
    return status;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts; leaves each once, without 0 and those that are known. */
static size_t unknown(struct clickhouse *c, uint64_t *sites, size_t count)
{
    size_t kept = 0;
    qsort(sites, count, sizeof *sites, by_number);
    for (size_t i = 0; i < count; i++)
        if (sites[i] && (!kept || sites[kept - 1] != sites[i]) && !known(c, sites[i]))
            sites[kept++] = sites[i];
    return kept;
}

int clickhouse_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                              struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    uint64_t *now = malloc((count + 1) * sizeof *now), *next = malloc((count + 1) * sizeof *next);
    int status = 0;
    if (!now || !next) {
        free(now);
        free(next);
        return error_memory(err);
    }
    memcpy(now, sites, count * sizeof *now);
    for (unsigned depth = 0; !status && depth < STORE_DEEPEST; depth++) {
        size_t found = 0;
        count = unknown(c, now, count);
        if (!count)
            break;
        for (size_t at = 0; at < count && !status; at += IDS_MOST)
            status = bring(c, now + at, count - at < IDS_MOST ? count - at : IDS_MOST, next, &found,
                           err);
        uint64_t *other = now;
        now = next;
        next = other;
        count = found;
    }
    free(now);
    free(next);
    return status;
}

int clickhouse_frames(struct fleet_store *s, uint64_t site, uint64_t *call_site,
                      store_frame_fn *frame, void *arg, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    int status = clickhouse_prepare_frames(s, &site, 1, err);
    *call_site = 0;
    for (unsigned depth = 0; site && !status; depth++) {
        const struct known_frame *f = known(c, site);
        if (depth == STORE_DEEPEST || !f)
            return error_set(err, ERROR_FORMAT,
                             "%.300s is damaged: the frames of a call site are not there",
                             c->base.where);
        if (!depth && f->call_site > 0)
            *call_site = (uint64_t)f->call_site;
        site = f->parent;
        status = frame(arg, c->frame_json.data + f->json, err);
    }
    return status;
}
