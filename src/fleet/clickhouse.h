/* clickhouse.h - a store on a server of ClickHouse: what its two files share. Private to fleet/.
 *
 * Rows are only ever added. A process is there once its row is, which is sent last; that row names
 * the attempt of loading it, and the figures of other attempts are never read. So a load that was
 * killed leaves rows that count nowhere, and any number of loaders may work at once. A process that
 * grew gets another row with a higher version. Tables and queries are such as every server since
 * 18.16 understands. */
#ifndef MALLOW_FLEET_CLICKHOUSE_H
#define MALLOW_FLEET_CLICKHOUSE_H

#include "base/buffer.h"
#include "base/strings.h"
#include "fleet/store.h"
#include "push/http.h"

/* The tables of a server are those up to STORE_WATCHED. Rows of later tables are sent later: those
 * of STORE_PROCESS and STORE_WATCHED say that all others are there. */
#define SERVER_TABLES STORE_LABEL

struct clickhouse_columns { /* rows that are not in c->rows[t] yet, column by column */
    uint64_t *values;       /* NULL: the table is sent row by row */
    size_t count, rows;
};

struct clickhouse_pending { /* the row of a process or report, which was not sent yet */
    struct buffer row;
    struct buffer arrays[4]; /* keys and values of labels, build-ids and paths of modules */
    uint64_t counts[4];
    uint64_t key, version, attempt, host;
};

struct clickhouse_pendings {
    struct clickhouse_pending *items;
    size_t count, room;
};

struct known_frame { /* a frame's site and its number */
    uint64_t parent;
    int64_t call_site;
    size_t json; /* offset in frames.json */
};

struct clickhouse {
    struct fleet_store base;
    bool earlier;               /* version 3, which has no table of call sites */
    struct http_server *server; /* NULL: none is asked, */
    fleet_rows_fn *rows_to;     /* and rows go here */
    void *rows_arg;
    char *database;
    struct buffer rows[SERVER_TABLES]; /* as they are sent */
    uint64_t row_count[SERVER_TABLES];
    struct clickhouse_columns columns[SERVER_TABLES];
    struct strings sent[STORE_STACK + 1]; /* rows that the server has */
    struct clickhouse_pendings processes, reports;
    struct buffer scratch; /* a row */
    uint64_t found_key,
        found_version; /* the key and version of the last question whether a process is there */
    struct strings frame_ids; /* sites whose frames are known; numbers from 1 */
    struct known_frame *frames;
    size_t frame_room;
    struct buffer frame_json;
};

static inline struct clickhouse *clickhouse_of(struct fleet_store *s)
{
    return (struct clickhouse *)s;
}

struct binary { /* an answer in RowBinary */
    struct buffer bytes;
    size_t at;
    bool bad; /* it ended too early */
};

struct clickhouse_table {
    const char *engine;
    const char *shard;  /* which node of a cluster has a row. A process is on one */
    const char *own[2]; /* columns of numbers that this store adds behind the first `after`; NULL */
    unsigned after;
    const char *arrays; /* columns behind all others; NULL: none */
    bool attempt;       /* in place of the first column: of a process that a row is of */
    bool by_column;     /* rows are sent column by column */
};
extern const struct clickhouse_table clickhouse_tables[SERVER_TABLES];
/* "name type, name type, ...". */
void clickhouse_put_columns(struct buffer *to, enum store_table t);

/* A request: the query behind the ? of its URL (NULL: the body is it). */
int clickhouse_post(struct clickhouse *c, const char *query, const void *body, size_t bytes,
                    struct buffer *answer, struct error *err);
/* The answer to a query that changes nothing; to be released. */
int clickhouse_ask_binary(struct clickhouse *c, const char *sql, struct binary *answer,
                          struct error *err);
/* A question that was written into a buffer, which is released; to be freed. NULL without memory.
 */
char *clickhouse_text(struct buffer *b);
/* Its values, in order; 0 and "" behind its end. A text lives until the next one. */
uint64_t binary_number(struct binary *b);
const char *binary_text(struct binary *b, struct buffer *room);
static inline bool binary_more(const struct binary *b)
{
    return !b->bad && b->at < b->bytes.size_bytes;
}
void binary_release(struct binary *b);
/* -1 when the answer was cut. */
int binary_end(struct clickhouse *c, const struct binary *b, struct error *err);

/* Adds a row to those of its table. of: the process that it is of. */
int clickhouse_put_row(struct clickhouse *c, enum store_table t, const void *row,
                       const struct clickhouse_pending *of, struct error *err);
/* Appends a row in RowBinary, without its arrays. */
void clickhouse_append_row(struct buffer *to, enum store_table t, const void *row,
                           const struct clickhouse_pending *of);
void clickhouse_put_length(struct buffer *b, uint64_t v);
void clickhouse_put_bytes(struct buffer *b, const char *text, size_t bytes);
/* A row was appended to c->rows[t]. */
int clickhouse_added(struct clickhouse *c, enum store_table t, struct error *err);
/* Sends the rows that are there. */
int clickhouse_flush(struct clickhouse *c, enum store_table t, struct error *err);
void clickhouse_forget_rows(struct clickhouse *c);
void clickhouse_release_rows(struct clickhouse *c);
/* 'text' as a literal. */
void clickhouse_quote(struct buffer *to, const char *text, size_t bytes);

struct clickhouse_some {   /* those of a question that are asked for at once */
    const char *attempts;  /* a condition; NULL: all processes selected */
    const uint64_t *sites; /* [count]; none: all */
    size_t count;
};
char *clickhouse_sql(struct fleet_store *s, const struct store_query *q);
char *clickhouse_sql_of_some(const struct store_query *q, const struct clickhouse_some *some);
char *clickhouse_sql_of_sums(const struct store_query *q);
char *clickhouse_sql_of_processes(const struct store_query *q, bool old);
char *clickhouse_sql_of_host(const struct store_query *q, bool old, uint64_t place);
char *clickhouse_sql_of_moments(const struct store_query *q, const struct clickhouse_some *some);

/* As in struct store_engine. */
int clickhouse_ask(struct fleet_store *s, struct store_query *q, unsigned numbers,
                   store_answer_fn *answer, void *arg, struct error *err);
int clickhouse_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                              bool call_sites, struct error *err);
int clickhouse_frames(struct fleet_store *s, uint64_t site, bool call_sites, uint64_t *call_site,
                      store_frame_fn *frame, void *arg, struct error *err);

#endif
