/* growing.c - a program that grows in three phases, each by another call site: 10 MB when it
 * begins, 30 MB for the first line that it reads, 60 MB for the second, and all that it is let have
 * for the third, from the same call site as those. It says "grown" after each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../victims/apart.h"

enum { BLOCK = 10000, MOST = 512 << 20 };

static char *volatile latest;

#define GROW_BY(bytes)                                                                             \
    for (size_t got = 0; got < (bytes); got += BLOCK)                                              \
    memset(latest = malloc(BLOCK), 1, BLOCK)

APART static void first_phase(void) { GROW_BY(10u << 20); }
APART static void second_phase(void) { GROW_BY(30u << 20); }
APART static void third_phase(size_t bytes) { GROW_BY(bytes); }

static int next(void)
{
    char line[16];
    puts("grown");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}

int main(void)
{
    first_phase();
    if (!next())
        return 0;
    second_phase();
    if (!next())
        return 0;
    third_phase(60u << 20);
    if (next())
        third_phase(MOST);
    return 0;
}
