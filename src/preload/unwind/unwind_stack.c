/* unwind_stack.c - from rsp to the id of a stack: two caches over a walk by unwind rules.
 *
 * Owns: the state of a thread. A stack equals a remembered one when every word that the walk read
 * is unchanged, so both caches keep those words and their addresses, and compare them:
 *   - the whole-stack cache finds candidates by (return address, rsp): a set-associative table of
 *     tags over a ring of entries, each with all the words of one stack;
 *   - the prefix cache is the last stack walked, outermost frame first: a new walk goes outwards
 *     until it meets a frame whose outer words still hold.
 * Addresses are kept as distances from the end of the thread's stack, so that an entry of the one
 * is a copy of a part of the other. rbp is data in most frames: it is compared only where an older
 * frame's rule needs it. Threads: a state belongs to one thread and is not re-entered. */
#include "arch/compare.h"
#include "unwind_thread.h"

#ifdef UNWIND_BENCH
int uw_bench_mode;
uint64_t uw_bench_slow;
#endif

uint32_t uw_generation = 1;
static uint32_t no_memory_yet = 1;

int unwind_init(void *dl_find_object, void *stack_end)
{
    uw_region_init(stack_end);
    if (uw_rules_init() || uw_trie_init() || uw_modules_init(dl_find_object))
        return -1;
    __atomic_store_n(&no_memory_yet, 0, __ATOMIC_RELEASE);
    return 0;
}

static void flush_prefixes(struct unwind_thread *t)
{
    t->generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    t->frames = 0;
    t->cut = false;
    t->last = t->guess = 0;
    t->ring_head = 0;
    __builtin_memset(t->set, 0, sizeof t->set);
    __builtin_memset(t->plain, 0, sizeof t->plain);
    t->memo.module = 0; /* it may have been left half-written */
}

struct unwind_thread *unwind_thread_new(void)
{
    size_t head = (sizeof(struct unwind_thread) + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1);
    uint8_t *p = unwind_host_map(head + RING_BYTES + uw_thread_bytes(FRAMES_FIRST));
    if (!p)
        return 0;
    struct unwind_thread *t = (struct unwind_thread *)p;
    t->ring = p + head;
    uw_thread_place(t, p + head + RING_BYTES, FRAMES_FIRST);
    flush_prefixes(t);
    return t;
}

void unwind_thread_reset(struct unwind_thread *t)
{
    flush_prefixes(t);
    t->own = (struct uw_region){0, 0};
}

void unwind_thread_clear(struct unwind_thread *t)
{
    unwind_thread_reset(t);
    __builtin_memset(t->caller, 0, sizeof t->caller);
}

/* ---- the whole-stack cache ---- */

UW_INLINE uint64_t whole_hash(uint64_t pc, uint64_t sp)
{
    return (pc ^ sp << 21) * 0x9e3779b97f4a7c15;
}
UW_INLINE uint32_t whole_key(uint64_t h) { return (uint32_t)(h >> 8) | 1; }

static uint32_t entry_bytes(uint32_t blocks)
{
    return (uint32_t)(sizeof(struct entry) + blocks * sizeof(struct block));
}

/* An entry for the whole stack in the prefix cache, whose innermost frame called from sp. Its node
 * is not known yet. NULL: it is too deep. */
static struct entry *whole_make(struct unwind_thread *t, uint64_t sp)
{
    const struct frame *f = &t->frame[t->frames - 1];
    const uint32_t n = f->words & ~RBP_MATTERS, blocks = n / BLOCK + 1, bytes = entry_bytes(blocks);
    if (n >= WHOLE_WORDS_MAX)
        return 0;
    uint32_t at = t->ring_head % RING_BYTES;
    if (at + bytes > RING_BYTES) {
        t->ring_head += RING_BYTES - at;
        at = 0;
    }
    if (UW_UNLIKELY(t->ring_head > UINT32_MAX / 2)) { /* no set may take an old one for a new one */
        __builtin_memset(t->set, 0, sizeof t->set);
        t->ring_head = 0;
        at = 0;
    }
    struct entry *e = (struct entry *)(t->ring + at);
    *e = (struct entry){.sp = sp,
                        .rbp = f->rbp,
                        .rbp_mask = f->words & RBP_MATTERS ? ~(uint64_t)0 : 0,
                        .blocks = blocks};
    for (uint32_t i = 0; i < blocks; i++)
        e->block[i] = t->words[i];
    struct block *last = &e->block[blocks - 1];
    for (uint32_t i = n % BLOCK; i < BLOCK; i++) {
        last->value[i] = f->pc & PC_BITS;
        last->at[i] = (int32_t)((int64_t)(sp - t->end) >> 3);
    }
    t->ring_head += bytes;
    return e;
}

