/* sqlite.h - the embedded store: what its two files share. Private to fleet/. */
#ifndef MALLOW_FLEET_SQLITE_H
#define MALLOW_FLEET_SQLITE_H

#include <sqlite3.h>

#include "fleet/store.h"

enum statement {
    FIND,
    FIND_WATCHED,
    PUT_MODULE,
    PUT_PROCESS_MODULE,
    GET_FRAME,
    GET_SITE,
    GET_FIGURES,
    STATEMENTS
};

/* Rows of which a process has many thousands are inserted some at a time: a statement costs more
 * than a row. */
enum { BATCHES = 2, BATCH_ROWS = 32, BATCH_COLUMNS = 5 };

struct sqlite_batch {
    uint64_t values[BATCH_ROWS][BATCH_COLUMNS];
    unsigned rows;
    sqlite3_stmt *all; /* for BATCH_ROWS of them; NULL: not prepared yet */
};

struct sqlite_visit; /* the figures of a process at work, see sqlite_read.c */

struct sqlite_store {
    struct fleet_store base;
    sqlite3 *db;
    struct sqlite_visit *visit;          /* NULL: none */
    sqlite3_stmt *statement[STATEMENTS]; /* NULL: not prepared yet */
    sqlite3_stmt *put[STORE_TABLES];     /* the same of an insert of one row */
    struct sqlite_batch batch[BATCHES];
};

static inline struct sqlite_store *sqlite_of(struct fleet_store *s)
{
    return (struct sqlite_store *)s;
}

/* Why the last call of SQLite failed; the store is broken. Returns -1. */
int sqlite_complain(struct fleet_store *s, const char *what, struct error *err);
/* The statement, prepared; to be reset after use. NULL with *err. */
sqlite3_stmt *sqlite_prepared(struct fleet_store *s, enum statement n, struct error *err);
/* Runs a statement that was bound. */
int sqlite_done(struct fleet_store *s, sqlite3_stmt *k, struct error *err);
void sqlite_number(sqlite3_stmt *k, int column, uint64_t v);

static inline uint64_t sqlite_value(sqlite3_stmt *k, int column)
{
    return (uint64_t)sqlite3_column_int64(k, column);
}

/* Sums in SQL that are exact whatever the values are (SQLite's own sum() ends the whole query when
 * they do not fit). SQLITE_SUM: as a column, modulo 2^64, so that it is negative from 2^63 on;
 * sqlite_put_whole turns such a column of a subquery `t` into what people read, and
 * sqlite_put_order orders by one, the largest first. */
#define SQLITE_SUM(value)                                                                          \
    "((sum(" value " >> 31) + (sum(" value " & 2147483647) >> 31)) << 31) | (sum(" value           \
    " & 2147483647) & 2147483647)"
void sqlite_put_sum(sqlite3_str *b, const char *value);
void sqlite_put_whole(sqlite3_str *b, const char *column);
void sqlite_put_order(sqlite3_str *b, const char *value);
/* The text, to be given to free(); NULL without memory. */
char *sqlite_finished(sqlite3_str *b);

/* " WHERE ..." about the process p; NULL without memory. To be given to sqlite3_free. */
char *sqlite_condition(const struct fleet_selection *of);
/* The same about the report p, by its time. */
char *sqlite_watched_condition(const struct fleet_selection *of);

/* Which site a stack reads as; arg: the store. */
int sqlite_site_of(void *arg, uint64_t stack, uint64_t *site, struct error *err);

struct sqlite_figure { /* a figure of a stack in a process; numbers from 1 */
    uint64_t process, process_number, host_number, stack;
    const char *host; /* the same for all processes in a row that ran on it */
    struct store_figures figures;
};
/* A function for SQL that hands rows on: cheaper than one step of a statement for each. */
int sqlite_add_visitor(struct fleet_store *s, struct error *err);
typedef int sqlite_figure_fn(void *arg, const struct sqlite_figure *f, struct error *err);
/* Calls `visit` for each figure of the processes selected, process by process, in the order of
 * their hosts' names. */
int sqlite_each_figure(struct fleet_store *s, const struct fleet_selection *of,
                       sqlite_figure_fn *visit, void *arg, struct error *err);

/* The questions, as in struct store_engine. */
int sqlite_totals(struct fleet_store *s, const struct fleet_selection *of, struct store_totals *t,
                  struct error *err);
int sqlite_sites(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_row_fn *row, void *arg, struct error *err);
char *sqlite_sites_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by);
int sqlite_held(struct fleet_store *s, const struct fleet_selection *old,
                const struct fleet_selection *now, enum metric by, store_held_fn *held, void *arg,
                struct error *err);
char *sqlite_held_sql(struct fleet_store *s, const struct fleet_selection *old,
                      const struct fleet_selection *now, enum metric by);
int sqlite_ask(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
               void *arg, struct error *err);
int sqlite_order(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_order_fn *site, void *arg, struct error *err);
int sqlite_leaks(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                 size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                 struct error *err);
int sqlite_spread(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                  const uint64_t *sites, size_t count, uint64_t processes, store_answer_fn *answer,
                  void *arg, struct error *err);
char *sqlite_leaks_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t top);
char *sqlite_spread_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                        uint64_t top);
char *sqlite_parts_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                       const struct fleet_group *group);
char *sqlite_slices_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t width_ns);
char *sqlite_span_sql(struct fleet_store *s, const struct fleet_selection *of);
char *sqlite_watched_sql(struct fleet_store *s, const struct fleet_selection *of, const char *kind,
                         bool totals);
int sqlite_frames(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                  void *arg, struct error *err);

#endif
