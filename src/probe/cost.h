/* cost.h - how long a probe of a function keeps the program, measured on this machine.
 *
 * The kernel executes some instructions itself (push, for one); others it lets the program execute
 * aside, which takes a second trap and, in a virtual machine, ten times as long. So what a probe
 * costs depends on the instruction that it stands on. Measured are probes of two functions of this
 * program, which no other code calls. Tools only; one thread. */
#ifndef MALLOW_PROBE_COST_H
#define MALLOW_PROBE_COST_H

#include <stdbool.h>
#include <stdint.h>

struct bpf_program;

struct cost {
    uint64_t entry_ns;       /* at an instruction that the kernel executes itself */
    uint64_t entry_aside_ns; /* at another one */
    uint64_t return_ns;      /* the cost that a probe of the return adds */
};

/* Attaches both programs, which are loaded and look for other processes than this one, for some
 * milliseconds. False: it cannot be measured here. */
bool cost_measure(struct bpf_program *entry, struct bpf_program *on_return, struct cost *cost);

/* True if the kernel has the instruction at this offset of a file executed aside. */
bool cost_is_aside(const char *path, uint64_t offset);

/* True if probes that are limited to this process (uprobe_multi) are met by all of its threads:
 * kernels from 6.6 to 6.9 may leave out all but the first. */
bool cost_threads_meet_probes(void);

#endif
