/* heap.h - who keeps the blocks of a program alive.
 *
 * Owns: everything between a process id or a core file and tables that can be printed: stopping and
 * reading the target, finding glibc's heap in it, proving that all of it was read, references,
 * roots, the dominator tree, types. The target is let go before this returns. Everything that is
 * read is hostile: bounded, checked; at worst the answer is an error. Texts may hold what the
 * target says, of printable characters only. One thread uses a struct heap. */
#ifndef MALLOW_HEAP_HEAP_H
#define MALLOW_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "heap/sampled.h"

struct heap;
struct trace; /* trace/trace.h */

struct heap_options {
    bool no_snapshot; /* stop the process while it is read, instead of copying it */
    unsigned threads; /* threads that read the heap at once; 0: as many as there are processors */
    /* Opens the recording, up to now, that knows the allocations of this process (pid 0: a core
     * without a known id). It stays open until heap_free. Member NULL: there is none. */
    struct trace *(*recording)(void *arg, uint32_t pid, bool live, struct error *err);
    void *recording_arg;
    /* Without a recording: reads the samples of the library in this process, which is stopped.
     * Returns false if the process carries none. The result is valid until the next call. Member
     * NULL: not asked. */
    bool (*sampled)(void *arg, uint32_t pid, struct heap_sampled *sampled);
    void *sampled_arg;
    const char *const *debug_dirs; /* with separate debug files, before /usr/lib/debug */
    size_t debug_dir_count;
    uint64_t memory_bytes; /* memory for tables; the rest goes into temporary files. 0: no bound */
    FILE *save;            /* a copy of the result is written there (saved.h); NULL: none */
    uint64_t cold_ns; /* wait for this time first (SIGINT ends it), and find the blocks that were
                         not written meanwhile; 0: no */
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* may be NULL */
    void *progress_arg;
};

struct heap_arena {
    uint64_t address, attached_threads;
    bool main;
    uint32_t heaps;
    uint64_t system_bytes; /* obtained from the system: the next four add up to it */
    uint64_t used_bytes, free_bytes, cached_bytes, own_bytes;
    uint64_t used_blocks, free_blocks, cached_blocks;
    uint64_t top_bytes; /* the part of free_bytes at the end */
};

enum heap_read {
    HEAP_READ_UNKNOWN, /* the heap was saved by an earlier version */
    HEAP_READ_PART,    /* some memory that may hold blocks, or refer to them, was not read */
    HEAP_READ_WHOLE
};

struct heap_facts {
    uint32_t pid;       /* 0: not known */
    const char *source; /* "snapshot", "stopped", "core" */
    uint64_t stopped_ns;
    bool verified; /* not of a heap that was read in part */
    enum heap_read read;
    const char *reason;    /* why not verified; "" */
    const char *note;      /* about the target; "" */
    const char *allocator; /* file that holds it */
    uint32_t threads, caches;
    uint64_t blocks, used_bytes; /* blocks of the program; bytes that it may use of them */
    uint64_t free_bytes;         /* as of mallinfo2 */
    uint64_t cached_bytes;       /* in threads' caches */
    /* The resident part of free_bytes; an upper bound if not resident_known, as for a core: */
    bool resident_known;
    uint64_t trimmable_bytes; /* malloc_trim(0) would return these to the kernel */
    uint64_t pinned_bytes;    /* on pages that also hold blocks in use */
    uint64_t kept_bytes;      /* on wholly free pages that malloc_trim does not return */
    uint64_t own_bytes;       /* headers, and what the allocator keeps for itself */
    uint64_t mapped_blocks, mapped_bytes, mapped_system_bytes;
    uint64_t pool_blocks, pool_used_bytes,
        pool_bytes;     /* the pools of Python's own allocator; the first two are part of blocks and
                           used_bytes */
    uint64_t moment_ns; /* CLOCK_REALTIME when the process was looked at; 0: not known */
    bool loaded;        /* from a saved heap */
    uint64_t references;
    uint64_t file_bytes; /* the most bytes of tables that lay in temporary files; 0: none */
    uint64_t unreachable_bytes, unreachable_blocks; /* 0 unless verified */
    /* Python's garbage that its collector has not yet freed; 0 unless verified */
    uint64_t garbage_bytes, garbage_blocks;
    const struct heap_arena *arenas;
    size_t arena_count;
    bool recorded; /* a recording or samples know who allocated blocks */
    bool sampled;  /* samples, which know some blocks only */
    bool
        only_recorded; /* the blocks are those of the recording too: the allocator is not glibc's */
    uint32_t image;    /* number of the process in the recording */
    uint64_t known_blocks, known_bytes; /* blocks whose allocation is known */
    /* Results of heap_options.cold_ns: blocks on no page that was written meanwhile. */
    const char *cold_source; /* how the kernel saw it: "idle", "userfaultfd", "soft-dirty"; NULL:
                                not asked for */
    bool cold_reads;         /* reads count as well as writes */
    uint64_t cold_ns;        /* the time that was watched */
    uint64_t cold_blocks, cold_bytes; /* their part that is in memory */
    uint64_t cold_swapped_bytes;      /* their part that is in swap */
};

