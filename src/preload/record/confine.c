/* confine.c - the recorder in a program that locks itself in: what sandbox.c asks of us.
 *
 * Behind the closed door rows leave through `mallow record`, which empties the shared buffers.
 * Without `mallow record`, a full buffer is appended to the file, which takes an fstat (is the
 * descriptor still ours?) and a write: if the filter lets both through. Else rows that do not fit
 * into the buffers are lost and counted. */
#include <linux/filter.h>
#include <sys/prctl.h>

#include "arch/page.h"
#include "recorder.h"

const struct guest_call *guest_calls(unsigned *count)
{
    static const struct guest_call calls[] = {
        {SYS_clock_gettime, {CLOCK_MONOTONIC}},
        {SYS_close, {0}},
        {SYS_fallocate, {0}},
        {SYS_fcntl, {0, F_DUPFD_CLOEXEC, 900}},
        {SYS_fcntl, {0, F_SETFD, 0}},
        {SYS_fcntl, {0, F_SETFD, FD_CLOEXEC}},
        {SYS_fstat, {0}},
        {SYS_ftruncate, {0}},
        {SYS_getcwd, {0}},
        {SYS_geteuid, {0}},
        {SYS_getpid, {0}},
        {SYS_getppid, {0}},
        {SYS_gettid, {0}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_WIPEONFORK}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_DONTDUMP}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_DONTNEED}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED}},
        {SYS_mmap,
         {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE}},
        {SYS_mmap,
         {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_READ}},
        {SYS_mprotect, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE}},
        {SYS_munmap, {0, ARCH_PAGE_BYTES}},
        {SYS_openat, {3, 0, OWN_OUTPUT_FLAGS}},
        {SYS_openat, {3, 0, OWN_OUTPUT_FLAGS | O_CREAT | O_EXCL}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, GUEST_WAY_FLAGS}},
        {SYS_openat, {3, 0, GUEST_WAY_FLAGS}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, OWN_MEMORY_FLAGS}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_PATH | O_CLOEXEC}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC}},
        {SYS_pread64, {0}},
        {SYS_poll, {0}},
        {SYS_prctl, {PR_GET_NAME}},
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
        {SYS_sigaltstack, {0}},
        {SYS_tgkill, {1, 1, 0}},
        {SYS_uname, {0}},
        {SYS_unlinkat, {(uint64_t)AT_FDCWD}},
        {SYS_write, {2, 0, ARCH_PAGE_BYTES}},
        {SYS_writev, {900, 0, 2}},
    };
    *count = sizeof calls / sizeof *calls;
    return calls;
}

/* True if a buffer may be written out from now on. */
static bool may_write(const struct sock_fprog *program)
{
    const uint64_t write[4] = {(uint64_t)recorder.output.fd, 0, ARCH_PAGE_BYTES},
                   fstat[4] = {(uint64_t)recorder.output.fd};
    uint64_t limit[2];
    return sandbox_harmless(program, SYS_write, write) &&
           sandbox_harmless(program, SYS_fstat, fstat) &&
           (sys_closed || (!sys_getrlimit(RLIMIT_FSIZE, limit) && limit[0] == RLIM_INFINITY));
}

void guest_confine(const struct sock_fprog *program)
{
    static const uint64_t monotonic[4] = {CLOCK_MONOTONIC};
    if (!wiped.control)
        process_wake();
    if (!wiped.control || recorder.off || !recorder.process)
        return;
    if (!sys_closed)
        stream_flush_own(false); /* while it is allowed */
    recorder.may_not_write |= !may_write(program);
    if (!program) /* strict mode takes the time stamp counter away, too */
        clock_freeze(true);
    else if (recorder.clock_kind == MLW_CLOCK_MONOTONIC_NS &&
             !sandbox_harmless(program, SYS_clock_gettime, monotonic))
        clock_freeze(false); /* which the vdso may not have without the kernel */
}

void guest_not_confined(void) { recorder.may_not_write = false; }
void guest_clock_withheld(void) { clock_freeze(false); }
void guest_asks(long number, long a, long b, long c) { (void)number, (void)a, (void)b, (void)c; }
