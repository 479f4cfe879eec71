/* victim_odd.c - heaps that something unusual was done to, each a row of a table.
 *
 * Usage: victim_odd NAME TRUTH [stopped]. stopped: it has a filter of system calls, so that it is
 * read itself and not a copy of it. Every case has a list of KEPT blocks from a variable, LEAKED
 * blocks that nothing refers to, and what the case itself does; most put HELD blocks' only
 * addresses into memory of some kind. TRUTH gets a line "ADDRESS USABLE" of each block. Prints
 * "ready LEAKED", or "ready skip REASON" where the kernel cannot do it; then waits for its input to
 * end. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../victims/apart.h"

#define GUARD_INSTALL 102 /* headers of older kernels lack it */

enum { KEPT = 300, LEAKED = 5, HELD = 20, PAGE = 4096, MOST = 4096, POISON_CALL = 8, SECRET = 447 };

struct link {
    struct link *next;
    char room[];
};

static struct link *kept;
static struct {
    void *at[MOST];
    size_t usable[MOST];
    size_t n;
} * known; /* in memory of its own, which is unmapped before the end: it is no root */
static const char *skip;

static void fails(const char *what)
{
    static char text[200];
    snprintf(text, sizeof text, "%s (%s)", what, strerror(errno));
    skip = text;
}

static void *note(void *p)
{
    if (!p || known->n == MOST)
        _Exit(3);
    known->usable[known->n] = malloc_usable_size(p);
    return known->at[known->n++] = p;
}

static void keep(size_t bytes)
{
    struct link *l = note(calloc(1, bytes));
    l->next = kept;
    kept = l;
}

/* Blocks that nothing but these words refers to. */
static void APART hold(void **words)
{
    for (int i = 0; i < HELD; i++)
        words[i] = note(calloc(1, 700));
}

static void APART wipe_stack(void)
{
    volatile char room[32768];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
}

static void *memory(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (p == MAP_FAILED) {
        fails("mmap");
        return NULL;
    }
    return p;
}

static char *page_of(void *p) { return (char *)(((uintptr_t)p + PAGE - 1) & -(uintptr_t)PAGE); }

/* A kept block of many pages, whose last page has the held ones' addresses. */
static char *large(size_t bytes)
{
    keep(bytes);
    memset(kept->room, 1, bytes - sizeof *kept);
    return page_of(kept->room);
}

/* ---- guard regions ---- */

static void guard(void *at, size_t bytes)
{
    if (madvise(at, bytes, GUARD_INSTALL))
        fails("MADV_GUARD_INSTALL, Linux 6.13");
}

static void guard_in_block(void)
{
    char *p = large(40 * PAGE);
    hold((void **)(p + 20 * PAGE));
    guard(p + 8 * PAGE, 4 * PAGE);
}

static void guard_in_mapped(void)
{
    char *p = large(1 << 20);
    hold((void **)(p + 100 * PAGE));
    guard(p + 2 * PAGE, 16 * PAGE);
}

static void guard_in_free(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    void *free_one = malloc(100 * PAGE), *wall = note(malloc(100));
    ((struct link *)wall)->next = kept;
    kept = wall;
    char *p = page_of(free_one);
    free(free_one);
    guard(p + 4 * PAGE, 60 * PAGE);
}

static void guard_alone(void)
{
    char *p = memory(64 * PAGE, 0);
    if (p) {
        hold((void **)(p + 60 * PAGE));
        guard(p, 32 * PAGE);
    }
}

/* ---- what may not be touched ---- */

static void none_in_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    char *p = large(40 * PAGE);
    hold((void **)(p + 20 * PAGE));
    mprotect(p - PAGE, 38 * PAGE, PROT_NONE); /* with its header, and those of others */
}

static void none_in_block(void)
{
    char *p = large(40 * PAGE);
    hold((void **)(p + 20 * PAGE));
    mprotect(p + 16 * PAGE, 8 * PAGE, PROT_NONE);
}

static void *none_thread(void *arg)
{
    for (int i = 0; i < 200; i++)
        keep(400);
    char *p = page_of(kept);
    mprotect(p - 8 * PAGE, 4 * PAGE, PROT_NONE); /* many blocks, with their headers */
    return pthread_barrier_wait(arg) ? NULL : NULL;
}

static pthread_barrier_t barrier;

