/* pooled.c - a program whose blocks all come from one function of its own: 10 of 100 bytes for
 * parse, 5 of 300 for draw, or as many more as argv says. They stay. */
#include <stdlib.h>

#include "../victims/apart.h"

static void *volatile last;

APART static void pool_get(size_t bytes) { last = malloc(bytes); }

APART static void pool_many(size_t bytes, int n)
{
    for (int i = 0; i < n; i++)
        pool_get(bytes);
    last = NULL;
}

APART static void parse(int more)
{
    pool_many(100, 10 + more);
    last = NULL;
}

APART static void draw(int more)
{
    pool_many(300, 5 + more);
    last = NULL;
}

int main(int argc, char **argv)
{
    const int more = argc > 1 ? atoi(argv[1]) : 0;
    parse(more);
    draw(more);
    return 0;
}
