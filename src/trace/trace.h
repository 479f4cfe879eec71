/* trace.h - reading a recording, whatever state it is in.
 *
 * Owns: the two forms of a file (raw chunks while recording, sealed columns afterwards), repair,
 * and the merge of threads into time order. Above this border a recording is a sequence of batches:
 * columns of events of one process image in its time order, in which a block is named by a slot.
 *
 * A slot is a small number that a block has while it lives; a released slot is used again for a
 * later block. So the reader of a batch needs no hash of addresses: an array of `max_slots` entries
 * per image is the whole live set.
 *
 * A raw recording (still being written, or its recorder died) is sealed first: into the same path
 * when it has no writer any more, is the caller's own (trust_place_of_own) and the directory is
 * writable, otherwise into an unlinked temporary file. */
#ifndef MALLOW_TRACE_TRACE_H
#define MALLOW_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/chunk.h"
#include "format/route.h"
#include "format/op.h"
#include "format/row.h"
#include "format/unseen.h"

struct trust_place; /* trust/place.h */

#define TRACE_NO_SLOT UINT32_MAX

/* The effect of an event on the live blocks; decided once, by the sealer. */
enum trace_kind {
    TRACE_ALLOC = 0, /* a block begins: slot is valid */
    TRACE_FREE = 1,  /* the block in `slot` ends */
    TRACE_FREE_TEMP =
        2, /* as FREE, of a temporary block: its thread freed it before its next allocation */
    TRACE_FREE_UNKNOWN = 3, /* a free of an address that was not live (from before the recording, or
                               after a loss); slot is TRACE_NO_SLOT */
    TRACE_FREE_INFERRED = 4, /* not a call: the address of `slot` came back from an allocation, so
                                its free was missed (after a loss); op is 0 */
    TRACE_OTHER = 5          /* free(NULL), failed calls, malloc_usable_size, mmap family */
};

/* Columns of a batch, to ask for only what a question needs. kind, op and slot always come. */
enum trace_column {
    TRACE_COL_THREAD = 1,
    TRACE_COL_SIZE = 2,
    TRACE_COL_STACK = 4,
    TRACE_COL_TIME = 8,
    TRACE_COL_ADDRESS = 16,
    TRACE_COL_USABLE = 32,
    TRACE_COL_PATH = 64,
    TRACE_COL_ARGUMENT = 128,
    TRACE_COL_ROUTE = 1024,
    TRACE_COL_ALL = 255 | TRACE_COL_ROUTE,
    TRACE_COL_OTHER_ADDRESS = 256, /* cheap: address[] is valid for OTHER and FREE_UNKNOWN only */
    /* begun_size and its like hold the requested columns among size, stack, usable and address
     * for the ALLOC events only, densely. size[] and its like are then valid for OTHER and
     * FREE_UNKNOWN only, which is cheaper. */
    TRACE_COL_BEGUN = 512
};

/* A run of events of one image, in time order. Arrays belong to the cursor and hold until its
 * next trace_cursor_next. A column that was not asked for is NULL. A realloc that moves or resizes
 * is two events: the old half (op MLW_OP_REALLOC_OLD, kind FREE) and the new one (op MLW_OP_REALLOC
 * or REALLOCARRAY, kind ALLOC). A realloc that fails leaves one event of kind OTHER (its old half
 * is taken back by the sealer); realloc(p, 0) that frees leaves a FREE and an OTHER. */
struct trace_batch {
    uint32_t image; /* index into trace_info.images */
    size_t n;
    uint64_t first_event; /* number of the first event within its image */
    const uint8_t *kind;  /* enum trace_kind */
    const uint8_t *op;    /* enum mlw_op */
    const uint32_t *slot;
    const uint32_t *thread;  /* index into the image's threads[] */
    const uint64_t *size;    /* requested bytes (of the call, also for FREE_SIZED; 0 for free) */
    const uint32_t *stack;   /* id of a stack, 0 for none; a node of the image */
    const uint64_t *time_ns; /* since the start of the whole recording */
    const uint64_t *address;
    const uint64_t *usable;
    const uint8_t *path;  /* enum mlw_path */
    const uint8_t *route; /* enum mlw_route, which few recordings have: else all 0 */
    const uint64_t *argument;
    uint32_t slots; /* not 0: the slots of these events are below it, and their stacks, threads,
                       kinds and operations exist */
    size_t begun; /* number of ALLOC events, with TRACE_COL_BEGUN; begun_size NULL: not requested */
    const uint64_t *begun_size, *begun_usable, *begun_address;
    const uint32_t *begun_stack;
};