/* From now on it is found. Room for it: what it overwrites is not found any more. */
static void whole_publish(struct unwind_thread *t, struct entry *e, uint64_t pc, uint32_t node)
{
    const uint64_t h = whole_hash(pc, e->sp);
    struct set *set = &t->set[h >> (64 - SETS_BITS)];
    unsigned way = 0;
    for (unsigned i = 0; i < WAYS; i++) {
        if (!set->key[i]) {
            way = i;
            break;
        }
        if (t->ring_head - set->at[i] > t->ring_head - set->at[way])
            way = i;
    }
    e->node = node;
    set->key[way] = whole_key(h);
    set->at[way] = t->ring_head - entry_bytes(e->blocks);
}

/* True if the stack at sp is the one of entry e. All words of an entry lie on the thread's own
 * stack above sp, so they can be read in any order. */
UW_INLINE bool whole_same(const struct entry *e, uint64_t end, uint64_t sp, uint64_t rbp)
{
    uint64_t differ = (e->sp ^ sp) | ((e->rbp ^ rbp) & e->rbp_mask);
    if (UW_UNLIKELY(differ))
        return false;
    const struct block *b = e->block + e->blocks; /* the innermost words change most often */
    do {
        b--;
        if (UW_UNLIKELY(!arch_eight_words_same(end, b->at, b->value)))
            return false;
    } while (b != e->block);
    return true;
}

/* ---- names ---- */

static unsigned node_flags(uint64_t pc)
{
    return (pc & PC_EXACT ? MLW_NODE_EXACT : 0u) | (pc & PC_FP ? MLW_NODE_FP : 0u);
}

/* Appends the words that were read to get from step s to the frame outside it. Returns whether rbp
 * of s matters. outer_pc: 0 when 0 was read. */
UW_INLINE bool append_words(struct unwind_thread *t, const struct step *s, uint64_t outer_pc,
                            uint64_t cfa, uint64_t outer_rbp, bool outer_rbp_matters, uint64_t *n)
{
#define WORD(from, is)                                                                             \
    do {                                                                                           \
        struct block *to = &t->words[*n / BLOCK];                                                  \
        const uint64_t at = (*n)++ % BLOCK;                                                        \
        to->at[at] = (int32_t)((int64_t)((from)-t->end) >> 3);                                     \
        to->value[at] = (is);                                                                      \
    } while (0)
    const uw_rule r = s->rule;
    if (UW_LIKELY((r & (7 | 3 << 5)) == UW_CFA_RSP && !outer_rbp_matters)) {
        WORD(cfa - 8, outer_pc);
        return false;
    }
    uint64_t k = (uint64_t)uw_rule_k(r);
    bool matters = false;
    switch (uw_rule_cfa(r)) {
    case UW_CFA_RBP: matters = true; break;
    case UW_CFA_AT_RSP: WORD(s->sp + k, cfa); break;
    case UW_CFA_AT_RBP:
        matters = true;
        WORD(s->rbp + k, cfa);
        break;
    default: break;
    }
    uint64_t ra = uw_rule_ra(r) == UW_RA_USUAL    ? cfa - 8
                  : uw_rule_ra(r) == UW_RA_AT_RSP ? s->sp + (uint64_t)uw_rule_ra_off(r)
                                                  : cfa + (uint64_t)uw_rule_ra_off(r);
    WORD(ra, outer_pc);
    if (!outer_rbp_matters)
        return matters;
    switch (uw_rule_rbp(r)) {
    case UW_RBP_SAME: return true;
    case UW_RBP_AT_CFA: WORD(cfa + (uint64_t)uw_rule_rbp_off(r), outer_rbp); return matters;
    case UW_RBP_AT_RBP: WORD(s->rbp + (uint64_t)uw_rule_rbp_off(r), outer_rbp); return true;
    default: WORD(s->sp + (uint64_t)uw_rule_rbp_off(r), outer_rbp); return matters;
    }
#undef WORD
}