static void start(void *(*f)(void *))
{
    pthread_t t;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&t, NULL, f, &barrier);
    pthread_barrier_wait(&barrier);
}

static void *none_stays(void *arg)
{
    none_thread(arg);
    pause();
    return NULL;
}

static void none_in_arena(void) { start(none_stays); }

static void none_elsewhere(void)
{
    void **p = memory(16 * PAGE, 0);
    if (p) {
        hold(p);
        mprotect(p, 16 * PAGE, PROT_NONE);
    }
}

static void read_only(void)
{
    void **p = memory(16 * PAGE, 0);
    if (p) {
        hold(p);
        mprotect(p, 16 * PAGE, PROT_READ);
    }
}

static void code(void)
{
    void **p = memory(16 * PAGE, 0);
    if (p) {
        hold(p);
        mprotect(p, 16 * PAGE, PROT_READ | PROT_EXEC);
    }
}

/* ---- what is given back, kept or moved ---- */

static void given_back(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    for (int i = 0; i < 2; i++) {
        void *free_one = malloc(100 * PAGE);
        keep(100);
        char *p = page_of(free_one);
        memset(free_one, 1, 100 * PAGE);
        free(free_one);
        madvise(p + PAGE, 90 * PAGE, i ? MADV_FREE : MADV_DONTNEED);
    }
}

static void locked(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        fails("mlockall");
    hold((void **)large(40 * PAGE));
}

static void wiped_in_forks(void)
{
    char *p = large(40 * PAGE);
    hold((void **)(p + 20 * PAGE));
    if (madvise(p, 30 * PAGE, MADV_WIPEONFORK))
        fails("MADV_WIPEONFORK");
}

static void not_in_forks(void)
{
    char *p = large(40 * PAGE);
    hold((void **)(p + 20 * PAGE));
    madvise(p, 30 * PAGE, MADV_DONTFORK);
}

static void moved(void)
{
    void **p = memory(16 * PAGE, 0);
    if (!p)
        return;
    hold(p + PAGE / 8 * 12);
    void *to = memory(64 * PAGE, 0);
    if (to && mremap(p, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
        fails("mremap");
}

static void moved_block(void)
{
    void *p = realloc(malloc(1 << 20), 9 << 20);
    hold((void **)((char *)p + (8 << 20)));
    note(p);
    ((struct link *)p)->next = kept;
    kept = p;
}

/* ---- memory of other kinds ---- */

static void secret(void)
{
    const int fd = (int)syscall(SECRET, 0);
    void **p = fd < 0 || ftruncate(fd, PAGE)
                   ? MAP_FAILED
                   : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        fails("memfd_secret");
    else
        hold(p);
}

static void shared(void)
{
    void **p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fails("mmap");
    else
        hold(p + PAGE / 8 * 12);
}

static void shared_large(void)
{
    enum { BYTES = 80 << 20 };
    char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fails("mmap");
        return;
    }
    memset(p, 1, BYTES);
    hold((void **)(p + BYTES - PAGE));
}

static void shared_file(void)
{
    const int fd = memfd_create("odd", 0);
    void **p = fd < 0 || ftruncate(fd, 16 * PAGE)
                   ? MAP_FAILED
                   : mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        fails("memfd_create");
    else
        hold(p);
}

/* The file has got shorter: what lies behind its end cannot be read. */
static void private_file(void)
{
    char path[] = "odd-XXXXXX";
    const int fd = mkstemp(path);
    void **p = fd < 0 || ftruncate(fd, 16 * PAGE)
                   ? MAP_FAILED
                   : mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED || unlink(path)) {
        fails("a file");
        return;
    }
    hold(p);
    if (ftruncate(fd, 8 * PAGE))
        fails("ftruncate");
}

static int fault_fd(void)
{
    const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
        fails("userfaultfd");
        return -1;
    }
    return fd;
}

/* Pages that the program has elsewhere, as one that is restored lazily: what they hold is not
 * known. */
