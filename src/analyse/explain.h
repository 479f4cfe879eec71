/* explain.h - which moments of a process are worth an explanation of its resident size, and the
 * parts that it consists of.
 *
 * A moment is explained by a measurement: a split of the resident size that the kernel gave. In a
 * range of time only measurements of that range count. Without one, the known figures are reported:
 * live bytes, and where. Pure functions of a finished model and of the findings of pinned.h. */
#ifndef MALLOW_ANALYSE_EXPLAIN_H
#define MALLOW_ANALYSE_EXPLAIN_H

#include "analyse/advice_sites.h"
#include "analyse/pinned.h"
#include "model/model.h"

enum explain_at {
    EXPLAIN_PEAK, /* the peak of live bytes */
    EXPLAIN_RSS,  /* the largest resident size */
    EXPLAIN_GAP,  /* the most resident above live */
    EXPLAIN_END,
    EXPLAIN_FOUR, /* those of the first four that differ */
    EXPLAIN_TIME, /* a time that was asked for */
    EXPLAIN_MARK
};

enum explain_part {
    EXPLAIN_LIVE,          /* bytes asked for */
    EXPLAIN_ROUNDING,      /* the allocator's rounding of those blocks */
    EXPLAIN_HEADERS,       /* glibc: of those blocks */
    EXPLAIN_FRAGMENTATION, /* free on pages that hold live blocks, too */
    EXPLAIN_FREE_PAGES,    /* glibc: whole free pages below live blocks */
    EXPLAIN_TCACHE,        /* glibc: freed chunks that the caches of threads keep, with headers */
    EXPLAIN_TOPS, /* glibc: above the highest live block of each heap, and heaps without one */
    EXPLAIN_UNRECORDED, /* glibc: of the heaps, where no recorded block ever was */
    EXPLAIN_ALLOCATOR,  /* other allocators: free memory, and private mappings that are no blocks */
    EXPLAIN_NOT_RESIDENT, /* at most 0: so much of the above is not: never touched, or given back */
    EXPLAIN_UNTOUCHED, /* at most 0: of blocks with a mapping of their own, at least, not resident
                        */
    EXPLAIN_MAPPINGS,  /* glibc: private mappings that are no blocks */
    EXPLAIN_STACKS,
    EXPLAIN_FILES,  /* code and data of the program and its libraries */
    EXPLAIN_MAPPED, /* other mapped files */
    EXPLAIN_SHARED,
    EXPLAIN_LAZY,     /* given back with MADV_FREE, and resident until the kernel needs it */
    EXPLAIN_RECORDER, /* mallow's own memory in the process */
    EXPLAIN_OTHER,
    EXPLAIN_PARTS
};

#define EXPLAIN_NONE SIZE_MAX

/* A moment that was chosen. Times are since the start of the recording. */
struct explain_moment {
    enum explain_at at;
    unsigned also;     /* those of the first four that do not differ from it: a bit each, 1 << at */
    const char *label; /* EXPLAIN_MARK: the mark's, of the image; EXPLAIN_TIME: of the wish */
    uint64_t time_ns;  /* the time in ns of the explained moment */
    size_t split;      /* the measurement among the image's; EXPLAIN_NONE: there is none */
    size_t nearest;    /* without one: the nearest of the image, of whatever time; EXPLAIN_NONE: the
                          kernel was never asked */
};

/* The request. */
struct explain_wish {
    enum explain_at at;
    uint64_t time_ns;  /* EXPLAIN_TIME: since the start of the recording */
    const char *label; /* EXPLAIN_MARK: its name; EXPLAIN_TIME: as it was written */
};

/* An explanation. The parts add up to resident_bytes; without a measurement to the known bytes. */
struct explained {
    struct explain_moment moment;
    uint64_t measured_ns; /* 0: not */
    uint64_t resident_bytes, swapped_bytes;
    uint64_t live_bytes, live_blocks;
    uint64_t huge_bytes;    /* resident bytes in huge pages */
    uint64_t hugetlb_bytes; /* those in HugetlbPages, which VmRSS does not count */
    uint64_t forked_bytes;  /* those in pages that other processes have as well, since a fork */
    uint64_t proportional_bytes; /* the resident size with each shared page divided among the
                                    processes that have it; 0: neither of the two is known */
    bool glibc;
    uint64_t heap_bytes;      /* glibc: resident in heaps */
    uint64_t kept_tops_bytes; /* the part of EXPLAIN_TOPS that malloc_trim does not give back */
    bool attached;            /* it ran before: blocks that it had then are not known */
    int64_t parts[EXPLAIN_PARTS];
    struct pinned pinned;      /* at the measurement, or at the moment without one */
    struct advice_found found; /* the same */
};

/* "peak", "rss", ... as in the option and in JSON; of the first four. */
const char *explain_at_name(enum explain_at at);
const char *explain_part_name(enum explain_part part); /* as in JSON */

#define EXPLAIN_MOST 4u
/* The moments of a wish, in the order of enum explain_at; fewer than four where they do not
 * differ by more than a twentieth of the resident size. None when the process has no such mark, is
 * not there at that time, or did nothing in the range and was not measured. */
size_t explain_choose(const struct model *m, const struct explain_wish *wish,
                      struct explain_moment moments[EXPLAIN_MOST]);

/* True if the measurement stands for the moment, of which pinned `here` was found, and `there` of
 * the measurement: a TIME or MARK that another state was measured near is without a measurement. */
bool explain_holds(const struct trace_image *image, const struct explain_moment *moment,
                   const struct pinned *here, const struct pinned *there);

/* Fills e, whose moment and pinned are set. */
void explain_parts(const struct trace_image *image, struct explained *e);

/* The resident bytes of a split, the recorder's included. */
uint64_t explain_resident(const struct mlw_split *s);

#endif
