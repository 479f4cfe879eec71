/* advice.h - what would make the resident size smaller, by what an explanation found.
 *
 * Owns: the rules that lead from a finding to a remedy, and between which bounds its saving lies,
 * by the addresses, by the bytes live at once before, or by what the kernel counted. When the
 * bounds are near each other what it saves is known about; a replay measures it (`mallow advise`).
 * Pure functions. */
#ifndef MALLOW_ANALYSE_ADVICE_H
#define MALLOW_ANALYSE_ADVICE_H

#include "analyse/explain.h"

enum advice_kind {
    ADVICE_TRIM,           /* glibc: malloc_trim(3) */
    ADVICE_TRIM_THRESHOLD, /* glibc: keeps the trim threshold where it is at the start */
    ADVICE_MMAP_THRESHOLD, /* the same for the mmap threshold */
    ADVICE_ARENA_MAX,      /* fewer arenas */
    ADVICE_TCACHE,         /* no caches of threads */
    ADVICE_FASTBINS,       /* no fastbins */
    ADVICE_POOL,           /* the blocks of a call site by themselves */
    ADVICE_ALLOCATOR,      /* another one */
    ADVICE_RELEASE,        /* the live heap is the reason: the blocks of a call site */
    ADVICE_SHRINK,         /* smaller blocks at a call site: part of them was never touched */
    ADVICE_STACKS,         /* less stack */
    ADVICE_FILES,          /* mapped files */
    ADVICE_HUGE,           /* no huge pages */
    ADVICE_DONTNEED,       /* pages that are given back leave at once */
    ADVICE_KINDS
};

#define ADVICE_MOST (ADVICE_KINDS + ADVICE_POOLS - 1) /* one of each kind, and pools */

struct advice {
    enum advice_kind kind;
    uint64_t saves_bytes;         /* RSS, within a factor of two; 0: none, or not known */
    uint64_t most_bytes;          /* RSS, at most; 0: none, or not known without a measurement */
    uint64_t saves_address_bytes; /* ADVICE_SHRINK: live, and not resident */
    uint32_t stack;               /* POOL, RELEASE, SHRINK: of the call site, the one with most */
    uint32_t site;                /* and what advice_sites says of it */
    uint64_t blocks;              /* the blocks that were live then */
};

/* For advice_sites_find: what glibc's limit was at that time. threshold: of the model. */
uint64_t advice_trim_bytes(const struct threshold *threshold, uint64_t time_ns);

/* The advice that applies to a measurement whose `found` is set, the largest saving first, unknown
 * ones last; returns how many. threshold: of the model. */
size_t advice_find(const struct explained *e, const struct threshold *threshold,
                   const struct advice_sites *sites, struct advice list[ADVICE_MOST]);

/* The setting: "glibc.malloc.arena_max=1", "malloc_trim", ... */
const char *advice_setting(enum advice_kind kind);
/* The setting for the environment; NULL when the remedy is none of the environment. */
const char *advice_environment(enum advice_kind kind);
/* The remedy in half a sentence, without figures. */
const char *advice_text(enum advice_kind kind);
/* True if it is about a call site. */
bool advice_has_site(enum advice_kind kind);

#endif
