/* recorder.h - the parts of libmallow-record.so and the state that they share.
 *
 * The library lives in other people's programs. It never calls malloc, stdio, exit or abort, takes
 * no lock, starts no thread, and leaves errno alone. What fails turns recording off or is counted
 * as a loss; the program's own call is always made.
 *
 * These are the files of this directory; guest.h lists those of guest/, unwind.h opens unwind/.
 *
 *   entry.c     the interposed symbols: one load and one branch when recording is off
 *   record.c    one function per API call: the real call, the clock, the stack, the row
 *   stream.c    threads and their buffers; chunks leave with one write
 *   heaps.c     heaps of glibc that a process sees for the first time
 *   routes.c    which way a call took inside glibc's allocator
 *   past.c      the C library's malloc where another allocator stands before it
 *   bound.c     what leaves when the file of a flight recorder is at its bound
 *   process.c   joining the session, fork, the end of the process
 *   describe.c  what a process says of itself when it joins
 *   own.c       the files that stay open, and which may be opened
 *   joins.c     programs that will not load us
 *   settings.c  the MALLOW_ variables
 *   unseen.c    what cannot be seen of this process
 *   control.c   mallow_start ... mallow_mark, and control from outside
 *   follow.c    fork, _exit, dlclose: calls that change what we may rely on
 *   mapping.c   mmap, munmap, mremap, brk and sbrk of the program itself
 *   attached.c  in libmallow-attach-record.so: beginning in a process that runs already, and ending
 *   confine.c   the system calls that it may make, and recording where a filter refuses one
 */
#ifndef MALLOW_PRELOAD_RECORD_RECORDER_H
#define MALLOW_PRELOAD_RECORD_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/clock.h"
#include "format/row.h"
#include "format/session.h"
#include "format/unseen.h"
#include "preload/guest.h"
#include "preload/sys.h"
#include "preload/unwind/unwind.h"

/* ---- the state of the process ---- */

/* In a page of its own that the kernel wipes in the child of a fork: control == NULL then says that
 * this process has not joined the session yet, whatever the rest of our memory remembers. */
struct wiped_state {
    volatile uint32_t *control; /* MLW_CTL_*; never NULL once joined: a word of zeros when off */
    volatile uint32_t waking;   /* a thread is inside process_wake */
};
extern HIDDEN struct wiped_state wiped;

/* A descriptor that the program may close, or close and open again as something else. */
struct own_file {
    int fd; /* -1: not open */
    uint64_t dev, ino;
};

struct recorder {
    uint32_t pid;
    uint32_t stack_mode;
    uint32_t clock_kind;
    bool lone; /* no `mallow record` beside us */
    bool wipes_on_fork;
    bool misses_jemalloc; /* some calls of jemalloc's own API may get past us */
    uint32_t led;   /* enum bindings_led: whether calls past the preloaded symbols lead to us */
    bool attached;  /* to a process that ran already: blocks of before may come back */
    uint32_t round; /* how often; by which threads know that their buffers are void */
    void *session_place, *process_place; /* pages of the round before; NULL: none */
    uint64_t before[2];          /* blocks and bytes that were there then; UINT64_MAX: not known */
    bool routed;                 /* rows have routes; see routes.h */
    bool ending;                 /* our destructor has run, and later rows are not collected */
    volatile bool may_not_write; /* behind the closed door of sys.h: not even a full buffer */
    volatile uint64_t frozen_clock; /* see clock_freeze */
    struct mlw_session *session;    /* first page of the shared memory */
    struct mlw_process *process;    /* our entry in it */
    uint64_t image;
    uint64_t forked_from;
    bool off;                 /* this process and its children are not recorded */
    struct own_file output;   /* where chunks are appended */
    struct own_file memory;   /* the shared memory */
    struct own_file terminal; /* stderr as it was when we came */
    volatile uint32_t slots_used;
    uint32_t window_room; /* the shared memory's file has this many windows */
    uint8_t *volatile windows[MLW_PROCESS_WINDOWS];
    uint32_t window_number[MLW_PROCESS_WINDOWS]; /* in the file, plus 1; 0: not chosen yet */
#define RECORDER_DESCRIPTION_BYTES (512u << 10)  /* mapped */
    uint8_t *description; /* TLVs that a forked child shares with us: command, exe, ... */
    uint32_t description_bytes;
    struct thread *volatile threads; /* all there ever were; pushed at the front, never removed */
    volatile uint32_t thread_count;
    const uint64_t *break_at; /* glibc: __curbrk; else last_break, which then never changes */
    uint64_t last_break;      /* *break_at when last looked at */
    char session_path[128];
    char given_session[128]; /* attached: in place of the environment's */
    char output_path[MLW_PATH_BYTES];
};
extern HIDDEN struct recorder recorder;

