/* scripted.c - figures that a script asks for, known beforehand.
 *
 *   mark "start"
 *   2^LEVELS blocks of BLOCK bytes from as many call stacks, all kept
 *   mark "done"
 *   TOUCHED bytes, touched, held until standard input ends, and released; its process id is printed
 *   when they are there
 *   SHORT temporary blocks */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../victims/apart.h"
#include "mallow.h"

enum { LEVELS = 11, BLOCK = 48, SHORT = 500, TOUCHED = 24 << 20 };

void *kept[1 << LEVELS];
static int count;
void *volatile last;

static APART void branch(int depth)
{
    if (depth == LEVELS) {
        kept[count++] = malloc(BLOCK);
        return;
    }
    branch(depth + 1);
    __asm__ volatile("");
    branch(depth + 1);
    __asm__ volatile("");
}

static APART void hold(void)
{
    char byte, pid[16];
    last = malloc(TOUCHED);
    memset(last, 1, TOUCHED);
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (write(1, pid, (size_t)n) != n)
        abort();
    while (read(0, &byte, 1) > 0)
        ;
    free(last);
}

static APART void temporary(void)
{
    for (int i = 0; i < SHORT; i++) {
        last = malloc(16);
        free(last);
    }
}

int main(void)
{
    mallow_mark("start");
    branch(0);
    mallow_mark("done");
    hold();
    temporary();
    return 0;
}
