/* trie_threads.c - many threads insert the same and different stacks into the trie at once.
 *
 * Built with ThreadSanitizer. Every id must stand for the node that was asked for, parents are
 * announced before children, and what is there is found again. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "preload/unwind/unwind_impl.h"

#define THREADS 4
#define STACKS  4000
#define DEPTH   12
#define NODES   (1u << 20)

static struct {
    uint64_t pc;
    uint32_t parent, module, flags;
} node[NODES];
static uint32_t announced;
static int wrong;
static size_t mapped; /* bytes of tables, the old ones among them */

volatile uint32_t sys_closed, sys_inside;

void *unwind_host_map(size_t bytes)
{
    void *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __atomic_add_fetch(&mapped, bytes, __ATOMIC_RELAXED);
    return p == MAP_FAILED ? 0 : p;
}
void unwind_host_unmap(void *p, size_t bytes)
{
    __atomic_sub_fetch(&mapped, bytes, __ATOMIC_RELAXED);
    munmap(p, bytes);
}
void unwind_host_node(void *ctx, uint32_t id, uint32_t parent, uint64_t pc, uint32_t module,
                      unsigned flags)
{
    (void)ctx;
    if (id == 0 || id >= NODES || node[id].pc || (parent && !node[parent].pc))
        __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
    else {
        node[id].pc = pc ? pc : 1;
        node[id].parent = parent;
        node[id].module = module;
        node[id].flags = flags;
        __atomic_add_fetch(&announced, 1, __ATOMIC_RELAXED);
    }
}

/* Whether the ids of n frames are those of nodes as they were asked for, one below the other. */
static int named(const struct uw_named *f, uint32_t n, int cut)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = f[i].node, parent = i ? f[i - 1].node : 0;
        const unsigned flags = uw_key_flags(f[i].key) | (cut && !i ? MLW_NODE_TRUNCATED : 0);
        const uint64_t pc = uw_key_pc(f[i].key);
        if (!id || node[id].pc != (pc ? pc : 1) || node[id].parent != parent ||
            node[id].flags != flags || node[id].module != f[i].module)
            return 0;
    }
    return 1;
}

static void frame(struct uw_named *f, uint64_t outer, uint64_t pc, uint32_t module, unsigned flags)
{
    const uint64_t key = uw_key(pc, module, flags);
    *f = (struct uw_named){key, uw_hash(outer, key), 0, module, 0};
}

/* Stack s is the same in every thread; those with odd s come in another order in each. Its frames
 * are named one by one, or all at once. */
static uint32_t insert(uint32_t s, int at_once)
{
    struct uw_named f[DEPTH + 1];
    const int cut = s % 7 == 0;
    uint32_t n = 0;
    if (cut)
        frame(&f[n++], UW_HASH_CUT, s % 5 ? 0x1000 + s : 0, s % 5 ? s % 2 : 0, 0);
    for (uint32_t d = 0; d < DEPTH; d++) {
        uint64_t pc = 0x400000 + (s >> (DEPTH - d)) * 64 + d;
        unsigned flags = (d == 3 && s % 3 == 0 ? MLW_NODE_EXACT : 0u) |
                         (d == 5 && s % 11 == 0 ? MLW_NODE_FP : 0u);
        frame(&f[n], n ? f[n - 1].hash : UW_HASH_END, pc, 1 + s % 3, flags);
        n++;
        if (!at_once)
            uw_trie_name(f, n, cut, 0);
    }
    const uint32_t id = uw_trie_name(f, n, cut, 0);
    if (!id || id != f[n - 1].node || !named(f, n, cut))
        __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
    return id;
}

/* Nodes below `parent` that are made by asking for `count` of them. */
static uint32_t made(uint32_t parent, uint32_t count)
{
    uint32_t before = announced;
    for (uint32_t i = 0; i < count; i++) {
        struct uw_named f[2] = {
            {0, (parent + i % 1000) * 0xd6e8feb86659fd93, parent + i % 1000, 0, 0}};
        frame(&f[1], f[0].hash, 0x10000000 + i, 1, 0);
        uint32_t id = uw_trie_name(f, 2, false, 0);
        wrong |= id > LAST_ID ||
                 (id && (node[id].parent != f[0].node || node[id].pc != f[1].key % (1ul << 47)));
    }
    return announced - before;
}

/* Frames with one hash, of which none is another: they are told from each other by what they are.
 */
static int collide(void)
{
    struct uw_named f[16];
    for (uint32_t i = 0; i < 16; i++) {
        f[i] = (struct uw_named){uw_key(0x20000000 + i, 7, 0), 0x123456789abcdef0, 0, 7, 0};
        if (!uw_trie_name(&f[i], 1, false, 0))
            return 0;
    }
    for (uint32_t i = 0; i < 16; i++) {
        struct uw_named again = f[i];
        again.node = 0;
        if (uw_trie_name(&again, 1, false, 0) != f[i].node || !named(&again, 1, 0))
            return 0;
    }
    return 1;
}

static pthread_barrier_t together;
static void *work(void *argument)
{
    uint32_t self = (uint32_t)(uintptr_t)argument;
    pthread_barrier_wait(&together);
    for (uint32_t i = 0; i < STACKS; i++) {
        insert(i, i % 2);
        insert((i * 7919u + self * 1000u) % (3 * STACKS), self % 2);
    }
    return 0;
}

int main(void)
{
    pthread_t t[THREADS];
    if (uw_trie_init() != 0 || pthread_barrier_init(&together, 0, THREADS) != 0)
        return 1;
    for (uint32_t i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], 0, work, (void *)(uintptr_t)i) != 0)
            return 1;
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(t[i], 0);
    /* What slipped through while a table grew is made a second time now, and then is there. */
    uint32_t raced = announced, before;
    for (uint32_t i = 0; i < STACKS; i++)
        insert(i, i % 3 == 0);
    before = announced;
    for (uint32_t i = 0; i < STACKS; i++)
        insert(i, i % 3 == 0);
    uint32_t missing = 0, twice = announced - before, tables = (uint32_t)(mapped / announced);
    wrong |= !collide();
    /* Half a million nodes are all known when they come again. */
    uint32_t fresh = made(1, 500000), again = made(1, 500000);
    /* Ids end: what is known stays known, and nothing new is made. */
    uint32_t last = made(1001, LAST_ID), late = made(2001, 1000), still = made(1, 500000);
    if (fresh != 500000 || again || announced != LAST_ID || !last || late || still) {
        printf("%u, %u again; %u nodes after the last id, then %u and %u\n", fresh, again,
               announced, late, still);
        wrong = 1;
    }
    for (uint32_t id = 1; id <= announced; id++)
        missing += node[id].pc == 0;
    printf("%u nodes, %u of them to replace lost ones, %u ids without a node, %d wrong\n",
           announced, before - raced, missing, wrong);
    return wrong || missing || twice || announced < 8192 * 3 / 2 || before - raced > raced / 10 ||
           tables > 100;
}