/* The CFA of a step, for the step whose outer frame is not there (a zero return address). */
static uint64_t cfa_of(const struct step *s)
{
    uint64_t k = (uint64_t)uw_rule_k(s->rule);
    switch (uw_rule_cfa(s->rule)) {
    case UW_CFA_RSP: return s->sp + k;
    case UW_CFA_RBP: return s->rbp + k;
    case UW_CFA_AT_RSP: return *(const uint64_t *)(s->sp + k);
    default: return *(const uint64_t *)(s->rbp + k);
    }
}

UW_INLINE struct uw_named step_name(const struct step *s, uint64_t outer_hash)
{
    const uint64_t key = UW_LIKELY(s->pc < ARCH_ADDRESS_END)
                             ? uw_key(s->pc, s->module, 0)
                             : uw_key(s->pc & PC_BITS, s->module, node_flags(s->pc));
    return (struct uw_named){key, uw_hash(outer_hash, key), s->node, s->module, s->record};
}

/* Names n steps below the `base` frames that have names, where there is no memory for all names. */
static ARCH_ALIGNS_STACK uint32_t name_each(struct unwind_thread *t, uint32_t base, uint32_t n,
                                            void *ctx)
{
    struct uw_named pair[2] = {{0, UW_HASH_END, 0, 0, 0}};
    if (base) {
        if (!uw_trie_name(t->name, base, t->cut, ctx))
            return 0;
        pair[0] = t->name[base - 1];
    }
    while (n--) {
        const bool outermost = !pair[0].node;
        pair[1] = step_name(&t->step[n], pair[0].hash);
        if (!uw_trie_name(outermost ? pair + 1 : pair, outermost ? 1 : 2, false, ctx))
            return 0;
        pair[0] = pair[1];
    }
    return pair[0].node;
}

/* Where the steps of a walk are to be appended: the frame outside them. */
struct outer {
    uint64_t pc, sp, rbp, hash;
    uint64_t words;
    bool rbp_matters;
    bool there; /* a frame, or the word 0 that was read for one */
};

/* The end of a walk that met nothing remembered: the prefix cache is emptied, or has the truncation
 * mark alone. Fewer steps may be named than the walk has. */
static void begin_anew(struct unwind_thread *t, const struct walk *w, uint32_t *n, struct outer *o)
{
    t->frames = 0;
    t->cut = w->ending == AT_FAULT || w->ending == AT_NO_RULE;
    if (w->ending == AT_ZERO) {
        o->sp = cfa_of(&t->step[w->n - 1]);
        o->there = true;
    }
    if (!t->cut)
        return;
    const bool too_deep = w->n >= FRAMES_MAX;
    const struct step *s = &t->step[w->n - 1];
    const uint64_t key = uw_key(too_deep ? 0 : s->pc & PC_BITS, s->module, 0);
    *n = too_deep ? CUT_FRAMES : w->n;
    o->hash = uw_hash(UW_HASH_CUT, key);
    t->frame[0] = (struct frame){0, ~(uint64_t)0, 0, 0};
    t->name[0] = (struct uw_named){key, o->hash, 0, s->module, 0};
    t->frames = 1;
    unwind_host_truncated();
}

