/* tables.c - the answers: by type, by root, by size; unreachable groups; ways and referrers. See
 * heap.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "heap/heap_impl.h"
#include "heap/spill.h"

enum { FAR = 24, SIZE_CLASSES = 48, SIZE_NAME_BYTES = 64, SMALLEST_CLASS = 4 };

const char *heap_root_kind(enum root_kind kind)
{
    static const char *const names[ROOT_KINDS] = {"variable", "data",      "thread-local",
                                                  "stack",    "registers", "memory"};
    return names[kind];
}

static uint64_t own_bytes(const struct heap *h, uint32_t number)
{
    return graph_own(&h->graph, number);
}

/* The allocator's own blocks, and roots, have no bytes of their own. */
static bool is_program_block(const struct heap *h, uint32_t number)
{
    return h->graph.own[number] != 0;
}

static int by_retained(const void *a, const void *b)
{
    const struct heap_row *x = a, *y = b;
    if (x->retained_bytes != y->retained_bytes)
        return x->retained_bytes > y->retained_bytes ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    int by_name = strcmp(x->name, y->name);
    return by_name ? by_name : strcmp(x->module, y->module);
}

/* mean_ns is a sum until finish_ages. */
static void add_age(struct heap_ages *a, uint32_t age)
{
    const uint64_t ns = (uint64_t)(age - 1) * HEAP_AGE_NS;
    if (!a->known_blocks || ns < a->youngest_ns)
        a->youngest_ns = ns;
    if (ns > a->oldest_ns)
        a->oldest_ns = ns;
    a->mean_ns += age - 1;
    a->known_blocks++;
}

static void finish_ages(struct heap_ages *a)
{
    if (a->known_blocks)
        a->mean_ns = a->mean_ns / a->known_blocks * HEAP_AGE_NS +
                     a->mean_ns % a->known_blocks * HEAP_AGE_NS / a->known_blocks;
}

/* Adds each block to the row of its group. What a group retains counts once: a block inside of what
 * another of the group retains adds nothing. */
static int add_groups(struct heap *h, uint32_t groups,
                      uint32_t (*group_of)(const struct heap *, uint32_t), struct heap_row *rows)
{
    uint32_t *until = calloc((size_t)groups + 1, sizeof *until);
    if (!until)
        return -1;
    for (uint32_t place = 0; place < h->graph.count; place++) {
        uint32_t n = h->graph.by_place[place];
        if (place + FAR < h->graph.count) {
            const uint32_t far = h->graph.by_place[place + FAR];
            __builtin_prefetch(&h->graph.own[far]);
            __builtin_prefetch(&h->type[far]);
            __builtin_prefetch(&h->graph.span[far]);
        }
        if (!is_program_block(h, n))
            continue;
        uint32_t group = group_of(h, n);
        rows[group].blocks++;
        rows[group].bytes += own_bytes(h, n);
        if (h->age && h->age[h->graph.order[n]])
            add_age(&rows[group].ages, h->age[h->graph.order[n]]);
        if (place < until[group])
            continue;
        until[group] = place + h->graph.span[n];
        rows[group].retained_bytes += h->graph.retained[n];
        rows[group].retained_blocks += graph_retained_blocks(&h->graph, n);
    }
    free(until);
    for (uint32_t i = 0; i < groups; i++)
        finish_ages(&rows[i].ages);
    return 0;
}

static uint32_t type_of(const struct heap *h, uint32_t n) { return h->type[n]; }

static int make_types(struct heap *h)
{
    struct heap_row *rows = calloc(h->types.count, sizeof *rows);
    size_t kept = 0;
    if (!rows || add_groups(h, h->types.count, type_of, rows)) {
        free(rows);
        return -1;
    }
    for (uint32_t i = 0; i < h->types.count; i++) {
        if (!rows[i].blocks)
            continue;
        rows[i].name = h->types.name[i];
        rows[i].group = i;
        rows[i].kind = rows[i].module = rows[i].file = rows[i].declared = "";
        rows[kept++] = rows[i];
    }
    qsort(rows, kept, sizeof *rows, by_retained);
    h->rows[HEAP_BY_TYPE] = rows;
    h->row_count[HEAP_BY_TYPE] = kept;
    return 0;
}