/* ---- entry.c ---- */

/* Makes the program call ours instead of jemalloc's own functions, where the allocator behind us
 * has them. False: some of its calls get past us. Once, at the start. */
HIDDEN bool entry_jemalloc(void);

/* ---- stream.c ---- */

/* One per thread of the program, and one more per thread whose signal handlers interrupted us. */
struct thread {
    volatile uint64_t busy; /* stack pointer of the recording call under way, 0 for none */
    uint8_t *position;      /* where the next row goes */
    uint8_t *limit;         /* a row may begin below this */
    struct mlw_row_state row;
    struct mlw_chunk *chunk; /* head of the buffer, in shared memory */
    uint32_t seen;           /* control word that was last acted on */
    union {
        struct {
            uint32_t clock_kind;
            uint32_t lane;
        };
        uint64_t clock_kind_and_lane; /* for thread_is_plain */
    };
    uint32_t stack_mode;
    struct unwind_thread *unwind; /* NULL: stacks cannot be taken */
    uint64_t heap, heap_bytes;    /* glibc: the non-main heap last seen, and its size */
    uint64_t lost;                /* calls of this stream not recorded */
    struct thread *nested;        /* lane 1 of the same thread */
    struct thread *next;          /* in recorder.threads */
    volatile uint32_t owner;      /* tid; 0 without an owner */
    volatile uint32_t ended;      /* its thread's last destructor has run */
    uint32_t tid;
    uint32_t number;
    uint32_t destructor_rounds;
    uint32_t round;              /* recorder.round, when the buffer was taken */
    uint64_t said;               /* see heaps_other */
} __attribute__((aligned(128))); /* no two threads write to one line */
extern HIDDEN TLS struct thread *thread_self;

/* The thread's state when thread_self is NULL or busy: makes one, or the one for nested calls. NULL
 * when the call cannot be recorded; the loss is then counted. */
HIDDEN struct thread *thread_enter_slow(uint64_t sp);

/* ---- heaps.c ---- */

struct glibc_heap;
/* The block is in a heap that is not the one last seen by this thread, or that heap changed: which
 * enum mlw_path that is. With MLW_PATH_HEAP_NEW t->said is the argument of the row. says: it has
 * room for one; else a new heap waits for another block. */
HIDDEN unsigned heaps_other(struct thread *t, const struct glibc_heap *heap, bool says);
/* The same of a block of the main arena, when the break is not where it was, or below the block.
 * chunk: its bytes. */
HIDDEN unsigned heaps_main(struct thread *t, uint64_t p, uint64_t chunk, bool says);
/* In the child, which has said nothing of its heaps. */
HIDDEN void heaps_forked(void);

/* Something changed: control word differs from t->seen; the buffer may have gone with an earlier
 * recording of this process. False: it has none now, and nothing may be recorded; t is not busy. */
HIDDEN bool thread_notice(struct thread *t, uint32_t word);

/* Writes the buffer out and starts a new chunk. Rows that cannot be written are counted as lost. */
HIDDEN void stream_flush(struct thread *t);
/* The head of the next chunk of t, in its buffer. */
HIDDEN void stream_begin_chunk(struct thread *t, uint32_t sequence, uint64_t first_call);
/* Makes room for one row. Rarely called: when position has reached limit. */
HIDDEN void stream_make_room(struct thread *t);
/* A META row; payload of n bytes in two parts. */
HIDDEN void stream_meta(struct thread *t, unsigned kind, const void *a, size_t na, const void *b,
                        size_t nb);
