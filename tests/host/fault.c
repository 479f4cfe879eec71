/* fault.c - makes the recorder's system calls fail, one at a time: the test build's sys_fault.
 *
 * Linked with the sources of libmallow-record.so, built with -DMALLOW_FAULTS (see sys.h). Reads
 * from the environment, once a program image, MALLOW_FAULT and MALLOW_FAULT_LOG. The former is "N":
 * the N-th system call of the image (from 1) fails, with an errno that suits it; or "N:E": with
 * errno E (a number); a "+" behind either makes every later call fail too. The latter names a file
 * of 4096 bytes, which is mapped shared: its first word becomes 1 + the number of the system call
 * that was failed; the second counts the processes in the words behind it, those that opened files.
 * MALLOW_FAULT_CALL, a number, leaves the calls of all other numbers alone: they do not count
 * either. Without MALLOW_FAULT nothing fails. No libc calls: it runs where the recorder runs. */
#include <errno.h>
#include <stdatomic.h>

#include "preload/sys.h"

static atomic_int ready;
static atomic_ulong calls;
static unsigned long first, only = UINT64_MAX;
static int error_number, all_later;
#define SHARED_WORDS 1024u
static atomic_uint nothing[SHARED_WORDS], *shared = nothing;

/* The kernel without the check. */
static long raw6(long nr, long a, long b, long c, long d, long e)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
static long raw(long nr, long a, long b, long c, long d) { return raw6(nr, a, b, c, d, -1); }

static int is_name(const char *at, const char *name)
{
    while (*name)
        if (*at++ != *name++)
            return 0;
    return *at == '=';
}

static const char *number(const char *p, unsigned long *v)
{
    for (*v = 0; *p >= '0' && *p <= '9'; p++)
        *v = *v * 10 + (unsigned long)(*p - '0');
    return p;
}

static void set_up(void)
{
    static char text[65536];
    long fd = raw(SYS_openat, AT_FDCWD, (long)"/proc/self/environ", O_RDONLY | O_CLOEXEC, 0), n = 0,
         k;
    if (fd >= 0) {
        while (n < (long)sizeof text - 1 &&
               (k = raw(SYS_read, fd, (long)text + n, (long)sizeof text - 1 - n, 0)) > 0)
            n += k;
        raw(SYS_close, fd, 0, 0, 0);
    }
    for (long at = 0; at < n;) {
        char *v = text + at;
        if (is_name(v, "MALLOW_FAULT")) {
            unsigned long e = 0;
            const char *p = number(v + 13, &first);
            if (*p == ':')
                p = number(p + 1, &e);
            error_number = (int)e;
            all_later = *p == '+';
        } else if (is_name(v, "MALLOW_FAULT_CALL")) {
            number(v + 18, &only);
        } else if (is_name(v, "MALLOW_FAULT_LOG")) {
            long log = raw(SYS_openat, AT_FDCWD, (long)(v + 17), O_RDWR | O_CLOEXEC, 0);
            long p = log < 0 ? -1
                             : raw6(SYS_mmap, 0, sizeof nothing, PROT_READ | PROT_WRITE, MAP_SHARED,
                                    log);
            if (p > 0 || p < -4095)
                shared = (atomic_uint *)p;
            if (log >= 0)
                raw(SYS_close, log, 0, 0, 0);
        }
        while (at < n && text[at])
            at++;
        at++;
    }
    atomic_store(&ready, 2);
}

/* Who opens files may leave some behind, which the test removes. */
static void note_process(void)
{
    uint32_t pid = (uint32_t)raw(SYS_getpid, 0, 0, 0, 0);
    uint32_t n = atomic_load(&shared[1]);
    if (n && n < SHARED_WORDS - 2 && atomic_load(&shared[1 + n]) == pid)
        return;
    n = atomic_fetch_add(&shared[1], 1);
    if (n < SHARED_WORDS - 2)
        atomic_store(&shared[2 + n], pid);
}

static int usual(long nr)
{
    switch (nr) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_fallocate:
    case SYS_ftruncate: return ENOSPC;
    case SYS_mmap:
    case SYS_mremap:
    case SYS_mprotect:
    case SYS_madvise: return ENOMEM;
    case SYS_openat:
    case SYS_memfd_create: return EMFILE;
    case SYS_fcntl: return EBADF;
    case SYS_readlinkat: return ENOENT;
    case SYS_read:
    case SYS_pread64: return EIO;
    default: return EPERM;
    }
}

int sys_fault_closed(void) { return sys_closed != 0; }

int sys_fault(long nr, const long argument[4], long *result)
{
    int expected = 0;
    (void)argument;
    if (atomic_load(&ready) != 2) {
        if (atomic_compare_exchange_strong(&ready, &expected, 1))
            set_up();
        else
            while (atomic_load(&ready) != 2) {
            }
    }
    if (!first || nr == SYS_exit_group) /* the one call that cannot fail */
        return 0;
    if (only != UINT64_MAX && only != (unsigned long)nr)
        return 0;
    if (nr == SYS_openat)
        note_process();
    unsigned long n = atomic_fetch_add(&calls, 1) + 1;
    if (all_later ? n < first : n != first)
        return 0;
    if (n == first)
        atomic_store(&shared[0], (unsigned)nr + 1);
    *result = -(error_number ? error_number : usual(nr));
    return 1;
}
