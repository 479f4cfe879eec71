/* sha256.h - SHA-256 by the instructions for it (SHA-NI). */
#ifndef MALLOW_ARCH_X86_64_SHA256_H
#define MALLOW_ARCH_X86_64_SHA256_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cpuid.h>

static inline __attribute__((unused)) bool arch_sha256_is_there(void)
{
    unsigned a, b, c, d;
    const bool sse41 = __get_cpuid(1, &a, &b, &c, &d) && c & 1u << 19;
    return sse41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29;
}

/* Only where it is there. k: the 64 constants, aligned to 16. */
static inline __attribute__((unused, target("sha,sse4.1"))) void
arch_sha256(uint32_t state[8], const uint8_t *data, size_t blocks, const uint32_t k[64])
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
    /* the state as the instructions want it: ABEF and CDGH */
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
    __m128i high =
        _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; blocks; blocks--, data += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i < 4)
                w[i] = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), swap);
            else
                w[i] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]),
                                                          _mm_alignr_epi8(w[i - 1], w[i - 2], 4)),
                                            w[i - 1]);
            const __m128i sum =
                _mm_add_epi32(w[i], _mm_load_si128((const __m128i *)(const void *)(k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

#endif
