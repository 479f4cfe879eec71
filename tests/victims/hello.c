/* hello.c - the smallest program that allocates; built statically and as setuid too. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    char *p = malloc(100);
    snprintf(p, 100, "hello %s %d\n", argc > 1 ? argv[1] : "world", argc);
    fputs(p, stdout);
    free(p);
    return 33;
}
