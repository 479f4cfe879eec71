/* unwind_rules.c - the shared map from code address to unwind rule.
 *
 * Owns: one hash table for all threads, whose slots are single words, and the records that they
 * name. A slot holds what its place leaves open of the address (the hash can be turned back) and
 * the number of a record: rule, module and generation. Many addresses share a record, and a line of
 * the cache holds eight addresses. A slot is written by one store, its record before it: neither
 * readers nor writers lock, wait or retry, and an entry that a signal or a fork interrupts is not
 * there. A record of an older generation does not count. A missing rule is read again from
 * .eh_frame (a few hundred ns), and overwrites a neighbor in the last table. Tables grow, so a
 * short program touches a page of each. Entries written to the old table meanwhile are read again.
 */
#include "arch/code.h"
#include "preload/sys.h"
#include "unwind_impl.h"

#ifndef UNWIND_RULES_BITS
#define UNWIND_RULES_BITS 13u /* lines of the last table: 65,536 slots, 512 KiB */
#endif
#define LAST_BITS    UNWIND_RULES_BITS
#define FIRST_BITS   6u /* 4 KiB */
#define STEP_BITS    2u
#define TABLES       ((LAST_BITS - FIRST_BITS + STEP_BITS - 1) / STEP_BITS + 1)
#define LINE         8u
#define NUMBER_BITS  20u
#define NUMBER_MASK  (((uint64_t)1 << NUMBER_BITS) - 1)
#define RECORDS      (4u << LAST_BITS)
#define RECENT       256u
#define ADDRESS_MASK (ARCH_ADDRESS_END - 1)
_Static_assert(ARCH_ADDRESS_BITS - FIRST_BITS + NUMBER_BITS <= 64, "a slot is a word");
_Static_assert(RECORDS <= NUMBER_MASK + 1, "a slot names a record");

struct record {
    uw_rule rule;
    uint32_t module, generation;
};

struct table {
    uint64_t *slot;
    struct record *record;
    struct memory *of;
    uint32_t shift; /* by which a hash becomes its line */
    uint32_t first; /* the number of the first of these among all records that there ever were */
    uint32_t used;  /* slots, about */
};

/* Followed by the slots of all tables. When its records are used up, another one follows. */
struct memory {
    struct table table[TABLES];
    uint32_t records;        /* given out; number 0 is none */
    uint32_t recent[RECENT]; /* numbers by what the records are, so that few are alike */
    struct record record[RECORDS];
};

static struct table *now; /* in use */

static uint32_t rules_bits(unsigned table)
{
    uint32_t bits = FIRST_BITS + table * STEP_BITS;
    return bits < LAST_BITS ? bits : LAST_BITS;
}

static size_t rules_slots(unsigned table) { return (size_t)LINE << rules_bits(table); }

static size_t memory_bytes(void)
{
    size_t slots = 0;
    for (unsigned i = 0; i < TABLES; i++)
        slots += rules_slots(i);
    return ((sizeof(struct memory) + 63) & ~(size_t)63) + slots * sizeof(uint64_t);
}

static struct table *memory_new(uint32_t first)
{
    struct memory *m = unwind_host_map(memory_bytes());
    if (!m)
        return 0;
    uint64_t *slot = (uint64_t *)((uint8_t *)m + ((sizeof *m + 63) & ~(size_t)63));
    for (unsigned i = 0; i < TABLES; i++) {
        m->table[i] =
            (struct table){slot, m->record, m, ARCH_ADDRESS_BITS - rules_bits(i), first, 0};
        slot += rules_slots(i);
    }
    return m->table;
}

int uw_rules_init(void)
{
    if (!now) /* else its entries are of an earlier generation */
        now = memory_new(UW_RECORD_NONE);
    return now ? 0 : -1;
}

/* An odd factor: no two addresses have the same hash. */
UW_INLINE uint64_t hash_rule_address(uint64_t address)
{
    return address * 0x9e3779b97f4a7c15 & ADDRESS_MASK;
}
UW_INLINE uint64_t *rules_line(const struct table *t, uint64_t h)
{
    return &t->slot[(h >> t->shift) * LINE];
}
UW_INLINE uint64_t rest_of(const struct table *t, uint64_t h)
{
    return h & (((uint64_t)1 << t->shift) - 1);
}

/* Writes the entry into its line. With `only_free`, not over another one. False: the line is full.
 */
