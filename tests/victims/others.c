/* others.c - a program that gives blocks of malloc's to the functions that tcmalloc and mimalloc
 * have besides.
 *
 *   all WAY ROUNDS     every such function that is there, on a block of each size, with contents,
 *                      zeros, alignment and failure checked. WAY: dlsym, or bound (mi_free and
 *                      tc_free only, by weak references). Prints how many functions that were
 *   twice NAME         releases a block by NAME, and again
 *
 * Linked with neither: they are there when they are preloaded. Exits with 2 when they are not. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mi_free(void *) __attribute__((weak));
void tc_free(void *) __attribute__((weak));

enum { ALIGN = 64, LARGEST = 4000 };
typedef uint64_t function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Arguments: p the block, s its size, n the new one, 1 a count, a an alignment, h a heap, 0.
 * does: v releases, z measures, r resizes, c resizes and clears, f resizes or releases, e in place.
 */
static const struct {
    const char *name, *arguments;
    char does;
} others[] = {
    {"mi_free", "p", 'v'},
    {"mi_cfree", "p", 'v'},
    {"mi_free_size", "ps", 'v'},
    {"mi_free_size_aligned", "psa", 'v'},
    {"mi_free_aligned", "pa", 'v'},
    {"tc_free", "p", 'v'},
    {"tc_cfree", "p", 'v'},
    {"tc_free_sized", "ps", 'v'},
    {"tc_delete", "p", 'v'},
    {"tc_delete_nothrow", "p0", 'v'},
    {"tc_delete_sized", "ps", 'v'},
    {"tc_delete_aligned", "pa", 'v'},
    {"tc_delete_aligned_nothrow", "pa0", 'v'},
    {"tc_delete_sized_aligned", "psa", 'v'},
    {"tc_deletearray", "p", 'v'},
    {"tc_deletearray_nothrow", "p0", 'v'},
    {"tc_deletearray_sized", "ps", 'v'},
    {"tc_deletearray_aligned", "pa", 'v'},
    {"tc_deletearray_aligned_nothrow", "pa0", 'v'},
    {"tc_deletearray_sized_aligned", "psa", 'v'},
    {"mi_usable_size", "p", 'z'},
    {"mi_malloc_size", "p", 'z'},
    {"mi_malloc_usable_size", "p", 'z'},
    {"tc_malloc_size", "p", 'z'},
    {"MallocExtension_GetAllocatedSize", "p", 'z'},
    {"mi_realloc", "pn", 'r'},
    {"mi_new_realloc", "pn", 'r'},
    {"tc_realloc", "pn", 'r'},
    {"mi_reallocf", "pn", 'f'},
    {"mi_reallocn", "p1n", 'r'},
    {"mi_reallocarray", "p1n", 'r'},
    {"mi_new_reallocn", "p1n", 'r'},
    {"mi_rezalloc", "pn", 'c'},
    {"mi_recalloc", "p1n", 'c'},
    {"mi_aligned_recalloc", "p1na", 'c'},
    {"mi_aligned_offset_recalloc", "p1na0", 'c'},
    {"mi_realloc_aligned", "pna", 'r'},
    {"mi_realloc_aligned_at", "pna0", 'r'},
    {"mi_rezalloc_aligned", "pna", 'c'},
    {"mi_rezalloc_aligned_at", "pna0", 'c'},
    {"mi_recalloc_aligned", "p1na", 'c'},
    {"mi_recalloc_aligned_at", "p1na0", 'c'},
    {"mi_heap_realloc", "hpn", 'r'},
    {"mi_heap_reallocn", "hp1n", 'r'},
    {"mi_heap_reallocf", "hpn", 'f'},
    {"mi_heap_rezalloc", "hpn", 'c'},
    {"mi_heap_recalloc", "hp1n", 'c'},
    {"mi_heap_realloc_aligned", "hpna", 'r'},
    {"mi_heap_realloc_aligned_at", "hpna0", 'r'},
    {"mi_heap_rezalloc_aligned", "hpna", 'c'},
    {"mi_heap_rezalloc_aligned_at", "hpna0", 'c'},
    {"mi_heap_recalloc_aligned", "hp1na", 'c'},
    {"mi_heap_recalloc_aligned_at", "hp1na0", 'c'},
    {"mi_expand", "pn", 'e'},
    {"mi__expand", "pn", 'e'},
};
#define COUNT (sizeof others / sizeof *others)

static unsigned now; /* which of them */

