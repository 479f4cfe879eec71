/* two_allocators.c - a program with two allocators, as a Rust program with tikv-jemallocator that
 * links C libraries: its own blocks are those of a prefixed jemalloc, the others libc's. Waits for
 * a line at its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *_rjem_malloc(size_t n);
void *_rjem_malloc(size_t n)
{
    static char memory[8 << 20];
    static size_t used;
    n = (n + 31) & ~(size_t)15;
    return used + n > sizeof memory ? 0 : memory + (used += n) - n;
}

int main(void)
{
    static void *kept[100];
    for (int i = 0; i < 50; i++)
        memset(_rjem_malloc(100000), 1, 100000);
    for (int i = 0; i < 100; i++)
        kept[i] = memset(malloc(1000), 1, 1000);
    puts("ready");
    fflush(stdout);
    getchar();
    return kept[99] ? 0 : 1;
}