/* Appends step s to the prefix cache. */
UW_INLINE void append_step(struct unwind_thread *t, const struct step *s, struct outer *o,
                           bool remember)
{
    const struct uw_named name = step_name(s, o->hash);
    t->name[t->frames] = name;
    o->hash = name.hash;
    if (UW_LIKELY(remember)) {
        if (o->there)
            o->rbp_matters = append_words(t, s, o->pc, o->sp, o->rbp, o->rbp_matters, &o->words);
        t->frame[t->frames] = (struct frame){
            s->pc, s->sp, s->rbp, (uint32_t)o->words | (o->rbp_matters ? RBP_MATTERS : 0)};
        o->pc = s->pc & PC_BITS;
        o->sp = s->sp;
        o->rbp = s->rbp;
        o->there = true;
    }
    t->frames++;
}

/* Names the steps of the walk from the outermost inwards, and remembers them when they may be.
 * Returns the innermost node. */
static uint32_t name_steps(struct unwind_thread *t, const struct walk *w, void *ctx)
{
    const bool remember = w->own && w->plain && w->ending != AT_FAULT && t->end - w->sp < 1ul << 33;
    struct outer o = {.hash = UW_HASH_END};
    struct entry *e = 0;
    uint32_t n = w->n;
    if (w->ending == AT_PREFIX) {
        const struct frame *f = &t->frame[w->base];
        o = (struct outer){
            f->pc & PC_BITS,        f->sp, f->rbp, t->name[w->base].hash, f->words & ~RBP_MATTERS,
            f->words & RBP_MATTERS, true};
        t->frames = w->base + 1;
    } else {
        begin_anew(t, w, &n, &o);
    }
    const uint32_t base = t->frames;
    /* guessed to the end: outside the last step lies the same as outside its node */
    const bool guessed = w->ending == AT_PREFIX
                             ? t->name[w->base].node && w->guess == t->name[w->base].node
                             : w->ending == AT_END && w->guess == 0;
    for (uint32_t i = 0; UW_UNLIKELY(!guessed) && i < w->guessed; i++)
        t->step[i].node = 0;
    if (UW_UNLIKELY(base + n > t->frame_cap) && !uw_thread_grow(t, base + n)) {
        t->frames = t->cut && base == 1 ? 0 : base;
        return name_each(t, base, n, ctx);
    }
    while (n--)
        append_step(t, &t->step[n], &o, remember);
    const uint32_t frames = t->frames;
    if (UW_UNLIKELY(!frames))
        return 0;
    if (UW_UNLIKELY(!remember))
        t->frames = w->ending == AT_PREFIX ? base : 0;
    else if (!WITHOUT(1))
        e = whole_make(t, w->sp);
    uint32_t node = t->name[frames - 1].node;
    if (!node)
        node = uw_trie_name(t->name, frames, t->cut, ctx);
    if (UW_LIKELY(e && node)) {
        whole_publish(t, e, t->frame[frames - 1].pc & PC_BITS, node);
        t->guess = uw_trie_follow(t->last, node);
        t->last = node;
    }
    return node;
}

static ARCH_ALIGNS_STACK uint32_t stack_slow(struct unwind_thread *t, uint64_t sp, uint64_t rbp,
                                             void *ctx)
{
#ifdef UNWIND_BENCH
    uw_bench_slow++;
#endif
    if (UW_UNLIKELY(__atomic_load_n(&no_memory_yet, __ATOMIC_ACQUIRE)) || (sp & 7) != 0)
        return 0;
    const bool back = arch_forwards();
    if (t->generation != __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE))
        flush_prefixes(t);
    struct walk w = {.sp = sp, .guess = t->guess, .own = true, .plain = true};
    if (uw_region_own(&t->own, sp, t->asked)) {
        w.region = t->own;
        t->end = t->own.hi & ~(uint64_t)7;
    } else {
        w.own = false;
        if (!uw_region_foreign(&w.region, sp, t->asked)) {
            /* Only the return address, which the call has just pushed, can be read. */
            w.region = (struct uw_region){sp, sp + 8};
        }
    }
    uw_walk(t, &w, rbp, ctx);
    const uint32_t node = name_steps(t, &w, ctx);
    arch_backwards(back);
    return node;
}

