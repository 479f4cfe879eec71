/* nodes.c - Maps the recorder's ids of stack nodes to dense ids, one for each meaning. Dense ids
 * may already stand in the file, so a node keeps its number when an id changes its meaning. */
#include "nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* So many pages there may be without ids to fill them, and so many ids make room for another. */
#define PAGES_FREE   64u
#define IDS_FOR_PAGE 64u

static struct nodes_apart *find_apart(const struct nodes *t, uint32_t id)
{
    size_t at = INDEX_START;
    uint32_t i;
    while ((i = index_next(&t->by_id, id, &at)) != INDEX_NONE)
        if (t->apart[i].id == id)
            return &t->apart[i];
    return NULL;
}

uint32_t nodes_find_apart(const struct nodes *t, uint32_t id)
{
    const struct nodes_apart *a = find_apart(t, id);
    return a ? a->at : 0;
}

/* The page of an id, made when ids are dense enough. *made: NULL: they are not. 0, or -1 without
 * memory. */
static int page_of_id(struct nodes *t, uint32_t id, uint32_t **made)
{
    const uint32_t page = id >> NODES_PAGE_BITS;
    *made = page < t->page_count ? t->pages[page] : NULL;
    if (*made || t->pages_made >= PAGES_FREE + t->ids / IDS_FOR_PAGE)
        return 0;
    if (page >= t->page_count) {
        uint32_t n = t->page_count ? t->page_count : 16;
        while (n <= page)
            n *= 2;
        uint32_t **p = realloc(t->pages, n * sizeof *p);
        if (!p)
            return -1;
        memset(p + t->page_count, 0, (n - t->page_count) * sizeof *p);
        t->pages = p;
        t->page_count = n;
    }
    if (!(*made = calloc(1u << NODES_PAGE_BITS, sizeof(uint32_t))))
        return -1;
    t->pages[page] = *made;
    t->pages_made++;
    return 0;
}

/* Where the index of an id's node stands: on its page, or apart. NULL without memory. */
static uint32_t *place_of_id(struct nodes *t, uint32_t id)
{
    uint32_t *page;
    if (page_of_id(t, id, &page))
        return NULL;
    uint32_t *at = page ? &page[id & ((1u << NODES_PAGE_BITS) - 1)] : NULL;
    if (at && *at)
        return at;
    struct nodes_apart *a = t->apart_count ? find_apart(t, id) : NULL;
    if (a)
        return &a->at;
    if (!at) {
        if (!ARRAY_ROOM(t->apart, t->apart_count + 1, t->apart_room) ||
            !index_add(&t->by_id, id, (uint32_t)t->apart_count))
            return NULL;
        t->apart[t->apart_count] = (struct nodes_apart){.id = id};
        at = &t->apart[t->apart_count++].at;
    }
    t->ids++;
    return at;
}

/* A node of its own for an id. NULL without memory. */
static struct node *add_own_node(struct nodes *t, uint32_t id, uint32_t *at)
{
    if (!t->count && !ARRAY_ADD(t->all, t->count, t->cap))
        return NULL;
    struct node *n = t->count < UINT32_MAX ? ARRAY_ADD(t->all, t->count, t->cap) : NULL;
    if (!n)
        return NULL;
    n->id = id;
    *at = (uint32_t)(t->count - 1);
    return n;
}

struct node *nodes_use(struct nodes *t, uint32_t id)
{
    uint32_t *at = place_of_id(t, id);
    if (!at)
        return NULL;
    return *at ? &t->all[*at] : add_own_node(t, id, at);
}

static size_t hash_node(const struct node *n)
{
    uint64_t a = (uint64_t)n->parent | (uint64_t)n->module << 32 | (uint64_t)n->flags << 56;
    uint64_t h = (a ^ n->pc * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    return (size_t)(h ^ h >> 32);
}

static bool same(const struct node *a, const struct node *b)
{
    return a->pc == b->pc && a->parent == b->parent && a->module == b->module &&
           a->flags == b->flags;
}

/* Where the index of a node with this meaning stands, or belongs. */
static uint32_t *node_place(const struct nodes *t, const struct node *meaning)
{
    size_t h = hash_node(meaning) & (t->place_cap - 1);
    while (t->places[h] && !same(&t->all[t->places[h]], meaning))
        h = (h + 1) & (t->place_cap - 1);
    return &t->places[h];
}

/* Room for one more place. 0, or -1 without memory. */
static int make_node_room(struct nodes *t)
{
    if (t->place_count * 2 < t->place_cap)
        return 0;
    size_t cap = t->place_cap ? t->place_cap * 2 : 64;
    while (cap / 2 < t->count) /* more nodes than places, when ids changed their meaning */
        cap *= 2;
    uint32_t *places = calloc(cap, sizeof *places);
    if (!places)
        return -1;
    free(t->places);
    t->places = places;
    t->place_cap = cap;
    t->place_count = 0;
    for (size_t i = 1; i < t->count; i++) {
        uint32_t *at = t->all[i].known ? node_place(t, &t->all[i]) : NULL;
        if (!at || *at)
            continue; /* the first of those that mean the same */
        *at = (uint32_t)i;
        t->place_count++;
    }
    return 0;
}

/* Frees the place of a node whose meaning ends. What stands behind it moves up, so that a search
 * for it does not end here. */
static void vacate_place(struct nodes *t, uint32_t *place)
{
    const size_t mask = t->place_cap - 1;
    size_t hole = (size_t)(place - t->places);
    for (size_t i = (hole + 1) & mask; t->places[i]; i = (i + 1) & mask) {
        const size_t home = hash_node(&t->all[t->places[i]]) & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        t->places[hole] = t->places[i];
        hole = i;
    }
    t->places[hole] = 0;
    t->place_count--;
}

int nodes_announce(struct nodes *t, uint32_t id, const struct node *meaning)
{
    struct node n = *meaning;
    uint32_t *at = make_node_room(t) ? NULL : place_of_id(t, id);
    if (!at)
        return -1;
    const struct node *parent = n.parent ? nodes_find(t, n.parent) : NULL;
    if (parent)
        n.parent = parent->id;
    uint32_t *place = node_place(t, &n);
    if (*at && *at == *place)
        return 0;
    /* A node that this id made keeps its dense id, which may stand in the file. */
    struct node *own = *at && t->all[*at].id == id ? &t->all[*at] : NULL;
    const bool changed = own && own->known && !same(own, &n);
    if (!own && *place) {
        *at = *place;
        return 0;
    }
    if (changed) {
        uint32_t *old = node_place(t, own);
        if (*old == *at)
            vacate_place(t, old);
        place = node_place(t, &n);
    }
    if (!own && !(own = add_own_node(t, id, at)))
        return -1;
    own->pc = n.pc;
    own->parent = n.parent;
    own->module = n.module;
    own->flags = n.flags;
    own->known = true;
    if (!*place) {
        *place = *at;
        t->place_count++;
    }
    return changed;
}

void nodes_free(struct nodes *t)
{
    for (uint32_t i = 0; i < t->page_count; i++)
        free(t->pages[i]);
    free(t->pages);
    free(t->apart);
    index_release(&t->by_id);
    free(t->all);
    free(t->places);
    memset(t, 0, sizeof *t);
}