HIDDEN void stream_control_row(struct thread *t, unsigned control);
HIDDEN void stream_key_init(void);
HIDDEN uint64_t stream_live_bytes(void); /* usable, by all threads; while there are buffers */
/* live_bytes: what the parent had live. */
HIDDEN void stream_after_fork(uint64_t live_bytes);
HIDDEN int stream_write_chunk(struct mlw_chunk *c, const void *payload);
HIDDEN bool stream_give_chunk(const struct mlw_chunk *head, const void *payload);
/* Writes out the rows of this thread; those that cannot be written stay for a reader (keep), or are
 * dropped and counted. */
HIDDEN void stream_flush_own(bool keep);
/* True if a thread that lives is in the middle of a recording call. */
HIDDEN bool stream_is_busy(void);

/* ---- bound.c ---- */

/* Before a buffer is written: whether it must not be, and has room again. goes_on: rows follow. */
HIDDEN bool bound_keeps_back(struct thread *t, bool goes_on);
/* Nothing takes the buffer: its calls are lost, but what later rows refer to (stack nodes, modules,
 * marks) stays in it. When even that fills the buffer, recording ends for good. error: -errno. */
HIDDEN void bound_unwritten(struct thread *t, int error);

/* ---- record.c: reached while recording is on; sp and bp are the caller's ---- */

#define RECORDED(result, name, parameters, ...) NEXT_GOES_ON(result, record_, name, parameters);
NEXT_EXPORTED(RECORDED)
NEXT_REDIRECTED(RECORDED)
#undef RECORDED

/* Rows of the mmap family: p is no block of the allocator. */
HIDDEN void record_mapping(unsigned op, void *p, uint64_t size, uint64_t argument, bool failed,
                           uint64_t sp, uint64_t bp);
HIDDEN void record_unmapping(unsigned op, void *p, uint64_t size, uint64_t sp);

/* ---- follow.c ---- */

/* The program unmapped memory that may have held a stack. */
HIDDEN void follow_unmapped(uint64_t start, uint64_t end, uint64_t sp);

/* ---- process.c ---- */

/* Joins the session if this process has not; afterwards wiped.control is set, unless another call
 * of this function is under way. */
HIDDEN void process_wake(void);
HIDDEN void process_join_first(void);
extern HIDDEN volatile uint32_t process_no_control;
/* The process is about to end by itself (MLW_END_EXIT) or become another program (MLW_END_EXEC). */
HIDDEN void process_ending(unsigned how, uint32_t status);
HIDDEN void process_executing(const char *path); /* the latter, and what it is */
HIDDEN void process_not_ending(void);            /* the exec failed */
/* Appends the rows that other threads still hold, which no parent collects. */
HIDDEN void process_write_interim(void);
HIDDEN bool process_has_parent(void);      /* `mallow record` lives */
HIDDEN void process_say(const char *text); /* one line on stderr, if it is still ours */
/* A window of buffers of the shared memory; NULL when it has no such one, or cannot be mapped. */
HIDDEN void *process_map_window(uint32_t number);
extern HIDDEN TLS uint64_t process_fork_clock;

/* Writes v in decimal; returns the end. */
HIDDEN char *put_number(char *to, uint64_t v);

/* ---- own.c ---- */

/* The descriptor of the output or the shared memory, opened again by name when the program closed
 * it; -1 when that cannot be. It stays ours: the caller does not close it. */
HIDDEN int process_output_fd(void);
HIDDEN int process_memory_fd(void);
/* Opens recorder.output_path. NULL, or why nothing may be appended to that file. */
#define OWN_OUTPUT_FLAGS (O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK)
#define OWN_MEMORY_FLAGS (O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
HIDDEN const char *own_open_output(bool create);
/* The shared memory, of a descriptor that an exec left us. False: there is none. */
HIDDEN bool own_take_handed(void);
/* Where a program that is executed now could not open the shared memory by its path, its descriptor
 * stays open across the exec: NAME=NUMBER for the environment; else NULL. */
