/* timebase.c - Computes nanoseconds from ticks of the recorder's clock. The rate is the median
 * of slopes between early and late pairs of readings, so that one interrupted reading does no
 * harm. */
#include "timebase.h"

#include <time.h>

#include "arch/clock.h"
#include "trace/raw/raw.h"

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Nanoseconds a tick: the median of the slopes between the first and the last few pairs, so that
 * one reading that was interrupted between its two clocks does no harm. 0 when unknown. */
static double rate(const struct mlw_clock_pair *p, size_t n)
{
    size_t k = n / 2 < 8 ? n / 2 : 8, m = 0;
    double slopes[64];
    for (size_t i = 0; i < k; i++)
        for (size_t j = n - k; j < n; j++)
            if (p[j].clock > p[i].clock && p[j].monotonic_ns > p[i].monotonic_ns)
                slopes[m++] = (double)(p[j].monotonic_ns - p[i].monotonic_ns) /
                              (double)(p[j].clock - p[i].clock);
    if (!m)
        return 0;
    qsort(slopes, m, sizeof *slopes, compare_times);
    return slopes[m / 2];
}

/* A pair read now, when the recording is of this boot of this machine. */
static bool pair_now(const struct raw *r, struct mlw_clock_pair *p)
{
    struct timespec mono, real;
    if (!r->start_realtime_ns || !r->pair_count)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &mono);
    p->clock = arch_clock();
    clock_gettime(CLOCK_REALTIME, &real);
    p->monotonic_ns = (uint64_t)mono.tv_sec * 1000000000u + (uint64_t)mono.tv_nsec;
    int64_t boot = (int64_t)real.tv_sec - (int64_t)mono.tv_sec;
    int64_t then = (int64_t)(r->start_realtime_ns / 1000000000u) -
                   (int64_t)(r->start_monotonic_ns / 1000000000u);
    const struct mlw_clock_pair *last = &r->pairs[r->pair_count - 1];
    return boot - then <= 2 && then - boot <= 2 && p->clock > last->clock &&
           p->monotonic_ns > last->monotonic_ns;
}

/* From the recording's first pair to the first that stands in a CLOCK chunk a while later: both are
 * the tightest of several readings. So events that are sealed while the recording grows have the
 * times that they will have. 0 when there is none, or when it contradicts `all`, the rate of all
 * pairs: the kernel's clock was slewed. */
static double early_rate(const struct raw *r, double all)
{
    const struct mlw_clock_pair two[2] = {{r->start_clock, r->start_monotonic_ns}, r->early_pair};
    if (!r->early_pair.clock || !r->start_clock || !r->pair_count || all <= 0)
        return 0;
    const double k = rate(two, 2);
    const double span = (double)(r->pairs[r->pair_count - 1].clock - r->start_clock) * all;
    const double off = (k > all ? k - all : all - k) / all * span;
    return off <= 50000 + span * 2e-5 ? k : 0;
}

void timebase_of(const struct raw *r, struct timebase *t, bool *uncertain, bool *settled)
{
    uint64_t origin = r->start_clock ? r->start_clock : UINT64_MAX;
    if (!r->start_clock)
        for (size_t i = 0; i < r->image_count; i++)
            if (r->images[i].first_clock < origin)
                origin = r->images[i].first_clock;
    t->origin = origin == UINT64_MAX ? 0 : origin;
    *uncertain = false;
    double ns = 1, early = 0;
    if (r->clock_kind == MLW_CLOCK_TSC) {
        size_t n = r->pair_count;
        double k = rate(r->pairs, n);
        if ((early = early_rate(r, k)) > 0)
            k = early;
        bool short_span =
            n < 2 || r->pairs[n - 1].monotonic_ns - r->pairs[0].monotonic_ns < 20000000;
        struct mlw_clock_pair two[2];
        if (short_span && n && pair_now(r, &two[1])) {
            two[0] = r->pairs[0];
            double k2 = rate(two, 2);
            k = k2 > 0 ? k2 : k;
        }
        if (k > 0.001 && k < 1000)
            ns = k;
        else
            *uncertain = true;
        t->shift = 6;
        t->near = 2048;
    } else {
        t->shift = 5;
        t->near = 1000;
    }
    if (settled)
        *settled = early > 0 || r->clock_kind != MLW_CLOCK_TSC;
    t->tick_ns = (uint64_t)(ns * (double)((uint64_t)1 << t->shift) * 4294967296.0 + 0.5);
    if (!t->tick_ns)
        t->tick_ns = 1;
}
