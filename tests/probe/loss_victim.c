/* loss_victim.c - more events or stacks than there is room for, in known numbers, one thing for
 * each: faults   touches pages ROUNDS times over; says how many faults getrusage counted, and how
 *            many bytes lie behind the address that was said first
 *   calls    PAIRS times malloc and free; says how many calls that were
 *   child    the same, by a child; the process itself only waits for it
 *   stacks   LEAVES times malloc, each with a stack of its own; says how many calls that were
 * Waits for a byte before and after, and nothing else happens in between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"

enum { PAGE = 4096, PAGES = 1000, ROUNDS = 250, PAIRS = 150000, LEAVES = 70000, DEPTH = 17 };

#define STAYS(p) __asm__ volatile("" : : "r"(p) : "memory")

static void wait_byte(void)
{
    char c;
    if (read(STDIN_FILENO, &c, 1) != 1)
        exit(1);
}

static long faults(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt + u.ru_majflt;
}

static long touch(char *p)
{
    const long before = faults();
    for (int round = 0; round < ROUNDS; round++) {
        madvise(p, (size_t)PAGES * PAGE, MADV_DONTNEED);
        for (int i = 0; i < PAGES; i++)
            p[(size_t)i * PAGE] = 1;
    }
    return faults() - before;
}

static void call(void)
{
    for (int i = 0; i < PAIRS; i++) {
        void *p = malloc(100);
        STAYS(p);
        free(p);
    }
}

static int leaves;

/* Goes to the left and to the right, and each leaf of the tree is another way to malloc. */
static APART void branch(int depth)
{
    if (leaves == LEAVES)
        return;
    if (depth == DEPTH) {
        void *p = malloc(100);
        STAYS(p);
        leaves++;
        return;
    }
    branch(depth + 1);
    STAYS(&leaves);
    branch(depth + 1);
    STAYS(&leaves);
}

int main(int argc, char **argv)
{
    char text[128];
    int n = 0;
    char *p = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED || madvise(p, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE) || argc < 2)
        return 1;
    /* What is done later is done once, so that all code and data of it are there. */
    snprintf(text, sizeof text, "done %ld %d\n", faults(), PAGES * PAGE);
    snprintf(text, sizeof text, "ready %p\n", (void *)p);
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        return 1;
    wait_byte();
    const pid_t child = !strcmp(argv[1], "child") ? fork() : 0;
    if (child)
        return waitpid(child, NULL, 0) != child;
    if (!strcmp(argv[1], "faults"))
        n = snprintf(text, sizeof text, "done %ld %d\n", touch(p), PAGES * PAGE);
    else if (!strcmp(argv[1], "stacks")) {
        branch(0);
        n = snprintf(text, sizeof text, "done %d %d\n", leaves, 0);
    } else {
        call();
        n = snprintf(text, sizeof text, "done %ld %d\n", 2L * PAIRS, 0);
    }
    if (write(STDOUT_FILENO, text, (size_t)n) != n)
        return 1;
    wait_byte();
    return 0;
}
