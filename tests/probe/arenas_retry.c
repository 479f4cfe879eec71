/* No memory is to be had: malloc fails 3 times, calloc 2 times, aligned_alloc once, and each has
 * asked another arena first. With one thread glibc asks no other. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void *sleep_on(void *arg)
{
    pause();
    return arg;
}

int main(void)
{
    enum { BYTES = 100000 }; /* below the mmap threshold */
    pthread_t thread;
    void *volatile made;
    unsigned failed = 0;
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    if (pthread_create(&thread, NULL, sleep_on, NULL))
        return 2;
    setrlimit(RLIMIT_AS, &(struct rlimit){1, 1});
    while (failed < 3)
        failed += !(made = malloc(BYTES));
    for (int i = 0; i < 2; i++)
        failed += !(made = calloc(BYTES, 1));
    failed += !(made = aligned_alloc(64, BYTES));
    return failed == 6 ? 0 : 1;
}
