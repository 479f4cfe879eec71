/* look.c - the look that a thread takes when it has allocated as many bytes as it was given. */
#include <sys/auxv.h>

#include "arch/page.h"
#include "watcher.h"

static uint64_t new_seed(void)
{
    static volatile uint64_t threads;
    uint64_t n = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED), v = watcher.seed + n;
    if (!watcher.seed) {
        const uint64_t *random = (const uint64_t *)getauxval(AT_RANDOM);
        v = (random ? random[0] ^ random[1] : 0) + n * 0x9e3779b97f4a7c15;
        v ^= guest_clock() ^ (uint64_t)__builtin_thread_pointer() << 16;
    }
    return draw_random(&v) | 1;
}

bool look_hit(uint64_t size, uint64_t *gap, uint64_t *with)
{
    struct watch_thread *t = &watch_thread;
    uint64_t drawn = 0;
    if (unlikely(size >> ARCH_ADDRESS_BITS)) { /* which no allocator serves */
        t->left += size;
        return false;
    }
    if (unlikely(!watch_ready())) {
        t->left = watcher.off ? MLW_WATCH_LOOK_BYTES : 0; /* 0: look again at the next call */
        t->issued = t->rest = 0;
        t->random = 0;
        return false;
    }
    struct mlw_watch_settings *s = &watcher.segment->settings;
    uint32_t epoch = __atomic_load_n(&s->epoch, __ATOMIC_ACQUIRE);
    uint64_t period = __atomic_load_n(&s->period, __ATOMIC_RELAXED);
    if (period < MLW_WATCH_PERIOD_MIN)
        period = MLW_WATCH_PERIOD_MIN;
    if (period > MLW_WATCH_PERIOD_MAX)
        period = MLW_WATCH_PERIOD_MAX;
    period = tables_period(period);
    if (unlikely(!t->random || t->generation != watcher.generation)) {
        t->random = new_seed();
        t->left = -size;
        t->issued = t->rest = t->period = 0;
        watch_tid(); /* sets the generation */
    }
    bool yes = draw_hit(t, size, epoch, period, gap, with, &drawn);
    count(&watcher.segment->counters.drawn_bytes, drawn);
    return yes && __atomic_load_n(&s->enabled, __ATOMIC_RELAXED);
}
