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

/* Rows are numbers and a text behind them. What they are is said at each question. */
#define STORE_NUMBERS 20u
typedef int store_answer_fn(void *arg, const uint64_t *numbers, const char *text,
                            struct error *err);

enum store_question {
    /* One row: struct store_totals. */
    ASK_TOTALS,
    /* Rows of struct store_row, largest first. */
    ASK_SITES,
    /* HELD_*: the values that processes hold at a path, of `old` and of `of`: so many, added up. */
    ASK_HELD,
    /* LEAK_*: what call sites hold at the end, most first; and the host of the process with most.
     */
    ASK_LEAKS,
    /* SPREAD_*: values of processes by rank, of each call site, most first. */
    ASK_SPREAD,
    /* The same of processes in parts: 0, and the part's name as text. */
    ASK_PARTS,
    /* SLICE_*: a timeline. */
    ASK_SLICES,
    /* SPAN_*: one row. */
    ASK_SPAN,
    /* WATCHED_*: what sampled processes hold, most first; and one row of all (site 0). */
    ASK_WATCHED,
    ASK_WATCHED_TOTAL,
    ASK_QUESTIONS
};

struct store_query {
    enum store_question what;
    const struct fleet_selection *of, *old; /* old: ASK_HELD */
    enum metric by;
    bool call_sites; /* a site is a frame, the call site of stacks; else all the frames of stacks */
    const struct fleet_group *group; /* ASK_PARTS */
    const char *kind;                /* ASK_WATCHED */
    uint64_t width_ns;               /* ASK_SLICES: a multiple of the widest slice there is */
    uint64_t processes;              /* so many are selected: LEAKS and SPREAD, which have */
    uint64_t top;                    /* rows at most, 0: all; and */
    uint64_t total;                  /* so many, answered, without that bound */
};

struct store_totals { /* as a row has them */
    uint64_t processes, incomplete;
#define STORE_COUNTED(member, plural, name, singular, bits) uint64_t plural;
    FLEET_FACT_LIST(STORE_COUNTED)
#undef STORE_COUNTED
    uint64_t events, lost_events, requested_bytes;
    struct store_figures figures; /* sums */
};

struct store_row {
    uint64_t site;
    struct store_figures figures;
    uint64_t processes, hosts; /* where the figure asked for is not 0 */
};

/* A sum of squares is exact, or STORE_SQUARES_MOST: it is not known. */
#define STORE_SQUARES_MOST (~(unsigned __int128)0)
static inline unsigned __int128 store_squares(unsigned __int128 a, unsigned __int128 b)
{
    return a + b < a ? STORE_SQUARES_MOST : a + b;
}

enum { /* newer: 1, of the second selection */
       HELD_PATH,
       HELD_SITE,
       HELD_NEWER,
       HELD_PROCESSES,
       HELD_SUM,
       HELD_SQUARES, /* the low and the high half of the sum of squares */
       HELD_SQUARES_HIGH,
       HELD_NUMBERS
};
/* Site, bytes and blocks at the end, processes and hosts that have them, processes and hosts that
 * ever allocated there, bytes of the process with most. */
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
/* Site, sum, processes (of a site: with more than 0), and values by rank: the least, the quartiles,
 * 90% and 99%, the most. A value has rank ceil(share * processes); a process that has not the site
 * has 0 there. */
enum {
    SPREAD_SITE,
    SPREAD_SUM,
    SPREAD_PROCESSES,
    SPREAD_VALUES,
    SPREAD_RANKS = 7,
    SPREAD_NUMBERS = SPREAD_VALUES + SPREAD_RANKS
};

/* Timeline: start of a slice, processes and hosts that ran in it, what they held at its end (or
 * their own, when it is before), the most that each held in it, bytes and calls allocated in it.
 */
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
/* The start of the first process, the end of the last one, the widest slice of any. */
enum { SPAN_START, SPAN_END, SPAN_WIDTH, SPAN_NUMBERS };

/* Watched: site (0 in the totals), estimated bytes, how far their interval reaches down and up,
 * blocks, samples, sampled bytes, processes, hosts, the oldest block's age (in the
 * totals: the time of the oldest report). */
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

/* How many numbers a row has. */
size_t store_numbers(enum store_question what);
/* The query of a question in the engine's SQL, for people; to be freed. NULL without memory. */
char *store_sql(struct fleet_store *s, const struct store_query *q);
/* Calls `answer` for each row. */
int store_ask(struct fleet_store *s, struct store_query *q, store_answer_fn *answer, void *arg,
              struct error *err);

/* The answer to ASK_TOTALS. */
int store_totals_ask(struct fleet_store *store, const struct fleet_selection *of,
                     struct store_totals *t, struct error *err);

/* Frames of a site, innermost first. *call_site: which of them. At most STORE_DEEPEST. */
#define STORE_DEEPEST 1000000u
typedef int store_frame_fn(void *arg, const char *json, struct error *err);
/* The frames of these sites will be asked for: an engine at a distance brings them at once. */
int store_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                         bool call_sites, struct error *err);

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
    char *(*sql)(struct fleet_store *s, const struct store_query *q);
    /* numbers: in a row. */
    int (*ask)(struct fleet_store *s, struct store_query *q, unsigned numbers,
               store_answer_fn *answer, void *arg, struct error *err);
    int (*frames)(struct fleet_store *s, uint64_t site, bool call_sites, uint64_t *call_site,
                  store_frame_fn *frame, void *arg, struct error *err);
    /* As store_prepare_frames. NULL: frames() is fast for each site. */
    int (*prepare_frames)(struct fleet_store *s, const uint64_t *sites, size_t count,
                          bool call_sites, struct error *err);
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
