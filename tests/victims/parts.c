/* parts.c - calls from one function after the other, so that what a recording names changes with
 * time: for recordings that are cut.
 *   parts CALLS [PROCESSES [THREADS]]   each of PROCESSES (one forks the next, half way) makes
 * CALLS calls in each of THREADS, one thread after the other */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile keep[64];

#define PHASE(NAME, SIZE)                                                                          \
    static __attribute__((noinline)) void NAME(unsigned i)                                         \
    {                                                                                              \
        free(keep[i % 64]);                                                                        \
        keep[i % 64] = malloc((SIZE) + i % 48);                                                    \
    }
PHASE(phase_spring, 16)
PHASE(phase_summer, 100)
PHASE(phase_autumn, 400)
PHASE(phase_winter, 3000)

static unsigned calls, processes, threads;

static void *some_calls(void *phases)
{
    static void (*const phase[])(unsigned) = {phase_spring, phase_summer, phase_autumn,
                                              phase_winter};
    unsigned from = (unsigned)(uintptr_t)phases & 3, to = (unsigned)(uintptr_t)phases >> 2;
    for (unsigned k = from; k < to; k++)
        for (unsigned i = 0; i < calls / 8; i++)
            phase[k](i);
    return NULL;
}

static int in_threads(unsigned from, unsigned to)
{
    void *phases = (void *)(uintptr_t)(from | to << 2);
    some_calls(phases);
    for (unsigned i = 1; i < threads; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, some_calls, phases) || pthread_join(t, NULL))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    calls = argc > 1 ? (unsigned)atoi(argv[1]) : 300;
    processes = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    for (unsigned i = 1;; i++) {
        if (in_threads(0, 2))
            return 1;
        pid_t child = i < processes ? fork() : -2;
        if (!child)
            continue;
        int status = 0;
        if (in_threads(2, 4) || child == -1 || (child > 0 && waitpid(child, &status, 0) != child))
            return 1;
        return status != 0;
    }
}