static void lazy(void)
{
    const int fd = fault_fd();
    char *p = large(40 * PAGE);
    struct uffdio_register range = {{(uintptr_t)p, 30 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    hold((void **)(p + 20 * PAGE));
    if (fd >= 0 && ioctl(fd, UFFDIO_REGISTER, &range))
        fails("UFFDIO_REGISTER");
    if (fd >= 0)
        madvise(p + 18 * PAGE, 4 * PAGE, MADV_DONTNEED);
}

/* Pages that cannot be read, as those of broken memory. */
static void poisoned(void)
{
    struct {
        uint64_t start, len, mode;
        int64_t done;
    } poison = {0};
    const int fd = fault_fd();
    char *p = large(40 * PAGE);
    struct uffdio_register range = {{(uintptr_t)p, 30 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    hold((void **)(p + 20 * PAGE));
    if (fd < 0)
        return;
    poison.start = (uintptr_t)p + 18 * PAGE;
    poison.len = 4 * PAGE;
    if (ioctl(fd, UFFDIO_REGISTER, &range) ||
        madvise((void *)(uintptr_t)poison.start, poison.len, MADV_DONTNEED) ||
        ioctl(fd, _IOWR(UFFDIO, POISON_CALL, poison), &poison))
        fails("UFFDIO_POISON, Linux 6.6");
}

/* ---- arenas ---- */

static void *one_block(void *arg)
{
    keep(24);
    pthread_barrier_wait(arg);
    pause();
    return NULL;
}

static void young(void) { start(one_block); }

static void *ends(void *arg)
{
    keep(24);
    return arg;
}

static void orphaned(void)
{
    pthread_t t;
    pthread_create(&t, NULL, ends, NULL);
    pthread_join(t, NULL);
}

/* A libc of its own, whose blocks have the only addresses. */
static void second_library(void)
{
    void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW | RTLD_LOCAL);
    void *(*make)(size_t) = other ? (void *(*)(size_t))dlsym(other, "malloc") : NULL;
    void **words = make ? make(900) : NULL;
    if (words)
        hold(words);
    else
        fails("dlmopen");
}

static void nothing(void) {}

static const struct {
    const char *name;
    void (*act)(void);
} cases[] = {
    {"nothing", nothing},
    {"guard-in-block", guard_in_block},
    {"guard-in-mapped", guard_in_mapped},
    {"guard-in-free", guard_in_free},
    {"guard-alone", guard_alone},
    {"none-in-block", none_in_block},
    {"none-in-heap", none_in_heap},
    {"none-in-arena", none_in_arena},
    {"none-elsewhere", none_elsewhere},
    {"read-only", read_only},
    {"code", code},
    {"given-back", given_back},
    {"locked", locked},
    {"wiped-in-forks", wiped_in_forks},
    {"not-in-forks", not_in_forks},
    {"moved", moved},
    {"moved-block", moved_block},
    {"secret", secret},
    {"shared", shared},
    {"shared-large", shared_large},
    {"shared-file", shared_file},
    {"private-file", private_file},
    {"lazy", lazy},
    {"poisoned", poisoned},
    {"young", young},
    {"orphaned", orphaned},
    {"second-library", second_library},
};

static void APART leak(void)
{
    for (int i = 0; i < LEAKED; i++)
        note(calloc(1, 3000));
}

static void write_truth(const char *path)
{
    char line[64];
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t i = 0; i < known->n; i++) {
        const int n = snprintf(line, sizeof line, "%p %zu\n", known->at[i], known->usable[i]);
        if (write(fd, line, (size_t)n) != n)
            _Exit(3);
    }
    close(fd);
}

static void filter_calls(void)
{
    struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
    const struct sock_fprog program = {.len = 1, .filter = &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        fails("seccomp");
}

int main(int argc, char **argv)
{
    char byte;
    size_t i = 0;
    if (argc < 3)
        return 2;
    while (i < sizeof cases / sizeof *cases && strcmp(cases[i].name, argv[1]) != 0)
        i++;
    if (i == sizeof cases / sizeof *cases)
        return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    known = memory(sizeof *known, 0);
    for (int k = 0; k < KEPT; k++)
        keep(16 + (size_t)k * 13 % 2000);
    leak();
    write_truth("/dev/null"); /* what it needs is made now */
    cases[i].act();
    if (argc > 3)
        filter_calls();
    if (!skip)
        write_truth(argv[2]);
    munmap(known, sizeof *known);
    wipe_stack();
    if (skip)
        printf("ready skip %s\n", skip);
    else
        printf("ready %d\n", LEAKED);
    wipe_stack();
    return read(0, &byte, 1) != 0;
}
