/* watcher.h - the parts of libmallow-watch.so and the state that they share.
 *
 * The library lives in other people's programs, and is meant to stay on. The rules of the recorder
 * hold (../recorder.h): no malloc, stdio, lock shared with the program, thread, exit; errno is left
 * alone; whatever fails lets the program's own call through to the allocator behind us.
 *
 *   entry.c     the interposed symbols: one thread-local subtraction, or one look at an address
 *   direct.c    the entries, rewritten with the addresses of this process
 *   calls.c     what happens to a call that hit a sampled byte, or may take back a sampled block
 *   held.c      which addresses are sampled blocks
 *   guarded.c   sampled blocks of our own, against guard pages: made, released, resized, in error
 *   guard.c     their slots and pages; quarantine
 *   jemalloc.c  functions of jemalloc's own
 *   others.c    functions of tcmalloc and mimalloc that take a block
 *   draw.c      gaps between samples, and weights, in integers
 *   tables.c    samples, sites, frees: ours in private memory, and their mirror in the segment
 *   stack.c     the unwinder's host: modules, a bounded trie, a pool of unwinders
 *   segment.c   the file of shared memory (src/format/watch.h)
 *   left.c      files of processes that died: a bound on them
 *   look.c      what a thread does when it has allocated as much as it was given
 *   joining.c   the process and its segment, however the library came into it
 *   process.c   joining, fork, the end; the environment
 *   limits.c    address space and locked memory, where the program limits them for itself
 *   confine.c   seccomp: preparations before system calls are forbidden
 *   fault.c     SIGSEGV: ours and the program's own handler
 *   error.c     memory errors, reported through the segment or on stderr
 *   static_probe.h  the USDT probes
 *
 * A sampled block is where the allocator put it: each call goes through to it with the program's
 * arguments, and a call that gets past us costs a sample, never a block. Guarded blocks alone are
 * ours. ../attach shares calls.c, held.c, direct.c and all from draw.c on that knows no guards.
 *
 * Threads: everything may be called by any thread and in any signal handler, also one that
 * interrupted the same function. Nothing waits: where two meet, one goes another way. What the
 * program sees (which block is live) is decided on private memory, which a fork copies as of one
 * moment; the segment is only written. */
#ifndef MALLOW_PRELOAD_WATCH_WATCHER_H
#define MALLOW_PRELOAD_WATCH_WATCHER_H

#include "arch/page.h"
#include "format/seqlock.h"
#include "format/watch.h"
#include "preload/guest.h"
#include "preload/sys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif

#define PAGE     ARCH_PAGE_BYTES
#define NO_INDEX UINT32_MAX

/* ---- process.c ---- */

/* In a page of its own that the kernel wipes in the child of a fork. */
struct watch_wiped {
    volatile uint32_t joined;          /* 0: this process has not joined (or given up) yet */
    volatile uint32_t waking;          /* a thread is inside watch_wake */
    uint8_t rest[ARCH_PAGE_BYTES - 8]; /* nothing else may be in that page */
};
_Static_assert(sizeof(struct watch_wiped) == ARCH_PAGE_BYTES, "a page");
extern HIDDEN struct watch_wiped watch_wiped;

struct watcher {
    uint32_t pid;
    bool off;                    /* this process is not watched */
    volatile uint32_t unguarded; /* enum mlw_watch_unguarded: why no block is guarded */
    bool hurried;          /* a thread was borrowed for this: nothing is looked for in /dev/shm */
    volatile bool starved; /* the program cannot get memory any more (confine.c) */
    uint64_t start_ns, forked_from;
    uint32_t generation; /* raised by every fork: what threads remember of the process is void */
    uint64_t memory;     /* bound of our own memory, bytes */
    uint64_t seed;       /* 0: not asked for */
    struct mlw_watch *segment;       /* NULL until joined */
    struct mlw_watch_module *module; /* its tables: as planned, whatever the header says by now */
    struct mlw_watch_site *site;
    struct mlw_watch_sample *sample;
    struct mlw_watch_free *free_;
    struct mlw_watch_error *error;
    struct segment_plan {
        uint32_t modules, sites, samples, frees, errors;
        uint64_t bytes;
    } plan;
    struct watch_kept {
        uint64_t at, bytes;
    } kept[2]; /* private memory with addresses of samples in it */
    uint64_t terminal_dev, terminal_ino;
    uint32_t session_keeper; /* pid of the maker of the session's directory; 0: none */
    bool in_session;         /* the segment lies in the session's directory */
};
extern HIDDEN struct watcher watcher;

