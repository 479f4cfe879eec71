/* api.c - every function of the allocation API, a known number of times. The truth of each mode
 * stands in tests/truth/test_api.py. Prints nothing but what it could not do. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void free_sized(void *p, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *p, size_t alignment, size_t size) __attribute__((weak));

#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x);                                 \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

static void *volatile keep[4096];
static volatile size_t huge = PTRDIFF_MAX;

/* Each function of the malloc family, a number of times that differs from every other's. */
static void counts(void)
{
    void *p;
    for (int i = 0; i < 101; i++)
        keep[i] = malloc(10 + (size_t)i); /* 10..110: sum 6060 */
    for (int i = 0; i < 101; i++)
        free(keep[i]);
    for (int i = 0; i < 53; i++)
        free(keep[0] = calloc(7, 11)); /* 77 each */
    p = NULL;
    for (int i = 1; i <= 37; i++)
        p = realloc(p, (size_t)i * 100); /* 100..3700: sum 70300 */
    free(p);
    p = NULL;
    for (int i = 1; i <= 31; i++)
        p = reallocarray(p, (size_t)i, 30); /* 30..930: sum 14880 */
    free(p);
    for (int i = 0; i < 29; i++) {
        MUST(posix_memalign(&p, 64, 200) == 0 && ((uintptr_t)p & 63) == 0);
        free(p);
    }
    for (int i = 0; i < 23; i++) {
        p = aligned_alloc(128, 256);
        MUST(p && ((uintptr_t)p & 127) == 0);
        free(p);
    }
    for (int i = 0; i < 19; i++) {
        p = memalign(32, 333);
        MUST(p && ((uintptr_t)p & 31) == 0);
        free(p);
    }
    for (int i = 0; i < 17; i++) {
        p = valloc(55);
        MUST(p && ((uintptr_t)p & 4095) == 0);
        free(p);
    }
    for (int i = 0; i < 13; i++) {
        p = pvalloc(4097);
        MUST(p && ((uintptr_t)p & 4095) == 0);
        free(p);
    }
    for (int i = 0; i < 11; i++) {
        p = malloc(64);
        if (free_sized)
            free_sized(p, 64);
        else
            free(p);
    }
    for (int i = 0; i < 7; i++) {
        p = aligned_alloc(64, 192);
        if (free_aligned_sized)
            free_aligned_sized(p, 64, 192);
        else
            free(p);
    }
    p = malloc(40);
    for (int i = 0; i < 5; i++)
        MUST(malloc_usable_size(p) >= 40);
    free(p);
    for (int i = 0; i < 3; i++)
        free(NULL);
}

/* mmap 4 (one of them mmap64, one failed), munmap 3 (one failed), mremap 3 (one failed), brk, sbrk.
 */
