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
#include "arch/code.h"
#include "arch/compare.h"
#include "unwind_impl.h"

#define SETS_BITS 7u
#define WAYS      4u
#ifndef UNWIND_RING_BYTES /* a library may choose smaller ones; see preload/meson.build */
#define UNWIND_RING_BYTES (128u * 1024) /* a power of two */
#endif
#ifndef UNWIND_FRAMES_MAX
#define UNWIND_FRAMES_MAX 65536u
#endif
#define RING_BYTES      UNWIND_RING_BYTES
#define BLOCK           8u /* words compared between two branches */
#define WHOLE_WORDS_MAX 128u
#define FRAMES_FIRST    64u
#define FRAMES_MAX      UNWIND_FRAMES_MAX
#define CUT_FRAMES      256u /* kept of a stack that is deeper than FRAMES_MAX when first met */
#define WORDS_PER_FRAME 3u
#define CALLERS         64u
#define PLAIN           64u
#define NEAR_BYTES      (1ul << 20) /* a frame that is larger is not believed */

#define PC_EXACT (1ul << 62)
#define PC_FP    (1ul << 61)
#define PC_BITS  (ARCH_ADDRESS_END - 1)

/* Words that a walk read, outermost first: what, and where (in words from the end of the thread's
 * stack, so below 0). */
struct block {
    uint64_t value[BLOCK] __attribute__((aligned(16)));
    int32_t at[BLOCK];
};

/* A frame of the prefix cache. A truncation mark is one that no walk meets. */
struct frame {
    uint64_t pc; /* with PC_EXACT, PC_FP */
    uint64_t sp, rbp;
    uint32_t words; /* the first `words` words lead from here to the end; bit 31: rbp matters */
};
#define RBP_MATTERS (1u << 31)

/* A frame of the walk under way, innermost first. */
struct step {
    uint64_t pc, sp, rbp;
    uw_rule rule;
    uint32_t module, record;
    uint32_t node; /* 0: not known */
};

/* The last word is the return address at sp, and what fills up the last block. */
struct entry {
    uint64_t sp, rbp, rbp_mask;
    uint32_t node, blocks;
    struct block block[];
};
struct set {
    uint32_t key[WAYS];
    uint32_t at[WAYS]; /* all bytes ever put into the ring before the entry */
};

struct unwind_thread {
    uint32_t generation;
    uint32_t frames;    /* of the prefix cache */
    uint32_t frame_cap; /* of prefix and steps */
    uint32_t ring_head; /* bytes ever put into the ring, modulo 2^32 */
    uint64_t end;       /* addresses of words are relative to this: of `own`, rounded down */
    struct uw_region own;
    struct frame *frame;
    struct uw_named *name; /* of frames, and of the ones that are to become some */
    struct block *words;
    struct step *step;
    uint8_t *ring;
    bool cut;       /* the outermost frame is a truncation mark */
    uint32_t last;  /* the stack that was walked last; 0: none */
    uint32_t guess; /* what came after it before */
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
    t->cut = false;
    t->last = t->guess = 0;
    t->ring_head = 0;
    __builtin_memset(t->set, 0, sizeof t->set);
    __builtin_memset(t->plain, 0, sizeof t->plain);
    t->memo.module = 0; /* it may have been left half-written */
}

static size_t words_bytes(uint32_t frames)
{
    return ((size_t)frames * WORDS_PER_FRAME / BLOCK + 1) * sizeof(struct block);
}

static size_t frames_bytes(uint32_t n)
{
    const size_t bytes =
        words_bytes(n) + n * (sizeof(struct frame) + sizeof(struct uw_named) + sizeof(struct step));
    return (bytes + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1);
}

/* p: frames_bytes(n) bytes for all that grows with the depth of a stack. */
static void place_frames(struct unwind_thread *t, uint8_t *p, uint32_t n)
{
    t->words = (struct block *)p;
    t->frame = (struct frame *)(p + words_bytes(n));
    t->name = (struct uw_named *)(t->frame + n);
    t->step = (struct step *)(t->name + n);
    t->frame_cap = n;
}

