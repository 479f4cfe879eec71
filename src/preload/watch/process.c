/* process.c - joining, fork, the end of the process, and what the environment asks for.
 *
 * A process joins in our constructor, or at the first call that looks closer. The child of a fork
 * finds the wiped page empty at the first such call, and makes a segment of its own; what it never
 * reaches (most children exec at once) costs nothing. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "preload/guest/bindings.h"
#include "watcher.h"

#define GUARD_SHARE_DEFAULT (MLW_WATCH_SHARE_ALL / 32)
#define GUARD_SLOTS         128u  /* 16 MiB of addresses */
#define GUARD_SLOTS_ALL     4096u /* when all samples are to be guarded: 512 MiB of addresses */
#define MEMORY_DEFAULT      (4ul << 20)
#define MEMORY_MIN          (256ul << 10)

struct watch_wiped watch_wiped __attribute__((aligned(PAGE))) HIDDEN;

static char session[400];

/* ---- small things ---- */

void watch_say(const char *text, size_t n)
{
    struct stat st;
    if (sys_fstat(2, &st) || st.st_dev != watcher.terminal_dev || st.st_ino != watcher.terminal_ino)
        return;
    guest_say(text, n);
}

static void say_watch_line(const char *text) { watch_say(text, strlen(text)); }

static bool process_is_alive(uint32_t pid)
{
    long r = pid ? sys_call(SYS_kill, (long)pid, 0, 0, 0, 0, 0) : -ESRCH;
    return r == 0 || r == -EPERM;
}

bool watch_has_reader(void)
{
    return process_is_alive(
               __atomic_load_n(&watcher.segment->settings.reader_pid, __ATOMIC_RELAXED)) ||
           process_is_alive(watcher.session_keeper) ||
           (watcher.in_session && segment_is_held(AT_FDCWD, session));
}

/* ---- the environment ---- */

static void not_understood(const char *name)
{
    char line[160] = "mallow: ";
    strcpy(line + 8, name);
    strcpy(line + strlen(line), " is not understood: the default is used\n");
    say_watch_line(line);
    watch_trouble(MLW_WATCH_BAD_ENVIRONMENT);
}

/* A number with K, M, G, T behind it; false when it is none. */
static bool parse_size(const char *s, uint64_t *v)
{
    static const char units[] = "KMGT";
    unsigned shift = 0, digits = 0;
    for (*v = 0; *s >= '0' && *s <= '9' && digits < 16; s++, digits++)
        *v = *v * 10 + (uint64_t)(*s - '0');
    for (unsigned i = 0; i < 4; i++)
        if (*s == units[i] || *s == units[i] + 32)
            shift = 10 * (i + 1);
    if (shift)
        s++;
    if (!digits || *s || *v >> (63 - shift))
        return false;
    *v <<= shift;
    return true;
}

static uint64_t size_setting(const char *name, uint64_t usual, uint64_t low, uint64_t high)
{
    const char *s = guest_setting(name);
    uint64_t v;
    if (!s)
        return usual;
    if (!parse_size(s, &v)) {
        not_understood(name);
        return usual;
    }
    return v < low ? low : v > high ? high : v;
}

/* off, all, 0.05, 5%, in parts of MLW_WATCH_SHARE_ALL; false when it is none of those. */
static bool parse_share(const char *s, uint32_t *share)
{
    if (!strcmp(s, "off"))
        return *share = 0, true;
    if (!strcmp(s, "all"))
        return *share = MLW_WATCH_SHARE_ALL, true;
    uint64_t v = 0, unit = 1;
    unsigned digits = 0;
    bool point = false;
    for (; (*s >= '0' && *s <= '9') || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        if (++digits > 9)
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
        unit *= point ? 10 : 1;
    }
    if (*s == '%')
        unit *= 100, s++;
    if (!digits || *s || v > unit)
        return false;
    *share = (uint32_t)(v * MLW_WATCH_SHARE_ALL / unit);
    return true;
}

