/* digits.h - numbers as text for millions of lines: without printf, a division for each digit, or a
 * branch on how many there are.
 *
 * Each function writes at `p` and returns the place behind the text. It may write up to DIGITS_ROOM
 * bytes, of which those behind the text have no meaning. Pure; any thread. */
#ifndef MALLOW_BASE_DIGITS_H
#define MALLOW_BASE_DIGITS_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte is stored first");

#define DIGITS_ROOM 32u

#define DIGITS_EIGHT  100000000u
#define DIGITS_ZEROS  UINT64_C(0x3030303030303030)
#define DIGITS_BLANKS UINT64_C(0x1010101010101010) /* '0' ^ ' ' */

/* The eight digits of a number below 10^8, one a byte, the first in the lowest byte. */
static inline uint64_t digits_eight(uint32_t v)
{
    uint64_t x = v / 10000u | (uint64_t)(v % 10000u) << 32, tens;
    tens = ((x * 10486u) >> 20) & UINT64_C(0x0000007f0000007f); /* by 100 */
    x = tens | (x - 100u * tens) << 16;
    tens = ((x * 103u) >> 10) & UINT64_C(0x000f000f000f000f); /* by 10 */
    return tens | (x - 10u * tens) << 8;
}

/* How many of eight digits stand before the first that is not 0; at most 7. */
static inline unsigned digits_leading(uint64_t eight)
{
    return (unsigned)__builtin_ctzll(eight | (uint64_t)1 << 56) / 8;
}

static inline char *digits_all_eight(char *p, uint64_t eight)
{
    eight |= DIGITS_ZEROS;
    memcpy(p, &eight, sizeof eight);
    return p + 8;
}

/* Decimal, below 10^8. */
static inline char *digits_short(char *p, uint32_t v)
{
    uint64_t eight = digits_eight(v);
    const unsigned leading = digits_leading(eight);
    eight = (eight | DIGITS_ZEROS) >> 8 * leading;
    memcpy(p, &eight, sizeof eight);
    return p + 8 - leading;
}

/* Decimal, any number. */
static inline char *digits_put(char *p, uint64_t v)
{
    if (__builtin_expect(v < DIGITS_EIGHT, 1))
        return digits_short(p, (uint32_t)v);
    uint64_t high = v / DIGITS_EIGHT;
    const uint32_t low = (uint32_t)(v % DIGITS_EIGHT);
    if (high < DIGITS_EIGHT) {
        p = digits_short(p, (uint32_t)high);
    } else {
        p = digits_short(p, (uint32_t)(high / DIGITS_EIGHT));
        p = digits_all_eight(p, digits_eight((uint32_t)(high % DIGITS_EIGHT)));
    }
    return digits_all_eight(p, digits_eight(low));
}

/* Numbers that come one after the other and are near each other, as times are: what stands before
 * the last eight digits is kept as text. Zero at first. */
struct digits_near {
    uint64_t base; /* a multiple of 10^8 */
    uint32_t bytes;
    char text[DIGITS_ROOM];
};

static inline char *digits_put_near(char *p, struct digits_near *n, uint64_t v)
{
    if (__builtin_expect(v - n->base >= DIGITS_EIGHT || !n->bytes, 0)) {
        const uint64_t head = v / DIGITS_EIGHT;
        if (!head)
            return digits_short(p, (uint32_t)v);
        n->base = head * DIGITS_EIGHT;
        n->bytes = (uint32_t)(digits_put(n->text, head) - n->text);
    }
    memcpy(p, n->text, 16);
    return digits_all_eight(p + n->bytes, digits_eight((uint32_t)(v - n->base)));
}

/* Decimal, right-aligned in `width` characters at least, 1 to 8. */
static inline char *digits_wide(char *p, uint64_t v, unsigned width)
{
    if (__builtin_expect(v >= DIGITS_EIGHT, 0))
        return digits_put(p, v);
    uint64_t eight = digits_eight((uint32_t)v);
    const unsigned leading = digits_leading(eight);
    const uint64_t before = ((uint64_t)1 << 8 * leading) - 1;
    const unsigned left_out = leading < 8 - width ? leading : 8 - width;
    eight = ((eight | DIGITS_ZEROS) ^ (DIGITS_BLANKS & before)) >> 8 * left_out;
    memcpy(p, &eight, sizeof eight);
    return p + 8 - left_out;
}

/* Exactly nine digits of a number below 10^9. */
static inline char *digits_nine(char *p, uint32_t v)
{
    *p++ = (char)('0' + v / DIGITS_EIGHT);
    return digits_all_eight(p, digits_eight(v % DIGITS_EIGHT));
}

/* Eight digits of base 16 as text, the first in the lowest byte. */
static inline uint64_t digits_eight_hex(uint32_t v)
{
    uint64_t x = __builtin_bswap32(v);
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x >> 4 & UINT64_C(0x000f000f000f000f)) | (x & UINT64_C(0x000f000f000f000f)) << 8;
    const uint64_t letters =
        ((x + UINT64_C(0x0606060606060606)) >> 4) & UINT64_C(0x0101010101010101);
    return x + DIGITS_ZEROS + letters * ('a' - '0' - 10);
}

/* "1f", below 2^32. */
static inline char *digits_hex_short(char *p, uint32_t v)
{
    const unsigned unused = (unsigned)__builtin_clz(v | 1) / 4;
    const uint64_t eight = digits_eight_hex(v << 4 * unused);
    memcpy(p, &eight, sizeof eight);
    return p + 8 - unused;
}

/* "1f". */
static inline char *digits_hex(char *p, uint64_t v)
{
    const unsigned unused = (unsigned)__builtin_clzll(v | 1) / 4;
    v <<= 4 * unused;
    const uint64_t first = digits_eight_hex((uint32_t)(v >> 32)),
                   rest = digits_eight_hex((uint32_t)v);
    memcpy(p, &first, sizeof first);
    memcpy(p + 8, &rest, sizeof rest);
    return p + 16 - unused;
}

#endif
