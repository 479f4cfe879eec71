/* measure.c - see measure.h. */
#include "replay/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t measure_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t decimal(const char **p)
{
    uint64_t v = 0;
    while (**p == ' ' || **p == '\t')
        ++*p;
    while (**p >= '0' && **p <= '9')
        v = v * 10 + (uint64_t)(*(*p)++ - '0');
    return v;
}

static struct measure_point look(struct measure *m)
{
    char text[128];
    ssize_t n = pread(m->statm, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    const char *p = text;
    struct measure_point k = {.time_ns = measure_now_ns() - m->start_ns};
    k.vmsize_bytes = decimal(&p) * 4096;
    k.rss_bytes = decimal(&p) * 4096;
    int64_t ideal = atomic_load_explicit(m->ideal, memory_order_relaxed);
    k.ideal_bytes = ideal > 0 ? (uint64_t)ideal : 0;
    if (k.rss_bytes > m->peak.rss_bytes)
        m->peak.rss_bytes = k.rss_bytes;
    if (k.vmsize_bytes > m->peak.vmsize_bytes)
        m->peak.vmsize_bytes = k.vmsize_bytes;
    if (k.ideal_bytes > m->peak.ideal_bytes)
        m->peak.ideal_bytes = k.ideal_bytes;
    return k;
}

/* The kernel's high-water mark, 0 when it cannot be read. */
static uint64_t high_water(const struct measure *m)
{
    char text[4096];
    ssize_t n = pread(m->status, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    const char *p = strstr(text, "VmHWM:");
    if (!p)
        return 0;
    p += 6;
    return decimal(&p) * 1024;
}

static void keep(struct measure *m, struct measure_point k)
{
    if (m->points == MEASURE_POINTS) {
        for (uint32_t i = 0; i < MEASURE_POINTS / 2; i++)
            m->point[i] = m->point[2 * i];
        m->points = MEASURE_POINTS / 2;
        m->interval_ns *= 2;
    }
    m->point[m->points++] = k;
}

static void *helper(void *arg)
{
    struct measure *m = arg;
    uint64_t next_ns = 0, next_trim_ns = m->trim_every_ns;
    while (!atomic_load(&m->stop)) {
        uint64_t now_ns = measure_now_ns() - m->start_ns;
        if (m->trim_every_ns && now_ns >= next_trim_ns) {
            m->trim(0);
            m->trims++;
            next_trim_ns = now_ns + m->trim_every_ns;
        }
        if (now_ns >= next_ns) {
            keep(m, look(m));
            next_ns = now_ns + m->interval_ns;
        }
        uint64_t until_ns = m->trim_every_ns && next_trim_ns < next_ns ? next_trim_ns : next_ns;
        uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 1;
        struct timespec t = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                             .tv_nsec = (long)(wait_ns % 1000000000u)};
        syscall(SYS_futex, &m->stop, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
    }
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    m->helper_ns = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
                   (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
    return NULL;
}

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

int measure_init(struct measure *m, const _Atomic int64_t *ideal, int (*trim)(size_t pad),
                 uint64_t trim_every_ns, struct error *err)
{
    m->ideal = ideal;
    m->trim = trim;
    m->trim_every_ns = trim_every_ns;
    m->interval_ns = 1000000;
    memset(m->stack, 0, sizeof m->stack);
    m->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    m->status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (m->statm < 0 || m->status < 0)
        return error_system(err, "cannot read /proc/self/statm, is /proc mounted?");
    return 0;
}

int measure_start(struct measure *m, struct error *err)
{
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstack(&a, m->stack, sizeof m->stack);
    m->start_ns = measure_now_ns();
    int failed = pthread_create(&m->helper, &a, helper, m);
    pthread_attr_destroy(&a);
    if (failed) {
        errno = failed;
        return error_system(err, "cannot make the thread that measures");
    }
    int clear = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    m->peak_is_exact = clear >= 0 && write(clear, "5", 1) == 1;
    if (clear >= 0)
        close(clear);
    m->peak = (struct measure_point){0};
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    m->minor_faults = (uint64_t)u.ru_minflt;
    m->major_faults = (uint64_t)u.ru_majflt;
    m->user_ns = ns_of(u.ru_utime);
    m->system_ns = ns_of(u.ru_stime);
    m->start = look(m);
    m->start_ns = measure_now_ns();
    m->start.time_ns = 0;
    return 0;
}

void measure_stop(struct measure *m)
{
    m->end = look(m);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    m->minor_faults = (uint64_t)u.ru_minflt - m->minor_faults;
    m->major_faults = (uint64_t)u.ru_majflt - m->major_faults;
    m->user_ns = ns_of(u.ru_utime) - m->user_ns;
    m->system_ns = ns_of(u.ru_stime) - m->system_ns;
    uint64_t high = m->peak_is_exact ? high_water(m) : 0;
    if (high > m->peak.rss_bytes)
        m->peak.rss_bytes = high;
    atomic_store(&m->stop, 1);
    syscall(SYS_futex, &m->stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(m->helper, NULL);
    keep(m, m->end);
}
