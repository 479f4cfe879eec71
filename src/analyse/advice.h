/* advice.h - what would make the resident size smaller, by what an explanation found.
 *
 * Owns: the rules that lead from a finding to a remedy, and what a remedy saves at most, by the
 * addresses. What it really saves a replay measures (`mallow advise`). Pure functions. */
#ifndef MALLOW_ANALYSE_ADVICE_H
#define MALLOW_ANALYSE_ADVICE_H

#include "analyse/explain.h"

enum advice_kind {
    ADVICE_TRIM,           /* glibc: malloc_trim(3) */
    ADVICE_TRIM_THRESHOLD, /* glibc: keeps the trim threshold where it is at the start */
    ADVICE_MMAP_THRESHOLD, /* the same for the mmap threshold */
    ADVICE_ARENA_MAX,      /* fewer arenas */
    ADVICE_TCACHE,         /* no caches of threads */
    ADVICE_POOL,           /* the blocks of a call site by themselves */
    ADVICE_ALLOCATOR,      /* another one */
    ADVICE_KINDS
};

struct advice {
    enum advice_kind kind;
    uint64_t saves_bytes; /* at most; 0: not known without a measurement */
    uint32_t stack;       /* ADVICE_POOL */
};

/* What applies, the largest saving first; returns how many. threshold: of the model. */
size_t advice_find(const struct trace_image *image, const struct explained *e,
                   const struct threshold *threshold, struct advice list[ADVICE_KINDS]);

/* The setting: "glibc.malloc.arena_max=1", "malloc_trim", ... */
const char *advice_setting(enum advice_kind kind);
/* What to put into the environment; NULL when it is not a matter of the environment. */
const char *advice_environment(enum advice_kind kind);
/* What the remedy is, without figures: half a sentence. */
const char *advice_text(enum advice_kind kind);

#endif
