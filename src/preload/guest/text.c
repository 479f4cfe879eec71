/* text.c - memory and text, by functions of our own under libc's names, which end in this library.
 *
 * A program may define memcpy, strlen and their like, and its own are then called in place of
 * libc's by every library: they may allocate, fail or take their time. The compiler calls four of
 * them by itself. The fences are no instruction: they keep it from making a call of a loop. None of
 * these calls another by its name, which the compiler may take for a third. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* glibc 2.43 has macros of these names, which keep the const of an argument. */
#undef memchr
#undef strchr
#undef strpbrk
#undef strrchr
#undef strstr

#define APART() __atomic_signal_fence(__ATOMIC_SEQ_CST)

typedef struct {
    uint64_t low, high;
} __attribute__((may_alias, packed)) pair;
typedef uint64_t word __attribute__((may_alias, aligned(1)));

static inline void *copy(void *restrict to, const void *restrict from, size_t n)
{
    char *t = to;
    const char *f = from;
    for (; n >= 16; n -= 16, t += 16, f += 16) {
        APART();
        *(pair *)t = *(const pair *)f;
    }
    if (n & 8) {
        *(word *)t = *(const word *)f;
        t += 8, f += 8;
    }
    for (n &= 7; n; n--) {
        APART();
        *t++ = *f++;
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n) { return copy(to, from, n); }

void *memmove(void *to, const void *from, size_t n)
{
    char *t = to;
    const char *f = from;
    if ((uintptr_t)t - (uintptr_t)f >= n)
        return copy(to, from, n);
    for (; n & 7; n--) {
        APART();
        t[n - 1] = f[n - 1];
    }
    for (; n; n -= 8) {
        APART();
        *(word *)(t + n - 8) = *(const word *)(f + n - 8);
    }
    return to;
}

static inline void *fill_bytes(void *to, int c, size_t n)
{
    char *t = to;
    const uint64_t all = 0x0101010101010101u * (uint8_t)c;
    for (; n >= 16; n -= 16, t += 16) {
        APART();
        *(pair *)t = (pair){all, all};
    }
    for (; n; n--) {
        APART();
        *t++ = (char)c;
    }
    return to;
}

void *memset(void *to, int c, size_t n) { return fill_bytes(to, c, n); }

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (; n; n--, x++, y++) {
        APART();
        if (*x != *y)
            return *x - *y;
    }
    return 0;
}

static inline size_t bounded_length(const char *s, size_t most)
{
    size_t n = 0;
    for (; n < most && s[n]; n++)
        APART();
    return n;
}

size_t strnlen(const char *s, size_t most) { return bounded_length(s, most); }
size_t strlen(const char *s) { return bounded_length(s, SIZE_MAX); }

static inline int compare_bytes(const char *a, const char *b, size_t n)
{
    for (; n && *a && *a == *b; n--, a++, b++)
        APART();
    return n ? (unsigned char)*a - (unsigned char)*b : 0;
}

int strncmp(const char *a, const char *b, size_t n) { return compare_bytes(a, b, n); }
int strcmp(const char *a, const char *b) { return compare_bytes(a, b, SIZE_MAX); }

static inline char *copy_text(char *restrict to, const char *restrict from)
{
    for (; (*to = *from); to++, from++)
        APART();
    return to;
}

char *stpcpy(char *restrict to, const char *restrict from) { return copy_text(to, from); }

char *strcpy(char *restrict to, const char *restrict from)
{
    (void)copy_text(to, from);
    return to;
}

char *strncpy(char *restrict to, const char *restrict from, size_t n)
{
    const size_t used = bounded_length(from, n);
    copy(to, from, used);
    fill_bytes(to + used, 0, n - used);
    return to;
}

char *strrchr(const char *s, int c)
{
    const char *found = NULL;
    for (;; s++) {
        APART();
        if (*s == (char)c)
            found = s;
        if (!*s)
            return (char *)(uintptr_t)found;
    }
}

static size_t span(const char *s, const char *set, bool in)
{
    size_t n = 0;
    for (; s[n]; n++) {
        const char *c = set;
        while (*c && *c != s[n])
            c++;
        if ((*c != 0) != in)
            break;
    }
    return n;
}

size_t strspn(const char *s, const char *accept) { return span(s, accept, true); }
size_t strcspn(const char *s, const char *reject) { return span(s, reject, false); }

char *strstr(const char *s, const char *sought)
{
    const size_t n = bounded_length(sought, SIZE_MAX);
    for (; compare_bytes(s, sought, n) != 0; s++)
        if (!*s)
            return NULL;
    return (char *)(uintptr_t)s;
}
