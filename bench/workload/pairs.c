/* pairs.c - malloc and free of 100 bytes, over and over: 2 events each. argv: PAIRS. */
#include <stdint.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    for (uint64_t i = 0; i < n; i++) {
        void *p = malloc(100);
        __asm__ volatile("" : "+r"(p) : : "memory");
        free(p);
    }
    return 0;
}
