/* engine.h - the functions that keep the rows of a store. Private to fleet/.
 *
 * An engine is a file that fills in a struct store_engine; store.c picks one by the store's name.
 * Each function has the contract of the function of its name in store.h. */
#ifndef MALLOW_FLEET_ENGINE_H
#define MALLOW_FLEET_ENGINE_H

#include "fleet/store.h"

struct store_engine {
    void (*close)(struct fleet_store *s);
    int (*begin)(struct fleet_store *s, struct error *err);
    int (*commit)(struct fleet_store *s, struct error *err);
    void (*rollback)(struct fleet_store *s);
    int (*find)(struct fleet_store *s, uint64_t key, struct store_found *found, struct error *err);
    int (*remove)(struct fleet_store *s, uint64_t key, struct error *err);
    int (*process)(struct fleet_store *s, const struct store_process *p, int64_t *id,
                   struct error *err);
    int (*label)(struct fleet_store *s, int64_t process, const struct fleet_label *l,
                 struct error *err);
    int (*module)(struct fleet_store *s, int64_t process, const char *build_id, const char *path,
                  struct error *err);
    int (*location)(struct fleet_store *s, const struct store_location *l, struct error *err);
    int (*stack)(struct fleet_store *s, const struct store_stack *k, struct error *err);
    int (*frame)(struct fleet_store *s, const struct store_frame *f, struct error *err);
    int (*site)(struct fleet_store *s, const struct store_site *i, struct error *err);
    int (*figures)(struct fleet_store *s, int64_t process, uint64_t stack,
                   const struct store_figures *f, struct error *err);
    int (*slice)(struct fleet_store *s, int64_t process, const struct store_slice *i,
                 struct error *err);
    int (*block)(struct fleet_store *s, int64_t process, const struct store_block *b,
                 struct error *err);
    int (*find_watched)(struct fleet_store *s, uint64_t key, bool *there, struct error *err);
    int (*watched)(struct fleet_store *s, const struct store_watched *w, int64_t *id,
                   struct error *err);
    int (*watched_label)(struct fleet_store *s, int64_t report, const struct fleet_label *l,
                         struct error *err);
    int (*watched_site)(struct fleet_store *s, const struct store_watched_site *i,
                        struct error *err);
    int (*totals)(struct fleet_store *s, const struct fleet_selection *of, struct store_totals *t,
                  struct error *err);
    int (*sites)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_row_fn *row, void *arg, struct error *err);
    char *(*sites_sql)(struct fleet_store *s, const struct fleet_selection *of, enum metric by);
    int (*held)(struct fleet_store *s, const struct fleet_selection *old,
                const struct fleet_selection *now, enum metric by, store_held_fn *held, void *arg,
                struct error *err);
    char *(*held_sql)(struct fleet_store *s, const struct fleet_selection *old,
                      const struct fleet_selection *now, enum metric by);
    int (*ask)(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
               void *arg, struct error *err);
    int (*order)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_order_fn *site, void *arg, struct error *err);
    int (*leaks)(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                 size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                 struct error *err);
    int (*spread)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                  const uint64_t *sites, size_t count, uint64_t processes, store_answer_fn *answer,
                  void *arg, struct error *err);
    char *(*leaks_sql)(struct fleet_store *s, const struct fleet_selection *of, uint64_t top);
    char *(*spread_sql)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                        uint64_t top);
    char *(*parts_sql)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                       const struct fleet_group *group);
    char *(*slices_sql)(struct fleet_store *s, const struct fleet_selection *of, uint64_t width_ns);
    char *(*span_sql)(struct fleet_store *s, const struct fleet_selection *of);
    char *(*watched_sql)(struct fleet_store *s, const struct fleet_selection *of, const char *kind,
                         bool totals);
    /* NULL: frames() is fast for each site. */
    int (*prepare_frames)(struct fleet_store *s, const uint64_t *sites, size_t count,
                          struct error *err);
    int (*frames)(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                  void *arg, struct error *err);
};

struct fleet_store { /* the first member of an engine's own */
    const struct store_engine *engine;
    char *where; /* as given; freed by store.c */
    bool broken;
};

struct fleet_store *sqlite_open(const char *where, struct error *err);
int sqlite_create(const char *where, bool *existed, struct error *err);

/* Whether `where` is the URL of a server. */
bool clickhouse_is_url(const char *where);
/* A store that is not there: what it is given to keep goes to `rows`; it answers nothing. */
struct fleet_store *clickhouse_apart(const char *database, fleet_rows_fn *rows, void *arg,
                                     struct error *err);
struct fleet_store *clickhouse_open(const char *where, const struct fleet_access *access,
                                    struct error *err);
int clickhouse_create(const char *where, const struct fleet_access *access, bool *existed,
                      struct error *err);

#endif
