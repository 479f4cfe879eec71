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
    uint32_t known;     /* numbers below are real types; from here on, sizes and referrers */
    struct index index; /* private: of names */
    struct intern names;
};

/* Makes types of marks, in place: mark[block] becomes the number of its type, or TYPE_UNKNOWN.
 * Needs the target's memory. -1 when out of memory. */
int types_resolve(struct types *y, uint32_t *mark, struct target *t, const struct walk *w,
                  const struct images *images, const struct modules *modules,
                  struct variables *variables);

/* The types by number of the graph, of which those of TYPE_UNKNOWN have a name by their size and a
 * referrer (spill_free). type: by block. threads: that name at once. NULL when out of memory. */
uint32_t *types_rest(struct types *y, const uint32_t *type, const struct walk *w,
                     const struct graph *g, const struct roots *roots, unsigned threads);

void types_release(struct types *y);

/* For the parts: the number of a name, made when it is new; 0 when out of memory. */
uint32_t types_number(struct types *y, const char *name);

/* types_cxx.c: writes the class whose virtual table this address is in; false: it is not one. */
bool types_cxx_name(struct target *t, const struct modules *modules, struct variables *variables,
                    uint64_t address, char *name, size_t room);
/* types_python.c: the name of the Python type whose type object this is. */
bool types_python_name(struct target *t, uint64_t address, char *name, size_t room);
/* Makes weak the links of the list that every object of Python's garbage collector is in: an object
 * that only they lead to is garbage that was not yet collected. -1: out of memory. */
int types_python_links(struct types *y, const uint32_t *type, struct target *t,
                       const struct walk *w, struct scan *scan);

/* Types the instances, among blocks of TYPE_UNKNOWN, of classes that are blocks themselves. -1: out
 * of memory. */
int types_python_instances(struct types *y, uint32_t *type, struct target *t, const struct walk *w);

#endif
