/* hostile.c - a program that is attached to at its worst moments. Usage: hostile PLUGIN MODE...
 *
 * Each MODE is a thread (or several) that does one thing without end and checks what it sees; the
 * main thread prints a line of counts whenever it reads one, "quit" ends it. Whatever is not as it
 * would be alone is printed as "WRONG ..." and ends the program with status 3. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *plugin;
static volatile int stop;
#define MODES 28
static struct mode {
    const char *name;
    void (*work)(struct mode *);
    int threads;
    volatile uint64_t count;
} modes[];

#define CHECK(what, condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(1, "WRONG %s: %s (line %d, errno %d)\n", what, #condition, __LINE__, errno);   \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Blocks of a ring, each filled with its own pattern. */
#define RING 512
static void churn(struct mode *m)
{
    static __thread struct {
        unsigned char *p;
        size_t n;
    } ring[RING];
    uint64_t x = now_ns() | 1;
    while (!stop) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        unsigned i = x % RING;
        size_t n = (x >> 20) % 100 ? (x >> 20) % 900 + 1 : (x >> 20) % 300000 + 1;
        if (ring[i].p) {
            CHECK(m->name, ring[i].p[0] == (unsigned char)i);
            CHECK(m->name, ring[i].p[ring[i].n - 1] == (unsigned char)(i + 1) || ring[i].n == 1);
        }
        switch ((x >> 50) % 6) {
        case 0:
            free(ring[i].p);
            ring[i].p = calloc(1, n);
            break;
        case 1: ring[i].p = realloc(ring[i].p, n); break;
        case 2:
            free(ring[i].p);
            CHECK(m->name, !posix_memalign((void **)&ring[i].p, 64, n));
            break;
        case 3:
            free(ring[i].p);
            ring[i].p = aligned_alloc(4096, (n + 4095) & ~4095ul);
            break;
        case 4: ring[i].p = reallocarray(ring[i].p, n, 1); break;
        default:
            free(ring[i].p);
            ring[i].p = malloc(n);
            break;
        }
        CHECK(m->name, ring[i].p);
        ring[i].n = n;
        ring[i].p[n - 1] = (unsigned char)(i + 1);
        ring[i].p[0] = (unsigned char)i;
        m->count++;
    }
    for (unsigned i = 0; i < RING; i++) {
        free(ring[i].p);
        ring[i].p = 0;
    }
}

static void loading(struct mode *m)
{
    while (!stop) {
        void *h = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        CHECK(m->name, h);
        void *(*make)(size_t) = (void *(*)(size_t))dlsym(h, "plugin_make");
        CHECK(m->name, make);
        void *p = make(100);
        CHECK(m->name, p);
        free(p);
        void *(*found)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
        p = found(77);
        CHECK(m->name, p);
        free(p);
        CHECK(m->name, !dlclose(h));
        m->count++;
    }
}

static void forking(struct mode *m)
{
    while (!stop) {
        int status;
        pid_t child = fork();
        CHECK(m->name, child >= 0);
        if (!child) {
            void *p[64];
            for (int i = 0; i < 64; i++)
                p[i] = malloc(1000 + (size_t)i * 100);
            for (int i = 0; i < 64; i++)
                free(p[i]);
            _exit(7);
        }
        CHECK(m->name, waitpid(child, &status, 0) == child);
        CHECK(m->name, WIFEXITED(status) && WEXITSTATUS(status) == 7);
        m->count++;
    }
}

static void executing(struct mode *m)
{
    extern char **environ;
    while (!stop) {
        int status;
        pid_t child = vfork();
        CHECK(m->name, child >= 0);
        if (!child) {
            execle("/bin/true", "true", (char *)0, environ);
            _exit(127);
        }
        CHECK(m->name, waitpid(child, &status, 0) == child);
        CHECK(m->name, WIFEXITED(status) && WEXITSTATUS(status) == 0);
        m->count++;
    }
}

static volatile uint64_t signals;
static void on_signal(int number)
{
    (void)number;
    signals++;
}

