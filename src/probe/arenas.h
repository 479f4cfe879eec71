/* arenas.h - what glibc's allocator did inside: arenas, heaps, waits, thresholds.
 *
 * Owns: what `mallow probe arenas` found, by process; the state that its events amount to. One
 * thread. */
#ifndef MALLOW_PROBE_ARENAS_H
#define MALLOW_PROBE_ARENAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/arenas.h"

struct probe_arena {
    uint64_t address;
    bool main;
    uint32_t *thread; /* those that use it now, or did when the process ended */
    size_t threads;
};

struct arena_heap {
    uint64_t address, bytes;
    uint64_t arena; /* that it belongs to; 0: not known */
};

struct arena_waits {
    uint32_t tid;
    uint64_t count;
};

struct arena_moment {
    uint64_t time_ns; /* from the start of the probe */
    uint32_t tid;
    uint32_t probe; /* enum arenas_probe */
    unsigned known; /* how many of the arguments, from the first on */
    int64_t argument[ARENAS_ARGUMENTS];
};

/* One process's state, since its last exec. */
struct arenas_process {
    uint32_t pid;
    int64_t sbrk_bytes; /* grown less given back */
    uint64_t mmap_threshold_bytes, trim_threshold_bytes;
    struct probe_arena *arena;
    size_t arenas;
    struct arena_heap *heap; /* in the order in which they were made */
    size_t heaps;
    struct arena_waits *wait;
    size_t waits;
    uint64_t lock_waits;         /* for any lock of an arena; 0 where the source does not say */
    struct arena_moment *moment; /* changes, in the order of time */
    size_t moments;
    uint64_t main_arena; /* 0: not known */
    uint64_t heap_bytes; /* the most that its heaps grow to, where the source says it; else 0 */
};

/* The meaning of `wait`. */
enum arenas_waits {
    ARENAS_WAITS_REUSE, /* waits to reuse an arena */
    ARENAS_WAITS_LOCK,  /* waits for the lock of any arena */
    ARENAS_WAITS_OTHER, /* waits for any arena but the main one */
    ARENAS_WAITS_NONE   /* the source cannot see them */
};

enum { ARENAS_NOT_SEEN_MAX = 4 };

struct arenas {
    struct arenas_process *process;
    size_t processes;
    enum arenas_waits waits;
    const char *const *not_seen; /* facts that the source cannot see, ARENAS_NOT_SEEN_MAX, NULL
                                    behind the last; NULL: all is seen */
    bool failed;                 /* out of memory: something is missing */
};

/* Takes an event of the kernel side. Raw ones become those of glibc. Returns the moment that it is
 * for a reader, NULL when it changes nothing; valid until the next call. */
const struct arena_moment *arenas_take(struct arenas *a, const struct arenas_event *e,
                                       uint64_t start_ns);
void arenas_release(struct arenas *a);

/* The entry of a process, added if it was missing; NULL: out of memory. */
struct arenas_process *arenas_process(struct arenas *a, uint32_t pid);
/* Nothing is known of it, as when it has just begun. */
void arenas_forget(struct arenas *a, uint32_t pid);
/* The child of a fork begins with what its parent has; of the threads it has one, which uses
 * `arena` (0: the main one). */
#define ARENAS_NO_ARENA UINT64_MAX
void arenas_fork(struct arenas *a, uint32_t parent, uint32_t child, uint64_t arena);
/* The main arena, which stood at address 0 until now, lies there. */
void arenas_name_main(struct arenas *a, uint32_t pid, uint64_t address);
/* The arena at that address, entered without threads if it was not there; NULL: out of memory. */
struct probe_arena *arenas_enter(struct arenas *a, struct arenas_process *p, uint64_t address);
struct probe_arena *arenas_find(struct arenas_process *p, uint64_t address); /* NULL: not known */
struct arena_heap *arenas_find_heap(struct arenas_process *p, uint64_t address);

/* "memory_heap_new" without memory_; for enum arenas_probe below ARENAS_PROBES. */
const char *arenas_name(uint32_t probe);
/* How many arguments it has. */
unsigned arenas_argument_count(uint32_t probe);
/* True if its first argument is a new value of a setting, and the others say how it was before. */
bool arenas_is_setting(uint32_t probe);
/* The number of a probe by glibc's name; ARENAS_PROBES when it is none. */
uint32_t arenas_number(const char *name);

#endif
