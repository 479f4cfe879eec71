/* attach_victim.c - calls of the allocator in known numbers, around a byte that it waits for: what
 * comes before, nobody sees who attaches then. Ends at a second byte, or at the end of its input;
 * with the argument "exec" it becomes /bin/true instead. Linked statically, too. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BEFORE = 100,
    KEPT = 1000,
    FREED = 400,
    GROWN = 50,
    CLEARED = 30,
    ALIGNED = 20,
    THREADS = 4,
    EACH = 250
};
#define APART    __attribute__((noipa)) /* nor is one of them another */
#define STAYS(p) __asm__ volatile("" : "+r"(p) : : "memory")

static APART void *make_before(void)
{
    void *p = malloc(64);
    STAYS(p);
    return p;
}

static APART void *make_kept(void)
{
    void *p = malloc(100);
    STAYS(p);
    return p;
}

static APART void *make_cleared(void)
{
    void *p = calloc(10, 300);
    STAYS(p);
    return p;
}

static APART void *make_grown(void *old, size_t bytes)
{
    void *p = realloc(old, bytes);
    STAYS(p);
    return p;
}

static APART void *make_aligned(void)
{
    void *p = NULL;
    if (posix_memalign(&p, 256, 5000))
        exit(1);
    STAYS(p);
    return p;
}

static void *make_pairs(void *arg)
{
    for (int i = 0; i < EACH; i++) {
        void *p = malloc(1000);
        STAYS(p);
        free(p);
    }
    return arg;
}

static int next_byte(void)
{
    char c;
    return read(STDIN_FILENO, &c, 1) == 1;
}

int main(int argc, char **argv)
{
    static void *before[BEFORE], *kept[KEPT];
    pthread_t t[THREADS];
    for (int i = 0; i < BEFORE; i++)
        before[i] = make_before();
    if (!next_byte())
        return 1;
    for (int i = 0; i < KEPT; i++)
        kept[i] = make_kept();
    for (int i = 0; i < FREED; i++)
        free(kept[i]);
    for (int i = 0; i < BEFORE; i++)
        free(before[i]);
    void *grown = NULL;
    for (int i = 1; i <= GROWN; i++)
        grown = make_grown(grown, (size_t)i * 3000);
    for (int i = 0; i < CLEARED; i++)
        free(make_cleared());
    for (int i = 0; i < ALIGNED; i++)
        free(make_aligned());
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, make_pairs, NULL))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    if (write(STDOUT_FILENO, "done\n", 5) != 5)
        return 1;
    next_byte();
    if (argc > 1 && !strcmp(argv[1], "exec"))
        execl("/bin/true", "true", (char *)NULL);
    return 0;
}
