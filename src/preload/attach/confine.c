/* confine.c - a program that is attached to locks itself in: what sandbox.c asks of us.
 *
 * Behind the closed door nothing more is sampled, and no system call is made: calls pass through
 * to the allocator. Blocks are the allocator's in any case. */
#include <linux/filter.h>
#include <sys/prctl.h>

#include "arch/page.h"
#include "attach.h"

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
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_WIPEONFORK}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_POPULATE_WRITE}},
        {SYS_memfd_create, {0, 1}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, OURS}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, OURS | MAP_FIXED}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED}},
        {SYS_mmap,
         {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_NONE}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_READ}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE}},
        {SYS_mremap, {0, ARCH_PAGE_BYTES, ARCH_PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED}},
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
        {SYS_prlimit64, {0, RLIMIT_FSIZE}},
        {SYS_process_vm_readv, {1, 0, 1, 0}},
        {SYS_process_vm_writev, {1, 0, 1, 0}},
        {SYS_read, {0}},
        {SYS_readlinkat, {(uint64_t)AT_FDCWD}},
        {SYS_readlinkat, {3}},
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

static bool was_off;

void guest_confine(const struct sock_fprog *program)
{
    (void)program;
    if (!sys_closed)
        was_off = watcher.off;
    __atomic_store_n(&watcher.off, true, __ATOMIC_RELEASE);
    watch_trouble(MLW_WATCH_SANDBOXED);
}

void guest_not_confined(void) { __atomic_store_n(&watcher.off, was_off, __ATOMIC_RELEASE); }

void guest_clock_withheld(void)
{
    guest_clock_freeze();
    watch_clock_withheld = true;
}

void guest_asks(long number, long a, long b, long c) { (void)number, (void)a, (void)b, (void)c; }
