/* mapped.c - Keeps live mappings as intervals in a treap (Aragon and Seidel 1989), and splits
 * and joins it when a call maps or unmaps a range. The peak of each stack is saved when the
 * stack first changes after the peak. */
#include "model/mapped.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/index.h"

/* A treap (Aragon and Seidel 1989): a search tree by address, a heap by random priority. */
struct node {
    uint64_t start, end;
    uint32_t left, right;     /* 0: none */
    uint32_t priority, owner; /* in stacks */
};

struct mapped {
    struct node *nodes; /* [0] is not used */
    uint32_t count, cap, root, spare;
    uint32_t seed;
    uint64_t live_bytes, peak_bytes, peak_time_ns;
    uint64_t version;            /* raised whenever the peak rises */
    struct mapped_stack *stacks; /* [stack_count] that mapped something: few of all do */
    size_t stack_count, stack_room;
    struct index by_stack;
    uint32_t most; /* the highest number of a stack */
};

static struct mapped *make_mapped(uint32_t stacks)
{
    struct mapped *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->most = stacks;
    m->count = 1;
    m->seed = 2463534242u;
    return m;
}

void mapped_free(struct mapped *m)
{
    if (!m)
        return;
    free(m->nodes);
    free(m->stacks);
    index_release(&m->by_stack);
    free(m);
}

/* The number of the stack's entry, which may be new; INDEX_NONE without memory. */
static uint32_t owner_of(struct mapped *m, uint32_t stack)
{
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&m->by_stack, stack, &at)) != INDEX_NONE;)
        if (m->stacks[i].stack == stack)
            return i;
    i = (uint32_t)m->stack_count;
    if (!ARRAY_ROOM(m->stacks, m->stack_count + 1, m->stack_room) ||
        !index_add(&m->by_stack, stack, i))
        return INDEX_NONE;
    m->stacks[m->stack_count++] = (struct mapped_stack){.stack = stack, .version = m->version};
    return i;
}

/* An entry, with what it held at the peak saved before it changes. */
static struct mapped_stack *touch(struct mapped *m, uint32_t owner)
{
    struct mapped_stack *s = &m->stacks[owner];
    if (s->version != m->version) {
        s->peak_bytes = s->live_bytes;
        s->version = m->version;
    }
    return s;
}

static void lose_bytes(struct mapped *m, uint32_t owner, uint64_t bytes)
{
    touch(m, owner)->live_bytes -= bytes;
    m->live_bytes -= bytes;
}

static uint32_t new_node(struct mapped *m, uint64_t start, uint64_t end, uint32_t owner)
{
    uint32_t i = m->spare;
    if (i) {
        m->spare = m->nodes[i].right;
    } else {
        if (!ARRAY_ROOM(m->nodes, (size_t)m->count + 1, m->cap))
            return 0;
        i = m->count++;
    }
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 17;
    m->seed ^= m->seed << 5;
    m->nodes[i] = (struct node){.start = start, .end = end, .priority = m->seed, .owner = owner};
    return i;
}

/* Parts the tree at an address: what starts below it, and the rest. */
static void part(struct mapped *m, uint32_t tree, uint64_t at, uint32_t *low, uint32_t *high)
{
    uint32_t sides[2] = {0, 0}, *low_end = &sides[0], *high_end = &sides[1];
    while (tree) {
        struct node *n = &m->nodes[tree];
        if (n->start < at) {
            *low_end = tree;
            low_end = &n->right;
            tree = n->right;
        } else {
            *high_end = tree;
            high_end = &n->left;
            tree = n->left;
        }
    }
    *low_end = *high_end = 0;
    *low = sides[0];
    *high = sides[1];
}

/* All of a lies below all of b. */
static uint32_t join_mappings(struct mapped *m, uint32_t a, uint32_t b)
{
    uint32_t root = 0, *end = &root;
    while (a && b) {
        if (m->nodes[a].priority > m->nodes[b].priority) {
            *end = a;
            end = &m->nodes[a].right;
            a = *end;
        } else {
            *end = b;
            end = &m->nodes[b].left;
            b = *end;
        }
    }
    *end = a ? a : b;
    return root;
}

/* Ends every mapping of a tree that is not in the set any more. Its nodes are spare then. */
static uint64_t end_all(struct mapped *m, uint32_t tree)
{
    uint64_t bytes = 0;
    while (tree) { /* turned until it is a list */
        struct node *n = &m->nodes[tree];
        if (n->left) {
            uint32_t up = n->left;
            n->left = m->nodes[up].right;
            m->nodes[up].right = tree;
            tree = up;
            continue;
        }
        uint32_t next = n->right;
        bytes += n->end - n->start;
        lose_bytes(m, n->owner, n->end - n->start);
        n->right = m->spare;
        m->spare = tree;
        tree = next;
    }
    return bytes;
}

