/* clock.c - CLOCK_MONOTONIC, also where the clock may not be asked. See guest.h.
 *
 * clock_gettime is answered by the vdso, but where the machine's clock is none that it can read,
 * by the kernel. Behind the closed door the time is therefore that of before, and what the time
 * stamp counter says has passed since; without that counter, each reading is one tick more. */
#include <sys/prctl.h>
#include <time.h>

#include "arch/clock.h"
#include "preload/guest.h"
#include "preload/sys.h"

typedef unsigned __int128 u128;

static struct {
    volatile uint32_t kind; /* 0 ask, 1 reckon, 2 tick */
    uint64_t began_ns, began_ticks, then_ns, then_ticks;
    volatile uint64_t frozen;
} clock_;

static uint64_t ask_clock(void)
{
    struct timespec ts = {0, 0};
    guest_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t guest_clock(void)
{
    if (likely(!clock_.kind))
        return ask_clock();
    if (clock_.kind == 2)
        return __atomic_add_fetch(&clock_.frozen, 1, __ATOMIC_RELAXED);
    uint64_t passed = arch_clock() - clock_.then_ticks;
    return clock_.then_ns + (uint64_t)((u128)passed * (clock_.then_ns - clock_.began_ns) /
                                       (clock_.then_ticks - clock_.began_ticks));
}

static bool counter_is_sound(void)
{
    int mode = 0;
    if (!arch_clock_is_invariant())
        return false;
    return !sys_prctl(PR_GET_TSC, (unsigned long)&mode, 0, 0, 0) && mode == PR_TSC_ENABLE;
}

void guest_clock_begin(void)
{
    if (!counter_is_sound())
        return;
    clock_.began_ticks = arch_clock();
    clock_.began_ns = ask_clock();
}

void guest_clock_confine(void)
{
    if (clock_.kind)
        return;
    clock_.then_ticks = arch_clock();
    clock_.then_ns = clock_.frozen = ask_clock();
    bool known = clock_.began_ns && clock_.then_ns > clock_.began_ns &&
                 clock_.then_ticks > clock_.began_ticks;
    __atomic_store_n(&clock_.kind, known ? 1 : 2, __ATOMIC_RELEASE);
}

void guest_clock_freeze(void)
{
    if (clock_.kind == 2)
        return;
    clock_.frozen = guest_clock();
    __atomic_store_n(&clock_.kind, 2, __ATOMIC_RELEASE);
}

void guest_clock_restore(void) { clock_.kind = 0; }
