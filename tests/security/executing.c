/* executing.c - a process that becomes another one while it is attached to.
 *
 * executing first PROGRAM  the first thread waits; another one looks at its state, and executes
 * PROGRAM once a tracer has stopped it executing other PROGRAM  the same of a thread that is not
 * the first, which runs executing copied PROGRAM  executes PROGRAM once it has a child, which it
 * did not make: the copy that `mallow heap` reads; its mappings are where stacks of programs are
 * executing busy           16 threads allocate without a pause, half of them on their way into the
 * kernel executing again          executes itself every 20 ms, while threads allocate executing
 * churn          threads come and go, and thousands of mappings executing stuck          its only
 * thread waits in vfork, and does not stop for a tracer, until its input ends executing later of
 * its input, 'u' leads into a signal handler, where no thread can be borrowed, and 's' out of it
 * executing rests          (setuid) says that it is here, and whether a signal hit it until its
 * input ends */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int waiting;

static void *wait_on(void *arg)
{
    waiting = (int)syscall(SYS_gettid);
    for (;;) {
        free(malloc(64));
        usleep(50000);
    }
    return arg;
}

static void *execute(void *program)
{
    char name[64], text[512];
    while (!waiting)
        ;
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", waiting);
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    for (;;) {
        const ssize_t n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = 0;
        const char *at = strrchr(text, ')');
        if (at && at[2] == 't')
            break;
    }
    execl(program, program, "rests", (char *)0);
    _exit(98);
}

static void reserve_stacks(void)
{
    enum { BYTES = 16 << 20 };
    for (uint64_t at = 0x7ffc00000000; at < 0x7fffff000000; at += BYTES)
        mmap((void *)at, BYTES, PROT_NONE, // NOLINT
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

static void *execute_copied(void *program)
{
    char name[64], c;
    snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)getpid());
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    while (pread(fd, &c, 1, 0) <= 0)
        ;
    execl(program, program, "rests", (char *)0);
    _exit(98);
}

static void *allocate(void *arg)
{
    for (unsigned i = 0;; i++) {
        free(malloc(100 + i % 5000));
        if (arg)
            syscall(SYS_sched_yield);
    }
    return arg;
}

static void *execute_again(void *arg)
{
    usleep(20000);
    execl("/proc/self/exe", "executing", "again", "quiet", (char *)0);
    return arg;
}

static void *end_at_once(void *arg)
{
    free(malloc(64));
    return arg;
}

static void *make_threads(void *arg)
{
    enum { THREADS = 32 };
    for (pthread_t t[THREADS];;) {
        unsigned made = 0;
        while (made < THREADS && !pthread_create(&t[made], 0, end_at_once, 0))
            made++;
        while (made)
            pthread_join(t[--made], 0);
    }
    return arg;
}

static void *make_mappings(void *arg)
{
    enum { MAPPINGS = 8192 };
    static char *at[MAPPINGS];
    for (unsigned i = 0;; i = i * 5 + 1) {
        char **const m = &at[i % MAPPINGS];
        if (*m)
            munmap(*m, 4096);
        *m = mmap(0, 4096, i & 8 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0);
        if (*m == MAP_FAILED)
            *m = 0;
    }
    return arg;
}

static void wait_in_vfork(void)
{
    if (!vfork()) {
        char c;
        while (read(0, &c, 1) > 0)
            ;
        _exit(0);
    }
}

static void handle_until_safe(int number)
{
    static const char unsafe[] = "unsafe\n", safe[] = "safe\n";
    char c = 0;
    (void)number;
    write(1, unsafe, sizeof unsafe - 1);
    while (read(0, &c, 1) > 0 && c != 's')
        ;
    if (c == 's')
        write(1, safe, sizeof safe - 1);
}

static void hit(int number)
{
    static const char text[] = "hit\n";
    (void)number;
    write(1, text, sizeof text - 1);
    _exit(99);
}

int main(int argc, char **argv)
{
    pthread_t t;
    const int other = argc > 2 && !strcmp(argv[1], "other");
    if (argc > 2 && !strcmp(argv[1], "copied")) {
        reserve_stacks();
        for (unsigned i = 0; i < 400000; i++)
            *(void *volatile *)malloc(100) = &t;
        pthread_create(&t, 0, execute_copied, argv[2]);
    } else if (argc > 1 && !strcmp(argv[1], "again")) {
        for (long i = 0; i < 3; i++)
            pthread_create(&t, 0, i ? allocate : execute_again, (void *)(i & 1));
    } else if (argc > 2) {
        if (other)
            pthread_create(&t, 0, wait_on, 0);
        else
            waiting = getpid();
        pthread_create(&t, 0, execute, argv[2]);
    } else if (argc > 1 && !strcmp(argv[1], "busy")) {
        for (long i = 0; i < 16; i++)
            pthread_create(&t, 0, allocate, (void *)(i & 1));
    } else if (argc > 1 && !strcmp(argv[1], "churn")) {
        pthread_create(&t, 0, make_threads, 0);
        pthread_create(&t, 0, make_mappings, 0);
    } else if (argc > 1 && !strcmp(argv[1], "later")) {
        signal(SIGUSR1, handle_until_safe);
    } else if (argc > 1 && strcmp(argv[1], "stuck") != 0) {
        for (int s = SIGILL; s <= SIGTERM; s++)
            signal(s, hit);
    }
    if (argc < 3 || strcmp(argv[2], "quiet") != 0)
        puts("here");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "stuck"))
        wait_in_vfork();
    while (other)
        sched_yield();
    char c;
    while (read(0, &c, 1) > 0)
        if (c == 'u')
            raise(SIGUSR1);
    puts("whole");
    return 0;
}
