/* split.c - holds known amounts of each kind of memory, says "ready", and ends after a byte: 20 MiB
 * in the program break, 12 MiB in a thread's arena, 30 MiB in one mapped block, 6 MiB of a thread's
 * stack, 8 MiB shared. All of it is there until the end. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1u << 20)

static pthread_barrier_t ready;
static void *volatile keep;

static void many(size_t bytes)
{
    for (size_t n = 0; n < bytes; n += 1024) {
        void *p = malloc(1000);
        memset(p, 1, 1000);
        keep = p;
    }
}

static void deep(void)
{
    volatile char here[6 * MIB];
    for (size_t i = 0; i < sizeof here; i += 512)
        here[i] = 1;
}

static void *work(void *arg)
{
    many(12 * MIB);
    deep();
    pthread_barrier_wait(&ready);
    while (pause())
        ;
    return arg;
}

int main(void)
{
    many(20 * MIB);
    char *block = malloc(30 * MIB);
    memset(block, 1, 30 * MIB);
    char *shared = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, 8 * MIB);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_t t;
    pthread_create(&t, NULL, work, NULL);
    pthread_barrier_wait(&ready);
    char c;
    if (write(1, "ready\n", 6) != 6 || read(0, &c, 1) < 0)
        return 1;
    return 0;
}
