/* mapping.c - mmap, munmap, mremap, brk and sbrk as the program itself calls them, also by way of
 * syscall(2).
 *
 * Those that the allocator behind us makes are not the program's and are not recorded. Compiled
 * with frame pointers, which is how the caller's stack is found. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder.h"

#define CALLER_SP ((uint64_t)__builtin_frame_address(0) + 8)
#define CALLER_BP (*(uint64_t *)__builtin_frame_address(0))

/* True to record: recording is on, and the caller is not the allocator. */
static bool watched(uint64_t sp)
{
    if (unlikely(!wiped.control))
        process_wake();
    if (!wiped.control || !(*wiped.control & MLW_CTL_ACTIVE))
        return false;
    uint64_t caller = *(const uint64_t *)sp;
    return next_facts.glibc || caller - next_facts.start >= next_facts.end - next_facts.start;
}

static void note_mmap(const void *p, size_t n, int prot, int flags, int fd, uint64_t sp,
                      uint64_t bp)
{
    uint64_t argument = (uint64_t)(prot & 0xff) | (uint64_t)(uint32_t)flags << 8 |
                        (uint64_t)(fd >= 0 && !(flags & MAP_ANONYMOUS)) << 63;
    if (watched(sp))
        record_mapping(MLW_OP_MMAP, (void *)(uintptr_t)p, n, argument, p == MAP_FAILED, sp, bp);
}

INTERPOSED(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    void *p = next.mmap(at, n, prot, flags, fd, from);
    note_mmap(p, n, prot, flags, fd, CALLER_SP, CALLER_BP);
    return p;
}

HIDDEN __typeof__(entry_mmap) entry_mmap64 __attribute__((alias("entry_mmap")));
SHOWN_AS(mmap64, entry_mmap)

static void record_unmapped(bool recorded, void *p, size_t n, int r, uint64_t sp)
{
    if (recorded && r)
        record_unmapping(MLW_OP_MUNMAP_FAILED, p, n, sp);
    if (!r)
        follow_unmapped((uint64_t)p, (uint64_t)p + n, sp);
}

INTERPOSED(int, munmap, void *p, size_t n)
{
    uint64_t sp = CALLER_SP;
    bool record = watched(sp);
    if (record)
        record_unmapping(MLW_OP_MUNMAP, p, n, sp);
    int r = next.munmap(p, n);
    record_unmapped(record, p, n, r, sp);
    return r;
}

static void remapped(bool recorded, void *p, size_t old, void *r, size_t n, int flags, uint64_t sp,
                     uint64_t bp)
{
    if (recorded)
        record_mapping(MLW_OP_MREMAP, r, n, (uint64_t)(uint32_t)flags, r == MAP_FAILED, sp, bp);
    if (r != MAP_FAILED)
        follow_unmapped((uint64_t)p, (uint64_t)p + old, sp);
}

/* `to` is passed as a variable argument. A function of such keeps vector registers on the stack,
 * which the caller need not have aligned. */
INTERPOSED(void *, mremap, void *p, size_t old, size_t n, int flags, void *to)
{
    uint64_t sp = CALLER_SP, bp = CALLER_BP;
    bool record = watched(sp);
    if (record)
        record_unmapping(MLW_OP_MREMAP_OLD, p, old, sp);
    void *r = next.mremap(p, old, n, flags, flags & MREMAP_FIXED ? to : 0);
    remapped(record, p, old, r, n, flags, sp, bp);
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

long guest_maps(guest_real_syscall *real, long number, const long a[6], uint64_t sp, uint64_t bp)
{
    void *const p = (void *)a[0];
    const bool record = watched(sp);
    if (record && number == SYS_munmap)
        record_unmapping(MLW_OP_MUNMAP, p, (size_t)a[1], sp);
    if (record && number == SYS_mremap)
        record_unmapping(MLW_OP_MREMAP_OLD, p, (size_t)a[1], sp);
    const long r = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_mmap)
        note_mmap((void *)r, (size_t)a[1], (int)a[2], (int)a[3], (int)a[4], sp, bp);
    else if (number == SYS_munmap)
        record_unmapped(record, p, (size_t)a[1], (int)r, sp);
    else if (number == SYS_mremap)
        remapped(record, p, (size_t)a[1], (void *)r, (size_t)a[2], (int)a[3], sp, bp);
    else if (record && p) /* the kernel says where the break is, moved or not; 0 is a question */
        record_mapping(MLW_OP_BRK, p, 0, 0, r != a[0], sp, bp);
    return r;
}
