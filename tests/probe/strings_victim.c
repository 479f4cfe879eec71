/* strings_victim.c - what thirty functions of the C library that begin with mem or str make of some
 * texts, and what a few of the mathematical library make of some numbers. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 512 };
static char from[ROOM + 64], to[ROOM + 64];

static void fill(size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        from[i] = (char)('a' + (i * 7 + bytes) % 26);
    from[bytes] = 0;
    memset(to, 0, sizeof to);
}

static void say(const char *name, size_t bytes, long long value)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < sizeof to; i++)
        h = (h ^ (unsigned char)to[i]) * 0x100000001b3;
    printf("%s %zu %lld %016llx\n", name, bytes, value, (unsigned long long)h);
    memset(to, 0, sizeof to);
}

/* Of a pointer, where it points to. */
#define SAY_AT(name, bytes, base, at)                                                              \
    do {                                                                                           \
        const char *p_ = (const char *)(at);                                                       \
        say(name, bytes, p_ ? p_ - (base) : -1);                                                   \
    } while (0)

static void all(size_t n)
{
    char *rest = NULL, *last = NULL;
    fill(n);
    SAY_AT("memcpy", n, to, memcpy(to, from, n));
    SAY_AT("memmove", n, to, (memcpy(to, from, n), memmove(to + 3, to, n)));
    SAY_AT("mempcpy", n, to, mempcpy(to, from, n));
    SAY_AT("memccpy", n, to, memccpy(to, from, 'q', n));
    SAY_AT("memset", n, to, memset(to, 'x', n));
    SAY_AT("memchr", n, from, memchr(from, 'q', n));
    SAY_AT("memrchr", n, from, memrchr(from, 'q', n));
    SAY_AT("rawmemchr", n, from, rawmemchr(from, 0));
    SAY_AT("memmem", n, from, memmem(from, n, from + n / 2, 5));
    say("memcmp", n, (memcpy(to, from, n), to[n / 2]++, memcmp(to, from, n) > 0));
    SAY_AT("memfrob", n, to, (memcpy(to, from, n), memfrob(to, n)));
    say("strlen", n, (long long)strlen(from));
    say("strnlen", n, (long long)strnlen(from, n / 2));
    SAY_AT("strcpy", n, to, strcpy(to, from));
    SAY_AT("strncpy", n, to, strncpy(to, from, n + 5));
    SAY_AT("stpcpy", n, to, stpcpy(to, from));
    SAY_AT("strcat", n, to, (memcpy(to, "ab", 3), strcat(to, from)));
    SAY_AT("strncat", n, to, (memcpy(to, "ab", 3), strncat(to, from, n / 2)));
    SAY_AT("strchr", n, from, strchr(from, 'q'));
    SAY_AT("strrchr", n, from, strrchr(from, 'q'));
    SAY_AT("strchrnul", n, from, strchrnul(from, '?'));
    SAY_AT("strstr", n, from, strstr(from, from + n / 2));
    SAY_AT("strcasestr", n, from, strcasestr(from, "XE"));
    SAY_AT("strpbrk", n, from, strpbrk(from, "qz"));
    say("strspn", n, (long long)strspn(from, "abcdefghijklmnop"));
    say("strcspn", n, (long long)strcspn(from, "q"));
    say("strcmp", n, (memcpy(to, from, n + 1), strcmp(to, from)));
    say("strncmp", n, (memcpy(to, from, n), to[n / 2]--, strncmp(to, from, n) < 0));
    say("strcasecmp", n, (memcpy(to, from, n + 1), to[0] &= ~0x20, strcasecmp(to, from)));
    say("strncasecmp", n, (memcpy(to, from, n), strncasecmp(to, from, n)));
    say("strcoll", n, (memcpy(to, from, n), strcoll(to, from) <= 0));
    say("strxfrm", n, (long long)strxfrm(to, from, ROOM));
    SAY_AT("strtok_r", n, to, (memcpy(to, from, n), strtok_r(to, "m", &rest)));
    SAY_AT("strsep", n, to, (memcpy(to, from, n), last = to, strsep(&last, "m")));
    char *copy = strdup(from);
    say("strdup", n, copy ? strcmp(copy, from) : -1);
    free(copy);
}

/* With an argument it waits for a byte first. */
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1 && getchar() == EOF)
        return 1;
    static const size_t sizes[] = {0, 1, 7, 16, 31, 33, 64, 100, 129, 255, 300, 500};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        all(sizes[i]);
    for (volatile double x = 0.25; x < 3; x += 0.5) {
        const volatile float f = (float)x;
        printf("%.17g %.17g %.17g %.17g %.17g\n", exp(x), log(x), pow(x, 1.5), sin(x), atan(x));
        printf("%.17g %.17g %.17g %.17g\n", asin(x / 4), tan(x), atan2(x, 2.5), fma(x, x, x));
        printf("%.9g %.9g %.9g %.9g %.9g\n", exp2f(f), expf(f), logf(f), powf(f, 1.5f), sinf(f));
        printf("%.9g %.9g %.17g %.17g\n", cosf(f), log2f(f), floor(x), nearbyint(x));
    }
    return 0;
}
