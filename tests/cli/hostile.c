/* A program whose names a test replaces by hostile ones: allocates, and leaves some of it. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) void *name_of_a_function_that_is_replaced(size_t n);
void *name_of_a_function_that_is_replaced(size_t n)
{
    char *p = malloc(n);
    if (p)
        p[0] = 1;
    return p;
}

int main(int argc, char **argv)
{
    static void *volatile kept[100];
    (void)argv;
    for (int i = 0; i < 100; i++)
        kept[i] = name_of_a_function_that_is_replaced(100000);
    for (int i = 0; i < 50; i++)
        free(kept[i]);
    while (argc > 1)
        pause();
    return 0;
}
