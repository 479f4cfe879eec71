/* strain.c - programs at the edge of what threads, signals and the kernel allow. Each mode ends
 * with status 0 and says "whole" when all of its blocks were what they should be; what it cannot
 * have here (so many threads, so many mappings) it says instead, and ends with 77. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile sink;

static _Noreturn void broken(const char *what)
{
    fprintf(stderr, "broken: %s (%s)\n", what, strerror(errno));
    _exit(1);
}
static _Noreturn void cannot(const char *what)
{
    printf("cannot: %s: %s\n", what, strerror(errno));
    exit(77);
}
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            broken(#x);                                                                            \
    } while (0)

/* ---- threads ---- */

static pthread_attr_t small_stacks;
static void prepare_threads(void)
{
    pthread_attr_init(&small_stacks);
    pthread_attr_setstacksize(&small_stacks, 65536);
}

/* The first and last bytes, so that large blocks cost no memory. */
static void mark(unsigned char *p, size_t n, unsigned char with)
{
    size_t edge = n < 64 ? n : 64;
    memset(p, with, edge);
    memset(p + n - edge, with, edge);
}
static void check(const unsigned char *p, size_t n, unsigned char with)
{
    size_t edge = n < 64 ? n : 64;
    for (size_t i = 0; i < edge; i++)
        CHECK(p[i] == with && p[n - 1 - i] == with);
}

static void some_blocks(unsigned seed)
{
    unsigned char *p[8];
    for (unsigned i = 0; i < 8; i++) {
        size_t n = 1 + (seed * 7 + i * 61) % 500;
        CHECK(p[i] = malloc(n));
        mark(p[i], n, (unsigned char)i);
    }
    for (unsigned i = 0; i < 8; i++) {
        check(p[i], 1 + (seed * 7 + i * 61) % 500, (unsigned char)i);
        free(p[i]);
    }
}

/* Threads that are cancelled anywhere, also within malloc and free. For glibc alone that is
 * survivable where its thread cache serves: no lock is taken then, and what was cut in two belongs
 * to the thread that ends. So the cache is made before, and nothing is freed behind. */
static void *cut_in_two(void *arg)
{
    int old;
    void *p[6];
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    for (int i = 0; i < 6; i++)
        p[i] = malloc(72);
    for (int i = 0; i < 6; i++)
        free(p[i]);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    atomic_fetch_add((_Atomic int *)arg, 1);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    for (;;) {
        sink = malloc(72);
        free(sink);
    }
    return NULL;
}

/* Allocates, then computes where it can be cancelled anywhere; what it holds is freed behind it. */
static void frees(void *arg)
{
    void **p = arg;
    for (int i = 0; i < 20; i++)
        free(p[i]);
}
static void *computing(void *arg)
{
    int old;
    void *p[20];
    for (int i = 0; i < 20; i++)
        p[i] = malloc((size_t)i * 30);
    pthread_cleanup_push(frees, p);
    atomic_fetch_add((_Atomic int *)arg, 1);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    volatile unsigned spin = 0;
    while (spin == 0)
        ;
    pthread_cleanup_pop(1);
    return NULL;
}

/* A cancellation that waits: malloc and its kin are not where it may take place. */
static void *pending(void *arg)
{
    int *reached = arg;
    pthread_cancel(pthread_self());
    for (int i = 0; i < 50; i++) {
        void *p = malloc(200), *q = calloc(3, 40), *r;
        CHECK(!posix_memalign(&r, 256, 500));
        p = realloc(p, 3000);
        CHECK(malloc_usable_size(p) >= 3000);
        free(p), free(q), free(r);
    }
    *reached = 1;
    pthread_testcancel();
    *reached = 2;
    return NULL;
}

static void cancels(void *(*f)(void *), int n)
{
    for (int i = 0; i < n; i++) {
        pthread_t t;
        _Atomic int going = 0;
        void *result;
        if (pthread_create(&t, &small_stacks, f, &going))
            cannot("a thread");
        while (!going)
            sched_yield();
        if (f != pending)
            for (volatile int spin = i % 64 * 100; spin > 0; spin--)
                ;
        pthread_cancel(t);
        pthread_join(t, &result);
        CHECK(result == PTHREAD_CANCELED);
        CHECK(f != pending || going == 1);
        some_blocks((unsigned)i);
    }
    for (unsigned i = 0; i < 1000; i++)
        some_blocks(i);
}

