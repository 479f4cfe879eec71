/* unwind_region.c - which memory of a stack may be read without a fault.
 *
 * Owns: the proof that an address is mapped and readable. A thread's own stack, from rsp up to its
 * end (__libc_stack_end, or the thread's control block, which glibc puts on top of the stack), is
 * shown once, page by page, to be one readable piece; from then on everything between rsp and the
 * end is known, because a thread cannot run on a stack that is not there. Any other stack
 * (sigaltstack, coroutine) may vanish behind our back, so its pages are asked for again at every
 * unwinding. Asking is one process_vm_readv of the own memory, or, where that is forbidden,
 * rt_sigprocmask with an invalid request: the kernel copies the set first, and says EFAULT. */
#include <errno.h>

#include "preload/sys.h"
#include "unwind_impl.h"

#define OWN_GAP        (64ul << 20) /* a larger jump away from the known stack is another stack */
#define FOREIGN_WINDOW (64 * ARCH_PAGE_BYTES) /* asked for at once on another stack */

static struct {
    uint64_t stack_end;
    uint64_t foreign_lo, foreign_hi; /* hull of what caches hold beside own stacks and modules */
} region;

void uw_region_init(void *stack_end) { region.stack_end = (uint64_t)stack_end; }

bool uw_region_is_first(uint64_t sp) { return sp == region.stack_end; }

static bool copies_set(uint64_t address)
{
    /* An answer counts only when the kernel also denies what cannot be there. */
    return sys_rt_sigprocmask(-1, (const uint64_t *)address, 0) == -EINVAL &&
           sys_rt_sigprocmask(-1, (const uint64_t *)(~(uint64_t)0 << 48), 0) == -EFAULT;
}

/* How many of n pages from `page` on can be read, up to the first that cannot. asked: memory for
 * the question about so many at once; not here, since the stack may be small. */
static uint64_t readable(struct iovec *asked, unsigned room, uint64_t page, uint64_t n)
{
    int self = (int)sys_gettid(); /* the process's id is gone once the main thread has ended */
    uint64_t done = 0;
    if (self < 0) /* no system call may be made */
        return 0;
    while (done < n) {
        uint8_t bytes[UW_ASKED];
        unsigned m = n - done < room ? (unsigned)(n - done) : room;
        const struct iovec to = {bytes, m};
        for (unsigned i = 0; i < m; i++)
            asked[i] = (struct iovec){(void *)(page + (done + i) * ARCH_PAGE_BYTES), 1};
        long got = sys_process_vm_readv(self, &to, 1, asked, m);
        if (got == -EPERM || got == -ENOSYS || got == -EACCES || got == -ENOMEM) {
            for (got = 0; got < (long)m; got++)
                if (!copies_set(page + (done + (uint64_t)got) * ARCH_PAGE_BYTES))
                    break;
        }
        if (got < 0)
            got = 0;
        done += (uint64_t)got;
        if (got < (long)m)
            break;
    }
    return done;
}

bool uw_region_copy(uint64_t address, void *to, size_t bytes)
{
    int self = (int)sys_gettid();
    struct iovec local = {to, bytes}, from = {(void *)address, bytes};
    if (self < 0 || address >= ARCH_ADDRESS_END - bytes)
        return false;
    long got = sys_process_vm_readv(self, &local, 1, &from, 1);
    if (got == -EPERM || got == -ENOSYS || got == -EACCES) {
        uint64_t page = address & ~(ARCH_PAGE_BYTES - 1),
                 last = (address + bytes - 1) & ~(ARCH_PAGE_BYTES - 1);
        uint64_t pages = (last - page) / ARCH_PAGE_BYTES + 1;
        struct iovec two[2];
        if (readable(two, 2, page, pages) != pages)
            return false;
        __builtin_memcpy(to, (const void *)address, bytes);
        return true;
    }
    return got == (long)bytes;
}

bool uw_region_own(struct uw_region *own, uint64_t address, struct iovec *asked)
{
    if (UW_LIKELY(address - own->lo < own->hi - own->lo))
        return true;
    uint64_t page = address & ~(ARCH_PAGE_BYTES - 1), end = own->lo;
    if (own->hi == own->lo) { /* nothing known: the nearest end above is ours, if we get there */
        uint64_t thread = (uint64_t)__builtin_thread_pointer();
        end = region.stack_end > address ? region.stack_end : 0;
        if (thread > address && (!end || thread < end))
            end = thread;
    }
    if (address >= end || end - page > OWN_GAP)
        return false;
    uint64_t pages = ((end + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1)) - page;
    pages /= ARCH_PAGE_BYTES;
    if (own->hi != own->lo)
        pages = (end - page) / ARCH_PAGE_BYTES; /* lo is a page's start */
    if (readable(asked, UW_ASKED, page, pages) != pages)
        return false;
    if (own->hi == own->lo)
        own->hi = end;
    own->lo = page;
    return true;
}

void uw_region_remember(uint64_t lo, uint64_t hi)
{
    uint64_t seen = __atomic_load_n(&region.foreign_lo, __ATOMIC_RELAXED);
    while ((seen == 0 || lo < seen) &&
           !__atomic_compare_exchange_n(&region.foreign_lo, &seen, lo, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
    seen = __atomic_load_n(&region.foreign_hi, __ATOMIC_RELAXED);
    while (hi > seen && !__atomic_compare_exchange_n(&region.foreign_hi, &seen, hi, true,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

bool uw_region_foreign(struct uw_region *r, uint64_t address, struct iovec *asked)
{
    uint64_t page = address & ~(ARCH_PAGE_BYTES - 1), end = page + FOREIGN_WINDOW;
    if (address >= ARCH_ADDRESS_END)
        return false;
    r->lo = page;
    r->hi =
        page + readable(asked, UW_ASKED, page, (end - page) / ARCH_PAGE_BYTES) * ARCH_PAGE_BYTES;
    if (r->hi == r->lo)
        return false;
    uw_region_remember(r->lo, r->hi);
    return true;
}

bool uw_region_extend(struct uw_region *r, uint64_t address, struct iovec *asked)
{
    if (address < r->lo || address >= ARCH_ADDRESS_END || address - r->lo > OWN_GAP)
        return false;
    uint64_t want = ((address + 8 + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1));
    if (r->hi & (ARCH_PAGE_BYTES - 1))
        return false; /* the end of an own stack */
    if (want > r->hi)
        r->hi +=
            readable(asked, UW_ASKED, r->hi, (want - r->hi) / ARCH_PAGE_BYTES) * ARCH_PAGE_BYTES;
    uw_region_remember(r->lo, r->hi);
    return address + 8 <= r->hi;
}

bool uw_region_remembered(uint64_t start, uint64_t end)
{
    return start < __atomic_load_n(&region.foreign_hi, __ATOMIC_RELAXED) &&
           end > __atomic_load_n(&region.foreign_lo, __ATOMIC_RELAXED);
}
