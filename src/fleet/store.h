/* store.h - the rows of a store, whatever engine keeps them. Private to fleet/.
 *
 * Owns: rows and transactions. What the rows mean is the matter of load.c and report.c. An engine
 * (engine.h) keeps them: a file of SQLite, or a server of ClickHouse.
 * Identities of stacks, sites, frames and locations are hashes of their content (hash.h), so that
 * every loader on every host finds the same ones, and a row that is there already is the same row.
 * Conventions are those of fleet.h. Texts are borrowed for the call. */
#ifndef MALLOW_FLEET_STORE_H
#define MALLOW_FLEET_STORE_H

#include <string.h>

#include "fleet/fleet.h"

/* X(member, of, key): the figures, which are the columns of the same names in this order.
 * byte_seconds: whole ones; those of the stacks add up to those of the process. */
#define STORE_FIGURES_OF(X) SITE_FIGURES(X) X(byte_seconds, byte_seconds, "byte_seconds")

struct store_figures { /* of a stack in a process, or the sum of several: numbers in a row */
#define STORE_MEMBER(member, of, key) uint64_t member;
    STORE_FIGURES_OF(STORE_MEMBER)
#undef STORE_MEMBER
};
#define STORE_FIGURES               (sizeof(struct store_figures) / sizeof(uint64_t))
#define STORE_NAME(member, of, key) #member,

static inline void store_figures_put(uint64_t *v, const struct store_figures *f)
{
    memcpy(v, f, sizeof *f);
}
static inline struct store_figures store_figures_get(const uint64_t *v)
{
    struct store_figures f;
    memcpy(&f, v, sizeof f);
    return f;
}

static inline void store_join(struct store_figures *sum, const struct store_figures *f)
{
#define STORE_JOIN(member, of, key) sum->member += f->member;
    STORE_FIGURES_OF(STORE_JOIN)
#undef STORE_JOIN
}

static inline uint64_t store_metric(const struct store_figures *f, enum metric by)
{
    const uint64_t of[FLEET_METRICS] = {f->peak_bytes, f->end_bytes, f->allocated_bytes,
                                        f->temporary,  f->calls,     f->byte_seconds};
    return of[by];
}

struct store_process {
    uint64_t key;     /* which process it is */
    uint64_t content; /* of its facts: the same after loading the same again */
    const char *host, *service, *build_id, *exe, *allocator;
    const char *command;       /* a JSON array */
    uint64_t start_ns, end_ns; /* since 1970 */
    uint32_t pid, ppid;
    bool complete;
    uint64_t events, lost_events, requested_bytes, peak_time_ns, stacks;
    struct mlw_limits limits;     /* of the recording, see STORE_NO_LIMIT */
    uint64_t slice_ns;            /* how long its slices of time are */
    struct store_figures figures; /* totals; the peak is that of the process */
};

/* A limit of memory that is not there; 0 is not known. */
#define STORE_NO_LIMIT ((uint64_t)INT64_MAX)
#define STORE_LIMITS   3u /* memory, address space, data: columns in this order */

/* What a process did in a slice of time. Slices begin at whole multiples of their width since 1970,
 * so that those of all processes fit into each other; between the first and the last one of a
 * process none is missing. */
struct store_slice { /* numbers in a row, which are the columns of the same names, start_ns apart */
    uint64_t start_ns, width_ns;
    uint64_t last; /* 1: of the process */
    uint64_t calls, allocated_bytes;
    uint64_t live_bytes; /* at its end; of the last slice, when the process ended */
    uint64_t peak_bytes; /* the most in it */
};
#define STORE_SLICE_NUMBERS (sizeof(struct store_slice) / sizeof(uint64_t))

struct store_location { /* what an address was, wherever it was loaded */
    uint64_t id;
    const char *build_id; /* hexadecimal digits; "" for none */
    const char *module;
    uint64_t offset; /* address in the module's file */
    unsigned flags;  /* enum mlw_node_flags */
};

