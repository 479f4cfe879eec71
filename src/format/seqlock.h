/* seqlock.h - how a record is written that others read at any moment without a lock.
 *
 * Owns: the protocol of its version. 0: never used; odd: being written; even: whole. One writer at
 * a time; any thread, any signal handler. Readers compare the version before and after their copy.
 */
#ifndef MALLOW_FORMAT_SEQLOCK_H
#define MALLOW_FORMAT_SEQLOCK_H

#include <stdint.h>

/* Between these two the writer changes the record. The second takes what the first returned. */
static inline __attribute__((always_inline, unused)) uint32_t seqlock_begin(uint32_t *version)
{
    uint32_t v = __atomic_load_n(version, __ATOMIC_RELAXED) | 1;
    __atomic_store_n(version, v, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return v;
}

static inline __attribute__((always_inline, unused)) void seqlock_end(uint32_t *version, uint32_t v)
{
    __atomic_store_n(version, v + 1 ? v + 1 : 2, __ATOMIC_RELEASE); /* never 0 again */
}

#endif
