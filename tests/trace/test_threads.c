/* test_threads.c - several threads read what one reads, from whole files and from files with a few
 * bytes changed. Its checks stand in fuzz_threads(), which aborts where the two differ. For
 * ThreadSanitizer as well: no checksum is put right, so most damage is a block that cannot be read.
 *   test_threads FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* Less damage of each file where a sanitizer makes it slow: the files take turns at places as
 * before. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { MOST = 64 << 20, DAMAGED = 4 };
#else
enum { MOST = 64 << 20, DAMAGED = 12 };
#endif

int main(int argc, char **argv)
{
    uint64_t seed = 88172645463325252u;
    uint8_t *data = malloc(MOST);
    if (!data || argc < 2)
        return 2;
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        const size_t n = fread(data, 1, MOST, f);
        fclose(f);
        if (!n)
            return 1;
        fuzz_threads(data, n);
        for (unsigned k = 0; k < DAMAGED; k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            const size_t at = seed % n;
            data[at] ^= 0x10;
            fuzz_threads(data, n);
            if (k % 2) /* every second damage stays */
                data[at] ^= 0x10;
        }
    }
    free(data);
    return 0;
}
