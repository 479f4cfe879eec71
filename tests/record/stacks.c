/* stacks.c - stacks of threads that lie side by side in one mapping, as all do since glibc 2.43:
 * these have no guards. Eight threads, of which one makes a call, have used 1 MiB each of their 2;
 * two have ended, and their stacks wait for others, without their pages. Behind the first stack are
 * 16 MiB that the program mapped, of which it touches 4. Says "ready" and how many neighbors there
 * are, and ends after a byte. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB     (1u << 20)
#define THREADS 10

static pthread_barrier_t barrier;
static void *volatile keep[THREADS];

static void deep(void)
{
    volatile char here[MIB];
    for (size_t i = 0; i < sizeof here; i += 512)
        here[i] = 1;
}

static void *work(void *arg)
{
    const size_t number = (size_t)arg;
    deep();
    if (number == 7)
        keep[number] = malloc(100);
    pthread_barrier_wait(&barrier);
    while (number < 8 && pause())
        ;
    return arg;
}

int main(void)
{
    char *own = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return 1;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 2 * MIB);
    pthread_attr_setguardsize(&attr, 0);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    void *lowest = own;
    size_t bytes, together = 0;
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], &attr, work, (void *)i))
            return 1;
        pthread_attr_t has;
        void *stack;
        if (pthread_getattr_np(threads[i], &has) || pthread_attr_getstack(&has, &stack, &bytes))
            return 1;
        pthread_attr_destroy(&has);
        together += (char *)stack + bytes == lowest;
        lowest = stack;
    }
    pthread_barrier_wait(&barrier);
    pthread_join(threads[8], NULL);
    pthread_join(threads[9], NULL);
    madvise(own, 16 * MIB, MADV_NOHUGEPAGE); /* as Linux has stacks: then they are one mapping */
    if (mprotect(own, 16 * MIB, PROT_READ | PROT_WRITE))
        return 1;
    memset(own, 1, 4 * MIB);
    if (printf("ready %zu\n", together) < 0 || fflush(stdout))
        return 1;
    char c;
    return read(0, &c, 1) < 0;
}