/* ---- joining.c ---- */

/* Tables in proportion to the memory that we may have. */
HIDDEN void watch_make_plan(uint64_t memory);
/* A segment with these settings, which says whose it is; watcher.segment is set. */
HIDDEN bool watch_make_segment(const struct mlw_watch_settings *settings, const char *session);
HIDDEN void watch_go_live(void); /* readers may look at it from now on */
/* The first `room` bytes of the file; returns how many there are. */
HIDDEN size_t watch_read_file(const char *path, char *to, size_t room);
extern HIDDEN volatile bool watch_clock_withheld;

/* Joins if this process has not. True when blocks may be sampled. */
HIDDEN bool watch_wake(void);
/* The same, when it is likely to have been done. */
static inline __attribute__((always_inline, unused)) bool watch_ready(void)
{
    return likely(watch_wiped.joined) ? !watcher.off : watch_wake();
}
HIDDEN void watch_say(const char *text, size_t n);
HIDDEN void watch_trouble(uint32_t bits);
/* Zero-filled private memory for ever; NULL when refused. */
HIDDEN void *watch_map(size_t bytes);
/* True if the error table has a reader. */
HIDDEN bool watch_has_reader(void);
/* The end: state EXITED or EXEC; the file is removed when no reader waits for it. */
HIDDEN void watch_ending(uint32_t state, uint32_t status);
/* The reader of this process, for programs that it starts (guest_hand_on); NULL: it has none. */
HIDDEN const char *watch_reader_assignment(void);
/* A decimal or hexadecimal number at `to`; returns its end. */
HIDDEN char *watch_decimal(char *to, uint64_t v);

/* ---- the state of a thread: entry.c subtracts from `left` ---- */
struct watch_thread {
    uint64_t left;       /* bytes until the next look */
    uint64_t issued;     /* the value of `left` after the last look */
    uint64_t rest;       /* further bytes until the sampled one */
    uint64_t gap;        /* the whole gap */
    uint64_t random;     /* 0: nothing has been drawn yet */
    uint64_t period;     /* that the gap was drawn with; 0: none has been drawn */
    uint32_t epoch;      /* the epoch of the settings then */
    uint32_t tid;        /* 0: not asked yet */
    uint32_t generation; /* watcher.generation that tid and random belong to */
};
extern HIDDEN TLS struct watch_thread watch_thread;
HIDDEN uint32_t watch_tid(void);

/* Takes what one thread may have at a time, if it is free (the word is 0), or if the thread that
 * has it is gone: cancelled in the middle of it. */
