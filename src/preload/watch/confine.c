/* confine.c - a watched program that locks itself in: what sandbox.c asks of us.
 *
 * Behind the closed door sampling goes on with the memory at hand: the segment is written to as a
 * whole before, every unwinder is made ready, and nothing is guarded any more, since no page could
 * be opened for an access that is to be let through. Stacks beyond the known part of a thread's
 * stack are cut, the segment stays when the process ends, and children are not watched.
 *
 * A program that cannot get memory any more counts on the memory that it has released. Some of that
 * are slots of ours: they are handed out first, by sampling every block as long as there are
 * any. */
#include <linux/filter.h>
#include <sys/prctl.h>

#include "arch/page.h"
#include "watcher.h"

#define OURS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

const struct guest_call *guest_calls(unsigned *count)
{
    static const struct guest_call calls[] = {
        {SYS_clock_gettime, {CLOCK_MONOTONIC}},
        {SYS_close, {0}},
        {SYS_fcntl, {0, F_DUPFD_CLOEXEC, 900}},
        {SYS_flock, {0, 4}},
        {SYS_fstat, {0}},
        {SYS_ftruncate, {0}},
        {SYS_getdents64, {0}},
        {SYS_geteuid, {0}},
        {SYS_getpid, {0}},
        {SYS_getppid, {0}},
        {SYS_gettid, {0}},
        {SYS_kill, {1, 0}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_NOHUGEPAGE}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_DONTDUMP}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_WIPEONFORK}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_POPULATE_WRITE}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_GUARD_INSTALL}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_GUARD_REMOVE}},
        {SYS_memfd_create, {0, 1}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, OURS}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, OURS | MAP_FIXED}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_NONE, OURS | MAP_FIXED}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_NONE, OURS}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED}},
        {SYS_mmap,
         {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_NONE}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_READ}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE}},
        {SYS_munmap, {0, ARCH_PAGE_BYTES}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_PATH | O_CLOEXEC}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_DIRECTORY | O_CLOEXEC}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK}},
        {SYS_openat, {3, 0, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, GUEST_WAY_FLAGS}},
        {SYS_openat, {3, 0, GUEST_WAY_FLAGS}},
        {SYS_poll, {0}},
        {SYS_prctl, {PR_GET_TSC}},
        {SYS_prlimit64, {0, RLIMIT_AS}},
        {SYS_prlimit64, {0, RLIMIT_DATA}},
        {SYS_prlimit64, {0, RLIMIT_FSIZE}},
        {SYS_process_vm_readv, {1, 0, 1, 0}},
        {SYS_process_vm_writev, {1, 0, 1, 0}},
        {SYS_read, {0}},
        {SYS_readlinkat, {(uint64_t)AT_FDCWD}},
        {SYS_readlinkat, {3}},
        {SYS_rt_sigaction, {SIGSEGV}},
        {SYS_rt_sigaction, {SIGABRT}},
        {SYS_rt_sigprocmask, {SIG_BLOCK}},
        {SYS_rt_sigtimedwait, {0}},
        {SYS_sched_yield, {0}},
        {SYS_tgkill, {1, 1, 0}},
        {SYS_unlinkat, {3}},
        {SYS_write, {2, 0, ARCH_PAGE_BYTES}},
    };
    *count = sizeof calls / sizeof *calls;
    return calls;
}

/* True if the program will get no more memory from the kernel. */
static bool starves(const struct sock_fprog *program)
{
    static const uint64_t brk[4] = {0}, map[4] = {0, 1 << 20, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS};
    return !sandbox_harmless(program, SYS_brk, brk) || !sandbox_harmless(program, SYS_mmap, map);
}

static void prepare_confinement(void)
{
    segment_touch(watcher.segment, watcher.plan.bytes);
    stack_prepare();
    fault_confine();
    if (!error_is_fatal())
        guard_disarm();
    watch_tid();
}

void guest_confine(const struct sock_fprog *program)
{
    static const uint64_t monotonic[4] = {CLOCK_MONOTONIC};
    if (!watch_ready())
        return;
    if (!sys_closed)
        prepare_confinement();
    watch_trouble(MLW_WATCH_SANDBOXED);
    watcher.starved |= guard_range.bytes && !guard_is_armed() && starves(program);
    if (!program) /* strict mode takes the time stamp counter away, too */
        guest_clock_freeze();
    else if (!sandbox_harmless(program, SYS_clock_gettime, monotonic))
        guest_clock_confine();
}

void guest_not_confined(void)
{
    watcher.starved = false;
    guest_clock_restore();
    if (watcher.segment)
        __atomic_fetch_and(&watcher.segment->trouble, ~(uint32_t)MLW_WATCH_SANDBOXED,
                           __ATOMIC_RELAXED);
}