static bool put_rule(struct table *t, uint64_t h, uint64_t number, uint32_t generation,
                     bool only_free)
{
    uint64_t *line = rules_line(t, h), rest = rest_of(t, h), slot = rest << NUMBER_BITS | number;
    for (unsigned i = 0; i < LINE; i++) {
        uint64_t *at = &line[(rest + i) % LINE], there = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        const bool same = there && there >> NUMBER_BITS == rest;
        if (same && only_free)
            return true;
        if (there && !same && t->record[there & NUMBER_MASK].generation == generation)
            continue;
        if (!there)
            __atomic_add_fetch(&t->used, 1, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(at, &there, slot, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    if (!only_free)
        __atomic_store_n(&line[rest % LINE], slot, __ATOMIC_RELEASE);
    return false;
}

/* The next table is made of t, and used from then on; by two threads at once, too. */
static struct table *grow_rules(struct table *t, uint32_t generation)
{
    struct table *to = t + 1;
    if (to == t->of->table + TABLES)
        return t;
    for (uint64_t i = 0; i < (uint64_t)LINE << (ARCH_ADDRESS_BITS - t->shift); i++) {
        uint64_t slot = __atomic_load_n(&t->slot[i], __ATOMIC_ACQUIRE), number = slot & NUMBER_MASK;
        if (number && t->record[number].generation == generation)
            put_rule(to, i / LINE << t->shift | slot >> NUMBER_BITS, number, generation, true);
    }
    struct table *was = t;
    __atomic_compare_exchange_n(&now, &was, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return to;
}

/* In place of the memory of t, whose records are used up. Others may still read there: they find
 * nothing in it. */
static void renew(struct table *t)
{
    if (t->first > UINT32_MAX - 2 * RECORDS) /* a record of that number was another one */
        return;
    struct table *fresh = memory_new(t->first + RECORDS), *was = t;
    if (!fresh)
        return;
    const uint64_t from = ((uint64_t)t->of->record + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1);
    if (__atomic_compare_exchange_n(&now, &was, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        sys_madvise((void *)from, (uint64_t)t->of + memory_bytes() - from, MADV_DONTNEED);
    else
        unwind_host_unmap(fresh->of, memory_bytes());
}

/* The number of a record; 0: there are no more. */
static uint32_t rule_number(struct memory *m, uw_rule rule, uint32_t module, uint32_t generation)
{
    const uint64_t h =
        (rule ^ (module | (uint64_t)generation << 32) * 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15;
    uint32_t *recent = &m->recent[h >> 32 & (RECENT - 1)];
    uint32_t n = __atomic_load_n(recent, __ATOMIC_ACQUIRE);
    const struct record *r = &m->record[n];
    if (n && r->rule == rule && r->module == module && r->generation == generation)
        return n;
    if (__atomic_load_n(&m->records, __ATOMIC_RELAXED) >= RECORDS - 1)
        return 0;
    n = __atomic_add_fetch(&m->records, 1, __ATOMIC_RELAXED);
    if (n >= RECORDS)
        return 0;
    m->record[n] = (struct record){rule, module, generation};
    __atomic_store_n(recent, n, __ATOMIC_RELEASE);
    return n;
}

/* Returns the record's number among all there ever were. */
static uint32_t add_rule(uint64_t address, uw_rule rule, uint32_t module, uint32_t generation)
{
    struct table *t = __atomic_load_n(&now, __ATOMIC_ACQUIRE);
    const uint32_t number = rule_number(t->of, rule, module, generation), first = t->first;
    if (UW_UNLIKELY(!number)) {
        renew(t);
        return UW_RECORD_NONE;
    }
    const uint32_t slots = LINE << (ARCH_ADDRESS_BITS - t->shift);
    if (__atomic_load_n(&t->used, __ATOMIC_RELAXED) > slots / 2)
        t = grow_rules(t, generation);
    if (!put_rule(t, hash_rule_address(address), number, generation, false) && t->used > slots / 4)
        grow_rules(t, generation);
    return first + number;
}

void uw_rules_put(uint64_t address, uw_rule rule)
{
    add_rule(address, rule, 0, __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE));
}

/* For a return address that no table covers: a coroutine's bottom was put there by hand, to
 * code that only ends the process. */
static bool only_ends(uint64_t pc)
{
    uint8_t code[ARCH_ENDING_CODE];
    return uw_region_copy(pc, code, sizeof code) && arch_only_ends(code);
}

static __attribute__((noinline)) struct uw_found read_tables(uint64_t address,
                                                             struct uw_cfi_memo *memo, void *ctx)
{
    struct uw_cfi cfi;
    uint32_t module;
    if (!uw_module_find(address, &cfi, &module, ctx))
        return (struct uw_found){0, 0, 0};
    uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    uw_rule rule = uw_cfi_rule(&cfi, address, module, memo);
    if (rule == UW_RULE_UNCOVERED && only_ends(address + 1))
        rule = uw_rule_make(UW_CFA_RSP, 0, UW_RBP_SAME, 0, UW_RA_END, 0, false);
    return (struct uw_found){rule, module, add_rule(address, rule, module, generation)};
}

struct uw_found uw_rules_get(uint64_t address, struct uw_cfi_memo *memo, void *ctx)
{
    const struct table *t = __atomic_load_n(&now, __ATOMIC_ACQUIRE);
    const uint64_t h = hash_rule_address(address), rest = rest_of(t, h), *line = rules_line(t, h);
    const uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_RELAXED);
    for (uint64_t i = rest; i < rest + LINE; i++) {
        const uint64_t slot = __atomic_load_n(&line[i % LINE], __ATOMIC_ACQUIRE);
        if (UW_LIKELY(slot >> NUMBER_BITS == rest)) {
            const uint32_t number = slot & NUMBER_MASK;
            const struct record *r = &t->record[number];
            if (UW_UNLIKELY(r->generation != generation))
                break;
            return (struct uw_found){r->rule, r->module, t->first + number};
        }
        if (!slot)
            break;
    }
    return read_tables(address, memo, ctx);
}

struct uw_found uw_rules_record(uint32_t record)
{
    const struct table *t = __atomic_load_n(&now, __ATOMIC_ACQUIRE);
    const uint32_t number = record - t->first;
    const struct record *r = &t->record[number < RECORDS ? number : 0];
    return UW_LIKELY(r->generation == __atomic_load_n(&uw_generation, __ATOMIC_RELAXED))
               ? (struct uw_found){r->rule, r->module, record}
               : (struct uw_found){0, 0, 0};
}
