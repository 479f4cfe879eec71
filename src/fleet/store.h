/* store.h - the rows of a store, whatever engine keeps them. Private to fleet/.
 *
 * Owns: rows and transactions. What the rows mean is the matter of load.c and report.c. An engine
 * keeps them: a file of SQLite, or a server of ClickHouse.
 * Identities of stacks, sites, frames and locations are hashes of their content (hash.h), so that
 * every loader on every host finds the same ones, and a row that is there already is the same row.
 * Conventions are those of fleet.h. Texts are borrowed for the call. */
#ifndef MALLOW_FLEET_STORE_H
#define MALLOW_FLEET_STORE_H

#include "fleet/rows.h"

static inline struct store_figures store_figures_get(const uint64_t *v)
{
    struct store_figures f;
    memcpy(&f, v, sizeof f);
    return f;
}

static inline void store_join(struct store_figures *sum, const struct store_figures *f)
{
#define STORE_JOIN(member, key) sum->member += f->member;
    STORE_FIGURE_LIST(STORE_JOIN)
#undef STORE_JOIN
}

static inline uint64_t store_metric(const struct store_figures *f, enum metric by)
{
    const uint64_t of[FLEET_METRICS] = {f->peak_bytes, f->end_bytes, f->allocated_bytes,
                                        f->temporary,  f->calls,     f->byte_seconds};
    return of[by];
}

/* The column of a figure, of processes and of figures. */
static inline const char *store_column(enum metric by)
{
    static const char *const columns[FLEET_METRICS] = {"peak_bytes", "end_bytes", "allocated_bytes",
                                                       "temporary",  "calls",     "byte_seconds"};
    return columns[by];
}

/* ---- writing, in a transaction ---- */

struct store_found {
    bool there;
    uint64_t content, events; /* one process's part */
};

/* ---- reading ---- */

struct store_totals {
    uint64_t processes, incomplete, hosts, services, builds;
    uint64_t events, lost_events, requested_bytes;
    struct store_figures figures; /* sums */
};

struct store_row {
    uint64_t site;
    struct store_figures figures;
    uint64_t processes, hosts; /* where the figure asked for is not 0 */
};
typedef int store_row_fn(void *arg, const struct store_row *r, struct error *err);

/* A sum of squares is exact, or STORE_SQUARES_MOST: it is not known. */
#define STORE_SQUARES_MOST (~(unsigned __int128)0)
static inline unsigned __int128 store_squares(unsigned __int128 a, unsigned __int128 b)
{
    return a + b < a ? STORE_SQUARES_MOST : a + b;
}

struct store_held { /* the values that some processes hold at a path: so many, added up */
    uint64_t path, site, processes, sum;
    unsigned __int128 squares;
    bool newer; /* they are of the second selection */
};
typedef int store_held_fn(void *arg, const struct store_held *h, struct error *err);

/* Calls `answer` for each row of the answer to `sql`, which has so many columns of numbers, at most
 * STORE_NUMBERS, and a text behind them. */
#define STORE_NUMBERS 12u
typedef int store_answer_fn(void *arg, const uint64_t *numbers, const char *text,
                            struct error *err);
int store_ask(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
              void *arg, struct error *err);
/* Calls `site` for each, in any order, with its sums of `by` and of blocks at the end. */
typedef int store_order_fn(void *arg, uint64_t site, uint64_t value, uint64_t end_blocks,
                           struct error *err);

/* Queries in the engine's SQL, for people, and parts for store_ask; to be freed. NULL without
 * memory. Leaks: site, bytes and blocks at the end, processes and hosts that have them, processes
 * and hosts that ever allocated there, bytes of the process with most; and the host of that
 * process. */
enum {
    LEAK_SITE,
    LEAK_BYTES,
    LEAK_BLOCKS,
    LEAK_PROCESSES,
    LEAK_HOSTS,
    LEAK_CALLING_PROCESSES,
    LEAK_CALLING_HOSTS,
    LEAK_MOST,
    LEAK_NUMBERS
};
/* Spread: site (parts: 0, and the part's name as text), sum, processes (spread: with more than 0),
 * and values by rank: the least, the quartiles, 90% and 99%, the most. A value has rank
 * ceil(share * processes); a process that has not the site has 0 there. */
enum {
    SPREAD_SITE,
    SPREAD_SUM,
    SPREAD_PROCESSES,
    SPREAD_VALUES,
    SPREAD_RANKS = 7,
    SPREAD_NUMBERS = SPREAD_VALUES + SPREAD_RANKS
};

/* Timeline: start of a slice, processes and hosts that ran in it, what they held at its end (or
 * their own, when it is before), the most that each held in it, bytes and calls allocated in it;
 * and "". width_ns: a multiple of the widest slice of the processes. */
enum {
    SLICE_START,
    SLICE_PROCESSES,
    SLICE_HOSTS,
    SLICE_LIVE,
    SLICE_PEAK,
    SLICE_ALLOCATED,
    SLICE_CALLS,
    SLICE_NUMBERS
};
/* The start of the first process, the end of the last one, the widest slice of any; and "". */
enum { SPAN_START, SPAN_END, SPAN_WIDTH, SPAN_NUMBERS };

