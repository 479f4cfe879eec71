/* odd.c - programs that would notice a guest: they look at what they were given, use up what there
 * is once, or count on what no manual promises. `odd MODE`; each prints the same every time. Those
 * in nasty.c do things to the process; these ask it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void broken(const char *what)
{
    fprintf(stderr, "broken: %s (%s)\n", what, strerror(errno));
    _exit(1);
}

static unsigned entries_of(const char *directory)
{
    unsigned n = 0;
    DIR *d = opendir(directory);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void work(unsigned n)
{
    void *p[64] = {0};
    for (unsigned i = 0; i < n; i++) {
        unsigned k = i * 7 % 64;
        p[k] = realloc(p[k], i * 37 % 5000 + 1);
        if (!p[k])
            broken("no memory");
        memset(p[k], (int)i, i * 37 % 5000 + 1);
        if (i % 3 == 0)
            free(p[k]), p[k] = 0;
    }
    for (unsigned k = 0; k < 64; k++)
        free(p[k]);
}

/* 1. What it was born with: signals, limits, mask, environment. */
static int inherits(void)
{
    sigset_t mask;
    struct sigaction a;
    struct rlimit l;
    sigprocmask(SIG_BLOCK, 0, &mask);
    for (int n = 1; n < 65; n++)
        if (!sigaction(n, 0, &a))
            printf("%d:%d%d%x ", n, a.sa_handler != SIG_DFL, sigismember(&mask, n),
                   (unsigned)a.sa_flags & 0xffff);
    stack_t alternate;
    sigaltstack(0, &alternate);
    printf("\n%d ", alternate.ss_flags);
    for (int r = 0; r < RLIM_NLIMITS; r++)
        if (!getrlimit((__rlimit_resource_t)r, &l))
            printf("%lx/%lx ", (unsigned long)l.rlim_cur, (unsigned long)l.rlim_max);
    printf("\n%o %d %x %d %d %d\n", umask(0), getpriority(PRIO_PROCESS, 0),
           (unsigned)personality(0xffffffff), prctl(PR_GET_DUMPABLE),
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_TIMERSLACK) == 50000);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "LD_PRELOAD=", 11) && strncmp(*e, "MALLOW_", 7) && strncmp(*e, "_=", 2))
            puts(*e);
    return 0;
}

/* 2. What it has: descriptors, threads, children, a tracer; which number the next descriptor gets.
 */
static int counts(void)
{
    printf("tasks %u ", entries_of("/proc/self/task"));
    work(3000);
    const int fd = open("/dev/null", O_RDONLY), second = dup(fd);
    printf("next %d %d ", fd, second);
    close(second);
    close(fd);
    errno = 0;
    const pid_t child = waitpid(-1, 0, WNOHANG | __WALL);
    printf("child %d %d ", (int)child, errno == ECHILD);
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "TracerPid:", 10) || !strncmp(line, "Threads:", 8))
            line[strcspn(line, "\n")] = 0, printf("%s ", line);
    if (f)
        fclose(f);
    printf("may be traced %ld\n", (long)ptrace(PTRACE_TRACEME, 0, 0, 0));
    return 0;
}

/* 3. dlerror says what the last dl function of the program had to say, whatever it called since. */
static int complains(void)
{
    const char *first = dlerror();
    printf("at the start: %s\n", first ? first : "nothing");
    struct rlimit l;
    struct sigaction a;
    for (int i = 0; i < 9; i++) {
        dlsym(RTLD_DEFAULT, "there_is_no_such_function");
        switch (i) {
        case 0: work(3000); break;
        case 1: prctl(PR_GET_DUMPABLE); break;
        case 2: syscall(SYS_getpid); break;
        case 3: sigaction(SIGSEGV, 0, &a); break;
        case 4: getrlimit(RLIMIT_AS, &l), setrlimit(RLIMIT_AS, &l); break;
        case 5: signal(SIGUSR1, SIG_IGN); break;
        case 6: execl("/nowhere/at/all", "x", (char *)0); break;
        case 7: {
            pid_t p = fork();
            if (!p)
                _exit(0);
            waitpid(p, 0, 0);
            break;
        }
        case 8: munmap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096); break;
        }
        const char *text = dlerror();
        printf("%d: %s\n", i,
               text && strstr(text, "there_is_no_such_function") ? "says it" : "says nothing");
    }
    return 0;
}

