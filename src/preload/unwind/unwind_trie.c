/* unwind_trie.c - the process-wide trie of call stacks: (parent, pc, module, flags) -> id.
 *
 * Owns: ids, dense from 1; their nodes; and hash tables that find them. The
 * hash of a node is that of its frame and all frames outside it. So the innermost frame of a stack
 * is looked for at once, and the one that is found is compared with the stack, frame by frame, up
 * to one whose id is known: nodes that were made together lie together. Only a stack that is not
 * there has its outer frames looked for. Beside a node stands which stack followed its own when it
 * was taken last: programs repeat themselves, and the next one needs no look at the tables then. A
 * node is announced to the host before its id can be seen by others, so an id that was handed out
 * is always explained somewhere in the recording. Threads: any, at the same time, and signal
 * handlers at any point. A node is written first, then made known by one compare-and-swap of a
 * slot; two threads may make two nodes of the same meaning, which readers merge. No thread waits
 * for another. A table that is full is followed by a larger one; the thread that made it copies the
 * slots over, while all others already use it, and then returns the old memory (not its addresses,
 * which others may be reading) to the kernel. A node that slips through is made a second time. A
 * table of LAST_BITS is not enlarged but followed by an empty one, and its nodes go, too: memory
 * stays within 44 MiB however many stacks a program has, and nodes that come again are announced
 * again. A node is a row of 26 bytes in the recording: where the nodes that are in use did not fit,
 * nearly every call would announce all of its stack. */
#include "preload/sys.h"
#include "unwind_impl.h"

#define FIRST_BITS 9u  /* 512 slots of 8 bytes */
#define SMALL      4u  /* tables, each four times as large as the one before; later ones twice */
#define LAST_BITS  21u /* 16 MiB, and 20 bytes for each of 1,398,101 nodes */
#define TABLES     4096u
#define WORTH      65536u /* bytes that are returned to the kernel */
#define PROBES     64u    /* a longer run counts as a full table */

/* So far below 2^32 that threads which pass it together stay below. A test has another. */
#ifndef LAST_ID
#define LAST_ID 0xfffff000u
#endif

#define SEGMENT_BITS  16u /* nodes of a segment */
#define SEGMENT_NODES (1u << SEGMENT_BITS)
#define POINTERS      512u /* to segments, of a block */

struct segment {
    struct uw_node node[SEGMENT_NODES];
    uint32_t next[SEGMENT_NODES]; /* the stack that was taken after this one; 0: not known */
};

struct table {
    uint64_t *slots;   /* high half of the hash << 32 | id; 0: free */
    uint32_t shift;    /* by which that half becomes a place; set before the table is the newest */
    uint32_t limit;    /* slots claimed that are enough */
    uint32_t used;     /* slots claimed, about */
    uint32_t first_id; /* ids of its nodes are no smaller, if it began empty */
};

static struct {
    struct table *newest; /* nodes are added here */
    struct table *oldest; /* nodes may still be in the tables from here to the newest */
    struct table table[TABLES];
    uint32_t last_id;
    struct segment **block[(1u << (32 - SEGMENT_BITS)) / POINTERS];
    struct segment *first_block[POINTERS];
} trie;

static uint32_t trie_bits(const struct table *t)
{
    uint64_t i = (uint64_t)(t - trie.table), bits = FIRST_BITS + i + (i < SMALL ? i : SMALL - 1);
    return bits < LAST_BITS ? (uint32_t)bits : LAST_BITS;
}
static size_t trie_bytes(const struct table *t) { return sizeof(uint64_t) << trie_bits(t); }

/* For a table that may be the newest: ordered by the load of that. */
static uint64_t *trie_slots(const struct table *t)
{
    return __atomic_load_n(&t->slots, __ATOMIC_RELAXED);
}
static uint32_t shift_of(const struct table *t)
{
    return __atomic_load_n(&t->shift, __ATOMIC_RELAXED);
}
static uint64_t mask_of(const struct table *t) { return 0xffffffffu >> shift_of(t); }

