/* unwind_trie.c - the process-wide trie of call stacks: (parent, pc, module, flags) -> id.
 *
 * Owns: ids, dense from 1, and the hash tables that find them. A node is announced to the host
 * before its id can be seen by others, so an id that was handed out is always explained somewhere
 * in the recording. Threads: any, at the same time, and signal handlers at any point: a slot is
 * claimed by one compare-and-swap of its key and published by one store of its value. A claimed
 * slot without a value is skipped: a thread that meets it makes a second node of the same meaning,
 * which readers merge. No thread waits for another. A table that is full is followed by one of
 * twice the size; the thread that made it copies the nodes over, while all others already use it,
 * and then returns the old memory (not its addresses, which others may be reading) to the kernel. A
 * node that slips through is made a second time. A table of LAST_BITS is not doubled but followed
 * by an empty one of its size: memory stays within 32 MiB however many stacks a program has, and
 * nodes that come again are announced again. A node is a row of 22 bytes and more in the recording:
 * where the nodes that are in use did not fit, nearly every call would announce all of its stack.
 */
#include "preload/sys.h"
#include "unwind_impl.h"

#define FIRST_BITS 13u /* 8,192 slots of 16 bytes */
#define LAST_BITS  21u /* 32 MiB: about 1,570,000 nodes */
#define TABLES     4096u
#define LINE       4u  /* slots in a cache line */
#define PROBES     64u /* a longer run counts as a full table */

/* So far below 2^32 that threads which pass it together stay below. A test has another. */
#ifndef LAST_ID
#define LAST_ID 0xfffff000u
#endif

struct slot {
    uint64_t key;   /* pc | exact << 47 | module << 48; 0: free */
    uint64_t value; /* parent << 32 | id; 0: not yet published */
};
struct table { /* table i has 2^(FIRST_BITS + i) slots, at most 2^LAST_BITS */
    struct slot *slots;
    uint32_t used; /* slots claimed, about */
};

static struct {
    struct table *newest; /* nodes are added here */
    struct table *oldest; /* nodes may still be in the tables from here to the newest */
    struct table table[TABLES];
    uint32_t last_id;
} trie;

#define MODULE_FP        0xfffful    /* in a key: found through a frame pointer, no module */
#define PARENT_TRUNCATED 0xffffffffu /* in a value: a truncation mark, which is a root */

static uint32_t bits_of(const struct table *t)
{
    uint32_t bits = FIRST_BITS + (uint32_t)(t - trie.table);
    return bits < LAST_BITS ? bits : LAST_BITS;
}
static struct slot *slots_of(const struct table *t)
{
    return __atomic_load_n(&t->slots, __ATOMIC_RELAXED); /* ordered by the load of `newest` */
}
static size_t bytes_of(const struct table *t) { return sizeof(struct slot) << bits_of(t); }

int uw_trie_init(void)
{
    trie.table[0].slots = unwind_host_map(bytes_of(&trie.table[0]));
    if (!trie.table[0].slots)
        return -1;
    __atomic_store_n(&trie.oldest, &trie.table[0], __ATOMIC_RELEASE);
    __atomic_store_n(&trie.newest, &trie.table[0], __ATOMIC_RELEASE);
    return 0;
}

