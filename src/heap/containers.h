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

/* True if the program has the GNU C++ library. */
bool containers_possible(const struct modules *modules);

/* Finds containers among the sightings. It names their nodes, and the blocks of strings,
 * vectors, deques and hash tables, in `type`; marks weak references in scan->weak; and removes
 * those of roots. It needs the target's memory. Returns -1 without memory. */
int containers_find(struct types *y, uint32_t *type, struct target *t, const struct walk *w,
                    const struct modules *modules, struct variables *variables, struct scan *scan,
                    struct roots *roots);

#endif