static uint32_t highest(const struct mapped *m, uint32_t tree)
{
    while (tree && m->nodes[tree].right)
        tree = m->nodes[tree].right;
    return tree;
}

uint64_t mapped_cut(struct mapped *m, uint64_t start, uint64_t bytes)
{
    if (!m || !m->nodes || !bytes)
        return 0;
    uint64_t end = start + bytes < start ? UINT64_MAX : start + bytes, cut = 0;
    uint32_t low, middle, high;
    part(m, m->root, start, &low, &middle);
    part(m, middle, end, &middle, &high);
    /* The last one within the hole may reach beyond it, or the last one below into it. */
    uint32_t below = highest(m, low), within = highest(m, middle);
    uint32_t last = within ? within : below;
    uint64_t reach = last ? m->nodes[last].end : 0;
    uint32_t owner = m->nodes[last].owner;
    if (within && reach > end)
        m->nodes[within].end = end;
    if (below && m->nodes[below].end > start) {
        uint64_t to = m->nodes[below].end < end ? m->nodes[below].end : end;
        m->nodes[below].end = start;
        lose_bytes(m, m->nodes[below].owner, to - start);
        cut = to - start;
    }
    cut += end_all(m, middle);
    if (reach > end) {
        uint32_t rest = new_node(m, end, reach, owner);
        if (!rest) {
            m->root = 0;
            return UINT64_MAX;
        }
        high = join_mappings(m, rest, high);
    }
    m->root = join_mappings(m, low, high);
    return cut;
}

bool mapped_add(struct mapped **at, uint32_t stacks, uint64_t start, uint64_t bytes, uint32_t stack,
                bool file, uint64_t time_ns)
{
    if (!bytes || start + bytes < start || (file && !*at))
        return true;
    if (!*at && !(*at = make_mapped(stacks)))
        return false;
    struct mapped *m = *at;
    if (stack > m->most)
        stack = 0;
    if (mapped_cut(m, start, bytes) == UINT64_MAX)
        return false;
    if (file)
        return true;
    const uint32_t owner = owner_of(m, stack);
    uint32_t low, high, fresh = owner == INDEX_NONE ? 0 : new_node(m, start, start + bytes, owner);
    if (!fresh)
        return false;
    part(m, m->root, start, &low, &high);
    m->root = join_mappings(m, join_mappings(m, low, fresh), high);
    struct mapped_stack *s = touch(m, owner);
    s->calls++;
    s->bytes += bytes;
    s->live_bytes += bytes;
    m->live_bytes += bytes;
    if (m->live_bytes > m->peak_bytes) {
        m->peak_bytes = m->live_bytes;
        m->peak_time_ns = time_ns;
        m->version++;
    }
    return true;
}

static int compare_mapped_stacks(const void *a, const void *b)
{
    const struct mapped_stack *x = a, *y = b;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void mapped_finish(struct mapped *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->stack_count; i++)
        touch(m, i);
    if (m->stack_count)
        qsort(m->stacks, m->stack_count, sizeof *m->stacks, compare_mapped_stacks);
}

uint64_t mapped_live_bytes(const struct mapped *m) { return m ? m->live_bytes : 0; }
uint64_t mapped_peak_bytes(const struct mapped *m) { return m ? m->peak_bytes : 0; }
uint64_t mapped_peak_time_ns(const struct mapped *m) { return m ? m->peak_time_ns : 0; }
const struct mapped_stack *mapped_stacks(const struct mapped *m, size_t *count)
{
    *count = m ? m->stack_count : 0;
    return m ? m->stacks : NULL;
}

struct mapped *mapped_restore(uint32_t stacks, uint64_t live_bytes, uint64_t peak_bytes,
                              uint64_t peak_time_ns)
{
    struct mapped *m = make_mapped(stacks);
    if (!m)
        return NULL;
    m->live_bytes = live_bytes;
    m->peak_bytes = peak_bytes;
    m->peak_time_ns = peak_time_ns;
    return m;
}

struct mapped_stack *mapped_restored(struct mapped *m, uint32_t stack)
{
    const size_t n = m->stack_count;
    if (stack > m->most || (n && stack <= m->stacks[n - 1].stack))
        return NULL;
    const uint32_t i = owner_of(m, stack);
    return i == INDEX_NONE ? NULL : &m->stacks[i];
}