enum watch_claim { CLAIM_BUSY = 0, CLAIM_FREE, CLAIM_LEFT };
HIDDEN enum watch_claim watch_claim_left(volatile uint32_t *word, uint32_t holder);
static inline __attribute__((always_inline, unused)) enum watch_claim
watch_claim(volatile uint32_t *word)
{
    uint32_t me = watch_tid() + 1, holder = 0;
    return likely(__atomic_compare_exchange_n(word, &holder, me, false, __ATOMIC_ACQUIRE,
                                              __ATOMIC_RELAXED))
               ? CLAIM_FREE
               : watch_claim_left(word, holder);
}
static inline __attribute__((always_inline, unused)) void watch_disclaim(volatile uint32_t *word)
{
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

/* ---- direct.c ---- */

/* The entries jump to the allocator behind us directly from now on, where that can be had. While
 * no other thread can be in one. */
HIDDEN void entries_direct(void);

/* ---- entry.c ---- */

/* Makes the program call ours instead of jemalloc's own functions, where the allocator behind us
 * has them. False: some of its calls may get past us. Once, at the start. */
HIDDEN bool entry_jemalloc(void);

/* ---- others.c ---- */

/* The same of the functions of tcmalloc and mimalloc that take a block. */
HIDDEN bool others_redirect(void);

/* ---- draw.c ---- */

HIDDEN uint64_t draw_random(uint64_t *state);
/* A call for `size` bytes made `left` borrow: whether it is sampled. Draws the next gap; *gap: the
 * one that led here; *with: the period that this one was drawn with; *drawn: bytes allocated since
 * the last look. */
HIDDEN bool draw_hit(struct watch_thread *t, uint64_t size, uint32_t epoch, uint64_t period,
                     uint64_t *gap, uint64_t *with, uint64_t *drawn);
/* Exponentially distributed with that mean (1..2^40), rounded down; random: 64 random bits. */
HIDDEN uint64_t draw_gap(uint64_t random, uint64_t mean);
/* size / (1 - exp(-size / period)), rounded; at least size. size < 2^47. */
HIDDEN uint64_t draw_weight(uint64_t size, uint64_t period);

/* ---- look.c ---- */

/* A call for `size` bytes made `left` borrow: whether its block is to be sampled, the gap that led
 * to it, and the period that this was drawn with. */
HIDDEN bool look_hit(uint64_t size, uint64_t *gap, uint64_t *with);

/* ---- held.c ---- */

/* By bits 4 to 19 of an address: how many sampled blocks there are of them, 255 for good. entry.c
 * reads it. */
#define HELD_FILTER_BYTES 65536u
extern HIDDEN uint8_t held_filter[HELD_FILTER_BYTES];

HIDDEN bool held_init(uint32_t samples);
/* The block at `address` is that sample. False: no room. */
HIDDEN bool held_put(uint64_t address, uint32_t sample);
/* The sample of that address, which is held no more; NO_INDEX: none. One caller gets it. */
HIDDEN uint32_t held_take(uint64_t address);
HIDDEN void held_forget_all(void); /* while nothing is put */
static inline __attribute__((always_inline, unused)) bool held_maybe(const void *p)
{
    return held_filter[(uint64_t)p >> 4 & (HELD_FILTER_BYTES - 1)] != 0;
}

/* ---- guard.c ---- */

/* Where guarded blocks are; entry.c compares with these. */
struct guard_range {
    uint64_t start, bytes; /* a power of two, which start is a multiple of; 0: nothing is guarded */
};
extern HIDDEN struct guard_range guard_range;
static inline __attribute__((always_inline, unused)) bool guard_maybe(const void *p)
{
    return (uint64_t)p - guard_range.start < guard_range.bytes;
}

enum guard_state { GUARD_FREE = 0, GUARD_LIVE = 1, GUARD_FREED = 2 };
#define GUARD_DAMAGE_KNOWN 2u
struct guard_slot {
    volatile uint32_t state;    /* enum guard_state */
    volatile uint32_t reported; /* 1: an error of this block; GUARD_DAMAGE_KNOWN: bytes beside it */
    uint32_t sample;            /* while LIVE */
    uint32_t pages;             /* accessible, from `first` */
    uint64_t first;             /* address of the first accessible page */
    uint64_t address, size;
    /* while FREED; both sites are held */
    uint32_t site, free_site;
    uint32_t tid, free_tid;
    uint64_t time_ns, free_ns;
    bool zeroed;
};
/* Fewer slots, or none, where the address space is limited. */
HIDDEN void guard_init(uint32_t slots);
HIDDEN uint32_t guard_slots(void);
HIDDEN uint64_t guard_bytes(void); /* bytes of its area that the slots take */
/* Nothing is guarded any more: the slots are given back, those of live blocks when they are freed.
 */
HIDDEN void guard_retreat(void);
/* No page can be opened or closed soon. Nothing is guarded any more; the slots that can be had
 * become memory like any other, and no access to them faults. */
HIDDEN void guard_disarm(void);
HIDDEN void guard_after_fork(void); /* in the child: other threads are gone */
HIDDEN bool guard_is_armed(void);
HIDDEN uint32_t guard_index(const struct guard_slot *g);
/* A guarded block; NULL: none is free, or it is too large. front: against the page before it. The
 * block is filled, or zeroed. */
HIDDEN struct guard_slot *guard_take(uint64_t size, uint64_t align, bool front, bool zero);
/* The slot that holds address; NULL: none. */
HIDDEN struct guard_slot *guard_find(uint64_t address);
/* Becomes inaccessible and goes to the end of the queue. The caller has filled what FREED needs. */
HIDDEN void guard_give(struct guard_slot *g);
/* The first byte around the block that is not what guard_take left there; 0: none. The caller has
 * the block: no other thread closes its pages meanwhile. */
HIDDEN uint64_t guard_damage(const struct guard_slot *g);
/* The same of a block that any thread may release meanwhile; copy: a page to read into. */
HIDDEN uint64_t guard_damage_now(const struct guard_slot *g, uint8_t *copy);
/* The slot of that number, below guard_slots(). */
HIDDEN struct guard_slot *guard_slot(uint32_t index);
/* Makes the page that holds address accessible. False: refused. */
HIDDEN bool guard_open(uint64_t address);

/* ---- tables.c ---- */

struct sample {                /* ours; the mirror is struct mlw_watch_sample */
    volatile uint64_t address; /* 0: not live */
    uint64_t size, weight, time_ns;
    uint32_t site, tid;
    uint32_t guard; /* its slot; NO_INDEX: the block is the allocator's */
    uint32_t next;  /* in the list of free ones */
    uint32_t align;
    uint64_t drawn;
};

HIDDEN bool tables_init(uint32_t samples, uint32_t sites);
HIDDEN uint64_t tables_bytes(void); /* in use, ours and in the segment */
HIDDEN struct sample *tables_sample(uint32_t index);
HIDDEN uint32_t tables_take_sample(void); /* NO_INDEX: full */
/* The period with which new gaps are to be drawn, for one that was asked for: longer when the table
 * of samples fills. */
HIDDEN uint64_t tables_period(uint64_t period);
HIDDEN void tables_give_sample(uint32_t index);
/* The site of that stack, held once more; NO_INDEX: no room. */
HIDDEN uint32_t tables_site(const struct mlw_watch_stack *s, uint64_t now);
/* The site of all stacks that find no room, held once more: for allocations, where there is no
 * other. */
HIDDEN uint32_t tables_rest(void);
/* Holds a site that was found before, when tables_site_given was that; false: it has gone to
 * another stack since. */
HIDDEN bool tables_hold_again(uint32_t site, uint32_t given, uint64_t now);
HIDDEN uint32_t tables_site_given(uint32_t site); /* for a held site; never 0 */
HIDDEN void tables_drop_site(uint32_t site);
HIDDEN const struct mlw_watch_stack *tables_stack(uint32_t site); /* for a held site */
/* Enters a filled sample into the segment and the sums; flags: enum mlw_watch_sample_flags. */
HIDDEN void tables_publish(uint32_t index, uint32_t flags);
/* The sample has ended. free_site NO_INDEX: not known. Both sites are still held. */
HIDDEN void tables_ended(uint32_t index, uint64_t address, uint32_t kind, uint32_t free_site,
                         uint64_t now, uint64_t new_size);
HIDDEN void tables_after_fork(void); /* everything live goes into the new segment */

/* ---- stack.c ---- */

HIDDEN bool stack_init(void);
/* The stack whose innermost return address is at *sp; skip: so many inner frames are left out. */
HIDDEN void stack_take(uint64_t sp, uint64_t bp, unsigned skip, struct mlw_watch_stack *to);
/* The site of that stack, held once more; NO_INDEX: no room. */
HIDDEN uint32_t stack_site(uint64_t sp, uint64_t bp, uint64_t now);
/* For the module of a frame: its path and bias; NULL: none that is known. */
HIDDEN const char *stack_module(uint64_t frame, uint64_t *bias);
HIDDEN void stack_modules_changed(uint64_t sp);
HIDDEN void stack_after_fork(void);
HIDDEN void stack_prepare(void); /* every unwinder that there may be, while memory can be had */

/* ---- segment.c ---- */

/* Makes and maps a segment with the tables of watcher.plan, and sets where they are; NULL: not to
 * be had. */
HIDDEN struct mlw_watch *segment_make(const char *session);
/* True if the file or directory is held: a process holds its segment, a reader its session's
 * directory. Process ids mean nothing in other namespaces; locks do, and they end with the process.
 * directory: where the name begins, AT_FDCWD for a whole path. */
HIDDEN bool segment_is_held(int directory, const char *name);
/* Removes the name of the file, when it has one. */
HIDDEN void segment_unlink(void);
/* The bytes may be written to without a fault; false: the file cannot grow. */
HIDDEN bool segment_touch(const void *at, size_t bytes);

/* ---- left.c ---- */

/* Removes the oldest segment of the dead in /dev/shm, when many are there. */
HIDDEN void left_bound(void);

static inline __attribute__((always_inline, unused)) void count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* ---- calls.c: reached from entry.c and cxx.c; sp and bp are the caller's ---- */

#define SAMPLED(result, name, parameters, ...) NEXT_GOES_ON(result, watch_, name, parameters);
NEXT_EXPORTED(SAMPLED)
NEXT_REDIRECTED(SAMPLED)
#undef SAMPLED

/* A call that makes a block, and may be sampled. */
struct call {
    uint64_t size, align; /* align 0: malloc's */
    uint64_t sp, bp;
    uint64_t gap, period; /* that led to the sample, and what it was drawn with */
    uint32_t flags;       /* enum mlw_watch_sample_flags */
    bool zero;
};
/* The call made `left` borrow: whether it is to be sampled. */
static inline __attribute__((always_inline, unused)) bool call_hit(struct call *c)
{
    return look_hit(c->size, &c->gap, &c->period);
}
/* For the calls that are written in C: takes n off; true when it is more than there is. */
static inline __attribute__((always_inline, unused)) bool call_spend(uint64_t n)
{
    return unlikely(__builtin_sub_overflow(watch_thread.left, n, &watch_thread.left));
}
/* The allocator has made this block for a call that was hit. */
HIDDEN void calls_enter(void *p, const struct call *c);
/* Fills the sample, which the caller has taken, and enters it; guard: its slot, or NO_INDEX. */
HIDDEN void calls_fill(uint32_t index, uint64_t address, uint32_t guard, const struct call *c);
/* Its block is about to go back, or has gone: the sample ends, if it is one. size: of what it
 * becomes. */
HIDDEN void calls_end(const void *p, uint32_t kind, uint64_t new_size, uint64_t sp, uint64_t bp);
/* Releases a block that is about to go back. True: it was guarded, and has been dealt with. */
HIDDEN bool calls_release(void *p, uint64_t sp, uint64_t bp);
/* A sample whose address its caller has exchanged for 0. The sites stay held; *free_site. */
HIDDEN void calls_note_end(uint32_t index, uint64_t address, uint32_t kind, uint64_t new_size,
                           uint64_t sp, uint64_t bp, uint64_t now, uint32_t *free_site);
/* Takes the sample of the block away from everybody else; calls_taken: it has ended; calls_stays:
 * the block is where it was. NULL: none. */
HIDDEN struct sample *calls_take(const void *p, uint32_t *index);
HIDDEN void calls_taken(uint32_t index, const struct sample *s, const void *p, uint32_t kind,
                        uint64_t new_size, uint64_t sp, uint64_t bp);
HIDDEN void calls_stays(uint32_t index, struct sample *s, void *p);
/* Every sampled block is forgotten, and counts as nothing. */
HIDDEN void calls_forget(void);

/* ---- guarded.c; libmallow-attach.so has none (../attach/unguarded.c) ---- */

/* For a call that was hit: its block, entered, or NULL: the allocator is to make it. */
HIDDEN void *guarded_make(const struct call *c);
/* Releases the block at an address for which guard_maybe is true. False: it is not ours. */
HIDDEN bool guarded_release(void *p, uint64_t sp, uint64_t bp);
HIDDEN bool guarded_usable(const void *p, size_t *bytes);
HIDDEN bool guarded_realloc(void *old, size_t size, uint64_t sp, uint64_t bp, void **result);
/* The block has become another one of that size. */
HIDDEN void guarded_replaced(void *old, size_t size, uint64_t sp, uint64_t bp);
/* A function of the allocator that resizes a block and may move it. */
typedef void *watch_move(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
/* The call real(argument[0], ...), where argument[at] is such an address: of a copy, which takes
 * its place when the call gives one. releases: a call that fails has released it. */
HIDDEN bool guarded_moves(watch_move *real, unsigned at, bool releases, uint64_t argument[6],
                          uint64_t sp, uint64_t bp, void **result);
/* This stands against guarding: enum mlw_watch_unguarded. Nothing more is guarded. */
HIDDEN void guarded_refuse(uint32_t reasons);
/* Once, at the start: where namespaces are listed. */
HIDDEN void guarded_begin(void);
/* True if the program has a second namespace now, which `unguarded` says from then on: asked before
 * a block is guarded, before a module goes, and at the end. */
HIDDEN bool guarded_look(void);
/* The process ends: bytes beside guarded blocks that are still live are looked at. Whether an error
 * was found and reported. */
HIDDEN bool guarded_check(void);
HIDDEN void guarded_after_fork(void);

/* ---- error.c ---- */

struct error_facts {
    uint32_t kind, flags, signal;
    uint64_t access_address;
    uint64_t address, size, allocated_ns, freed_ns;
    uint32_t allocated_tid, freed_tid;
    const struct mlw_watch_stack *access, *allocation, *release; /* NULL: not known */
};
/* Reports it: to the segment, the probe, and stderr if the segment has no reader. */
HIDDEN void error_report(const struct error_facts *f);
/* After an error that a call found: dies when that was asked for. */
HIDDEN void error_consequence(void);
HIDDEN bool error_is_fatal(void);
HIDDEN void error_after_fork(void);

/* ---- fault.c ---- */

/* Before a guarded block: our handler stands before the program's. Any number of times. False: it
 * does not (yet), so nothing may be guarded. */
HIDDEN bool fault_install(void);
/* System calls are about to be forbidden: SIGABRT has its default again. */
HIDDEN void fault_confine(void);

#endif
