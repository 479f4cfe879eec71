/* unwind_walk.c - from frame to frame by unwind rules, up to the frames that the prefix cache
 * knows.
 *
 * Owns: the steps of the walk under way. It reads only memory that is known to be readable. A
 * guess (unwind_trie.c) gives rules without a look at the tables, as long as it holds. */
#include "arch/code.h"
#include "arch/compare.h"
#include "unwind_thread.h"

static size_t words_bytes(uint32_t frames)
{
    return ((size_t)frames * WORDS_PER_FRAME / BLOCK + 1) * sizeof(struct block);
}

size_t uw_thread_bytes(uint32_t n)
{
    const size_t bytes =
        words_bytes(n) + n * (sizeof(struct frame) + sizeof(struct uw_named) + sizeof(struct step));
    return (bytes + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1);
}

/* p: uw_thread_bytes(n) bytes for all that grows with the depth of a stack. */
void uw_thread_place(struct unwind_thread *t, uint8_t *p, uint32_t n)
{
    t->words = (struct block *)p;
    t->frame = (struct frame *)(p + words_bytes(n));
    t->name = (struct uw_named *)(t->frame + n);
    t->step = (struct step *)(t->name + n);
    t->frame_cap = n;
}

/* ---- the prefix cache ---- */

/* How many outer frames of the last stack are still valid, seen from sp. Their words hold, and lie
 * above sp, since the words of a frame lie above its own sp. */
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

#define SWITCHES_MAX 4096u

bool uw_thread_grow(struct unwind_thread *t, uint32_t frames)
{
    const struct frame *const frame = t->frame;
    const struct uw_named *const name = t->name;
    const struct step *const step = t->step;
    struct block *const words = t->words;
    const uint32_t cap = t->frame_cap;
    uint64_t n = cap;
    while (n < frames && n < FRAMES_MAX)
        n *= 4;
    n = n < FRAMES_MAX ? n : FRAMES_MAX;
    uint8_t *p = n < frames ? 0 : unwind_host_map(uw_thread_bytes((uint32_t)n));
    if (!p)
        return false;
    uw_thread_place(t, p, (uint32_t)n);
    if (t->frames) {
        const uint32_t used = frame[t->frames - 1].words & ~RBP_MATTERS;
        __builtin_memcpy(t->frame, frame, t->frames * sizeof *frame);
        __builtin_memcpy(t->name, name, t->frames * sizeof *name);
        __builtin_memcpy(t->words, words, (used / BLOCK + 1) * sizeof *words);
    }
    __builtin_memcpy(t->step, step, cap * sizeof *step);
    unwind_host_unmap(words, uw_thread_bytes(cap));
    return true;
}

UW_INLINE bool readable_here(struct unwind_thread *t, struct walk *w, uint64_t at)
{
    if (UW_LIKELY(at - w->region.lo < w->region.hi - w->region.lo && w->region.hi - at >= 8))
        return true;
    return uw_region_extend(&w->region, at, t->asked);
}

/* Enters the stack that a frame's new sp lies in. */
static bool enter_region(struct unwind_thread *t, struct walk *w, uint64_t sp)
{
    if (sp - w->region.lo < w->region.hi - w->region.lo)
        return true;
    w->own = false;
    if (uw_region_own(&t->own, sp, t->asked)) {
        w->region = t->own;
        return true;
    }
    return uw_region_foreign(&w->region, sp, t->asked);
}

/* True: the frame's caller is on another stack: the frame has its frame pointer there, as that of
 * __morestack (gcc -fsplit-stack), whose CFA is not where others have it. Then that stack is
 * entered. */
static bool switches_stack(struct unwind_thread *t, struct walk *w, uw_rule r, uint64_t rbp)
{
    return uw_rule_cfa(r) == UW_CFA_RBP && uw_rule_k(r) > 16 && (rbp & 7) == 0 &&
           rbp - w->region.lo >= w->region.hi - w->region.lo && w->switches++ < SWITCHES_MAX &&
           enter_region(t, w, rbp);
}

#define READ(to, from)                                                                             \
    do {                                                                                           \
        uint64_t read_at = (from);                                                                 \
        if (UW_UNLIKELY((read_at & 7) != 0 || !readable_here(t, w, read_at)))                      \
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
    const bool switched = switches_stack(t, w, r, s->rbp);
    if (UW_UNLIKELY(cfa <= s->sp)) {
        if (!(r & UW_RULE_SIGNAL) && !switched)
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

/* True if rbp looks like the frame pointer of code that no table covers (V8 keeps one in all of
 * its built-in functions): it points at a saved one and a return address. */
static bool keeps_frame(struct unwind_thread *t, struct walk *w, uint64_t sp, uint64_t rbp,
                        void *ctx)
{
    if (uw_region_is_first(sp) || rbp < sp || (rbp & 7) != 0 || !readable_here(t, w, rbp) ||
        !readable_here(t, w, rbp + 8))
        return false;
    const uint64_t outer = ((const uint64_t *)rbp)[0], pc = ((const uint64_t *)rbp)[1];
    if (pc < ARCH_PAGE_BYTES || pc >= ARCH_ADDRESS_END)
        return false;
    const struct uw_found found = uw_rules_get(pc - 1, &t->memo, ctx);
    if (found.record && found.rule != UW_RULE_UNCOVERED)
        return arch_follows_call(pc);
    return outer > rbp && (outer & 7) == 0 && outer - rbp < NEAR_BYTES &&
           readable_here(t, w, outer);
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

/* The rule of a step whose pc is known. Most stacks follow the same stack as before. Then the step
 * is the guessed one, and has its rule. */
UW_INLINE struct uw_found rule_of(struct unwind_thread *t, struct walk *w, struct step *s,
                                  uint64_t address, void *ctx)
{
    struct uw_node *node = w->guess - 1 < UW_PARENT_CUT - 1 ? uw_trie_node(w->guess) : 0;
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
            w->guessed++;
            return found;
        }
    }
    w->guess = UW_PARENT_CUT; /* no node, and no parent of any */
    return uw_rules_get(address, &t->memo, ctx);
}

/* Fills t->step from the innermost frame outwards. */
void uw_walk(struct unwind_thread *t, struct walk *w, uint64_t rbp, void *ctx)
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
        if (UW_UNLIKELY(w->n == t->frame_cap) && !uw_thread_grow(t, w->n + 1)) {
            w->ending = AT_FAULT;
            return;
        }
        struct step *s = &t->step[w->n++];
        s->pc = pc;
        s->sp = sp;
        s->rbp = rbp;
        uint64_t address =
            UW_LIKELY(pc < ARCH_ADDRESS_END) ? pc - 1 : (pc & PC_BITS) - (pc & PC_EXACT ? 0 : 1);
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
