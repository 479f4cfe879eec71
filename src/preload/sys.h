/* sys.h - raw system calls for code inside another program.
 *
 * Owns: the only door from the preloaded libraries to the kernel. Every call returns what the
 * kernel returns: -errno on failure (never the C library's errno, which is not touched). No
 * cancellation point, no lock, no allocation: any thread, any signal handler may call everything
 * here. Refuses: retries and policy (EINTR is for the caller).
 *
 * The door closes for good when the program installs a seccomp filter that would harm it for one of
 * our calls (sandbox.c). Every call then returns -ENOSYS without entering the kernel. sys_decided
 * is the exception: for what the program itself asked for, and for the calls that
 * mallow-record(1) and libmallow-watch(7) list.
 *
 * With MALLOW_FAULTS defined, each call asks `sys_fault` first: when that returns non-zero the
 * kernel is not entered and *result is the answer. Test builds make every call fail once so, look
 * whether it is on the list, and leave the door open to see their tests fail. */
#ifndef MALLOW_PRELOAD_SYS_H
#define MALLOW_PRELOAD_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "arch/syscall.h"

#define SYS_INLINE static inline __attribute__((always_inline, unused))

/* Not 0: no system call of ours may be made in this process any more. Written by sandbox.c alone.
 */
extern volatile uint32_t sys_closed __attribute__((visibility("hidden")));
/* How many threads are between their look at the door and the end of their call: so that a filter
 * for all threads does not come between. */
extern volatile uint32_t sys_inside __attribute__((visibility("hidden")));

#ifdef MALLOW_FAULTS
/* Given by the test build: non-zero to answer the call `nr` with *result; whether the door is
 * closed. */
int sys_fault(long nr, const long argument[4], long *result);
int sys_fault_closed(void);
#define SYS_DOOR_CLOSED sys_fault_closed()
#define SYS_FAULT_CHECK(nr, a, b, c, d)                                                            \
    do {                                                                                           \
        long sys_fault_result;                                                                     \
        if (sys_fault((nr), (const long[4]){a, b, c, d}, &sys_fault_result))                       \
            return sys_fault_result;                                                               \
    } while (0)
#else
#define SYS_DOOR_CLOSED                 (sys_closed != 0)
#define SYS_FAULT_CHECK(nr, a, b, c, d) ((void)0)
#endif

/* Enters the kernel even when the door is closed. */
SYS_INLINE long sys_decided(long nr, long a, long b, long c, long d, long e, long f)
{
    SYS_FAULT_CHECK(nr, a, b, c, d);
    return arch_syscall(nr, a, b, c, d, e, f);
}

/* Every call below passes through this one function. */
SYS_INLINE long sys_call(long nr, long a, long b, long c, long d, long e, long f)
{
    __atomic_fetch_add(&sys_inside, 1, __ATOMIC_SEQ_CST);
    long r = __builtin_expect(SYS_DOOR_CLOSED, 0) ? -ENOSYS : sys_decided(nr, a, b, c, d, e, f);
    __atomic_fetch_sub(&sys_inside, 1, __ATOMIC_SEQ_CST);
    return r;
}

/* True when a pointer-valued or long result is an error (-4095..-1). */
SYS_INLINE int sys_is_error(long result) { return (unsigned long)result > -4096UL; }

SYS_INLINE long sys_write(int fd, const void *p, size_t n)
{
    return sys_call(SYS_write, fd, (long)p, (long)n, 0, 0, 0);
}

SYS_INLINE long sys_read(int fd, void *p, size_t n)
{
    return sys_call(SYS_read, fd, (long)p, (long)n, 0, 0, 0);
}

SYS_INLINE long sys_pread64(int fd, void *p, size_t n, off_t at)
{
    return sys_call(SYS_pread64, fd, (long)p, (long)n, at, 0, 0);
}

SYS_INLINE long sys_openat(int dir, const char *path, int flags, mode_t mode)
{
    return sys_call(SYS_openat, dir, (long)path, flags, (long)mode, 0, 0);
}

SYS_INLINE long sys_close(int fd) { return sys_call(SYS_close, fd, 0, 0, 0, 0, 0); }

SYS_INLINE long sys_unlinkat(int dir, const char *path, int flags)
{
    return sys_call(SYS_unlinkat, dir, (long)path, flags, 0, 0, 0);
}

/* The bytes put at `to`, without a terminating zero. */
SYS_INLINE long sys_readlinkat(int dir, const char *path, char *to, size_t n)
{
    return sys_call(SYS_readlinkat, dir, (long)path, (long)to, (long)n, 0, 0);
}

SYS_INLINE long sys_fstat(int fd, struct stat *st)
{
    return sys_call(SYS_fstat, fd, (long)st, 0, 0, 0, 0);
}

SYS_INLINE long sys_ftruncate(int fd, off_t size)
{
    return sys_call(SYS_ftruncate, fd, size, 0, 0, 0, 0);
}

