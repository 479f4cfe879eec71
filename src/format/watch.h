/* watch.h - the shared memory that libmallow-watch.so writes and `mallow watch` reads: one segment
 * of one file for each process image.
 *
 * WHERE IT IS. A segment is a file of shared memory, mode 0600, mapped MAP_SHARED by its process
 * for as long as that lives:
 *   1. `mallow watch -- PROGRAM` makes a directory (0700) and names it in MALLOW_WATCH_SESSION. Its
 *      last component is MLW_WATCH_SESSION_PREFIX, the pid of the maker in decimal, '-', anything
 *      ("/dev/shm/mallow-watch-session-4711-9f3c"). Every process of the tree makes its segment in
 *      it, called PID-CLOCK (two decimal numbers; CLOCK is start_ns). The maker looks into the
 *      directory to find new ones, and removes each after its last report. While the
 * maker is alive no process removes its own.
 *   2. Without that variable, or where the directory cannot be written to (another user, another
 *      root), /dev/shm/mallow-watch-PID-CLOCK; `mallow watch -p PID` finds it in /proc/PID/maps
 *      (open it under /proc/PID/root). The process removes it at its normal end, unless a living
 *      reader has entered itself (reader_pid), there or in the process that forked or started it:
 *      that reader looks for children, and a child may end before. After kill -9 or a crash it
 * stays, to be read, and to be removed by its reader.
 *   3. Where /dev/shm cannot be used, memfd "mallow-watch": /proc/PID/fd/N links to
 *      "/memfd:mallow-watch (deleted)"; so does /proc/PID/map_files/START-END (root).
 * The child of a fork makes a segment of its own at the first sampled call of its; it begins with
 * the blocks live at the fork. An exec ends one image and begins another under the same pid: the
 * image with the larger start_ns is the one that lives.
 *
 * HOW TO READ IT. At any moment, without locks; nothing that a reader does can stop the process,
 * and the process never waits. Every integer is little-endian and naturally aligned; read fields
 * that change as whole aligned words (relaxed atomic loads). All tables are bounded; counts and
 * offsets are in the header and never change after magic is set, except that pages beyond the used
 * part are holes (zeros). The file may be shorter or damaged in the hands of a stranger: check
 * offsets. Records that can be rewritten carry a `version`, a sequence lock: even = whole, odd =
 * being written (for ever, when the process died in the midst of it: then the record is torn, skip
 * and count it), 0 = never used. Read version (acquire), copy, fence (acquire), read version again:
 * equal and even. With a sample, take its site as well before comparing the sample's version again:
 * a site cannot be given to another stack while a live sample names it.
 *
 * WHAT THE FIGURES MEAN. Each byte that is allocated is sampled with the same probability, 1 in
 * period: between two samples of a thread lie exponentially distributed gaps. A block of `size`
 * bytes is therefore sampled with p = 1 - exp(-size / period). Its `weight` is size / p, in bytes,
 * rounded: the sum of weights is an unbiased estimate of bytes, the sum of weight / size one of
 * blocks. The variance of the estimate of bytes is estimated by sum(weight * (weight - size)), of
 * blocks by sum (b * (b - 1)), b = weight / size. weight == size: always sampled. Blocks of 0 bytes
 * never are. Times are CLOCK_MONOTONIC in nanoseconds. The table of samples is bounded. When it is
 * half full, the period that gaps are drawn with is doubled, and again with each further 32nd of
 * the table (period_now says where it stands); when samples end it comes down again. A weight
 * belongs to the period that its gap was drawn with, so sums stay unbiased; their variance grows.
 *
 * WHO MAY WRITE WHAT. Everything belongs to the process, except struct mlw_watch_settings, which
 * any reader may change while the process runs: store the new values, then add 1 to `epoch`
 * (release). A thread sees them at its next look, at the latest after it has allocated
 * MLW_WATCH_LOOK_BYTES more. */
#ifndef MALLOW_FORMAT_WATCH_H
#define MALLOW_FORMAT_WATCH_H

#include <stdint.h>

#define MLW_WATCH_MAGIC          0x3148435457574c4dull /* "MLWWTCH1" */
#define MLW_WATCH_VERSION        1u
#define MLW_WATCH_SESSION_PREFIX "mallow-watch-session-"
#define MLW_WATCH_FILE_PREFIX    "/dev/shm/mallow-watch-"
#define MLW_WATCH_MEMFD          "mallow-watch"
#define MLW_WATCH_LOOK_BYTES     (1u << 20)

