/* A program whose call sites have known names: FIRST makes 100 blocks of 1000 bytes, SECOND one of
 * 1001. With an argument it goes on with FIRST until it is killed. Built twice, with the names
 * exchanged: the same size, no build-id, and other names at the same places. */
#include <stdlib.h>
#include <unistd.h>

char *table_of_program[500];
void *FIRST(int n), *SECOND(int n);

__attribute__((noinline)) void *FIRST(int n) { return malloc((size_t)n); }
__attribute__((noinline)) void *SECOND(int n) { return malloc((size_t)n + 1); }

int main(int argc, char **argv)
{
    (void)argv;
    for (int i = 0; i < 100; i++)
        table_of_program[i] = FIRST(1000);
    table_of_program[100] = SECOND(1000);
    if (argc > 1 && write(1, "\n", 1) != 1)
        return 1;
    if (argc <= 1)
        return 0;
    for (int i = 0;; i = (i + 1) % 100) {
        free(table_of_program[i]);
        table_of_program[i] = FIRST(1000);
        usleep(1000);
    }
}