SYS_INLINE long sys_fallocate(int fd, int mode, off_t at, off_t n)
{
    return sys_call(SYS_fallocate, fd, mode, at, n, 0, 0);
}

SYS_INLINE long sys_fcntl(int fd, int command, long argument)
{
    return sys_call(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

SYS_INLINE long sys_flock(int fd, int operation)
{
    return sys_call(SYS_flock, fd, operation, 0, 0, 0, 0);
}

SYS_INLINE long sys_memfd_create(const char *name, unsigned flags)
{
    return sys_call(SYS_memfd_create, (long)name, flags, 0, 0, 0, 0);
}

/* An address, or -errno: test with sys_is_error. */
SYS_INLINE long sys_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    return sys_call(SYS_mmap, (long)at, (long)n, prot, flags, fd, from);
}

SYS_INLINE long sys_munmap(void *p, size_t n)
{
    return sys_call(SYS_munmap, (long)p, (long)n, 0, 0, 0, 0);
}

SYS_INLINE long sys_mremap(void *p, size_t old_bytes, size_t new_bytes, int flags, void *to)
{
    return sys_call(SYS_mremap, (long)p, (long)old_bytes, (long)new_bytes, flags, (long)to, 0);
}

SYS_INLINE long sys_mprotect(void *p, size_t n, int prot)
{
    return sys_call(SYS_mprotect, (long)p, (long)n, prot, 0, 0, 0);
}

SYS_INLINE long sys_madvise(void *p, size_t n, int advice)
{
    return sys_call(SYS_madvise, (long)p, (long)n, advice, 0, 0, 0);
}

SYS_INLINE long sys_getpid(void) { return sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0); }

SYS_INLINE long sys_geteuid(void) { return sys_call(SYS_geteuid, 0, 0, 0, 0, 0, 0); }

SYS_INLINE long sys_getppid(void) { return sys_call(SYS_getppid, 0, 0, 0, 0, 0, 0); }

SYS_INLINE long sys_gettid(void) { return sys_call(SYS_gettid, 0, 0, 0, 0, 0, 0); }

SYS_INLINE long sys_tgkill(int pid, int tid, int signal_number)
{
    return sys_call(SYS_tgkill, pid, tid, signal_number, 0, 0, 0);
}

SYS_INLINE long sys_poll(struct pollfd *fds, unsigned long n, int timeout_ms)
{
    return sys_call(SYS_poll, (long)fds, (long)n, timeout_ms, 0, 0, 0);
}

SYS_INLINE long sys_sched_yield(void) { return sys_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }

/* The kernel's signal set is 8 bytes: bit n-1 for signal n. Either pointer may be NULL. */
SYS_INLINE long sys_rt_sigprocmask(int how, const uint64_t *set, uint64_t *old)
{
    return sys_call(SYS_rt_sigprocmask, how, (long)set, (long)old, 8, 0, 0);
}

SYS_INLINE long sys_rt_sigtimedwait(const uint64_t *set, siginfo_t *info,
                                    const struct timespec *timeout)
{
    return sys_call(SYS_rt_sigtimedwait, (long)set, (long)info, (long)timeout, 8, 0, 0);
}

SYS_INLINE long sys_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                          unsigned long d)
{
    return sys_call(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0);
}

SYS_INLINE long sys_clock_gettime(clockid_t clock, struct timespec *to)
{
    return sys_call(SYS_clock_gettime, clock, (long)to, 0, 0, 0, 0);
}

/* Copies between processes. With the calling thread's id, a write that says EFAULT instead of
 * sending a signal. (The process's id does not do: it is gone once the main thread has ended.) */
SYS_INLINE long sys_process_vm_writev(int pid, const struct iovec *local, unsigned long locals,
                                      const struct iovec *remote, unsigned long remotes)
{
    return sys_call(SYS_process_vm_writev, pid, (long)local, (long)locals, (long)remote,
                    (long)remotes, 0);
}

/* The same as a read that cannot fault. */
SYS_INLINE long sys_process_vm_readv(int pid, const struct iovec *local, unsigned long locals,
                                     const struct iovec *remote, unsigned long remotes)
{
    return sys_call(SYS_process_vm_readv, pid, (long)local, (long)locals, (long)remote,
                    (long)remotes, 0);
}

/* limit[0] soft, limit[1] hard, of the calling process. */
SYS_INLINE long sys_getrlimit(int resource, uint64_t limit[2])
{
    return sys_call(SYS_prlimit64, 0, resource, 0, (long)limit, 0, 0);
}

/* The program's file, and its command line. By thread: those of /proc/self are those of its first
 * thread, and are gone with it. */
#define SELF_EXE     "/proc/thread-self/exe"
#define SELF_MAPS    "/proc/thread-self/maps"
#define SELF_COMMAND "/proc/thread-self/cmdline"

#endif
