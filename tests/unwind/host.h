/* host.h - the smallest host that the unwinder can live in, and the probe that tests call.
 *
 * Owns: an in-memory record of every node and module announced. Threads: any. */
#ifndef MALLOW_TESTS_UNWIND_HOST_H
#define MALLOW_TESTS_UNWIND_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "preload/unwind/unwind.h"

/* The door of preload/sys.h, which a test may close. */
extern volatile uint32_t sys_closed __attribute__((visibility("hidden")));

struct host_node {
    uint64_t pc;
    uint32_t parent, module;
    unsigned flags;
};
struct host_module {
    uint64_t start, end, bias;
    size_t build_id_bytes;
    int gone; /* how often it vanished */
    char path[256];
};

struct host_node host_node(uint32_t id);
uint32_t host_nodes(void);
struct host_module *host_module(uint32_t id);
uint32_t host_modules(void);
uint64_t host_truncations(void);

/* Calls unwind_init as the recorder would. */
void host_init(void);

/* In assembly: hands rsp and rbp at its entry to probe_at, which compares with backtrace(). */
void probe(void);
void probe_at(uint64_t sp, uint64_t bp);

/* This thread's state, made on first use; host_adopt gives it one instead. */
struct unwind_thread *host_thread(void);
void host_adopt(struct unwind_thread *state);

/* How often this process compared, and how often the two disagreed. */
extern uint64_t probe_count, probe_wrong;
/* Whether the next probes of this thread may end in a truncation mark, or go on where backtrace()
 * gave up. */
extern _Thread_local int probe_may_be_cut;
/* Set by each probe: the innermost node, the number of frames (a truncation mark is none) and
 * whether there is such a mark. */
extern _Thread_local uint32_t probe_node, probe_depth;
extern _Thread_local int probe_cut;

/* Prints the counts and returns the exit status of the test: 0 when nothing disagreed in at least
 * `least` comparisons. */
int host_verdict(uint64_t least);

#endif
