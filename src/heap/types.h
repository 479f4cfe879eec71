/* types.h - what blocks are.
 *
 * Owns: from the first sign of a block (images.h) to a type's name, and only where it is certain:
 * C++ classes by virtual table, type_info and name, down to the run-time library's own class of
 * type_info; CPython objects by their type object, whose own type is `type`; C objects by the named
 * variable that they point at; text. The rest is called after its size and what refers to it.
 * One thread. */
#ifndef MALLOW_HEAP_TYPES_H
#define MALLOW_HEAP_TYPES_H

#include <stdint.h>

#include "base/index.h"
#include "heap/graph.h"
#include "heap/images.h"
#include "heap/roots.h"
#include "heap/scan.h"
#include "remote/target.h"
#include "heap/variables.h"
#include "heap/walk.h"
#include "symbol/intern.h"

enum { TYPE_UNKNOWN = 0, TYPE_OWN = 1, TYPE_TEXT = 2 };

struct types {
    const char **name; /* by number */
    uint32_t count, room;
    uint32_t
        known; /* numbers below are real types; from here on they stand for sizes and referrers */
    struct index index; /* private: of names */
    struct intern names;
};

/* Turns marks into types, in place: mark[block] becomes the number of its type, or TYPE_UNKNOWN.
 * It needs the target's memory. Returns -1 without memory. */
int types_resolve(struct types *y, uint32_t *mark, struct target *t, const struct walk *w,
                  const struct images *images, const struct modules *modules,
                  struct variables *variables);

/* Returns the types by number of the graph. Blocks of TYPE_UNKNOWN get a name from their size
 * and a referrer. type: by block. threads: how many work at once. The caller calls spill_free.
 * NULL without memory. */
uint32_t *types_rest(struct types *y, const uint32_t *type, const struct walk *w,
                     const struct graph *g, const struct roots *roots, unsigned threads);

void types_release(struct types *y);

/* For the files types*.c: finds or makes the number of a name; 0 without memory. */
uint32_t types_number(struct types *y, const char *name);

/* types_cxx.c: writes the name of the class whose virtual table holds this address. Returns
 * false if none does. */
bool types_cxx_name(struct target *t, const struct modules *modules, struct variables *variables,
                    uint64_t address, char *name, size_t room);
/* types_python.c: writes the name of the Python type whose type object is at this address.
 * Returns false if none is. */
bool types_python_name(struct target *t, uint64_t address, char *name, size_t room);
/* Marks the links of the list of all objects of Python's garbage collector as weak: an object
 * that only they reach is garbage that was not collected yet. Returns -1 without memory. */
int types_python_links(struct types *y, const uint32_t *type, struct target *t,
                       const struct walk *w, struct scan *scan);

/* Finds instances of Python classes that are heap blocks themselves, among the blocks of
 * TYPE_UNKNOWN, and sets their types. Returns -1 without memory. */
int types_python_instances(struct types *y, uint32_t *type, struct target *t, const struct walk *w);

#endif
