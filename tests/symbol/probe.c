/* probe.c - prints its return address, for victims that are not in C or C++. */
#include <stdio.h>

extern char __executable_start;
int probe(void);

__attribute__((noinline)) int probe(void)
{
    printf("method %lx %lx\n", (unsigned long)__builtin_return_address(0),
           (unsigned long)&__executable_start);
    fflush(stdout);
    return 1;
}
