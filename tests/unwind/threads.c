/* threads.c - random call paths in many threads at once, generations of threads that hand their
 * state on, and a fork in the middle: one trie for all of them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "host.h"

#define THREADS 4
#define ROUNDS  6

static unsigned paths = 600;

static void *work(void *argument)
{
    unsigned from = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < paths; i++)
        random_calls(from + i, 25);
    return 0;
}

static void generation(unsigned round)
{
    pthread_t t[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], 0, work, (void *)(uintptr_t)(round * 100 + i * 50)) != 0)
            abort();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], 0);
}

/* A state that was used on one thread's stack serves the next one. */
static struct unwind_thread *handed;
static void *take_over(void *argument)
{
    (void)argument;
    unwind_thread_reset(handed);
    host_adopt(handed);
    random_calls(7, 25);
    random_calls(8, 25);
    random_calls(7, 25);
    return 0;
}

int main(void)
{
    host_init();
    for (unsigned r = 0; r < ROUNDS; r++)
        generation(r);
    generation(0); /* what slipped through while a table grew is there now */
    uint32_t before = host_nodes();
    generation(0); /* nothing new: every node is found */
    if (host_nodes() != before) {
        fprintf(stderr, "%u nodes became %u though nothing was new\n", before, host_nodes());
        return 1;
    }
    handed = unwind_thread_new();
    for (unsigned i = 0; i < 20; i++) {
        pthread_t t;
        if (!handed || pthread_create(&t, 0, take_over, 0) != 0)
            return 1;
        pthread_join(t, 0);
    }
    fflush(0);
    pid_t child = fork();
    if (child == 0) {
        uint32_t known = host_nodes();
        for (unsigned i = 0; i < 300; i++)
            random_calls(90000 + i, 25);
        if (host_nodes() <= known)
            _exit(2);
        generation(77);
        _exit(host_verdict(1000));
    }
    generation(99);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the child of the fork ended with %#x\n", status);
        return 1;
    }
    return host_verdict(20000) || host_truncations();
}