struct trace_frame_node { /* a frame and its caller; see MLW_META_NODE. 16 bytes: millions of them
                           */
    uint32_t parent;      /* 0: outermost */
    uint32_t module : 24; /* 0: none; else index + 1 into the image's modules[] */
    uint32_t flags : 8;   /* enum mlw_node_flags */
    uint64_t pc;
};
#define TRACE_MODULES_MOST 0xffffffu /* modules that a node can name */

struct trace_module {
    const char *path;
    const uint8_t *build_id;
    size_t build_id_bytes;
    uint64_t file_bytes, file_mtime_ns; /* a file's without a build-id; 0: not known */
    uint64_t file_sum;                  /* over its contents (symbol/contents.h); 0: not known */
    uint64_t start, end, bias;
    uint64_t loaded_ns, gone_ns; /* gone_ns UINT64_MAX while mapped */
};

/* A function at an address that the recording itself names. In a recording made from a foreign
 * trace all names are of this kind. In others they name files that were gone when the recording
 * was sealed. */
struct trace_name {
    uint64_t pc;
    const char *function, *file; /* "" when unknown */
    uint32_t line;               /* 0 when unknown */
    bool inlined;                /* inlined into the next entry, which has the same pc */
};

struct trace_thread {
    uint32_t tid;
    const char *name;          /* may be "" */
    uint64_t start_ns, end_ns; /* first and last event of the thread */
    bool ended;                /* its end was seen */
    uint64_t calls, lost_calls;
};

struct trace_event_note { /* mark or control, in time order */
    uint64_t time_ns;
    uint32_t thread;   /* UINT32_MAX: from outside */
    uint8_t control;   /* enum mlw_control; 0: a mark */
    const char *label; /* the label of a mark */
};

/* Records of the kernel (`mallow record --with`), in time order. Times may lie between the
 * image's exec and its start_ns, when the recorder began in it. */
struct trace_fault {
    uint64_t time_ns, address;
    uint32_t tid;
    uint32_t
        stack;     /* the stack of the call that made the block or mapping which was hit; 0: none */
    uint8_t what;  /* enum mlw_access, and MLW_FAULT_MAJOR */
    uint8_t place; /* enum mlw_place */
};
struct trace_level { /* resident bytes, exactly; swapped ones are not resident */
    uint64_t time_ns, file, anonymous, swapped, shared;
};
struct trace_moment { /* an event of another kind */
    uint64_t time_ns;
    uint32_t tid;
    uint8_t kind; /* enum mlw_kernel_kind */
    uint8_t what;
    uint8_t values;
    int64_t value[MLW_KERNEL_VALUES];
};

