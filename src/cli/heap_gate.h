/* heap_gate.h - `mallow heap --fail-above`: whether too much of a heap is unreachable. */
#ifndef MALLOW_CLI_HEAP_GATE_H
#define MALLOW_CLI_HEAP_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/command.h"
#include "cli/gate.h"
#include "heap/heap.h"

/* The limit of `unreachable=SIZE`; false: the text is none. */
bool heap_gate_limit(const char *text, uint64_t *limit);

/* Says when there is too much, or that it cannot be known. Returns the exit status. */
int heap_gate_judge(const struct command *self, const struct gate_options *options,
                    const char *text, const struct heap_facts *f, uint64_t limit,
                    const char *target);

#endif
