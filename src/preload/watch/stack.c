/* stack.c - what the unwinder needs of the library that it is in, and the stacks that come of it.
 *
 * The recorder's unwinder names a stack by a node of a trie that grows for ever. Here memory is
 * bounded: two tables of NODES nodes take turns. When one is full, the other is emptied and filled
 * anew, and every cache is void. An id says in which turn it was made, so a node that is gone is
 * noticed, and the stack is then taken once more.
 *
 * An unwinder keeps caches for one thread. There are POOL of them for all threads: a thread tries
 * first the one that its address chooses, then takes any free one. */
#include <string.h>

#include "preload/unwind/unwind_impl.h"
#include "watcher.h"

#define NODE_BITS        12u
#define NODES            (1u << NODE_BITS)
#define PROBES           32u
#define TURN_MAX         ((1u << (31 - NODE_BITS)) - 2)
#define PARENT_TRUNCATED 0xffffffffu
#define POOL             8u

struct node {
    volatile uint64_t frame; /* as in struct mlw_watch_stack; 0: free */
    volatile uint64_t value; /* parent << 32 | id; 0: not there yet */
};

static struct {
    struct node *table[2];
    volatile uint32_t turn; /* from 1; the table is table[turn & 1] */
    volatile uint32_t used;
    volatile uint32_t turning;
} trie;

/* The sites of the stacks that an unwinder took last, by the trie's id: most stacks are those of
 * before, and need not be spelled then. */
#define KNOWN_SITES 128u
struct known_site {
    uint32_t id, site, given;
};

static struct {
    volatile uint32_t busy;
    uint64_t owner; /* thread pointer */
    struct unwind_thread *unwind;
    struct known_site known[KNOWN_SITES];
    struct mlw_watch_stack stack; /* the thread's own may be small */
} pool[POOL];

/* ---- the trie, in place of ../unwind_trie.c ---- */

int uw_trie_init(void)
{
    struct node *p = watch_map(2 * NODES * sizeof *p);
    if (!p)
        return -1;
    trie.table[0] = p;
    trie.table[1] = p + NODES;
    __atomic_store_n(&trie.turn, 1, __ATOMIC_RELEASE);
    return 0;
}

static void next_turn(uint32_t turn)
{
    if (watch_claim(&trie.turning) == CLAIM_BUSY)
        return;
    if (trie.turn == turn && turn < TURN_MAX) {
        memset(trie.table[(turn + 1) & 1], 0, NODES * sizeof(struct node));
        trie.used = 0;
        __atomic_store_n(&trie.turn, turn + 1, __ATOMIC_RELEASE);
        __atomic_fetch_add(&uw_generation, 1, __ATOMIC_RELEASE);
    }
    watch_disclaim(&trie.turning);
}

