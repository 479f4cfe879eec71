/* unwind_impl.h - what the files of the unwinder share; no other file includes it.
 *
 * A frame is (pc, sp, rbp): the code address, and rsp and rbp as that code sees them. A rule, 8
 * bytes for one pc, says how to get the next outer frame from it. Looked-up addresses are pc - 1
 * for a return address (the call may be the last instruction of its function) and pc for an
 * interrupted instruction. */
#ifndef MALLOW_PRELOAD_UNWIND_UNWIND_IMPL_H
#define MALLOW_PRELOAD_UNWIND_UNWIND_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "arch/page.h"
#include "arch/stack.h"
#include "format/row.h"
#include "unwind.h"

#define UW_LIKELY(x)   __builtin_expect(!!(x), 1)
#define UW_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define UW_INLINE      static inline __attribute__((always_inline, unused))

/* ---- rules ---- */

enum uw_cfa {                  /* the canonical frame address (sp of the next frame) */
              UW_CFA_NONE = 0, /* no rule, or one that we do not understand */
              UW_CFA_RSP,      /* rsp + k */
              UW_CFA_RBP,      /* rbp + k */
              UW_CFA_AT_RSP,   /* *(rsp + k) */
              UW_CFA_AT_RBP    /* *(rbp + k) */
};
enum uw_rbp { /* where rbp of the next frame is saved */
              UW_RBP_SAME = 0,
              UW_RBP_AT_CFA,
              UW_RBP_AT_RBP,
              UW_RBP_AT_RSP
};
enum uw_ra {                  /* where pc of the next frame is saved */
             UW_RA_USUAL = 0, /* CFA - 8 */
             UW_RA_AT_RSP,
             UW_RA_AT_CFA,
             UW_RA_END /* this frame is the outermost one */
};

/* A rule packed: bits 0-2 cfa kind, 3-4 rbp kind, 5-6 ra kind, 7 signal frame, 8-19 rbp offset / 8,
 * 20-31 ra offset / 8, 32-63 cfa offset k; offsets are signed. */
typedef uint64_t uw_rule;
#define UW_RULE_SIGNAL 0x80u

UW_INLINE unsigned uw_rule_cfa(uw_rule r) { return r & 7; }
UW_INLINE unsigned uw_rule_rbp(uw_rule r) { return r >> 3 & 3; }
UW_INLINE unsigned uw_rule_ra(uw_rule r) { return r >> 5 & 3; }
UW_INLINE int64_t uw_rule_k(uw_rule r) { return (int64_t)r >> 32; }
UW_INLINE int64_t uw_rule_rbp_off(uw_rule r) { return ((int64_t)(r << 44) >> 52) * 8; }
UW_INLINE int64_t uw_rule_ra_off(uw_rule r) { return ((int64_t)(r << 32) >> 52) * 8; }
UW_INLINE uw_rule uw_rule_make(unsigned cfa, int64_t k, unsigned rbp, int64_t rbp_off, unsigned ra,
                               int64_t ra_off, bool signal_frame)
{
    return (uint64_t)k << 32 | ((uint64_t)(ra_off >> 3) & 0xfff) << 20 |
           ((uint64_t)(rbp_off >> 3) & 0xfff) << 8 | (signal_frame ? UW_RULE_SIGNAL : 0) | ra << 5 |
           rbp << 3 | cfa;
}
/* Code that the tables of its module do not cover: assembly, a snapshot of generated code. */
#define UW_RULE_UNCOVERED (1ul << 32 | UW_CFA_NONE)
/* The rule of code outside any module, which is hoped to keep a frame pointer, and of code that no
 * table covers when it looks as if it kept one. */
#define UW_RULE_FP uw_rule_make(UW_CFA_RBP, 16, UW_RBP_AT_CFA, -16, UW_RA_USUAL, 0, false)

/* Where .eh_frame of a module may be read. */
struct uw_cfi {
    const uint8_t *hdr; /* .eh_frame_hdr, NULL when there is none */
    const uint8_t *lo;  /* nothing outside lo..hi is read */
    const uint8_t *hi;
};

