/* unwind_stack.c - from rsp to the id of a stack: two caches over a walk by unwind rules.
 *
 * Owns: the state of a thread. A stack equals a remembered one when every word that the walk read
 * is unchanged, so both caches keep those words and their addresses, and compare them:
 *   - the whole-stack cache finds candidates by (return address, rsp): a set-associative table of
 *     tags over a ring of entries, each with all the words of one stack;
 *   - the prefix cache is the last stack walked, outermost frame first: a new walk goes outwards
 *     until it meets a frame whose outer words still hold.
 * rbp is data in most frames: it is compared only where an older frame's rule needs it. Threads: a
 * state belongs to one thread and is not re-entered. */
#include "arch/code.h"
#include "arch/compare.h"
#include "unwind_impl.h"

#define SETS_BITS 7u
#define WAYS      4u
#ifndef UNWIND_RING_BYTES /* a library may choose smaller ones; see watch/meson.build */
#define UNWIND_RING_BYTES (96u * 1024)
#endif
#ifndef UNWIND_FRAMES_MAX
#define UNWIND_FRAMES_MAX 65536u
#endif
#define RING_BYTES      UNWIND_RING_BYTES
#define BLOCK           8u /* words compared between two branches */
#define WHOLE_WORDS_MAX 128u
#define FRAMES_FIRST    512u
#define FRAMES_MAX      UNWIND_FRAMES_MAX
#define CUT_FRAMES      256u /* kept of a stack that is deeper than FRAMES_MAX when first met */
#define WORDS_PER_FRAME 3u
#define CALLERS         64u
#define PLAIN           64u
#define NEAR_BYTES      (1ul << 20) /* a frame that is larger is not believed */

#define PC_EXACT (1ul << 62)
#define PC_FP    (1ul << 61)
#define PC_BITS  (ARCH_ADDRESS_END - 1)

/* One word that a walk read. */
struct word {
    uint64_t at, value;
};

/* A frame of the prefix cache. */
struct frame {
    uint64_t pc; /* with PC_EXACT, PC_FP */
    uint64_t sp, rbp;
    uint32_t node;
    uint32_t words; /* words[0..words) lead from here to the end; bit 31: rbp matters */
};
#define RBP_MATTERS (1u << 31)

/* A frame of the walk under way, innermost first. */
struct step {
    uint64_t pc, sp, rbp;
    uw_rule rule;
    uint32_t module;
};

struct block {
    uint16_t at[BLOCK]; /* (address - sp) / 8 */
    uint64_t value[BLOCK] __attribute__((aligned(16)));
};
struct entry {
    uint64_t sp, rbp, rbp_mask;
    uint32_t node;
    uint16_t blocks;
    uint16_t unused;
    struct block block[];
};
struct set {
    uint32_t key[WAYS]; /* 0: free */
    uint32_t at[WAYS];  /* offset in the ring */
};

struct unwind_thread {
    uint32_t generation;
    uint32_t frames;    /* of the prefix cache */
    uint32_t frame_cap; /* of prefix and steps */
    uint32_t ring_head;
    struct uw_region own;
    struct frame *frame;
    struct word *word;
    struct step *step;
    uint8_t *ring;
    struct {
        uint64_t pc;
        uint32_t node, generation;
    } caller[CALLERS];
    struct uw_cfi_memo memo;
    uint64_t plain[PLAIN]; /* return addresses in generated code that says nothing by itself */
    struct set set[1u << SETS_BITS];
};

#ifdef UNWIND_BENCH /* leaves caches out, to see what each is worth */
int uw_bench_mode;
uint64_t uw_bench_slow;
#define WITHOUT(mode) UW_UNLIKELY(uw_bench_mode >= (mode))
#else
#define WITHOUT(mode) 0
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

static void flush(struct unwind_thread *t)
{
    t->generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    t->frames = 0;
    t->ring_head = 0;
    __builtin_memset(t->set, 0, sizeof t->set);
    __builtin_memset(t->plain, 0, sizeof t->plain);
    t->memo.module = 0; /* it may have been left half-written */
}

