/* cold.c - Finds the memory of a process that stayed untouched or unwritten for a time. It tries
 * idle page tracking, then userfaultfd in the process, then soft-dirty bits. SIGINT stays
 * blocked except in the wait, so that an interrupt ends the wait and nothing else. The kernel
 * undoes the write protection when our descriptor closes, whatever ends us. */
#include "heap/cold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/present.h"
#include "base/proc.h"
#include "heap/idle.h"
#include "remote/live.h"

/* Headers of older kernels lack these. */
#define FEATURE_WP_UNPOPULATED ((uint64_t)1 << 13)
#define FEATURE_WP_ASYNC       ((uint64_t)1 << 15)
#define CREATE_USER_MODE_ONLY  1u

/* In an entry of /proc/PID/pagemap. */
#define ENTRY_DIRTY ((uint64_t)1 << 55)

enum { RANGES_AT_ONCE = 1024, ENTRIES_AT_ONCE = 4096, REASON_BYTES = 160 };

struct written {
    uint64_t start, end;
};

struct cold {
    pid_t pid;
    int pidfd;
    struct idle *idle;  /* NULL: one of the others */
    int fault_fd;       /* the process's userfaultfd; -1: soft-dirty */
    struct written *at; /* by start; apart */
    size_t count, room;
    bool listens; /* to SIGINT, which is blocked but in cold_wait */
    struct sigaction before;
    sigset_t mask_before;
};

static void interrupted(int number) { (void)number; }

/* From before the process goes on: an interrupt that comes between that and the wait ends the wait.
 */
static void listen_begin(struct cold *c)
{
    struct sigaction own = {.sa_handler = interrupted};
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigprocmask(SIG_BLOCK, &held, &c->mask_before);
    sigaction(SIGINT, NULL, &c->before);
    if (c->before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &own, NULL);
    c->listens = true;
}

static void listen_end(struct cold *c)
{
    if (!c->listens)
        return;
    sigprocmask(SIG_SETMASK, &c->mask_before, NULL); /* one that waits is taken by our handler */
    sigaction(SIGINT, &c->before, NULL);
    c->listens = false;
}

/* --- userfaultfd --- */

/* True if the kernel has it; tried on ourselves. */
static bool kernel_protects(char *reason)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | CREATE_USER_MODE_ONLY);
    if (fd < 0) {
        snprintf(reason, REASON_BYTES, "the kernel refuses one (%s)", strerror(errno));
        return false;
    }
    bool good = !ioctl(fd, UFFDIO_API, &api);
    if (!good)
        snprintf(reason, REASON_BYTES, "the kernel is older than 6.7");
    close(fd);
    return good;
}

/* Makes the process open one, and takes it over. */
static int open_inside(const struct cold *c, struct target *t, char *reason)
{
    int64_t number = -1, ignored;
    const uint64_t how[4] = {O_CLOEXEC | O_NONBLOCK | CREATE_USER_MODE_ONLY};
    const char *refused = live_call(t, SYS_userfaultfd, how, &number);
    if (refused || number < 0) {
        snprintf(reason, REASON_BYTES, "%s", refused ? refused : strerror((int)-number));
        return -1;
    }
    int fd = (int)syscall(SYS_pidfd_getfd, c->pidfd, (int)number, 0);
    if (fd < 0)
        snprintf(reason, REASON_BYTES, "its descriptor cannot be had (%s)", strerror(errno));
    const uint64_t closed[4] = {(uint64_t)number};
    live_call(t, SYS_close, closed, &ignored);
    return fd;
}

/* True if memory is the process's own, which may hold blocks. */
static bool may_hold_blocks(const struct target_region *r)
{
    const uint32_t both = REGION_READ | REGION_WRITE;
    return !r->file && (r->flags & both) == both &&
           !(r->flags & (REGION_SHARED | REGION_SPECIAL | REGION_STACK));
}

/* Write-protects what pages there are. A region that cannot be (it has a userfaultfd of its own)
 * counts as written. */
static bool protect(const struct cold *c, const struct target *t, char *reason)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED};
    bool any = false;
    int fd = proc_open(c->pid, "pagemap");
    bool good = fd >= 0 && !ioctl(c->fault_fd, UFFDIO_API, &api);
    for (size_t i = 0; good && i < t->region_count; i++) {
        const struct target_region *r = &t->regions[i];
        struct uffdio_register all = {.range = {r->start, r->end - r->start},
                                      .mode = UFFDIO_REGISTER_MODE_WP};
        struct present_scan scan = {.flags = PRESENT_PROTECT,
                                    .start = r->start,
                                    .end = r->end,
                                    .category_any = PRESENT_HERE | PRESENT_SWAPPED};
        if (may_hold_blocks(r) && !ioctl(c->fault_fd, UFFDIO_REGISTER, &all) &&
            present_ask(fd, &scan) >= 0)
            any = true;
    }
    if (!any)
        snprintf(reason, REASON_BYTES, "no memory of it can be protected (%s)", strerror(errno));
    if (fd >= 0)
        close(fd);
    return any;
}

