/* clickhouse_rows.c - the tables of a store on a server, and how rows get there.
 *
 * Rows of nothing but numbers go column by column (Native), which costs the server less than going
 * row by row (RowBinary). One request has at most INSERT_ROWS rows: a server writes them all, or
 * none. */
#include <stdlib.h>
#include <string.h>

#include "fleet/clickhouse.h"

#define INSERT_ROWS  1000000u
#define INSERT_BYTES (96u << 20)       /* of one request */
#define BLOCK_ROWS   65536u            /* of columns that are sent together */
#define STRIDE       (BLOCK_ROWS + 24) /* between columns: not all in the same lines of the cache */

#define FIGURE(member, of, key) ", " #member " UInt64"
#define FIGURES                 STORE_FIGURES_OF(FIGURE)

#define ESTIMATE                                                                                   \
    "bytes UInt64, low UInt64, high UInt64, blocks UInt64, samples UInt64, sampled_bytes UInt64"

const struct clickhouse_table clickhouse_tables[TABLES] = {
    [T_LOCATION] = {"location",
                    "id UInt64, build_id String, module String, offset UInt64, flags UInt64",
                    "ReplacingMergeTree ORDER BY id", "id"},
    [T_FRAME] = {"frame", "id UInt64, json String", "ReplacingMergeTree ORDER BY id", "id"},
    /* called: call_site + 1, so that a site that is called wins */
    [T_SITE] = {"site", "id UInt64, parent UInt64, frame UInt64, path UInt64, called UInt64",
                "ReplacingMergeTree(called) ORDER BY id", "id"},
    [T_STACK] = {"stack", "id UInt64, parent UInt64, location UInt64, site UInt64, named UInt64",
                 "ReplacingMergeTree(named) ORDER BY id", "id"},
    [T_FIGURE] = {"figure", "attempt UInt64, stack UInt64, process UInt64, host UInt64" FIGURES,
                  "MergeTree ORDER BY (attempt, stack)", "process"},
    [T_SLICE] = {"slice",
                 "attempt UInt64, start_ns UInt64, process UInt64, host UInt64, width_ns UInt64,"
                 " last UInt64, calls UInt64, allocated_bytes UInt64, live_bytes UInt64,"
                 " peak_bytes UInt64",
                 "MergeTree ORDER BY (attempt, start_ns)", "process"},
    [T_BLOCK] = {"block",
                 "attempt UInt64, number UInt64, stack UInt64, process UInt64, size_bytes UInt64,"
                 " address UInt64, thread UInt64, freed_by UInt64, allocated_ns UInt64, freed_ns"
                 " UInt64, temporary UInt64",
                 "MergeTree ORDER BY (attempt, number)", "process"},
    [T_WATCHED_SITE] = {"watched_site",
                        "report UInt64, place UInt64, site UInt64, " ESTIMATE
                        ", oldest_ns UInt64, allocated_bytes UInt64, freed_bytes UInt64",
                        "ReplacingMergeTree ORDER BY (report, place)", "report"},
    [T_WATCHED] = {"watched",
                   "key UInt64, process UInt64, host String, service String, exe String,"
                   " command String, kind String, process_end String, pid UInt64, start_ns UInt64,"
                   " time_ns UInt64, period UInt64, dropped UInt64, sites UInt64, " ESTIMATE
                   ", label_keys Array(String), label_values Array(String)",
                   "ReplacingMergeTree ORDER BY key", "key"},
    [T_PROCESS] =
        {"process",
         "key UInt64, version UInt64, attempt UInt64, content UInt64, host String, "
         "service String, build_id String, exe String, allocator String, "
         "command String, pid UInt64, ppid UInt64, start_ns UInt64, end_ns UInt64, "
         "complete UInt64, events UInt64, lost_events UInt64, requested_bytes UInt64, "
         "peak_time_ns UInt64, stacks UInt64" FIGURES
         ", slice_ns UInt64, memory_limit_bytes UInt64, address_space_limit_bytes UInt64,"
         " data_limit_bytes UInt64, label_keys Array(String), label_values Array(String), "
         "module_build_ids Array(String), module_paths Array(String)",
         "MergeTree ORDER BY (key, version)", "key"},
};

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

static size_t columns_of(enum table t)
{
    size_t n = 1;
    for (const char *at = clickhouse_tables[t].columns; (at = strstr(at, ", ")); at += 2)
        n++;
    return n;
}

/* The rows at hand become a block of c->rows[t]. */
static void end_block(struct clickhouse *c, enum table t)
{
    struct clickhouse_columns *k = &c->columns[t];
    struct buffer *to = &c->rows[t];
    const char *name = clickhouse_tables[t].columns;
    const size_t count = k->count;
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
}

int clickhouse_numbers(struct clickhouse *c, enum table t, const uint64_t *values,
                       struct error *err)
{
    struct clickhouse_columns *k = &c->columns[t];
    if (!k->values) {
        k->count = columns_of(t);
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

int clickhouse_flush(struct clickhouse *c, enum table t, struct error *err)
{
    char sql[64];
    struct buffer answer = {0};
    if (!c->row_count[t])
        return 0;
    if (c->columns[t].rows)
        end_block(c, t);
    if (buffer_failed(&c->rows[t]))
        return error_memory(err);
    snprintf(sql, sizeof sql, "INSERT INTO %s FORMAT %s", clickhouse_tables[t].name,
             c->columns[t].values ? "Native" : "RowBinary");
    const int status =
        clickhouse_post(c, sql, c->rows[t].data, c->rows[t].size_bytes, &answer, err);
    buffer_release(&answer);
    buffer_clear(&c->rows[t]);
    c->row_count[t] = 0;
    return status;
}

int clickhouse_added(struct clickhouse *c, enum table t, struct error *err)
{
    c->row_count[t]++;
    return c->row_count[t] < INSERT_ROWS && c->rows[t].size_bytes < INSERT_BYTES
               ? 0
               : clickhouse_flush(c, t, err);
}

void clickhouse_forget_rows(struct clickhouse *c)
{
    for (int t = 0; t < TABLES; t++) {
        buffer_clear(&c->rows[t]);
        c->columns[t].rows = 0;
        c->row_count[t] = 0;
    }
}

void clickhouse_release_rows(struct clickhouse *c)
{
    for (int t = 0; t < TABLES; t++) {
        buffer_release(&c->rows[t]);
        free(c->columns[t].values);
    }
}
