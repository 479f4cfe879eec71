/* heap_impl.h - what the parts of a struct heap share. Private to src/heap. */
#ifndef MALLOW_HEAP_HEAP_IMPL_H
#define MALLOW_HEAP_HEAP_IMPL_H

#include "heap/graph.h"
#include "heap/heap.h"
#include "heap/pages.h"
#include "heap/recorded.h"
#include "heap/roots.h"
#include "heap/types.h"
#include "heap/walk.h"

#define HEAP_AGE_NS ((uint64_t)1 << 24) /* ages up to two years, to 17 ms */

struct heap {
    struct heap_facts facts;
    char reason[256], note[1024];
    char allocator[256];
    struct heap_arena *arenas;
    struct walk walk;
    struct pages pages;
    struct roots roots;
    struct types types;
    uint32_t *type; /* by number; of one that is no block: 0 */
    struct graph graph;
    struct heap_row *rows[HEAP_BY_SITE + 1];
    size_t row_count[HEAP_BY_SITE + 1];
    char *size_names;
    struct heap_recorded recorded;
    uint32_t *stack; /* by block, of the recording; NULL: there is none */
    uint32_t *age;   /* by block, in units of HEAP_AGE_NS, plus 1; 0: not known. NULL with stack */
    struct heap_site *sites;
    size_t site_count;
    struct heap_pin *pins[HEAP_BY_SITE + 1];
    size_t pin_count[HEAP_BY_SITE + 1];
    uint32_t *cold; /* by block: its bytes in memory that were not written, in units of 8; NULL:
                       not asked for */
    struct heap_cold *cold_rows[HEAP_BY_SITE + 1];
    size_t cold_count[HEAP_BY_SITE + 1];
};

/* Returns the type of a block; of a block without a number: not known. */
static inline uint32_t heap_type_of(const struct heap *h, uint32_t block)
{
    return h->type[h->graph.number[block]];
}

/* tables.c: returns by block the root that reaches it first; two more numbers behind the roots
 * mean: only the collector's list, and nothing. The caller calls spill_free. NULL without
 * memory. */
uint32_t *heap_first_roots(const struct heap *h);
/* Describes a group: a type, a stack, or a number of heap_first_roots. */
struct heap_group heap_group_of(const struct heap *h, enum heap_by by, uint32_t group);

/* links.c: returns the group of a number, as in heap_row.group. */
uint32_t heap_link_group(const struct heap *h, uint32_t number);

/* Describes a number for people. */
void heap_describe(const struct heap *h, uint32_t number, struct heap_step *step);
const char *heap_root_kind(enum root_kind kind);

/* cold_tables.c: finds the blocks that were not written, while the target's pages can still be
 * asked for. Returns -1 without memory. */
struct cold;
int cold_mark(struct heap *h, struct target *t, const struct cold *c);

#endif
