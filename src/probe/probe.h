/* probe.h - asks the kernel what a program does with memory, while it does it.
 *
 * Owns: programs loaded into the kernel (src/bpf/), where they are attached, and the sums that they
 * keep there. Nothing here prints. One probe at a time in a process; one thread. */
#ifndef MALLOW_PROBE_PROBE_H
#define MALLOW_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bpf/key.h"
#include "format/chunk.h"

/* ---- kinds ---- */

struct probe_kind;
struct probe_result;
struct arenas;
struct arena_moment;
struct probe_reported;

/* In the order in which they are listed; NULL at the end. */
extern const struct probe_kind *const probe_kinds[];

/* The columns of a kind's rows. */
struct probe_layout {
    const char *list;                /* name of the array of groups in JSON */
    const char *value[PROBE_VALUES]; /* name in JSON; NULL: not used */
    const char *title[PROBE_VALUES]; /* heading in the text */
    char unit[PROBE_VALUES + 1];     /* 'n' count, 'b' bytes, 't' ns */
    int order;                       /* the value that groups are sorted by */
    char histogram;                  /* 'b': of sizes, 't': of times; 0: groups have none */
    uint8_t may_histogram;           /* values that can have one when it is asked for: bits */
    int counted;                     /* the value that it counts */
    bool gauge;                      /* there is no sense in a total */
    enum probe_within {
        PROBE_WITHIN_NOTHING,   /* groups are a list */
        PROBE_WITHIN_PROCESSES, /* in JSON, below their process */
        PROBE_WITHIN_TIME       /* in JSON, as samples in time */
    } within;
};

const struct probe_kind *probe_kind_find(const char *name); /* NULL when there is none */
const char *probe_kind_name(const struct probe_kind *k);
const char *probe_kind_summary(const struct probe_kind *k); /* lower case, no full stop */
uint32_t probe_kind_by(const struct probe_kind *k);         /* keys when none are given */
uint32_t probe_kind_may_by(const struct probe_kind *k);     /* keys that make sense */
bool probe_kind_uses_library(const struct probe_kind *k);
bool probe_kind_has_mmap(const struct probe_kind *k);
bool probe_kind_has_live(const struct probe_kind *k);
bool probe_kind_has_list(const struct probe_kind *k);  /* probe_list */
bool probe_kind_has_sizes(const struct probe_kind *k); /* --sizes and --source */
/* The kind of its events in a stream (enum mlw_kernel_kind); 0: it has none. */
unsigned probe_kind_stream(const struct probe_kind *k);
/* Why it has no stream, for the user; NULL: it has one. */
const char *probe_kind_no_stream(const struct probe_kind *k);
const struct probe_layout *probe_kind_layout(const struct probe_kind *k);
uint32_t probe_kind_stream_by(const struct probe_kind *k); /* keys that it needs for that */

/* The keys of "process,stack", as PROBE_BY_ bits; NULL: those of the kind. -1 with *err, whose text
 * continues the name of the option: ": 'x' is none of ...". */
int probe_by_parse(const struct probe_kind *kind, const char *text, uint32_t *by,
                   struct error *err);

/* A value of the kind by its name in JSON, as struct probe_options has it in `order`; NULL: 0. -1
 * with *err, whose text continues the name of the option: ": 'x' is none of ...". */
int probe_order_parse(const struct probe_kind *kind, const char *text, uint32_t *order,
                      struct error *err);

/* A value of the kind whose histogram is asked for, as struct probe_options has it in `histogram`;
 * NULL: 0. -1 with *err as above. */
int probe_histogram_parse(const struct probe_kind *kind, const char *text, uint32_t *histogram,
                          struct error *err);

/* A condition on events, "bytes>64K && comm==\"git\"" (where.h has the grammar); NULL: all are
 * kept. -1 with *err as above. */
int probe_where_parse(const struct probe_kind *kind, const char *text, struct probe_where *where,
                      struct error *err);

/* The kinds of "faults,rss" that a recording can keep, each once. Returns how many, at least 1; -1
 * with *err, whose text continues the name of the option: ": 'x' is none of ...". */
int probe_streams_parse(const char *text, const struct probe_kind **kinds, size_t room,
                        struct error *err);

/* Every call of the allocator of a process that runs, for probe_begin with `call`. Not listed. */
extern const struct probe_kind probe_kind_record;