/* Several threads may do so at once. */
static void table_begin(struct table *t)
{
    __atomic_store_n(&t->shift, 32 - trie_bits(t), __ATOMIC_RELAXED);
    __atomic_store_n(&t->limit, (2u << trie_bits(t)) / 3, __ATOMIC_RELAXED);
}

int uw_trie_init(void)
{
    size_t bytes = sizeof(struct segment);
    for (unsigned i = 0; i < SMALL; i++)
        bytes += trie_bytes(&trie.table[i]);
    uint8_t *p = unwind_host_map(bytes); /* touched as it is used */
    if (!p)
        return -1;
    for (unsigned i = 0; i < SMALL; i++) {
        table_begin(&trie.table[i]);
        trie.table[i].slots = (uint64_t *)p;
        p += trie_bytes(&trie.table[i]);
    }
    trie.block[0] = trie.first_block;
    trie.first_block[0] = (struct segment *)p;
    __atomic_store_n(&trie.oldest, &trie.table[0], __ATOMIC_RELEASE);
    __atomic_store_n(&trie.newest, &trie.table[0], __ATOMIC_RELEASE);
    return 0;
}

/* ---- nodes ---- */

/* Memory that `*place` points to from now on, or already. NULL: refused. */
static void *have_trie_memory(void **place, size_t bytes)
{
    void *there = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (UW_LIKELY(there != 0))
        return there;
    void *fresh = unwind_host_map(bytes);
    if (fresh && !__atomic_compare_exchange_n(place, &there, fresh, false, __ATOMIC_ACQ_REL,
                                              __ATOMIC_ACQUIRE)) {
        unwind_host_unmap(fresh, bytes);
        return there;
    }
    return fresh;
}

UW_INLINE struct segment **trie_place(uint32_t id)
{
    struct segment **block =
        __atomic_load_n(&trie.block[(id >> SEGMENT_BITS) / POINTERS], __ATOMIC_ACQUIRE);
    return UW_LIKELY(block != 0) ? &block[(id >> SEGMENT_BITS) % POINTERS] : 0;
}

UW_INLINE struct segment *trie_segment(uint32_t id)
{
    struct segment **place = trie_place(id);
    return UW_LIKELY(place != 0) ? __atomic_load_n(place, __ATOMIC_ACQUIRE) : 0;
}

struct uw_node *uw_trie_node(uint32_t id)
{
    struct segment *s = trie_segment(id);
    return UW_LIKELY(s != 0) ? &s->node[id % SEGMENT_NODES] : 0;
}

uint32_t uw_trie_follow(uint32_t last, uint32_t id)
{
    struct segment *s = last ? trie_segment(last) : 0;
    if (s && __atomic_load_n(&s->next[last % SEGMENT_NODES], __ATOMIC_RELAXED) != id)
        __atomic_store_n(&s->next[last % SEGMENT_NODES], id, __ATOMIC_RELAXED);
    s = trie_segment(id);
    const uint32_t next = s ? __atomic_load_n(&s->next[id % SEGMENT_NODES], __ATOMIC_RELAXED) : 0;
    if (next && (s = trie_segment(next)) != 0) {
        __builtin_prefetch(&s->node[next % SEGMENT_NODES]);
        __builtin_prefetch(&s->next[next % SEGMENT_NODES]);
    }
    return next;
}

/* The segment of a new node. NULL: no memory. */
static struct segment *segment_new(uint32_t id)
{
    struct segment ***block = &trie.block[(id >> SEGMENT_BITS) / POINTERS];
    return have_trie_memory((void **)block, POINTERS * sizeof **block)
               ? have_trie_memory((void **)trie_place(id), sizeof(struct segment))
               : 0;
}