/* The environment. Sizes with K, M, G; what cannot be understood is said once on stderr and the
 * default is used. `mallow watch` sets them for the program that it starts. */
#define MLW_ENV_WATCH_SESSION    "MALLOW_WATCH_SESSION" /* directory, see above */
#define MLW_ENV_WATCH_PERIOD     "MALLOW_WATCH_PERIOD"  /* bytes; default 512K */
#define MLW_ENV_WATCH_PAUSED     "MALLOW_WATCH_PAUSED"  /* 1: begin switched off */
#define MLW_ENV_WATCH_GUARD      "MALLOW_WATCH_GUARD" /* off, all, or 0..1 or N%: share of samples */
#define MLW_ENV_WATCH_GUARD_SIDE "MALLOW_WATCH_GUARD_SIDE" /* right (default), left, both */
#define MLW_ENV_WATCH_ON_ERROR   "MALLOW_WATCH_ON_ERROR"   /* continue (default), die */
#define MLW_ENV_WATCH_MEMORY     "MALLOW_WATCH_MEMORY" /* bound of the library's own memory; 4M */
#define MLW_ENV_WATCH_SEED       "MALLOW_WATCH_SEED"   /* a number: draws that can be repeated */

/* For programs that a watched process starts: the reader that it has, who finds their memory, too.
 */
#define MLW_ENV_WATCH_READER "MALLOW_WATCH_READER"

#define MLW_WATCH_PERIOD_DEFAULT (512u << 10)
#define MLW_WATCH_PERIOD_MIN     1u /* every byte, that is every block of 1 byte or more, nearly */
#define MLW_WATCH_PERIOD_MAX     (1ull << 40)

/* The bounds of a segment; a reader refuses one that claims more. The tables are in proportion
 * to the bound of memory, MALLOW_WATCH_MEMORY. */
#define MLW_WATCH_MEMORY_MAX      (1ull << 30)
#define MLW_WATCH_SAMPLES(memory) ((uint32_t)((memory) / 683) & ~7u)
/* One more than stacks: that of what finds no room. */
#define MLW_WATCH_SITES(memory) (((uint32_t)((memory) / 5461) & ~7u) + 1)
#define MLW_WATCH_FREES(memory) ((uint32_t)((memory) / 4096))
#define MLW_WATCH_MODULES_MAX   512u
#define MLW_WATCH_ERRORS_MAX    32u
#define MLW_WATCH_FILE_MAX      (256ull << 20)
#define MLW_WATCH_SHARE_ALL     (1u << 16) /* guard_share: of 65,536 samples so many are guarded */

enum mlw_watch_on_error {
    MLW_WATCH_CONTINUE = 0, /* report, let the access through, go on */
    MLW_WATCH_DIE = 1       /* report, then the program's own handler or the signal's default */
};

/* The page without access that a guarded block stands against. */
enum mlw_watch_side {
    MLW_WATCH_SIDE_RIGHT = 0, /* behind it, as far as its alignment allows */
    MLW_WATCH_SIDE_LEFT = 1,  /* before it */
    MLW_WATCH_SIDE_BOTH = 2   /* the one or the other, by chance */
};

/* Written by readers. */
struct mlw_watch_settings { /* 64 bytes */
    uint32_t epoch;         /* atomic; raised last */
    uint32_t enabled;       /* 0: no block is sampled (known ones are still followed) */
    uint64_t period;        /* MLW_WATCH_PERIOD_MIN..MAX; others are taken as the nearest */
    uint32_t guard_share;   /* 0..MLW_WATCH_SHARE_ALL */
    uint32_t on_error;      /* enum mlw_watch_on_error */
    uint32_t reader_pid;    /* an attached reader, else 0: it reports the errors */
    uint32_t guard_side;    /* enum mlw_watch_side; others are taken as RIGHT */
    uint64_t reserved[4];
};

enum mlw_watch_state {
    MLW_WATCH_STARTING = 0,
    MLW_WATCH_LIVE = 1,
    MLW_WATCH_EXITED = 2, /* the process said so itself; exit_status */
    MLW_WATCH_EXEC = 3,   /* it is becoming another program; LIVE again if that fails */
    MLW_WATCH_KILLED = 4  /* by the signal exit_status: only a writer from outside can know */
};