static bool map_frames(struct unwind_thread *t, uint32_t n)
{
    size_t bytes =
        n * (sizeof(struct frame) + WORDS_PER_FRAME * sizeof(struct word) + sizeof(struct step));
    uint8_t *p = unwind_host_map(bytes);
    if (!p)
        return false;
    t->frame = (struct frame *)p;
    t->word = (struct word *)(t->frame + n);
    t->step = (struct step *)(t->word + (size_t)n * WORDS_PER_FRAME);
    t->frame_cap = n;
    return true;
}

struct unwind_thread *unwind_thread_new(void)
{
    size_t head = (sizeof(struct unwind_thread) + 63) & ~(size_t)63;
    struct unwind_thread *t = unwind_host_map(head + RING_BYTES);
    if (!t)
        return 0;
    if (!map_frames(t, FRAMES_FIRST)) {
        unwind_host_unmap(t, head + RING_BYTES);
        return 0;
    }
    t->ring = (uint8_t *)t + head;
    flush(t);
    return t;
}

void unwind_thread_reset(struct unwind_thread *t)
{
    flush(t);
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

static void whole_insert(struct unwind_thread *t, uint64_t pc, uint64_t sp, uint64_t rbp,
                         uint32_t node, const struct word *words, uint32_t n, bool rbp_matters)
{
    uint32_t blocks = (n + 1 + BLOCK - 1) / BLOCK;
    uint32_t bytes = (uint32_t)(sizeof(struct entry) + blocks * sizeof(struct block));
    if (n + 1 > WHOLE_WORDS_MAX)
        return;
    for (uint32_t i = 0; i < n; i++) /* ascending from the innermost, which comes last */
        if (words[i].at - sp > 8 * 0xffffu || words[i].at & 7)
            return;
    /* Room: everything from the head on that the new entry will overlap is forgotten. */
    if (t->ring_head + bytes > RING_BYTES) {
        t->ring_head = 0;
        __builtin_memset(t->set, 0, sizeof t->set);
    }
    uint64_t h = whole_hash(pc, sp);
    struct set *set = &t->set[h >> (64 - SETS_BITS)];
    unsigned way = t->ring_head / 16 % WAYS;
    for (unsigned i = 0; i < WAYS; i++)
        if (!set->key[i])
            way = i;
    struct entry *e = (struct entry *)(t->ring + t->ring_head);
    *e = (struct entry){.sp = sp,
                        .rbp = rbp,
                        .rbp_mask = rbp_matters ? ~(uint64_t)0 : 0,
                        .node = node,
                        .blocks = (uint16_t)blocks};
    for (uint32_t i = 0; i < blocks * BLOCK; i++) {
        bool real = i > 0 && i <= n; /* the rest repeats the first word */
        e->block[i / BLOCK].at[i % BLOCK] = real ? (uint16_t)((words[n - i].at - sp) / 8) : 0;
        e->block[i / BLOCK].value[i % BLOCK] = real ? words[n - i].value : pc;
    }
    set->key[way] = whole_key(h);
    set->at[way] = t->ring_head;
    t->ring_head += (bytes + 15) & ~15u;
}

/* Whether the stack at sp is the one of entry e. All words of an entry lie on the thread's own
 * stack above sp, so they can be read in any order. */
UW_INLINE bool whole_same(const struct entry *e, uint64_t sp, uint64_t rbp)
{
    uint64_t differ = (e->sp ^ sp) | ((e->rbp ^ rbp) & e->rbp_mask);
    if (UW_UNLIKELY(differ))
        return false;
    const struct block *b = e->block, *end = b + e->blocks;
    do {
        if (UW_UNLIKELY(!arch_eight_words_same(sp, b->at, b->value)))
            return false;
    } while (++b != end);
    return true;
}

/* ---- the prefix cache ---- */

/* How many frames of the last stack still lead to the same end, seen from sp: their words hold,
 * and lie above sp. */
static uint32_t prefix_valid(const struct unwind_thread *t, uint64_t sp)
{
    uint32_t n = t->frames;
    while (n && t->frame[n - 1].sp <= sp)
        n--;
    if (!n)
        return 0;
    const struct word *w = t->word, *end = w + (t->frame[n - 1].words & ~RBP_MATTERS);
    uint64_t room = t->own.hi - sp;
    for (; w != end; w++)
        if (w->at - sp >= room || *(const uint64_t *)w->at != w->value)
            break;
    if (w != end) {
        uint32_t held = (uint32_t)(w - t->word);
        while (n && (t->frame[n - 1].words & ~RBP_MATTERS) > held)
            n--;
    }
    return n;
}

/* ---- the walk ---- */

enum ending { AT_PREFIX, AT_END, AT_ZERO, AT_NO_RULE, AT_FAULT };

struct walk {
    uint64_t sp;             /* of the call */
    struct uw_region region; /* the one being read */
    uint32_t n;              /* steps */
    uint32_t base;           /* AT_PREFIX: frame of the prefix that was met */
    bool own;                /* all of it is on the own stack */
    bool plain;              /* sp rises, every word lies above the frame that it was read for */
    enum ending ending;
};

static bool grow(struct unwind_thread *t)
{
    struct frame *frame = t->frame;
    struct word *word = t->word;
    struct step *step = t->step;
    uint32_t cap = t->frame_cap;
    if (cap >= FRAMES_MAX || !map_frames(t, cap * 4 < FRAMES_MAX ? cap * 4 : FRAMES_MAX))
        return false;
    if (t->frames) {
        __builtin_memcpy(t->frame, frame, t->frames * sizeof *frame);
        __builtin_memcpy(t->word, word,
                         (t->frame[t->frames - 1].words & ~RBP_MATTERS) * sizeof *word);
    }
    __builtin_memcpy(t->step, step, cap * sizeof *step);
    unwind_host_unmap(frame, cap * (sizeof(struct frame) + WORDS_PER_FRAME * sizeof(struct word) +
                                    sizeof(struct step)));
    return true;
}

UW_INLINE bool readable_here(struct walk *w, uint64_t at)
{
    if (UW_LIKELY(at - w->region.lo < w->region.hi - w->region.lo && w->region.hi - at >= 8))
        return true;
    return uw_region_extend(&w->region, at);
}

/* Enters the stack that a frame's new sp lies in. */
static bool enter_region(struct unwind_thread *t, struct walk *w, uint64_t sp)
{
    if (sp - w->region.lo < w->region.hi - w->region.lo)
        return true;
    w->own = false;
    if (uw_region_own(&t->own, sp)) {
        w->region = t->own;
        return true;
    }
    return uw_region_foreign(&w->region, sp);
}

#define READ(to, from)                                                                             \
    do {                                                                                           \
        uint64_t read_at = (from);                                                                 \
        if (UW_UNLIKELY((read_at & 7) != 0 || !readable_here(w, read_at)))                         \
            return AT_FAULT;                                                                       \
        w->plain &= read_at >= s->sp;                                                              \
        (to) = *(const uint64_t *)read_at;                                                         \
    } while (0)

/* Goes one frame outwards from s; *pc, *sp, *rbp are the outer frame's. AT_PREFIX: it could. */
UW_INLINE enum ending outwards(struct unwind_thread *t, struct walk *w, const struct step *s,
                               uint64_t *pc, uint64_t *sp, uint64_t *rbp)
{
    const uw_rule r = s->rule;
    uint64_t cfa, outer_rbp = s->rbp, outer_pc;
    uint64_t k = (uint64_t)uw_rule_k(r);
    if (UW_UNLIKELY(uw_rule_ra(r) == UW_RA_END))
        return AT_END;
    switch (uw_rule_cfa(r)) {
    case UW_CFA_RSP: cfa = s->sp + k; break;
    case UW_CFA_RBP: cfa = s->rbp + k; break;
    case UW_CFA_AT_RSP: READ(cfa, s->sp + k); break;
    case UW_CFA_AT_RBP: READ(cfa, s->rbp + k); break;
    default: return AT_NO_RULE;
    }
    bool usual = uw_rule_ra(r) == UW_RA_USUAL;
    if (UW_UNLIKELY(cfa <= s->sp)) {
        if (!(r & UW_RULE_SIGNAL))
            return AT_FAULT;
        w->plain = false;
    }
    switch (uw_rule_rbp(r)) {
    case UW_RBP_SAME: break;
    case UW_RBP_AT_CFA: READ(outer_rbp, cfa + (uint64_t)uw_rule_rbp_off(r)); break;
    case UW_RBP_AT_RBP: READ(outer_rbp, s->rbp + (uint64_t)uw_rule_rbp_off(r)); break;
    default: READ(outer_rbp, s->sp + (uint64_t)uw_rule_rbp_off(r)); break;
    }
    if (UW_LIKELY(usual))
        READ(outer_pc, cfa - 8);
    else if (uw_rule_ra(r) == UW_RA_AT_RSP)
        READ(outer_pc, s->sp + (uint64_t)uw_rule_ra_off(r));
    else
        READ(outer_pc, cfa + (uint64_t)uw_rule_ra_off(r));
    if (UW_UNLIKELY(outer_pc == 0))
        return AT_ZERO;
    if (UW_UNLIKELY(outer_pc < ARCH_PAGE_BYTES || outer_pc >= ARCH_ADDRESS_END))
        return AT_FAULT;
    if (UW_UNLIKELY((cfa & 7) != 0 || !enter_region(t, w, cfa)))
        return AT_FAULT;
    *pc = outer_pc | (r & UW_RULE_SIGNAL ? PC_EXACT : 0);
    *sp = cfa;
    *rbp = outer_rbp;
    return AT_PREFIX;
}

/* Whether rbp looks like the frame pointer of code that no table covers (V8 keeps one in all of
 * its built-in functions): it points at a saved one and a return address. */
static bool keeps_frame(struct unwind_thread *t, struct walk *w, uint64_t sp, uint64_t rbp,
                        void *ctx)
{
    uw_rule rule;
    uint32_t module;
    if (uw_region_is_first(sp) || rbp < sp || (rbp & 7) != 0 || !readable_here(w, rbp) ||
        !readable_here(w, rbp + 8))
        return false;
    const uint64_t outer = ((const uint64_t *)rbp)[0], pc = ((const uint64_t *)rbp)[1];
    if (pc < ARCH_PAGE_BYTES || pc >= ARCH_ADDRESS_END)
        return false;
    if (uw_rules_get(pc - 1, &rule, &module, &t->memo, ctx) && rule != UW_RULE_UNCOVERED)
        return arch_follows_call(pc);
    return outer > rbp && (outer & 7) == 0 && outer - rbp < NEAR_BYTES && readable_here(w, outer);
}

/* The rule of generated code. Returns false when it is only hoped to keep a frame pointer. The
 * kernel is asked for its instructions once. */
static bool generated(struct unwind_thread *t, uint64_t pc, uint64_t address, uw_rule *rule)
{
    uint64_t *plain = &t->plain[pc * 0x9e3779b97f4a7c15 >> 58];
    *rule = UW_RULE_FP;
    uw_region_remember(address, address + 1);
    if (*plain == pc || pc & PC_EXACT)
        return false;
    if (uw_generated_rule(pc & PC_BITS, rule)) {
        uw_rules_put(address, *rule);
        return true;
    }
    *plain = pc;
    return false;
}

/* Fills t->step from the innermost frame outwards. */
static void walk(struct unwind_thread *t, struct walk *w, uint64_t rbp, void *ctx)
{
    uint64_t pc = *(const uint64_t *)w->sp, sp = w->sp + 8;
    uint32_t valid = w->own && !WITHOUT(2) ? prefix_valid(t, w->sp) : 0;
    for (;;) {
        while (valid && t->frame[valid - 1].sp < sp)
            valid--;
        if (valid) {
            const struct frame *f = &t->frame[valid - 1];
            if (f->sp == sp && f->pc == pc && (!(f->words & RBP_MATTERS) || f->rbp == rbp)) {
                w->base = valid - 1;
                w->ending = AT_PREFIX;
                return;
            }
        }
        if (UW_UNLIKELY(w->n == t->frame_cap) && !grow(t)) {
            w->ending = AT_FAULT;
            return;
        }
        struct step *s = &t->step[w->n++];
        s->pc = pc;
        s->sp = sp;
        s->rbp = rbp;
        uint64_t address = (pc & PC_BITS) - (pc & PC_EXACT ? 0 : 1);
        bool fp = !uw_rules_get(address, &s->rule, &s->module, &t->memo, ctx);
        if (UW_UNLIKELY(fp)) {
            s->module = 0;
            fp = !generated(t, pc, address, &s->rule);
        } else if (UW_UNLIKELY(s->rule == UW_RULE_UNCOVERED) && keeps_frame(t, w, sp, rbp, ctx)) {
            s->rule = UW_RULE_FP;
            fp = true;
        }
        if (UW_UNLIKELY(fp)) {
            if (rbp < sp || rbp - w->region.lo >= w->region.hi - w->region.lo) {
                w->ending = AT_FAULT;
                return;
            }
        }
        enum ending e = outwards(t, w, s, &pc, &sp, &rbp);
        if (UW_UNLIKELY(e != AT_PREFIX)) {
            if (e == AT_NO_RULE && uw_region_is_first(sp)) /* the loader's, before _start */
                e = AT_END;
            w->ending = e == AT_ZERO && fp ? AT_FAULT : e;
            return;
        }
        if (UW_UNLIKELY(fp))
            pc |= PC_FP;
    }
}

static unsigned node_flags(uint64_t pc)
{
    return (pc & PC_EXACT ? MLW_NODE_EXACT : 0u) | (pc & PC_FP ? MLW_NODE_FP : 0u);
}

/* Appends the words that were read to get from step s to the frame outside it. Returns whether rbp
 * of s matters. outer_pc: 0 when 0 was read. */
static bool words_of(struct unwind_thread *t, const struct step *s, uint64_t outer_pc, uint64_t cfa,
                     uint64_t outer_rbp, bool outer_rbp_matters, uint32_t *n)
{
    const uw_rule r = s->rule;
    uint64_t k = (uint64_t)uw_rule_k(r);
    struct word *w = t->word;
    bool matters = false;
    switch (uw_rule_cfa(r)) {
    case UW_CFA_RBP: matters = true; break;
    case UW_CFA_AT_RSP: w[(*n)++] = (struct word){s->sp + k, cfa}; break;
    case UW_CFA_AT_RBP:
        matters = true;
        w[(*n)++] = (struct word){s->rbp + k, cfa};
        break;
    default: break;
    }
    uint64_t ra = uw_rule_ra(r) == UW_RA_USUAL    ? cfa - 8
                  : uw_rule_ra(r) == UW_RA_AT_RSP ? s->sp + (uint64_t)uw_rule_ra_off(r)
                                                  : cfa + (uint64_t)uw_rule_ra_off(r);
    w[(*n)++] = (struct word){ra, outer_pc};
    if (!outer_rbp_matters)
        return matters;
    switch (uw_rule_rbp(r)) {
    case UW_RBP_SAME: return true;
    case UW_RBP_AT_CFA:
        w[(*n)++] = (struct word){cfa + (uint64_t)uw_rule_rbp_off(r), outer_rbp};
        return matters;
    case UW_RBP_AT_RBP:
        w[(*n)++] = (struct word){s->rbp + (uint64_t)uw_rule_rbp_off(r), outer_rbp};
        return true;
    default:
        w[(*n)++] = (struct word){s->sp + (uint64_t)uw_rule_rbp_off(r), outer_rbp};
        return matters;
    }
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

/* Names the steps of the walk from the outermost inwards, and remembers them in the prefix cache
 * when they may be. Returns the innermost node. */
static uint32_t name_steps(struct unwind_thread *t, const struct walk *w, void *ctx)
{
    uint32_t parent = 0, n = w->n, words = 0;
    bool remember = w->own && w->plain && w->ending != AT_FAULT;
    bool rbp_matters = false;
    uint64_t outer_pc = 0, outer_sp = 0, outer_rbp = 0;
    if (w->ending == AT_PREFIX) {
        const struct frame *f = &t->frame[w->base];
        t->frames = w->base + 1;
        parent = f->node;
        words = f->words & ~RBP_MATTERS;
        rbp_matters = f->words & RBP_MATTERS;
        outer_pc = f->pc & PC_BITS;
        outer_sp = f->sp;
        outer_rbp = f->rbp;
    } else {
        t->frames = 0;
        if (w->ending == AT_FAULT || w->ending == AT_NO_RULE) {
            bool cut = n >= FRAMES_MAX;
            n = cut ? CUT_FRAMES : n;
            parent = uw_trie_get(0, cut ? 0 : t->step[n - 1].pc & PC_BITS, t->step[n - 1].module,
                                 MLW_NODE_TRUNCATED, ctx);
            unwind_host_truncated();
            if (!parent)
                return 0;
        } else if (w->ending == AT_ZERO) {
            outer_sp = cfa_of(&t->step[n - 1]);
        }
    }
    while (n--) {
        const struct step *s = &t->step[n];
        uint32_t node = uw_trie_get(parent, s->pc & PC_BITS, s->module, node_flags(s->pc), ctx);
        if (UW_UNLIKELY(!node))
            return 0;
        remember = remember && t->frames < t->frame_cap;
        if (UW_LIKELY(remember)) {
            if (n + 1 < w->n || w->ending == AT_PREFIX || w->ending == AT_ZERO)
                rbp_matters = words_of(t, s, outer_pc, outer_sp, outer_rbp, rbp_matters, &words);
            t->frame[t->frames++] =
                (struct frame){s->pc, s->sp, s->rbp, node, words | (rbp_matters ? RBP_MATTERS : 0)};
            outer_pc = s->pc & PC_BITS;
            outer_sp = s->sp;
            outer_rbp = s->rbp;
        }
        parent = node;
    }
    if (remember && t->frames && !WITHOUT(1)) {
        const struct frame *f = &t->frame[t->frames - 1];
        whole_insert(t, f->pc & PC_BITS, w->sp, f->rbp, f->node, t->word, f->words & ~RBP_MATTERS,
                     f->words & RBP_MATTERS);
    }
    return parent;
}

static __attribute__((noinline)) uint32_t stack_slow(struct unwind_thread *t, uint64_t sp,
                                                     uint64_t rbp, void *ctx)
{
#ifdef UNWIND_BENCH
    uw_bench_slow++;
#endif
    if (UW_UNLIKELY(__atomic_load_n(&no_memory_yet, __ATOMIC_ACQUIRE)) || (sp & 7) != 0)
        return 0;
    if (t->generation != __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE))
        flush(t);
    struct walk w = {.sp = sp, .own = true, .plain = true};
    if (uw_region_own(&t->own, sp)) {
        w.region = t->own;
    } else {
        w.own = false;
        if (!uw_region_foreign(&w.region, sp)) {
            /* Only the return address, which the call has just pushed, can be read. */
            w.region = (struct uw_region){sp, sp + 8};
        }
    }
    walk(t, &w, rbp, ctx);
    return name_steps(t, &w, ctx);
}

uint32_t unwind_stack(struct unwind_thread *t, uint64_t sp, uint64_t bp, void *ctx)
{
    const uint64_t h = whole_hash(*(const uint64_t *)sp, sp);
    const struct set *set = &t->set[h >> (64 - SETS_BITS)];
    unsigned ways = arch_four_tags_same(set->key, whole_key(h));
    if (UW_UNLIKELY(t->generation != __atomic_load_n(&uw_generation, __ATOMIC_RELAXED)) ||
        WITHOUT(1))
        ways = 0;
    for (; UW_LIKELY(ways); ways &= ways - 1) {
        const struct entry *e =
            (const struct entry *)(t->ring + set->at[(unsigned)__builtin_ctz(ways)]);
        if (UW_LIKELY(whole_same(e, sp, bp)))
            return e->node;
    }
    return stack_slow(t, sp, bp, ctx);
}

uint32_t unwind_caller(struct unwind_thread *t, uint64_t sp, void *ctx)
{
    uint64_t pc = *(const uint64_t *)sp;
    uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    unsigned i = (unsigned)(pc * 0x9e3779b97f4a7c15 >> 58);
    if (UW_LIKELY(t->caller[i].pc == pc && t->caller[i].generation == generation))
        return t->caller[i].node;
    uw_rule rule;
    uint32_t module = 0;
    if (__atomic_load_n(&no_memory_yet, __ATOMIC_ACQUIRE) || pc >= ARCH_ADDRESS_END)
        return 0;
    if (!uw_rules_get(pc - 1, &rule, &module, &t->memo, ctx))
        module = 0;
    uint32_t node = uw_trie_get(0, pc, module, 0, ctx);
    if (node) {
        t->caller[i].pc = pc;
        t->caller[i].node = node;
        t->caller[i].generation = generation;
    }
    return node;
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
