/* sized.c - malloc and free of SIZE bytes, over and over; a word at each end is written. argv:
 * PAIRS SIZE. */
#include <stdint.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    size_t size = argc > 2 ? strtoull(argv[2], NULL, 10) : 1 << 20;
    for (uint64_t i = 0; i < n; i++) {
        volatile char *p = malloc(size);
        if (!p)
            return 1;
        p[0] = 1;
        p[size - 1] = 1;
        free((void *)p);
    }
    return 0;
}