/* The node of f below `above`; 0: there is no room. */
static uint32_t trie_get(const struct uw_named *f, uint32_t above)
{
    uint64_t frame = (uw_key_pc(f->key) & MLW_WATCH_FRAME_PC(~0ull)) |
                     (uint64_t)(f->module & 0xffff) << 48 |
                     (uw_key_flags(f->key) & MLW_NODE_EXACT ? MLW_WATCH_FRAME_EXACT : 0);
    if (!frame)
        frame = 1;
    uint32_t turn = __atomic_load_n(&trie.turn, __ATOMIC_ACQUIRE);
    struct node *table = trie.table[turn & 1];
    uint64_t h = (frame ^ above * 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15;
    h ^= h >> 29;
    if (!table)
        return 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (uint32_t)(h + i) & (NODES - 1);
        struct node *n = &table[at];
        uint64_t there = __atomic_load_n(&n->frame, __ATOMIC_RELAXED), none = 0;
        if (there == frame) {
            uint64_t value = __atomic_load_n(&n->value, __ATOMIC_ACQUIRE);
            if (value >> 32 == above && (uint32_t)value)
                return (uint32_t)value;
        }
        if (there || trie.used > NODES / 4 * 3)
            continue;
        if (!__atomic_compare_exchange_n(&n->frame, &none, frame, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        __atomic_fetch_add(&trie.used, 1, __ATOMIC_RELAXED);
        uint32_t id = turn << NODE_BITS | at;
        __atomic_store_n(&n->value, (uint64_t)above << 32 | id, __ATOMIC_RELEASE);
        return id;
    }
    next_turn(turn);
    return 0;
}

/* Nothing is guessed here: an id may go to another stack. */
struct uw_node *uw_trie_node(uint32_t id)
{
    (void)id;
    return 0;
}

uint32_t uw_trie_follow(uint32_t last, uint32_t id)
{
    (void)last, (void)id;
    return 0;
}

uint32_t uw_trie_name(struct uw_named *f, uint32_t n, bool cut, void *ctx)
{
    uint32_t known = n;
    (void)ctx;
    while (known && !f[known - 1].node)
        known--;
    for (; known < n; known++) {
        f[known].node = trie_get(&f[known], known ? f[known - 1].node : cut ? PARENT_TRUNCATED : 0);
        if (!f[known].node)
            return 0;
    }
    return f[n - 1].node;
}

/* The frames of a node, innermost first. False: some of them are gone. */
static bool spell_stack(uint32_t id, unsigned skip, struct mlw_watch_stack *to)
{
    to->frames = to->flags = 0;
    while (id) {
        if (id == PARENT_TRUNCATED) {
            to->flags |= MLW_WATCH_STACK_TRUNCATED;
            break;
        }
        const struct node *n = &trie.table[id >> NODE_BITS & 1][id & (NODES - 1)];
        uint64_t value = __atomic_load_n(&n->value, __ATOMIC_ACQUIRE);
        uint64_t frame = __atomic_load_n(&n->frame, __ATOMIC_ACQUIRE);
        if ((uint32_t)value != id || __atomic_load_n(&n->value, __ATOMIC_ACQUIRE) != value)
            return false;
        uint32_t parent = (uint32_t)(value >> 32);
        if (skip && parent != PARENT_TRUNCATED) {
            skip--;
        } else if (parent != PARENT_TRUNCATED) { /* that one only marks the end */
            if (to->frames == MLW_WATCH_FRAMES) {
                to->flags |= MLW_WATCH_STACK_CUT;
                break;
            }
            to->frame[to->frames++] = frame;
        }
        id = parent;
    }
    return true;
}

/* ---- the unwinder's host ---- */

void *unwind_host_map(size_t bytes) { return watch_map(bytes); }

void unwind_host_unmap(void *p, size_t bytes)
{
    sys_munmap(p, bytes);
    if (watcher.segment)
        count(&watcher.segment->counters.own_bytes, -(uint64_t)bytes);
}

void unwind_host_node(void *ctx, uint32_t id, uint32_t parent, uint64_t pc, uint32_t module,
                      unsigned flags)
{
    (void)ctx, (void)id, (void)parent, (void)pc, (void)module, (void)flags; /* see trie_get */
}

void unwind_host_truncated(void) {}

/* Modules announced before there is a segment, or in the segment of our parent, are written again
 * from here. */
struct known_module {
    volatile uint32_t state; /* enum mlw_watch_module_state; 0: none */
    uint32_t build_id_bytes;
    uint64_t start, end, bias, since_ns, gone_ns;
    uint8_t build_id[32];
    char path[424];
};
static struct known_module *known;

static void mirror_module(uint32_t id)
{
    struct mlw_watch_module *m = &watcher.module[id - 1];
    const struct known_module *k = &known[id - 1];
    if (!segment_touch(m, sizeof *m))
        return;
    uint32_t v = seqlock_begin(&m->version);
    m->state = k->state;
    m->start = k->start;
    m->end = k->end;
    m->bias = k->bias;
    m->since_ns = k->since_ns;
    m->gone_ns = k->gone_ns;
    m->build_id_bytes = k->build_id_bytes;
    memcpy(m->build_id, k->build_id, sizeof m->build_id);
    memcpy(m->path, k->path, sizeof m->path);
    seqlock_end(&m->version, v);
}

void unwind_host_module(void *ctx, uint32_t id, uint64_t start, uint64_t end, uint64_t bias,
                        const uint8_t *build_id, size_t build_id_bytes, const char *path)
{
    (void)ctx;
    if (id - 1 >= watcher.plan.modules)
        return;
    struct known_module *k = &known[id - 1];
    k->start = start;
    k->end = end;
    k->bias = bias;
    k->since_ns = guest_clock();
    k->gone_ns = 0;
    k->build_id_bytes = build_id_bytes <= sizeof k->build_id ? (uint32_t)build_id_bytes : 0;
    memcpy(k->build_id, build_id, k->build_id_bytes);
    size_t n = strnlen(path, sizeof k->path - 1);
    memcpy(k->path, path, n);
    k->path[n] = 0;
    k->state = MLW_WATCH_MODULE_MAPPED;
    mirror_module(id);
}

void unwind_host_module_gone(void *ctx, uint32_t id)
{
    (void)ctx;
    if (id - 1 >= watcher.plan.modules || !known[id - 1].state)
        return;
    known[id - 1].state = MLW_WATCH_MODULE_GONE;
    known[id - 1].gone_ns = guest_clock();
    mirror_module(id);
}

const char *stack_module(uint64_t frame, uint64_t *bias)
{
    uint32_t id = MLW_WATCH_FRAME_MODULE(frame);
    if (id - 1 >= watcher.plan.modules || !known[id - 1].state)
        return 0;
    *bias = known[id - 1].bias;
    return known[id - 1].path;
}

/* ---- stacks ---- */

bool stack_init(void)
{
    known = watch_map(watcher.plan.modules * sizeof *known);
    return known && !unwind_init(next_facts.dl_find_object, next_facts.stack_end);
}

/* An unwinder for the calling thread, busy with us; POOL: all are busy, or there is no memory. */
static unsigned borrow(void)
{
    uint64_t me = (uint64_t)__builtin_thread_pointer();
    unsigned first = (unsigned)((me * 0x9e3779b97f4a7c15) >> 61) % POOL;
    /* the free ones, then those whose threads may be gone */
    for (unsigned i = 0; i < 2 * POOL; i++) {
        unsigned at = (first + i) % POOL;
        if (i < POOL && pool[at].busy)
            continue;
        enum watch_claim claim = watch_claim(&pool[at].busy);
        if (claim == CLAIM_BUSY)
            continue;
        if (claim == CLAIM_LEFT) { /* whatever was being written */
            if (pool[at].unwind)
                unwind_thread_clear(pool[at].unwind);
            memset(pool[at].known, 0, sizeof pool[at].known);
        }
        if (!pool[at].unwind) {
            pool[at].unwind = unwind_thread_new();
            pool[at].owner = me;
        } else if (pool[at].owner != me) {
            unwind_thread_reset(pool[at].unwind);
            pool[at].owner = me;
        }
        if (pool[at].unwind)
            return at;
        watch_disclaim(&pool[at].busy);
    }
    return POOL;
}

static void caller_only(uint64_t sp, struct mlw_watch_stack *to)
{
    count(&watcher.segment->counters.no_stack, 1);
    to->frames = 1;
    to->flags = MLW_WATCH_STACK_CALLER;
    to->frame[0] = *(const uint64_t *)sp & MLW_WATCH_FRAME_PC(~0ull);
}

/* Takes the stack with a borrowed unwinder; 0: it could not be had, else the trie's id. first: the
 * id, when it has been asked for already. */
static uint32_t take_borrowed_stack(unsigned at, uint64_t sp, uint64_t bp, unsigned skip,
                                    uint32_t first, struct mlw_watch_stack *to)
{
    for (unsigned attempt = 0; at < POOL && attempt < 3; attempt++) {
        uint32_t id = first && !attempt ? first : unwind_stack(pool[at].unwind, sp, bp, 0);
        if (id && spell_stack(id, skip, to) && to->frames)
            return id;
    }
    caller_only(sp, to);
    return 0;
}

static void give_back_unwinder(unsigned at)
{
    if (at < POOL)
        watch_disclaim(&pool[at].busy);
}

void stack_take(uint64_t sp, uint64_t bp, unsigned skip, struct mlw_watch_stack *to)
{
    unsigned at = borrow();
    take_borrowed_stack(at, sp, bp, skip, 0, to);
    give_back_unwinder(at);
}

static __attribute__((noinline)) uint32_t site_of_caller(uint64_t sp, uint64_t now)
{
    struct mlw_watch_stack stack;
    caller_only(sp, &stack);
    return tables_site(&stack, now);
}

uint32_t stack_site(uint64_t sp, uint64_t bp, uint64_t now)
{
    const unsigned at = borrow();
    if (at == POOL)
        return site_of_caller(sp, now);
    uint32_t id = unwind_stack(pool[at].unwind, sp, bp, 0), site;
    const struct known_site *k = &pool[at].known[id % KNOWN_SITES];
    if (id && k->id == id && tables_hold_again(k->site, k->given, now)) {
        site = k->site;
    } else {
        id = take_borrowed_stack(at, sp, bp, 0, id, &pool[at].stack);
        site = tables_site(&pool[at].stack, now);
        if (id && site != NO_INDEX)
            pool[at].known[id % KNOWN_SITES] =
                (struct known_site){id, site, tables_site_given(site)};
    }
    give_back_unwinder(at);
    return site;
}

void stack_modules_changed(uint64_t sp)
{
    (void)sp;
    unwind_unmapped(0, 0, 0);
}

void stack_after_fork(void)
{
    for (unsigned i = 0; i < POOL; i++)
        if (pool[i]
                .busy) { /* by a thread that is not here, or by the call that forked: another one */
            pool[i].unwind = 0;
            pool[i].busy = 0;
            memset(pool[i].known, 0, sizeof pool[i].known);
        }
    trie.turning = 0;
    for (uint32_t i = 0; i < watcher.plan.modules; i++)
        if (known && known[i].state)
            mirror_module(i + 1);
}

void stack_prepare(void)
{
    for (unsigned i = 0; i < POOL; i++) {
        if (pool[i].unwind || watch_claim(&pool[i].busy) == CLAIM_BUSY)
            continue;
        if (!pool[i].unwind)
            pool[i].unwind = unwind_thread_new();
        watch_disclaim(&pool[i].busy);
    }
}
