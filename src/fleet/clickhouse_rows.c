/* clickhouse_rows.c - the tables of a store on a server, and how rows get there.
 *
 * Rows of nothing but numbers go column by column (Native), which costs the server less than going
 * row by row (RowBinary). One request has at most INSERT_ROWS rows: a server writes them all, or
 * none. */
#include <stdlib.h>
#include <string.h>

#include "fleet/clickhouse.h"

#define INSERT_ROWS  1000000u
#define INSERT_BYTES (96u << 20)       /* a request has at most so many */
#define BLOCK_ROWS   65536u            /* rows of columns that are sent together */
#define STRIDE       (BLOCK_ROWS + 24) /* between columns: not all in the same lines of the cache */

#define LABELS ", label_keys Array(String), label_values Array(String)"

const struct clickhouse_table clickhouse_tables[SERVER_TABLES] = {
    [STORE_LOCATION] = {"ReplacingMergeTree ORDER BY id", "id"},
    [STORE_FRAME] = {"ReplacingMergeTree ORDER BY id", "id"},
    /* a site that is called wins */
    [STORE_SITE] = {"ReplacingMergeTree(called) ORDER BY id", "id", .by_column = true},
    [STORE_CALLED] = {"ReplacingMergeTree(frame) ORDER BY site", "site", .by_column = true},
    [STORE_STACK] = {"ReplacingMergeTree(named) ORDER BY id", "id", .by_column = true},
    [STORE_FIGURE] = {"MergeTree ORDER BY (attempt, stack)",
                      "process",
                      {"process", "host"},
                      .after = 2,
                      .attempt = true,
                      .by_column = true},
    [STORE_SLICE] = {"MergeTree ORDER BY (attempt, start_ns)",
                     "process",
                     {"process", "host"},
                     .after = 2,
                     .attempt = true,
                     .by_column = true},
    [STORE_BLOCK] = {"MergeTree ORDER BY (attempt, number)",
                     "process",
                     {"process"},
                     .after = 3,
                     .attempt = true,
                     .by_column = true},
    [STORE_WATCHED_SITE] = {"ReplacingMergeTree ORDER BY (report, place)", "report"},
    [STORE_WATCHED] = {"ReplacingMergeTree ORDER BY key", "key", .arrays = LABELS},
    [STORE_PROCESS] = {"MergeTree ORDER BY (key, version)",
                       "key",
                       {"version", "attempt"},
                       .after = 1,
                       .arrays = LABELS ", module_build_ids Array(String), module_paths"
                                        " Array(String)"},
};

/* For a site, called: call_site + 1, so that it is not negative. */
static const char *column_name(enum store_table t, size_t i)
{
    const struct store_column *c = &store_columns[t].items[i];
    return !i && clickhouse_tables[t].attempt ? "attempt"
           : c->kind == STORE_PLACE           ? "called"
                                              : c->name;
}

void clickhouse_put_columns(struct buffer *to, enum store_table t)
{
    const struct clickhouse_table *table = &clickhouse_tables[t];
    for (size_t i = 0; i < store_columns[t].count; i++) {
        for (size_t k = 0; i == table->after && k < 2 && table->own[k]; k++)
            buffer_printf(to, ", %s UInt64", table->own[k]);
        buffer_printf(to, "%s%s %s", i ? ", " : "", column_name(t, i),
                      store_is_text(&store_columns[t].items[i]) ? "String" : "UInt64");
    }
    if (table->arrays)
        buffer_append_text(to, table->arrays);
}

static void put_number(struct buffer *b, uint64_t v) { buffer_append(b, &v, sizeof v); }

void clickhouse_append_row(struct buffer *to, enum store_table t, const void *row,
                           const struct clickhouse_pending *of)
{
    const struct clickhouse_table *table = &clickhouse_tables[t];
    for (size_t i = 0; i < store_columns[t].count; i++) {
        const struct store_column *c = &store_columns[t].items[i];
        size_t bytes;
        if (table->own[0] && i == table->after)
            put_number(to, t == STORE_PROCESS ? of->version : of->key);
        if (table->own[1] && i == table->after)
            put_number(to, t == STORE_PROCESS ? of->attempt : of->host);
        if (store_is_text(c)) {
            const char *text = store_text(c, row, &bytes);
            clickhouse_put_bytes(to, text, bytes);
        } else {
            put_number(to, !i && table->attempt ? of->attempt
                                                : store_number(c, row) + (c->kind == STORE_PLACE));
        }
    }
}