enum mlw_watch_trouble { /* bits: why the library does less than it should */
                         MLW_WATCH_NO_RESERVE =
                             1, /* no address range could be reserved: nothing is sampled */
                         MLW_WATCH_SANDBOXED =
                             2, /* the program's seccomp filter forbids our calls: none is made */
                         MLW_WATCH_NO_STACKS = 4, /* the unwinder found no memory */
                         MLW_WATCH_NO_GUARD = 8,  /* guard pages were refused: none from now on */
                         MLW_WATCH_FILE_FULL =
                             16, /* the segment's file could not grow (/dev/shm is full) */
                         MLW_WATCH_BAD_ENVIRONMENT = 32, /* a variable was not understood */
                         MLW_WATCH_RETREATED = 64 /* the program limited its address space, or
                                                     locked it: the range was given back, and
                                                     nothing is guarded any more */
};

/* Bits: why no block is guarded. A guarded block is the library's, and must come back to it. */
enum mlw_watch_unguarded {
    MLW_WATCH_UNGUARDED_BINDINGS = 1,  /* calls past the preloaded symbols (dlsym on libc's handle,
                                          RTLD_DEEPBIND, __libc_free, an allocator's own functions)
                                          could not be made to lead to the library */
    MLW_WATCH_UNGUARDED_BETWEEN = 2,   /* another library stands between it and the allocator */
    MLW_WATCH_UNGUARDED_NAMESPACE = 4, /* dlmopen or an auditor: a second libc. Blocks that were
                                          guarded before stay so */
    MLW_WATCH_UNGUARDED_ALLOCATOR = 8, /* an allocator whose functions are not all known */
    MLW_WATCH_UNGUARDED_ATTACHED = 16  /* the library came while the process ran, and may leave */
};

/* All counts since the start of the image (a fork's child begins with zeros), atomic. */
struct mlw_watch_counters { /* 256 bytes */
    uint64_t drawn_bytes;   /* allocated by the program and drawn past, exact up to
                               MLW_WATCH_LOOK_BYTES a thread */
    uint64_t samples;       /* blocks sampled and entered */
    uint64_t sample_bytes;  /* their sizes */
    uint64_t sample_weight; /* their weights */
    uint64_t frees;         /* sampled blocks released, reallocs included */
    uint64_t free_bytes;
    uint64_t free_weight;
    uint64_t reallocs;       /* sampled blocks that ended by realloc */
    uint64_t guarded;        /* samples that sat against guard pages */
    uint64_t dropped_full;   /* samples not taken: the table of samples is full */
    uint64_t dropped_memory; /* samples not taken: no memory, no room, or too large */
    uint64_t crowded; /* samples whose stack found no room: they have the site that says so */
    uint64_t dropped_nested; /* samples not taken: the process was joining or forking */
    uint64_t dropped_weight; /* weights of all those */
    uint64_t no_stack;       /* samples with the caller only (every unwinder was busy) */
    uint64_t errors;         /* memory errors found, reported or not; entries of the error table */
    uint64_t evicted_sites;  /* sites that made room for others: their sums left the table */
    uint64_t own_bytes;      /* not a count: the library's private memory now, mapped, bytes */
    uint64_t kept_bytes; /* 0; of older libraries, which kept freed blocks for the next sample */
    uint64_t reserved[13];
};

