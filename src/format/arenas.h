/* arenas.h - the shared memory through which libmallow-arenas.so reports to `mallow probe arenas`
 * what glibc's allocator does.
 *
 * A file that mallow makes, as large as it will ever be, and names in MALLOW_ARENAS; every process
 * of the tree maps it. Events go round in it: a writer claims the next slot unless the reader has
 * not taken its last content yet (then the event is counted as lost), fills it, and stores its
 * number plus one into `ready`. The reader takes slots in the order of their numbers. Integers are
 * little-endian; fields that change are read and written by atomic operations. */
#ifndef MALLOW_FORMAT_ARENAS_H
#define MALLOW_FORMAT_ARENAS_H

#include <stdint.h>

#define MLW_ENV_ARENAS       "MALLOW_ARENAS" /* the path */
#define MLW_ARENAS_MAGIC     0x32414e455241574cull
#define MLW_ARENAS_SLOTS     65536u /* a power of two */
#define MLW_ARENAS_ARGUMENTS 3

enum mlw_arenas_what {
    /* an image begins: 0, 0, the most that its heaps grow to (0: not known); of a fork: pid of the
     * parent, 1, the thread's arena (0: the main one; all ones: it has none yet) */
    MLW_ARENAS_JOINED = 1,
    MLW_ARENAS_LEVEL,  /* an arena changed, or is new: its address, top chunk, bytes */
    MLW_ARENAS_USES,   /* the thread has its memory from this arena; 0: the main one */
    MLW_ARENAS_BREAK,  /* the end of the main heap moved: now, before */
    MLW_ARENAS_MAIN,   /* the address of the main arena became known */
    MLW_ARENAS_LIMITS, /* free moved the thresholds: of mmap, of trim */
    MLW_ARENAS_OPTION, /* mallopt did: option, value */
    MLW_ARENAS_BEGAN,  /* set by the environment: option of mallopt, value, standard value */
    MLW_ARENAS_THREAD_END,
    MLW_ARENAS_UNKNOWN /* nothing more will come: enum mlw_arenas_reason */
};

enum mlw_arenas_reason {
    MLW_ARENAS_NOT_GLIBC = 1, /* another allocator, or a glibc whose arenas are not known */
    MLW_ARENAS_LAYOUT         /* the first arena did not look as it should */
};

struct mlw_arenas_event {
    uint64_t ready;
    uint32_t what; /* enum mlw_arenas_what */
    uint32_t pid, tid, zero;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t argument[MLW_ARENAS_ARGUMENTS];
    uint64_t unused;
};

/* How many requests lay below a threshold, and how many at or above it, by classes of powers of two
 * as everywhere (0: size 0; n: 2^(n-1) to 2^n - 1). One for each process and threshold. Several
 * rows, so that threads do not write to the same lines. */
#define MLW_ARENAS_REGIMES 64u
#define MLW_ARENAS_ROWS    8u
#define MLW_ARENAS_CLASSES 65u
struct mlw_arenas_regime {
    uint64_t pid; /* 0: free */
    uint64_t threshold;
    uint64_t count[MLW_ARENAS_ROWS][2][MLW_ARENAS_CLASSES];
};

struct mlw_arenas {
    uint64_t magic;
    uint32_t program_pid; /* the program that was started */
    uint32_t no_follow;   /* 1: its children report nothing */
    uint32_t sizes;       /* 1: requests are counted */
    uint32_t zero;
    uint64_t claimed, taken; /* numbers of slots */
    uint64_t lost;           /* events */
    uint64_t uncounted;      /* requests, for want of a regime */
    uint64_t joined;         /* images */
    struct mlw_arenas_regime regime[MLW_ARENAS_REGIMES];
    struct mlw_arenas_event event[MLW_ARENAS_SLOTS];
};

#endif
