/* oracle.c - a second, independent counter of allocation calls, to compare mallow with.
 *
 * Owns: a preload library that interposes the same functions as libmallow-record.so in the dullest
 * way that can be right (one global lock, one hash table, no buffers, no stacks) and keeps its
 * totals in a file mapped shared, so that they outlive any death of the program. It can be loaded
 * behind mallow (then both see the very same run) or alone. It forwards to glibc's own __libc_*
 * entry points, so it is no judge of other allocators.
 *
 * Each process image gets one file $ORACLE_DIR/PID.N of `key value` lines' worth of numbers, in the
 * order of struct totals. What it counts, and how, is what mallow-report(1) says of `report
 * --json`. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_valloc(size_t);
extern void *__libc_pvalloc(size_t);

#define EXPORT __attribute__((visibility("default")))

EXPORT void free_sized(void *p, size_t size);
EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size);
EXPORT void *memalign(size_t alignment, size_t size);
EXPORT void *pvalloc(size_t size);
EXPORT size_t malloc_usable_size(void *p);

enum call {
    C_MALLOC,
    C_CALLOC,
    C_REALLOC,
    C_REALLOCARRAY,
    C_POSIX_MEMALIGN,
    C_ALIGNED_ALLOC,
    C_MEMALIGN,
    C_VALLOC,
    C_PVALLOC,
    C_FREE,
    C_FREE_SIZED,
    C_FREE_ALIGNED_SIZED,
    C_MALLOC_USABLE_SIZE,
    C_MMAP,
    C_MUNMAP,
    C_MREMAP,
    C_BRK,
    C_SBRK,
    C_COUNT
};

struct totals {
    int64_t magic; /* 'oracle01' */
    int64_t pid;
    int64_t calls[C_COUNT];
    int64_t failed, requested_bytes;
    int64_t live_bytes, live_blocks;
    int64_t peak_bytes, peak_blocks; /* blocks at the moment of the largest bytes */
    int64_t temporary, cross_thread_frees, unknown_frees;
    char exe[512];
};

struct block { /* address 0: never used; 1: deleted */
    uintptr_t address;
    int64_t size;
    uint64_t thread;
    uint64_t ordinal; /* of its thread's allocation */
};

#define TABLE (1u << 23)

static struct totals unmapped, *totals = &unmapped;
static struct block *table;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static pid_t owner;
static unsigned images;

static __thread uint64_t my_allocations __attribute__((tls_model("initial-exec")));
static __thread char my_identity __attribute__((tls_model("initial-exec")));

static uint64_t me(void) { return (uint64_t)(uintptr_t)&my_identity; }

