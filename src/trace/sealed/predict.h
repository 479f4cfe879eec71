/* predict.h - guessing the address that an allocation gets, from recent releases.
 *
 * Owns: the state that the writer and the reader of an address column keep alike. Tuned to an
 * allocator that reuses by size class, last in first out, and else cuts from the end of what it cut
 * last; with any other allocator it guesses badly and costs bytes, never truth. */
#ifndef MALLOW_TRACE_SEALED_PREDICT_H
#define MALLOW_TRACE_SEALED_PREDICT_H

#include <stdint.h>
#include <string.h>

#include "format/row.h"

#define PREDICT_CLASSES 128u
#define PREDICT_DEPTH   8u
#define PREDICT_BUMPS   4u

/* Codes: 0..7 the place in the list of its class, last released first; 8 the block released last of
 * all; 9..12 the place in the list of ends; 13 none: a difference follows. */
#define PREDICT_LAST 8u
#define PREDICT_BUMP 9u
#define PREDICT_NONE 13u

struct predict {
    struct predict_list {
        uint64_t address[PREDICT_DEPTH]; /* a ring */
        uint32_t last;                   /* the place of the one released last */
        uint32_t n;
    } list[PREDICT_CLASSES];
    uint64_t end[PREDICT_BUMPS]; /* where blocks ended that no list had, newest first */
    uint64_t last;               /* the block released last of all, 0 when taken */
};

/* The address that was released `i`-last. */
static inline uint64_t *predict_at(struct predict_list *l, uint32_t i)
{
    return &l->address[(l->last - i) % PREDICT_DEPTH];
}

static inline unsigned predict_class(uint64_t usable)
{
    uint64_t c = (usable + 8) >> 4;
    if (c < 64)
        return (unsigned)c;
    unsigned bits = 63 - (unsigned)__builtin_clzll(c); /* 6.. */
    unsigned fine = (unsigned)(c >> (bits - 2) & 3);
    unsigned k = 64 + (bits - 6) * 4 + fine;
    return k < PREDICT_CLASSES ? k : PREDICT_CLASSES - 1;
}

static inline void predict_release(struct predict *p, uint64_t address, unsigned class)
{
    struct predict_list *l = &p->list[class];
    l->last++;
    *predict_at(l, 0) = address;
    l->n += l->n < PREDICT_DEPTH;
    p->last = address;
}

static inline void predict_take(struct predict_list *l, uint32_t i)
{
    for (; i; i--) /* seldom */
        *predict_at(l, i) = *predict_at(l, i - 1);
    l->last--;
    l->n--;
}

static inline void predict_bump(struct predict *p, unsigned i, uint64_t end)
{
    for (; i; i--)
        p->end[i] = p->end[i - 1];
    p->end[0] = end;
}

/* Writer: the code of an allocation; *difference is set with PREDICT_NONE. */
static inline unsigned predict_code(struct predict *p, uint64_t address, uint64_t usable,
                                    uint64_t *difference)
{
    struct predict_list *const l = &p->list[predict_class(usable)];
    const uint32_t n = l->n;
    uint64_t last = p->last;
    if (last == address)
        p->last = 0;
    for (uint32_t i = 0; i < n; i++)
        if (*predict_at(l, i) == address) {
            predict_take(l, i);
            return i;
        }
    if (last == address)
        return PREDICT_LAST;
    for (unsigned i = 0; i < PREDICT_BUMPS; i++)
        if (p->end[i] == address) {
            predict_bump(p, i, address + usable + 8);
            return PREDICT_BUMP + i;
        }
    *difference = mlw_zigzag(mlw_ror4(address) - mlw_ror4(p->end[0]));
    predict_bump(p, PREDICT_BUMPS - 1, address + usable + 8);
    return PREDICT_NONE;
}

/* Reader: returns the address for a code; 0 for an impossible code. class: that of `usable`. */
static inline uint64_t predict_address(struct predict *p, unsigned code, unsigned class,
                                       uint64_t usable, uint64_t difference)
{
    uint64_t address;
    if (code < PREDICT_LAST) {
        struct predict_list *const l = &p->list[class];
        if (code >= l->n)
            return 0;
        address = *predict_at(l, code);
        predict_take(l, code);
    } else if (code == PREDICT_LAST) {
        address = p->last;
    } else if (code < PREDICT_NONE) {
        address = p->end[code - PREDICT_BUMP];
        predict_bump(p, code - PREDICT_BUMP, address + usable + 8);
    } else {
        address = mlw_rol4(mlw_ror4(p->end[0]) + mlw_unzigzag(difference));
        predict_bump(p, PREDICT_BUMPS - 1, address + usable + 8);
    }
    if (p->last == address)
        p->last = 0;
    return address;
}

#endif