/* Acts of a process that is recorded from outside. */
enum probe_call_what {
    PROBE_CALL,      /* an allocation, when it has returned; a release, when it begins */
    PROBE_FOUND,     /* a child, or a child's, that was there already; before probe_begin returns */
    PROBE_FORKED,    /* address is the child's pid, size 1 when it has the same memory (vfork) */
    PROBE_BECAME,    /* another program: path, arguments */
    PROBE_ENDED,     /* size is the status, as of waitpid */
    PROBE_LOST_CALLS /* last of all: size is how many of its calls were lost */
};
struct probe_call {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t address; /* 0: it failed */
    uint64_t size, argument;
    uint64_t stack; /* for probe_stack_now; 0: none */
    uint32_t pid, tid;
    uint8_t what; /* enum probe_call_what */
    uint8_t
        op; /* the operation of a call, enum mlw_op; releases: MLW_OP_FREE, MLW_OP_REALLOC_OLD */
    const char *path;      /* as it was given to exec */
    const char *arguments; /* pieces that end with a NUL each; not more than the first 1024 bytes */
    size_t argument_bytes;
};

/* ---- what to do ---- */

/* From where glibc's arenas are seen (kind arenas), in the order of preference. */
enum probe_source {
    PROBE_SOURCE_BEST,    /* the first of these that works here */
    PROBE_SOURCE_STATIC,  /* glibc's own static probes */
    PROBE_SOURCE_SYMBOLS, /* functions that its debug symbols name */
    PROBE_SOURCE_PRELOAD, /* a library inside the program; needs no rights */
    PROBE_SOURCE_CALLS    /* system calls */
};

struct probe_options {
    const struct probe_kind *kind;
    uint32_t pid;             /* a running process; 0: none */
    char *const *argv;        /* a program to start; NULL: none */
    const char *program;      /* the file that argv[0] is, after scripts and PATH */
    bool all;                 /* every process; exactly one of pid, argv and all is set */
    bool no_follow;           /* without children */
    uint64_t duration_ns;     /* 0: until it ends or is interrupted */
    uint64_t interval_ns;     /* 0: only at the end */
    uint32_t by;              /* enum probe_by */
    uint32_t order;           /* one more than the value that groups are sorted by; 0: the kind
                                 says */
    uint32_t histogram;       /* one more than the value whose classes are apart; 0: the kind
                                 says */
    struct probe_where where; /* which events are kept */
    const char *command;      /* with `all`: only processes of this name; NULL: of any */
    uint32_t frames;     /* the frames of a user stack, at most PROBE_DEPTH_MAX; 0: that many */
    const char *library; /* path or part of a name; NULL: the one that has malloc */
    const char *const *functions; /* globs; NULL: those of the kind */
    size_t function_count;
    bool mmap, live;
    bool sizes;               /* kind arenas: requests are counted, too */
    enum probe_source source; /* kind arenas */
    const char *preload;      /* path of libmallow-arenas.so; NULL: it cannot be preloaded */
    const char *no_preload;   /* why not */
    bool verbose;             /* messages of libbpf are passed on */
    /* Called at each interval with what came since the last; and for single lines that the user
     * should know. Either may be NULL. */
    void (*interval)(void *arg, struct probe_result *since);
    void (*say)(void *arg, const char *line);
    /* Called for each step of glibc's allocator (kind arenas). */
    void (*moment)(void *arg, uint32_t pid, const struct arena_moment *m);
    /* An event of a process that carries libmallow-watch.so (kind samples, probe/samples.h); and
     * that its probes have a reader from now on. */
    void (*reported)(void *arg, const struct probe_reported *t);
    void (*attached)(void *arg);
    void *arg;
    /* A stream: each event goes here as it comes, its clock CLOCK_MONOTONIC in nanoseconds, and
     * nothing is added up. Then `program` is what `waiting` will execute, a child of this process
     * that has not done so yet, and argv is not looked at. */
    void (*stream)(void *arg, const struct mlw_kernel *event, const uint64_t *values);
    void (*call)(void *arg, const struct probe_call *call); /* for the kind record */
    uint32_t waiting;
    uint64_t own_inode; /* the own inode of a file that is mapped into the process by its recorder;
                           0: none */
};

/* ---- what came of it ---- */

struct probe_row {
    struct probe_key key;
    struct probe_value value;
};

static inline void probe_value_add(struct probe_value *to, const struct probe_value *v)
{
    for (int i = 0; i < PROBE_VALUES; i++)
        to->at[i] += v->at[i];
}

/* A frame of a user stack. path NULL: nothing is known but the address. */
struct probe_frame {
    const char *path;
    uint64_t address;        /* in the ELF file, or in the process without a path */
    const uint8_t *build_id; /* the build id of the file; NULL: it has none */
    size_t build_id_bytes;
};

/* The size of a process at a moment, in bytes; not more often than it changed. */
struct probe_sample {
    uint64_t time_ns; /* from the start of the probe */
    uint32_t pid;
    uint64_t file, anonymous, swap, shared;
};

/* A place that was to have a probe and has none. */
struct probe_unplaced {
    const char *name; /* the name of the function that begins there; NULL: none does */
    const char *path;
    uint64_t offset; /* in the file */
    const char *why;
};

