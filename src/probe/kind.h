/* kind.h - the engine's view of a kind of probe. Private to this directory. */
#ifndef MALLOW_PROBE_KIND_H
#define MALLOW_PROBE_KIND_H

#include "probe/attach.h"
#include "probe/files.h"
#include "probe/probe.h"

struct bpf_object;
struct probe_engine;
struct functions;

/* The thread of an event, which every kind knows. */
#define PROBE_BY_WHO                                                                               \
    (PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD | PROBE_BY_CPU | PROBE_BY_USER |        \
     PROBE_BY_PARENT)

struct probe_kind {
    const char *name, *summary;
    uint32_t stream;       /* enum mlw_kernel_kind; 0: it has no stream */
    uint32_t stream_by;    /* enum probe_by that it needs for that */
    const char *no_stream; /* why not */
    struct probe_layout layout;
    uint32_t by, may_by;
    const char *const *names; /* names of its events, by key.what; NULL: it finds them out */
    size_t name_count;
    bool uses_library, has_mmap, has_live, has_sizes;
    bool within_faults; /* its programs run where the process's memory map cannot be asked twice */
    /* A program may be due while it runs: the kernel leaves it out then, which counts as lost. */
    bool within_each_other;
    bool gauge; /* values are levels, not sums: an interval shows them as they are */
    const void *(*object)(size_t *bytes); /* the compiled programs */

    /* The functions that it would probe, and of which file. NULL: it does not say. */
    int (*list)(struct probe_engine *e, char *path, size_t room, struct functions *f,
                struct error *err);
    /* First of all, before PROGRAM is forked. NULL: nothing. */
    int (*choose)(struct probe_engine *e, struct error *err);
    /* The files whose stacks are likely to be met, where every process is looked at; NULL: the
     * machine's C library and loader. */
    int (*files)(struct probe_engine *e, struct error *err);
    /* Between opening and loading: which programs are wanted, sizes of maps. NULL: nothing. */
    int (*prepare)(struct probe_engine *e, struct error *err);
    int (*attach)(struct probe_engine *e, struct error *err);
    /* When it is over. NULL: nothing. */
    void (*finish)(struct probe_engine *e);
    /* Sums that are not in the map `sums`: adds rows to e->rows, or takes some away. Rows of equal
     * keys are added up behind it. NULL: none. */
    int (*collect)(struct probe_engine *e, struct error *err);
    /* An event of the ring buffer of a type from PROBE_EVENT_KIND on. NULL: none. */
    void (*event)(struct probe_engine *e, const void *data, size_t size);
    void (*release)(struct probe_engine *e); /* frees e->own; NULL: it has none */
};

struct inside;
struct stacks;

/* State of one probe from start to end. */
struct probe_engine {
    const struct probe_options *options;
    struct probe_result *result;
    struct bpf_object *object;
    struct files files;
    struct attachments attachments;
    struct stacks *stacks; /* NULL: no user or kernel stacks are kept */
    struct inside *inside; /* NULL: events come from the kernel, else from a library */
    bool multi;            /* uprobe_multi works here */
    bool over;             /* nothing more is learned: the waiting has ended */
    bool draining;         /* no more events will come: the rest is taken at once */
    uint64_t taken;        /* events */
    uint32_t pid;          /* -p, or the program that was started; 0: all */
    struct probe_row *rows;
    size_t row_count, row_room;
    /* The names of key.what, owned. */
    char **names;
    size_t name_count, name_room;
    struct probe_unplaced *unplaced; /* with what they hold, owned, but for `why` */
    size_t unplaced_count, unplaced_room;
    struct probe_bystander *bystanders; /* with the paths, owned */
    size_t bystander_count, bystander_room;
    bool reaches_one; /* probes are placed in one process alone */
    void *own;        /* the kind's */
};

/* True if a part of a key (enum probe_by) makes rows, or a condition looks at it. */
bool engine_asks(const struct probe_engine *e, uint32_t part);
/* Fills e->files, once. */
int engine_find_files(struct probe_engine *e, struct error *err);
int engine_add_row(struct probe_engine *e, const struct probe_row *row, struct error *err);
int engine_add_name(struct probe_engine *e, const char *name, struct error *err);
/* Leaves a program out of loading; every program not named is loaded. */
void engine_skip(struct probe_engine *e, const char *program);
/* Attaches every program that was loaded and whose section is a tracepoint's, but for those that
 * are attached already (follow_*). */
int engine_attach_tracepoints(struct probe_engine *e, struct error *err);
/* Attaches `program` to n places of path; e->multi and the process decide how. */
long engine_attach_places(struct probe_engine *e, const char *program, const char *path,
                          struct place *places, size_t n, bool on_return, struct error *err);
/* Reports which of the places have no probe, and why: in the result, and by a line for each
 * reason. */
int engine_say_refused(struct probe_engine *e, const char *path, const struct place *places,
                       size_t n, struct error *err);
void engine_release_unplaced(struct probe_engine *e);
/* True if probes in functions can be limited to the process that is meant; if not, or if its
 * children are meant as well, every process that maps the file has them. */
bool engine_reaches_one(const struct probe_engine *e);
/* Reports which processes that map the file are not meant, once for each file: in the result, and
 * by a line. */
int engine_say_bystanders(struct probe_engine *e, const char *path, struct error *err);
void engine_release_bystanders(struct probe_engine *e);
int engine_map(const struct probe_engine *e, const char *name); /* descriptor */
/* A new descriptor of a software perf event for one processor, with the program behind it. */
int engine_attach_perf(struct probe_engine *e, const char *program, uint64_t event,
                       struct error *err);
void engine_say(const struct probe_engine *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends to result->source. */
void engine_source(struct probe_engine *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True if the kernel has a tracepoint with that many arguments; 0: any number. */
bool engine_has_tracepoint(const struct probe_engine *e, const char *name, unsigned arguments);
/* True if functions of the kernel can be named. */
bool engine_kernel_named(const struct probe_engine *e);
/* The map `name` has room for that many entries; before loading. */
int engine_resize(struct probe_engine *e, const char *name, size_t entries, struct error *err);
/* Passes an event of a stream on. what, place: as in struct mlw_kernel. */
void engine_stream(const struct probe_engine *e, const struct mlw_kernel *event,
                   const uint64_t *values);
/* How often the kernel left a program out because it was at work on that processor already. */
uint64_t engine_missed(const struct probe_engine *e);
/* A name for each value of key.what. */
int engine_add_names(struct probe_engine *e, const char *const *names, size_t n, struct error *err);

/* All that users can name, in the order in which they are listed. The one list. */
#define PROBE_KINDS(X)                                                                             \
    X(sizes) X(calls) X(arenas) X(brk) X(purge) X(slab) X(faults) X(swapin) X(reclaim) X(rss)
#define PROBE_KIND_DECLARED(name) extern const struct probe_kind probe_kind_##name;
PROBE_KINDS(PROBE_KIND_DECLARED)

#endif
