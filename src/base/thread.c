#include "thread.h"

#include <sched.h>
#include <signal.h>

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

unsigned thread_processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n > 1 ? (unsigned)n : 1;
}
