/* jemalloc.c - a program that uses jemalloc's own API when it is there, beside malloc's.
 *
 *   present                 which names can be seen: by weak reference, by dlsym
 *   mixed WAY ROUNDS        blocks made by either API and released by either, with their contents
 *                           checked. WAY: weak, dlsym, plugin (a module loaded in the middle)
 *   truth WAY               calls whose number and sizes are known, from functions with known names
 *
 * Linked with no jemalloc: it is there when it is preloaded. Exits with 2 when it is not. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEAK __attribute__((weak))
void *mallocx(size_t, int) WEAK;
void *rallocx(void *, size_t, int) WEAK;
size_t xallocx(void *, size_t, size_t, int) WEAK;
size_t sallocx(const void *, int) WEAK;
void dallocx(void *, int) WEAK;
void sdallocx(void *, size_t, int) WEAK;

struct api {
    void *(*mallocx)(size_t, int);
    void *(*rallocx)(void *, size_t, int);
    size_t (*xallocx)(void *, size_t, size_t, int);
    size_t (*sallocx)(const void *, int);
    void (*dallocx)(void *, int);
    void (*sdallocx)(void *, size_t, int);
};

#define ZERO     0x40
#define ALIGN(n) __builtin_ctz(n)

static void need(int yes, const char *what)
{
    if (!yes) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

static struct api find(const char *way, const char *directory)
{
    struct api a = {mallocx, rallocx, xallocx, sallocx, dallocx, sdallocx};
    if (!strcmp(way, "dlsym")) {
#define FIND(f) a.f = (__typeof__(a.f))(uintptr_t)dlsym(RTLD_DEFAULT, #f)
        FIND(mallocx);
        FIND(rallocx);
        FIND(xallocx);
        FIND(sallocx);
        FIND(dallocx);
        FIND(sdallocx);
    } else if (!strcmp(way, "plugin")) {
        char path[4096];
        snprintf(path, sizeof path, "%s/plug_jemalloc.so", directory);
        void *handle = a.mallocx ? dlopen(path, RTLD_NOW) : 0;
        const void *const *table = handle ? dlsym(handle, "plug_jemalloc") : 0;
        if (table)
            memcpy(&a, table, sizeof a);
    }
    if (!a.mallocx || !a.rallocx || !a.xallocx || !a.sallocx || !a.dallocx || !a.sdallocx)
        exit(2);
    return a;
}

static void *filled(void *p, size_t n, int v)
{
    need(p != 0, "memory");
    return memset(p, v, n);
}

static void check(const uint8_t *p, size_t n, int v)
{
    for (size_t i = 0; i < n; i++)
        need(p[i] == v, "contents");
}

static void mixed(const struct api *a, unsigned rounds)
{
    for (unsigned k = 0; k < rounds; k++) {
        const size_t n = 16 + k * 37 % 3000;
        uint8_t *p = filled(malloc(n), n, 1), *q = filled(a->mallocx(n, 0), n, 2);
        uint8_t *z = a->mallocx(n, ZERO | ALIGN(256)), *c = calloc(1, n);
        need(z && (uintptr_t)z % 256 == 0, "alignment");
        check(z, n, 0);
        need(a->sallocx(p, 0) >= n && a->sallocx(q, 0) >= n, "sallocx");
        need(a->xallocx(p, n, 0, 0) >= n, "xallocx");
        p = a->rallocx(p, n + 500, ALIGN(64));
        need(p && (uintptr_t)p % 64 == 0, "alignment of rallocx");
        check(p, n, 1);
        q = realloc(q, 2 * n);
        need(q != 0, "memory");
        check(q, n, 2);
        a->sdallocx(p, n + 500, ALIGN(64));
        a->dallocx(q, 0);
        free(z);
        a->sdallocx(c, n, 0);
        q = filled(malloc(n), n, 3);
        k % 2 ? a->sdallocx(q, n, 0) : a->dallocx(q, 0);
    }
}

/* 100 x 1000 bytes by mallocx, aligned to 64; 50 of them resized to 3000; 30 + 20 + 50 freed. */
__attribute__((noinline)) static void by_mallocx(const struct api *a, void **v)
{
    for (int i = 0; i < 100; i++)
        v[i] = a->mallocx(1000, ALIGN(64));
}

__attribute__((noinline)) static void by_rallocx(const struct api *a, void **v)
{
    for (int i = 0; i < 50; i++)
        v[i] = a->rallocx(v[i], 3000, 0);
}

static void truth(const struct api *a)
{
    void *v[100], *m = malloc(777), *x = a->mallocx(5000, ZERO);
    by_mallocx(a, v);
    by_rallocx(a, v);
    need(a->xallocx(x, 4500, 0, 0) >= 4500, "xallocx to less"); /* of one size class with 5000 */
    need(a->xallocx(x, 1 << 20, 0, 0) < 1 << 20, "xallocx to much"); /* fails */
    for (int i = 0; i < 30; i++)
        a->sdallocx(v[i], 3000, 0);
    for (int i = 30; i < 50; i++)
        a->dallocx(v[i], 0);
    for (int i = 50; i < 90; i++)
        free(v[i]);
    a->sdallocx(m, 777, 0);
    /* live at the end: 10 x 1000, and x with 4500 */
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "present")) {
        printf("weak %d%d%d%d%d%d dlsym %d\n", !!mallocx, !!rallocx, !!xallocx, !!sallocx,
               !!dallocx, !!sdallocx, !!dlsym(RTLD_DEFAULT, "mallocx"));
        return 0;
    }
    if (argc < 3)
        return 3;
    char *slash = strrchr(argv[0], '/');
    if (slash)
        *slash = 0;
    const struct api a = find(argv[2], argv[0]);
    if (!strcmp(argv[1], "mixed"))
        mixed(&a, argc > 3 ? (unsigned)atoi(argv[3]) : 1000);
    else
        truth(&a);
    puts("done");
    return 0;
}