static uint64_t hash(uint64_t key, uint32_t parent)
{
    uint64_t h = (key ^ (uint64_t)parent * 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15;
    return (h ^ h >> 29) * 0xbf58476d1ce4e5b9;
}

/* The slot to look at in step i of the search, by cache lines: the first line is chosen by the
 * parent's id, three ids to a line, so that the nodes of one new stack, whose ids follow each
 * other, share lines; since those fill the table from its start without gaps, the further ones are
 * scattered by double hashing. */
UW_INLINE uint64_t place(uint32_t bits, uint64_t h, uint32_t parent, unsigned i)
{
    uint64_t line = (uint64_t)parent * 0x55555556 >> 32;
    if (i >= LINE)
        line = (h >> 32) + (i / LINE) * (h | 1);
    return (line * LINE + i % LINE) & (((uint64_t)1 << bits) - 1);
}

static uint32_t find(const struct table *t, uint64_t h, uint64_t key, uint32_t parent)
{
    const struct slot *slots = slots_of(t);
    uint32_t bits = bits_of(t);
    for (unsigned i = 0; i < PROBES; i++) {
        const struct slot *s = &slots[place(bits, h, parent, i)];
        uint64_t k = __atomic_load_n(&s->key, __ATOMIC_RELAXED);
        if (k == 0)
            return 0;
        if (k != key)
            continue;
        uint64_t v = __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
        if (v >> 32 == parent && (uint32_t)v)
            return (uint32_t)v;
    }
    return 0;
}

/* Claims a slot of a table. NULL: the slots where it belongs are taken. */
static struct slot *claim_in(struct table *t, uint64_t h, uint64_t key, uint32_t parent)
{
    struct slot *slots = slots_of(t);
    uint32_t bits = bits_of(t);
    for (unsigned i = 0; i < PROBES; i++) {
        struct slot *s = &slots[place(bits, h, parent, i)];
        uint64_t none = 0;
        if (__atomic_load_n(&s->key, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&s->key, &none, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            __atomic_add_fetch(&t->used, 1, __ATOMIC_RELAXED);
            return s;
        }
    }
    return 0;
}

/* Copies every node of the tables before `to` into it, if it is larger than they, and gives their
 * memory back. */
static void move_all(struct table *to)
{
    struct table *from = __atomic_load_n(&trie.oldest, __ATOMIC_ACQUIRE);
    bool larger = bits_of(to) > bits_of(to - 1);
    for (struct table *t = from; larger && t < to; t++) {
        struct slot *slots = slots_of(t);
        for (uint64_t i = 0; i < (uint64_t)1 << bits_of(t); i++) {
            uint64_t key = __atomic_load_n(&slots[i].key, __ATOMIC_RELAXED);
            uint64_t value = key ? __atomic_load_n(&slots[i].value, __ATOMIC_ACQUIRE) : 0;
            if (!value)
                continue;
            uint32_t parent = (uint32_t)(value >> 32);
            uint64_t h = hash(key, parent);
            struct slot *s = find(to, h, key, parent) ? 0 : claim_in(to, h, key, parent);
            if (s)
                __atomic_store_n(&s->value, value, __ATOMIC_RELEASE);
        }
    }
    while (from < to && !__atomic_compare_exchange_n(&trie.oldest, &from, to, false,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    for (; from < to; from++)
        sys_madvise(slots_of(from), bytes_of(from), MADV_DONTNEED);
}

/* Claims a slot of the newest table, which grows when it is three quarters full. NULL: no memory,
 * and no room. */
static struct slot *claim(uint64_t h, uint64_t key, uint32_t parent)
{
    for (;;) {
        struct table *t = __atomic_load_n(&trie.newest, __ATOMIC_ACQUIRE);
        struct slot *s = 0;
        if (__atomic_load_n(&t->used, __ATOMIC_RELAXED) < ((uint64_t)3 << bits_of(t)) / 4)
            s = claim_in(t, h, key, parent);
        if (s)
            return s;
        struct table *next = t + 1;
        if (next == trie.table + TABLES)
            return 0;
        struct slot *fresh = unwind_host_map(bytes_of(next)), *none = 0;
        if (!fresh)
            return claim_in(t, h, key, parent);
        bool mine = __atomic_compare_exchange_n(&next->slots, &none, fresh, false, __ATOMIC_ACQ_REL,
                                                __ATOMIC_ACQUIRE);
        __atomic_compare_exchange_n(&trie.newest, &t, next, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
        if (mine)
            move_all(next);
        else
            unwind_host_unmap(fresh, bytes_of(next));
    }
}

uint32_t uw_trie_get(uint32_t parent, uint64_t pc, uint32_t module, unsigned flags, void *ctx)
{
    uint64_t in_key = flags & MLW_NODE_FP ? MODULE_FP : module;
    uint64_t key = (pc & (ARCH_ADDRESS_END - 1)) | (flags & MLW_NODE_EXACT ? ARCH_ADDRESS_END : 0) |
                   in_key << 48;
    uint32_t above = flags & MLW_NODE_TRUNCATED ? PARENT_TRUNCATED : parent;
    if (key == 0) /* pc 0 is a truncation mark; its key must not look free */
        key = MODULE_FP << 48 | 1;
    uint64_t h = hash(key, above);
    struct table *newest = __atomic_load_n(&trie.newest, __ATOMIC_ACQUIRE);
    if (UW_UNLIKELY(!newest))
        return 0;
    uint32_t id = find(newest, h, key, above);
    if (UW_LIKELY(id))
        return id;
    struct table *oldest = __atomic_load_n(&trie.oldest, __ATOMIC_ACQUIRE);
    for (struct table *t = newest; UW_UNLIKELY(t-- > oldest);)
        if ((id = find(t, h, key, above)) != 0)
            return id;
    /* An id never means two nodes: without one, the call has no stack. */
    if (UW_UNLIKELY(__atomic_load_n(&trie.last_id, __ATOMIC_RELAXED) >= LAST_ID))
        return 0;
    struct slot *s = claim(h, key, above);
    if (!s)
        return 0;
    id = __atomic_add_fetch(&trie.last_id, 1, __ATOMIC_RELAXED);
    unwind_host_node(ctx, id, parent, pc, module, flags);
    __atomic_store_n(&s->value, (uint64_t)above << 32 | id, __ATOMIC_RELEASE);
    return id;
}

void uw_trie_forget(void)
{
    for (uint32_t i = 0; i < TABLES && trie.table[i].slots; i++)
        unwind_host_unmap(trie.table[i].slots, bytes_of(&trie.table[i]));
    __builtin_memset(&trie, 0, sizeof trie);
}
