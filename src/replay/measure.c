/* measure.c - Samples the replay's resident size and page faults from a helper process that
 * shares its memory. The helper shares the thread pointer as well, so it makes raw system calls
 * and must not set errno. Requests to the replay's threads go through an atomic word. */
#include "replay/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/page.h"
#include "arch/syscall.h"
#include "replay/allocator.h"

#define LOOK_SHARE 100u /* looking into the allocator takes one part of this, at most */

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

static struct measure_point take_measurement(struct measure *m)
{
    char text[128];
    ssize_t n = pread(m->statm, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    const char *p = text;
    struct measure_point k = {.time_ns = measure_now_ns() - m->start_ns,
                              .free_bytes = MEASURE_UNKNOWN};
    k.vmsize_bytes = decimal(&p) * ARCH_PAGE_BYTES;
    k.rss_bytes = decimal(&p) * ARCH_PAGE_BYTES;
    int64_t ideal = m->ideal(m->ideal_arg);
    k.ideal_bytes = ideal > 0 ? (uint64_t)ideal : 0;
    if (k.rss_bytes > m->peak.rss_bytes)
        m->peak.rss_bytes = k.rss_bytes;
    if (k.vmsize_bytes > m->peak.vmsize_bytes)
        m->peak.vmsize_bytes = k.vmsize_bytes;
    if (k.ideal_bytes > m->peak.ideal_bytes)
        m->peak.ideal_bytes = k.ideal_bytes;
    return k;
}

/* A size of /proc/self/status, such as the kernel's high-water marks; 0 when it cannot be read. */
static uint64_t status_bytes(const struct measure *m, const char *name)
{
    char text[4096];
    ssize_t n = pread(m->status, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    const char *p = strstr(text, name);
    if (!p)
        return 0;
    p += strlen(name);
    return decimal(&p) * 1024;
}

static void keep_measurement(struct measure *m, struct measure_point k)
{
    if (m->points == MEASURE_POINTS) {
        for (uint32_t i = 0; i < MEASURE_POINTS / 2; i++)
            m->point[i] = m->point[2 * i];
        m->points = MEASURE_POINTS / 2;
        m->interval_ns *= 2;
    }
    m->point[m->points++] = k;
}

/* --- the helper ---
 *
 * It has the replay's memory, its thread pointer among it: nothing below may set errno or use
 * anything else of the thread's own. */

static long raw(long number, long a, long b, long c, long d)
{
    return arch_syscall(number, a, b, c, d, 0, 0);
}

/* True if it is still needed: the replay may have died before the signal was ordered. */
static bool replay_goes_on(const struct measure *m)
{
    return !atomic_load(&m->stop) && raw(SYS_getppid, 0, 0, 0, 0) == m->replay;
}

/* Until it has to stop, or for so long. */
static void rest(struct measure *m, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    raw(SYS_futex, (long)&m->stop, FUTEX_WAIT_PRIVATE, 0, (long)&t);
}

static int helper(void *arg)
{
    struct measure *m = arg;
    raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    while (replay_goes_on(m) && !atomic_load(&m->begun)) /* times count from the beginning */
        rest(m, 100000);
    uint64_t next_ns = 0, next_trim_ns = m->trim_every_ns;
    while (replay_goes_on(m)) {
        uint64_t now_ns = measure_now_ns() - m->start_ns;
        if (m->trim_every_ns && now_ns >= next_trim_ns) {
            atomic_fetch_or(&m->due, MEASURE_DUE_TRIM);
            next_trim_ns = now_ns + m->trim_every_ns;
        }
        if (now_ns >= next_ns) {
            uint64_t answer = atomic_exchange(&m->answer, MEASURE_UNKNOWN);
            if (m->points) /* it was asked when that point was made */
                m->point[m->points - 1].free_bytes = answer;
            keep_measurement(m, take_measurement(m));
            if (now_ns >= atomic_load(&m->next_look_ns))
                atomic_fetch_or(&m->due, MEASURE_DUE_FREE);
            next_ns = now_ns + m->interval_ns;
        }
        uint64_t until_ns = m->trim_every_ns && next_trim_ns < next_ns ? next_trim_ns : next_ns;
        rest(m, until_ns > now_ns ? until_ns - now_ns : 1);
    }
    raw(SYS_exit_group, 0, 0, 0, 0);
    return 0;
}

static uint64_t own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void measure_chores(struct measure *m)
{
    uint32_t due = atomic_exchange(&m->due, 0);
    if (!due)
        return;
    uint64_t before_ns = own_cpu_ns();
    if (due & MEASURE_DUE_TRIM) {
        malloc_trim(0);
        atomic_fetch_add(&m->trims, 1);
    }
    if (due & MEASURE_DUE_FREE) {
        uint64_t look_ns = own_cpu_ns(), bytes;
        if (allocator_free_bytes(&bytes))
            atomic_store(&m->answer, bytes);
        look_ns = own_cpu_ns() - look_ns;
        atomic_store(&m->next_look_ns, measure_now_ns() - m->start_ns + LOOK_SHARE * look_ns);
    }
    atomic_fetch_add(&m->chores_ns, own_cpu_ns() - before_ns);
}

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

int measure_init(struct measure *m, int64_t (*ideal)(const void *arg), const void *ideal_arg,
                 uint64_t trim_every_ns, struct error *err)
{
    m->ideal = ideal;
    m->ideal_arg = ideal_arg;
    m->trim_every_ns = trim_every_ns;
    m->interval_ns = 1000000;
    m->answer = MEASURE_UNKNOWN;
    memset(m->stack, 0, sizeof m->stack);
    m->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    m->status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (m->statm < 0 || m->status < 0)
        return error_system(err, "cannot read /proc/self/statm, is /proc mounted?");
    return 0;
}

int measure_start(struct measure *m, struct error *err)
{
    m->start_ns = measure_now_ns();
    m->replay = getpid();
    m->helper =
        clone(helper, m->stack + sizeof m->stack, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, m);
    if (m->helper < 0)
        return error_system(err, "cannot make the process that measures");
    int clear = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    m->peak_is_exact = clear >= 0 && write(clear, "5", 1) == 1;
    if (clear >= 0)
        close(clear);
    m->peak = (struct measure_point){0};
    m->peak_before = status_bytes(m, "VmPeak:");
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    m->minor_faults = (uint64_t)u.ru_minflt;
    m->major_faults = (uint64_t)u.ru_majflt;
    m->user_ns = timeval_ns(u.ru_utime);
    m->system_ns = timeval_ns(u.ru_stime);
    m->start = take_measurement(m);
    m->start_ns = measure_now_ns();
    m->start.time_ns = 0;
    atomic_store(&m->begun, 1);
    return 0;
}

void measure_stop(struct measure *m)
{
    uint64_t end_ns = measure_now_ns() - m->start_ns;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    m->minor_faults = (uint64_t)u.ru_minflt - m->minor_faults;
    m->major_faults = (uint64_t)u.ru_majflt - m->major_faults;
    m->user_ns = timeval_ns(u.ru_utime) - m->user_ns;
    m->system_ns = timeval_ns(u.ru_stime) - m->system_ns;
    atomic_store(&m->stop, 1);
    syscall(SYS_futex, &m->stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    while (waitpid(m->helper, NULL, 0) < 0 && errno == EINTR)
        ;
    m->end = take_measurement(m);
    m->end.time_ns = end_ns;
    uint64_t high = m->peak_is_exact ? status_bytes(m, "VmHWM:") : 0;
    if (high > m->peak.rss_bytes)
        m->peak.rss_bytes = high;
    /* this mark cannot be reset: only a rise counts */
    high = status_bytes(m, "VmPeak:");
    if (high > m->peak_before && high > m->peak.vmsize_bytes)
        m->peak.vmsize_bytes = high;
    uint64_t answer = atomic_load(&m->answer);
    if (m->points && answer != MEASURE_UNKNOWN)
        m->point[m->points - 1].free_bytes = answer;
    while (m->points && m->point[m->points - 1].time_ns > end_ns)
        m->points--; /* made before the helper heard of the end */
    if (!allocator_free_bytes(&m->end.free_bytes))
        m->end.free_bytes = MEASURE_UNKNOWN;
    keep_measurement(m, m->end);
}
