/* segment.c - the file of shared memory that readers look into (src/format/watch.h).
 *
 * A store into a page of shared memory that the file system has no room for kills the program. So a
 * page is written to only after the kernel has been asked to put it there, CHUNK bytes at a time;
 * what it refuses stays unwritten, and the program goes on. No descriptor is kept, except of a
 * memfd, by which alone readers find it; the program may close that. The mapping alone keeps the
 * lock that marks the file as in use. */
#include <errno.h>
#include <string.h>
#include <sys/file.h>

#include "watcher.h"

#define CHUNK  16384ul
#define CHUNKS (MLW_WATCH_FILE_MAX / CHUNK)

static struct {
    char path[512]; /* "": no name */
    volatile uint64_t there[CHUNKS / 64];
    volatile uint32_t refused;
    bool held;
} segment;

/* Makes [at, at + n) present. Older kernels have no call for it; but they too say EFAULT instead of
 * sending a signal when it is they who write. */
static bool populate(uint8_t *at, size_t n)
{
    long r = sys_madvise(at, n, MADV_POPULATE_WRITE);
    if (r != -EINVAL)
        return r == 0;
    for (size_t i = 0; i < n; i += PAGE) {
        uint8_t byte = at[i]; /* a hole reads as zeros */
        struct iovec from = {&byte, 1}, to = {at + i, 1};
        if (sys_process_vm_writev((int)sys_gettid(), &from, 1, &to, 1) != 1)
            return false;
    }
    return true;
}

bool segment_touch(const void *p, size_t bytes)
{
    uint64_t at = (uint64_t)((const uint8_t *)p - (const uint8_t *)watcher.segment);
    for (uint64_t c = at / CHUNK; c <= (at + bytes - 1) / CHUNK; c++) {
        uint64_t bit = 1ul << c % 64, end = (c + 1) * CHUNK;
        if (likely(__atomic_load_n(&segment.there[c / 64], __ATOMIC_ACQUIRE) & bit))
            continue;
        if (sys_closed || segment.refused)
            return false;
        if (end > watcher.plan.bytes)
            end = watcher.plan.bytes;
        if (!populate((uint8_t *)watcher.segment + c * CHUNK, end - c * CHUNK)) {
            segment.refused = 1;
            watch_trouble(MLW_WATCH_FILE_FULL);
            return false;
        }
        __atomic_fetch_or(&segment.there[c / 64], bit, __ATOMIC_RELEASE);
    }
    return true;
}

static char *put_segment_text(char *to, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n + 1);
    return to + n;
}

static void make_segment_name(char *to)
{
    to = watch_decimal(to, watcher.pid);
    *to++ = '-';
    *watch_decimal(to, watcher.start_ns) = 0;
}

/* The file mapped; NULL when it cannot be. Closes fd. */
static void *map_file(long fd, uint64_t bytes, bool keep)
{
    if (sys_is_error(fd))
        return 0;
    long p = -1;
    if (!sys_ftruncate((int)fd, (off_t)bytes))
        p = sys_mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (keep && !sys_is_error(p)) {
        static const int high[] = {900, 200, 40};
        for (unsigned i = 0; i < sizeof high / sizeof high[0]; i++)
            if (sys_fcntl((int)fd, F_DUPFD_CLOEXEC, high[i]) >= 0) {
                sys_close((int)fd);
                break;
            }
        return (void *)p;
    }
    /* more than once: another process may be checking the lock */
    for (unsigned i = 0; i < 8 && !sys_is_error(p) && !segment.held; i++)
        segment.held = !sys_flock((int)fd, LOCK_EX | LOCK_NB);
    sys_close((int)fd);
    return sys_is_error(p) ? 0 : (void *)p;
}

bool segment_is_held(int directory, const char *name)
{
    long fd = sys_openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (sys_is_error(fd))
        return false;
    bool held = sys_flock((int)fd, LOCK_SH | LOCK_NB) == -EWOULDBLOCK;
    sys_close((int)fd);
    return held;
}