/* Blocks of which it is not known whether they are live: the kernel does not report every release
 * of such. They are in no row. */
struct probe_not_known {
    struct probe_key key;     /* the cache by name and what, and the calling function's site */
    struct probe_value value; /* the value of the blocks whose release was not seen */
    /* Blocks that were given out again though no release was reported: how often the kernel did
     * not. 0: of the whole cache none was reported, and there is a way without a report. */
    uint64_t given_out_again;
};

/* Processes of one name that are not meant, and that the probes in a file slow nevertheless; as by
 * the time when they were attached. */
struct probe_bystander {
    const char *path;
    char command[PROBE_COMMAND_BYTES];
    uint64_t processes;
};

struct probe_result {
    const struct probe_kind *kind;
    uint32_t by, order, histogram; /* as in the options */
    bool live;                     /* as in the options */
    char source[512];              /* the files that it was attached to */
    uint64_t start_ns;             /* CLOCK_MONOTONIC */
    uint64_t duration_ns; /* that the figures are of: of an interval its own, but since the start of
                             sizes (a gauge) and of the arenas, which are reported whole */
    uint64_t interval;    /* its number, from 1; 0: this is the whole */
    uint64_t losses[PROBE_LOSSES];
    struct probe_row *rows; /* sorted by key */
    size_t row_count;
    const char *const *names; /* names of key.what, where the kind has them */
    size_t name_count;
    const struct probe_unplaced *unplaced;
    size_t unplaced_count;
    const struct probe_not_known *not_known; /* most blocks first */
    size_t not_known_count;
    const struct probe_bystander *bystanders;
    size_t bystander_count;
    bool bystanders_cut; /* there may be more: processes have too many mappings to look at */
    struct probe_sample *samples; /* for kinds that follow a size through time; by time */
    size_t sample_count, sample_room;
    /* For `mallow record -p`: what malloc and free take longer, without looking at the stack, in
     * the process itself; measured, as by now. 0: not known. */
    uint64_t malloc_cost_ns, free_cost_ns;
    const struct arenas *arenas; /* probe/arenas.h; NULL for other kinds */
    /* With arenas: each row is a number of requests, by pid, mmap threshold at that time
     * (key.site), whether it reached it (key.what 1), and class of size. */
    bool counts_requests;
    bool has_program;
    int wait_status;           /* the program's status, as of waitpid */
    int exec_errno;            /* not 0: the program could not be executed */
    bool interrupted;          /* by the user, before the end */
    struct probe_state *state; /* private: stacks, files */
};

/* The functions of a library that `kind` would probe. */
struct probe_functions {
    char path[4096];   /* the library */
    const char **name; /* sorted by their place in it; they belong to the list */
    uint64_t *offset;  /* in the file */
    size_t count;
    void *own; /* private */
};
/* Lists them without attaching anything, for which no rights are needed: of argv's files, pid's, or
 * of those that most programs here have. Only of kinds with probe_kind_has_list. Returns 0, or -1
 * with *err; to be released in either case. */
int probe_list(const struct probe_options *o, struct probe_functions *list, struct error *err);
void probe_list_release(struct probe_functions *list);

/* Runs from start to end. Returns 0, or -1 with *err; result is to be released in either case. */
int probe_run(const struct probe_options *o, struct probe_result *result, struct error *err);
void probe_release(struct probe_result *result);

/* The same in steps, for a loop that has more to wait for; several results may be at work at one
 * time. Options must outlive the result. */
int probe_begin(const struct probe_options *o, struct probe_result *result, struct error *err);
int probe_descriptor(const struct probe_result *r); /* readable when events are there */
/* Takes the available events; of a steady flow a part, so that the caller regains control. */
void probe_consume(struct probe_result *r);
void probe_end(struct probe_result *r); /* detaches, takes the last events, counts the lost ones */

/* Events that were lost, whatever the reason; one whose stack was lost, or is cut, is still
 * reported. */
uint64_t probe_lost(const struct probe_result *r);

/* The frames of a user stack (probe_key.stack), innermost first; how many were written. */
size_t probe_stack_frames(const struct probe_result *r, uint64_t stack, struct probe_frame *frames,
                          size_t max);

/* The same while the probe is at work, asked of the kernel. */
size_t probe_stack_now(const struct probe_result *r, uint64_t stack, struct probe_frame *frames,
                       size_t max);

/* The names of a kernel stack (probe_key.kstack), innermost first; they live as long as r. */
size_t probe_kernel_frames(const struct probe_result *r, uint64_t kstack, const char **names,
                           size_t max);
/* The kernel's function at an address, or NULL. */
const char *probe_kernel_name(const struct probe_result *r, uint64_t address);

#endif