void clickhouse_put_length(struct buffer *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buffer_append_char(b, (char)(v | 0x80));
    buffer_append_char(b, (char)v);
}

void clickhouse_put_bytes(struct buffer *b, const char *text, size_t bytes)
{
    clickhouse_put_length(b, bytes);
    buffer_append(b, text, bytes);
}

/* ---- columns ---- */

/* The rows at hand become a block of c->rows[t]. */
static void end_block(struct clickhouse *c, enum store_table t)
{
    struct clickhouse_columns *k = &c->columns[t];
    struct buffer *to = &c->rows[t];
    const size_t count = k->count;
    struct buffer columns = {0};
    clickhouse_put_columns(&columns, t);
    const char *name = buffer_text(&columns);
    clickhouse_put_length(to, count);
    clickhouse_put_length(to, k->rows);
    for (size_t i = 0; i < count; i++) {
        const size_t name_bytes = strcspn(name, " "),
                     type_bytes = strcspn(name, ",") - name_bytes - 1;
        clickhouse_put_bytes(to, name, name_bytes);
        clickhouse_put_bytes(to, name + name_bytes + 1, type_bytes);
        buffer_append(to, k->values + i * STRIDE, k->rows * sizeof *k->values);
        name += name_bytes + 1 + type_bytes + 2;
    }
    k->rows = 0;
    to->failed |= columns.failed;
    buffer_release(&columns);
}

/* Adds a row of `count` numbers to a table that is sent column by column. */
static int put_numbers(struct clickhouse *c, enum store_table t, const uint64_t *values,
                       size_t count, struct error *err)
{
    struct clickhouse_columns *k = &c->columns[t];
    if (!k->values) {
        k->count = count;
        k->values = malloc(k->count * STRIDE * sizeof *k->values);
        if (!k->values)
            return error_memory(err);
    }
    for (size_t i = 0; i < k->count; i++)
        k->values[i * STRIDE + k->rows] = values[i];
    c->row_count[t]++;
    if (++k->rows < BLOCK_ROWS)
        return 0;
    end_block(c, t);
    return c->row_count[t] + BLOCK_ROWS > INSERT_ROWS ? clickhouse_flush(c, t, err) : 0;
}

/* ---- sending ---- */

int clickhouse_flush(struct clickhouse *c, enum store_table t, struct error *err)
{
    char sql[64];
    struct buffer answer = {0};
    if (!c->row_count[t])
        return 0;
    if (c->columns[t].rows)
        end_block(c, t);
    if (buffer_failed(&c->rows[t]))
        return error_memory(err);
    snprintf(sql, sizeof sql, "INSERT INTO %s FORMAT %s", store_columns[t].name,
             c->columns[t].values ? "Native" : "RowBinary");
    const int status =
        clickhouse_post(c, sql, c->rows[t].data, c->rows[t].size_bytes, &answer, err);
    buffer_release(&answer);
    buffer_clear(&c->rows[t]);
    c->row_count[t] = 0;
    return status;
}

int clickhouse_added(struct clickhouse *c, enum store_table t, struct error *err)
{
    c->row_count[t]++;
    return c->row_count[t] < INSERT_ROWS && c->rows[t].size_bytes < INSERT_BYTES
               ? 0
               : clickhouse_flush(c, t, err);
}

int clickhouse_put_row(struct clickhouse *c, enum store_table t, const void *row,
                       const struct clickhouse_pending *of, struct error *err)
{
    if (!clickhouse_tables[t].by_column) {
        clickhouse_append_row(&c->rows[t], t, row, of);
        return clickhouse_added(c, t, err);
    }
    buffer_clear(&c->scratch);
    clickhouse_append_row(&c->scratch, t, row, of);
    if (buffer_failed(&c->scratch))
        return error_memory(err);
    return put_numbers(c, t, (const uint64_t *)(const void *)c->scratch.data,
                       c->scratch.size_bytes / sizeof(uint64_t), err);
}

void clickhouse_forget_rows(struct clickhouse *c)
{
    for (int t = 0; t < SERVER_TABLES; t++) {
        buffer_clear(&c->rows[t]);
        c->columns[t].rows = 0;
        c->row_count[t] = 0;
    }
}

void clickhouse_release_rows(struct clickhouse *c)
{
    for (int t = 0; t < SERVER_TABLES; t++) {
        buffer_release(&c->rows[t]);
        free(c->columns[t].values);
    }
    buffer_release(&c->scratch);
}
