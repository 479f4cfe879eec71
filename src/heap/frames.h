/* frames.h - which function's frame a word on a stack lies in.
 *
 * Owns: following a thread's callers with the call frame information of the files that are mapped
 * (only of the very file, by build-id). Everything on a stack is hostile: frames lie side by side,
 * rise, and stay inside the stack. One thread. */
#ifndef MALLOW_HEAP_FRAMES_H
#define MALLOW_HEAP_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "heap/module.h"
#include "remote/target.h"
#include "heap/variables.h"

enum { FRAMES_MAX = 256 };

struct stack_frame { /* the words [start, end) */
    uint64_t start, end;
    const char *function; /* demangled; belongs to the variables; NULL: no name is known */
    const char *module;   /* the name of the file of the function */
};

struct frames;

/* The arguments must outlive the result. Returns NULL without memory. */
struct frames *frames_new(struct target *t, const struct modules *modules,
                          struct variables *variables);
void frames_free(struct frames *f); /* NULL is fine */

/* Finds the frames of a stopped thread between its stack pointer and `end`, innermost first.
 * Returns how many; it stops where a caller cannot be found. */
size_t frames_of(struct frames *f, const struct target_thread *thread, uint64_t end,
                 struct stack_frame frame[FRAMES_MAX]);

#endif
