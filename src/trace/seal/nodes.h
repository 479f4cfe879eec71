/* nodes.h - the nodes of an image's stacks while it is sealed: from the recorder's ids to dense
 * ones.
 *
 * The recorder's table of nodes is bounded, so a node that comes again after others may be
 * announced again, by another id; and its threads do not wait for each other. Ids of one meaning
 * have one dense id. Owns: which ids mean the same. Memory: 4 bytes an id, about 40 a meaning. One
 * thread. */
#ifndef MALLOW_TRACE_SEAL_NODES_H
#define MALLOW_TRACE_SEAL_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

struct node {
    uint64_t pc;
    uint32_t parent, module; /* the recorder's ids; parents of one meaning have one id here */
    uint8_t flags;
    bool known;     /* false: it was used and not announced (yet) */
    uint32_t id;    /* the recorder's, of the first that was announced with this meaning */
    uint32_t dense; /* 0: not used yet */
};

#define NODES_PAGE_BITS 12

struct nodes {
    uint32_t **pages; /* by the recorder's id: index into all[], 0: none */
    uint32_t page_count, pages_made;
    struct nodes_apart {
        uint32_t id, at; /* the recorder's; index into all[], 0: none */
    } * apart;           /* ids without a page: they lie too far from others */
    size_t apart_count, apart_room;
    struct index by_id; /* places in apart[] by id */
    size_t ids;         /* that were used or announced */
    struct node *all;   /* [0] is none */
    size_t count, cap;
    uint32_t *places; /* a hash by meaning: indices into all[]; 0: free */
    size_t place_count, place_cap;
};

/* Returns the index into all[] of an id that is not on a page; 0: none. */
uint32_t nodes_find_apart(const struct nodes *t, uint32_t id);

/* Returns the node of an id; NULL if it was neither announced nor used. */
static inline struct node *nodes_find(const struct nodes *t, uint32_t id)
{
    const uint32_t page = id >> NODES_PAGE_BITS;
    const uint32_t *ids = page < t->page_count ? t->pages[page] : NULL;
    uint32_t i = ids ? ids[id & ((1u << NODES_PAGE_BITS) - 1)] : 0;
    if (!i && t->apart_count)
        i = nodes_find_apart(t, id);
    return i ? &t->all[i] : NULL;
}

/* Returns the node of an id, and makes it if it is used before it is announced. NULL without
 * memory. */
struct node *nodes_use(struct nodes *t, uint32_t id);

/* Sets pc, parent, module and flags of the recorder's node `id`, which is not 0. Returns 1 if it
 * had another meaning before, 0 otherwise, or -1 without memory. */
int nodes_announce(struct nodes *t, uint32_t id, const struct node *meaning);

void nodes_free(struct nodes *t);

#endif
