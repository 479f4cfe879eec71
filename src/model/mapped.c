#include "model/mapped.h"

#include <stdlib.h>

#include "base/array.h"

/* A treap (Aragon and Seidel 1989): a search tree by address, a heap by random priority. */
struct node {
    uint64_t start, end;
    uint32_t left, right; /* 0: none */
    uint32_t priority, stack;
};

struct mapped {
    struct node *nodes; /* [0] is not used */
    uint32_t count, cap, root, spare;
    uint32_t seed;
    uint64_t live_bytes, peak_bytes, peak_time_ns;
    uint64_t version; /* of the peak: raised whenever it rises */
    struct mapped_stack *stacks;
    uint64_t *versions; /* by stack: of the peak that its peak_bytes was saved for */
    uint32_t stack_count;
};

static struct mapped *make(uint32_t stacks)
{
    struct mapped *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->stacks = calloc((size_t)stacks + 1, sizeof *m->stacks);
    m->versions = calloc((size_t)stacks + 1, sizeof *m->versions);
    m->stack_count = stacks;
    m->count = 1;
    m->seed = 2463534242u;
    if (m->stacks && m->versions)
        return m;
    mapped_free(m);
    return NULL;
}

void mapped_free(struct mapped *m)
{
    if (!m)
        return;
    free(m->nodes);
    free(m->stacks);
    free(m->versions);
    free(m);
}

/* The stack's entry, with what it held at the peak saved before it changes. */
static struct mapped_stack *touch(struct mapped *m, uint32_t stack)
{
    struct mapped_stack *s = &m->stacks[stack];
    if (m->versions[stack] != m->version) {
        s->peak_bytes = s->live_bytes;
        m->versions[stack] = m->version;
    }
    return s;
}

static void lose(struct mapped *m, uint32_t stack, uint64_t bytes)
{
    touch(m, stack)->live_bytes -= bytes;
    m->live_bytes -= bytes;
}

static uint32_t new_node(struct mapped *m, uint64_t start, uint64_t end, uint32_t stack)
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
    m->nodes[i] = (struct node){.start = start, .end = end, .priority = m->seed, .stack = stack};
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
static uint32_t join(struct mapped *m, uint32_t a, uint32_t b)
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
        lose(m, n->stack, n->end - n->start);
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
    uint32_t stack = m->nodes[last].stack;
    if (within && reach > end)
        m->nodes[within].end = end;
    if (below && m->nodes[below].end > start) {
        uint64_t to = m->nodes[below].end < end ? m->nodes[below].end : end;
        m->nodes[below].end = start;
        lose(m, m->nodes[below].stack, to - start);
        cut = to - start;
    }
    cut += end_all(m, middle);
    if (reach > end) {
        uint32_t rest = new_node(m, end, reach, stack);
        if (!rest) {
            m->root = 0;
            return UINT64_MAX;
        }
        high = join(m, rest, high);
    }
    m->root = join(m, low, high);
    return cut;
}

bool mapped_add(struct mapped **at, uint32_t stacks, uint64_t start, uint64_t bytes, uint32_t stack,
                bool file, uint64_t time_ns)
{
    if (!bytes || start + bytes < start || (file && !*at))
        return true;
    if (!*at && !(*at = make(stacks)))
        return false;
    struct mapped *m = *at;
    if (stack > m->stack_count)
        stack = 0;
    if (mapped_cut(m, start, bytes) == UINT64_MAX)
        return false;
    if (file)
        return true;
    uint32_t low, high, fresh = new_node(m, start, start + bytes, stack);
    if (!fresh)
        return false;
    part(m, m->root, start, &low, &high);
    m->root = join(m, join(m, low, fresh), high);
    struct mapped_stack *s = touch(m, stack);
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

void mapped_finish(struct mapped *m)
{
    for (uint32_t i = 0; m && i <= m->stack_count; i++)
        touch(m, i);
}

uint64_t mapped_live_bytes(const struct mapped *m) { return m ? m->live_bytes : 0; }
uint64_t mapped_peak_bytes(const struct mapped *m) { return m ? m->peak_bytes : 0; }
uint64_t mapped_peak_time_ns(const struct mapped *m) { return m ? m->peak_time_ns : 0; }
const struct mapped_stack *mapped_stacks(const struct mapped *m) { return m ? m->stacks : NULL; }

struct mapped *mapped_restore(uint32_t stacks, uint64_t live_bytes, uint64_t peak_bytes,
                              uint64_t peak_time_ns)
{
    struct mapped *m = make(stacks);
    if (!m)
        return NULL;
    m->live_bytes = live_bytes;
    m->peak_bytes = peak_bytes;
    m->peak_time_ns = peak_time_ns;
    return m;
}

struct mapped_stack *mapped_restored(struct mapped *m) { return m ? m->stacks : NULL; }