/* Nodes with ids from `from` up to `to` are not looked at any more: whole segments of them. */
static void nodes_give(uint32_t from, uint32_t to)
{
    for (uint32_t n = from >> SEGMENT_BITS; n < to >> SEGMENT_BITS; n++) {
        struct segment *s = trie_segment(n << SEGMENT_BITS);
        if (s)
            sys_madvise(s, sizeof *s, MADV_DONTNEED);
    }
}

/* ---- looking ---- */

/* True if the id is the innermost of n frames. Their ids are entered then. */
static bool is_stack(struct uw_named *f, uint32_t n, bool cut, uint32_t id)
{
    uint32_t i = n, at = id;
    for (;;) {
        const struct uw_node *node = uw_trie_node(at);
        if (!node || node->key != f[--i].key)
            return false;
        const uint32_t parent = node->parent, wanted = i ? f[i - 1].node : cut ? UW_PARENT_CUT : 0;
        if (i == 0 || wanted) {
            if (parent != wanted)
                return false;
            break;
        }
        if (parent == 0 || parent == UW_PARENT_CUT)
            return false;
        at = parent;
    }
    for (at = id; n > i; at = uw_trie_node(at)->parent)
        f[--n].node = at;
    return true;
}

/* Looks for the innermost of n frames in one table. */
static bool find_in_table(const struct table *t, struct uw_named *f, uint32_t n, bool cut)
{
    const uint64_t *slots = trie_slots(t), mask = mask_of(t), tag = f[n - 1].hash >> 32;
    for (uint64_t i = tag >> shift_of(t), end = i + PROBES; i < end; i++) {
        uint64_t slot = __atomic_load_n(&slots[i & mask], __ATOMIC_ACQUIRE);
        if (!slot)
            return false;
        if (slot >> 32 == tag && is_stack(f, n, cut, (uint32_t)slot))
            return true;
    }
    return false;
}

static bool find_named(struct uw_named *f, uint32_t n, bool cut)
{
    struct table *newest = __atomic_load_n(&trie.newest, __ATOMIC_ACQUIRE),
                 *oldest = __atomic_load_n(&trie.oldest, __ATOMIC_ACQUIRE);
    for (struct table *t = newest; t >= oldest; t--)
        if (find_in_table(t, f, n, cut))
            return true;
    return false;
}

/* ---- adding ---- */

/* Puts the slot into a table, once. False: the slots where it belongs are taken. */
static bool put_trie_slot(struct table *t, uint64_t slot)
{
    uint64_t *slots = trie_slots(t);
    const uint64_t mask = mask_of(t);
    for (uint64_t i = slot >> 32 >> shift_of(t), end = i + PROBES; i < end; i++) {
        uint64_t *at = &slots[i & mask], there = __atomic_load_n(at, __ATOMIC_RELAXED);
        if (there == 0 && __atomic_compare_exchange_n(at, &there, slot, false, __ATOMIC_ACQ_REL,
                                                      __ATOMIC_RELAXED)) {
            __atomic_add_fetch(&t->used, 1, __ATOMIC_RELAXED);
            return true;
        }
        if (there == slot)
            return true;
    }
    return false;
}

/* Copies the slots of the tables before `to` into it, if it is larger than they, and gives their
 * memory back; else that of their nodes, too. */
