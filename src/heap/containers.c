/* containers.c - see containers.h.
 *
 * A tree's header is {color, root, leftmost, rightmost, count}; a node is {color, parent, left,
 * right, value}. A list's header is {first, last, count}; a node is {next, previous, value}. */
#include "heap/containers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "heap/spill.h"

enum {
    WORD = 8,
    TREE_NODE_MIN = 40,
    LIST_NODE_MIN = 24,
    TABLE_NODE_MIN = 16,
    STEPS_A_BLOCK = 16,
    NAME_ROOM = 4096,
    BLACK = 1
};

struct container {
    uint32_t top;    /* the node that the header refers to */
    uint32_t header; /* the block that the header lies in; BLOCK_NONE: it is no block's */
    bool rooted;     /* a root refers to the top */
};

struct finding {
    struct types *y;
    uint32_t *type;
    struct target *t;
    const struct blocks *b;
    const struct modules *modules;
    struct variables *variables;
    uint32_t *next[2]; /* by block: the nodes that a node leads to, + 1 */
    uint8_t *seen;     /* a bit for each block: it was taken for a container's */
    uint32_t *of;      /* by block: its container, + 1; 0: it is no node */
    struct container *at;
    uint32_t count, room;
    uint64_t steps;  /* along nodes that may be none: bounded */
    uint32_t *nodes; /* the nodes of the container at hand */
    size_t node_count, node_room;
};

static bool word(struct finding *f, uint64_t address, uint64_t *value)
{
    return target_peek(f->t, address, value);
}

static bool word_is(struct finding *f, uint64_t address, uint64_t value)
{
    uint64_t have;
    return target_peek(f->t, address, &have) && have == value;
}

/* The used block that begins at the address. */
static uint32_t block_at(const struct finding *f, uint64_t address)
{
    uint32_t block = address & 15 ? BLOCK_NONE : blocks_pointed(f->b, address);
    return block != BLOCK_NONE && f->b->address[block] == address ? block : BLOCK_NONE;
}

static int note_node(struct finding *f, uint32_t block, uint32_t first, uint32_t second)
{
    if (!SPILL_ROOM(f->nodes, f->node_count + 1, f->node_room))
        return -1;
    f->nodes[f->node_count++] = block;
    f->next[0][block] = first == BLOCK_NONE ? 0 : first + 1;
    f->next[1][block] = second == BLOCK_NONE ? 0 : second + 1;
    f->of[block] = f->count + 1;
    return 0;
}

/* Not a container after all. */
static void forget_nodes(struct finding *f)
{
    for (size_t i = 0; i < f->node_count; i++)
        f->of[f->nodes[i]] = 0;
    f->node_count = 0;
}

static int keep(struct finding *f, uint32_t top, uint64_t header, const char *what)
{
    char name[NAME_ROOM];
    const struct module *m = modules_at(f->modules, header);
    const struct variable *v = m ? variables_find(f->variables, m, header) : NULL;
    if (!SPILL_ROOM(f->at, f->count + (size_t)1, f->room))
        return -1;
    uint32_t number = 0;
    for (size_t i = 0; i < f->node_count; i++) {
        uint32_t node = f->nodes[i];
        if (!number) {
            if (v)
                snprintf(name, sizeof name, "%s node of %s", what, v->shown);
            else
                snprintf(name, sizeof name, "%s node, %" PRIu64 " B", what,
                         blocks_bytes(f->b, node));
            number = types_number(f->y, name);
            if (!number)
                return -1;
        }
        f->type[node] = number;
    }
    f->at[f->count++] = (struct container){.top = top, .header = blocks_pointed(f->b, header)};
    f->node_count = 0;
    return 0;
}

/* --- trees --- */

/* Notes a node whose parent is at `parent`. 1: it is none. */
static int add_tree_node(struct finding *f, uint32_t block, uint64_t parent)
{
    uint64_t at = f->b->address[block], color, child[2];
    uint32_t next[2] = {BLOCK_NONE, BLOCK_NONE};
    if (f->of[block] || blocks_bytes(f->b, block) < TREE_NODE_MIN || !word(f, at, &color) ||
        (uint32_t)color > BLACK || !word_is(f, at + WORD, parent) ||
        !word(f, at + 2 * WORD, &child[0]) || !word(f, at + 3 * WORD, &child[1]))
        return 1;
    for (int i = 0; i < 2; i++)
        if (child[i] && (next[i] = block_at(f, child[i])) == BLOCK_NONE)
            return 1;
    return note_node(f, block, next[0], next[1]);
}