static bool begin_protecting(struct cold *c, struct target *t, char *reason)
{
    if (!kernel_protects(reason))
        return false;
    c->fault_fd = open_inside(c, t, reason);
    if (c->fault_fd >= 0 && protect(c, t, reason))
        return true;
    if (c->fault_fd >= 0)
        close(c->fault_fd);
    c->fault_fd = -1;
    return false;
}

/* --- soft-dirty bits --- */

/* True if the kernel has them; tried on a page of ours. */
static bool kernel_marks(void)
{
    uint64_t entry = 0;
    uint8_t *page =
        mmap(NULL, TARGET_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = proc_open(0, "pagemap");
    if (page != MAP_FAILED) {
        *page = 1;
        if (fd >= 0 &&
            pread(fd, &entry, sizeof entry,
                  (off_t)((uintptr_t)page / TARGET_PAGE_BYTES * sizeof entry)) != sizeof entry)
            entry = 0;
        munmap(page, TARGET_PAGE_BYTES);
    }
    if (fd >= 0)
        close(fd);
    return entry & ENTRY_DIRTY;
}

static bool begin_marking(const struct cold *c, char *reason)
{
    char path[64];
    if (!kernel_marks()) {
        snprintf(reason, REASON_BYTES, "the kernel was built without (CONFIG_MEM_SOFT_DIRTY)");
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/clear_refs", (int)c->pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, "4", 1) == 1;
    if (!good)
        snprintf(reason, REASON_BYTES, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return good;
}

/* --- idle page tracking --- */

static bool begin_idle(struct cold *c, const struct target *t, const char *root, char *reason)
{
    c->idle = idle_open(c->pid, root, reason, REASON_BYTES);
    for (size_t i = 0; c->idle && i < t->region_count; i++)
        if (may_hold_blocks(&t->regions[i]) &&
            idle_mark(c->idle, t->regions[i].start, t->regions[i].end)) {
            snprintf(reason, REASON_BYTES, "%s", strerror(errno));
            idle_close(c->idle);
            c->idle = NULL;
        }
    return c->idle;
}

/* --- all --- */

const char *cold_way(char *reason, size_t room)
{
    char idle[REASON_BYTES] = "", protecting[REASON_BYTES] = "";
    struct idle *open = idle_open(0, "", idle, sizeof idle);
    idle_close(open);
    if (open)
        return "idle";
    if (kernel_protects(protecting))
        return "userfaultfd";
    if (kernel_marks())
        return "soft-dirty";
    snprintf(reason, room, "idle page tracking: %s; userfaultfd: %s; no soft-dirty bits", idle,
             protecting);
    return NULL;
}

struct cold *cold_begin(struct target *t, const char *root, struct error *err)
{
    char idle[REASON_BYTES] = "", protecting[REASON_BYTES] = "", marking[REASON_BYTES] = "";
    struct cold *c = calloc(1, sizeof *c);
    if (!c) {
        error_memory(err);
        return NULL;
    }
    *c = (struct cold){.pid = (pid_t)t->pid, .fault_fd = -1};
    listen_begin(c);
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (c->pidfd < 0) {
        error_set(err, ERROR_UNSUPPORTED, "process %" PRIu32 " cannot be held: %s", t->pid,
                  strerror(errno));
    } else if (begin_idle(c, t, root, idle) || begin_protecting(c, t, protecting) ||
               begin_marking(c, marking)) {
        return c;
    } else {
        error_set(err, ERROR_UNSUPPORTED,
                  "cannot see what process %" PRIu32 " writes: userfaultfd: %s; soft-dirty bits: "
                  "%s; idle page tracking: %s",
                  t->pid, protecting, marking, idle);
    }
    cold_end(c);
    return NULL;
}

void cold_end(struct cold *c)
{
    if (!c)
        return;
    listen_end(c);
    if (c->fault_fd >= 0)
        close(c->fault_fd); /* the kernel undoes all of it */
    idle_close(c->idle);
    if (c->pidfd >= 0)
        close(c->pidfd);
    free(c->at);
    free(c);
}

const char *cold_source(const struct cold *c)
{
    return c->idle ? "idle" : c->fault_fd >= 0 ? "userfaultfd" : "soft-dirty";
}

bool cold_sees_reads(const struct cold *c) { return c->idle; }

int cold_wait(struct cold *c, uint64_t ns, uint64_t *waited_ns,
              void (*tick)(void *arg, uint64_t done, uint64_t total), void *arg, struct error *err)
{
    const uint64_t start = clock_monotonic_ns(), second = 1000000000;
    struct pollfd process = {.fd = c->pidfd, .events = POLLIN};
    int ready = 0;
    for (uint64_t done = 0; !ready && done < ns; done = clock_monotonic_ns() - start) {
        const uint64_t left = ns - done < second ? ns - done : second;
        const struct timespec until = {.tv_sec = (time_t)(left / second),
                                       .tv_nsec = (long)(left % second)};
        ready = ppoll(&process, 1, &until, &c->mask_before); /* -1: the signal */
        if (tick)
            tick(arg, done, ns);
    }
    *waited_ns = clock_monotonic_ns() - start;
    listen_end(c);
    return ready > 0 ? error_set(err, ERROR_SYSTEM, "process %d ended meanwhile", (int)c->pid) : 0;
}

static int add_written(void *arg, uint64_t start, uint64_t end)
{
    struct cold *c = arg;
    if (c->count && c->at[c->count - 1].end == start) {
        c->at[c->count - 1].end = end;
        return 0;
    }
    if (!ARRAY_ROOM(c->at, c->count + 1, c->room))
        return -1;
    c->at[c->count++] = (struct written){start, end};
    return 0;
}

static int unprotected(struct cold *c, int fd, const struct target_region *r, struct error *err)
{
    struct present_range found[RANGES_AT_ONCE];
    for (uint64_t at = r->start; at < r->end;) {
        struct present_scan scan = {.start = at,
                                    .end = r->end,
                                    .ranges = (uintptr_t)found,
                                    .range_count = RANGES_AT_ONCE,
                                    .category_mask = PRESENT_WRITTEN,
                                    .category_any = PRESENT_HERE | PRESENT_SWAPPED,
                                    .return_mask = PRESENT_WRITTEN};
        int n = present_ask(fd, &scan);
        if (n < 0 || scan.walk_end <= at)
            return error_system(err, "read which pages process %d wrote", (int)c->pid);
        for (int i = 0; i < n; i++)
            if (add_written(c, found[i].start, found[i].end))
                return error_memory(err);
        at = scan.walk_end;
    }
    return 0;
}

static int marked(struct cold *c, int fd, const struct target_region *r, struct error *err)
{
    uint64_t entries[ENTRIES_AT_ONCE];
    for (uint64_t at = r->start; at < r->end;) {
        const uint64_t pages = (r->end - at) / TARGET_PAGE_BYTES;
        const size_t want = pages < ENTRIES_AT_ONCE ? pages : ENTRIES_AT_ONCE;
        ssize_t n = pread(fd, entries, want * sizeof *entries,
                          (off_t)(at / TARGET_PAGE_BYTES * sizeof *entries));
        if (n < (ssize_t)sizeof *entries)
            return error_system(err, "read which pages process %d wrote", (int)c->pid);
        for (size_t i = 0; i < (size_t)n / sizeof *entries; i++, at += TARGET_PAGE_BYTES)
            if (present_entry_there(entries[i]) && entries[i] & ENTRY_DIRTY &&
                add_written(c, at, at + TARGET_PAGE_BYTES))
                return error_memory(err);
    }
    return 0;
}

static int touched(struct cold *c, const struct target_region *r, struct error *err)
{
    errno = 0;
    if (!idle_touched(c->idle, r->start, r->end, add_written, c))
        return 0;
    return errno ? error_system(err, "read which pages of process %d were touched", (int)c->pid)
                 : error_memory(err);
}

int cold_look(struct cold *c, const struct target *t, struct error *err)
{
    int fd = proc_open(c->pid, "pagemap"), status = 0;
    if (fd < 0)
        return error_system(err, "open /proc/%d/pagemap", (int)c->pid);
    c->count = 0;
    for (size_t i = 0; !status && i < t->region_count; i++)
        if (!may_hold_blocks(&t->regions[i]))
            continue;
        else if (c->idle)
            status = touched(c, &t->regions[i], err);
        else
            status = (c->fault_fd >= 0 ? unprotected : marked)(c, fd, &t->regions[i], err);
    close(fd);
    return status;
}

bool cold_touched(const struct cold *c, uint64_t start, uint64_t end)
{
    size_t low = 0, high = c->count;
    while (low < high) { /* the first that ends behind the start */
        size_t middle = (low + high) / 2;
        if (c->at[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->count && c->at[low].start < end;
}