/* One program image: a process between two execs. */
struct trace_image {
    uint64_t id;
    uint32_t pid, ppid;
    uint32_t
        forked_from; /* index of the image whose memory it inherited, UINT32_MAX for none. Blocks
                        that were live there at start_ns are live here from the start; the sealer
                        gives them as ALLOC events with path bit MLW_PATH_* unchanged and
                        `inherited` counts them; they come first, at start_ns, and are no calls */
    uint64_t inherited;
    const char *const *command; /* NULL-terminated */
    const char *exe;
    const char *const *title; /* the command line when it was last read, NULL-terminated; NULL:
                                 unchanged, or not known */
    const char *comm;         /* the kernel's name of the process at that time; NULL: not known */
    const char *allocator;
    const char *const *environment; /* NULL when not stored */
    const char *const *settings; /* settings of allocators in its environment, possibly with other
                                    variables; NULL: not known */
    const char *const *notes;    /* NULL-terminated: limits of this recording, for the user */
    uint32_t stack_mode;         /* enum mlw_stack_mode */
    uint64_t start_ns, end_ns;   /* since the start of the whole recording */
    uint32_t end_how;            /* enum mlw_end_how */
    uint32_t end_status;         /* as of waitpid */
    bool complete;               /* it ended by itself (exit, exec), and all its calls are here */
    uint64_t events;             /* in batches, inherited and inferred ones included */
    uint64_t calls;              /* API calls: what `events` of report counts */
    uint64_t lost_calls;
    bool attached; /* it ran before its recording began: unknown frees are of blocks from before */
    uint64_t before_blocks,
        before_bytes;   /* blocks that lived then, and their usable bytes; UINT64_MAX: not known */
    bool routed;        /* calls have routes: trace_batch.route */
    uint32_t max_slots; /* the live array needs this many entries */
    uint32_t stacks;    /* ids 1..stacks are valid in trace_batch.stack (node ids) */
    const struct trace_frame_node *nodes; /* [1..stacks] */
    uint32_t module_count, thread_count, note_count, resident_count, split_count;
    const struct trace_module *modules;
    const struct trace_thread *threads;
    const struct trace_event_note *event_notes;
    const struct mlw_resident *resident; /* clock field holds time_ns here */
    const struct mlw_split *splits;      /* clock field holds time_ns here */
    const struct trace_name *names;      /* by pc; those of one pc innermost first */
    uint32_t name_count;
    uint64_t own_bytes; /* the recorder's private memory in the program, for the split */
    const struct trace_fault *faults;
    const struct trace_level *levels;
    const struct trace_moment *moments;
    uint32_t fault_count, level_count, moment_count;
};

/* Returns the caller of a node; 0 if the node is the outermost, or not one of the image. Every
 * walk from caller to caller ends, because no node may be among its own callers. */
static inline uint32_t trace_caller(const struct trace_image *image, uint32_t node)
{
    return node && node <= image->stacks ? image->nodes[node].parent : 0;
}

/* Returns the content of a node, which must be in 1..image->stacks. */
static inline const struct trace_frame_node *trace_node(const struct trace_image *image,
                                                        uint32_t node)
{
    return &image->nodes[node];
}

struct trace_info {
    uint64_t file_bytes;    /* the size of the file as found */
    bool sealed;            /* as found */
    bool torn;              /* sealed, but the end of the file is missing, and possibly more */
    uint64_t damaged_bytes; /* torn or corrupt bytes that were skipped */
    uint64_t damaged_runs;  /* sealed blocks whose checksum failed; their events count as lost */
    uint64_t start_realtime_ns;
    uint64_t tick_ns_x1000; /* resolution of time_ns, in thousandths of a nanosecond */
    const char *host;
    const char *tool;
    uint32_t kernel_kinds;       /* a bit (1 << enum mlw_kernel_kind) for each kind recorded */
    uint64_t lost_kernel_events; /* events of the kernel that all processes lost */
    struct mlw_limits limits;    /* all 0 if the recording does not have it */
    uint32_t image_count;
    const struct trace_image *images; /* by start_ns */
};

struct trace;

enum trace_index {
    TRACE_INDEX_READ,   /* use an index that the file has */
    TRACE_INDEX_WRITE,  /* use one, and write one if the recording is large (trace_kept_new) */
    TRACE_INDEX_ALWAYS, /* use one, and write one for a recording of any size */
    TRACE_INDEX_NONE
};

struct trace_open_options {
    bool no_seal_in_place; /* do not change the file */
    enum trace_index index;
    unsigned columns; /* enum trace_column to be read; 0: all */
    uint64_t to_ns;   /* events after this time need not be read; 0: all. Batches still come whole,
                         and the caller filters exactly */
    unsigned threads; /* threads to use at once, the caller's included; 0: one for each processor of
                         this process. The batches do not depend on it */
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* may be NULL */
    void *progress_arg;
};

/* Opens a recording; options may be NULL. Returns NULL with *err. */
struct trace *trace_open(const char *path, const struct trace_open_options *options,
                         struct error *err);
void trace_close(struct trace *t);
const struct trace_info *trace_info(const struct trace *t);

/* A position in the events of one image, in time order. Several cursors may be open at once,
 * also in several threads; each belongs to one thread. Reading events may update
 * trace_image.lost_calls and .complete: read these only while no other thread reads events.
 * trace_cursor_next returns 1 with *batch set, 0 at the end, or -1 with *err. */