struct mlw_watch {    /* the first page */
    uint64_t magic;   /* written last, when all else is sound */
    uint32_t version; /* MLW_WATCH_VERSION */
    uint32_t state;   /* atomic, enum mlw_watch_state */
    uint32_t pid;     /* as the process sees itself */
    uint32_t ppid;
    uint64_t start_ns; /* when the image joined */
    uint64_t start_realtime_ns;
    uint64_t forked_from; /* start_ns of the image that forked it (its pid is ppid); 0: exec */
    uint32_t trouble;     /* atomic, enum mlw_watch_trouble bits */
    uint32_t exit_status; /* state EXITED */
    uint64_t file_bytes;  /* the size of the segment, holes included */
    uint64_t range_start, range_end; /* guarded blocks have addresses in it; equal: none */
    uint32_t modules, module_offset; /* entries; bytes from the start of the file */
    uint32_t sites, site_offset;
    uint32_t samples, sample_offset;
    uint32_t frees, free_offset;
    uint32_t errors, error_offset;
    uint32_t samples_used; /* atomic: entries at and after were never used */
    uint32_t guard_slots;  /* blocks that may be guarded or in quarantine at one time */
    uint64_t next_free;    /* atomic: number of the next entry of the table of frees */
    uint64_t next_error;   /* atomic: the same of errors */
    uint64_t period_now;   /* atomic: that gaps are drawn with; 0: none yet. See below */
    uint64_t
        pid_namespace;  /* that the process ids are of: inode of /proc/self/ns/pid; 0: not known */
    uint32_t held;      /* 1: the file is locked (flock) as long as the process has it mapped */
    uint32_t unguarded; /* atomic, enum mlw_watch_unguarded bits */
    struct { /* private memory in which the library keeps addresses of samples; 0: none */
        uint64_t start, end;
    } kept[2];
    uint64_t command_bytes; /* the length of `command`; 0: not said */
    uint64_t reserved[8];
    struct mlw_watch_settings settings;
    struct mlw_watch_counters counters;
    char exe[1024];     /* NUL-terminated, cut when longer */
    char command[1024]; /* arguments, each with its NUL; cut; the rest is zeros */
};
_Static_assert(sizeof(struct mlw_watch) <= 4096, "one page");
_Static_assert(sizeof(struct mlw_watch_settings) == 64, "a cache line of its own");
_Static_assert(sizeof(struct mlw_watch_counters) == 256, "room for more");

/* Module number m (from 1, as frames name it) is entry m - 1; those beyond the table have none. */
enum mlw_watch_module_state { MLW_WATCH_MODULE_MAPPED = 1, MLW_WATCH_MODULE_GONE = 2 };
struct mlw_watch_module { /* 512 bytes */
    uint32_t version;
    uint32_t state;            /* enum mlw_watch_module_state */
    uint64_t start, end, bias; /* address in the file's headers = address - bias */
    uint64_t since_ns, gone_ns;
    uint32_t build_id_bytes; /* 0: it has none */
    uint32_t reserved;
    uint8_t build_id[32];
    char path[424]; /* NUL-terminated, cut when longer; "[vdso]" */
};
_Static_assert(sizeof(struct mlw_watch_module) == 512, "no holes");

/* A frame: bits 0..46 the code address; bit 47: it is the interrupted instruction itself, not a
 * return address (look up address - 1 for those); bits 48..63 the module, 0: none that is known. */
#define MLW_WATCH_FRAMES          56u
#define MLW_WATCH_FRAME_PC(f)     ((f) & ((1ull << 47) - 1))
#define MLW_WATCH_FRAME_EXACT     (1ull << 47)
#define MLW_WATCH_FRAME_MODULE(f) ((uint32_t)((f) >> 48))

enum mlw_watch_stack_flags {
    MLW_WATCH_STACK_CUT = 1,       /* deeper than MLW_WATCH_FRAMES: the innermost are kept */
    MLW_WATCH_STACK_TRUNCATED = 2, /* the unwinder could not go on */
    MLW_WATCH_STACK_CALLER = 4,    /* only the caller is known */
    MLW_WATCH_STACK_NO_ROOM = 8    /* frames 0: of all stacks that found no room in the table */
};
struct mlw_watch_stack {              /* 456 bytes */
    uint32_t frames;                  /* 0..MLW_WATCH_FRAMES: how many of frame[] */
    uint32_t flags;                   /* enum mlw_watch_stack_flags */
    uint64_t frame[MLW_WATCH_FRAMES]; /* innermost (who called malloc) first */
};
_Static_assert(sizeof(struct mlw_watch_stack) == 456, "no holes");

/* A call stack, and sums over all samples that had it since it entered the table. Sums change
 * without a change of version (each is one atomic word); version is raised by 2 when the entry is
 * given to another stack, which happens only when nothing live names it. Equal stacks may, rarely,
 * stand in two entries: add them up. */
struct mlw_watch_site { /* 576 bytes */
    uint32_t version;
    uint32_t live;          /* samples that are live */
    uint64_t hash;          /* the hash of the stack; equal stacks have equal ones */
    uint64_t samples;       /* allocated */
    uint64_t bytes;         /* their sizes */
    uint64_t weight;        /* their weights: estimated bytes allocated */
    uint64_t blocks_q8;     /* sum of 256 * weight / size: estimated blocks allocated */
    uint64_t freed_samples; /* those of them that were released */
    uint64_t freed_bytes;
    uint64_t freed_weight;
    uint64_t freed_blocks_q8;
    uint64_t freed_byte_us;   /* sum over the released of weight * lifetime, byte microseconds */
    uint64_t freed_elsewhere; /* those that another thread released */
    uint64_t used_ns;         /* last time that a sample had it */
    uint64_t reserved[2];
    struct mlw_watch_stack stack;
};
_Static_assert(sizeof(struct mlw_watch_site) == 576, "whole cache lines");