static void open_totals(void)
{
    const char *dir = getenv("ORACLE_DIR");
    struct totals *old = totals;
    owner = (pid_t)syscall(SYS_getpid);
    if (!table)
        table = (struct block *)syscall(SYS_mmap, 0, TABLE * sizeof *table, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    int fd = -1;
    if (dir) {
        char path[4096];
        do {
            snprintf(path, sizeof path, "%s/%d.%u", dir, (int)owner, images++);
            fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        } while (fd < 0 && errno == EEXIST);
    }
    struct totals *fresh = MAP_FAILED;
    if (fd >= 0) {
        if (ftruncate(fd, sizeof *totals) == 0)
            fresh = (struct totals *)syscall(SYS_mmap, 0, sizeof *totals, PROT_READ | PROT_WRITE,
                                             MAP_SHARED, fd, 0L);
        close(fd);
    }
    if (fresh == MAP_FAILED)
        fresh = (struct totals *)syscall(SYS_mmap, 0, sizeof *totals, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    fresh->pid = owner;
    fresh->live_bytes = fresh->peak_bytes = old->live_bytes;
    fresh->live_blocks = fresh->peak_blocks = old->live_blocks;
    ssize_t n = readlink("/proc/self/exe", fresh->exe, sizeof fresh->exe - 1);
    (void)n;
    memcpy(&fresh->magic, "oracle01", 8);
    totals = fresh;
}

static void enter(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        syscall(SYS_sched_yield);
    if (owner != (pid_t)syscall(SYS_getpid)) {
        int e = errno;
        open_totals();
        errno = e;
    }
}
static void leave(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

/* In the child of a fork the lock may be held by a thread that is not there. */
static void after_fork(void) { atomic_flag_clear(&lock); }
__attribute__((constructor)) static void set_up(void)
{
    pthread_atfork(NULL, NULL, after_fork);
    enter();
    leave();
}

static struct block *find(uintptr_t a)
{
    for (uint32_t i = (uint32_t)((a >> 4) * 0x9e3779b1u) & (TABLE - 1);;
         i = (i + 1) & (TABLE - 1)) {
        if (table[i].address == a)
            return &table[i];
        if (!table[i].address)
            return NULL;
    }
}

static void add(void *p, size_t size)
{
    uintptr_t a = (uintptr_t)p;
    uint32_t i = (uint32_t)((a >> 4) * 0x9e3779b1u) & (TABLE - 1);
    while (table[i].address > 1 && table[i].address != a)
        i = (i + 1) & (TABLE - 1);
    table[i] = (struct block){a, (int64_t)size, me(), ++my_allocations};
    totals->requested_bytes += (int64_t)size;
    totals->live_bytes += (int64_t)size;
    totals->live_blocks++;
    if (totals->live_bytes > totals->peak_bytes) {
        totals->peak_bytes = totals->live_bytes;
        totals->peak_blocks = totals->live_blocks;
    }
}

/* Before the real call. temporary_counts: a realloc's old half is looked at apart. */
static struct block removed(void *p)
{
    struct block none = {0, 0, 0, 0}, was, *b = find((uintptr_t)p);
    if (!b) {
        totals->unknown_frees++;
        return none;
    }
    was = *b;
    b->address = 1;
    totals->live_bytes -= was.size;
    totals->live_blocks--;
    if (was.thread != me())
        totals->cross_thread_frees++;
    else if (was.ordinal == my_allocations)
        totals->temporary++;
    return was;
}

static void put_back(struct block was, void *p)
{
    if (!was.address)
        return;
    uint32_t i = (uint32_t)(((uintptr_t)p >> 4) * 0x9e3779b1u) & (TABLE - 1);
    while (table[i].address > 1)
        i = (i + 1) & (TABLE - 1);
    table[i] = was;
    totals->live_bytes += was.size;
    totals->live_blocks++;
    if (was.thread != me())
        totals->cross_thread_frees--;
    else if (was.ordinal == my_allocations)
        totals->temporary--;
}

static void *allocated(enum call c, void *p, size_t size)
{
    int e = errno;
    enter();
    totals->calls[c]++;
    if (p)
        add(p, size);
    else
        totals->failed++;
    leave();
    errno = e;
    return p;
}

EXPORT void *malloc(size_t n) { return allocated(C_MALLOC, __libc_malloc(n), n); }
EXPORT void *calloc(size_t n, size_t size)
{
    return allocated(C_CALLOC, __libc_calloc(n, size), n * size);
}
EXPORT void *memalign(size_t al, size_t n)
{
    return allocated(C_MEMALIGN, __libc_memalign(al, n), n);
}
EXPORT void *aligned_alloc(size_t al, size_t n)
{
    return allocated(C_ALIGNED_ALLOC, __libc_memalign(al, n), n);
}
EXPORT void *valloc(size_t n) { return allocated(C_VALLOC, __libc_valloc(n), n); }
EXPORT void *pvalloc(size_t n) { return allocated(C_PVALLOC, __libc_pvalloc(n), n); }
EXPORT int posix_memalign(void **out, size_t al, size_t n)
{
    int e = errno;
    if (!al || al % sizeof(void *) || (al & (al - 1))) {
        allocated(C_POSIX_MEMALIGN, NULL, n);
        return EINVAL;
    }
    void *p = allocated(C_POSIX_MEMALIGN, __libc_memalign(al, n), n);
    errno = e;
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

static void *resize(enum call c, void *old, size_t n, int overflow)
{
    struct block was = {0, 0, 0, 0};
    enter();
    totals->calls[c]++;
    if (old && !overflow)
        was = removed(old);
    leave();
    void *p = NULL;
    if (overflow)
        errno = ENOMEM;
    else
        p = __libc_realloc(old, n);
    int e = errno;
    enter();
    if (p) {
        add(p, n);
    } else if (overflow || !(old && n == 0)) {
        totals->failed++;
        if (old && !overflow)
            put_back(was, old);
    }
    leave();
    errno = e;
    return p;
}

EXPORT void *realloc(void *p, size_t n) { return resize(C_REALLOC, p, n, 0); }
EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    return resize(C_REALLOCARRAY, p, n * size, __builtin_mul_overflow(n, size, &bytes));
}

static void released(enum call c, void *p)
{
    int e = errno;
    enter();
    totals->calls[c]++;
    if (p)
        removed(p);
    leave();
    errno = e;
    __libc_free(p);
}
EXPORT void free(void *p) { released(C_FREE, p); }
EXPORT void free_sized(void *p, size_t n)
{
    (void)n;
    released(C_FREE_SIZED, p);
}
EXPORT void free_aligned_sized(void *p, size_t al, size_t n)
{
    (void)al;
    (void)n;
    released(C_FREE_ALIGNED_SIZED, p);
}

EXPORT size_t malloc_usable_size(void *p)
{
    static size_t (*next)(void *);
    if (!next)
        next = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    enter();
    totals->calls[C_MALLOC_USABLE_SIZE]++;
    leave();
    return next(p);
}

static void count(enum call c, int failed)
{
    int e = errno;
    enter();
    totals->calls[c]++;
    totals->failed += failed;
    leave();
    errno = e;
}
EXPORT void *mmap(void *a, size_t n, int prot, int flags, int fd, off_t off)
{
    void *p = (void *)syscall(SYS_mmap, a, n, prot, flags, fd, off);
    count(C_MMAP, p == MAP_FAILED);
    return p;
}
EXPORT void *mmap64(void *a, size_t n, int prot, int flags, int fd, off64_t off)
{
    return mmap(a, n, prot, flags, fd, off);
}
EXPORT int munmap(void *a, size_t n)
{
    int r = (int)syscall(SYS_munmap, a, n);
    count(C_MUNMAP, r != 0);
    return r;
}
EXPORT void *mremap(void *a, size_t n, size_t m, int flags, ...)
{
    __builtin_va_list v;
    __builtin_va_start(v, flags);
    void *where = flags & MREMAP_FIXED ? __builtin_va_arg(v, void *) : NULL;
    __builtin_va_end(v);
    void *p = (void *)syscall(SYS_mremap, a, n, m, flags, where);
    count(C_MREMAP, p == MAP_FAILED);
    return p;
}
EXPORT int brk(void *a)
{
    static int (*next)(void *);
    if (!next)
        next = (int (*)(void *))dlsym(RTLD_NEXT, "brk");
    int r = next(a);
    count(C_BRK, r != 0);
    return r;
}
EXPORT void *sbrk(intptr_t by)
{
    static void *(*next)(intptr_t);
    if (!next)
        next = (void *(*)(intptr_t))dlsym(RTLD_NEXT, "sbrk");
    void *p = next(by);
    count(C_SBRK, p == (void *)-1);
    return p;
}
