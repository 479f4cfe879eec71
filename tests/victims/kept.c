/* kept.c - writes one byte behind a block of SIZE bytes (or before it: OFFSET) that is never freed,
 * and ends. argv: SIZE OFFSET ENDING. The function spoiled is where the block is made. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apart.h"

static char *volatile block;
static volatile int *volatile nowhere = (volatile int *)8;

static APART char *spoiled(size_t size, long offset)
{
    char *p = malloc(size);
    memset(p, 1, size);
    *(volatile char *)(p + offset) = 7;
    return p;
}

static void *make_and_free(void *stop)
{
    while (!*(volatile int *)stop)
        free(malloc(100));
    return NULL;
}

static void end(const char *how)
{
    if (!strcmp(how, "return"))
        return;
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick_exit"))
        quick_exit(0);
    if (!strcmp(how, "exec"))
        execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(how, "segv"))
        *nowhere = 1;
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "assert"))
        assert(!how);
    if (!strcmp(how, "signal")) { /* ours is not to be seen */
        struct sigaction a;
        if (sigaction(SIGABRT, NULL, &a) || a.sa_handler != SIG_DFL || a.sa_flags)
            _exit(4);
        if (signal(SIGABRT, SIG_IGN) != SIG_DFL || signal(SIGABRT, SIG_DFL) != SIG_IGN)
            _exit(5);
        kill(getpid(), SIGABRT);
    }
    if (!strcmp(how, "aborted"))
        kill(getpid(), SIGABRT);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "fork")) {
        const pid_t child = fork();
        free(malloc(100));
        if (!child)
            _exit(0);
        waitpid(child, NULL, 0);
        return;
    }
    if (!strcmp(how, "threads")) {
        static volatile int stop;
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&t[i], NULL, make_and_free, (void *)&stop);
        usleep(1000);
        _exit(0);
    }
    exit(3);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    block = spoiled((size_t)atol(argv[1]), atol(argv[2]));
    end(argv[3]);
    return 0;
}
