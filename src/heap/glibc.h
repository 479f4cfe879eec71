/* glibc.h - the state of glibc's malloc in a target, found without symbols.
 *
 * Owns: the layouts of glibc 2.26 to 2.43 on x86-64. main_arena is known by its bins: 127 pairs of
 * list heads, each pointing at itself or at chunks that point back. Everything else lies relative
 * to them (the head of the struct differs by version, its tail does not) or hangs from them. The
 * walkers check the values read. */
#ifndef MALLOW_HEAP_GLIBC_H
#define MALLOW_HEAP_GLIBC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "heap/module.h"
#include "remote/target.h"

enum { GLIBC_ARENAS_MAX = 1 << 14, GLIBC_HEAPS_MAX = 1 << 20, GLIBC_FASTBINS = 10 };

struct glibc_arena {
    uint64_t bins;  /* address of the array of bins; all else lies relative to it */
    uint64_t start; /* the start of the struct malloc_state */
    uint64_t top, system_bytes, attached_threads;
    bool main;
    bool parts; /* its memory is not contiguous: it has parts, each of which ends in a fence */
};

struct glibc {
    struct glibc_arena *arenas; /* the main one first */
    size_t arena_count;
    uint64_t heap_bytes; /* a heap of an arena is aligned to this, and no larger */
    uint64_t head_bytes; /* from the start of a struct malloc_state to its bins */
    bool has_fastbins;
    bool has_parameters;         /* mp_ was found: the members below are valid */
    uint64_t sbrk_base;          /* first address that brk gave; 0: none yet */
    uint64_t huge_bytes;         /* the size of the huge pages that heaps are made of; 0: of none */
    uint64_t tcache_count;       /* blocks that a bin of a thread's cache may hold */
    uint64_t mapped_blocks;      /* n_mmaps */
    uint64_t mapped_bytes;       /* mmapped_mem */
    uint64_t parameters;         /* address of mp_.sbrk_base */
    const struct module *module; /* the module that has the allocator */
};

/* Returns 0, or -1 with *err: without memory, or if no heap of glibc has ever been used
 * (ERROR_UNSUPPORTED; the text names an alternative). */
int glibc_find(struct glibc *g, struct target *t, const struct modules *modules, struct error *err);
void glibc_release(struct glibc *g);

/* True if the address lies in main_arena or in the parameters, whose words are neither roots nor
 * types. */
bool glibc_owns(const struct glibc *g, uint64_t address);

#endif
