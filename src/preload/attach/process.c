/* process.c - the library begins in a process that runs, and ends there; fork, exec, the end of the
 * process.
 *
 * Loading the library does nothing. mallow_attach_begin and mallow_attach_end are called by a
 * thread that src/inject has borrowed at a point where it holds no lock of the allocator's or the
 * dynamic linker's. If the injector dies in the middle, the call is still completed here. */
#include <errno.h>
#include <string.h>

#include "attach.h"

#define MEMORY (4ul << 20)

struct watch_wiped watch_wiped __attribute__((aligned(PAGE))) HIDDEN;

static struct {
    bool known;      /* the functions behind the calls were found, and the tables are there */
    bool leading;    /* the bindings lead to ours */
    uint64_t mapped; /* bytes at watcher.segment, or of what took its place; 0: never */
    char preload[sizeof((struct mlw_attach *)0)->preload + 16];
} attached;

/* ---- the segment ---- */

/* Where a segment was, threads may still write: private memory stands there until the next. */
static void put_segment_away(void)
{
    segment_unlink();
    const long p = sys_mmap(watcher.segment, attached.mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    (void)p;
}

/* A new segment takes the place of the one before, or of the memory there, in one step. */
static bool make_segment(uint64_t period, bool enabled, uint32_t reader)
{
    const struct mlw_watch_settings settings = {
        .epoch = 1,
        .enabled = enabled,
        .period = period ? period : MLW_WATCH_PERIOD_DEFAULT,
        .reader_pid = reader,
    };
    struct mlw_watch *old = watcher.segment;
    const uint64_t bytes = watcher.plan.bytes;
    if (!watch_make_segment(&settings, 0)) {
        watcher.segment = old;
        return false;
    }
    if (attached.mapped) {
        const struct mlw_watch *made = watcher.segment;
        const uint64_t moved = (uint64_t)old - (uint64_t)made;
        const long p =
            sys_mremap(watcher.segment, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, old);
        if (sys_is_error(p)) /* then the old place stays as it is */
            return true;
#define MOVE(field) watcher.field = (__typeof__(watcher.field))((uint64_t)watcher.field + moved)
        MOVE(segment);
        MOVE(module);
        MOVE(site);
        MOVE(sample);
        MOVE(free_);
        MOVE(error);
#undef MOVE
    }
    attached.mapped = watcher.plan.bytes;
    return true;
}

/* ---- begin ---- */

static enum mlw_attach_result first_time(void)
{
    guest_clock_begin();
    if (!next_resolve() || !next_facts.glibc || !bindings_find(BINDINGS_FIRST))
        return MLW_ATTACH_NO_ALLOCATOR;
    if (sys_madvise(&watch_wiped, PAGE, MADV_WIPEONFORK))
        return MLW_ATTACH_NO_WIPE;
    watcher.pid = (uint32_t)sys_getpid();
    watcher.hurried = true;
    watcher.unguarded = MLW_WATCH_UNGUARDED_ATTACHED;
    watcher.memory = MEMORY;
    watch_make_plan(watcher.memory);
    if (!tables_init(watcher.plan.samples, watcher.plan.sites) ||
        !held_init(watcher.plan.samples) || !stack_init())
        return MLW_ATTACH_NO_MEMORY;
    entries_direct(); /* no binding leads to them yet */
    attached.known = true;
    return MLW_ATTACH_DONE;
}

/* Programs that it starts load libmallow-watch.so, with the same period. */
static void keep_for_successors(uint64_t period)
{
    static char assignment[64];
    *watch_decimal(stpcpy(assignment, MLW_ENV_WATCH_PERIOD "="),
                   period ? period : MLW_WATCH_PERIOD_DEFAULT) = 0;
    exec_keep(0, attached.preload);
    exec_keep(1, assignment + (*attached.preload ? 0 : strlen(assignment)));
}

static enum mlw_attach_result begin_sampling(struct mlw_attach *a)
{
    if (a->version != MLW_ATTACH_VERSION)
        return MLW_ATTACH_VERSION_DIFFERS;
    if (sys_closed)
        return MLW_ATTACH_CONFINED;
    if (attached.leading && watch_ready())
        return MLW_ATTACH_ALREADY;
    if (!attached.known) {
        const enum mlw_attach_result r = first_time();
        if (r != MLW_ATTACH_DONE)
            return r;
    }
    if (watcher.pid != (uint32_t)sys_getpid()) { /* a fork of one that was attached to */
        watcher.pid = (uint32_t)sys_getpid();
        watcher.forked_from = 0;
    }
    watcher.generation++;
    calls_forget();
    if (!make_segment(a->period, true, a->reader)) {
        watcher.off = true;
        return MLW_ATTACH_NO_SEGMENT;
    }
    stack_after_fork();
    tables_after_fork();
    a->preload[sizeof a->preload - 1] = 0;
    strcpy(attached.preload, a->preload);
    keep_for_successors(a->period);
    watch_wiped.joined = 1;
    const long slots = bindings_change(true);
    if (slots < 0) {
        bindings_change(false);
        watcher.off = true;
        put_segment_away();
        return MLW_ATTACH_NO_WRITE;
    }
    attached.leading = true;
    a->slots = (uint32_t)slots;
    watch_go_live();
    __atomic_store_n(&watcher.off, false, __ATOMIC_RELEASE);
    return MLW_ATTACH_DONE;
}

static void begin_locked(struct mlw_attach *a)
{
    if (!attached.leading)
        watcher.off = true;
    a->result = begin_sampling(a);
}

EXPORT int64_t mallow_attach_begin(struct mlw_attach *a);
int64_t mallow_attach_begin(struct mlw_attach *a)
{
    locked_do(begin_locked, a);
    return locked_answer(a);
}

/* ---- end ---- */

static void end_locked(struct mlw_attach *a)
{
    a->result = MLW_ATTACH_ALREADY;
    if (!attached.leading)
        return;
    const bool here = watch_wiped.joined && !watcher.off;
    __atomic_store_n(&watcher.off, true, __ATOMIC_RELEASE);
    a->result = MLW_ATTACH_CONFINED;
    if (sys_closed)
        return;
    const long slots = bindings_change(false);
    a->result = slots < 0 ? MLW_ATTACH_NO_WRITE : MLW_ATTACH_DONE;
    if (slots < 0)
        return;
    attached.leading = false;
    a->slots = (uint32_t)slots;
    exec_keep(0, attached.preload + strlen(attached.preload));
    exec_keep(1, attached.preload + strlen(attached.preload));
    if (here) {
        __atomic_store_n(&watcher.segment->state, MLW_WATCH_EXITED, __ATOMIC_RELEASE);
        put_segment_away();
    }
    calls_forget();
}

EXPORT int64_t mallow_attach_end(struct mlw_attach *a);
int64_t mallow_attach_end(struct mlw_attach *a)
{
    locked_do(end_locked, a);
    return locked_answer(a);
}

/* ---- fork ---- */

static void attach_join_after_fork(void)
{
    struct mlw_watch *old = watcher.segment;
    const uint64_t period = old->settings.period;
    const uint32_t enabled = old->settings.enabled;
    const uint32_t reader = __atomic_load_n(&old->settings.reader_pid, __ATOMIC_RELAXED);
    watcher.pid = (uint32_t)sys_getpid();
    watcher.forked_from = watcher.start_ns;
    watcher.generation++;
    if (!make_segment(period, enabled, reader)) { /* the parent's is not written to */
        put_segment_away();
        watcher.off = true;
        return;
    }
    stack_after_fork();
    tables_after_fork();
    watch_go_live();
}

bool watch_wake(void)
{
    uint32_t zero = 0;
    if (watch_wiped.joined)
        return !watcher.off;
    if (!attached.known || !attached.mapped)
        return false;
    if (!__atomic_compare_exchange_n(&watch_wiped.waking, &zero, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    if (!watcher.off && sys_closed)
        watcher.off = true; /* no segment of its own can be had */
    if (!watcher.off)
        attach_join_after_fork();
    __atomic_store_n(&watch_wiped.joined, 1, __ATOMIC_RELEASE);
    watch_wiped.waking = 0;
    return !watcher.off;
}

/* ---- the end of the process ---- */

void watch_say(const char *text, size_t n) { (void)text, (void)n; /* not our standard error */ }

static bool alive(uint32_t pid)
{
    const long r = pid ? sys_call(SYS_kill, (long)pid, 0, 0, 0, 0, 0) : -ESRCH;
    return r == 0 || r == -EPERM;
}

bool watch_has_reader(void)
{
    return alive(__atomic_load_n(&watcher.segment->settings.reader_pid, __ATOMIC_RELAXED));
}

void watch_ending(uint32_t state, uint32_t status)
{
    if (!watch_wiped.joined || watcher.off || !watcher.segment)
        return;
    /* vfork's child shares our memory: it is not the process that joined */
    if (!sys_closed && (uint32_t)sys_getpid() != watcher.pid)
        return;
    watcher.segment->exit_status = status;
    __atomic_store_n(&watcher.segment->state, state, __ATOMIC_RELEASE);
    if (!sys_closed && !watch_has_reader())
        segment_unlink();
}

void guest_ending(int status, bool handlers)
{
    (void)handlers;
    watch_ending(MLW_WATCH_EXITED, (uint32_t)status & 255);
}

__attribute__((destructor)) static void end(void) { watch_ending(MLW_WATCH_EXITED, 0); }

/* ---- ../exec.c ---- */

bool guest_follows(void) { return watch_ready(); }

const char *const *guest_carried(unsigned *n)
{
    static const char *const carried[] = {"LD_PRELOAD=", MLW_ENV_WATCH_PERIOD "="};
    *n = sizeof carried / sizeof carried[0];
    return carried;
}

const char *guest_library(void) { return "libmallow-watch"; }

void guest_exec(const char *path)
{
    (void)path;
    watch_ending(MLW_WATCH_EXEC, 0);
}

const char *guest_hand_on(void) { return watch_ready() ? watch_reader_assignment() : 0; }
void guest_not_handed(void) {}
void guest_spawned(const char *path) { (void)path; }

void guest_exec_failed(void)
{
    if (watch_wiped.joined && !watcher.off && watcher.segment &&
        watcher.segment->state == MLW_WATCH_EXEC)
        __atomic_store_n(&watcher.segment->state, MLW_WATCH_LIVE, __ATOMIC_RELEASE);
}

/* ---- modules ---- */

INTERPOSED(int, dlclose, void *handle)
{
    static int (*real)(void *);
    if (!real)
        real = (int (*)(void *))(uintptr_t)next_symbol("dlclose");
    const int r = real(handle);
    if (watch_ready()) {
        const int saved = errno;
        stack_modules_changed((uint64_t)__builtin_frame_address(0));
        errno = saved;
    }
    return r;
}