HIDDEN const char *own_hand_on(void);
HIDDEN void own_not_handed(void);
/* Takes fd over (closes it without success), out of the way of the program's own low numbers. */
HIDDEN bool own_take(struct own_file *f, long fd);

/* ---- joins.c ---- */

/* A child that shares our memory runs that file: counts it if it will not load us. */
HIDDEN void joins_note(const char *path);

/* ---- unseen.c ---- */

/* The facts that hold once the process has joined. */
HIDDEN void unseen_begin(void);
/* Once, after bindings_lead: calls of the C library's malloc that another allocator hides. */
HIDDEN void past_begin(void);
/* Those that came since; before modules go, and at the end. */
HIDDEN void unseen_look(void);
/* The note of that enum mlw_unseen. False: it is none of this process. Without a parent, which
 * reads the same from the shared memory, it goes into the file at the end. */
#define UNSEEN_NOTE_BYTES 256u
HIDDEN bool unseen_note(unsigned reason, char note[UNSEEN_NOTE_BYTES]);

/* ---- settings.c ---- */

HIDDEN bool setting_on(const char *name);  /* set, and neither empty nor "0" */
HIDDEN uint32_t settings_stacks(void);     /* enum mlw_stack_mode */
HIDDEN const char *settings_session(void); /* NULL: none was given */
/* This process is a child that MALLOW_NO_FOLLOW leaves out, and there is no parent to decide for
 * it. */
HIDDEN bool settings_leave_out(void);

/* ---- memory of our own ---- */
HIDDEN void *own_map(size_t bytes);
HIDDEN void own_unmap(void *p, size_t bytes);

/* ---- clock ---- */

#define CLOCK_FROZEN                                                                               \
    255u /* a clock_kind beside enum mlw_clock_kind: each reading is one tick more                 \
          */

HIDDEN uint64_t clock_monotonic_ns(void);
/* From now on no clock may be read by this thread (strict seccomp), or by any (PR_SET_TSC): reading
 * it would kill the program. */
HIDDEN void clock_freeze(bool this_thread_only);

MLW_INLINE uint64_t clock_now(uint32_t kind)
{
    if (likely(kind == MLW_CLOCK_TSC))
        return arch_clock();
    if (kind == CLOCK_FROZEN)
        return __atomic_add_fetch(&recorder.frozen_clock, 1, __ATOMIC_RELAXED);
    return clock_monotonic_ns();
}

/* It reads the time stamp counter, and no signal handler's calls are recorded in it. */
MLW_INLINE bool thread_is_plain(const struct thread *t)
{
    return t->clock_kind_and_lane == MLW_CLOCK_TSC; /* lane 0 */
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "clock_kind is the low half");

MLW_INLINE void barrier(void) { __asm__ volatile("" ::: "memory"); }

/* Begins a recording call: the thread's state, marked busy, or NULL. */
MLW_INLINE struct thread *thread_enter(uint64_t sp)
{
    struct thread *t = thread_self;
    if (unlikely(!t || t->busy)) {
        t = thread_enter_slow(sp);
        if (!t)
            return 0;
    }
    t->busy = sp;
    barrier();
    uint32_t word = *wiped.control;
    if (unlikely(word != t->seen) && !thread_notice(t, word))
        return 0;
    if (unlikely(t->position >= t->limit))
        stream_make_room(t);
    return t;
}

MLW_INLINE void thread_leave(struct thread *t)
{
    barrier();
    t->busy = 0;
}

/* Publishes the row that ends at `end`: from here on it survives the process. Returns the head of
 * the buffer. */
MLW_INLINE struct mlw_chunk *stream_commit(struct thread *t, uint8_t *end)
{
    struct mlw_chunk *const chunk = t->chunk;
    barrier();
    t->position = end;
    __atomic_store_n(&chunk->payload_bytes,
                     (uint32_t)(end - (uint8_t *)chunk - (ptrdiff_t)sizeof(struct mlw_chunk)),
                     __ATOMIC_RELEASE);
    barrier(); /* a kill between the two must not leave a call without its row: that is a loss */
    chunk->calls++;
    return chunk;
}

#endif