/* Where a register is saved. */
enum uw_cfi_how {
    UW_PLACE_SAME = 0,
    UW_PLACE_UNDEFINED,
    UW_PLACE_OFFSET,
    UW_PLACE_EXPRESSION,
    UW_PLACE_OTHER
};
struct uw_cfi_place {
    enum uw_cfi_how how;
    int64_t offset;       /* UW_PLACE_OFFSET: at CFA + offset */
    const uint8_t *bytes; /* UW_PLACE_EXPRESSION: at its value */
    const uint8_t *bytes_end;
};
struct uw_cfi_row {
    int64_t cfa_offset;
    const uint8_t *cfa_bytes; /* expression when not NULL */
    const uint8_t *cfa_bytes_end;
    uint32_t cfa_register;
    struct uw_cfi_place rbp, ra;
};
struct uw_cfi_cie {
    const uint8_t *program, *program_end;
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointer_encoding;
    bool augmented, signal_frame;
};
/* A program that was left before its end. */
#define UW_CFI_REMEMBERED 8
struct uw_cfi_run {
    const uint8_t *at; /* the next instruction */
    uint64_t location; /* that `row` holds from */
    uint32_t depth;
    struct uw_cfi_row row, saved[UW_CFI_REMEMBERED];
};
/* The latest find of the reader of tables. Belongs to one thread; all zeros: nothing. */
struct uw_cfi_memo {
    uint32_t module; /* whose tables; 0: none */
    bool initial_ok; /* the CIE's instructions were understood */
    const uint8_t *cie_at;
    struct uw_cfi_cie cie;
    struct uw_cfi_row initial;
    uint64_t begin, bytes; /* the function's range; bytes 0: none */
    const uint8_t *program, *program_end;
    struct uw_cfi_run run;
};

/* The rule for a looked-up address; one of kind UW_CFA_NONE when the tables have none that is
 * understood, UW_RULE_UNCOVERED when they have none at all. Reads only inside the given bounds,
 * whatever the bytes are. module: as long as the tables are the same bytes; 0: not known. */
uw_rule uw_cfi_rule(const struct uw_cfi *cfi, uint64_t address, uint32_t module,
                    struct uw_cfi_memo *memo);

/* The shared map address -> rule. */
struct uw_found {
    uw_rule rule;
    uint32_t module; /* its id (0: could not be registered) */
    uint32_t record; /* its number; 0: it has none, and all else says nothing */
};
#define UW_RECORD_NONE 1u /* stands for a rule that is not kept */
struct uw_found uw_rules_get(uint64_t address, struct uw_cfi_memo *memo, void *ctx);
/* The rule and module of that record, as long as they hold. */
struct uw_found uw_rules_record(uint32_t record);
int uw_rules_init(void);
/* Remembers a rule for an address outside every module, until the next generation. */
void uw_rules_put(uint64_t address, uw_rule rule);
/* The rule of a return address in generated code that has no tables and keeps no frame pointer, but
 * is known by its instructions. False for any other code. */
bool uw_generated_rule(uint64_t pc, uw_rule *rule);

/* ---- modules ---- */

#define UW_MODULES_MAX 65534u /* ids fit 16 bits, 0xffff is free for the trie's keys */

int uw_modules_init(void *dl_find_object);
void uw_modules_forget(void); /* unwind_forget */
/* The module that has `address` now; announced when it is new. False: none. */
bool uw_module_find(uint64_t address, struct uw_cfi *cfi, uint32_t *id, void *ctx);
/* Announces those that are gone; true when there were any. */
bool uw_modules_sweep(void *ctx);

/* ---- the generation: caches filled under another one are void ---- */

extern uint32_t uw_generation __attribute__((visibility("hidden")));

/* ---- trie ---- */

