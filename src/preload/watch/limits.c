/* limits.c - what the program limits or locks for itself.
 *
 * The range of guarded blocks counts as address space, and as locked memory of a program that locks
 * all of its own, although little is behind it. So it is given back where it stands in the way, and
 * nothing is guarded any more. A limit that another process sets (prlimit --pid), or
 * that is asked for by an inline system call, is not seen. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "watcher.h"

#define PART 16 /* one in so many of the bytes that the program allows itself may be ours */

static void retreat(uint64_t allowed)
{
    if (sys_closed || guard_bytes() <= allowed / PART)
        return;
    guard_retreat();
    watch_trouble(MLW_WATCH_RETREATED);
}

static void address_limit(int resource, const struct rlimit *limit)
{
    if (!limit || limit->rlim_cur == RLIM_INFINITY ||
        (resource != RLIMIT_AS && resource != RLIMIT_DATA) || !watch_ready())
        return;
    retreat(limit->rlim_cur); /* as data count the slots that were ever used */
}

static void locking(void)
{
    if (watch_ready())
        retreat(0); /* locked memory is resident as soon as it is accessible */
}

typedef int setrlimit_function(int, const struct rlimit *);
INTERPOSED(int, setrlimit, int resource, const struct rlimit *limit)
{
    address_limit(resource, limit);
    return ((setrlimit_function *)(uintptr_t)next_symbol("setrlimit"))(resource, limit);
}
INTERPOSED(int, setrlimit64, int resource, const struct rlimit *limit)
{
    return entry_setrlimit(resource, limit);
}

static bool is_us(long pid) { return !pid || (uint32_t)pid == watcher.pid; }

typedef int prlimit_function(pid_t, int, const struct rlimit *, struct rlimit *);
INTERPOSED(int, prlimit, pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old)
{
    if (is_us(pid))
        address_limit(resource, limit);
    return ((prlimit_function *)(uintptr_t)next_symbol("prlimit"))(pid, resource, limit, old);
}
INTERPOSED(int, prlimit64, pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old)
{
    return entry_prlimit(pid, resource, limit, old);
}

typedef int mlockall_function(int);
INTERPOSED(int, mlockall, int flags)
{
    locking();
    return ((mlockall_function *)(uintptr_t)next_symbol("mlockall"))(flags);
}

void guest_asks(long number, long a, long b, long c)
{
    if (number == SYS_setrlimit)
        address_limit((int)a, (const struct rlimit *)b);
    else if (number == SYS_prlimit64 && is_us(a))
        address_limit((int)b, (const struct rlimit *)c);
    else if (number == SYS_mlockall)
        locking();
}
