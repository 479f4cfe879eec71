/* thread.c - Starts a thread with all signals blocked and with a stack that is large enough, and
 * counts the processors that this process may use. */
#include "thread.h"

#include <sched.h>
#include <signal.h>

/* With `ulimit -s unlimited` a thread has 2 MB by default. */
static void reserve_stack(pthread_attr_t *attributes)
{
    size_t bytes = 0;
    if (pthread_attr_getstacksize(attributes, &bytes) || bytes < THREAD_STACK_BYTES)
        (void)pthread_attr_setstacksize(attributes, THREAD_STACK_BYTES);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    reserve_stack(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(thread, &attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

unsigned thread_processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n > 1 ? (unsigned)n : 1;
}
