/* compare.h - comparisons by SSE2, which every x86-64 processor has. */
#ifndef MALLOW_ARCH_X86_64_COMPARE_H
#define MALLOW_ARCH_X86_64_COMPARE_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define ARCH_COMPARE_INLINE static inline __attribute__((always_inline, unused))

ARCH_COMPARE_INLINE __m128i arch_two_at(uint64_t base, int64_t first, int64_t second)
{
    __m128d low = _mm_load_sd((const double *)base + first);
    return _mm_castpd_si128(_mm_loadh_pd(low, (const double *)base + second));
}

ARCH_COMPARE_INLINE __m128i arch_two_of(const uint64_t *value)
{
    return _mm_load_si128((const __m128i *)value);
}

/* True if the words at base + 8 * at[0..7] are value[0..7], which are aligned to 16 bytes. */
ARCH_COMPARE_INLINE bool arch_eight_words_same(uint64_t base, const int32_t *at,
                                               const uint64_t *value)
{
    __m128i d = _mm_xor_si128(arch_two_at(base, at[0], at[1]), arch_two_of(value));
    d = _mm_or_si128(d, _mm_xor_si128(arch_two_at(base, at[2], at[3]), arch_two_of(value + 2)));
    d = _mm_or_si128(d, _mm_xor_si128(arch_two_at(base, at[4], at[5]), arch_two_of(value + 4)));
    d = _mm_or_si128(d, _mm_xor_si128(arch_two_at(base, at[6], at[7]), arch_two_of(value + 6)));
    return _mm_movemask_epi8(_mm_cmpeq_epi32(d, _mm_setzero_si128())) == 0xffff;
}

/* A bit for each of key[0..3] that is the tag; aligned to 16 bytes. */
ARCH_COMPARE_INLINE unsigned arch_four_tags_same(const uint32_t *key, uint32_t tag)
{
    const __m128i wanted = _mm_set1_epi32((int)tag);
    return (unsigned)_mm_movemask_ps(
        _mm_castsi128_ps(_mm_cmpeq_epi32(wanted, _mm_load_si128((const __m128i *)key))));
}

#endif