struct store_stack { /* a frame and its caller */
    uint64_t id, parent, location;
    uint64_t site;  /* what it reads as; 0: not the innermost frame of any stack yet */
    uint64_t named; /* frames whose name is known: names with more of them win */
};

struct store_frame {
    uint64_t id;
    const char *json; /* as in report --json */
};

struct store_site { /* a frame that people read and its caller */
    uint64_t id, parent, frame;
    uint64_t path;     /* what it is in another build, too: functions and modules */
    int64_t call_site; /* frames inward of the call site; -1: no stack ends here */
};

struct store_block { /* the life of a block; times are since 1970 */
    uint64_t number; /* of the block in its process, by the moment of its release, from 1 */
    uint64_t stack, size_bytes, address, thread, freed_by; /* threads by their ids; 0: not known */
    uint64_t allocated_ns, freed_ns;                       /* freed_ns 0: live at the end */
    bool temporary;
};

struct store_estimate {
    uint64_t bytes, low, high, blocks, samples, sampled_bytes;
};

struct store_watched {     /* a report of a sampled process */
    uint64_t key, process; /* identities: of the report, of the process */
    const char *host, *service, *exe, *command, *kind;
    const char *process_end;    /* "running", "ended", "exec"; "" in reports that do not say it */
    uint64_t start_ns, time_ns; /* since 1970: of the process, of the report */
    uint32_t pid;
    uint64_t period, dropped, sites;
    struct store_estimate total;
};

struct store_watched_site {
    uint64_t report; /* its key */
    uint64_t place;  /* in the report */
    uint64_t site;
    struct store_estimate estimate;
    uint64_t oldest_ns, allocated_bytes, freed_bytes;
};

/* The column of a figure, of processes and of figures. */
static inline const char *store_column(enum metric by)
{
    static const char *const columns[FLEET_METRICS] = {"peak_bytes", "end_bytes", "allocated_bytes",
                                                       "temporary",  "calls",     "byte_seconds"};
    return columns[by];
}

/* ---- writing, in a transaction ---- */

/* Waits for other loaders. */
int store_begin(struct fleet_store *s, struct error *err);
int store_commit(struct fleet_store *s, struct error *err);
void store_rollback(struct fleet_store *s);

struct store_found {
    bool there;
    uint64_t content, events;
};
int store_find(struct fleet_store *s, uint64_t key, struct store_found *found, struct error *err);
/* Takes away a process with its labels, modules and figures. */
int store_remove(struct fleet_store *s, uint64_t key, struct error *err);
/* *id: for the rows that belong to it. */
int store_process(struct fleet_store *s, const struct store_process *p, int64_t *id,
                  struct error *err);
int store_label(struct fleet_store *s, int64_t process, const struct fleet_label *l,
                struct error *err);
int store_module(struct fleet_store *s, int64_t process, const char *build_id, const char *path,
                 struct error *err);
int store_location(struct fleet_store *s, const struct store_location *l, struct error *err);
int store_stack(struct fleet_store *s, const struct store_stack *k, struct error *err);
int store_frame(struct fleet_store *s, const struct store_frame *f, struct error *err);
int store_site(struct fleet_store *s, const struct store_site *i, struct error *err);
/* Adds to the figures of a stack in a process. */
int store_figures(struct fleet_store *s, int64_t process, uint64_t stack,
                  const struct store_figures *f, struct error *err);
/* Slices of a process, in the order of time. */
int store_slice(struct fleet_store *s, int64_t process, const struct store_slice *i,
                struct error *err);

/* Blocks of a process, in the order of their numbers. */
int store_block(struct fleet_store *s, int64_t process, const struct store_block *b,
                struct error *err);
int store_find_watched(struct fleet_store *s, uint64_t key, bool *there, struct error *err);
int store_watched(struct fleet_store *s, const struct store_watched *w, int64_t *id,
                  struct error *err);