/* Watched: site (0 in the totals), estimated bytes, how far their interval reaches down and up,
 * blocks, samples, sampled bytes, processes, hosts, the oldest block's age; and "". */
enum {
    WATCHED_SITE,
    WATCHED_BYTES,
    WATCHED_DOWN,
    WATCHED_UP,
    WATCHED_BLOCKS,
    WATCHED_SAMPLES,
    WATCHED_SAMPLED_BYTES,
    WATCHED_PROCESSES,
    WATCHED_HOSTS,
    WATCHED_OLDEST,
    WATCHED_NUMBERS
};

/* Frames of a site, innermost first. *call_site: which of them. At most STORE_DEEPEST. */
#define STORE_DEEPEST 1000000u
typedef int store_frame_fn(void *arg, const char *json, struct error *err);
/* The frames of these sites will be asked for: an engine at a distance brings them at once. */
int store_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                         struct error *err);

/* ---- engines ---- */

/* An engine keeps the rows: a file fills this in. store.c picks one by the store's name. */
struct store_engine {
    void (*close)(struct fleet_store *s);
    /* Waits for other loaders. */
    int (*begin)(struct fleet_store *s, struct error *err);
    int (*commit)(struct fleet_store *s, struct error *err);
    void (*rollback)(struct fleet_store *s);
    /* table: STORE_PROCESS or STORE_WATCHED. */
    int (*find)(struct fleet_store *s, enum store_table table, uint64_t key,
                struct store_found *found, struct error *err);
    /* Takes away a process with its labels, modules, slices, blocks and figures. */
    int (*remove)(struct fleet_store *s, uint64_t key, struct error *err);
    /* Adds a row, the struct of its table in rows.h. s->last: what rows that belong to it, of a
     * process or report, name it by. */
    int (*put)(struct fleet_store *s, enum store_table table, const void *row, struct error *err);
    int (*totals)(struct fleet_store *s, const struct fleet_selection *of, struct store_totals *t,
                  struct error *err);
    /* Calls `row` for each site, largest first. */
    int (*sites)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_row_fn *row, void *arg, struct error *err);
    /* The same question in the engine's SQL; to be freed. NULL without memory. */
    char *(*sites_sql)(struct fleet_store *s, const struct fleet_selection *of, enum metric by);
    /* Calls `held` for each path that processes of a selection have, one time or more. */
    int (*held)(struct fleet_store *s, const struct fleet_selection *old,
                const struct fleet_selection *now, enum metric by, store_held_fn *held, void *arg,
                struct error *err);
    char *(*held_sql)(struct fleet_store *s, const struct fleet_selection *old,
                      const struct fleet_selection *now, enum metric by);
    int (*order)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 store_order_fn *site, void *arg, struct error *err);
    /* Rows of the query of the same name below, of these sites alone, in any order: so what it
     * costs does not grow with all sites. processes: how many are selected. */
    int (*leaks)(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                 size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                 struct error *err);
    int (*spread)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                  const uint64_t *sites, size_t count, uint64_t processes, store_answer_fn *answer,
                  void *arg, struct error *err);
    /* top, here and below: of so many sites with most, and of their processes alone; 0: of all. */
    char *(*leaks_sql)(struct fleet_store *s, const struct fleet_selection *of, uint64_t top);
    char *(*spread_sql)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                        uint64_t top);
    char *(*parts_sql)(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                       const struct fleet_group *group);
    char *(*slices_sql)(struct fleet_store *s, const struct fleet_selection *of, uint64_t width_ns);
    char *(*span_sql)(struct fleet_store *s, const struct fleet_selection *of);
    char *(*watched_sql)(struct fleet_store *s, const struct fleet_selection *of, const char *kind,
                         bool totals);
    int (*frames)(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                  void *arg, struct error *err);
    /* As store_ask; sql: not NULL. */
    int (*ask)(struct fleet_store *s, const char *sql, unsigned numbers, store_answer_fn *answer,
               void *arg, struct error *err);
    /* As store_prepare_frames. NULL: frames() is fast for each site. */
    int (*prepare_frames)(struct fleet_store *s, const uint64_t *sites, size_t count,
                          struct error *err);
};

struct fleet_store { /* the first member of an engine's own */
    const struct store_engine *engine;
    char *where; /* as given; freed by store.c */
    bool broken;
    uint64_t last; /* see put */
};

struct fleet_store *sqlite_open(const char *where, struct error *err);
int sqlite_create(const char *where, bool *existed, struct error *err);

/* True if `where` is the URL of a server. */
bool clickhouse_is_url(const char *where);
/* A store that is not there: what it is given to keep goes to `rows`; it answers nothing. */
struct fleet_store *clickhouse_apart(const char *database, fleet_rows_fn *rows, void *arg,
                                     struct error *err);
struct fleet_store *clickhouse_open(const char *where, const struct fleet_access *access,
                                    struct error *err);
int clickhouse_create(const char *where, const struct fleet_access *access, bool *existed,
                      struct error *err);

#endif
