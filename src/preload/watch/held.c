/* held.c - which addresses are sampled blocks.
 *
 * A filter of one byte for each of 65,536 classes of addresses is what nearly every free looks at.
 * Behind it, buckets of a cache line. The thread that frees a block has it from the one that made
 * it, so an address that is looked for has been put before. */
#include <string.h>

#include "watcher.h"

#define WAYS     8u
#define RESERVED 1u /* no block begins there */
#define STUCK    255u

uint8_t held_filter[HELD_FILTER_BYTES] __attribute__((aligned(64)));

struct bucket {
    volatile uint64_t address[WAYS]; /* 0: free */
};

static struct {
    struct bucket *bucket;
    uint32_t (*sample)[WAYS];
    uint32_t mask;
} held;

bool held_init(uint32_t samples)
{
    uint32_t buckets = 1;
    while (buckets * WAYS < samples * 2)
        buckets *= 2;
    held.bucket = watch_map(buckets * sizeof *held.bucket);
    held.sample = watch_map(buckets * sizeof *held.sample);
    held.mask = buckets - 1;
    watcher.kept[1] =
        (struct watch_kept){(uint64_t)(uintptr_t)held.bucket, buckets * sizeof *held.bucket};
    return held.bucket && held.sample;
}

static uint32_t bucket_of(uint64_t address)
{
    return (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15 >> 40) & held.mask;
}

static void filter_add(uint64_t address, int n)
{
    uint8_t *at = &held_filter[address >> 4 & (HELD_FILTER_BYTES - 1)];
    uint8_t was = __atomic_load_n(at, __ATOMIC_RELAXED);
    do {
        if (was == STUCK)
            return;
    } while (!__atomic_compare_exchange_n(at, &was, (uint8_t)(was + n), true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

bool held_put(uint64_t address, uint32_t sample)
{
    const uint32_t b = bucket_of(address);
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t none = 0;
        if (held.bucket[b].address[i] ||
            !__atomic_compare_exchange_n(&held.bucket[b].address[i], &none, RESERVED, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        held.sample[b][i] = sample;
        filter_add(address, 1);
        __atomic_store_n(&held.bucket[b].address[i], address, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

uint32_t held_take(uint64_t address)
{
    const uint32_t b = bucket_of(address);
    for (unsigned i = 0; held.bucket && i < WAYS; i++) {
        uint64_t there = address;
        if (__atomic_load_n(&held.bucket[b].address[i], __ATOMIC_RELAXED) != address ||
            !__atomic_compare_exchange_n(&held.bucket[b].address[i], &there, RESERVED, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        const uint32_t sample = held.sample[b][i];
        filter_add(address, -1);
        __atomic_store_n(&held.bucket[b].address[i], 0, __ATOMIC_RELEASE);
        return sample;
    }
    return NO_INDEX;
}

void held_forget_all(void)
{
    for (uint32_t b = 0; held.bucket && b <= held.mask; b++)
        for (unsigned i = 0; i < WAYS; i++)
            __atomic_store_n(&held.bucket[b].address[i], 0, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < HELD_FILTER_BYTES; i++)
        __atomic_store_n(&held_filter[i], 0, __ATOMIC_RELAXED);
}