struct trace_cursor;
struct trace_cursor *trace_cursor_open(struct trace *t, uint32_t image, struct error *err);
/* As trace_cursor_open, with other columns (enum trace_column) than the trace was opened for. */
struct trace_cursor *trace_cursor_open_columns(struct trace *t, uint32_t image, unsigned columns,
                                               struct error *err);
int trace_cursor_next(struct trace_cursor *c, struct trace_batch *batch, struct error *err);
void trace_cursor_close(struct trace_cursor *c);

/* True if several threads speed up the reading of an image: it has many events, or the caller
 * asked for threads. */
bool trace_wants_threads(const struct trace *t, uint32_t image);
/* Takes up to `most` of the trace's free threads, so that no cursor uses them, until
 * trace_give_threads. Returns how many. Any thread. */
unsigned trace_take_threads(struct trace *t, unsigned most);
void trace_give_threads(struct trace *t, unsigned n);

/* The index: results for an image that are kept in the file, behind the recording, for the next
 * reader. A part has columns of numbers and of bytes, numbered from 2 on, whose meaning its
 * maker defines (docs/format.md). A part is found by image, kind and key, and only if it was
 * made from this very recording by this version of mallow. Its content is not trusted: the
 * reader checks every number, and computes the result itself if one does not fit. */
enum trace_kept_kind {
    TRACE_KEPT_MODEL = 1,  /* model/keep.h */
    TRACE_KEPT_PINNED = 2, /* report/explained_keep.h */
    TRACE_KEPT_PAGE = 3    /* page/keep.h */
};

struct trace_kept;
/* Finds a part of the index; NULL if there is none. The caller calls trace_kept_close. */
struct trace_kept *trace_kept_find(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                   uint64_t key);
/* Returns how many numbers or bytes a column has. */
uint64_t trace_kept_count(const struct trace_kept *k, unsigned column);
/* Reads all n numbers of a column. Returns false if there are not n, if they are damaged, or
 * without memory. */
bool trace_kept_numbers(struct trace_kept *k, unsigned column, uint64_t *to, size_t n);
/* Reads `columns` columns from `first` on, with n numbers each, and passes some rows at a time
 * to `take`: values[c] has the numbers of column first + c for the rows `row` to `row + rows -
 * 1`. Returns false as above, or if `take` does. */
#define TRACE_KEPT_COLUMNS 12u
typedef bool trace_kept_take(void *arg, size_t row, size_t rows,
                             uint64_t *const values[TRACE_KEPT_COLUMNS]);
bool trace_kept_table(struct trace_kept *k, unsigned first, unsigned columns, size_t n,
                      trace_kept_take *take, void *arg);
/* Returns all bytes of a column, valid until the next call; NULL as above. */
const uint8_t *trace_kept_bytes(struct trace_kept *k, unsigned column);
void trace_kept_close(struct trace_kept *k); /* NULL is fine */

/* True if parts may be kept: the options allow it, and the recording is complete and large. */
bool trace_keeps(const struct trace *t);
/* Begins a new part. Returns NULL if it would not be kept: the file cannot be changed, the
 * recording is small or damaged, or there is no memory. One thread of a trace at a time makes
 * parts. */
struct trace_kept *trace_kept_new(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                  uint64_t key);
void trace_kept_put_numbers(struct trace_kept *k, unsigned column, const uint64_t *v, size_t n);
void trace_kept_put_bytes(struct trace_kept *k, unsigned column, const void *data, size_t n);
/* Completes a part and frees k. trace_close writes all parts. */
void trace_kept_keep(struct trace *t, struct trace_kept *k);
void trace_kept_drop(struct trace_kept *k); /* NULL is fine */

/* Names for frames in files that later readers will not find. The sealing thread asks for them
 * when an image is complete. */
struct trace_namer {
    /* Returns true if names of this module are to be kept in the recording. */
    bool (*wanted)(void *arg, const struct trace_module *m);
    /* Writes the functions at an address of the module, innermost first, at most `max`. Returns
     * how many; 0: none is known. Texts are valid until the next call. is_return: pc is a return
     * address. */
    size_t (*name)(void *arg, const struct trace_module *m, uint64_t pc, bool is_return,
                   struct trace_name *names, size_t max);
    /* Returns a sum over the file's contents when it ran, for a module without a build-id; 0:
     * not known. May be NULL. */
    uint64_t (*sum)(void *arg, const struct trace_module *m);
    void *arg;
};