/* n threads that are there at once, and all have blocks. */
static pthread_barrier_t all_there;
static void *one_of_many(void *arg)
{
    unsigned i = (unsigned)(uintptr_t)arg;
    unsigned char *p = malloc(100 + i % 900);
    CHECK(p);
    mark(p, 100 + i % 900, (unsigned char)i);
    pthread_barrier_wait(&all_there);
    check(p, 100 + i % 900, (unsigned char)i);
    some_blocks(i);
    return p;
}
static void crowd(int n)
{
    pthread_t *t = malloc(sizeof *t * (size_t)n);
    pthread_barrier_init(&all_there, NULL, (unsigned)n);
    for (int i = 0; i < n; i++)
        if ((errno = pthread_create(&t[i], &small_stacks, one_of_many, (void *)(uintptr_t)i)))
            cannot("so many threads");
    for (int i = 0; i < n; i++) {
        void *p;
        pthread_join(t[i], &p);
        check(p, 100 + (size_t)i % 900, (unsigned char)i);
        free(p);
    }
    free(t);
}

/* n threads, one after another, a few at a time. */
static void *passing(void *arg)
{
    some_blocks((unsigned)(uintptr_t)arg);
    return NULL;
}
static void stream(int n)
{
    pthread_t t[4];
    for (int i = 0; i < n; i++) {
        if (i >= 4)
            pthread_join(t[i % 4], NULL);
        if ((errno = pthread_create(&t[i % 4], &small_stacks, passing, (void *)(uintptr_t)i)))
            cannot("a thread");
    }
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

/* Blocks that are made longer and shorter, in places that several threads look at: what one may use
 * of them is never less than was asked for. */
#define PLACES 64
static struct place {
    pthread_mutex_t lock;
    unsigned char *p;
    size_t n;
} places[PLACES];
static atomic_int stop;
static const size_t sizes[] = {1,    15,   16,   24,    100,   500,    1032,
                               4000, 4096, 5000, 30000, 66000, 140000, 300000};
static void *looks(void *arg)
{
    for (unsigned i = 0; !stop; i++) {
        struct place *at = &places[i % PLACES];
        pthread_mutex_lock(&at->lock);
        if (at->p) {
            CHECK(malloc_usable_size(at->p) >= at->n);
            check(at->p, at->n, (unsigned char)(at - places));
        }
        pthread_mutex_unlock(&at->lock);
    }
    return arg;
}
static void *resizes(void *arg)
{
    unsigned r = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 20000; i++) {
        r = r * 1664525 + 1013904223;
        struct place *at = &places[r >> 8 & (PLACES - 1)];
        pthread_mutex_lock(&at->lock);
        size_t n = sizes[(r >> 16) % (sizeof sizes / sizeof *sizes)] + (r >> 28);
        unsigned char *p = realloc(at->p, n);
        CHECK(p);
        size_t kept = n < at->n ? n : at->n;
        for (size_t k = 0; k < kept && k < 64 && at->p; k++)
            CHECK(p[k] == (unsigned char)(at - places));
        at->p = p;
        at->n = n;
        mark(p, n, (unsigned char)(at - places));
        pthread_mutex_unlock(&at->lock);
    }
    return NULL;
}
static void resizing(void)
{
    pthread_t a, b, c;
    for (int i = 0; i < PLACES; i++)
        pthread_mutex_init(&places[i].lock, NULL);
    pthread_create(&a, NULL, looks, NULL);
    pthread_create(&b, NULL, resizes, (void *)1);
    pthread_create(&c, NULL, resizes, (void *)2);
    pthread_join(b, NULL);
    pthread_join(c, NULL);
    stop = 1;
    pthread_join(a, NULL);
    for (int i = 0; i < PLACES; i++)
        free(places[i].p);
}

/* Forks while threads allocate; the child goes on with what its parent had, and makes its own. */
static void *allocates(void *arg)
{
    for (unsigned i = (unsigned)(uintptr_t)arg; !stop; i++)
        some_blocks(i);
    return NULL;
}
static void forks(int n)
{
    pthread_t t[3];
    unsigned char *mine[100];
    for (unsigned i = 0; i < 100; i++) {
        CHECK(mine[i] = malloc(50 + i));
        mark(mine[i], 50 + i, (unsigned char)i);
    }
    for (uintptr_t i = 0; i < 3; i++)
        if (pthread_create(&t[i], NULL, allocates, (void *)i))
            cannot("a thread");
    for (int i = 0; i < n; i++) {
        int status = 0;
        pid_t child = fork();
        if (child < 0)
            cannot("a process");
        if (!child) {
            for (unsigned k = 0; k < 200; k++)
                some_blocks(k);
            for (unsigned k = 0; k < 100; k++) {
                check(mine[k], 50 + k, (unsigned char)k);
                free(mine[k]);
            }
            _exit(42);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < 100; i++) {
        check(mine[i], 50 + i, (unsigned char)i);
        free(mine[i]);
    }
}

/* ---- signals on small stacks ---- */

static atomic_int handled;
static void in_a_handler(int sig)
{
    (void)sig;
    int e = errno;
    unsigned char *p = malloc(120);
    memset(p, 7, 120);
    p = realloc(p, 300);
    check(p, 120, 7);
    free(p);
    handled++;
    errno = e;
}

/* `bytes` more than what the kernel itself puts on the stack, and a page without access below. */
static void on_a_small_stack(size_t bytes)
{
    size_t frame = getauxval(AT_MINSIGSTKSZ), page = 4096;
    frame = frame ? frame : MINSIGSTKSZ;
    size_t whole = (frame + bytes + page - 1) & ~(page - 1);
    char *at = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && !mprotect(at, page, PROT_NONE));
    stack_t s = {.ss_sp = at + page, .ss_size = frame + bytes};
    CHECK(!sigaltstack(&s, NULL));
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = in_a_handler;
    a.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &a, NULL);
    for (int i = 0; i < 300; i++)
        raise(SIGUSR1);
    CHECK(handled == 300);
}

