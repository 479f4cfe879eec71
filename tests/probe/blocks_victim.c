/* blocks_victim.c - blocks whose pages it touches in known numbers, each way in a function of its
 * own; prints getrusage's minor faults at the start of main and at the end, and how much anonymous
 * memory is resident then, which is when it is largest.
 *   blocks_victim          alone
 *   blocks_victim fork     and a child, which writes to pages that it shares */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"

enum {
    PAGE = 4096,
    TOUCHED = 600,
    WHOLE = 1000,
    SMALL = 2000,
    SMALL_BYTES = 2032,
    MAPPED = 50,
    COPIED = 70
};

/* So that a function does not jump to malloc, but calls it. */
#define STAYS(p) __asm__ volatile("" : : "r"(p) : "memory")

static APART char *make_touched(void)
{
    char *p = malloc((size_t)WHOLE * PAGE);
    STAYS(p);
    return p;
}

static APART char *make_untouched(void)
{
    char *p = malloc((size_t)WHOLE * PAGE);
    STAYS(p);
    return p;
}

static APART char *make_small(void)
{
    char *p = malloc(SMALL_BYTES);
    STAYS(p);
    return p;
}

static APART char *make_mapping(void)
{
    char *p = mmap(NULL, MAPPED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    return p;
}

static void touch(char *p, int pages)
{
    for (int i = 0; i < pages; i++)
        p[(size_t)i * PAGE] = 1;
}

static long anonymous(void)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Anonymous: %ld", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb * 1024;
}

int main(int argc, char **argv)
{
    static char *small[SMALL];
    struct rusage before, u;
    getrusage(RUSAGE_SELF, &before);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    char *touched = make_touched(), *untouched = make_untouched(), *mapping = make_mapping();
    touch(touched, TOUCHED);
    touch(mapping, MAPPED);
    for (int i = 0; i < SMALL; i++) {
        small[i] = make_small();
        memset(small[i], 1, SMALL_BYTES);
    }
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t child = fork();
        if (child == 0) {
            touch(touched, COPIED);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    long bytes = anonymous();
    getrusage(RUSAGE_SELF, &u);
    printf("%ld %ld %ld\n", before.ru_minflt, u.ru_minflt, bytes);
    for (int i = 0; i < SMALL; i++)
        free(small[i]);
    free(touched);
    free(untouched);
    return 0;
}