int store_watched_label(struct fleet_store *s, int64_t report, const struct fleet_label *l,
                        struct error *err);
int store_watched_site(struct fleet_store *s, const struct store_watched_site *i,
                       struct error *err);

/* ---- reading ---- */

struct store_totals {
    uint64_t processes, incomplete, hosts, services, builds;
    uint64_t events, lost_events, requested_bytes;
    struct store_figures figures; /* sums */
};
int store_totals(struct fleet_store *s, const struct fleet_selection *of, struct store_totals *t,
                 struct error *err);

struct store_row {
    uint64_t site;
    struct store_figures figures;
    uint64_t processes, hosts; /* where the figure asked for is not 0 */
};
typedef int store_row_fn(void *arg, const struct store_row *r, struct error *err);
/* Calls `row` for each site, largest first. */
int store_sites(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                store_row_fn *row, void *arg, struct error *err);
/* The same question in the engine's SQL; to be freed. NULL without memory. */
char *store_sites_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by);

/* A sum of squares is exact, or STORE_SQUARES_MOST: it is not known. */
#define STORE_SQUARES_MOST (~(unsigned __int128)0)
static inline unsigned __int128 store_squares(unsigned __int128 a, unsigned __int128 b)
{
    return a + b < a ? STORE_SQUARES_MOST : a + b;
}

struct store_held { /* what some processes hold at a path: values of so many, added up */
    uint64_t path, site, processes, sum;
    unsigned __int128 squares;
    bool newer; /* they are of the second selection */
};
typedef int store_held_fn(void *arg, const struct store_held *h, struct error *err);
/* Calls `held` for each path that processes of a selection have, one time or more. */
int store_held(struct fleet_store *s, const struct fleet_selection *old,
               const struct fleet_selection *now, enum metric by, store_held_fn *held, void *arg,
               struct error *err);
char *store_held_sql(struct fleet_store *s, const struct fleet_selection *old,
                     const struct fleet_selection *now, enum metric by);

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
int store_order(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                store_order_fn *site, void *arg, struct error *err);
/* Rows of the query of the same name below, of these sites alone, in any order: so what it costs
 * does not grow with all sites. processes: how many are selected. */
int store_leaks(struct fleet_store *s, const struct fleet_selection *of, const uint64_t *sites,
                size_t count, uint64_t processes, store_answer_fn *answer, void *arg,
                struct error *err);
int store_spread(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                 const uint64_t *sites, size_t count, uint64_t processes, store_answer_fn *answer,
                 void *arg, struct error *err);

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
/* top, here and below: of so many sites with most, and of their processes alone; 0: of all. */
char *store_leaks_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t top);
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
char *store_spread_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                       uint64_t top);
char *store_parts_sql(struct fleet_store *s, const struct fleet_selection *of, enum metric by,
                      const struct fleet_group *group);

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
char *store_slices_sql(struct fleet_store *s, const struct fleet_selection *of, uint64_t width_ns);
/* The start of the first process, the end of the last one, the widest slice of any; and "". */
enum { SPAN_START, SPAN_END, SPAN_WIDTH, SPAN_NUMBERS };
char *store_span_sql(struct fleet_store *s, const struct fleet_selection *of);

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
char *store_watched_sql(struct fleet_store *s, const struct fleet_selection *of, const char *kind,
                        bool totals);

/* Frames of a site, innermost first. *call_site: which of them. At most STORE_DEEPEST. */
#define STORE_DEEPEST 1000000u
typedef int store_frame_fn(void *arg, const char *json, struct error *err);
int store_frames(struct fleet_store *s, uint64_t site, uint64_t *call_site, store_frame_fn *frame,
                 void *arg, struct error *err);
/* The frames of these sites will be asked for: an engine at a distance brings them at once. */
int store_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                         struct error *err);

#endif