static int make_roots(struct heap *h)
{
    const struct graph *g = &h->graph;
    struct heap_row *rows = calloc((size_t)h->roots.count + 1, sizeof *rows);
    if (!rows)
        return -1;
    for (uint32_t i = 0; i < h->roots.count; i++) {
        const struct root *r = &h->roots.at[i];
        uint32_t n = g->number[g->blocks + i];
        uint32_t end = i + 1 < h->roots.count ? g->number[g->blocks + i + 1] : g->held;
        rows[i] = (struct heap_row){.name = r->name,
                                    .group = h->types.count + i,
                                    .kind = heap_root_kind(r->kind),
                                    .module = r->module,
                                    .file = r->file,
                                    .declared = r->type,
                                    .line = r->line,
                                    .retained_bytes = g->retained[n],
                                    .retained_blocks = graph_retained_blocks(g, n)};
        for (uint32_t k = n + 1; k < end; k++)
            if (is_program_block(h, k)) {
                rows[i].blocks++;
                rows[i].bytes += own_bytes(h, k);
            }
    }
    qsort(rows, h->roots.count, sizeof *rows, by_retained);
    h->rows[HEAP_BY_ROOT] = rows;
    h->row_count[HEAP_BY_ROOT] = h->roots.count;
    return 0;
}

static uint32_t size_class(const struct heap *h, uint32_t n)
{
    uint64_t bytes = own_bytes(h, n);
    uint32_t class = SMALLEST_CLASS;
    while (bytes >> (class + 1))
        class ++;
    return class < SIZE_CLASSES ? class : SIZE_CLASSES - 1;
}

static int make_sizes(struct heap *h)
{
    struct heap_row *rows = calloc(SIZE_CLASSES, sizeof *rows);
    h->size_names = calloc(SIZE_CLASSES, SIZE_NAME_BYTES);
    size_t kept = 0;
    if (!rows || !h->size_names || add_groups(h, SIZE_CLASSES, size_class, rows)) {
        free(rows);
        return -1;
    }
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        char from[HUMAN_TEXT_BYTES], to[HUMAN_TEXT_BYTES];
        if (!rows[i].blocks)
            continue;
        rows[i].size_min = i == SMALLEST_CLASS ? 0 : (uint64_t)1 << i;
        rows[i].size_max = ((uint64_t)1 << (i + 1)) - 1;
        char *name = h->size_names + (size_t)i * SIZE_NAME_BYTES;
        snprintf(name, SIZE_NAME_BYTES, "%s to %s", human_size(from, rows[i].size_min),
                 human_size(to, rows[i].size_max));
        rows[i].name = name;
        rows[i].kind = rows[i].module = rows[i].file = rows[i].declared = "";
        rows[kept++] = rows[i];
    }
    h->rows[HEAP_BY_SIZE] = rows;
    h->row_count[HEAP_BY_SIZE] = kept;
    return 0;
}

const struct heap_row *heap_table(struct heap *h, enum heap_by by, size_t *count, struct error *err)
{
    static int (*const make[])(struct heap *) = {[HEAP_BY_TYPE] = make_types,
                                                 [HEAP_BY_ROOT] = make_roots,
                                                 [HEAP_BY_SIZE] = make_sizes,
                                                 [HEAP_BY_SITE] = NULL};
    *err = (struct error){.kind = ERROR_NONE};
    *count = 0;
    if (!make[by])
        return NULL;
    if (!h->rows[by] && make[by](h)) {
        error_memory(err);
        return NULL;
    }
    *count = h->row_count[by];
    return h->rows[by];
}

/* --- call sites --- */

static uint32_t stack_of(const struct heap *h, uint32_t n) { return h->stack[h->graph.order[n]]; }