/* ---- what the kernel has of mappings and addresses ---- */

/* 300 blocks, of which some may be refused. */
static void many_blocks(int all)
{
    unsigned char *p[300];
    for (unsigned i = 0; i < 300; i++) {
        p[i] = malloc(20 + i * 3);
        CHECK(p[i] || (!all && errno == ENOMEM));
        if (p[i])
            mark(p[i], 20 + i * 3, (unsigned char)i);
    }
    for (unsigned i = 0; i < 300; i++) {
        if (p[i])
            check(p[i], 20 + i * 3, (unsigned char)i);
        free(p[i]);
    }
}

/* All mappings that a process may have: says how many it could make. With none left malloc may be
 * refused to make its heap longer; with 200 left it may not. */
static void mappings(void)
{
    enum { MOST = 1 << 18 };
    char *at = mmap(NULL, (size_t)MOST * 4096, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        cannot("addresses");
    some_blocks(1);
    int n = 0;
    for (; n < MOST / 2; n++)
        if (mprotect(at + (size_t)n * 8192, 4096, PROT_READ))
            break;
    if (n == MOST / 2)
        cannot("the end of the mappings (vm.max_map_count is high)");
    CHECK(errno == ENOMEM);
    for (unsigned round = 0; round < 20; round++)
        many_blocks(0);
    CHECK(!mprotect(at, 100ul * 8192, PROT_NONE));
    for (unsigned round = 0; round < 20; round++)
        many_blocks(1);
    CHECK(!munmap(at, (size_t)MOST * 4096));
    for (unsigned i = 0; i < 1000; i++)
        some_blocks(i);
    printf("%d\n", n);
}

/* The limit of address space goes down while the program runs, to what 80 MB of blocks still fit
 * in. */
static void less_space(int how)
{
    pthread_t t;
    unsigned char *p[80];
    if (pthread_create(&t, NULL, allocates, NULL))
        cannot("a thread");
    for (unsigned i = 0; i < 2000; i++)
        some_blocks(i);
    struct rlimit l = {400ul << 20, 400ul << 20};
    if (how == 0)
        CHECK(!setrlimit(RLIMIT_AS, &l));
    else if (how == 1)
        CHECK(!prlimit(0, RLIMIT_AS, &l, NULL));
    else
        CHECK(!syscall(SYS_prlimit64, 0, RLIMIT_AS, &l, NULL));
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 80; i++) {
            CHECK(p[i] = malloc(1 << 20));
            mark(p[i], 1 << 20, (unsigned char)i);
        }
        for (unsigned i = 0; i < 80; i++) {
            check(p[i], 1 << 20, (unsigned char)i);
            free(p[i]);
        }
        for (unsigned i = 0; i < 1000; i++)
            some_blocks(i);
    }
    /* and to the end of it */
    void **list = NULL, **more;
    for (unsigned i = 0; (more = malloc(i % 2 ? 1 << 20 : 100)); i++) {
        *more = list;
        list = more;
    }
    CHECK(errno == ENOMEM);
    for (; list; list = more) {
        more = *list;
        free(list);
    }
    some_blocks(3);
    stop = 1;
    pthread_join(t, NULL);
}

/* Locks its memory, as a user without privileges who may lock so many MB; then says how many MB of
 * blocks of 64 KiB it can have. how: 0 mlockall, 1 by way of syscall; -1 privileged. */