/* Turns the raw recording open at `raw` into a sealed one at `out`, which may be the place of
 * the same file: a new file replaces it when it is complete. It streams; memory grows with live
 * blocks and distinct stacks. threads: to use at once, the caller's included; 0: one for each
 * processor of this process. The file does not depend on it. namer: may be NULL. Returns 0, or -1
 * with *err. */
struct trace_seal_result {
    uint64_t events, calls, lost_calls, bytes_in, bytes_out, damaged_bytes;
};
int trace_seal(int raw, const struct trust_place *out, unsigned threads,
               const struct trace_namer *namer, struct trace_seal_result *result,
               void (*progress)(void *, uint64_t done, uint64_t total), void *progress_arg,
               struct error *err);

/* Seals the raw recording open at `raw` while it is still being written, into an unnamed file
 * that is put at `out` at the end. The result equals that of trace_seal, byte for byte. One
 * thread at a time. namer: must outlive the draft; may be NULL.
 *
 * trace_draft_wants returns the id of the image whose rows are needed next; 0: none yet.
 * trace_draft_go takes the file up to a size, and the state of that image, and works for some 10
 * ms. It returns 2 if there is more to do, 1 if the file must grow first, or -1 with *err if
 * there will be no result. trace_draft_end seals the rest, when nothing more is written. It
 * returns 0, or -1 with *err; then trace_seal must seal from the beginning. Flight recorders,
 * damaged recordings, and recordings with events of the kernel get no draft. */
struct trace_draft;
struct trace_horizon {
    uint64_t file_bytes; /* the size of the file, read before the members below */
    uint64_t image;      /* the image of trace_draft_wants; 0: nothing is known about it */
    uint64_t clock;      /* its rows before this clock are within file_bytes */
    bool over;           /* the image has ended, and all of it is in the file */
};
struct trace_draft *trace_draft_open(int raw, const struct trust_place *out,
                                     const struct trace_namer *namer, struct error *err);
uint64_t trace_draft_wants(const struct trace_draft *d);
int trace_draft_go(struct trace_draft *d, const struct trace_horizon *h, struct error *err);
int trace_draft_end(struct trace_draft *d, unsigned threads, struct trace_seal_result *result,
                    void (*progress)(void *, uint64_t done, uint64_t total), void *progress_arg,
                    struct error *err);
void trace_draft_close(struct trace_draft *d); /* NULL is fine */

/* Folds the rows before a moment into their result, live blocks with their stacks and sums by
 * call site, and appends that. It is for a flight recorder (`mallow record --last`) whose file
 * is open at `raw` for reading and appending. Buffers must have been written out since
 * `latest_clock`. It takes the time of reading those rows and the memory of sealing, so it runs
 * in a process of its own. */
struct trace_fold_how {
    uint64_t from_monotonic_ns; /* the rows from then on stay */
    uint64_t keep_bytes;        /* not 0: keep about this many bytes at the end, and no more */
    uint64_t latest_clock;      /* rows after this clock are not folded */
};
struct trace_fold_result {
    bool folded; /* false: there was nothing to fold */
    uint64_t
        needed_from; /* file offset before which only the first chunks (FILE, SPACE) are needed */
    uint64_t written_bytes, live_blocks;
};
int trace_fold(int raw, const struct trace_fold_how *how, struct trace_fold_result *result,
               struct error *err);

/* Appends the rows that dead recorders left in shared memory to the raw recording open at `raw`,
 * and removes that memory. Opening and sealing do the same. Returns how many chunks it appended. */
unsigned trace_recover(int raw);

/* ---- notes of format/unseen.h about missing calls; any thread ---- */

#define TRACE_UNSEEN_BYTES 1024u /* room for a note, and for its text */

/* Writes the note. detail: NULL: none. module may be cut; "" when there is none to name. */
void trace_unseen_note(enum mlw_unseen reason, const char *detail, const char *module,
                       char note[TRACE_UNSEEN_BYTES]);

/* Parses a note. Returns false for another note, or for a reason that this mallow does not know.
 * *reason points into a table, *module into the note. text: the note as people read it. */
bool trace_unseen_read(const char *note, const char **reason, const char **module,
                       char text[TRACE_UNSEEN_BYTES]);

#endif
