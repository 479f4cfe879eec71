/* diff.h - what changed between two heaps: by type and by holder. */
#ifndef MALLOW_HEAP_SHOW_DIFF_H
#define MALLOW_HEAP_SHOW_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "heap/heap.h"

/* Prints the difference on standard output. top: rows of a table. Returns 0, or -1 with *err
 * without memory. */
int heap_diff_text(struct heap *old, struct heap *new, uint64_t top, struct error *err);
int heap_diff_json(struct heap *old, struct heap *new, uint64_t top, struct error *err);

/* Writes the difference as a page to the file at path. names: the two heaps, as the user named
 * them. */
int heap_diff_page(struct heap *old, struct heap *new, char *const names[2], uint64_t top,
                   const char *path, struct error *err);

#endif