static void maps(void)
{
    char *a = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *b = mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(a != MAP_FAILED && b != MAP_FAILED);
    MUST(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
         errno == EINVAL);
    char *c = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(c != MAP_FAILED);
    a = mremap(a, 8 * 4096, 64 * 4096, MREMAP_MAYMOVE);
    MUST(a != MAP_FAILED);
    a = mremap(a, 64 * 4096, 2 * 4096, 0);
    MUST(a != MAP_FAILED);
    errno = 0;
    MUST(mremap(a + 1, 4096, 8192, 0) == MAP_FAILED && errno == EINVAL);
    MUST(munmap(a, 2 * 4096) == 0);
    MUST(munmap(b, 4096) == 0);
    MUST(munmap(c + 1, 4096) == -1 && errno == EINVAL);
    char *now = sbrk(0);
    MUST(now != (void *)-1);
    MUST(sbrk(65536) == now);
    memset(now, 1, 65536);
    MUST(brk(now) == 0);
    MUST(sbrk(0) == now);
    /* fixed placement: an address of the program's own choosing comes back */
    char *d = mmap(NULL, 4 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(mmap(d + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
         d + 4096);
    char *e = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(mremap(e, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, d + 8192) == d + 8192);
    MUST(munmap(d, 4 * 4096) == 0);
}

/* Calls that must fail just as they do without mallow: result and errno. */
static void failures(void)
{
    void *p, *q = (void *)&p;
    errno = 0;
    MUST(malloc(huge) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(malloc(huge + 1) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(calloc(huge, 4) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(calloc(1, huge) == NULL && errno == ENOMEM);
    p = malloc(1000);
    strcpy(p, "untouched");
    errno = 0;
    MUST(realloc(p, huge) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(reallocarray(p, huge, 4) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(reallocarray(p, huge, 1) == NULL && errno == ENOMEM);
    MUST(strcmp(p, "untouched") == 0);
    errno = 5;
    MUST(posix_memalign(&q, 3, 10) == EINVAL && q == (void *)&p && errno == 5);
    MUST(posix_memalign(&q, 0, 10) == EINVAL && q == (void *)&p);
    MUST(posix_memalign(&q, 16, huge) == ENOMEM && q == (void *)&p);
    errno = 0;
    MUST(aligned_alloc(64, huge) == NULL && errno == ENOMEM);
    errno = 0;
    volatile size_t no_power = SIZE_MAX / 2 + 2; /* a constant is refused by some compilers */
    MUST(memalign(no_power, 10) == NULL && errno == EINVAL);
    errno = 0;
    MUST(valloc(huge) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(pvalloc(huge) == NULL && errno == ENOMEM);
    errno = 77;
    free(p);
    MUST(errno == 77);
    errno = 78;
    free(NULL);
    p = malloc(1);
    MUST(errno == 78);
    free(p);
    MUST(errno == 78);
    MUST(malloc_usable_size(NULL) == 0);
}

/* 1 MB at the peak: 1000 blocks of 1000 B, of which 750 are freed, then 100 of 500 B. */
static void peak(void)
{
    for (int i = 0; i < 1000; i++)
        keep[i] = malloc(1000);
    for (int i = 0; i < 750; i++)
        free(keep[i]);
    for (int i = 0; i < 100; i++)
        keep[i] = malloc(500);
}

/* realloc in all its roles. */
static void reallocs(void)
{
    char *p = realloc(NULL, 100); /* a malloc */
    MUST(p);
    p = realloc(p, 100);     /* nothing moves */
    p = realloc(p, 50);      /* shrinks */
    p = realloc(p, 5000000); /* its own mapping now */
    memset(p, 5, 5000000);
    p = realloc(p, 9000000); /* mremap inside glibc */
    MUST(p[0] == 5 && p[4999999] == 5);
    MUST(realloc(p, 0) == NULL); /* a free */
    p = realloc(NULL, 0);        /* a malloc(0) */
    MUST(p);
    free(p);
    p = malloc(10);
    keep[0] = realloc(p, 300000); /* stays */
    keep[1] = malloc(0);          /* a block of 0 bytes stays */
}

/* Temporary: 10 freed at once; 10 freed after one more allocation (not temporary) whose own block
 * is then freed at once... no: that one is freed with the next allocation between as well. */
static void temporary(void)
{
    for (int i = 0; i < 10; i++) {
        keep[0] = malloc(24);
        free(keep[0]); /* temporary */
    }
    for (int i = 0; i < 10; i++)
        keep[i] = malloc(24);
    for (int i = 0; i < 10; i++)
        free(keep[i]); /* the last of them is temporary: nothing was allocated after it */
    keep[0] = malloc(1);
    keep[1] = malloc(2);
    free(keep[0]); /* not temporary */
    free(keep[1]); /* temporary */
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "counts"))
            counts();
        else if (!strcmp(argv[i], "maps"))
            maps();
        else if (!strcmp(argv[i], "failures"))
            failures();
        else if (!strcmp(argv[i], "peak"))
            peak();
        else if (!strcmp(argv[i], "reallocs"))
            reallocs();
        else if (!strcmp(argv[i], "temporary"))
            temporary();
        else
            return 2;
    }
    return 0;
}
