/* types.c - Names the type of each block: by the sign that the scan found, by its size, and by
 * the block or root that refers to it. Equal signs are resolved once. The threads that name the
 * rest share the table of names under a lock. */
#include "heap/types.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/human.h"
#include "heap/parallel.h"
#include "heap/spill.h"

enum { NAME_ROOM = 4096, SHOWN_MAX = 200, EXACT_MAX = 4096 };

/* --- names and numbers --- */

uint32_t types_number(struct types *y, const char *name)
{
    const uint64_t hash = intern_hash(name, strlen(name), 0);
    uint32_t n;
    for (size_t at = INDEX_START; (n = index_next(&y->index, hash, &at)) != INDEX_NONE;)
        if (!strcmp(y->name[n], name))
            return n;
    if (!ARRAY_ROOM(y->name, y->count + (size_t)2, y->room))
        return 0;
    const char *kept = intern_string(&y->names, name);
    if (!kept)
        return 0;
    if (!y->count)
        y->name[y->count++] = ""; /* number 0 is no type */
    if (!index_add(&y->index, hash, y->count))
        return 0;
    y->name[y->count] = kept;
    return y->count++;
}

/* --- marks --- */

struct resolved { /* marks that were looked at */
    struct resolved_mark {
        uint32_t mark, type;
    } * at;
    uint32_t count, room;
    struct index index;
};

struct resolving {
    struct types *y;
    struct target *t;
    const struct images *images;
    const struct modules *modules;
    struct variables *variables;
    struct resolved resolved;
};

/* A C object that points at a variable by its very address is named after it. */
static bool named_after(struct resolving *r, uint64_t address, char *name, size_t room)
{
    const struct module *m = modules_at(r->modules, address);
    const struct variable *v = m ? variables_find(r->variables, m, address) : NULL;
    if (!v || v->start != address)
        return false;
    snprintf(name, room, "-> %s (%s)", v->shown, m->name);
    return true;
}

static int type_of_mark(struct resolving *r, uint32_t mark, uint32_t *type)
{
    char name[NAME_ROOM];
    uint64_t address = images_address(r->images, mark);
    *type = TYPE_UNKNOWN;
    if (types_cxx_name(r->t, r->modules, r->variables, address, name, sizeof name) ||
        types_python_name(r->t, address, name, sizeof name) ||
        named_after(r, address, name, sizeof name)) {
        *type = types_number(r->y, name);
        return *type ? 0 : -1;
    }
    return 0;
}

static int look_up(struct resolving *r, uint32_t mark, uint32_t *type)
{
    struct resolved *k = &r->resolved;
    uint32_t n;
    for (size_t at = INDEX_START; (n = index_next(&k->index, mark, &at)) != INDEX_NONE;)
        if (k->at[n].mark == mark) {
            *type = k->at[n].type;
            return 0;
        }
    if (type_of_mark(r, mark, type) || !ARRAY_ROOM(k->at, k->count + (size_t)1, k->room) ||
        !index_add(&k->index, mark, k->count))
        return -1;
    k->at[k->count++] = (struct resolved_mark){mark, *type};
    return 0;
}

int types_resolve(struct types *y, uint32_t *mark, struct target *t, const struct walk *w,
                  const struct images *images, const struct modules *modules,
                  struct variables *variables)
{
    struct resolving r = {y, t, images, modules, variables, {0}};
    *y = (struct types){0};
    int status =
        types_number(y, "(glibc's own)") == TYPE_OWN && types_number(y, "text") == TYPE_TEXT ? 0
                                                                                             : -1;
    for (uint32_t i = 0; !status && i < w->blocks.count; i++) {
        if (w->blocks.kind[i] == BLOCK_OWN)
            mark[i] = TYPE_OWN;
        else if (mark[i] == MARK_TEXT)
            mark[i] = TYPE_TEXT;
        else if (mark[i] != MARK_NONE)
            status = look_up(&r, mark[i], &mark[i]);
    }
    free(r.resolved.at);
    index_release(&r.resolved.index);
    if (!status)
        status = types_python_instances(y, mark, t, w);
    y->known = y->count;
    return status;
}

/* --- the rest --- */

static const char *size_text(char out[HUMAN_TEXT_BYTES + 8], uint64_t bytes)
{
    char text[HUMAN_TEXT_BYTES];
    if (bytes <= EXACT_MAX) {
        snprintf(out, HUMAN_TEXT_BYTES + 8, "%" PRIu64 " B", bytes);
        return out;
    }
    uint64_t power = EXACT_MAX;
    while (power * 2 <= bytes)
        power *= 2;
    snprintf(out, HUMAN_TEXT_BYTES + 8, ">= %s", human_size(text, power));
    return out;
}

