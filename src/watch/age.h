/* age.h - from which age on a block is old, found in the program's own lifetimes.
 *
 * Owns: a histogram of how long the sampled blocks lived that were freed, and the rule: a block is
 * old at twice the age that 99 of 100 freed ones did not reach. Each sampled block counts once, so
 * that bytes weigh, not blocks. Not thread-safe. */
#ifndef MALLOW_WATCH_AGE_H
#define MALLOW_WATCH_AGE_H

#include <stdint.h>

#define AGE_BINS       288u                     /* eight a power of two, from 1 us on */
#define AGE_LEAST_NS   1000000000ull            /* no choice below a second */
#define AGE_DEFAULT_NS (5 * 60 * 1000000000ull) /* while too little is known */
#define AGE_LEAST_SEEN 200u                     /* freed samples before a choice is made */

struct lifetimes {
    uint64_t count[AGE_BINS];
    uint64_t total;
};

void lifetimes_add(struct lifetimes *l, uint64_t lifetime_ns);

struct age_choice {
    uint64_t age_ns;    /* a block of this age is old */
    uint64_t most_ns;   /* 99 of 100 lived no longer than this; 0: not enough was seen */
    uint64_t lifetimes; /* lifetimes seen so far */
};

struct age_choice age_choose(const struct lifetimes *l);

#endif