/* A timer of 200 us, whose handler interrupts this thread in the allocator and in system calls. */
static void signaled(struct mode *m)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &act, 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    event._sigev_un._tid = gettid();
    struct itimerspec every = {{0, 200000}, {0, 200000}};
    timer_t timer;
    CHECK(m->name, !timer_create(CLOCK_MONOTONIC, &event, &timer));
    timer_settime(timer, 0, &every, 0);
    while (!stop) {
        struct timespec t = {0, 1000000};
        int r = nanosleep(&t, 0);
        CHECK(m->name, r == 0 || errno == EINTR);
        void *p[100];
        for (int i = 0; i < 100; i++)
            p[i] = malloc((size_t)i * 50 + 1);
        for (int i = 0; i < 100; i++)
            free(p[i]);
        m->count++;
    }
    timer_delete(timer);
}

static timer_t alarm_clock;
static void wake_later(void)
{
    const struct itimerspec once = {{0, 0}, {0, 5000000}};
    timer_settime(alarm_clock, 0, &once, 0);
}
static void doze(int number)
{
    const struct timespec t = {0, 200000000};
    const int saved = errno;
    (void)number;
    nanosleep(&t, 0);
    wake_later();
    errno = saved;
}

/* A handler that interrupts calls of the allocator, and takes long. */
static void dozing(struct mode *m)
{
    struct sigaction act = {.sa_handler = doze, .sa_flags = SA_RESTART};
    sigaction(SIGUSR2, &act, 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
    event._sigev_un._tid = gettid();
    CHECK(m->name, !timer_create(CLOCK_MONOTONIC, &event, &alarm_clock));
    wake_later();
    while (!stop) {
        for (size_t i = 0; i < 1000; i++)
            free(malloc(i + 1));
        m->count++;
    }
    timer_delete(alarm_clock);
}

static volatile int sink;
static int deep(struct mode *m, int n)
{
    volatile char text[64];
    memset((char *)text, n, sizeof text);
    void *p = n % 16 ? 0 : malloc(200);
    int r = n ? deep(m, n - 1) : 0;
    free(p);
    CHECK(m->name, text[5] == (char)n);
    return r + text[0];
}
static void recursing(struct mode *m)
{
    while (!stop) {
        sink = deep(m, 3000);
        m->count++;
    }
}

static __thread jmp_buf back;
static volatile int bottom;
static int leap(int n)
{
    free(malloc(50));
    if (n == bottom)
        longjmp(back, 1);
    if (n < 0)
        return 0;
    return leap(n - 1) + 1;
}
static void jumping(struct mode *m)
{
    while (!stop) {
        if (!setjmp(back))
            sink = leap(20);
        m->count++;
    }
}

/* Registers, floating-point state and errno over a loop without calls. */
static void computing(struct mode *m)
{
    while (!stop) {
        double a = 1, b = 1, c = 0.25;
        uint64_t h = 1;
        errno = 4711;
        for (int i = 0; i < 20000; i++) {
            a = a * 1.0000001 + c;
            b = sqrt(a) + b * 0.5;
            h = (h ^ (uint64_t)i) * 0x9e3779b97f4a7c15;
        }
        CHECK(m->name, errno == 4711);
        static double first_a, first_b;
        static uint64_t first_h;
        if (!first_h)
            first_a = a, first_b = b, first_h = h;
        CHECK(m->name, a == first_a && b == first_b && h == first_h);
        m->count++;
    }
}

static void sleep_for(struct mode *m, uint64_t ns)
{
    while (!stop) {
        const struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        const uint64_t began = now_ns();
        CHECK(m->name, nanosleep(&t, 0) == 0);
        CHECK(m->name, now_ns() - began >= ns);
        m->count++;
    }
}
static void sleeping(struct mode *m) { sleep_for(m, 30000000); }
static void resting(struct mode *m) { sleep_for(m, 4000000000); }

/* Its registers and its stack say how often it has slept. */
static void counting(struct mode *m)
{
    for (uint64_t i = 0; !stop; i++) {
        struct timespec t = {0, 1000000};
        CHECK(m->name, m->count == i);
        CHECK(m->name, nanosleep(&t, 0) == 0);
        m->count++;
    }
}

static void polling(struct mode *m)
{
    int p[2];
    CHECK(m->name, !pipe(p));
    struct pollfd fd = {.fd = p[0], .events = POLLIN};
    while (!stop) {
        uint64_t began = now_ns();
        int r = poll(&fd, 1, 25);
        CHECK(m->name, r == 0);
        CHECK(m->name, now_ns() - began >= 24000000);
        m->count++;
    }
}

static void epolling(struct mode *m)
{
    int e = epoll_create1(0);
    struct epoll_event event;
    while (!stop) {
        CHECK(m->name, epoll_wait(e, &event, 1, 20) == 0);
        m->count++;
    }
}

static int wire[2];
static void reading(struct mode *m)
{
    while (!stop) {
        char byte = 0;
        errno = 0;
        ssize_t n = read(wire[0], &byte, 1);
        CHECK(m->name, n == 1 && byte == 'x');
        m->count++;
    }
}
static void writing(struct mode *m)
{
    while (!stop) {
        struct timespec t = {0, 15000000};
        nanosleep(&t, 0);
        CHECK(m->name, write(wire[1], "x", 1) == 1);
        m->count++;
    }
    for (int i = 0; i < 4; i++)
        CHECK(m->name, write(wire[1], "x", 1) == 1);
}

static void failing(struct mode *m)
{
    while (!stop) {
        errno = 0;
        void *p = malloc((size_t)1 << 62);
        CHECK(m->name, !p && errno == ENOMEM);
        errno = 0;
        CHECK(m->name, close(-1) == -1 && errno == EBADF);
        struct timespec t = {0, 2000000};
        nanosleep(&t, 0);
        m->count++;
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static void waiting(struct mode *m)
{
    while (!stop) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 20000000;
        if (t.tv_nsec >= 1000000000)
            t.tv_sec++, t.tv_nsec -= 1000000000;
        pthread_mutex_lock(&lock);
        int r = pthread_cond_timedwait(&cond, &lock, &t);
        pthread_mutex_unlock(&lock);
        CHECK(m->name, r == ETIMEDOUT);
        m->count++;
    }
}

static void *short_life(void *p)
{
    free(p);
    return malloc(333);
}
static void threading(struct mode *m)
{
    while (!stop) {
        pthread_t t;
        void *back_ = 0;
        CHECK(m->name, !pthread_create(&t, 0, short_life, malloc(444)));
        CHECK(m->name, !pthread_join(t, &back_));
        free(back_);
        m->count++;
    }
}

/* Threads that are hardly there, and none that waits for them. */
static void *no_life(void *begun)
{
    *(volatile int *)begun = 1;
    return 0;
}
static void ending(struct mode *m)
{
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    while (!stop) {
        pthread_t t;
        volatile int begun = 0;
        CHECK(m->name, !pthread_create(&t, &how, no_life, (void *)&begun));
        while (!begun)
            ;
        m->count++;
    }
}

/* Each time that it is let, a thread ends; who waits for that is in a call that none is borrowed
 * in. */
static int let_go[2], passed[2];
static void await_byte(int fd)
{
    struct pollfd there = {.fd = fd, .events = POLLIN};
    char byte;
    while (poll(&there, 1, -1) != 1)
        ;
    (void)!read(fd, &byte, 1);
}
static void *passes(void *p)
{
    await_byte(let_go[0]);
    (void)!write(passed[1], "x", 1);
    return p;
}
static void passing(struct mode *m)
{
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    while (!stop) {
        pthread_t t;
        char byte;
        const struct iovec to = {&byte, 1};
        CHECK(m->name, !pthread_create(&t, &how, passes, 0));
        CHECK(m->name, readv(passed[0], &to, 1) == 1);
        m->count++;
    }
}

/* Each time that it is let, a thread gets a signal. One that comes while the thread is borrowed, by
 * an attacher that is late, is handled before the call begins again. */
static volatile int fired;
static pthread_t alarmed_thread;
static void on_fired(int number)
{
    (void)number;
    fired = 1;
}
static void alarmed(struct mode *m)
{
    const struct sigaction act = {.sa_handler = on_fired};
    sigaction(SIGUSR1, &act, 0);
    alarmed_thread = pthread_self();
    while (!stop) {
        poll(0, 0, 2000);
        m->count += (uint64_t)fired;
        fired = 0;
    }
}
static void let(void)
{
    if (alarmed_thread)
        pthread_kill(alarmed_thread, SIGUSR1);
    else
        CHECK("main", write(let_go[1], "x", 1) == 1);
}

static void printing(struct mode *m)
{
    while (!stop) {
        char *text = 0, *more;
        CHECK(m->name, asprintf(&text, "%d %s %f", 42, "text", 1.5) > 0);
        CHECK(m->name, !strcmp(text, "42 text 1.500000"));
        more = strdup(text);
        CHECK(m->name, more && !strcmp(more, text));
        free(text);
        free(more);
        FILE *f = fopen("/proc/self/stat", "r");
        CHECK(m->name, f);
        fclose(f);
        m->count++;
    }
}

__attribute__((noinline)) static void *leaks_here(void) { return malloc(2000); }
/* Not more than 200 MB, which take 20 s: on a busy machine it is attached to and left meanwhile. */
static void leaking(struct mode *m)
{
    enum { MOST = 100000 };
    static void *kept[MOST];
    while (!stop) {
        struct timespec t = {0, 2000000};
        nanosleep(&t, 0);
        for (int i = 0; i < 10 && m->count < MOST; i++)
            kept[m->count++] = leaks_here();
    }
    for (uint64_t i = 0; i < m->count; i++)
        free(kept[i]);
}

static struct mode modes[MODES] = {
    {"leaking", leaking, 1, 0},     {"churn", churn, 4, 0},         {"loading", loading, 1, 0},
    {"forking", forking, 1, 0},     {"executing", executing, 1, 0}, {"signaled", signaled, 1, 0},
    {"recursing", recursing, 1, 0}, {"jumping", jumping, 1, 0},     {"computing", computing, 1, 0},
    {"sleeping", sleeping, 1, 0},   {"polling", polling, 1, 0},     {"epolling", epolling, 1, 0},
    {"reading", reading, 1, 0},     {"writing", writing, 1, 0},     {"failing", failing, 1, 0},
    {"waiting", waiting, 1, 0},     {"threading", threading, 1, 0}, {"printing", printing, 1, 0},
    {"dozing", dozing, 1, 0},       {"counting", counting, 1, 0},   {"ending", ending, 3, 0},
    {"passing", passing, 1, 0},     {"alarmed", alarmed, 1, 0},     {"resting", resting, 1, 0},
};

static void *run(void *arg)
{
    struct mode *m = arg;
    m->work(m);
    return 0;
}

/* ---- asked by a line ---- */

static void *volatile held[300];
__attribute__((noinline)) static void child_holds(void)
{
    for (int i = 0; i < 300; i++)
        held[i] = malloc(10000);
}
__attribute__((noinline)) static void successor_holds(void)
{
    for (int i = 0; i < 300; i++)
        held[i] = malloc(10000);
}

static void stay(void)
{
    printf("here %d\n", (int)getpid());
    for (;;)
        pause();
}

static void obey(const char *line, char **argv)
{
    Dl_info info;
    if (!strcmp(line, "fork\n") && !fork()) {
        child_holds();
        stay();
    } else if (!strcmp(line, "exec\n") && !fork()) {
        execl("/proc/self/exe", argv[0], plugin, "successor", (char *)0);
        _exit(127);
    } else if (!strcmp(line, "where\n")) {
        CHECK("main", dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info));
        printf("%s\n", info.dli_fname);
    } else if (!strcmp(line, "filter\n")) {
        struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
        struct sock_fprog program = {1, &allow};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        CHECK("main", !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
        printf("filtered\n");
    } else if (!strcmp(line, "let\n")) {
        let();
        printf("it is let\n");
    } else if (!strcmp(line, "count\n")) {
        for (struct mode *m = modes; m->name; m++)
            printf("%s%s=%llu", m == modes ? "" : " ", m->name, (unsigned long long)m->count);
        printf("\n");
    }
}

/* In a call that no thread is borrowed in: it is to be one of the others. */
static int read_line(char *to, size_t room)
{
    size_t n = 0;
    while (n + 1 < room && (!n || to[n - 1] != '\n')) {
        const struct iovec byte = {to + n, 1};
        if (readv(0, &byte, 1) != 1)
            return 0;
        n++;
    }
    to[n] = 0;
    return 1;
}

int main(int argc, char **argv)
{
    pthread_t thread[64];
    unsigned threads = 0;
    char line[64];
    plugin = argv[1];
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 2 && !strcmp(argv[2], "successor")) {
        successor_holds();
        stay();
    }
    CHECK("main", !pipe(wire) && !pipe(let_go) && !pipe(passed));
    for (int i = 2; i < argc; i++)
        for (struct mode *m = modes; m->name; m++)
            for (int k = 0; !strcmp(m->name, argv[i]) && k < m->threads; k++)
                CHECK("main", !pthread_create(&thread[threads++], 0, run, m));
    printf("ready\n");
    while (read_line(line, sizeof line) && strcmp(line, "quit\n") != 0)
        obey(line, argv);
    stop = 1;
    let();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], 0);
    printf("bye\n");
    return 0;
}
