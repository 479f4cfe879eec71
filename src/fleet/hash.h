/* hash.h - what identities in a store are made of. Private to fleet/.
 *
 * 64 bits, the same on every machine and in every version of mallow: they are in stores. Two of ten
 * million different contents are the same by chance once in 370,000 stores. Pure functions. */
#ifndef MALLOW_FLEET_HASH_H
#define MALLOW_FLEET_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t hash_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 29;
}

static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
    const uint8_t *p = data;
    h = hash_mix(h, n);
    while (n) {
        uint64_t word = 0;
        for (unsigned i = 0; i < 8 && n; i++, n--)
            word |= (uint64_t)*p++ << (8 * i);
        h = hash_mix(h, word);
    }
    return h;
}

/* Never 0, which stands for "none". */
static inline uint64_t hash_end(uint64_t h) { return h ? h : 1; }

#endif