static void read_settings(struct mlw_watch_settings *to)
{
    const char *s = guest_setting(MLW_ENV_WATCH_PAUSED);
    to->enabled = !(s && *s && strcmp(s, "0") != 0);
    to->period = size_setting(MLW_ENV_WATCH_PERIOD, MLW_WATCH_PERIOD_DEFAULT, MLW_WATCH_PERIOD_MIN,
                              MLW_WATCH_PERIOD_MAX);
    to->guard_share = GUARD_SHARE_DEFAULT;
    if ((s = guest_setting(MLW_ENV_WATCH_GUARD)) && !parse_share(s, &to->guard_share))
        not_understood(MLW_ENV_WATCH_GUARD);
    s = guest_setting(MLW_ENV_WATCH_GUARD_SIDE);
    if (s && !strcmp(s, "left"))
        to->guard_side = MLW_WATCH_SIDE_LEFT;
    else if (s && !strcmp(s, "both"))
        to->guard_side = MLW_WATCH_SIDE_BOTH;
    else if (s && strcmp(s, "right") != 0)
        not_understood(MLW_ENV_WATCH_GUARD_SIDE);
    to->on_error = MLW_WATCH_CONTINUE;
    s = guest_setting(MLW_ENV_WATCH_ON_ERROR);
    if (s && !strcmp(s, "die"))
        to->on_error = MLW_WATCH_DIE;
    else if (s && strcmp(s, "continue") != 0)
        not_understood(MLW_ENV_WATCH_ON_ERROR);
    uint64_t reader;
    if ((s = guest_setting(MLW_ENV_WATCH_READER)) && parse_size(s, &reader))
        to->reader_pid = (uint32_t)reader;
    to->epoch = 1;
}

/* ---- joining ---- */

static void give_up_watch(const char *why)
{
    watcher.off = true;
    say_watch_line(why);
}

/* Every way of releasing a block is made to lead to us, or it is said why not. */
static void lead(void)
{
    static const char *const known[] = {"glibc", "jemalloc", "tcmalloc", "mimalloc"};
    bool is_known = false;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= !strncmp(next_facts.name, known[i], strlen(known[i]));
    /* both of them: each serves one kind of allocator */
    const bool jemalloc = entry_jemalloc(), others = others_redirect();
    const enum bindings_led led = bindings_lead();
    if (!is_known)
        guarded_refuse(MLW_WATCH_UNGUARDED_ALLOCATOR);
    if (!jemalloc || !others || led == BINDINGS_REFUSED)
        guarded_refuse(MLW_WATCH_UNGUARDED_BINDINGS);
    if (led == BINDINGS_BETWEEN)
        guarded_refuse(MLW_WATCH_UNGUARDED_BETWEEN);
    guarded_begin();
}

static void join_first(void)
{
    struct mlw_watch_settings settings = {0};
    struct stat st;
    const char *s = guest_setting(MLW_ENV_WATCH_SESSION);
    uint64_t seed;
    guest_clock_begin();
    if (!sys_fstat(2, &st)) {
        watcher.terminal_dev = st.st_dev;
        watcher.terminal_ino = st.st_ino;
    }
    if (sys_madvise(&watch_wiped, PAGE, MADV_WIPEONFORK)) {
        give_up_watch("mallow: MADV_WIPEONFORK is refused (Linux 4.14 has it): this process is not "
                      "watched\n");
        return;
    }
    lead();
    if (s && strlen(s) < sizeof session)
        strcpy(session, s);
    watcher.memory =
        size_setting(MLW_ENV_WATCH_MEMORY, MEMORY_DEFAULT, MEMORY_MIN, MLW_WATCH_MEMORY_MAX);
    if ((s = guest_setting(MLW_ENV_WATCH_SEED)) && parse_size(s, &seed))
        watcher.seed = seed + 1;
    read_settings(&settings);
    watch_make_plan(watcher.memory);
    if (!tables_init(watcher.plan.samples, watcher.plan.sites) ||
        !held_init(watcher.plan.samples) || !watch_make_segment(&settings, session)) {
        give_up_watch("mallow: no memory to share with readers: this process is not watched\n");
        return;
    }
    if (!watcher.unguarded)
        guard_init(settings.guard_share == MLW_WATCH_SHARE_ALL ? GUARD_SLOTS_ALL : GUARD_SLOTS);
    watcher.segment->guard_slots = guard_slots();
    watcher.segment->range_start = guard_range.start;
    watcher.segment->range_end = guard_range.start + guard_range.bytes;
    if (!stack_init()) {
        segment_unlink();
        give_up_watch("mallow: no memory for stacks: this process is not watched\n");
        return;
    }
    watch_go_live();
}

