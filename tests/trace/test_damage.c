/* test_damage.c - damaged files through the readers: bits flipped, parts cut, zeroed, doubled and
 * spliced. With the checksums as they fall, and with checksums put right (as one who means harm
 * would). It proves that no reader crashes, and that what one gives is sound: fuzz_recording()
 * aborts else. A sanitizer build makes it strict. test_damage COUNT FILE...   COUNT damaged copies
 * in all */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int fuzz_raw_one(const uint8_t *data, size_t n);
int fuzz_sealed_one(const uint8_t *data, size_t n);

static uint64_t seed = 88172645463325252u;
static uint64_t roll(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return n ? seed % n : 0;
}

enum { MOST = 1 << 20, FILES = 16 };

static size_t load(const char *path, uint8_t *to)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    size_t n = fread(to, 1, MOST / 2, f);
    fclose(f);
    return n;
}

static size_t damage(uint8_t *d, size_t n, const uint8_t *other, size_t m)
{
    for (uint64_t k = 1 + roll(4); k && n > 16; k--) {
        size_t at = roll(n), len = 1 + roll(n - at < 4096 ? n - at : 4096);
        switch (roll(8)) {
        case 0: n = at; break; /* torn */
        case 1: memset(d + at, 0, len); break;
        case 2: /* cut out */
            memmove(d + at, d + at + len, n - at - len);
            n -= len;
            break;
        case 3: /* of another file, or of this one, over it */
            if (m > len)
                memcpy(d + at, other + roll(m - len), len);
            break;
        case 4: /* put in */
            if (n + len < MOST && m > len) {
                memmove(d + at + len, d + at, n - at);
                memcpy(d + at, other + roll(m - len), len);
                n += len;
            }
            break;
        case 5: { /* a number of a head becomes another */
            static const uint64_t values[] = {0,          1,          0x7f,       0xffff,
                                              0x10000,    0x7fffffff, 0x80000000, 0xffffffff,
                                              UINT64_MAX, 0x100000};
            uint64_t v = values[roll(10)];
            memcpy(d + at / 4 * 4, &v, n - at / 4 * 4 < 4 ? n - at / 4 * 4 : 4);
            break;
        }
        default: d[at] ^= (uint8_t)(1u << roll(8)); break;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t work[MOST], files[FILES][MOST / 2];
    size_t sizes[FILES];
    int count = argc > 2 ? atoi(argv[1]) : 0, n = argc - 2;
    if (count <= 0 || n > FILES)
        return 2;
    for (int i = 0; i < n; i++)
        sizes[i] = load(argv[2 + i], files[i]);
    for (int i = 0; i < count; i++) {
        int k = i % n, other = (int)roll((uint64_t)n);
        memcpy(work, files[k], sizes[k]);
        size_t bytes = damage(work, sizes[k], files[other], sizes[other]);
        if (roll(3))
            fuzz_recording(work, bytes);
        else if (roll(2))
            fuzz_raw_one(work, bytes);
        else
            fuzz_sealed_one(work, bytes);
    }
    printf("%d damaged files\n", count);
    return 0;
}