/* A sampled block. */
enum mlw_watch_sample_flags {
    MLW_WATCH_SAMPLE_LIVE = 1,
    MLW_WATCH_SAMPLE_GUARDED = 2,
    MLW_WATCH_SAMPLE_INHERITED = 4, /* the sample was made by the process that forked this one */
    MLW_WATCH_SAMPLE_REALLOC = 8    /* made by realloc */
};
struct mlw_watch_sample { /* 64 bytes */
    uint32_t version;
    uint32_t flags; /* enum mlw_watch_sample_flags; not LIVE: the entry is free */
    uint64_t address;
    uint64_t size; /* requested */
    uint64_t weight;
    uint64_t drawn;   /* the gap that led to it: bytes of the thread from the last sample up to the
                         byte, inside this block, that was hit */
    uint64_t time_ns; /* the time in ns of its allocation */
    uint32_t site;    /* index in the table of sites */
    uint32_t tid;     /* who allocated it */
    uint32_t site_version; /* the site's when it was entered */
    uint32_t align;        /* requested alignment; 0: malloc's */
};
_Static_assert(sizeof(struct mlw_watch_sample) == 64, "a cache line");

/* A recent release of a sampled block. Number n is entry n % frees; `number` says which. Sites may
 * have gone to other stacks since: compare their versions. */
enum mlw_watch_free_kind { MLW_WATCH_FREE = 0, MLW_WATCH_REALLOC = 1 };
struct mlw_watch_free { /* 96 bytes */
    uint32_t version;
    uint32_t kind; /* enum mlw_watch_free_kind */
    uint64_t number;
    uint64_t address, size, weight;
    uint64_t allocated_ns, freed_ns;
    uint64_t new_size;                     /* REALLOC: what it became */
    uint32_t site, site_version;           /* who allocated it */
    uint32_t free_site, free_site_version; /* who released it; free_site UINT32_MAX: not known */
    uint32_t allocated_tid, freed_tid;
    uint64_t reserved;
};
_Static_assert(sizeof(struct mlw_watch_free) == 96, "no holes");

/* A memory error. Number n is entry n % errors. Never rewritten by an equal one: each block is
 * reported once. */
enum mlw_watch_error_kind {
    MLW_WATCH_OVERFLOW = 1,       /* heap-buffer-overflow */
    MLW_WATCH_UNDERFLOW = 2,      /* heap-buffer-underflow */
    MLW_WATCH_USE_AFTER_FREE = 3, /* heap-use-after-free */
    MLW_WATCH_DOUBLE_FREE = 4,    /* double-free */
    MLW_WATCH_INVALID_FREE = 5    /* invalid-free: inside a block, or at no block */
};
enum mlw_watch_error_flags {
    MLW_WATCH_ERROR_WRITE = 1,   /* the access was a write */
    MLW_WATCH_ERROR_AT_FREE = 2, /* found when the block was released: access[] is that call */
    MLW_WATCH_ERROR_GUARDED = 4,
    MLW_WATCH_ERROR_BLOCK = 8,  /* the block is known: address, size, allocation */
    MLW_WATCH_ERROR_FREED = 16, /* its release is known: release, freed_* */
    MLW_WATCH_ERROR_AT_END = 32 /* found when the process ended: access[] is not known */
};
struct mlw_watch_error { /* 1536 bytes */
    uint32_t version;
    uint32_t kind; /* enum mlw_watch_error_kind */
    uint64_t number;
    uint32_t flags;  /* enum mlw_watch_error_flags */
    uint32_t signal; /* that reported it; 0: a call did */
    uint64_t time_ns;
    uint64_t access_address; /* touched, or given to free */
    uint64_t address, size;  /* the block's */
    int64_t offset;          /* access_address - address */
    uint64_t allocated_ns, freed_ns;
    uint32_t tid, allocated_tid, freed_tid;
    uint32_t reserved0;
    uint64_t reserved[9];
    struct mlw_watch_stack access, allocation, release;
};
_Static_assert(sizeof(struct mlw_watch_error) == 1536, "no holes");

#endif
