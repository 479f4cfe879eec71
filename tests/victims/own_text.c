/* own_text.c - a program that defines memcpy, strlen and clock_gettime itself, as fault injectors,
 * libfaketime and some runtimes do. They allocate and set errno, which malloc and free never do
 * when they succeed; a library that calls them inside malloc comes back to itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int depth;
static unsigned long entered;

static void enter(void)
{
    if (++depth > 100) {
        static const char text[] = "endless\n";
        (void)!write(2, text, sizeof text - 1);
        _exit(99);
    }
    entered++;
    free(malloc(24));
    errno = EDOM;
    depth--;
}

#define OPAQUE(p) __asm__ volatile("" : "+r"(p))

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    enter();
    for (size_t i = 0; i < n; i++) {
        OPAQUE(to);
        ((char *)to)[i] = ((const char *)from)[i];
    }
    return to;
}

void *memset(void *to, int c, size_t n)
{
    enter();
    for (size_t i = 0; i < n; i++) {
        OPAQUE(to);
        ((char *)to)[i] = (char)c;
    }
    return to;
}

size_t strlen(const char *s)
{
    size_t n = 0;
    enter();
    for (; s[n]; n++)
        OPAQUE(s);
    return n;
}

int strcmp(const char *a, const char *b)
{
    enter();
    for (; *a && *a == *b; a++, b++)
        OPAQUE(a);
    return (unsigned char)*a - (unsigned char)*b;
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    enter();
    const int r = (int)syscall(SYS_clock_gettime, clock, to);
    to->tv_sec += 1000000000; /* as a faked clock */
    return r;
}

int main(void)
{
    for (size_t i = 0; i < 1000; i++) {
        errno = 0;
        void *p = realloc(malloc(100 + i), 3000 + i);
        free(p);
        if (errno)
            return 3;
    }
    entered = 0;
    errno = 0;
    free(malloc(100));
    return entered ? 4 : errno ? 5 : 0;
}
