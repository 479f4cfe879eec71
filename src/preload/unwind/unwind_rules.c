/* unwind_rules.c - the shared map from code address to unwind rule.
 *
 * Owns: one table of fixed size for all threads. An entry is three words whose mix gives back the
 * address (the trick of lockless transposition tables, Hyatt and Mann 2002): one that is torn by
 * concurrent writers, or interrupted by a signal or a fork, just does not match, so neither readers
 * nor writers lock, wait or retry. Entries of an older generation do not match either. A missing
 * rule is read again from .eh_frame (a few hundred ns) and overwrites a neighbor. */
#include "unwind_impl.h"

#ifndef UNWIND_RULES_BITS
#define UNWIND_RULES_BITS 15 /* 32,768 entries, 1 MiB of address space, touched as it is used */
#endif
#define RULES_BITS UNWIND_RULES_BITS
#define WAYS       2

struct entry {
    uint64_t check, rule, where; /* where: module id | generation << 32 */
};
struct bucket {
    struct entry way[WAYS];
    uint64_t unused[2]; /* one cache line */
};

static struct bucket *rules;

static uint64_t mix(uint64_t address, uint64_t rule, uint64_t where)
{
    return (rule ^ where * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd ^ address;
}

static struct bucket *bucket_of(uint64_t address)
{
    return &rules[address * 0x9e3779b97f4a7c15 >> (64 - (RULES_BITS - 1))];
}

int uw_rules_init(void)
{
    if (rules) /* its entries are of an earlier generation */
        return 0;
    rules = unwind_host_map(((size_t)1 << (RULES_BITS - 1)) * sizeof *rules);
    return rules ? 0 : -1;
}

static void put(struct bucket *b, uint64_t address, uw_rule rule, uint32_t module,
                uint32_t generation)
{
    uint64_t where = module | (uint64_t)generation << 32;
    /* the way of an older generation, else one that the address chooses */
    unsigned w = address >> 5 & 1;
    for (unsigned i = 0; i < WAYS; i++)
        if (__atomic_load_n(&b->way[i].where, __ATOMIC_RELAXED) >> 32 != generation)
            w = i;
    __atomic_store_n(&b->way[w].rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&b->way[w].where, where, __ATOMIC_RELAXED);
    __atomic_store_n(&b->way[w].check, mix(address, rule, where), __ATOMIC_RELAXED);
}

void uw_rules_put(uint64_t address, uw_rule rule)
{
    put(bucket_of(address), address, rule, 0, __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE));
}

static bool read_tables(struct bucket *b, uint64_t address, uw_rule *rule, uint32_t *module,
                        struct uw_cfi_memo *memo, void *ctx)
{
    struct uw_cfi cfi;
    if (!uw_module_find(address, &cfi, module, ctx))
        return false;
    uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    *rule = uw_cfi_rule(&cfi, address, *module, memo);
    put(b, address, *rule, *module, generation);
    return true;
}

bool uw_rules_get(uint64_t address, uw_rule *rule, uint32_t *module, struct uw_cfi_memo *memo,
                  void *ctx)
{
    struct bucket *b = bucket_of(address);
    uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t check = __atomic_load_n(&b->way[i].check, __ATOMIC_RELAXED);
        uint64_t r = __atomic_load_n(&b->way[i].rule, __ATOMIC_RELAXED);
        uint64_t where = __atomic_load_n(&b->way[i].where, __ATOMIC_RELAXED);
        if (UW_LIKELY(mix(address, r, where) == check && where >> 32 == generation)) {
            *rule = r;
            *module = (uint32_t)where;
            return true;
        }
    }
    return read_tables(b, address, rule, module, memo, ctx);
}
