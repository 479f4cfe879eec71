/* numbers.h - reading a column of numbers: byte planes and patches.
 *
 * A column of n numbers is `width` byte planes (plane b holds bits 8b..8b+7 of every number) and,
 * for the few that do not fit, patches. No streams at all: every number is 0. */
#ifndef MALLOW_TRACE_SEALED_NUMBERS_H
#define MALLOW_TRACE_SEALED_NUMBERS_H

#include "sealed.h"

struct numbers {
    struct bytes planes[8], patches;
    unsigned width;
    size_t n, at;   /* numbers in the column; taken so far */
    size_t patch;   /* index of the next patch, SIZE_MAX for none */
    uint64_t value; /* the value of that patch */
    struct span rest;
    bool bad; /* a patch that cannot be */
};

/* 0, or -1 with *err. n: how many numbers there must be. */
int numbers_load(struct numbers *c, int fd, const struct section_head *h, unsigned id, size_t n,
                 ZSTD_DCtx *z, struct bytes *scratch, struct error *err);
void numbers_free(struct numbers *c);
/* The next k numbers. -1 when there are not that many, or the patches are bad. */
int numbers_take_u64(struct numbers *c, uint64_t *out, size_t k);
int numbers_take_u32(struct numbers *c, uint32_t *out, size_t k); /* the low halves */
/* Without planes all numbers are 0 but the patches: the next one of the next k numbers, taken.
 * False when there is none. Then the k are passed over by: */
bool numbers_patch(struct numbers *c, size_t k, size_t *at, uint64_t *value);
int numbers_pass(struct numbers *c, size_t k); /* -1 as above */

#endif
