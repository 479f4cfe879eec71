/* clickhouse_watched.c - a store on a server: every block's life, and reports of sampled processes.
 *
 * The row of a report is sent after those of its call sites. All are made of the report alone, so
 * two loaders that load it at once make the same rows, of which readers count one. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/clickhouse.h"

int clickhouse_block(struct fleet_store *s, int64_t process, const struct store_block *b,
                     struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    const struct clickhouse_pending *p = &c->pending[process];
    const uint64_t v[] = {p->attempt,      b->number,   b->stack,    p->key,
                          b->size_bytes,   b->address,  b->thread,   b->freed_by,
                          b->allocated_ns, b->freed_ns, b->temporary};
    return clickhouse_numbers(c, T_BLOCK, v, err);
}

int clickhouse_find_watched(struct fleet_store *s, uint64_t key, bool *there, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    struct buffer sql = {0};
    struct binary b;
    buffer_printf(&sql, "SELECT count() FROM watched WHERE key = %llu", (unsigned long long)key);
    const int status =
        buffer_failed(&sql) ? error_memory(err) : clickhouse_ask(c, buffer_text(&sql), &b, err);
    buffer_release(&sql);
    if (status)
        return -1;
    *there = binary_number(&b) != 0;
    const int cut = binary_end(c, &b, err);
    binary_release(&b);
    return cut;
}

static void put_text(struct buffer *b, const char *text)
{
    clickhouse_put_bytes(b, text ? text : "", text ? strlen(text) : 0);
}

static void put_estimate(struct buffer *b, const struct store_estimate *e)
{
    const uint64_t v[] = {e->bytes, e->low, e->high, e->blocks, e->samples, e->sampled_bytes};
    buffer_append(b, v, sizeof v);
}

int clickhouse_watched(struct fleet_store *s, const struct store_watched *w, int64_t *id,
                       struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    struct clickhouse_watched *now = ARRAY_ADD(c->watched, c->watched_count, c->watched_room);
    if (!now)
        return error_memory(err);
    struct buffer *b = &now->row;
    *id = (int64_t)c->watched_count - 1;
    buffer_append(b, &w->key, sizeof w->key);
    buffer_append(b, &w->process, sizeof w->process);
    put_text(b, w->host);
    put_text(b, w->service);
    put_text(b, w->exe);
    put_text(b, w->command);
    put_text(b, w->kind);
    put_text(b, w->process_end);
    const uint64_t v[] = {w->pid, w->start_ns, w->time_ns, w->period, w->dropped, w->sites};
    buffer_append(b, v, sizeof v);
    put_estimate(b, &w->total);
    return buffer_failed(b) ? error_memory(err) : 0;
}

int clickhouse_watched_label(struct fleet_store *s, int64_t report, const struct fleet_label *l,
                             struct error *err)
{
    struct clickhouse_watched *w = &clickhouse_of(s)->watched[report];
    (void)err;
    clickhouse_put_bytes(&w->label_keys, l->key, l->key_bytes);
    put_text(&w->label_values, l->value);
    w->labels++;
    return 0;
}

int clickhouse_watched_site(struct fleet_store *s, const struct store_watched_site *i,
                            struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    struct buffer *b = &c->rows[T_WATCHED_SITE];
    const uint64_t head[] = {i->report, i->place, i->site};
    const uint64_t tail[] = {i->oldest_ns, i->allocated_bytes, i->freed_bytes};
    buffer_append(b, head, sizeof head);
    put_estimate(b, &i->estimate);
    buffer_append(b, tail, sizeof tail);
    return clickhouse_added(c, T_WATCHED_SITE, err);
}

int clickhouse_send_watched(struct clickhouse *c, struct error *err)
{
    int status = 0;
    for (size_t i = 0; i < c->watched_count && !status; i++) {
        struct clickhouse_watched *w = &c->watched[i];
        struct buffer *b = &c->rows[T_WATCHED];
        const struct buffer *const arrays[] = {&w->label_keys, &w->label_values};
        buffer_append(b, w->row.data, w->row.size_bytes);
        for (size_t k = 0; k < 2; k++) {
            clickhouse_put_length(b, w->labels);
            buffer_append(b, arrays[k]->data, arrays[k]->size_bytes);
            if (buffer_failed(arrays[k]))
                return error_memory(err);
        }
        status = clickhouse_added(c, T_WATCHED, err);
    }
    return status;
}

void clickhouse_forget_watched(struct clickhouse *c)
{
    for (size_t i = 0; i < c->watched_count; i++) {
        buffer_release(&c->watched[i].row);
        buffer_release(&c->watched[i].label_keys);
        buffer_release(&c->watched[i].label_values);
    }
    free(c->watched);
    c->watched = NULL;
    c->watched_count = c->watched_room = 0;
}

/* Of several independent estimates: how far the interval of the sum reaches. */
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
