/* roots.h - where references into the heap come from that are not in the heap.
 *
 * Owns: which memory outside of the heap is looked at, what a root is called, and the order of
 * strength: what a root of a weaker kind refers to counts only where no stronger one reaches. */
#ifndef MALLOW_HEAP_ROOTS_H
#define MALLOW_HEAP_ROOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "heap/glibc.h"
#include "heap/module.h"
#include "heap/sighting.h"
#include "remote/target.h"
#include "heap/variables.h"
#include "heap/walk.h"
#include "symbol/intern.h"

enum root_kind { /* the strongest first */
                 ROOT_VARIABLE,
                 ROOT_DATA,   /* data of a module, without a name */
                 ROOT_THREAD, /* thread-local variables */
                 ROOT_STACK,
                 ROOT_REGISTERS,
                 ROOT_MEMORY, /* other memory of the process */
                 ROOT_KINDS
};

struct root {
    enum root_kind kind;
    const char
        *name; /* the name of the variable, of the function whose frame it is, of the thread */
    const char *module; /* "" when there is none */
    const char *file;   /* where the variable is declared; "" when that is not known */
    const char *type;   /* the type of the variable, as declared there; "" when that is not known */
    unsigned line;      /* in file; 0 when not known */
    uint64_t address;   /* the address of the variable; of the first word */
    uint32_t tid;       /* for roots of threads */
    uint32_t first;     /* the first of its references */
};

struct roots {
    struct root *at; /* by kind; a sentinel behind the last ends its references */
    uint32_t count;
    uint32_t *target; /* numbers of blocks */
    size_t references, target_room, room;
    struct sighting *seen; /* where containers may be */
    size_t seen_count, seen_room;
    struct intern names;
    bool cut; /* the process maps its memory so many times that some of it was not examined */
};

/* sampled: the memory in which its library notes addresses is not a root. Returns 0, or -1 with
 * *err without memory. */
struct heap_sampled; /* sampled.h */
int roots_find(struct roots *r, struct target *t, const struct modules *modules,
               const struct glibc *g, const struct walk *w, struct variables *variables,
               const struct heap_sampled *sampled, struct error *err);
/* Fills in where variables are declared, from the files' debug information. It does not need the
 * target's memory. Returns -1 without memory. */
int roots_declare(struct roots *r, const struct modules *modules, struct variables *variables);
void roots_release(struct roots *r);

#endif