struct unwind_thread *unwind_thread_new(void)
{
    size_t head = (sizeof(struct unwind_thread) + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1);
    uint8_t *p = unwind_host_map(head + RING_BYTES + frames_bytes(FRAMES_FIRST));
    if (!p)
        return 0;
    struct unwind_thread *t = (struct unwind_thread *)p;
    t->ring = p + head;
    place_frames(t, p + head + RING_BYTES, FRAMES_FIRST);
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

/* Whether the stack at sp is the one of entry e. All words of an entry lie on the thread's own
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

/* ---- the prefix cache ---- */

/* How many frames of the last stack still lead to the same end, seen from sp: their words hold,
 * and lie above sp, since those of a frame lie above its own. */
static uint32_t prefix_valid(const struct unwind_thread *t, uint64_t sp)
{
    uint32_t n = t->frames;
    while (n && t->frame[n - 1].sp <= sp)
        n--;
    if (!n)
        return 0;
    const uint32_t words = t->frame[n - 1].words & ~RBP_MATTERS;
    const struct block *b = t->words;
    uint32_t held = 0;
    for (; held + BLOCK <= words && arch_eight_words_same(t->end, b->at, b->value); b++)
        held += BLOCK;
    for (uint32_t i = 0; held < words && ((const uint64_t *)t->end)[b->at[i]] == b->value[i]; i++)
        held++;
    while (n && (t->frame[n - 1].words & ~RBP_MATTERS) > held)
        n--;
    return n;
}

/* ---- the walk ---- */

enum ending { AT_PREFIX, AT_END, AT_ZERO, AT_NO_RULE, AT_FAULT };

struct walk {
    uint64_t sp;             /* of the call */
    struct uw_region region; /* the one being read */
    uint32_t n;              /* steps */
    uint32_t base;           /* AT_PREFIX: frame of the prefix that was met */
    uint32_t guess;          /* the node of the next frame, if those before are what was guessed */
    bool own;                /* all of it is on the own stack */
    bool plain;              /* sp rises, every word lies above the frame that it was read for */
    enum ending ending;
};

/* Room for so many frames, and for the walk under way. */
static bool grow(struct unwind_thread *t, uint32_t frames)
{
    const struct unwind_thread was = {.frame = t->frame,
                                      .name = t->name,
                                      .words = t->words,
                                      .step = t->step,
                                      .frame_cap = t->frame_cap};
    uint64_t n = was.frame_cap;
    while (n < frames && n < FRAMES_MAX)
        n *= 4;
    n = n < FRAMES_MAX ? n : FRAMES_MAX;
    uint8_t *p = n < frames ? 0 : unwind_host_map(frames_bytes((uint32_t)n));
    if (!p)
        return false;
    place_frames(t, p, (uint32_t)n);
    if (t->frames) {
        const uint32_t words = was.frame[t->frames - 1].words & ~RBP_MATTERS;
        __builtin_memcpy(t->frame, was.frame, t->frames * sizeof *t->frame);
        __builtin_memcpy(t->name, was.name, t->frames * sizeof *t->name);
        __builtin_memcpy(t->words, was.words, (words / BLOCK + 1) * sizeof *t->words);
    }
    __builtin_memcpy(t->step, was.step, was.frame_cap * sizeof *t->step);
    unwind_host_unmap(was.words, frames_bytes(was.frame_cap));
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

/* The same for the frames of most functions, where nothing is in doubt: rsp is a constant away from
 * the CFA, below which the return address lies, and rbp if it was saved. False: not one of these.
 */
UW_INLINE bool usual(const struct walk *w, uw_rule r, uint64_t *pc, uint64_t *sp, uint64_t *rbp)
{
    const uint64_t cfa = *sp + (uint64_t)uw_rule_k(r), saved = cfa + (uint64_t)uw_rule_rbp_off(r);
    if ((r & (7 | 3 << 5 | UW_RULE_SIGNAL)) != UW_CFA_RSP || uw_rule_rbp(r) > UW_RBP_AT_CFA ||
        cfa <= *sp || (cfa & 7) != 0 || cfa - w->region.lo >= w->region.hi - w->region.lo)
        return false;
    if (uw_rule_rbp(r) == UW_RBP_AT_CFA && saved - *sp >= cfa - *sp)
        return false;
    const uint64_t outer = ((const uint64_t *)cfa)[-1];
    if (outer - ARCH_PAGE_BYTES >= ARCH_ADDRESS_END - ARCH_PAGE_BYTES)
        return false;
    if (uw_rule_rbp(r) == UW_RBP_AT_CFA)
        *rbp = *(const uint64_t *)saved;
    *pc = outer;
    *sp = cfa;
    return true;
}

/* Whether rbp looks like the frame pointer of code that no table covers (V8 keeps one in all of
 * its built-in functions): it points at a saved one and a return address. */
static bool keeps_frame(struct unwind_thread *t, struct walk *w, uint64_t sp, uint64_t rbp,
                        void *ctx)
{
    if (uw_region_is_first(sp) || rbp < sp || (rbp & 7) != 0 || !readable_here(w, rbp) ||
        !readable_here(w, rbp + 8))
        return false;
    const uint64_t outer = ((const uint64_t *)rbp)[0], pc = ((const uint64_t *)rbp)[1];
    if (pc < ARCH_PAGE_BYTES || pc >= ARCH_ADDRESS_END)
        return false;
    const struct uw_found found = uw_rules_get(pc - 1, &t->memo, ctx);
    if (found.record && found.rule != UW_RULE_UNCOVERED)
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

/* The rule of a step whose pc is known. Most often a stack follows the same one as before, and the
 * step is the guessed one, which has the rule, too. */
UW_INLINE struct uw_found rule_of(struct unwind_thread *t, struct walk *w, struct step *s,
                                  uint64_t address, void *ctx)
{
    struct uw_node *node = w->guess ? uw_trie_node(w->guess) : 0;
    s->node = 0;
    if (UW_LIKELY(node && (node->key & (PC_BITS | ARCH_ADDRESS_END)) == s->pc)) {
        const uint32_t record = __atomic_load_n(&node->record, __ATOMIC_RELAXED);
        struct uw_found found = uw_rules_record(record);
        if (UW_UNLIKELY(!found.record)) {
            found = uw_rules_get(address, &t->memo, ctx);
            __atomic_store_n(&node->record, found.record, __ATOMIC_RELAXED);
        }
        if (UW_LIKELY(found.record && node->key == uw_key(s->pc, found.module, 0))) {
            s->node = w->guess;
            w->guess = node->parent;
            return found;
        }
    }
    w->guess = UW_PARENT_CUT; /* no node, and no parent of any */
    return uw_rules_get(address, &t->memo, ctx);
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
        if (UW_UNLIKELY(w->n == t->frame_cap) && !grow(t, w->n + 1)) {
            w->ending = AT_FAULT;
            return;
        }
        struct step *s = &t->step[w->n++];
        s->pc = pc;
        s->sp = sp;
        s->rbp = rbp;
        uint64_t address = (pc & PC_BITS) - (pc & PC_EXACT ? 0 : 1);
        const struct uw_found found = rule_of(t, w, s, address, ctx);
        bool fp = !found.record;
        s->rule = found.rule;
        s->module = found.module;
        s->record = found.record;
        if (UW_LIKELY(!fp) && UW_LIKELY(usual(w, found.rule, &pc, &sp, &rbp)))
            continue;
        if (UW_UNLIKELY(fp)) {
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
UW_INLINE bool words_of(struct unwind_thread *t, const struct step *s, uint64_t outer_pc,
                        uint64_t cfa, uint64_t outer_rbp, bool outer_rbp_matters, uint32_t *n)
{
#define WORD(from, is)                                                                             \
    do {                                                                                           \
        struct block *to = &t->words[*n / BLOCK];                                                  \
        to->at[*n % BLOCK] = (int32_t)((int64_t)((from)-t->end) / 8);                              \
        to->value[(*n)++ % BLOCK] = (is);                                                          \
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

UW_INLINE struct uw_named name_of(const struct step *s, uint64_t outer_hash)
{
    const uint64_t key = UW_LIKELY(s->pc < ARCH_ADDRESS_END)
                             ? uw_key(s->pc, s->module, 0)
                             : uw_key(s->pc & PC_BITS, s->module, node_flags(s->pc));
    return (struct uw_named){key, uw_hash(outer_hash, key), s->node, s->module, s->record};
}

/* Names n steps below the `base` frames that have names, where there is no memory for all names. */
static uint32_t name_each(struct unwind_thread *t, uint32_t base, uint32_t n, void *ctx)
{
    struct uw_named pair[2] = {{0, UW_HASH_END, 0, 0, 0}};
    if (base) {
        if (!uw_trie_name(t->name, base, t->cut, ctx))
            return 0;
        pair[0] = t->name[base - 1];
    }
    while (n--) {
        const bool outermost = !pair[0].node;
        pair[1] = name_of(&t->step[n], pair[0].hash);
        if (!uw_trie_name(outermost ? pair + 1 : pair, outermost ? 1 : 2, false, ctx))
            return 0;
        pair[0] = pair[1];
    }
    return pair[0].node;
}

/* Where the steps of a walk are to be appended: what is outside them. */
struct outer {
    uint64_t pc, sp, rbp, hash;
    uint32_t words;
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
UW_INLINE void append(struct unwind_thread *t, const struct step *s, struct outer *o, bool remember)
{
    const struct uw_named name = name_of(s, o->hash);
    t->name[t->frames] = name;
    o->hash = name.hash;
    if (UW_LIKELY(remember)) {
        if (o->there)
            o->rbp_matters = words_of(t, s, o->pc, o->sp, o->rbp, o->rbp_matters, &o->words);
        t->frame[t->frames] =
            (struct frame){s->pc, s->sp, s->rbp, o->words | (o->rbp_matters ? RBP_MATTERS : 0)};
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
    /* guessed to the end: what lies outside the last step is what lies outside its node */
    const bool guessed = w->ending == AT_PREFIX
                             ? t->name[w->base].node && w->guess == t->name[w->base].node
                             : w->ending == AT_END && w->guess == 0;
    for (uint32_t i = 0; UW_UNLIKELY(!guessed) && i < n; i++)
        t->step[i].node = 0;
    if (UW_UNLIKELY(base + n > t->frame_cap) && !grow(t, base + n)) {
        t->frames = t->cut && base == 1 ? 0 : base;
        return name_each(t, base, n, ctx);
    }
    while (n--)
        append(t, &t->step[n], &o, remember);
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
    struct walk w = {.sp = sp, .guess = t->guess, .own = true, .plain = true};
    if (uw_region_own(&t->own, sp)) {
        w.region = t->own;
        t->end = t->own.hi & ~(uint64_t)7;
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

/* The entry of that way of the set, if it is the stack at sp. */
UW_INLINE const struct entry *entry_at(const struct unwind_thread *t, const struct set *set,
                                       unsigned way, uint64_t sp, uint64_t bp)
{
    const uint32_t at = set->at[way];
    const struct entry *e = (const struct entry *)(t->ring + at % RING_BYTES);
    return UW_LIKELY(t->ring_head - at <= RING_BYTES) && whole_same(e, t->end, sp, bp) ? e : 0;
}

/* The first way with that tag has another stack. */
static __attribute__((noinline)) uint32_t other_ways(struct unwind_thread *t, const struct set *set,
                                                     unsigned ways, uint64_t sp, uint64_t bp,
                                                     void *ctx)
{
    while (ways &= ways - 1) {
        const struct entry *e = entry_at(t, set, (unsigned)__builtin_ctz(ways), sp, bp);
        if (e)
            return e->node;
    }
    return stack_slow(t, sp, bp, ctx);
}

uint32_t unwind_stack(struct unwind_thread *t, uint64_t sp, uint64_t bp, void *ctx)
{
    const uint64_t h = whole_hash(*(const uint64_t *)sp, sp);
    const struct set *set = &t->set[h >> (64 - SETS_BITS)];
    const unsigned ways = arch_four_tags_same(set->key, whole_key(h));
    if (UW_UNLIKELY(!ways || t->generation != __atomic_load_n(&uw_generation, __ATOMIC_RELAXED)) ||
        WITHOUT(1))
        return stack_slow(t, sp, bp, ctx);
    const struct entry *e = entry_at(t, set, (unsigned)__builtin_ctz(ways), sp, bp);
    return UW_LIKELY(e != 0) ? e->node : other_ways(t, set, ways, sp, bp, ctx);
}

uint32_t unwind_caller(struct unwind_thread *t, uint64_t sp, void *ctx)
{
    uint64_t pc = *(const uint64_t *)sp;
    uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    unsigned i = (unsigned)(pc * 0x9e3779b97f4a7c15 >> 58);
    if (UW_LIKELY(t->caller[i].pc == pc && t->caller[i].generation == generation))
        return t->caller[i].node;
    if (__atomic_load_n(&no_memory_yet, __ATOMIC_ACQUIRE) || pc >= ARCH_ADDRESS_END)
        return 0;
    const struct uw_found found = uw_rules_get(pc - 1, &t->memo, ctx);
    const uint32_t module = found.record ? found.module : 0;
    const uint64_t key = uw_key(pc, module, 0);
    struct uw_named name = {key, uw_hash(UW_HASH_END, key), 0, module, 0};
    uint32_t node = uw_trie_name(&name, 1, false, ctx);
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
