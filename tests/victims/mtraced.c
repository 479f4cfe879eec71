/* mtraced.c - fifty blocks, traced by mtrace(3), which does something where libc_malloc_debug.so is
 * preloaded alone. With an argument: waits for a line before, and writes behind a block after,
 * which MALLOC_CHECK_ finds. */
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static void *volatile p;
    (void)argv;
    mtrace();
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    for (int i = 0; i < 50; i++) {
        p = malloc(100 + (size_t)i);
        free(p);
    }
    muntrace();
    if (argc > 1) {
        char *volatile q = malloc(24);
        /* the byte behind depends on the address: one constant is it, one time in 256 */
        q[24] = q[24] ? 0 : 'x';
        free(q);
        puts("not found");
    }
    return 0;
}
