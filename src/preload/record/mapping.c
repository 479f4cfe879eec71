/* mapping.c - mmap, munmap, mremap, brk and sbrk as the program itself calls them.
 *
 * Those that the allocator behind us makes are not the program's and are not recorded. Compiled
 * with frame pointers, which is how the caller's stack is found. */
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder.h"

#define CALLER_SP ((uint64_t)__builtin_frame_address(0) + 8)
#define CALLER_BP (*(uint64_t *)__builtin_frame_address(0))

/* Whether to record: recording is on, and the caller is not the allocator. */
static bool watched(uint64_t sp)
{
    if (unlikely(!wiped.control))
        process_wake();
    if (!wiped.control || !(*wiped.control & MLW_CTL_ACTIVE))
        return false;
    uint64_t caller = *(const uint64_t *)sp;
    return next_facts.glibc || caller - next_facts.start >= next_facts.end - next_facts.start;
}

INTERPOSED(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    uint64_t sp = CALLER_SP, bp = CALLER_BP;
    void *p = next.mmap(at, n, prot, flags, fd, from);
    if (watched(sp)) {
        uint64_t argument = (uint64_t)(prot & 0xff) | (uint64_t)(uint32_t)flags << 8 |
                            (uint64_t)(fd >= 0 && !(flags & MAP_ANONYMOUS)) << 63;
        record_mapping(MLW_OP_MMAP, p, n, argument, p == MAP_FAILED, sp, bp);
    }
    return p;
}

HIDDEN __typeof__(entry_mmap) entry_mmap64 __attribute__((alias("entry_mmap")));
SHOWN_AS(mmap64, entry_mmap)

INTERPOSED(int, munmap, void *p, size_t n)
{
    uint64_t sp = CALLER_SP;
    bool record = watched(sp);
    if (record)
        record_unmapping(MLW_OP_MUNMAP, p, n, sp);
    int r = next.munmap(p, n);
    if (record && r)
        record_unmapping(MLW_OP_MUNMAP_FAILED, p, n, sp);
    if (!r)
        follow_unmapped((uint64_t)p, (uint64_t)p + n, sp);
    return r;
}

INTERPOSED(void *, mremap, void *p, size_t old, size_t n, int flags, ...)
{
    uint64_t sp = CALLER_SP, bp = CALLER_BP;
    void *to = 0;
    if (flags & MREMAP_FIXED) {
        va_list ap;
        va_start(ap, flags);
        to = va_arg(ap, void *);
        va_end(ap);
    }
    bool record = watched(sp);
    if (record)
        record_unmapping(MLW_OP_MREMAP_OLD, p, old, sp);
    void *r = next.mremap(p, old, n, flags, to);
    if (record)
        record_mapping(MLW_OP_MREMAP, r, n, (uint64_t)(uint32_t)flags, r == MAP_FAILED, sp, bp);
    if (r != MAP_FAILED)
        follow_unmapped((uint64_t)p, (uint64_t)p + old, sp);
    return r;
}

INTERPOSED(int, brk, void *p)
{
    uint64_t sp = CALLER_SP, bp = CALLER_BP;
    int r = next.brk(p);
    if (watched(sp))
        record_mapping(MLW_OP_BRK, p, 0, 0, r != 0, sp, bp);
    return r;
}

INTERPOSED(void *, sbrk, intptr_t n)
{
    uint64_t sp = CALLER_SP, bp = CALLER_BP;
    void *p = next.sbrk(n);
    if (watched(sp))
        record_mapping(MLW_OP_SBRK, p, (uint64_t)n, 0, p == (void *)-1, sp, bp);
    return p;
}
