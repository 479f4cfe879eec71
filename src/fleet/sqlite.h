/* sqlite.h - the embedded store: what its two files share. Private to fleet/. */
#ifndef MALLOW_FLEET_SQLITE_H
#define MALLOW_FLEET_SQLITE_H

#include <sqlite3.h>

#include "fleet/engine.h"

enum statement {
    FIND,
    PUT_PROCESS,
    PUT_LABEL,
    PUT_MODULE,
    PUT_PROCESS_MODULE,
    PUT_LOCATION,
    PUT_STACK,
    PUT_FRAME,
    PUT_SITE,
    PUT_FIGURES,
    GET_FRAME,
    GET_SITE,
    GET_FIGURES,
    STATEMENTS
};

struct sqlite_store {
    struct fleet_store base;
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENTS]; /* NULL: not prepared yet */
};

static inline struct sqlite_store *sqlite_of(struct fleet_store *s)
{
    return (struct sqlite_store *)s;
}

/* Why the last call of SQLite failed; the store is broken. Returns -1. */
int sqlite_complain(struct fleet_store *s, const char *what, struct error *err);
/* The statement, prepared; to be reset after use. NULL with *err. */
sqlite3_stmt *sqlite_prepared(struct fleet_store *s, enum statement n, struct error *err);
void sqlite_number(sqlite3_stmt *k, int column, uint64_t v);

static inline uint64_t sqlite_value(sqlite3_stmt *k, int column)
{
    return (uint64_t)sqlite3_column_int64(k, column);
}

/* The questions, as in engine.h. */
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
int sqlite_frames(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                  void *arg, struct error *err);

#endif
