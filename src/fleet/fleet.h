/* fleet.h - recordings of many processes on many hosts in one store, and questions about all of
 * them.
 *
 * Owns: what a store knows of a process, which stacks of different processes are the same, and the
 * questions. A stack is the same on every host, in every recording and at every load address: its
 * frames are compared by build-id and offset. Names are looked up while a recording is loaded.
 * Refuses: opening recordings, terminals (see cli/), and how rows are kept (see store.h).
 *
 * Functions return 0, or -1 with *err set. One thread at a time for a struct fleet_store; any
 * number of processes may have a store open, of which one loads at a time and others wait. */
#ifndef MALLOW_FLEET_FLEET_H
#define MALLOW_FLEET_FLEET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyse/figures.h"
#include "base/error.h"
#include "frames/look.h"
#include "frames/names.h"
#include "symbol/symbol.h"
#include "trace/trace.h"

struct fleet_store;

/* Access to a store on a server, http(s)://[USER@]HOST:PORT/DATABASE; a file needs none of it.
 * Texts are borrowed until fleet_close. */
struct fleet_access {
    const char *key;         /* the user's, NULL: none */
    const char *authorities; /* file of certificates to trust, NULL: the system's */
    const char *cluster;     /* create: the server's name for the nodes that share the store */
};

/* A new store at `where`, or an existing one (*existed). Anything else at that path stays as it is,
 * and is an error. */
int fleet_create(const char *where, const struct fleet_access *access, bool *existed,
                 struct error *err);
/* NULL with *err: nothing there, no store, or one of another version. */
struct fleet_store *fleet_open(const char *where, const struct fleet_access *access,
                               struct error *err);
void fleet_close(struct fleet_store *store); /* NULL is fine */

/* ---- loading ---- */

struct fleet_label {
    const char *key, *value; /* neither NULL */
    size_t key_bytes;        /* the length of key, which need not end there */
};

struct fleet_load_options {
    const char *host;    /* NULL: as recorded */
    const char *service; /* NULL: the program's base name */
    const struct fleet_label *labels;
    size_t label_count;
    bool events; /* every block's life, too */
    struct names_look look;
};

struct fleet_loaded {
    uint64_t added, replaced, present;       /* processes */
    uint64_t added_reports, present_reports; /* reports of sampled processes */
};

/* Adds every process of a recording, all of them or none. One that is in the store with the same
 * content is left as it is; one that has grown since takes the place of its former state. A process
 * is the same by host, start and process id, however its file is called. The trace must be open
 * with model_columns(). symbols NULL: no names. */
int fleet_load(struct fleet_store *store, struct trace *t, struct symbols *symbols,
               const struct fleet_load_options *options, struct fleet_loaded *loaded,
               struct error *err);

/* True if a file holds lines of `mallow watch --json`, by its first character. */
bool fleet_is_watched(const char *path);
/* Adds the reports of such a file, in transactions of some. One that is in the store stays as it
 * is. A last line without an end is left for the next load. Lines before a bad one are added. */
int fleet_load_watched(struct fleet_store *store, const char *path,
                       const struct fleet_load_options *options, struct fleet_loaded *loaded,
                       struct error *err);

/* Rows for a server's store, as it is asked to insert them: a query (behind the ? of a URL) and its
 * body. */
typedef int fleet_rows_fn(void *arg, const char *query, const void *body, size_t bytes,
                          struct error *err);

struct fleet_estimate {
    uint64_t bytes, low, high, blocks, samples, sampled_bytes;
};

struct fleet_report_site {
    struct fleet_estimate estimate;
    uint64_t oldest_ns, allocated_bytes, freed_bytes;
    struct name_frame *frames; /* [count] innermost first, as `report --json` shows them */
    size_t count;
    uint64_t call_site; /* which of them; from `count` on: that is not known */
};

/* A report of a sampled process. Texts are borrowed, none is NULL. */
struct fleet_report {
    const char *host, *exe, *kind;
    const char *process_end; /* "running", "ended", "exec"; "" in reports that do not say it */
    const char *command;     /* as fleet_command writes it */
    uint64_t pid;
    uint64_t start_ns, time_ns; /* since 1970: of the process, of the report */
    uint64_t period, dropped;
    uint64_t sites_total; /* there may be more of them than here */
    struct fleet_estimate total;
    struct fleet_report_site *sites; /* [site_count] */
    size_t site_count;
};
/* A command as reports have it; to be freed. NULL without memory. */
char *fleet_command(const char *const *command);
/* The rows of one report for a store in `database` of any server: the last ones say that the others
 * are there. They need no other rows, and may be inserted twice. `fleet load` makes the same of a
 * line that says the same. */
int fleet_report_rows(const struct fleet_report *report, const char *database,
                      const struct fleet_load_options *options, fleet_rows_fn *rows, void *arg,
                      struct error *err);

/* After a failure of fleet_load: it was the store that failed (it is full, it cannot be written),
 * not the recording. */
bool fleet_broken(const struct fleet_store *store);

/* ---- questions ---- */

/* The figure of a question: an enum metric, or this, which a store alone has: byte-seconds, the
 * bytes of a block times its lifetime. */
#define FLEET_BYTE_SECONDS METRICS
#define FLEET_METRICS      (METRICS + 1)

#define FLEET_LABELS 16u

/* X(member and column, its plural, name in options and selections, singular in text, bits): the
 * facts of a process that are asked for, counted and grouped by. */
