/* draw.c - gaps between samples, and weights.
 *
 * Integers only, so that neither libm is needed nor the program's floating-point state is touched:
 * the logarithm by a table of sixteen and a series, the exponential to base 2 a bit at a time,
 * multiplying square roots of 2 of square roots of 2. The error is far below what a sample of any
 * size could show. */
#include "watcher.h"

typedef unsigned __int128 u128;

#define Q40        (1ll << 40)
#define LN2_Q40    0xb17217f7d2ull /* ln 2 */
#define LOG2_E_Q32 0x171547652ull  /* log2 e = 1.4427 */
#define STEPS      32u

uint64_t draw_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* By the upper bits of a number from 1 to 2: nearly its reciprocal c, Q32, and -ln c, Q40. */
static const struct {
    uint32_t c;
    uint64_t minus_ln;
} cells[16] = {{0xf83e0f84, 0x07e0a6c37e}, {0xea0ea0ea, 0x16f0d28af5}, {0xdd67c8a6, 0x252aa5f050},
               {0xd20d20d2, 0x32a4b539f9}, {0xc7ce0c7d, 0x3f7230da94}, {0xbe82fa0c, 0x4ba38aeb64},
               {0xb60b60b6, 0x5746f6fd70}, {0xae4c415d, 0x6268ce1a6d}, {0xa72f0539, 0x6d13ddefea},
               {0xa0a0a0a1, 0x7751a8126f}, {0x9a90e7d9, 0x812a952dc7}, {0x94f2094f, 0x8aa61e97df},
               {0x8fb823ee, 0x93caf0945e}, {0x8ad8f2fc, 0x9c9f069a11}, {0x864b8a7e, 0xa527c2ed52},
               {0x82082082, 0xad6a0261bd}};

/* -ln(r / 2^64), 40 bits of fraction. */
static uint64_t minus_ln(uint64_t r)
{
    r |= 1; /* 0 has no logarithm; one part in 2^64 */
    unsigned zeros = (unsigned)__builtin_clzll(r);
    uint64_t m = r << zeros; /* 1 <= m < 2, 63 bits of fraction */
    unsigned i = m >> 59 & 15;
    /* m * c = 1 + x, |x| < 1/32: six terms of the series */
    int64_t x = (int64_t)((uint64_t)((u128)m * cells[i].c >> 32) - (1ull << 63)) >> 23;
    int64_t sum = -Q40 / 6;
    for (int n = 5; n >= 1; n--)
        sum = (n % 2 ? Q40 : -Q40) / n + (int64_t)((__int128)sum * x >> 40);
    sum = (int64_t)((__int128)sum * x >> 40);
    int64_t ln = (int64_t)((zeros + 1) * LN2_Q40 - cells[i].minus_ln) - sum;
    return ln > 0 ? (uint64_t)ln : 0; /* near 1 only rounding is left */
}

uint64_t draw_gap(uint64_t random, uint64_t mean)
{
    return (uint64_t)((u128)minus_ln(random) * mean >> 40);
}

/* 2^(-2^-i) for i = 1..32, as fractions of 2^64. */
static const uint64_t roots[STEPS] = {
    0xb504f333f9de6484ull, 0xd744fccad69d6af4ull, 0xeac0c6e7dd24392full, 0xf5257d152486cc2cull,
    0xfa83b2db722a033aull, 0xfd3e0c0cf486c175ull, 0xfe9e115c7b8f884cull, 0xff4ecb59511ec8a5ull,
    0xffa756521c8daed2ull, 0xffd3a751c0f7e10cull, 0xffe9d2b2f7db2756ull, 0xfff4e91bff1b8c3eull,
    0xfffa747ea0040664ull, 0xfffd3a3b7814eb54ull, 0xfffe9d1cc60ddab1ull, 0xffff4e8e25879bfaull,
    0xffffa7470363f451ull, 0xffffd3a37dda0313ull, 0xffffe9d1bdf703afull, 0xfffff4e8debe025eull,
    0xfffffa746f4fa150ull, 0xfffffd3a37a3f8b0ull, 0xfffffe9d1bd1065aull, 0xffffff4e8de845aeull,
    0xffffffa746f41377ull, 0xffffffd3a37a05e4ull, 0xffffffe9d1bd01fcull, 0xfffffff4e8de80c0ull,
    0xfffffffa746f4051ull, 0xfffffffd3a37a025ull, 0xfffffffe9d1bd011ull, 0xffffffff4e8de808ull};

uint64_t draw_weight(uint64_t size, uint64_t period)
{
    if (size < period >> 8) /* the first terms of the series: x^4 / 720 is far away */
        return period + size / 2 + size * size / (12 * period);
    u128 y = (u128)size * LOG2_E_Q32 / period; /* size / period in powers of 2, Q32 */
    unsigned whole = y >> 38 ? 64 : (unsigned)(y >> 32);
    if (whole >= 48 || size == 0) /* 1 - p is below what the weight could show */
        return size;
    u128 e = (u128)1 << 64; /* 2^-y, Q64 */
    uint32_t fraction = (uint32_t)y;
    for (unsigned i = 0; i < STEPS; i++)
        if (fraction & 0x80000000u >> i)
            e = e * roots[i] >> 64;
    e >>= whole;
    u128 p = ((u128)1 << 64) - e;
    uint64_t weight = (uint64_t)((((u128)size << 64) + p / 2) / p);
    return weight < size ? size : weight;
}

static void draw_next(struct watch_thread *t, uint64_t period)
{
    t->gap = draw_gap(draw_random(&t->random), period);
    t->period = period;
}

static void issue(struct watch_thread *t, uint64_t bytes)
{
    t->left = bytes < MLW_WATCH_LOOK_BYTES ? bytes : MLW_WATCH_LOOK_BYTES;
    t->issued = t->left;
    t->rest = bytes - t->left;
}

bool draw_hit(struct watch_thread *t, uint64_t size, uint32_t epoch, uint64_t period, uint64_t *gap,
              uint64_t *with, uint64_t *drawn)
{
    uint64_t before = t->left + size, bytes = before + t->rest;
    bool changed = t->epoch != epoch || t->period != period;
    *drawn = t->issued - before + size;
    t->epoch = epoch;
    if (unlikely(!t->period)) {
        draw_next(t, period);
        bytes = t->gap;
        changed = false;
    }
    if (size <= bytes) {
        if (unlikely(changed)) {
            /* The rest of a gap has the distribution of a whole one. It is drawn again behind this
             * block only: this one had its chance, with the period of before. */
            draw_next(t, period);
            bytes = t->gap + size;
        }
        issue(t, bytes - size);
        return false;
    }
    *gap = t->gap;
    *with = t->period;
    draw_next(t, period); /* more hits in one block count once: weights know that */
    issue(t, t->gap);
    return true;
}
