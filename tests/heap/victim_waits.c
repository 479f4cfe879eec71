/* victim_waits.c - threads that wait in every way and threads that compute, all of which look for
 * what should not be seen: an interrupted call, a register that changed, a child.
 *
 * Usage: victim_waits [seccomp | killed]. At the end of its input it prints "errors N" and the
 * first error. With seccomp a filter kills the process when it forks. With killed all waits are
 * such that begin again when mallow is killed, which epoll_wait and sigtimedwait do not; a copy of
 * the process may then stay as a zombie that only a wait with __WALL sees. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int errors, ended, rounds;
static bool killed;
static char what[256];

static void wrong(const char *text)
{
    if (!errors++)
        snprintf(what, sizeof what, "%s: %s", text, strerror(errno));
}

static void *wait_epoll(void *arg)
{
    struct epoll_event e;
    int fd = epoll_create1(0);
    (void)arg;
    while (!ended)
        if (epoll_wait(fd, &e, 1, 30) != 0)
            wrong("epoll_wait");
    return NULL;
}

static void *wait_sleep(void *arg)
{
    const struct timespec t = {.tv_nsec = 20000000};
    struct timespec from, to;
    (void)arg;
    while (!ended) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (nanosleep(&t, NULL))
            wrong("nanosleep");
        clock_gettime(CLOCK_MONOTONIC, &to);
        if ((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec < t.tv_nsec)
            wrong("nanosleep too short");
        rounds++;
    }
    return NULL;
}

static void *wait_poll(void *arg)
{
    struct timeval t;
    (void)arg;
    while (!ended) {
        if (poll(NULL, 0, 20) != 0)
            wrong("poll");
        t = (struct timeval){.tv_usec = 20000};
        if (select(0, NULL, NULL, NULL, &t) != 0)
            wrong("select");
    }
    return NULL;
}

static void *wait_others(void *arg)
{
    sem_t sem;
    sigset_t set;
    struct timespec t;
    const struct timespec brief = {.tv_nsec = 20000000};
    (void)arg;
    sem_init(&sem, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    while (!ended) {
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 20000000;
        if (t.tv_nsec >= 1000000000) {
            t.tv_nsec -= 1000000000;
            t.tv_sec++;
        }
        if (sem_timedwait(&sem, &t) != -1 || errno != ETIMEDOUT)
            wrong("sem_timedwait");
        if (!killed && (sigtimedwait(&set, NULL, &brief) != -1 || errno != EAGAIN))
            wrong("sigtimedwait");
    }
    return NULL;
}

static double compute(void)
{
    double x = 1.0, y = 0.5;
    for (int i = 0; i < 20000; i++) {
        x = x * 1.0000001 + y;
        y = y * 0.9999999 + 1.0 / (x + i);
    }
    return x + y;
}

static void *work(void *arg)
{
    const double is = compute();
    (void)arg;
    while (!ended) {
        if (compute() != is)
            wrong("a computation");
        void *p = malloc(1000), *q = malloc(200000);
        free(p);
        free(q);
    }
    return NULL;
}

static void on_child(int number)
{
    (void)number;
    wrong("SIGCHLD");
}

static void forbid_forks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(1);
}

int main(int argc, char **argv)
{
    static void *(*all[])(void *) = {wait_epoll, wait_sleep, wait_poll, wait_others, work};
    pthread_t ids[sizeof all / sizeof *all];
    sigset_t set;
    char byte;
    killed = argc > 1 && !strcmp(argv[1], "killed");
    if (killed)
        all[0] = all[4] = wait_sleep;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, on_child);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (pthread_create(&ids[i], NULL, all[i], NULL))
            return 1;
    if (argc > 1 && !strcmp(argv[1], "seccomp"))
        forbid_forks();
    puts("ready");
    fflush(stdout);
    ssize_t n;
    struct pollfd input = {0, POLLIN, 0};
    while (killed && poll(&input, 1, 100000) != 1) /* the thread that is borrowed */
        wrong("poll");
    while ((n = read(0, &byte, 1)) > 0)
        ;
    if (n)
        wrong("read");
    ended = 1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pthread_join(ids[i], NULL);
    if (waitpid(-1, NULL, 0) != -1 || errno != ECHILD)
        wrong("a child");
    if (!killed && (waitpid(-1, NULL, 0x40000000 | WNOHANG) != -1 || errno != ECHILD))
        wrong("a child that no wait sees");
    printf("errors %d %s\n", errors, what);
    return errors != 0;
}
