/* containers.h - the containers of the GNU C++ library, known by their structure.
 *
 * Owns: finding headers, and the proof: every node is reached from the header and refers back as it
 * must, and there are as many as the header counts. A container holds its nodes, so references to
 * nodes from elsewhere (iterators, and stale words of memory that was not cleared) become weak. One
 * thread. */
#ifndef MALLOW_HEAP_CONTAINERS_H
#define MALLOW_HEAP_CONTAINERS_H

#include "heap/roots.h"
#include "heap/scan.h"
#include "remote/target.h"
#include "heap/types.h"

/* True if the program has that library. */
bool containers_possible(const struct modules *modules);

/* Names nodes and the blocks of strings, vectors, deques and hash tables that were sighted in
 * `type`, marks references in scan->weak, and takes those of roots out. Needs the target's memory.
 * -1 when out of memory. */
int containers_find(struct types *y, uint32_t *type, struct target *t, const struct walk *w,
                    const struct modules *modules, struct variables *variables, struct scan *scan,
                    struct roots *roots);

#endif