static void watch_join_after_fork(void)
{
    struct mlw_watch *old = watcher.segment;
    struct mlw_watch_settings settings = old->settings;
    if (sys_closed) { /* no segment of its own can be had; that of the parent's is not written to */
        watcher.off = true;
        return;
    }
    watcher.pid = (uint32_t)sys_getpid();
    watcher.forked_from = watcher.start_ns;
    watcher.generation++;
    uint64_t file_bytes = watcher.plan.bytes;
    if (!watch_make_segment(&settings, session)) {
        /* Sampled blocks of the parent's are ours too, and will be freed: into a copy of no one's.
         */
        long p = sys_mmap(old, file_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        (void)p;
        watcher.off = true;
        return;
    }
    watcher.segment->guard_slots = guard_slots();
    sys_munmap(old, file_bytes);
    stack_after_fork();
    error_after_fork();
    guarded_after_fork();
    tables_after_fork();
    watch_go_live();
}

bool watch_wake(void)
{
    extern char **environ;
    uint32_t zero = 0;
    if (watch_wiped.joined)
        return !watcher.off;
    if (!environ || !__atomic_compare_exchange_n(&watch_wiped.waking, &zero, 1, false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    if (next_resolve()) {
        if (!watcher.pid && sandbox_inherited()) {
            watcher.off = true;
        } else if (!watcher.pid) {
            watcher.pid = (uint32_t)sys_getpid();
            join_first();
        } else if (!watcher.off) {
            watch_join_after_fork();
        }
        __atomic_store_n(&watch_wiped.joined, 1, __ATOMIC_RELEASE);
    }
    watch_wiped.waking = 0;
    return watch_wiped.joined && !watcher.off;
}

/* ---- the end ---- */

void watch_ending(uint32_t state, uint32_t status)
{
    if (!watch_wiped.joined || watcher.off || !watcher.segment)
        return;
    /* vfork's child shares our memory: it is not the process that joined */
    if (!sys_closed && (uint32_t)sys_getpid() != watcher.pid)
        return;
    (void)guarded_look();
    if (guarded_check())
        error_consequence();
    watcher.segment->exit_status = status;
    __atomic_store_n(&watcher.segment->state, state, __ATOMIC_RELEASE);
    if (!sys_closed && !watch_has_reader())
        segment_unlink();
}

/* The handlers of quick_exit cannot add anything that matters. */
void guest_ending(int status, bool handlers)
{
    (void)handlers;
    watch_ending(MLW_WATCH_EXITED, (uint32_t)status & 255);
}

__attribute__((constructor(101))) static void begin(void)
{
    /* The allocator behind us makes itself ready at its first call, with system calls that a
     * program may forbid itself later. That call must not come later because we served the others.
     */
    if (!watch_wake())
        return;
    next.free(next.malloc(1));
    extern char __libc_single_threaded __attribute__((weak));
    if (&__libc_single_threaded && __libc_single_threaded)
        entries_direct();
}

__attribute__((destructor)) static void end(void) { watch_ending(MLW_WATCH_EXITED, 0); }

/* ---- exec.c ---- */

bool guest_follows(void) { return watch_wake(); }

const char *const *guest_carried(unsigned *n)
{
    static const char *const carried[] = {"LD_PRELOAD=",
                                          MLW_ENV_WATCH_SESSION "=",
                                          MLW_ENV_WATCH_PERIOD "=",
                                          MLW_ENV_WATCH_PAUSED "=",
                                          MLW_ENV_WATCH_GUARD "=",
                                          MLW_ENV_WATCH_GUARD_SIDE "=",
                                          MLW_ENV_WATCH_ON_ERROR "=",
                                          MLW_ENV_WATCH_MEMORY "=",
                                          MLW_ENV_WATCH_SEED "="};
    *n = sizeof carried / sizeof carried[0];
    return carried;
}

const char *guest_library(void) { return "libmallow-watch"; }
void guest_exec(const char *path)
{
    (void)path;
    watch_ending(MLW_WATCH_EXEC, 0);
}

/* The maker of a session finds all that is in its directory. */
const char *guest_hand_on(void)
{
    return watch_wiped.joined && !watcher.off && !watcher.in_session ? watch_reader_assignment()
                                                                     : 0;
}
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
    if (watch_ready())
        (void)guarded_look();
    int r = real(handle);
    if (watch_ready()) {
        int saved = errno;
        stack_modules_changed((uint64_t)__builtin_frame_address(0));
        errno = saved;
    }
    return r;
}

/* ---- sandbox.c ---- */

void guest_clock_withheld(void)
{
    guest_clock_freeze();
    watch_clock_withheld = true;
}