/* A frame to be named in a word: pc | exact << 47 | module << 48. */
#define UW_KEY_FP      0xfffful    /* as module: found through a frame pointer, in any */
#define UW_KEY_NOWHERE (~0ul << 1) /* the truncation mark of an unknown pc: no key is 0 */
UW_INLINE uint64_t uw_key(uint64_t pc, uint32_t module, unsigned flags)
{
    uint64_t key = (pc & (ARCH_ADDRESS_END - 1)) | (flags & MLW_NODE_EXACT ? ARCH_ADDRESS_END : 0) |
                   (flags & MLW_NODE_FP ? UW_KEY_FP : module) << 48;
    return UW_LIKELY(key) ? key : UW_KEY_NOWHERE;
}
UW_INLINE uint64_t uw_key_pc(uint64_t key)
{
    return key == UW_KEY_NOWHERE ? 0 : key & (ARCH_ADDRESS_END - 1);
}
UW_INLINE unsigned uw_key_flags(uint64_t key)
{
    return key == UW_KEY_NOWHERE ? 0
                                 : (key & ARCH_ADDRESS_END ? MLW_NODE_EXACT : 0u) |
                                       (key >> 48 == UW_KEY_FP ? MLW_NODE_FP : 0u);
}

/* A frame of a stack, outermost first. */
struct uw_named {
    uint64_t key;
    uint64_t hash; /* uw_hash of that of the frame outside it; of UW_HASH_END, UW_HASH_CUT */
    uint32_t node; /* 0: not known yet */
    uint32_t module, record;
};
#define UW_HASH_END 0ul
#define UW_HASH_CUT 0x2545f4914f6cdd1dul /* above a truncation mark */
UW_INLINE uint64_t uw_hash(uint64_t outer, uint64_t key)
{
    return (outer ^ outer >> 31 ^ key) * 0x9e3779b97f4a7c15;
}

/* A node, which an id stands for. */
struct uw_node {
    uint64_t key;    /* 0: not here (any more) */
    uint32_t parent; /* UW_PARENT_CUT: it is a truncation mark */
    uint32_t record; /* its rule was this one */
};
#define UW_PARENT_CUT 0xffffffffu

int uw_trie_init(void);
void uw_trie_forget(void); /* unwind_forget */
/* The id of the innermost of n frames; 0 when no memory could be had. The ids of the others are
 * known then, too. cut: the outermost one is a truncation mark. */
uint32_t uw_trie_name(struct uw_named *frames, uint32_t n, bool cut, void *ctx);
/* NULL: there is none, or not any more. */
struct uw_node *uw_trie_node(uint32_t id);
/* After the stack `last` (0: none) comes the stack `id`. Returns the one that came after that when
 * it was taken last, which is a guess; 0: not known. */
uint32_t uw_trie_follow(uint32_t last, uint32_t id);

/* ---- what may be read ---- */

struct uw_region {
    uint64_t lo, hi; /* lo <= hi; nothing is known when equal */
};
#define UW_ASKED 32u /* pages asked for at once; `asked` below is memory for so many elements */

/* Memory of the calling thread's own stack. [sp, own->hi) stays mapped as long as the thread runs
 * on it with this sp. True when `address` is in it, after extending it downwards if that can be
 * shown. */
bool uw_region_own(struct uw_region *own, uint64_t address, struct iovec *asked);
/* Another region, which holds `address` now: good for this one unwinding only. */
bool uw_region_foreign(struct uw_region *r, uint64_t address, struct iovec *asked);
/* Makes `r` cover address..address+8 by extending it upwards, if it can. */
bool uw_region_extend(struct uw_region *r, uint64_t address, struct iovec *asked);
void uw_region_init(void *stack_end);
/* Copies memory of which nothing is known. False when it cannot be read. */
bool uw_region_copy(uint64_t address, void *to, size_t bytes);
/* sp is where the kernel put it for the program's first instruction: nothing called this frame. */
bool uw_region_is_first(uint64_t sp);
/* Widens the hull of addresses whose unmapping voids the caches: other stacks, generated code. */
void uw_region_remember(uint64_t lo, uint64_t hi);
/* True when start..end touches that hull. */
bool uw_region_remembered(uint64_t start, uint64_t end);

#endif