/* Reads a heap. target: a process id, or the path of a core file or of a saved heap. Returns
 * NULL with *err. */
struct heap *heap_read(const char *target, const struct heap_options *options, struct error *err);
void heap_free(struct heap *h); /* NULL is fine */
const struct heap_facts *heap_facts(const struct heap *h);

/* Returns the method by which the kernel would see the memory that a process touches
 * (heap_options.cold_ns): "idle", which sees reads as well, "userfaultfd" or "soft-dirty"; NULL
 * with the reason if there is none. */
const char *heap_cold_way(char *reason, size_t room);

enum heap_by { HEAP_BY_TYPE, HEAP_BY_ROOT, HEAP_BY_SIZE, HEAP_BY_SITE };

struct heap_ages {         /* ages of blocks, where a recording or samples know them */
    uint64_t known_blocks; /* 0: then the rest is 0, too */
    uint64_t oldest_ns, youngest_ns, mean_ns; /* to 17 ms */
};

struct heap_row {
    const char *name;
    const char *kind;            /* a root's kind: "variable", "data", ...; else "" */
    const char *module;          /* the module of a root; else "" */
    const char *file, *declared; /* a variable's file and declared type, for a root that is one;
                                    else, or where that is not known, "" */
    unsigned line;               /* in file; 0 when not known */
    uint64_t blocks, bytes;      /* its own; for a root: blocks and bytes that it reaches first */
    uint64_t retained_bytes,
        retained_blocks;         /* freed if the row's blocks, or the root, went away */
    uint64_t size_min, size_max; /* for HEAP_BY_SIZE */
    struct heap_ages ages;       /* not known for a root */
    uint32_t group;              /* the number of the type or root, for the links below */
};

/* Returns the rows, which belong to h, sorted by retained bytes, largest first (sizes:
 * ascending; for sites use heap_sites). Returns NULL with *count 0 if there are none, or without
 * memory; then err->kind is not ERROR_NONE. */
const struct heap_row *heap_table(struct heap *h, enum heap_by by, size_t *count,
                                  struct error *err);

struct heap_site {  /* blocks that one call stack made */
    uint32_t stack; /* node of the recording's process; 0: not known */
    uint64_t blocks, bytes, retained_bytes, retained_blocks;
    uint64_t unreachable_blocks, unreachable_bytes;
    struct heap_ages ages;
};

/* Returns the call sites, as heap_table does; none without a recording. Samples give only the
 * known sites. */
const struct heap_site *heap_sites(struct heap *h, size_t *count, struct error *err);

struct heap_group {
    const char
        *name; /* the name of the type, or of the root that reaches the blocks first; else "" */
    const char *kind, *module; /* a root's; else "" */
    uint32_t stack;            /* the stack of HEAP_BY_SITE; 0: not known, or a thread's cache */
};

struct heap_pin { /* blocks of a group that share pages with free memory */
    struct heap_group group;
    uint64_t blocks, free_bytes; /* their share of the free bytes of those pages */
};

/* Returns the groups that keep free memory from being returned to the kernel, as heap_table
 * does, largest first. None by size, nor by site without a recording. */
const struct heap_pin *heap_pins(struct heap *h, enum heap_by by, size_t *count, struct error *err);

struct heap_leak {
    uint64_t address, bytes, blocks; /* bytes, blocks: with the blocks that only it reaches */
    const char *type;                /* the type of the block at address */
    uint32_t stack;                  /* the stack that made it; 0: not known */
    uint32_t number;                 /* the number of that block */
};

/* Returns the number of groups of unreachable blocks; 0 unless the heap was verified. Groups are
 * sorted, the largest first. */
size_t heap_leaks(struct heap *h);
void heap_leak(const struct heap *h, size_t index, struct heap_leak *leak);

