/* argument.h - the text by which a static probe describes an argument, such as "8@16+mp_(%rip)".
 *
 * Owns: every form that compilers write for x86-64: registers, constants, memory by base, index,
 * scale and offset, symbols relative to %rip. Pure functions, any thread. */
#ifndef MALLOW_PROBE_ARGUMENT_H
#define MALLOW_PROBE_ARGUMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/arenas.h"

/* The address of a symbol in the ELF file of the probe; false when there is none. */
typedef bool (*argument_symbol)(void *arg, const char *name, uint64_t *address);

/* Reads the first argument of `text`, of a probe at `address` in the ELF file. Returns the text
 * behind it and its blanks, NULL when it cannot be parsed. */
const char *argument_parse(const char *text, uint64_t address, argument_symbol symbol, void *arg,
                           struct arenas_argument *argument);

#endif