static void *make_named(uint64_t bytes)
{
    const char *name;
    const long dir = guest_way(segment.path, &name);
    long fd = dir;
    if (dir >= 0) {
        fd = sys_openat((int)dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        sys_close((int)dir);
    }
    void *p = map_file(fd, bytes, false);
    if (!p) {
        if (!sys_is_error(fd))
            segment_unlink();
        segment.path[0] = 0;
    }
    return p;
}

/* In the session's directory, in /dev/shm, or without a name. */
static void *make_segment_file(uint64_t bytes, const char *session)
{
    uint64_t limit[2];
    void *p = 0;
    /* a file beyond this limit raises a signal */
    bool files = !sys_getrlimit(RLIMIT_FSIZE, limit) && limit[0] >= bytes;
    watcher.session_keeper = 0;
    watcher.in_session = false;
    segment.held = false;
    if (files && session && session[0] == '/' && strlen(session) < sizeof segment.path - 64) {
        const char *last = strrchr(session, '/') + 1;
        size_t n = sizeof MLW_WATCH_SESSION_PREFIX - 1;
        char *to = put_segment_text(segment.path, session);
        *to++ = '/';
        make_segment_name(to);
        p = make_named(bytes);
        watcher.in_session = p != 0;
        if (p && !strncmp(last, MLW_WATCH_SESSION_PREFIX, n))
            for (const char *d = last + n; *d >= '0' && *d <= '9'; d++)
                watcher.session_keeper = watcher.session_keeper * 10 + (uint32_t)(*d - '0');
    }
    if (!p && files) {
        if (!watcher.hurried)
            left_bound();
        make_segment_name(put_segment_text(segment.path, MLW_WATCH_FILE_PREFIX));
        p = make_named(bytes);
    }
    if (!p && files)
        p = map_file(sys_memfd_create(MLW_WATCH_MEMFD, 1 /* MFD_CLOEXEC */), bytes, true);
    if (p)
        return p;
    long shared = sys_mmap(0, bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return sys_is_error(shared) ? 0 : (void *)shared;
}

struct mlw_watch *segment_make(const char *session)
{
    struct segment_plan *plan = &watcher.plan;
    uint64_t at = PAGE;
    uint64_t offset[5];
    const uint64_t table[5] = {
        plan->modules * sizeof *watcher.module, plan->sites * sizeof *watcher.site,
        plan->samples * sizeof *watcher.sample, plan->frees * sizeof *watcher.free_,
        plan->errors * sizeof *watcher.error};
    for (unsigned i = 0; i < 5; i++) {
        offset[i] = at;
        at += (table[i] + PAGE - 1) & ~(PAGE - 1);
    }
    if (at > CHUNKS * CHUNK)
        return 0;
    plan->bytes = at;
    segment.path[0] = 0;
    segment.refused = 0;
    memset((void *)(uintptr_t)segment.there, 0, sizeof segment.there);
    uint8_t *p = make_segment_file(at, session);
    if (!p)
        return 0;
    if (!populate(p, at < CHUNK ? at : CHUNK)) {
        segment_unlink();
        sys_munmap(p, at);
        return 0;
    }
    segment.there[0] = 1;
    watcher.module = (struct mlw_watch_module *)(void *)(p + offset[0]);
    watcher.site = (struct mlw_watch_site *)(void *)(p + offset[1]);
    watcher.sample = (struct mlw_watch_sample *)(void *)(p + offset[2]);
    watcher.free_ = (struct mlw_watch_free *)(void *)(p + offset[3]);
    watcher.error = (struct mlw_watch_error *)(void *)(p + offset[4]);
    struct mlw_watch *w = (struct mlw_watch *)(void *)p;
    w->version = MLW_WATCH_VERSION;
    w->file_bytes = at;
    w->held = segment.held;
    for (unsigned i = 0; i < 2; i++) {
        w->kept[i].start = watcher.kept[i].at;
        w->kept[i].end = watcher.kept[i].at + watcher.kept[i].bytes;
    }
    w->modules = plan->modules;
    w->sites = plan->sites;
    w->samples = plan->samples;
    w->frees = plan->frees;
    w->errors = plan->errors;
    w->module_offset = (uint32_t)offset[0];
    w->site_offset = (uint32_t)offset[1];
    w->sample_offset = (uint32_t)offset[2];
    w->free_offset = (uint32_t)offset[3];
    w->error_offset = (uint32_t)offset[4];
    return w;
}

void segment_unlink(void)
{
    const char *name;
    const long dir = segment.path[0] ? guest_way(segment.path, &name) : -1;
    if (dir < 0)
        return;
    sys_unlinkat((int)dir, name, 0);
    sys_close((int)dir);
}
