/* ends.c - every way to end, after 1000 blocks of 10 B that stay. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *volatile sink;
static int *volatile nowhere;
static atomic_int waiting; /* threads that have made their blocks */
static void blocks(int n, size_t size)
{
    for (int i = 0; i < n; i++)
        sink = malloc(size);
}
static void at_end(void) { blocks(5, 20); }
static void *leaves(void *arg)
{
    blocks(3, 30);
    exit(21);
    return arg;
}
static void *waits(void *arg)
{
    blocks(3, 30);
    atomic_fetch_add(&waiting, 1);
    pause();
    return arg;
}
__attribute__((destructor)) static void destructor(void) { blocks(7, 40); }

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    blocks(1000, 10);
    printf("before");
    fflush(stdout);
    if (!strcmp(m, "return"))
        return 11;
    if (!strcmp(m, "exit")) {
        atexit(at_end);
        exit(12);
    }
    if (!strcmp(m, "_exit"))
        _exit(13);
    if (!strcmp(m, "_Exit"))
        _Exit(14);
    if (!strcmp(m, "quick_exit")) {
        at_quick_exit(at_end);
        quick_exit(15);
    }
    if (!strcmp(m, "syscall"))
        syscall(SYS_exit_group, 16);
    if (!strcmp(m, "abort"))
        abort();
    if (!strcmp(m, "segv"))
        *nowhere = 1;
    if (!strcmp(m, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(m, "term"))
        raise(SIGTERM);
    if (!strcmp(m, "thread")) {
        pthread_t t;
        pthread_create(&t, NULL, leaves, NULL);
        pthread_join(t, NULL);
    }
    if (!strcmp(m, "with-threads")) {
        pthread_t t;
        for (int i = 0; i < 4; i++)
            pthread_create(&t, NULL, waits, NULL);
        while (atomic_load(&waiting) < 4)
            usleep(1000);
        return 22;
    }
    if (!strcmp(m, "memory")) { /* until there is none, or the kernel ends it; 512 MB at most */
        for (int i = 0; i < 512; i++) {
            char *p = malloc(1 << 20);
            if (!p)
                _exit(23);
            memset(p, 1, 1 << 20);
        }
        _exit(24);
    }
    return 2;
}
