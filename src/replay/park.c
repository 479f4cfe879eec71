/* park.c - Lets a thread sleep on a futex until another thread has stored a value. The sleeper
 * issues membarrier(2), so the storing thread needs no fence. Without membarrier a sleep lasts
 * 50 microseconds at most. */
#include "replay/park.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/clock.h"

static struct park_place *park_place_of(struct park *park, uint64_t key)
{
    return &park->places[(key * 0x9e3779b97f4a7c15u) >> 54];
}

void park_init(struct park *park, unsigned threads)
{
    park->fenced = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    /* With more threads than processors the one waited for may not even run. */
    park->spins = processors > 1 ? (threads <= (unsigned long)processors ? 400 : 40) : 0;
}

bool park_wait(struct park *park, uint64_t key, bool (*ready)(void *arg), void *arg)
{
    for (unsigned i = 0; i < park->spins; i++) {
        if (ready(arg))
            return false;
        arch_pause();
    }
    struct park_place *p = park_place_of(park, key);
    bool slept = false;
    while (!ready(arg)) {
        slept = true;
        atomic_fetch_add(&p->sleepers, 1);
        atomic_fetch_add(&park->sleepers, 1);
        uint32_t sequence = atomic_load(&p->sequence);
        struct timespec longest = {.tv_nsec = 50000};
        if (park->fenced && !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
            longest = (struct timespec){.tv_sec = 1};
        if (!ready(arg))
            syscall(SYS_futex, &p->sequence, FUTEX_WAIT_PRIVATE, sequence, &longest, NULL, 0);
        atomic_fetch_sub(&park->sleepers, 1);
        atomic_fetch_sub(&p->sleepers, 1);
    }
    return slept;
}

void park_wake_sleepers(struct park *park, uint64_t key)
{
    struct park_place *p = park_place_of(park, key);
    if (!atomic_load(&p->sleepers))
        return;
    atomic_fetch_add(&p->sequence, 1);
    syscall(SYS_futex, &p->sequence, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
