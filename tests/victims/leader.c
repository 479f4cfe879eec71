/* leader.c - the main thread ends; another one goes on, and allocates 1000 blocks from 5000 bytes
 * on. It begins when the main thread is gone, which its state in /proc says. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apart.h"

static int leader_is_gone(void)
{
    char text[256], path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');
    return !end || end[2] == 'Z';
}

static void *volatile sink;
APART static void *leaf(int n) { return sink = malloc((size_t)n); }

static void *outlives(void *arg)
{
    while (!leader_is_gone())
        usleep(1000);
    for (int i = 0; i < 1000; i++)
        leaf(i + 5000);
    return arg;
}

int main(void)
{
    pthread_t t;
    if (pthread_create(&t, 0, outlives, 0))
        return 1;
    pthread_exit(0);
}