/* True if `top` is the root of a tree whose header is at `header`. -1: out of memory. */
static int try_tree(struct finding *f, uint32_t top, uint64_t header)
{
    uint64_t color, count, ends[2];
    if (!word(f, header, &color) || (uint32_t)color || !word(f, header + 4 * WORD, &count) ||
        !count || count > f->b->count || !word(f, header + 2 * WORD, &ends[0]) ||
        !word(f, header + 3 * WORD, &ends[1]))
        return 0;
    int status = add_tree_node(f, top, header);
    for (size_t i = 0; !status && i < f->node_count && f->node_count <= count; i++)
        for (int k = 0; !status && k < 2; k++) {
            uint32_t node = f->nodes[i], child = f->next[k][node];
            if (child)
                status = add_tree_node(f, child - 1, f->b->address[node]);
        }
    for (int k = 0; !status && k < 2; k++) {
        uint32_t end = block_at(f, ends[k]);
        status = end == BLOCK_NONE || f->of[end] != f->count + 1 || f->next[k][end];
    }
    if (!status && f->node_count == count)
        return keep(f, top, header, "std::map or set");
    forget_nodes(f);
    return status < 0 ? -1 : 0;
}

/* --- lists --- */

static int try_list(struct finding *f, uint32_t first, uint64_t header)
{
    uint64_t count, at = f->b->address[first], previous = header, next = 0;
    int status = 0;
    if (!word(f, header + 2 * WORD, &count) || !count || count > f->b->count)
        return 0;
    for (uint32_t node = first; !status && f->node_count < count;) {
        if (f->of[node] || blocks_bytes(f->b, node) < LIST_NODE_MIN ||
            !word_is(f, at + WORD, previous) || !word(f, at, &next))
            break;
        uint32_t other = next == header ? BLOCK_NONE : block_at(f, next);
        status = note_node(f, node, other, BLOCK_NONE);
        if (other == BLOCK_NONE)
            break;
        previous = at;
        at = next;
        node = other;
    }
    if (!status && f->node_count == count && next == header && word_is(f, header + WORD, at))
        return keep(f, first, header, "std::list");
    forget_nodes(f);
    return status;
}

/* A block that a header could refer to: the word in which it refers back is no block's beginning.
 */
static int look_at(struct finding *f, uint32_t block)
{
    uint64_t at = f->b->address[block], bytes = blocks_bytes(f->b, block), header;
    if (f->of[block] || !word(f, at + WORD, &header) || !header || header & 7 ||
        header >> ARCH_ADDRESS_BITS || block_at(f, header) != BLOCK_NONE)
        return 0;
    uint64_t color;
    if (bytes >= TREE_NODE_MIN && word(f, at, &color) && (uint32_t)color == BLACK &&
        word_is(f, header + WORD, at))
        return try_tree(f, block, header);
    return word_is(f, header, at) ? try_list(f, block, header) : 0;
}

/* Names a block that is known by nothing better. */
static int name_block(struct finding *f, uint32_t block, const char *what, uint64_t header)
{
    char name[NAME_ROOM];
    const struct module *m = modules_at(f->modules, header);
    const struct variable *v = m ? variables_find(f->variables, m, header) : NULL;
    if (f->type[block] != TYPE_UNKNOWN && f->type[block] != TYPE_TEXT)
        return 0;
    snprintf(name, sizeof name, "%s%s%s", what, v ? " of " : "", v ? v->shown : "");
    f->type[block] = types_number(f->y, name);
    return f->type[block] ? 0 : -1;
}

/* --- hash tables --- */

/* Follows the nodes, of which there must be as many as the table counts. */
static int try_table(struct finding *f, const struct sighting *s)
{
    uint64_t next, count;
    int status = 0;
    if (!word(f, s->at + 2 * WORD, &next) || !word(f, s->at + 3 * WORD, &count) || !count ||
        count > f->b->count)
        return 0;
    uint32_t top = block_at(f, next), node = top;
    while (node != BLOCK_NONE && f->node_count < count &&
           f->steps++ < STEPS_A_BLOCK * (uint64_t)f->b->count) {
        if (f->of[node] || blocks_bytes(f->b, node) < TABLE_NODE_MIN ||
            !word(f, f->b->address[node], &next))
            break;
        uint32_t other = next ? block_at(f, next) : BLOCK_NONE;
        if ((status = note_node(f, node, other, BLOCK_NONE)))
            break;
        node = other;
    }
    if (!status && f->node_count == count && !next) {
        status = name_block(f, s->block, "std::unordered_map or set buckets", s->at);
        return status ? status : keep(f, top, s->at, "std::unordered_map or set");
    }
    forget_nodes(f);
    return status;
}

/* --- other containers, and the choice --- */

static int try_string(struct finding *f, const struct sighting *s)
{
    uint64_t length, bytes;
    if (!word(f, s->at + WORD, &length) ||
        !word(f, (f->b->address[s->block] + length) & ~7ULL, &bytes) ||
        bytes >> length % WORD * 8 & 0xff) /* it ends with NUL */
        return 0;
    return name_block(f, s->block, "std::string text", s->at);
}