/* The entry of that way of the set, if it is the stack at sp. */
UW_INLINE const struct entry *entry_at(const struct unwind_thread *t, const struct set *set,
                                       unsigned way, uint64_t sp, uint64_t bp)
{
    const uint32_t at = set->at[way];
    const struct entry *e = (const struct entry *)(t->ring + at % RING_BYTES);
    return UW_LIKELY(t->ring_head - at <= RING_BYTES) && whole_same(e, t->end, sp, bp) ? e : 0;
}

UW_INLINE unsigned ways_of(const struct unwind_thread *t, uint64_t sp, const struct set **set)
{
    const uint64_t h = whole_hash(*(const uint64_t *)sp, sp);
    *set = &t->set[h >> (64 - SETS_BITS)];
    return arch_four_tags_same((*set)->key, whole_key(h));
}

/* The first way with that tag has another stack. Looks all up again, so that unwind_stack need not
 * keep it. */
static __attribute__((noinline)) uint32_t other_ways(struct unwind_thread *t, uint64_t sp,
                                                     uint64_t bp, void *ctx)
{
    const struct set *set;
    unsigned ways = ways_of(t, sp, &set);
    while (ways &= ways - 1) {
        const struct entry *e = entry_at(t, set, (unsigned)__builtin_ctz(ways), sp, bp);
        if (e)
            return e->node;
    }
    return stack_slow(t, sp, bp, ctx);
}

uint32_t unwind_stack(struct unwind_thread *t, uint64_t sp, uint64_t bp, void *ctx)
{
    const struct set *set;
    const unsigned ways = ways_of(t, sp, &set);
    if (UW_UNLIKELY(!ways || t->generation != __atomic_load_n(&uw_generation, __ATOMIC_RELAXED)) ||
        WITHOUT(1))
        return stack_slow(t, sp, bp, ctx);
    const struct entry *e = entry_at(t, set, (unsigned)__builtin_ctz(ways), sp, bp);
    return UW_LIKELY(e != 0) ? e->node : other_ways(t, sp, bp, ctx);
}

UW_INLINE unsigned caller_place(uint64_t pc) { return (unsigned)(pc * 0x9e3779b97f4a7c15 >> 58); }

/* The node of that return address, when it is not the one that stands in its place. */
static ARCH_ALIGNS_STACK uint32_t caller_slow(struct unwind_thread *t, uint64_t pc, void *ctx)
{
    const uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&no_memory_yet, __ATOMIC_ACQUIRE) || pc >= ARCH_ADDRESS_END)
        return 0;
    const bool back = arch_forwards();
    const struct uw_found found = uw_rules_get(pc - 1, &t->memo, ctx);
    const uint32_t module = found.record ? found.module : 0;
    const uint64_t key = uw_key(pc, module, 0);
    struct uw_named name = {key, uw_hash(UW_HASH_END, key), 0, module, 0};
    const uint32_t node = uw_trie_name(&name, 1, false, ctx);
    if (node) {
        const unsigned i = caller_place(pc);
        t->caller[i].pc = pc;
        t->caller[i].node = node;
        t->caller[i].generation = generation;
    }
    arch_backwards(back);
    return node;
}

uint32_t unwind_caller(struct unwind_thread *t, uint64_t sp, void *ctx)
{
    const uint64_t pc = *(const uint64_t *)sp;
    const unsigned i = caller_place(pc);
    if (UW_LIKELY(t->caller[i].pc == pc &&
                  t->caller[i].generation == __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE)))
        return t->caller[i].node;
    return caller_slow(t, pc, ctx);
}

void unwind_unmapped(uint64_t start, uint64_t end, void *ctx)
{
    if (__atomic_load_n(&no_memory_yet, __ATOMIC_ACQUIRE))
        return;
    if (start == 0 && end == 0)
        uw_modules_sweep(ctx);
    else if (uw_region_remembered(start, end))
        __atomic_add_fetch(&uw_generation, 1, __ATOMIC_RELEASE);
}
