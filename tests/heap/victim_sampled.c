/* victim_sampled.c - a program that holds 2,000 blocks by a list and leaks 1,000, once it reads a
 * line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../victims/apart.h"

struct node {
    struct node *next;
    char body[1000];
};
static struct node *kept_list;

APART static void *holds_here(void) { return malloc(sizeof(struct node)); }
APART static void *leaks_here(void) { return malloc(3000); }

static void work(void)
{
    for (int i = 0; i < 2000; i++) {
        struct node *n = holds_here();
        memset(n, 0, sizeof *n);
        n->next = kept_list;
        kept_list = n;
    }
    for (int i = 0; i < 1000; i++)
        memset(leaks_here(), 1, 3000);
}

/* No word of a block stays on the stack or in registers. */
static void forget(void)
{
    volatile char room[16384];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
}

int main(void)
{
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    work();
    forget();
    puts("done");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) ? 0 : 1;
}
