/* joining.c - what a process that samples does, however the library came into it: preloaded
 * (process.c), or while it ran (../attach). */
#include <errno.h>
#include <string.h>

#include "preload/unwind/unwind.h"
#include "watcher.h"

struct watcher watcher;
TLS struct watch_thread watch_thread;
volatile bool watch_clock_withheld;

/* Not where it would be one of the last mappings that the process may have: the heap could not grow
 * then. Two more than needed are made for a moment, by one page of another kind among the last
 * ones. */
void *watch_map(size_t bytes)
{
    size_t whole = (bytes + PAGE - 1) & ~(PAGE - 1);
    long p = sys_mmap(0, whole + 3 * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sys_is_error(p))
        return 0;
    bool room = !sys_mprotect((void *)((uint64_t)p + whole + PAGE), PAGE, PROT_NONE);
    sys_munmap((void *)((uint64_t)p + (room ? whole : 0)), 3 * PAGE + (room ? 0 : whole));
    if (!room)
        return 0;
    if (watcher.segment)
        count(&watcher.segment->counters.own_bytes, bytes);
    return (void *)p;
}

void watch_trouble(uint32_t bits)
{
    if (watcher.segment)
        __atomic_fetch_or(&watcher.segment->trouble, bits, __ATOMIC_RELAXED);
}

uint32_t watch_tid(void)
{
    if (unlikely(!watch_thread.tid || watch_thread.generation != watcher.generation)) {
        watch_thread.generation = watcher.generation;
        watch_thread.tid = sys_closed ? 0 : (uint32_t)sys_gettid();
    }
    return watch_thread.tid;
}

enum watch_claim watch_claim_left(volatile uint32_t *word, uint32_t holder)
{
    bool gone = holder > 1 && sys_tgkill((int)watcher.pid, (int)(holder - 1), 0) == -ESRCH;
    return gone && __atomic_compare_exchange_n(word, &holder, watch_tid() + 1, false,
                                               __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
               ? CLAIM_LEFT
               : CLAIM_BUSY;
}

const char *watch_reader_assignment(void)
{
    static char assignment[sizeof MLW_ENV_WATCH_READER + 24]; /* each thread writes the same */
    const struct mlw_watch *w = watcher.segment;
    const uint32_t reader = w ? __atomic_load_n(&w->settings.reader_pid, __ATOMIC_RELAXED) : 0;
    if (!reader)
        return 0;
    *watch_decimal(stpcpy(assignment, MLW_ENV_WATCH_READER "="), reader) = 0;
    return assignment;
}

char *watch_decimal(char *to, uint64_t v)
{
    char digits[20];
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

/* Tables in proportion to the memory that we may have. The parts add up to somewhat less than it
 * when all are full: tables here and in the segment, addresses, unwinding. */
void watch_make_plan(uint64_t memory)
{
    struct segment_plan *plan = &watcher.plan;
    plan->samples = MLW_WATCH_SAMPLES(memory);
    plan->sites = MLW_WATCH_SITES(memory);
    plan->frees = MLW_WATCH_FREES(memory);
    plan->modules = 256;
    plan->errors = MLW_WATCH_ERRORS_MAX;
}

size_t watch_read_file(const char *path, char *to, size_t room)
{
    long fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), r;
    size_t n = 0;
    if (sys_is_error(fd))
        return 0;
    while (n < room && (r = sys_read((int)fd, to + n, room - n)) > 0)
        n += (size_t)r;
    sys_close((int)fd);
    return n;
}

bool watch_make_segment(const struct mlw_watch_settings *settings, const char *session)
{
    struct timespec now = {0, 0};
    watcher.start_ns = guest_clock();
    struct mlw_watch *w = segment_make(session);
    if (!w)
        return false;
    w->pid = watcher.pid;
    w->ppid = (uint32_t)sys_getppid();
    w->pid_namespace = guest_pid_namespace();
    w->start_ns = watcher.start_ns;
    if (!watch_clock_withheld)
        guest_gettime(CLOCK_REALTIME, &now);
    w->start_realtime_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    w->forked_from = watcher.forked_from;
    w->range_start = guard_range.start;
    w->range_end = guard_range.start + guard_range.bytes;
    w->unguarded = watcher.unguarded;
    w->settings = *settings;
    unwind_program_path(w->exe, sizeof w->exe);
    w->command_bytes = watch_read_file(SELF_COMMAND, w->command, sizeof w->command - 1);
    watcher.segment = w;
    return true;
}

void watch_go_live(void)
{
    __atomic_store_n(&watcher.segment->state, MLW_WATCH_LIVE, __ATOMIC_RELEASE);
    __atomic_store_n(&watcher.segment->magic, MLW_WATCH_MAGIC, __ATOMIC_RELEASE);
}