/* 4. errno after each call, be it done or refused. */
static int errnos(void)
{
    static char *const none[] = {"x", 0};
    struct rlimit l = {5, 4};
    void *volatile p;
    for (int i = 0; i < 400; i++) {
        int n = 0;
        const volatile size_t huge = SIZE_MAX / 2 - 4096 * (size_t)i;
#define AFTER(call)                                                                                \
    do {                                                                                           \
        errno = 1234;                                                                              \
        (void)!(call);                                                                             \
        if (i % 100 == 0)                                                                          \
            printf("%d:%d ", n, errno);                                                            \
        n++;                                                                                       \
    } while (0)
        AFTER(p = malloc((size_t)i + 1));
        AFTER(p = realloc(p, 5000 + (size_t)i));
        AFTER(realloc(p, huge));
        AFTER((free(p), 0));
        AFTER(p = calloc(100, (size_t)i + 1));
        AFTER((free(p), 0));
        AFTER(malloc(huge));
        AFTER(calloc(huge, 3));
        AFTER(reallocarray(0, huge, 3));
        AFTER(aligned_alloc(64, huge));
        AFTER(posix_memalign((void **)&p, 64, huge));
        AFTER(posix_memalign((void **)&p, 3, 10));
        AFTER(p = malloc(300000));
        AFTER((free(p), 0));
        if (i % 100)
            continue;
        AFTER(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        AFTER(munmap((void *)1, 1));
        AFTER(prctl(-1, 0, 0, 0, 0));
        AFTER(syscall(-5));
        AFTER(setrlimit(RLIMIT_CORE, &l));
        AFTER(sigaction(999, 0, 0));
        AFTER(signal(SIGKILL, SIG_IGN) == SIG_ERR);
        AFTER(execv("/nowhere/at/all", none));
        AFTER(execvp("nowhere-at-all", none));
        pid_t pid;
        AFTER(posix_spawn(&pid, "/nowhere/at/all", 0, 0, none, environ));
        AFTER(sbrk(0) == 0);
        printf("\n");
    }
    return 0;
}

/* 5. Address space: half of all there is, in one piece, as shadows and cages of languages want it.
 */
static int reserves(void)
{
    work(20000);
    void *p = mmap(0, 1ul << 46, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    printf("64 TiB: %d\n", p != MAP_FAILED);
    work(20000);
    if (p != MAP_FAILED)
        munmap(p, 1ul << 46);
    for (uint64_t at = 1ul << 32; at < 1ul << 46; at <<= 1) { /* where others have them at */
        p = mmap((void *)at, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                 -1, 0);
        printf("%d", p == (void *)at);
    }
    puts("");
    return 0;
}

/* 6. Pages of blocks that a child does not get, or gets wiped: only those are the program's. */
static int keeps_back(void)
{
    static const int advice[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP, MADV_COLD};
    for (unsigned k = 0; k < sizeof advice / sizeof *advice; k++) {
        char *block[40], *other[40];
        for (unsigned i = 0; i < 40; i++) {
            block[i] = aligned_alloc(4096, 8192);
            other[i] = malloc(100 + i);
            memset(block[i], 7, 8192);
            memset(other[i], 9, 100 + i);
            if (madvise(block[i], 8192, advice[k]) && k < 3)
                broken("madvise");
        }
        pid_t p = fork();
        if (!p) {
            work(5000);
            for (unsigned i = 0; i < 40; i++) {
                for (unsigned b = 0; b < 100 + i; b++)
                    if (other[i][b] != 9)
                        _exit(2);
                free(other[i]);
            }
            _exit(0);
        }
        int status;
        waitpid(p, &status, 0);
        printf("%d ", status);
        for (unsigned i = 0; i < 40; i++) {
            madvise(block[i], 8192, MADV_DOFORK);
            if (advice[k] == MADV_WIPEONFORK)
                madvise(block[i], 8192, MADV_KEEPONFORK);
            free(block[i]);
            free(other[i]);
        }
        work(1000);
    }
    puts("");
    return 0;
}

static volatile unsigned ticks, shallow;

static void on_tick(int n)
{
    void *frames[64];
    (void)n;
    const int depth = backtrace(frames, 64);
    ticks++;
    shallow += depth < 4;
}

/* 7. A profiler of its own: a thousand times a second a handler walks the stack, also out of the
 * allocator. */
static int profiles(void)
{
    void *once[4];
    backtrace(once, 4); /* loads libgcc */
    struct sigaction a = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGPROF, &a, 0);
    setitimer(ITIMER_PROF, &every, 0);
    while (ticks < 200)
        work(500);
    setitimer(ITIMER_PROF, &never, 0);
    printf("cut off: %d\n", shallow > ticks / 4);
    return 0;
}

/* 8. What glibc says of its own heap: blocks that the program has are in it. */
static int asks_glibc(void)
{
    static void *p[1000];
    for (unsigned i = 0; i < 1000; i++) /* other blocks than these are there already */
        p[i] = malloc(2000);
    const struct mallinfo2 full = mallinfo2();
    for (unsigned i = 0; i < 1000; i++)
        free(p[i]);
    const struct mallinfo2 empty = mallinfo2();
    printf("%d\n", full.uordblks - empty.uordblks >= 1000 * 2000 - 100 * 2016);
    char *text = 0;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    printf("%d ", malloc_info(0, f));
    fclose(f);
    printf("%d %d %d\n", strstr(text, "</malloc>") != 0, malloc_trim(0) >= 0,
           mallopt(M_MMAP_THRESHOLD, 65536));
    free(text);
    return 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *names)
{
    (void)size;
    if (!strstr(info->dlpi_name, "libmallow"))
        printf("%s ",
               strrchr(info->dlpi_name, '/') ? strrchr(info->dlpi_name, '/') + 1 : info->dlpi_name);
    (*(unsigned *)names)++;
    return 0;
}

/* 9. The list of libraries: its own stand in it as alone, in the same order; malloc is one
 * function, whichever way it is asked for. */
static int lists(void)
{
    unsigned n = 0;
    dl_iterate_phdr(visit, &n);
    void *by_name = dlsym(RTLD_DEFAULT, "malloc"),
         *by_handle = dlsym(dlopen(0, RTLD_NOW), "malloc");
    Dl_info info;
    printf("\n%d %d %d\n", by_name == (void *)(uintptr_t)malloc, by_handle == by_name,
           dladdr((void *)(uintptr_t)lists, &info) && info.dli_fbase);
    for (struct link_map *m = _r_debug.r_map; m; m = m->l_next)
        if ((m->l_next && m->l_next->l_prev != m) || (m->l_prev && m->l_prev->l_next != m))
            broken("the list of libraries");
    return 0;
}

static unsigned destroyed;

static void destroy(void *p)
{
    free(p);
    free(malloc(100));
    destroyed++;
}

static void *with_keys(void *keys)
{
    for (unsigned i = 0; i < 900; i++)
        pthread_setspecific(((pthread_key_t *)keys)[i], malloc(i + 1));
    return 0;
}

/* 10. Nine hundred of the 1024 keys that a process may have, with destructors that allocate;
 * threads on the least of stacks. */
static int keys(void)
{
    static pthread_key_t key[900];
    pthread_attr_t least;
    pthread_attr_init(&least);
    pthread_attr_setstacksize(&least, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    for (unsigned i = 0; i < 900; i++)
        if (pthread_key_create(&key[i], destroy))
            broken("a key");
    for (unsigned i = 0; i < 20; i++) {
        pthread_t t;
        if (pthread_create(&t, &least, with_keys, key) || pthread_join(t, 0))
            broken("a thread");
    }
    printf("%u\n", destroyed);
    return 0;
}

/* ---- system calls by syscall(2) ---- */

#define ON_STACK_BYTES 65536

static volatile int ran;

static void on_own_stack(void)
{
    ran = 1;
    for (;;)
        syscall(SYS_exit, 7);
}

/* clone onto another stack returns there, to what lies on top of it. */
static void clones(void)
{
    char *stack =
        mmap(NULL, ON_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (**top)(void) = (void (**)(void))(stack + ON_STACK_BYTES - 64);
    int status;
    *top = on_own_stack;
    long child = syscall(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, top, 0, 0, 0);
    if (child < 0 || waitpid((pid_t)child, &status, 0) != child)
        broken("clone");
    printf("clone: ran %d, status %d\n", ran, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    munmap(stack, ON_STACK_BYTES);
}

static int result(long r) { return r == -1 ? -errno : r != 0; }

static int asks_kernel(void)
{
    enum { PAGE = 4096, EACH = PROT_READ | PROT_WRITE };
    char name[] = "/tmp/odd-XXXXXX", *p, *q;
    const int fd = mkstemp(name);
    if (fd < 0 || unlink(name) || ftruncate(fd, 3 * PAGE) || pwrite(fd, "second", 6, PAGE) != 6 ||
        pwrite(fd, "third", 5, 2 * PAGE) != 5)
        broken("a file");
    errno = 77;
    p = (char *)syscall(SYS_mmap, NULL, PAGE, EACH, MAP_SHARED, fd, (off_t)2 * PAGE);
    printf("the sixth argument: %s, errno %d\n", p, errno);
    q = (char *)syscall(SYS_mmap, NULL, 4 * PAGE, EACH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    printf("there: %d\n",
           syscall(SYS_mmap, q, PAGE, EACH, MAP_SHARED | MAP_FIXED, fd, (off_t)PAGE) == (long)q &&
               !strcmp(q, "second"));
    printf("moved: %d, errno %d\n",
           syscall(SYS_mremap, p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q + PAGE) ==
                   (long)(q + PAGE) &&
               !strcmp(q + PAGE, "third"),
           errno);
    printf("refused: %d",
           result(syscall(SYS_mmap, NULL, 0, EACH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L)));
    printf(" %d", result(syscall(SYS_munmap, q + 1, PAGE)));
    printf(" %d", result(syscall(SYS_mremap, q, PAGE, 0, 0)));
    printf(" %d\n", result(syscall(-5)));
    errno = 77;
    printf("unmapped: %ld, errno %d\n", syscall(SYS_munmap, q, 4 * PAGE), errno);
    printf("the break: %d\n", (void *)syscall(SYS_brk, NULL) == sbrk(0));
    printf("who: %d\n", syscall(SYS_getpid) == getpid());
    close(fd);
    clones();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"inherits", inherits}, {"counts", counts},          {"complains", complains},
                 {"errnos", errnos},     {"reserves", reserves},      {"keeps-back", keeps_back},
                 {"profiles", profiles}, {"asks-glibc", asks_glibc},  {"lists", lists},
                 {"keys", keys},         {"asks-kernel", asks_kernel}};
    if (argc > 2) { /* attached to meanwhile */
        puts("ready");
        fflush(stdout);
        getchar();
    }
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, argv[1]))
            return modes[i].run();
    return 2;
}
