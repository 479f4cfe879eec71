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
    bool bad; /* a patch is damaged */
};

/* Loads a column that must have n numbers. Returns 0, or -1 with *err. */
int numbers_load(struct numbers *c, int fd, const struct section_head *h, unsigned id, size_t n,
                 ZSTD_DCtx *z, struct bytes *scratch, struct error *err);
void numbers_free(struct numbers *c);
/* Takes the next k numbers. Returns -1 if there are fewer, or if patches are damaged. */
int numbers_take_u64(struct numbers *c, uint64_t *out, size_t k);
int numbers_take_u32(struct numbers *c, uint32_t *out, size_t k); /* the low halves */
/* For a column without planes, where all numbers are 0 except the patches: takes the next patch
 * among the next k numbers. Returns false if there is none left. Then numbers_pass moves on by
 * k. */
bool numbers_patch(struct numbers *c, size_t k, size_t *at, uint64_t *value);
int numbers_pass(struct numbers *c, size_t k); /* -1 as above */

#endif