struct heap_step { /* on a way, or a referrer */
    bool is_root;
    uint64_t address; /* the block's address; of a root its variable's */
    uint64_t bytes;
    uint64_t retained_bytes;
    const char *type;   /* the type of a block; of a root: its kind */
    const char *name;   /* the name of a root; else "" */
    const char *module; /* the module of a root; else "" */
};

struct heap_cold { /* blocks of a group; of heap_facts.cold_bytes */
    struct heap_group group;
    uint64_t cold_blocks, cold_bytes;
    uint64_t blocks, bytes; /* the whole group's */
};

/* Returns the groups with memory that was not written, as heap_table does, largest first. Their
 * bytes add up to cold_bytes. None if heap_options.cold_ns was 0, by size, nor by site without a
 * recording. */
const struct heap_cold *heap_cold(struct heap *h, enum heap_by by, size_t *count,
                                  struct error *err);

enum heap_found {
    HEAP_FOUND,
    HEAP_FREE,       /* the address lies in free memory of the heap */
    HEAP_OUTSIDE,    /* in no block */
    HEAP_UNREACHABLE /* nothing leads there */
};

/* Finds the shortest way from the strongest root to the block that holds the address, the root
 * first. The caller frees *steps. HEAP_UNREACHABLE: *steps has the block alone. Returns -1
 * without memory. */
int heap_why(struct heap *h, uint64_t address, struct heap_step **steps, size_t *count,
             enum heap_found *found);

/* Lists the block that holds the address, and then its referrers. As heap_why. */
int heap_who(struct heap *h, uint64_t address, struct heap_step **steps, size_t *count,
             enum heap_found *found);

struct heap_node {   /* a node of the dominator tree */
    uint32_t parent; /* index of its dominator in the list; UINT32_MAX: none */
    uint32_t number;
    struct heap_step step;
    uint64_t retained_blocks;
    bool unreachable;
};

/* Lists the largest nodes of the dominator tree, parents before children; at most `most`, at
 * most HEAP_TREE_DEPTH deep. The caller frees *nodes. Returns -1 without memory. */
enum { HEAP_TREE_DEPTH = 24 };
int heap_tree(struct heap *h, size_t most, struct heap_node **nodes, size_t *count);

/* ---- who refers to whom, by group ----
 *
 * A group is a type or a root: heap_row.group. */

struct heap_link { /* references of blocks of one group, or of a root, to blocks of a type */
    uint32_t from, to;
    uint64_t references;
    uint64_t blocks; /* blocks that the references lead to */
};

/* Lists all links, sorted by the group that they lead to, most references first. The caller
 * frees *links. Returns -1 without memory. */
int heap_links(const struct heap *h, struct heap_link **links, size_t *count);

/* ---- many ways at once ----
 *
 * A number names a root or a block: heap_node.number, heap_leak.number, heap_examples. */

struct heap_hop { /* a step of a way, or a referrer */
    uint32_t group, number;
    uint64_t address, bytes; /* as of heap_step */
};

/* Computes the shortest way from the strongest root to every block; for an unreachable block,
 * from the first block of its group. Free it before the heap. NULL without memory. */
struct heap_ways *heap_ways_make(const struct heap *h);
/* Writes the way to a number, the root first: at most `most` hops; the middle of a longer way is
 * left out. Returns the length of the way. */
size_t heap_way(const struct heap_ways *w, uint32_t number, struct heap_hop *hops, size_t most);
void heap_ways_free(struct heap_ways *w); /* NULL is fine */

/* Writes at most `most` referrers of a number. Returns how many it has. */
size_t heap_hop_referrers(const struct heap *h, uint32_t number, struct heap_hop *hops,
                          size_t most);

/* Returns, by type, the number of the block of the type that retains most; 0: none. The caller
 * frees it. NULL without memory. */
uint32_t *heap_examples(const struct heap *h);

struct heap_cell {        /* a piece of the address space in which blocks lie */
    uint64_t address;     /* a multiple of the cells' size */
    uint64_t used_bytes;  /* bytes of the program's blocks */
    uint64_t other_bytes; /* free blocks, threads' caches, headers and the allocator's own */
};

/* Divides the memory of the heap into cells of equal size, sorted by address. *cell_bytes is the
 * smallest page size times a power of two with which there are at most `most` cells. The
 * used_bytes of all cells add up to those of the facts. The caller frees *cells. Returns -1
 * without memory. */
int heap_map(const struct heap *h, size_t most, struct heap_cell **cells, size_t *count,
             uint64_t *cell_bytes);

#endif
