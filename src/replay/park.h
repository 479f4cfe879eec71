/* park.h - sleeping until another thread has stored something, at no cost to the one who stores.
 *
 * Owns: a table of places to sleep. The one who stores looks at one counter that hardly ever
 * changes; no fence stands between its store and that look. The one who sleeps makes up for it with
 * membarrier(2), which fences every thread of the process: after it, either the storer sees the
 * sleeper, or the sleeper sees the store. Where membarrier is refused, sleeps are short. Any
 * thread. */
#ifndef MALLOW_REPLAY_PARK_H
#define MALLOW_REPLAY_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PARK_PLACES 1024u

struct park_place {
    _Atomic uint32_t sequence, sleepers;
};

struct park {
    _Atomic uint32_t sleepers __attribute__((aligned(64))); /* in all places */
    bool fenced;                                            /* membarrier works */
    unsigned spins;
    struct park_place places[PARK_PLACES] __attribute__((aligned(64)));
};

/* Before there is a second thread. `threads`: how many will run at once. */
void park_init(struct park *park, unsigned threads);

/* Returns when ready(arg) is true; the thread that makes it so calls park_wake with the same key
 * after. True when the thread slept for it. */
bool park_wait(struct park *park, uint64_t key, bool (*ready)(void *arg), void *arg);

void park_wake_sleepers(struct park *park, uint64_t key);

static inline void park_wake(struct park *park, uint64_t key)
{
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order; see above */
    if (__builtin_expect(atomic_load_explicit(&park->sleepers, memory_order_relaxed) != 0, 0))
        park_wake_sleepers(park, key);
}

#endif