static void move_all(struct table *to)
{
    struct table *from = __atomic_load_n(&trie.oldest, __ATOMIC_ACQUIRE);
    bool larger = trie_bits(to) > trie_bits(to - 1);
    for (struct table *t = from; larger && t < to; t++) {
        const uint64_t *slots = trie_slots(t);
        for (uint64_t i = 0; i < (uint64_t)1 << trie_bits(t); i++) {
            uint64_t slot = __atomic_load_n(&slots[i], __ATOMIC_ACQUIRE);
            if (slot)
                put_trie_slot(to, slot);
        }
    }
    while (from < to && !__atomic_compare_exchange_n(&trie.oldest, &from, to, false,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    if (from < to && !larger)
        nodes_give(from->first_id, to->first_id);
    for (; from < to; from++)
        if (trie_bytes(from) >= WORTH)
            sys_madvise(trie_slots(from), trie_bytes(from), MADV_DONTNEED);
}

/* The newest table, which is followed by another one when two thirds of it are full, or with
 * `full`. NULL: no memory, and no room. */
static struct table *with_room(bool full)
{
    struct table *t = __atomic_load_n(&trie.newest, __ATOMIC_ACQUIRE);
    const uint32_t used = __atomic_load_n(&t->used, __ATOMIC_RELAXED),
                   limit = __atomic_load_n(&t->limit, __ATOMIC_RELAXED);
    if (UW_LIKELY(!full && used < limit))
        return t;
    struct table *next = t + 1;
    if (next == trie.table + TABLES)
        return 0;
    table_begin(next);
    if (!have_trie_memory((void **)&next->slots, trie_bytes(next)))
        return used / 5 < limit / 4 ? t : 0;
    if (trie_bits(next) == trie_bits(t))
        __atomic_store_n(&next->first_id, __atomic_load_n(&trie.last_id, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&trie.newest, &t, next, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        move_all(next);
    return next;
}

/* A node for f below `parent`; 0: no memory, or no more ids. */
static uint32_t make_trie_node(const struct uw_named *f, uint32_t parent, bool cut, void *ctx)
{
    /* An id never means two nodes: without one, the call has no stack. */
    uint32_t id = __atomic_load_n(&trie.last_id, __ATOMIC_RELAXED) + 1;
    struct table *t = id > LAST_ID ? 0 : with_room(false);
    if (UW_UNLIKELY(!t || !segment_new(id)))
        return 0;
    id = __atomic_add_fetch(&trie.last_id, 1, __ATOMIC_RELAXED);
    struct segment *s = segment_new(id);
    if (s)
        s->node[id % SEGMENT_NODES] =
            (struct uw_node){f->key, cut ? UW_PARENT_CUT : parent, f->record};
    unwind_host_node(ctx, id, parent, uw_key_pc(f->key), f->module,
                     uw_key_flags(f->key) | (cut ? MLW_NODE_TRUNCATED : 0));
    const uint64_t slot = (f->hash & ~(uint64_t)0xffffffff) | id;
    if (UW_LIKELY(s != 0) && !put_trie_slot(t, slot) && (t = with_room(true)) != 0)
        put_trie_slot(t, slot);
    return id;
}

uint32_t uw_trie_name(struct uw_named *f, uint32_t n, bool cut, void *ctx)
{
    uint32_t known = n;
    if (UW_UNLIKELY(!__atomic_load_n(&trie.newest, __ATOMIC_ACQUIRE)))
        return 0;
    while (known && !f[known - 1].node && !find_named(f, known, cut))
        known--;
    for (; known < n; known++) {
        f[known].node =
            make_trie_node(&f[known], known ? f[known - 1].node : 0, cut && !known, ctx);
        if (UW_UNLIKELY(!f[known].node))
            return 0;
    }
    return f[n - 1].node;
}

void uw_trie_forget(void)
{
    for (uint32_t i = 0; i < TABLES && trie.table[i].slots; i++)
        unwind_host_unmap(trie.table[i].slots, trie_bytes(&trie.table[i]));
    for (uint32_t n = 0; n <= trie.last_id >> SEGMENT_BITS; n++)
        if (trie_segment(n << SEGMENT_BITS))
            unwind_host_unmap(trie_segment(n << SEGMENT_BITS), sizeof(struct segment));
    for (uint32_t i = 1; i < sizeof trie.block / sizeof *trie.block && trie.block[i]; i++)
        unwind_host_unmap(trie.block[i], POINTERS * sizeof *trie.block[i]);
    __builtin_memset(&trie, 0, sizeof trie);
}