static int by_site(const void *a, const void *b)
{
    const struct heap_site *x = a, *y = b;
    if (x->retained_bytes != y->retained_bytes)
        return x->retained_bytes > y->retained_bytes ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static int make_sites(struct heap *h)
{
    const struct graph *g = &h->graph;
    uint32_t stacks = h->recorded.image->stacks + 1;
    struct heap_row *rows = calloc(stacks, sizeof *rows);
    struct heap_site *sites = calloc(stacks, sizeof *sites);
    if (!rows || !sites || add_groups(h, stacks, stack_of, rows)) {
        free(rows);
        free(sites);
        return -1;
    }
    for (uint32_t i = 0; i < stacks; i++)
        sites[i] = (struct heap_site){.stack = i,
                                      .blocks = rows[i].blocks,
                                      .bytes = rows[i].bytes,
                                      .retained_bytes = rows[i].retained_bytes,
                                      .retained_blocks = rows[i].retained_blocks,
                                      .ages = rows[i].ages};
    for (uint32_t n = g->reached; h->facts.verified && n < g->count; n++)
        if (is_program_block(h, n)) {
            struct heap_site *s = &sites[h->stack[g->order[n]]];
            s->unreachable_blocks++;
            s->unreachable_bytes += own_bytes(h, n);
        }
    free(rows);
    for (uint32_t i = h->facts.sampled; i < stacks; i++) /* nothing is known of most blocks */
        if (sites[i].blocks)
            sites[h->site_count++] = sites[i];
    qsort(sites, h->site_count, sizeof *sites, by_site);
    h->sites = sites;
    return 0;
}

const struct heap_site *heap_sites(struct heap *h, size_t *count, struct error *err)
{
    *err = (struct error){.kind = ERROR_NONE};
    *count = 0;
    if (!h->stack)
        return NULL;
    if (!h->sites && make_sites(h)) {
        error_memory(err);
        return NULL;
    }
    *count = h->site_count;
    return h->sites;
}

/* --- groups by the root that reaches them first --- */

uint32_t *heap_first_roots(const struct heap *h)
{
    const struct graph *g = &h->graph;
    uint32_t *of = spill_zeros((size_t)g->blocks + 1, sizeof *of), root = 0;
    for (uint32_t n = 1; of && n < g->count; n++) {
        uint32_t node = g->order[n];
        if (node >= g->blocks)
            root = node - g->blocks;
        else
            of[node] = n < g->held ? root : h->roots.count + (n >= g->reached);
    }
    return of;
}

struct heap_group heap_group_of(const struct heap *h, enum heap_by by, uint32_t group)
{
    struct heap_group g = {.name = "", .kind = "", .module = ""};
    if (by == HEAP_BY_TYPE) {
        g.name = h->types.name[group];
    } else if (by == HEAP_BY_SITE) {
        g.stack = group;
    } else if (group < h->roots.count) {
        g.name = h->roots.at[group].name;
        g.kind = heap_root_kind(h->roots.at[group].kind);
        g.module = h->roots.at[group].module;
    } else {
        g.name = group == h->roots.count ? "(garbage)" : "(unreachable)";
    }
    return g;
}

/* --- unreachable --- */

size_t heap_leaks(struct heap *h) { return h->facts.verified ? h->graph.leak_count : 0; }

void heap_leak(const struct heap *h, size_t index, struct heap_leak *leak)
{
    const struct graph_leak *l = &h->graph.leaks[index];
    *leak = (struct heap_leak){.address = h->walk.blocks.address[l->block],
                               .bytes = l->bytes,
                               .blocks = l->blocks,
                               .type = h->types.name[heap_type_of(h, l->block)],
                               .stack = h->stack ? h->stack[l->block] : 0,
                               .number = h->graph.number[l->block]};
}

/* --- ways --- */

void heap_describe(const struct heap *h, uint32_t number, struct heap_step *step)
{
    const struct graph *g = &h->graph;
    uint32_t node = g->order[number];
    *step = (struct heap_step){
        .name = "", .module = "", .type = "", .retained_bytes = g->retained[number]};
    if (node >= g->blocks) {
        const struct root *r = &h->roots.at[node - g->blocks];
        step->is_root = true;
        step->address = r->address;
        step->type = heap_root_kind(r->kind);
        step->name = r->name;
        step->module = r->module;
        return;
    }
    step->address = h->walk.blocks.address[node];
    step->bytes = blocks_bytes(&h->walk.blocks, node);
    step->type = h->types.name[h->type[number]];
}

static enum heap_found find_number(const struct heap *h, uint64_t address, uint32_t *number)
{
    uint32_t block = blocks_pointed(&h->walk.blocks, address);
    if (block == BLOCK_NONE) {
        block = blocks_covering(&h->walk.blocks, address);
        if (block == BLOCK_NONE)
            return HEAP_OUTSIDE;
        if (!blocks_is_used(&h->walk.blocks, block))
            return HEAP_FREE;
    }
    *number = h->graph.number[block];
    if (!*number) /* the allocator's own, referred to by nothing */
        return HEAP_FREE;
    return *number >= h->graph.reached ? HEAP_UNREACHABLE : HEAP_FOUND;
}

/* Breadth first from the block backwards; `toward` is the next number on the way to the block. */
static uint32_t search_back(const struct heap *h, uint32_t from, uint32_t *toward, uint32_t *queue)
{
    const struct graph *g = &h->graph;
    uint32_t end = graph_end(g, from), head = 0, tail = 0;
    queue[tail++] = from;
    toward[from] = from;
    while (head < tail) {
        uint32_t n = queue[head++];
        if (g->order[n] >= g->blocks)
            return n;
        for (uint32_t k = g->before_first[n]; k < g->before_first[n + 1]; k++) {
            uint32_t other = g->before[k];
            if (other >= end || toward[other])
                continue;
            toward[other] = n;
            queue[tail++] = other;
        }
    }
    return 0;
}

int heap_why(struct heap *h, uint64_t address, struct heap_step **steps, size_t *count,
             enum heap_found *found)
{
    uint32_t number = 0;
    *steps = NULL;
    *count = 0;
    *found = find_number(h, address, &number);
    if (*found == HEAP_FREE || *found == HEAP_OUTSIDE)
        return 0;
    uint32_t *toward = spill_zeros(h->graph.count, sizeof *toward);
    uint32_t *queue = spill_zeros(h->graph.count, sizeof *queue);
    uint32_t n = 0;
    int status = toward && queue ? 0 : -1;
    if (!status && *found == HEAP_FOUND)
        n = search_back(h, number, toward, queue);
    if (!status && !n) {
        n = number;
        toward[n] = n;
    }
    size_t length = 1;
    for (uint32_t k = n; !status && k != number; k = toward[k])
        length++;
    *steps = status ? NULL : calloc(length, sizeof **steps);
    if (!*steps)
        status = -1;
    for (uint32_t k = n; !status; k = toward[k]) {
        heap_describe(h, k, &(*steps)[(*count)++]);
        if (k == number)
            break;
    }
    spill_free(toward);
    spill_free(queue);
    return status;
}

int heap_who(struct heap *h, uint64_t address, struct heap_step **steps, size_t *count,
             enum heap_found *found)
{
    const struct graph *g = &h->graph;
    uint32_t number = 0;
    *steps = NULL;
    *count = 0;
    *found = find_number(h, address, &number);
    if (*found == HEAP_FREE || *found == HEAP_OUTSIDE)
        return 0;
    const uint32_t first = g->before_first[number], last = g->before_first[number + 1];
    *steps = calloc((size_t)(last - first) + 1, sizeof **steps);
    if (!*steps)
        return -1;
    heap_describe(h, number, &(*steps)[(*count)++]);
    for (int roots = 1; roots >= 0; roots--) /* they come first */
        for (uint32_t k = first; k < last; k++)
            if ((g->order[g->before[k]] >= g->blocks) == roots)
                heap_describe(h, g->before[k], &(*steps)[(*count)++]);
    return 0;
}

/* --- the tree --- */

/* How many nodes retain at least so much; with nodes: fills them. */
static size_t tree_of(const struct heap *h, uint64_t least, struct heap_node *nodes, size_t most)
{
    const struct graph *g = &h->graph;
    uint32_t open[HEAP_TREE_DEPTH + 1] = {UINT32_MAX}, until[HEAP_TREE_DEPTH + 1] = {g->count};
    unsigned depth = 0;
    size_t count = 0;
    for (uint32_t place = 1; place < g->count && count < most;) {
        uint32_t n = h->graph.by_place[place];
        while (depth && place >= until[depth])
            depth--;
        if (g->retained[n] < least || depth == HEAP_TREE_DEPTH) {
            place += g->span[n];
            continue;
        }
        if (nodes) {
            nodes[count] = (struct heap_node){.parent = open[depth],
                                              .number = n,
                                              .retained_blocks = graph_retained_blocks(g, n),
                                              .unreachable = n >= g->reached};
            heap_describe(h, n, &nodes[count].step);
        }
        depth++;
        open[depth] = (uint32_t)count++;
        until[depth] = place + g->span[n];
        place++;
    }
    return count;
}

int heap_tree(struct heap *h, size_t most, struct heap_node **nodes, size_t *count)
{
    uint64_t least = h->graph.retained[0] / 5000 + 1;
    while (tree_of(h, least, NULL, most + 1) > most)
        least *= 2;
    *nodes = calloc(most + 1, sizeof **nodes);
    *count = *nodes ? tree_of(h, least, *nodes, most) : 0;
    return *nodes ? 0 : -1;
}