/* Every node of the map, from the first to the last, leads to a block of elements. */
static int try_deque(struct finding *f, const struct sighting *s)
{
    uint64_t first, last, element, known[2];
    if (!word(f, s->at + 5 * WORD, &first) || !word(f, s->at + 9 * WORD, &last) ||
        !word(f, s->at + 3 * WORD, &known[0]) || !word(f, s->at + 7 * WORD, &known[1]) ||
        !word_is(f, first, known[0]) || !word_is(f, last, known[1]))
        return 0;
    for (uint64_t at = first; at <= last; at += WORD)
        if (!word(f, at, &element) || block_at(f, element) == BLOCK_NONE)
            return 0;
    int status = name_block(f, s->block, "std::deque map", s->at);
    for (uint64_t at = first; !status && at <= last && word(f, at, &element); at += WORD)
        status = name_block(f, block_at(f, element), "std::deque elements", s->at);
    return status;
}

/* A block is taken for a container's once. */
static int look_at_sighting(struct finding *f, const struct sighting *s)
{
    if (s->block >= f->b->count || f->of[s->block] || f->seen[s->block / 8] >> s->block % 8 & 1)
        return 0;
    f->seen[s->block / 8] |= (uint8_t)(1 << s->block % 8);
    switch (s->kind) {
    case SIGHTING_STRING: return try_string(f, s);
    case SIGHTING_VECTOR: return name_block(f, s->block, "std::vector elements", s->at);
    case SIGHTING_DEQUE: return try_deque(f, s);
    default: return try_table(f, s);
    }
}

/* --- references --- */

static bool leads_to(const struct finding *f, uint32_t from, uint32_t to)
{
    const struct container *c = &f->at[f->of[to] - 1];
    if (f->of[from] == f->of[to] && (f->next[0][from] == to + 1 || f->next[1][from] == to + 1))
        return true;
    return c->top == to && c->header == from;
}

static void weaken(struct finding *f, struct scan *s)
{
    for (uint32_t i = 0; i < f->b->count; i++)
        for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
            if (f->of[s->target[k]] && !leads_to(f, i, s->target[k]))
                s->weak[k / 64] |= (uint64_t)1 << k % 64;
}

/* Roots keep their references to tops. Those to other nodes go, where the container itself is
 * reached from the visited nodes. */
static void take_out(struct finding *f, struct roots *r)
{
    uint32_t kept = 0;
    for (size_t k = 0; k < r->references; k++)
        if (f->of[r->target[k]] && f->at[f->of[r->target[k]] - 1].top == r->target[k])
            f->at[f->of[r->target[k]] - 1].rooted = true;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t first = r->at[i].first;
        r->at[i].first = kept;
        for (uint32_t k = first; k < r->at[i + 1].first; k++) {
            uint32_t to = r->target[k];
            const struct container *c = f->of[to] ? &f->at[f->of[to] - 1] : NULL;
            if (!c || c->top == to || (c->header == BLOCK_NONE && !c->rooted))
                r->target[kept++] = to;
        }
    }
    r->at[r->count].first = kept;
    r->references = kept;
}

bool containers_possible(const struct modules *modules)
{
    for (size_t i = 0; i < modules->count; i++)
        if (strstr(modules->at[i].name, "libstdc++"))
            return true;
    return false;
}

int containers_find(struct types *y, uint32_t *type, struct target *t, const struct walk *w,
                    const struct modules *modules, struct variables *variables, struct scan *scan,
                    struct roots *roots)
{
    struct finding f = {
        .y = y, .type = type, .t = t, .b = &w->blocks, .modules = modules, .variables = variables};
    if (!containers_possible(modules))
        return 0;
    size_t n = (size_t)w->blocks.count + 1;
    f.next[0] = spill_zeros(n, sizeof *f.next[0]);
    f.next[1] = spill_zeros(n, sizeof *f.next[1]);
    f.of = spill_zeros(n, sizeof *f.of);
    f.seen = spill_zeros(n / 8 + 1, 1);
    int status = f.next[0] && f.next[1] && f.of && f.seen ? 0 : -1;
    for (uint32_t i = 0; !status && i < w->blocks.count; i++)
        if (blocks_is_used(&w->blocks, i) && blocks_bytes(&w->blocks, i) >= LIST_NODE_MIN)
            status = look_at(&f, i);
    for (size_t i = 0; !status && i < roots->seen_count; i++)
        status = look_at_sighting(&f, &roots->seen[i]);
    for (size_t i = 0; !status && i < scan->seen_count; i++)
        status = look_at_sighting(&f, &scan->seen[i]);
    if (!status && f.count && !scan->weak &&
        !(scan->weak = spill_zeros((size_t)scan->references / 64 + 1, sizeof *scan->weak)))
        status = -1;
    if (!status && f.count) {
        weaken(&f, scan);
        take_out(&f, roots);
    }
    y->known = y->count;
    spill_free(f.next[0]);
    spill_free(f.next[1]);
    spill_free(f.of);
    spill_free(f.seen);
    spill_free(f.at);
    spill_free(f.nodes);
    return status;
}
