/* cfi_damage.c - the reader of .eh_frame on a copy of libc's tables: the same rules as from the
 * original while it is whole, and no read outside its bounds whatever is done to it.
 *
 * Built with AddressSanitizer and UBSan: the copy is a heap block of exactly the allowed size. */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/unwind/unwind_impl.h"

static struct uw_cfi original;

static int find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    if (!strstr(info->dlpi_name, "libc.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            original.hdr = (const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const uint8_t *lo = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);
        if (ph->p_type == PT_LOAD && original.hdr >= lo && original.hdr < lo + ph->p_filesz) {
            original.lo = lo;
            original.hi = lo + ph->p_filesz;
        }
    }
    return 1;
}

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

static uint32_t entries(const struct uw_cfi *c)
{
    uint32_t n;
    memcpy(&n, c->hdr + 8, 4);
    return n;
}

/* An address in or near the function of a table entry, and its FDE. */
static uint64_t some_address(const struct uw_cfi *c, uint32_t entry, uint32_t offset,
                             const uint8_t **fde)
{
    int32_t pair[2];
    memcpy(pair, c->hdr + 12 + 8 * (size_t)entry, 8);
    *fde = c->hdr + pair[1];
    return (uint64_t)c->hdr + (uint64_t)(int64_t)pair[0] + offset;
}

/* The rule without anything known from before. */
static uw_rule rule_of(const struct uw_cfi *c, uint64_t address)
{
    struct uw_cfi_memo memo = {.module = 0};
    return uw_cfi_rule(c, address, 1, &memo);
}

/* Each instruction byte of each function in order, some of them again, and in no order: with what
 * is known from before the rules are the same. Returns how many are not. */
static uint32_t remembered(uint32_t functions)
{
    struct uw_cfi_memo ascending = {.module = 0}, random = {.module = 0};
    uint32_t wrong = 0;
    for (uint32_t entry = 0; entry < functions; entry++) {
        const uint8_t *fde;
        uint64_t begin = some_address(&original, entry, 0, &fde);
        uint64_t end = entry + 1 < functions ? some_address(&original, entry + 1, 0, &fde) : begin;
        for (uint64_t at = begin; at < end && at < begin + 400; at++) {
            uint64_t other = begin + rnd(end - begin);
            wrong += uw_cfi_rule(&original, at, 1, &ascending) != rule_of(&original, at);
            wrong += uw_cfi_rule(&original, other, 1, &random) != rule_of(&original, other);
        }
    }
    return wrong;
}

static struct uw_cfi copy_of(size_t bytes)
{
    struct uw_cfi c;
    uint8_t *p = malloc(bytes);
    if (!p)
        abort();
    memcpy(p, original.lo, bytes);
    c.lo = p;
    c.hi = p + bytes;
    c.hdr = p + (original.hdr - original.lo);
    return c;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 30000;
    dl_iterate_phdr(find_libc, 0);
    if (!original.lo)
        return 1;
    size_t bytes = (size_t)(original.hi - original.lo);
    struct uw_cfi copy = copy_of(bytes);
    uint32_t n = entries(&original), none = 0, wrong = 0, kinds[8] = {0};
    const uint8_t *fde, *fde_original;
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t entry = (uint32_t)rnd(n), offset = (uint32_t)rnd(1 + rnd(300));
        uint64_t there = some_address(&original, entry, offset, &fde_original);
        uint64_t here = some_address(&copy, entry, offset, &fde);
        uw_rule a = rule_of(&original, there), b = rule_of(&copy, here);
        kinds[uw_rule_cfa(a)]++;
        none += uw_rule_cfa(a) == UW_CFA_NONE;
        /* the PLT's rule is a function of the pc's low bits, which the copy keeps by page only */
        if (a != b && ((uint64_t)copy.lo & 15) == ((uint64_t)original.lo & 15))
            wrong++;
    }
    uint32_t otherwise = remembered(n);
    printf("libc: %u other rules with what was known before\n", otherwise);
    wrong += otherwise;
    printf("libc: %u functions, none %u rsp %u rbp %u *rsp %u *rbp %u, %u differ in the copy\n", n,
           kinds[0], kinds[1], kinds[2], kinds[3], kinds[4], wrong);
    fflush(stdout);
    if (wrong || none > 2000)
        return 1;

    uint64_t changed = 0;
    for (unsigned i = 0; i < rounds; i++) {
        uint32_t entry = (uint32_t)rnd(n), offset = (uint32_t)rnd(1 + rnd(300));
        uint64_t address = some_address(&copy, entry, offset, &fde);
        uw_rule whole = rule_of(&copy, address);
        uint8_t *at[8], was[8];
        unsigned damaged = 1 + (unsigned)rnd(8);
        int32_t cie_distance;
        memcpy(&cie_distance, fde + 4, 4);
        const uint8_t *cie = fde + 4 - cie_distance;
        for (unsigned d = 0; d < damaged; d++) {
            switch (rnd(4)) {
            case 0: at[d] = (uint8_t *)(uintptr_t)copy.hdr + rnd(12); break;
            case 1: at[d] = (uint8_t *)(uintptr_t)cie + rnd(24); break;
            default: at[d] = (uint8_t *)(uintptr_t)fde + rnd(40); break;
            }
            if (at[d] >= copy.hi)
                at[d] = (uint8_t *)(uintptr_t)copy.lo;
            was[d] = *at[d];
            *at[d] = rnd(3) ? (uint8_t)rnd(256) : 0xff;
        }
        changed += rule_of(&copy, address) != whole;
        for (unsigned d = damaged; d-- > 0;)
            *at[d] = was[d];
    }
    for (unsigned i = 0; i < rounds / 100; i++) { /* cut off at any byte */
        size_t least = (size_t)(original.hdr - original.lo) + rnd(100);
        size_t cut = rnd(2) ? least : least + rnd(bytes - least);
        struct uw_cfi part = copy_of(cut);
        for (unsigned k = 0; k < 20; k++) {
            uint64_t there = some_address(&original, (uint32_t)rnd(n), (uint32_t)rnd(100), &fde);
            uint64_t here = there - (uint64_t)original.hdr + (uint64_t)part.hdr;
            changed += rule_of(&part, here) != rule_of(&original, there);
        }
        free((void *)(uintptr_t)part.lo);
    }
    free((void *)(uintptr_t)copy.lo);
    printf("%u damaged tables, %lu other answers\n", rounds + rounds / 100, changed);
    return changed < rounds / 10;
}
