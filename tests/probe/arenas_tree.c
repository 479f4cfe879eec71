/* arenas_tree.c - two threads with arenas of their own; one of them forks, and the child grows.
 * Prints the child's pid and the sizes of its heaps, in bytes, as malloc_info(3) tells them there.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 500 };

static pthread_barrier_t barrier;
static void *volatile kept[3][BLOCKS];

static void fill(size_t who, size_t bytes)
{
    for (size_t i = 0; i < BLOCKS; i++)
        kept[who][i] = malloc(bytes);
}

static void tell(void)
{
    static char text[1 << 16], out[1 << 12];
    FILE *f = fmemopen(text, sizeof text, "w");
    malloc_info(0, f);
    fflush(f);
    size_t n = (size_t)snprintf(out, sizeof out, "%d", (int)getpid());
    static const char mark[] = "<system type=\"current\" size=\"";
    size_t count = 0;
    for (const char *p = text; (p = strstr(p, mark)) && (p += sizeof mark - 1);)
        count++;
    size_t number = 0;
    for (const char *p = text; (p = strstr(p, mark)) && (p += sizeof mark - 1); number++)
        if (number > 0 && number + 1 < count) /* the main heap, and the sum of all */
            n += (size_t)snprintf(out + n, sizeof out - n, " %lu", strtoul(p, NULL, 10));
    n += (size_t)snprintf(out + n, sizeof out - n, "\n");
    _Exit(write(1, out, n) != (ssize_t)n);
}

static void *idle(void *arg)
{
    fill(0, 1000);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return arg;
}

static void *forks(void *arg)
{
    fill(1, 3000);
    pthread_barrier_wait(&barrier);
    pid_t pid = fork();
    if (pid == 0) {
        fill(2, 2000);
        tell();
    }
    int status = 1;
    waitpid(pid, &status, 0);
    pthread_barrier_wait(&barrier);
    return status ? arg : NULL;
}

int main(void)
{
    pthread_t t[2];
    void *failed = NULL;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&t[0], NULL, idle, NULL) || pthread_create(&t[1], NULL, forks, &barrier))
        return 1;
    pthread_join(t[1], &failed);
    pthread_join(t[0], NULL);
    return failed != NULL;
}