/* The number of the first that refers to a number and keeps it alive; 0: none. */
static uint32_t referrer_of(const struct graph *g, uint32_t n)
{
    const uint32_t end = graph_end(g, n);
    for (uint32_t k = g->before_first[n]; k < g->before_first[n + 1]; k++)
        if (g->before[k] < end)
            return g->before[k];
    return 0;
}

struct naming {
    struct types *y;
    const uint32_t *type; /* by block */
    uint32_t *named;      /* by number */
    const struct walk *w;
    const struct graph *g;
    const struct roots *roots;
    uint32_t known;
    pthread_mutex_t lock; /* guards y and these: */
    bool failed;
};

/* The key of a referrer: a root, a type, or a size. */
static uint64_t key_of(const struct naming *m, uint32_t referrer)
{
    if (!referrer)
        return 1;
    const uint32_t node = m->g->order[referrer];
    if (node >= m->g->blocks)
        return (uint64_t)node << 32 | 2;
    const uint32_t type = m->type[node];
    return type != TYPE_UNKNOWN && type < m->known ? (uint64_t)type << 32 | 3
                                                   : graph_own(m->g, referrer) << 3 | 4;
}

/* The name of a block that is known by nothing better. */
static uint32_t name_rest(struct naming *m, uint32_t block, uint32_t referrer)
{
    const struct graph *g = m->g;
    const struct blocks *b = &m->w->blocks;
    char size[HUMAN_TEXT_BYTES + 8], other[HUMAN_TEXT_BYTES + 8], name[NAME_ROOM];
    size_text(size, blocks_bytes(b, block));
    if (!referrer) {
        snprintf(name, sizeof name, "(%s)", size);
        return types_number(m->y, name);
    }
    uint32_t node = g->order[referrer];
    if (node >= g->blocks) {
        const struct root *r = &m->roots->at[node - g->blocks];
        bool named = r->kind == ROOT_VARIABLE;
        snprintf(name, sizeof name, "(%s <- %.*s)", size, SHOWN_MAX,
                 named                       ? r->name
                 : r->kind == ROOT_DATA      ? r->module
                 : r->kind == ROOT_STACK     ? "a stack"
                 : r->kind == ROOT_REGISTERS ? "a register"
                 : r->kind == ROOT_THREAD    ? "thread-local data"
                                             : "other memory");
    } else if (m->type[node] != TYPE_UNKNOWN && m->type[node] < m->known) {
        snprintf(name, sizeof name, "(%s <- %.*s)", size, SHOWN_MAX, m->y->name[m->type[node]]);
    } else {
        snprintf(name, sizeof name, "(%s <- %s)", size, size_text(other, blocks_bytes(b, node)));
    }
    return types_number(m->y, name);
}

/* Most blocks without a type share their size and their referrer's: the last answers are kept. */
static void name_range(void *arg, size_t from, size_t to)
{
    enum { KEPT = 1024, FAR = 32 };
    struct naming *m = arg;
    const struct graph *g = m->g;
    struct {
        uint64_t size, referrer;
        uint32_t type;
    } kept[KEPT];
    memset(kept, 0, sizeof kept);
    for (size_t n = from ? from : 1; n < to; n++) {
        const uint32_t block = g->order[n];
        if (n + FAR < to && g->order[n + FAR] < g->blocks)
            __builtin_prefetch(&m->type[g->order[n + FAR]]);
        if (block >= g->blocks)
            continue;
        m->named[n] = m->type[block];
        if (m->named[n] != TYPE_UNKNOWN)
            continue;
        const uint32_t referrer = referrer_of(g, (uint32_t)n);
        const uint64_t size = graph_own(g, (uint32_t)n), key = key_of(m, referrer);
        const uint64_t hash = (size * 0x9e3779b97f4a7c15u) ^ (key * 0xc2b2ae3d27d4eb4fu);
        __typeof__(*kept) *k = &kept[hash >> 54];
        if (!k->type || k->size != size || k->referrer != key) {
            pthread_mutex_lock(&m->lock);
            k->type = name_rest(m, block, referrer);
            m->failed |= !k->type;
            pthread_mutex_unlock(&m->lock);
            k->size = size;
            k->referrer = key;
        }
        m->named[n] = k->type;
    }
}

uint32_t *types_rest(struct types *y, const uint32_t *type, const struct walk *w,
                     const struct graph *g, const struct roots *roots, unsigned threads)
{
    struct naming m = {.y = y,
                       .type = type,
                       .named = spill_zeros(g->count, sizeof *m.named),
                       .w = w,
                       .g = g,
                       .roots = roots,
                       .known = y->known};
    if (!m.named)
        return NULL;
    pthread_mutex_init(&m.lock, NULL);
    parallel_ranges(threads, g->count, name_range, &m);
    pthread_mutex_destroy(&m.lock);
    if (m.failed) {
        spill_free(m.named);
        return NULL;
    }
    return m.named;
}

void types_release(struct types *y)
{
    free(y->name);
    index_release(&y->index);
    intern_free(&y->names);
    *y = (struct types){0};
}