static void need(int yes, const char *what)
{
    if (!yes) {
        fprintf(stderr, "wrong: %s: %s\n", others[now].name, what);
        exit(1);
    }
}

static function *find(const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    function *f;
    memcpy(&f, &p, sizeof f);
    return f;
}

static uint64_t heap;

static uint64_t call(function *f, const void *p, uint64_t size, uint64_t to)
{
    uint64_t a[6] = {0};
    for (unsigned i = 0; others[now].arguments[i]; i++)
        switch (others[now].arguments[i]) {
        case 'p': a[i] = (uintptr_t)p; break;
        case 's': a[i] = size; break;
        case 'n': a[i] = to; break;
        case '1': a[i] = 1; break;
        case 'a': a[i] = ALIGN; break;
        case 'h': a[i] = heap; break;
        default: break;
        }
    return f(a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void holds(const uint8_t *p, uint64_t from, uint64_t to, int v)
{
    for (uint64_t i = from; i < to; i++)
        need(p[i] == v, v ? "contents" : "zeros");
}

/* Zeros behind it, so that functions that clear may rely on them; aligned where that is asked for,
 * which a function that resizes keeps. */
static uint8_t *make(uint64_t size, int v)
{
    uint8_t *p = strchr(others[now].arguments, 'a') ? memalign(ALIGN, size) : malloc(size);
    need(p != 0, "memory");
    size_t usable = malloc_usable_size(p);
    __asm__(
        ""
        : "+r"(p)); // memset under _FORTIFY_SOURCE=3 must not know that size alone was asked for
    memset(p, 0, usable);
    return memset(p, v, size);
}

static void resize(function *f, uint64_t size, uint64_t to)
{
    const char does = others[now].does;
    const int v = 1 + (int)(size % 250), throws = !strncmp(others[now].name, "mi_new", 6);
    uint8_t *p = make(size, v);
    if (size % 5 == 0 && !throws && others[now].name[0] == 'm') {
        need(!call(f, p, size, (uint64_t)INT64_MAX - 4096), "so much");
        if (does == 'f') /* it is gone */
            return;
        holds(p, 0, size, v);
    }
    uint8_t *q = (uint8_t *)(uintptr_t)call(f, p, size, to);
    need(q != 0, "a block");
    holds(q, 0, size < to ? size : to, v);
    if (does == 'c' && to > size)
        holds(q, size, to, 0);
    if (strchr(others[now].arguments, 'a'))
        need((uintptr_t)q % ALIGN == 0, "alignment");
    memset(q, 7, to);
    free(q);
}

static void use(function *f, uint64_t size, uint64_t to)
{
    uint8_t *p, *q;
    switch (others[now].does) {
    case 'v': call(f, make(size, 9), size, 0); break;
    case 'z':
        p = make(size, 9);
        need(call(f, p, 0, 0) >= size, "size");
        free(p);
        break;
    case 'e':
        p = make(size, 9);
        need(call(f, p, 0, 100 * size) == 0, "that it does not fit");
        q = (uint8_t *)(uintptr_t)call(f, p, 0, size / 2 + 1);
        need(!q || q == p, "the same place");
        holds(p, 0, size, 9);
        free(p);
        break;
    default: resize(f, size, to);
    }
}

int main(int argc, char **argv)
{
    unsigned found = 0;
    if (argc < 3)
        return 3;
    if (!strcmp(argv[1], "twice")) {
        function *f = find(argv[2]);
        char *p = malloc(100);
        if (!f)
            return 2;
        f((uintptr_t)p, 100, 0, 0, 0, 0);
        f((uintptr_t)p, 100, 0, 0, 0, 0);
        return 0;
    }
    function *get = find("mi_heap_get_default");
    const unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 100;
    heap = get ? get(0, 0, 0, 0, 0, 0) : 0;
    if (!strcmp(argv[2], "bound")) {
        void (*release)(void *) = mi_free ? mi_free : tc_free;
        for (unsigned i = 0; release && i < rounds; i++)
            release(memset(malloc(1 + i), 1, 1 + i));
        puts("done");
        return release ? 0 : 2;
    }
    for (now = 0; now < COUNT; now++) {
        function *f = find(others[now].name);
        found += f != 0;
        for (unsigned i = 0; f && i < rounds; i++)
            use(f, 1 + i * 37 % LARGEST, 1 + i * 53 % LARGEST);
    }
    printf("%u\n", found);
    return found ? 0 : 2;
}