#define FLEET_FACT_LIST(X)                                                                         \
    X(host, hosts, "host", "host", FLEET_FACT_BLANK | FLEET_FACT_WATCHED)                          \
    X(service, services, "service", "service", FLEET_FACT_BLANK | FLEET_FACT_WATCHED)              \
    X(build_id, builds, "build-id", "build", FLEET_FACT_DIGITS)                                    \
    X(allocator, allocators, "allocator", "allocator", 0)
enum {
    FLEET_FACT_BLANK = 1,   /* "" counts as one more */
    FLEET_FACT_WATCHED = 2, /* reports of sampled processes have it, too */
    FLEET_FACT_DIGITS = 4   /* a selection has its first hexadecimal digits */
};

/* Their names as literals, with "|" or ", " behind each. */
#define FLEET_FACT_BAR(member, plural, name, singular, bits)   name "|"
#define FLEET_FACT_COMMA(member, plural, name, singular, bits) name ", "
#define FLEET_FACTS_WITH_BARS                                  FLEET_FACT_LIST(FLEET_FACT_BAR)
#define FLEET_FACTS_WITH_COMMAS                                FLEET_FACT_LIST(FLEET_FACT_COMMA)

struct fleet_selection { /* NULL and 0: every process. Texts are the caller's */
#define FLEET_MEMBER(member, plural, name, singular, bits) const char *member;
    FLEET_FACT_LIST(FLEET_MEMBER)
#undef FLEET_MEMBER
    int64_t since_ns; /* started then or later, ns since 1970 */
    int64_t until_ns; /* started before; 0: no bound */
    struct fleet_label labels[FLEET_LABELS];
    size_t label_count;
};

struct fleet_fact {
    const char *name, *column, *singular, *plural;
    unsigned bits;
    size_t offset; /* in a selection */
};
#define FLEET_FACT_ONE(member, plural, name, singular, bits) +1
enum { FLEET_FACTS = 0 FLEET_FACT_LIST(FLEET_FACT_ONE) };
#undef FLEET_FACT_ONE
extern const struct fleet_fact fleet_facts[FLEET_FACTS];
/* The value that is asked for; NULL: any. */
static inline const char *fleet_fact_of(const struct fleet_selection *s, const struct fleet_fact *f)
{
    return *(const char *const *)(const void *)((const char *)s + f->offset);
}
/* False: not as its bits say. */
bool fleet_fact_is_good(const struct fleet_fact *f, const char *text);

/* A time as people write it: 2026-11-22, 2026-11-22T20:15[:30] (UTC), @SECONDS since 1970, or a
 * duration before now. */
bool fleet_parse_time(const char *text, int64_t *realtime_ns);
/* KEY=VALUE as a label. */
bool fleet_parse_label(const char *text, struct fleet_label *label);
/* FROM..TO, of which one may be missing. */
bool fleet_parse_range(const char *text, int64_t *since_ns, int64_t *until_ns);
/* TERM,TERM,... with TERM one of host= service= build-id= since= until= label.KEY=; "all": every
 * process. `text` is cut into pieces, which the selection refers to. */
int fleet_parse_selection(char *text, struct fleet_selection *s, struct error *err);

struct fleet_group {    /* by what processes are put into parts; neither: one part of all */
    const char *column; /* a fact's */
    const char *label;
};
/* The name of a fact, or label.KEY. */
bool fleet_parse_group(const char *text, struct fleet_group *group);

#define FLEET_ALL UINT32_MAX

enum fleet_what {
    FLEET_REPORT, /* which call sites hold most */
    /* Which hold blocks at the end, and in how many of the processes and on how many of the hosts
     * that allocate there. */
    FLEET_LEAKS,
    FLEET_DISTRIBUTION, /* a figure over the processes: of each group, and of each call site */
    FLEET_TIMELINE,     /* sums of bytes held, bytes allocated and calls in each slice of time */
    FLEET_WATCHED,      /* bytes of sampled processes by the last report of each, with intervals */
    /* Which call sites hold more or less than in the processes of `old`, as the mean of a process,
     * with an interval where both have two processes or more. Call sites are the same by functions
     * and modules, as in frames/same.h, so builds can differ. */
    FLEET_DIFF,
    FLEET_QUESTIONS
};

struct fleet_question {
    enum fleet_what what;
    const struct fleet_selection *old; /* diff: the processes before */
    const char *where;                 /* the store's name, for the document */
    enum metric by;
    uint64_t top; /* sites shown; 0: 10 in text, 1000 in JSON; FLEET_ALL: all */
    bool json, sql;
    bool page;                /* report and diff: JSON with what only a page shows, too */
    bool call_sites;          /* JSON and SQL have call sites, as text does; else whole stacks */
    bool growth;              /* diff: only what grew */
    struct fleet_group group; /* distribution, page */
    const char *kind;         /* watched: of reports */
    uint64_t slice_ns; /* timeline: how long a slice is; 0: so that they are a hundred at most */
};

/* The answer, as text or JSON, or the query as one statement of SQL. of: the processes selected; of
 * FLEET_WATCHED the reports, by their time. */
int fleet_ask(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
              const struct fleet_question *q, struct error *err);

/* The answer to FLEET_REPORT or FLEET_DIFF as a page for a browser, into a file that is whole when
 * it has its name. A page that would be too large has fewer call sites, and says so. */
int fleet_page(const char *path, struct fleet_store *store, const struct fleet_selection *of,
               const struct fleet_question *q, struct error *err);

#endif
