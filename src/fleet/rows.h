/* rows.h - the rows of a store and their columns, listed once. Private to fleet/.
 *
 * Owns: what a row of each kind holds, and the table from which CREATE, INSERT and requests to a
 * server are made. The names and their order are the stored format: see docs/design/fleet.md.
 * Texts are borrowed; NULL is "". Plain data. */
#ifndef MALLOW_FLEET_ROWS_H
#define MALLOW_FLEET_ROWS_H

#include <string.h>

#include "fleet/fleet.h"

/* X(member and column, key in JSON): the figures of a stack or process. A figure of the analysis
 * (SITE_FIGURES) is stored only when it is listed here: tests/fleet/test_rows.c compares the lists.
 * byte_seconds: whole ones; those of the stacks add up to those of the process. */
#define STORE_FIGURE_LIST(X)                                                                       \
    X(calls, "calls")                                                                              \
    X(allocated_bytes, "allocated_bytes")                                                          \
    X(peak_bytes, "peak_bytes")                                                                    \
    X(peak_blocks, "peak_blocks")                                                                  \
    X(end_bytes, "end_live_bytes")                                                                 \
    X(end_blocks, "end_live_blocks")                                                               \
    X(temporary, "temporary")                                                                      \
    X(byte_seconds, "byte_seconds")

struct store_figures { /* the figures of a stack in a process, or the sum of several: numbers in a
                          row */
#define STORE_MEMBER(member, key) uint64_t member;
    STORE_FIGURE_LIST(STORE_MEMBER)
#undef STORE_MEMBER
};
#define STORE_FIGURES (sizeof(struct store_figures) / sizeof(uint64_t))

struct store_process {
    uint64_t key;     /* which process it is */
    uint64_t content; /* a sum of its facts: the same after loading the same again */
    const char *host, *service, *build_id, *exe, *allocator;
    const char *command; /* a JSON array */
    uint64_t pid, ppid;
    uint64_t start_ns, end_ns; /* since 1970 */
    uint64_t complete;         /* 0 or 1 */
    uint64_t events, lost_events, requested_bytes, peak_time_ns, stacks;
    struct store_figures figures; /* totals; the peak is that of the process */
    uint64_t slice_ns;            /* how long its slices of time are */
    /* the recording's, see STORE_NO_LIMIT */
    uint64_t memory_limit_bytes, address_space_limit_bytes, data_limit_bytes;
};

/* A limit of memory that is not there; 0 is not known. */
#define STORE_NO_LIMIT ((uint64_t)INT64_MAX)

/* In the rows below, `process` is what put (store.h) gave for the row of the process, and `report`
 * of a label the same of a report of `watch`. */

struct store_label {
    uint64_t owner; /* process or report */
    struct fleet_label label;
};

struct store_module {
    const char *build_id, *path;
    uint64_t process;
};

/* A process's acts in a slice of time. Slices begin at whole multiples of their width since 1970,
 * so that those of all processes fit into each other; between the first and the last one of a
 * process none is missing. They come in the order of time. */
struct store_slice {
    uint64_t process;
    uint64_t start_ns, width_ns;
    uint64_t last; /* 1: of the process */
    uint64_t calls, allocated_bytes;
    uint64_t live_bytes; /* at its end; of the last slice, when the process ended */
    uint64_t peak_bytes; /* the most in it */
};

struct store_location { /* the meaning of an address, wherever it was loaded */
    uint64_t id;
    const char *build_id; /* hexadecimal digits; "" for none */
    const char *module;
    uint64_t offset; /* address in the module's file */
    uint64_t flags;  /* enum mlw_node_flags */
};

struct store_stack { /* a frame and its caller */
    uint64_t id, parent, location;
    uint64_t site;  /* the frame by its text; 0: not the innermost frame of any stack yet */
    uint64_t named; /* frames whose name is known: names with more of them win */
};

struct store_frame {
    uint64_t id;
    const char *json; /* as in report --json */
};

struct store_site { /* a frame that people read and its caller */
    uint64_t id, parent, frame;
    uint64_t path;     /* the same in another build, too: functions and modules */
    int64_t call_site; /* frames inward of the call site; -1: no stack ends here */
};

struct store_called { /* the frame of the call site of stacks that read as this */
    uint64_t site, frame;
};

struct store_figure { /* adds to the figures of a stack in a process */
    uint64_t process, stack;
    struct store_figures figures;
};

struct store_block { /* the life of a block, in the order of numbers; times are since 1970 */
    uint64_t process;
    uint64_t
        number; /* the number of the block in its process, by the moment of its release, from 1 */
    uint64_t stack, size_bytes, address, thread, freed_by; /* threads by their ids; 0: not known */
    uint64_t allocated_ns, freed_ns;                       /* freed_ns 0: live at the end */
    uint64_t temporary;                                    /* 0 or 1 */
};

struct store_watched {     /* a report of a sampled process */
    uint64_t key, process; /* identities: of the report, of the process */
    const char *host, *service, *exe, *command, *kind;
    const char *process_end; /* "running", "ended", "exec"; "" in reports that do not say it */
    uint64_t pid;
    uint64_t start_ns, time_ns; /* since 1970: of the process, of the report */
    uint64_t period, dropped, sites;
    struct fleet_estimate total;
};

struct store_watched_site {
    uint64_t report; /* its key */
    uint64_t place;  /* in the report */
    uint64_t site;
    struct fleet_estimate estimate;
    uint64_t oldest_ns, allocated_bytes, freed_bytes;
};

/* ---- columns ---- */

/* Those of processes and of reports come behind their parts: a server gets them last, since they
 * say that the others are there. It has no tables for the last three: their rows are arrays in
 * those of processes and reports. */
enum store_table {
    STORE_LOCATION,
    STORE_FRAME,
    STORE_SITE,
    STORE_CALLED, /* a server alone has it: the embedded store finds it out */
    STORE_STACK,
    STORE_FIGURE,
    STORE_SLICE,
    STORE_BLOCK,
    STORE_WATCHED_SITE,
    STORE_PROCESS,
    STORE_WATCHED,
    STORE_LABEL,
    STORE_MODULE,
    STORE_WATCHED_LABEL,
    STORE_TABLES
};

enum store_kind {
    STORE_NUMBER, /* uint64_t: an identity, or what has a bound of its own */
    STORE_COUNT,  /* uint64_t that the embedded store refuses from 2^63 on */
    STORE_PLACE,  /* int64_t from -1 on */
    STORE_TEXT,   /* const char * */
    STORE_KEY     /* struct fleet_label, of which it is the key */
};

struct store_column {
    const char *name;
    enum store_kind kind;
    uint16_t offset; /* in the struct of its row */
};

struct store_columns {
    const char *name; /* the name of the table */
    const struct store_column *items;
    size_t count;
};
extern const struct store_columns store_columns[STORE_TABLES];

static inline uint64_t store_number(const struct store_column *c, const void *row)
{
    uint64_t v;
    memcpy(&v, (const char *)row + c->offset, sizeof v);
    return v;
}

/* A column of texts or keys; *bytes: its length. */
const char *store_text(const struct store_column *c, const void *row, size_t *bytes);

static inline bool store_is_text(const struct store_column *c) { return c->kind >= STORE_TEXT; }

#endif
