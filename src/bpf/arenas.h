/* arenas.h - `mallow probe arenas`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_ARENAS_H
#define MALLOW_BPF_ARENAS_H

#include <linux/types.h>

/* glibc's probes memory_*, named by arenas_name (probe/arenas.h), and what stands for
 * them when they are found in another way. */
enum arenas_probe {
    ARENAS_HEAP_NEW, /* and as a third argument the arena, where the source knows it */
    ARENAS_HEAP_MORE,
    ARENAS_HEAP_LESS,
    ARENAS_HEAP_FREE,
    ARENAS_NEW,
    ARENAS_REUSE,
    ARENAS_REUSE_FREE_LIST,
    ARENAS_REUSE_WAIT,
    ARENAS_RETRY,
    ARENAS_SBRK_MORE,
    ARENAS_SBRK_LESS,
    ARENAS_MALLOC_RETRY,
    ARENAS_REALLOC_RETRY,
    ARENAS_MEMALIGN_RETRY,
    ARENAS_CALLOC_RETRY,
    ARENAS_TCACHE_DOUBLE_FREE,
    ARENAS_MALLOPT,
    ARENAS_FREE_DYN_THRESHOLDS,
    ARENAS_MXFAST,
    ARENAS_TRIM_THRESHOLD,
    ARENAS_TOP_PAD,
    ARENAS_MMAP_THRESHOLD,
    ARENAS_MMAP_MAX,
    ARENAS_PERTURB,
    ARENAS_ARENA_TEST,
    ARENAS_ARENA_MAX,
    ARENAS_TCACHE_MAX_BYTES,
    ARENAS_TCACHE_COUNT,
    ARENAS_TCACHE_UNSORTED_LIMIT,
    ARENAS_PROBES,
    /* Not glibc's own: raw material, which the tool turns into the above. */
    ARENAS_GOT = ARENAS_PROBES, /* an arena for a thread: arena, the one to avoid, the free list */
    ARENAS_GROWN,               /* a heap after sysmalloc: heap, size */
    ARENAS_WAITED,              /* for a lock: its address */
    ARENAS_MAIN,                /* the main arena's address */
    ARENAS_LIMITS,              /* mp_: mmap threshold, trim threshold */
    ARENAS_UNMAPPED,            /* a block of its own mapping: bytes */
    ARENAS_THREAD_END,
    ARENAS_EXEC
};

/* An argument of a probe, as its note describes it. */
enum arenas_argument_kind {
    ARENAS_REGISTER,
    ARENAS_CONSTANT,
    ARENAS_MEMORY,   /* at register + offset + index * scale */
    ARENAS_RELATIVE, /* at the probe's own address + offset */
    ARENAS_ADDRESS,  /* the probe's own address + offset, itself */
    ARENAS_UNKNOWN   /* at a symbol whose address is not known */
};
enum { ARENAS_NO_REGISTER = 31, ARENAS_ARGUMENTS = 3, ARENAS_SITES_MAX = 256 };
struct arenas_argument {
    __s64 offset; /* or the constant */
    __u8 kind;    /* enum arenas_argument_kind */
    __s8 size;    /* bytes of the value, negative when it is signed */
    __u8 base;    /* number of the word in struct pt_regs, or ARENAS_NO_REGISTER */
    __u8 index;   /* the same */
    __u32 scale;
};
/* Where a probe stands; the cookie is the number of the site. */
struct arenas_site {
    __u32 probe; /* enum arenas_probe */
    __u32 arguments;
    __u32 known; /* how many of the arguments are known, from the first on */
    struct arenas_argument argument[ARENAS_ARGUMENTS];
};

/* The code of a function that retries in another arena. */
struct arenas_retrier {
    __s64 from, to; /* distances from arena_get_retry: [from, to) */
    __u32 probe;    /* enum arenas_probe: the one of a call from there */
    __u32 unused;
};
enum { ARENAS_RETRIERS = 8 };

/* For the way by symbols, where nothing else is said: distances from a function to variables of its
 * library. */
struct arenas_places {
    __s64 main_arena;  /* from sysmalloc */
    __s64 limits_too;  /* mp_, from sysmalloc */
    __s64 free_list;   /* from arena_get2 */
    __s64 limits;      /* mp_, from munmap_chunk */
    __s64 fixed;       /* in mp_: not 0 when the thresholds do not change by themselves */
    __u64 top;         /* in an arena */
    __u64 heaps[3];    /* GLIBC_HEAP_SIZE_LIST; also for the way by system calls */
    __s64 double_free; /* the message that malloc_printerr gets for a block in a thread's cache,
                          from it; 0: unknown */
    struct arenas_retrier retriers[ARENAS_RETRIERS]; /* the rest is 0 */
};

enum { ARENAS_EVENT = 16 };
struct arenas_event {
    __u32 type;
    __u32 probe;
    __u32 pid, tid;
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __s64 argument[ARENAS_ARGUMENTS];
    __u64 known; /* how many of the arguments, from the first on */
};

#endif
