/* unwind_thread.h - the state of a thread that unwinds: unwind_stack.c has its caches,
 * unwind_walk.c goes from frame to frame. */
#ifndef MALLOW_PRELOAD_UNWIND_UNWIND_THREAD_H
#define MALLOW_PRELOAD_UNWIND_UNWIND_THREAD_H

#include "unwind_impl.h"

#define SETS_BITS 7u
#define WAYS      4u
#ifndef UNWIND_RING_BYTES /* a library may choose smaller ones; see preload/meson.build */
#define UNWIND_RING_BYTES (128u * 1024) /* a power of two */
#endif
#ifndef UNWIND_FRAMES_MAX
#define UNWIND_FRAMES_MAX 65536u
#endif
#define RING_BYTES      UNWIND_RING_BYTES
#define BLOCK           8u /* words compared between two branches */
#define WHOLE_WORDS_MAX 128u
#define FRAMES_FIRST    64u
#define FRAMES_MAX      UNWIND_FRAMES_MAX
#define CUT_FRAMES      256u /* kept of a stack that is deeper than FRAMES_MAX when first met */
#define WORDS_PER_FRAME 3u
#define CALLERS         64u
#define PLAIN           64u
#define NEAR_BYTES      (1ul << 20) /* a frame that is larger is not believed */

#define PC_EXACT (1ul << 62)
#define PC_FP    (1ul << 61)
#define PC_BITS  (ARCH_ADDRESS_END - 1)

/* Words that a walk read, outermost first: what, and where (in words from the end of the thread's
 * stack, so below 0). */
struct block {
    uint64_t value[BLOCK] __attribute__((aligned(16)));
    int32_t at[BLOCK];
};

/* A frame of the prefix cache. A truncation mark is one that no walk meets. */
struct frame {
    uint64_t pc; /* with PC_EXACT, PC_FP */
    uint64_t sp, rbp;
    uint32_t words; /* the first `words` words lead from here to the end; bit 31: rbp matters */
};
#define RBP_MATTERS (1u << 31)

/* A frame of the walk under way, innermost first. */
struct step {
    uint64_t pc, sp, rbp;
    uw_rule rule;
    uint32_t module, record;
    uint32_t node; /* 0: not known */
};

/* The last word is the return address at sp, and what fills up the last block. */
struct entry {
    uint64_t sp, rbp, rbp_mask;
    uint32_t node, blocks;
    struct block block[];
};
struct set {
    uint32_t key[WAYS];
    uint32_t at[WAYS];          /* all bytes ever put into the ring before the entry */
} __attribute__((aligned(32))); /* in one line of the cache */

struct unwind_thread {
    uint32_t generation;
    uint32_t frames;    /* the frames of the prefix cache */
    uint32_t frame_cap; /* room for frames in prefix and steps */
    uint32_t ring_head; /* bytes ever put into the ring, modulo 2^32 */
    uint64_t end;       /* addresses of words are relative to this: of `own`, rounded down */
    struct uw_region own;
    struct frame *frame;
    struct uw_named *name; /* the name of frames, and of those that are being made */
    struct block *words;
    struct step *step;
    uint8_t *ring;
    bool cut;       /* the outermost frame is a truncation mark */
    uint32_t last;  /* the stack that was walked last; 0: none */
    uint32_t guess; /* the node that came after it before */
    struct {
        uint64_t pc;
        uint32_t node, generation;
    } caller[CALLERS];
    struct uw_cfi_memo memo;
    uint64_t plain[PLAIN]; /* return addresses in generated code that says nothing by itself */
    struct iovec asked[UW_ASKED];
    struct set set[1u << SETS_BITS];
};

enum ending { AT_PREFIX, AT_END, AT_ZERO, AT_NO_RULE, AT_FAULT };

struct walk {
    uint64_t sp;             /* the stack pointer of the call */
    struct uw_region region; /* the one being read */
    uint32_t n;              /* steps */
    uint32_t base;           /* AT_PREFIX: frame of the prefix that was met */
    uint32_t guess;          /* the node of the next frame, if those before are the guessed ones */
    uint32_t guessed;        /* how many are */
    uint32_t switches;       /* to a stack that lies below, by frames that say so */
    bool own;                /* all of it is on the own stack */
    bool plain;              /* sp rises, every word lies above the frame that it was read for */
    enum ending ending;
};

#ifdef UNWIND_BENCH /* leaves caches out, to see what each is worth */
extern int uw_bench_mode;
extern uint64_t uw_bench_slow;
#define WITHOUT(mode) UW_UNLIKELY(uw_bench_mode >= (mode))
#else
#define WITHOUT(mode) 0
#endif

/* The steps from the innermost frame outwards, in t->step, to the end or to a frame of the prefix
 * cache. */
void uw_walk(struct unwind_thread *t, struct walk *w, uint64_t rbp, void *ctx);
/* Room for so many frames, and for the walk under way. */
bool uw_thread_grow(struct unwind_thread *t, uint32_t frames);
/* Memory for n frames, and p as such memory. */
size_t uw_thread_bytes(uint32_t n);
void uw_thread_place(struct unwind_thread *t, uint8_t *p, uint32_t n);

#endif
