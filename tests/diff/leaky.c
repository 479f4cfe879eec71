/* A program with a known leak, and, built with -DFIXED, the same with it mended: other addresses,
 * other line numbers, otherwise the same calls. */
#include <stdlib.h>
#include <string.h>

#include "../victims/apart.h"

static void *volatile table[64];

#ifdef FIXED
/* Moves what comes behind it, in the file and in memory. */
APART static size_t padding(size_t n)
{
    volatile size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += i * i + (i ^ sum);
    for (size_t i = 0; i < n; i++)
        sum -= i * 3 + (i | sum);
    return sum;
}
#endif

APART static char *copy(const char *text)
{
    char *p = malloc(strlen(text) + 1);
    return p ? strcpy(p, text) : NULL;
}

APART static void keep_some(void)
{
    for (size_t i = 0; i < 64; i++)
        table[i] = malloc(1000);
}

APART static size_t parse(int line)
{
    char *key = copy("a key of the table");
    char *value = copy("the value that belongs to it");
    size_t n = value ? strlen(value) + (size_t)line : 0;
    free(value);
#ifdef FIXED
    free(key);
#else
    __asm__ volatile("" : : "r"(key));
#endif
    return n;
}

int main(void)
{
    size_t n = 0;
    keep_some();
#ifdef FIXED
    n += padding(100);
#endif
    for (int i = 0; i < 500; i++)
        n += parse(i);
    for (size_t i = 0; i < 32; i++)
        free(table[i]);
    return n == 0;
}