static void locked(int megabytes, int how)
{
    struct rlimit l = {(rlim_t)megabytes << 20, (rlim_t)megabytes << 20};
    int flags = MCL_CURRENT | MCL_FUTURE, n = 0;
    void **list = NULL, **more;
    if (how >= 0) {
        if (setrlimit(RLIMIT_MEMLOCK, &l))
            cannot("the limit");
        if (!geteuid() && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
            cannot("another user");
    }
    for (unsigned i = 0; i < 100; i++)
        some_blocks(i);
    if (how == 1 ? syscall(SYS_mlockall, flags) : mlockall(flags))
        cannot("mlockall");
    for (unsigned i = 0; i < 1000; i++)
        some_blocks(i);
    for (; n < 512 && (more = malloc(65536)); n++) {
        memset(more, 3, 65536);
        *more = list;
        list = more;
    }
    for (; list; list = more) {
        more = *list;
        free(list);
    }
    printf("%d\n", n / 16);
}

/* ---- arguments ---- */

static void aligned(void)
{
    static const size_t aligns[] = {8, 16, 64, 4096, 65536, 2ul << 20, 64ul << 20, 1ul << 30},
                        bytes[] = {0, 1, 16, 100, 4096, 100000, 2ul << 20, (2ul << 20) + 1};
    for (size_t a = 0; a < sizeof aligns / sizeof *aligns; a++)
        for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++)
            for (int how = 0; how < 3; how++) {
                unsigned char *p = NULL;
                size_t align = aligns[a], n = bytes[b];
                if (how == 0)
                    CHECK(!posix_memalign((void **)&p, align, n));
                else
                    CHECK(p = how == 1 ? aligned_alloc(align, n) : memalign(align, n));
                CHECK(((uintptr_t)p & (align - 1)) == 0);
                CHECK(malloc_usable_size(p) >= n);
                if (n)
                    mark(p, n, 0x5c);
                if (how == 2 && n) {
                    CHECK(p = realloc(p, n + 5000));
                    check(p, n < 64 ? n : 64, 0x5c);
                }
                free(p);
            }
}

static void extremes(void)
{
    void *p, *q, *same;
    for (int i = 0; i < 100; i++) {
        CHECK((p = malloc(0)) && (q = malloc(0)) && p != q);
        CHECK(p = realloc(p, 10));
        free(p), free(q);
        CHECK((p = calloc(0, 8)) && (q = calloc(8, 0)) && p != q);
        free(p), free(q);
    }
    static const size_t never[] = {PTRDIFF_MAX, PTRDIFF_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
                                   SIZE_MAX,    SIZE_MAX - 4096,    1ul << 62,
                                   1ul << 48};
    CHECK(p = malloc(100));
    mark(p, 100, 9);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
#define REFUSED(call)                                                                              \
    errno = 0;                                                                                     \
    CHECK(!(call) && errno == ENOMEM)
        REFUSED(malloc(never[i]));
        REFUSED(calloc(never[i], 1));
        REFUSED(calloc(1, never[i]));
        REFUSED(realloc(p, never[i]));
        REFUSED(realloc(NULL, never[i]));
        REFUSED(aligned_alloc(64, never[i]));
        REFUSED(memalign(1 << 20, never[i]));
        REFUSED(valloc(never[i]));
        REFUSED(pvalloc(never[i]));
        REFUSED(reallocarray(p, never[i], 1));
        CHECK(posix_memalign(&same, 64, never[i]) == ENOMEM);
    }
    volatile size_t half = 1ul << 33;
    REFUSED(calloc(half, half));
    REFUSED(reallocarray(p, half, half));
    CHECK(posix_memalign(&same, 3, 8) == EINVAL);
    CHECK(posix_memalign(&same, 0, 8) == EINVAL);
    check(p, 100, 9);
    free(p);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    for (unsigned i = 0; i < 100; i++)
        some_blocks(i);
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    prepare_threads();
    if (!strcmp(m, "cut"))
        cancels(cut_in_two, n);
    else if (!strcmp(m, "computing"))
        cancels(computing, n);
    else if (!strcmp(m, "pending"))
        cancels(pending, n);
    else if (!strcmp(m, "crowd"))
        crowd(n);
    else if (!strcmp(m, "stream"))
        stream(n);
    else if (!strcmp(m, "resizing"))
        resizing();
    else if (!strcmp(m, "forks"))
        forks(n);
    else if (!strcmp(m, "small-stack"))
        on_a_small_stack((size_t)n);
    else if (!strcmp(m, "mappings"))
        mappings();
    else if (!strcmp(m, "space"))
        less_space(n);
    else if (!strcmp(m, "locked"))
        locked(n, argc > 3 ? atoi(argv[3]) : 0);
    else if (!strcmp(m, "aligned"))
        aligned();
    else if (!strcmp(m, "extremes"))
        extremes();
    else
        return 2;
    printf("whole\n");
    return 0;
}
