/* age.c - Chooses the age from which a block is old, from a histogram of lifetimes with eight
 * bins for each power of two. */
#include "watch/age.h"

#define FIRST_BIT 10u /* the first bin ends at 1024 ns */

/* Eight bins a power of two, the way floating point numbers are: exponent, then three bits. */
static unsigned bin_of(uint64_t ns)
{
    if (ns < 1u << FIRST_BIT)
        return 0;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns);
    unsigned bin = (exponent - FIRST_BIT) * 8 + (unsigned)(ns >> (exponent - 3) & 7) + 1;
    return bin < AGE_BINS ? bin : AGE_BINS - 1;
}

/* The first lifetime that is too long for the bin. */
static uint64_t bin_end(unsigned bin)
{
    if (!bin)
        return 1u << FIRST_BIT;
    unsigned exponent = (bin - 1) / 8 + FIRST_BIT, part = (bin - 1) % 8;
    return (1ull << exponent) + ((uint64_t)(part + 1) << (exponent - 3));
}

void lifetimes_add(struct lifetimes *l, uint64_t lifetime_ns)
{
    l->count[bin_of(lifetime_ns)]++;
    l->total++;
}

struct age_choice age_choose(const struct lifetimes *l)
{
    struct age_choice c = {.age_ns = AGE_DEFAULT_NS, .lifetimes = l->total};
    if (l->total < AGE_LEAST_SEEN)
        return c;
    uint64_t longer = 0; /* that lived longer than the bins below */
    unsigned bin = AGE_BINS;
    while (bin && (longer + l->count[bin - 1]) * 100 <= l->total)
        longer += l->count[--bin];
    c.most_ns = bin_end(bin ? bin - 1 : 0);
    c.age_ns = c.most_ns > AGE_LEAST_NS / 2 ? 2 * c.most_ns : AGE_LEAST_NS;
    return c;
}
