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
    GET_SITE_FRAME,
    GET_FRAME,
    GET_SITE,
    GET_STACK,
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
/* Runs statements that answer nothing. */
int sqlite_run(struct fleet_store *s, const char *sql, const char *what, struct error *err);
/* Runs a statement that was bound. */
int sqlite_done(struct fleet_store *s, sqlite3_stmt *k, struct error *err);
void sqlite_number(sqlite3_stmt *k, int column, uint64_t v);

static inline uint64_t sqlite_value(sqlite3_stmt *k, int column)
{
    return (uint64_t)sqlite3_column_int64(k, column);
}

/* A function for SQL that hands rows on: cheaper than one step of a statement for each. */
int sqlite_add_visitor(struct fleet_store *s, struct error *err);

/* The text of a question; the same where the table temp.shown has the stacks that are shown; and
 * the ids and hosts of the processes selected, those of a host together. NULL without memory. */
char *sqlite_sql(struct fleet_store *s, const struct store_query *q);
char *sqlite_sql_of_shown(const struct store_query *q);
char *sqlite_sql_of_processes(const struct store_query *q);

/* As in struct store_engine. */
int sqlite_ask(struct fleet_store *s, struct store_query *q, unsigned numbers,
               store_answer_fn *answer, void *arg, struct error *err);
int sqlite_frames(struct fleet_store *s, uint64_t site, bool call_sites, uint64_t *call_site,
                  store_frame_fn *frame, void *arg, struct error *err);

#endif
