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
#include "format/op.h"
#include "format/row.h"
#include "format/unseen.h"

struct trust_place; /* trust/place.h */

#define TRACE_NO_SLOT UINT32_MAX

/* The effect of an event on the live blocks; decided once, by the sealer. */
enum trace_kind {
    TRACE_ALLOC = 0,     /* a block begins: slot valid */
    TRACE_FREE = 1,      /* the block in `slot` ends */
    TRACE_FREE_TEMP = 2, /* the same; it was temporary: freed by its allocating thread before that
                            thread's next allocation */
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
    TRACE_COL_ALL = 255,
    TRACE_COL_OTHER_ADDRESS = 256, /* cheap: address[] holds for OTHER and FREE_UNKNOWN only */
    /* begun_size and so on have the columns size, stack, usable and address of the ALLOC events
     * alone, as far as they are asked for, one behind the other. Cheaper: size[] and so on then
     * hold for OTHER and FREE_UNKNOWN only. */
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
    const uint8_t *path; /* enum mlw_path */
    const uint64_t *argument;
    uint32_t slots; /* not 0: those of these events were found below it, and their stacks, threads,
                       kinds and operations are some that there are */
    size_t begun;   /* ALLOC events, with TRACE_COL_BEGUN; begun_size NULL: not asked for */
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
#define TRACE_MODULES_MOST 0xffffffu /* that a node can name */

struct trace_module {
    const char *path;
    const uint8_t *build_id;
    size_t build_id_bytes;
    uint64_t file_bytes, file_mtime_ns; /* a file's without a build-id; 0: not known */
    uint64_t file_sum;                  /* over its contents (symbol/contents.h); 0: not known */
    uint64_t start, end, bias;
    uint64_t loaded_ns, gone_ns; /* gone_ns UINT64_MAX while mapped */
};

/* A function at an address, which the recording itself names. In recordings that were made from
 * foreign traces there are no others; else those of files that were gone when it was sealed. */
struct trace_name {
    uint64_t pc;
    const char *function, *file; /* "" when unknown */
    uint32_t line;               /* 0 when unknown */
    bool inlined;                /* into the next one, which has the same pc */
};

struct trace_thread {
    uint32_t tid;
    const char *name;          /* may be "" */
    uint64_t start_ns, end_ns; /* first and last sign of life */
    bool ended;                /* its end was seen */
    uint64_t calls, lost_calls;
};

struct trace_event_note { /* mark or control, in time order */
    uint64_t time_ns;
    uint32_t thread;   /* UINT32_MAX: from outside */
    uint8_t control;   /* enum mlw_control; 0: a mark */
    const char *label; /* the label of a mark */
};

/* Records of the kernel (`mallow record --with`), in time order. Times may be a little before the
 * image's start_ns: from its exec to the recorder's first moment. */
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
struct trace_moment { /* a moment of another kind */
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
    const char *const *title; /* the command when it was last seen, NULL-terminated; NULL:
                                 the same, or not known */
    const char *comm;         /* the kernel's name of it, then; NULL: not known */
    const char *allocator;
    const char *const *environment; /* NULL when not stored */
    const char *const *settings; /* settings of allocators in its environment, maybe among others;
                                    NULL when they are not known */
    const char *const *notes;    /* NULL-terminated: limits of this recording, for the user */
    uint32_t stack_mode;         /* enum mlw_stack_mode */
    uint64_t start_ns, end_ns;   /* since the start of the whole recording */
    uint32_t end_how;            /* enum mlw_end_how */
    uint32_t end_status;         /* as of waitpid */
    bool complete;               /* ended by itself (exit, exec), and all that it did is here */
    uint64_t events;             /* in batches, inherited and inferred ones included */
    uint64_t calls;              /* API calls: what `events` of report counts */
    uint64_t lost_calls;
    bool attached;                        /* it ran before its recording began: releases of unknown
                                             addresses are of blocks from before */
    uint64_t before_blocks, before_bytes; /* that were there then (usable bytes); UINT64_MAX: not
                                             known */
    uint32_t max_slots;                   /* the live array needs this many entries */
    uint32_t stacks; /* ids 1..stacks are valid in trace_batch.stack (node ids) */
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

/* The node that called this one; 0: it is the outermost, or none of the image's. Every walk from
 * caller to caller ends: the makers of images let no node be among its own callers. */
static inline uint32_t trace_caller(const struct trace_image *image, uint32_t node)
{
    return node && node <= image->stacks ? image->nodes[node].parent : 0;
}

/* The content of a node, 1..image->stacks. */
static inline const struct trace_frame_node *trace_node(const struct trace_image *image,
                                                        uint32_t node)
{
    return &image->nodes[node];
}

struct trace_info {
    uint64_t file_bytes;    /* the size of the file as found */
    bool sealed;            /* as found */
    bool torn;              /* sealed, and its end is not there: nor is, perhaps, more */
    uint64_t damaged_bytes; /* skipped: torn or corrupt */
    uint64_t damaged_runs;  /* sealed blocks whose checksum failed; their events count as lost */
    uint64_t start_realtime_ns;
    uint64_t tick_ns_x1000; /* resolution of time_ns, in thousandths of a nanosecond */
    const char *host;
    const char *tool;
    uint32_t kernel_kinds;       /* a bit (1 << enum mlw_kernel_kind) for each kind recorded */
    uint64_t lost_kernel_events; /* events of the kernel that all processes lost */
    struct mlw_limits limits;    /* all 0 in recordings that do not say it */
    uint32_t image_count;
    const struct trace_image *images; /* by start_ns */
};

struct trace;

enum trace_index {
    TRACE_INDEX_READ,   /* the one that is there answers */
    TRACE_INDEX_WRITE,  /* and is put there when the recording is large, see trace_kept_new */
    TRACE_INDEX_ALWAYS, /* however small it is */
    TRACE_INDEX_NONE
};

struct trace_open_options {
    bool no_seal_in_place; /* leave the file as it is */
    enum trace_index index;
    unsigned columns; /* enum trace_column to be read; 0: all */
    uint64_t to_ns;   /* blocks that begin later need not be read; 0: all. Batches still
                         come whole: the caller filters exactly */
    unsigned threads; /* to use at once, the caller's among them; 0: as many as there are
                         processors for this process. The batches do not depend on it */
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* may be NULL */
    void *progress_arg;
};

/* Opens a recording; options may be NULL. On failure returns NULL and sets *err. */
struct trace *trace_open(const char *path, const struct trace_open_options *options,
                         struct error *err);
void trace_close(struct trace *t);
const struct trace_info *trace_info(const struct trace *t);

/* A position in the events of one image, in time order. Any number may be open at once, also of
 * several threads: each is one thread's. What reading finds out (trace_image.lost_calls, .complete)
 * may be read while no other thread reads events. next returns 1 with *batch set, 0 at the end, -1
 * with *err set. */
struct trace_cursor;
struct trace_cursor *trace_cursor_open(struct trace *t, uint32_t image, struct error *err);
/* The same with other columns (enum trace_column) than the trace was opened for. */
struct trace_cursor *trace_cursor_open_columns(struct trace *t, uint32_t image, unsigned columns,
                                               struct error *err);
int trace_cursor_next(struct trace_cursor *c, struct trace_batch *batch, struct error *err);
void trace_cursor_close(struct trace_cursor *c);

/* True if an image has so many events, or so many threads were asked for, that reading it has work
 * for more than one. */
bool trace_wants_threads(const struct trace *t, uint32_t image);
/* Takes threads that may work beside the caller's, so that no cursor has them, until they are given
 * back: as many as there are, `most` at most. Any thread. */
unsigned trace_take_threads(struct trace *t, unsigned most);
void trace_give_threads(struct trace *t, unsigned n);

/* Findings of the events of an image may be kept in the file, behind the recording, for the next
 * reader: the index. A part has columns of numbers and of bytes, numbered from 2 on; their meaning
 * is for those who make it (docs/format.md). It is found by its image, kind and key,
 * only when it was made of this very recording, by this version of mallow. Nothing in it is to be
 * believed: its reader checks every number, and works out by itself what does not fit. */
enum trace_kept_kind {
    TRACE_KEPT_MODEL = 1,  /* model/keep.h */
    TRACE_KEPT_PINNED = 2, /* report/explained_keep.h */
    TRACE_KEPT_PAGE = 3    /* page/keep.h */
};

struct trace_kept;
/* NULL: there is none. */
struct trace_kept *trace_kept_find(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                   uint64_t key);
/* How many numbers or bytes the column has. */
uint64_t trace_kept_count(const struct trace_kept *k, unsigned column);
/* All n numbers. False when there are not n, they are damaged, or there is no memory. */
bool trace_kept_numbers(struct trace_kept *k, unsigned column, uint64_t *to, size_t n);
/* The same of as many columns as `columns` from `first` on, which have n numbers each, some rows at
 * a time: values[c] is [rows] numbers of the column first + c, of the rows from `row` on. False as
 * above, or from `take`. */
#define TRACE_KEPT_COLUMNS 12u
typedef bool trace_kept_take(void *arg, size_t row, size_t rows,
                             uint64_t *const values[TRACE_KEPT_COLUMNS]);
bool trace_kept_table(struct trace_kept *k, unsigned first, unsigned columns, size_t n,
                      trace_kept_take *take, void *arg);
/* All bytes, until the next call; NULL as above. */
const uint8_t *trace_kept_bytes(struct trace_kept *k, unsigned column);
void trace_kept_close(struct trace_kept *k); /* NULL is fine */

/* True if something may be kept: the options want it, and the recording is whole and large. */
bool trace_keeps(const struct trace *t);
/* A new part. NULL: it could not be written: the file or its size do not call for it, the recording
 * is damaged, or there is no memory. Of a trace, one thread at a time makes and keeps parts. */
struct trace_kept *trace_kept_new(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                  uint64_t key);
void trace_kept_put_numbers(struct trace_kept *k, unsigned column, const uint64_t *v, size_t n);
void trace_kept_put_bytes(struct trace_kept *k, unsigned column, const void *data, size_t n);
/* The part is whole: trace_close writes it, with others. Frees it. */
void trace_kept_keep(struct trace *t, struct trace_kept *k);
void trace_kept_drop(struct trace_kept *k); /* NULL is fine */

/* Names that the caller has for frames in files that a reader would look for in vain. They are
 * asked for when all of an image is known, by the thread that seals. */
struct trace_namer {
    /* True: names of this module are to be kept in the recording. */
    bool (*wanted)(void *arg, const struct trace_module *m);
    /* The functions at an address of it, innermost first, at most `max`; 0: none is known. Texts
     * hold until the next call. is_return: as the flags of nodes say. */
    size_t (*name)(void *arg, const struct trace_module *m, uint64_t pc, bool is_return,
                   struct trace_name *names, size_t max);
    /* For a module whose file has no build-id: a sum over the file's contents when it ran; 0: not
     * known. NULL: it never is. */
    uint64_t (*sum)(void *arg, const struct trace_module *m);
    void *arg;
};

/* Turns the raw recording open at `raw` into a sealed one at `out` (may be the place of the same
 * file): a file beside it takes its place when it is complete. Streams; memory grows with live
 * blocks and distinct stacks. `threads`: to use at once, the caller's among them; 0: as many as
 * there are processors for this process. The file does not depend on it. namer: NULL for none. */
struct trace_seal_result {
    uint64_t events, calls, lost_calls, bytes_in, bytes_out, damaged_bytes;
};
int trace_seal(int raw, const struct trust_place *out, unsigned threads,
               const struct trace_namer *namer, struct trace_seal_result *result,
               void (*progress)(void *, uint64_t done, uint64_t total), void *progress_arg,
               struct error *err);

/* Seals the raw recording open at `raw` while it is still being written, into a file without a name
 * that takes its place at `out` at the end: the file that trace_seal makes, byte for byte. One
 * thread at a time. trace_draft_go takes the file up to a size, and the state of the
 * image that trace_draft_wants names (0: of none yet), then works for some 10 ms: 2: there is more
 * to do, 1: it must grow first, -1 with *err: there will be no result. trace_draft_end: nothing
 * more is written; seals the rest. 0, or -1 with *err: trace_seal is to do it from the beginning.
 * Drafts are not made of flight recorders, of damaged recordings, or with events of the kernel.
 * namer: valid until it is closed; NULL for none. */
struct trace_draft;
struct trace_horizon {
    uint64_t file_bytes; /* the size of the file; found before the others were */
    uint64_t image;      /* as of trace_draft_wants; 0: nothing is known of it */
    uint64_t clock;      /* all its rows before are in the file by file_bytes */
    bool over;           /* all that is ever written of it is in the file */
};
struct trace_draft *trace_draft_open(int raw, const struct trust_place *out,
                                     const struct trace_namer *namer, struct error *err);
uint64_t trace_draft_wants(const struct trace_draft *d);
int trace_draft_go(struct trace_draft *d, const struct trace_horizon *h, struct error *err);
int trace_draft_end(struct trace_draft *d, unsigned threads, struct trace_seal_result *result,
                    void (*progress)(void *, uint64_t done, uint64_t total), void *progress_arg,
                    struct error *err);
void trace_draft_close(struct trace_draft *d); /* NULL is fine */

/* For a flight recorder (`mallow record --last`) whose file is open at `raw` for reading and
 * appending: folds the rows of before a moment into what they led to (live blocks with their
 * stacks, sums by call site), and appends that. Buffers must have been written out since
 * `latest_clock`. Takes as long as reading those rows, and memory as sealing does: for a process of
 * its own. */
struct trace_fold_how {
    uint64_t from_monotonic_ns; /* the rows from then on stay */
    uint64_t keep_bytes;        /* not 0: about so many bytes at the end, and no more */
    uint64_t latest_clock;      /* nothing behind it is folded */
};
struct trace_fold_result {
    bool folded;          /* false: there was nothing to fold */
    uint64_t needed_from; /* offset in the file: before it only the first chunks (FILE, SPACE) are
                             needed */
    uint64_t written_bytes, live_blocks;
};
int trace_fold(int raw, const struct trace_fold_how *how, struct trace_fold_result *result,
               struct error *err);

/* Appends to the raw recording open at `raw` what recorders that are gone left in shared memory for
 * it, and removes that; opening and sealing do the same on their way. Returns how many chunks. */
unsigned trace_recover(int raw);

/* ---- what a recording does not hold: the notes of format/unseen.h; any thread ---- */

#define TRACE_UNSEEN_BYTES 1024u /* room for a note, and for its text */

/* Writes the note. detail: NULL: none. module may be cut; "" when there is none to name. */
void trace_unseen_note(enum mlw_unseen reason, const char *detail, const char *module,
                       char note[TRACE_UNSEEN_BYTES]);

/* Reads one. False: it is another note, or of a reason that this mallow does not know. *reason and
 * *module point into a table and into the note; text: the statement as people read it. */
bool trace_unseen_read(const char *note, const char **reason, const char **module,
                       char text[TRACE_UNSEEN_BYTES]);

#endif
